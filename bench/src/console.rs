//! The web console: what its pages cost the Hub, the wire and the browser.
//!
//! `HERMES_BENCH_TENANTS`, `HERMES_BENCH_RUNS`, `HERMES_BENCH_AUDIT_ENTRIES` and `HERMES_BENCH_LOG_SECONDS` replace the numbers of a
//! full run.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::{
    environment::{Effort, Programs, RuntimeFlavour},
    hub::{hub_process::HubProcess, wire::RawConnection},
    parts::{Part, measure_parts},
    report::Report,
};

mod browser;
mod consoles;
mod pages;
mod start;

const PARTS: &[Part] = &[
    ("pages", pages::measure),
    ("first", browser::measure_first_page),
    ("log", browser::measure_log),
    ("consoles", consoles::measure),
    ("start", start::measure),
];

/// Measures one part, or all.
pub(crate) fn measure(
    programs: &Programs,
    effort: Effort,
    only: Option<&str>,
    report: &mut Report,
) -> Result<()> {
    measure_parts("the console", PARTS, programs, effort, only, report)
}

/// A number of a full run or of a quick one, unless the environment says another.
fn size(effort: Effort, variable: &str, full: usize, quick: usize) -> Result<usize> {
    match std::env::var(variable) {
        Ok(text) => text
            .parse()
            .with_context(|| format!("{variable} is not a number")),
        Err(_) if effort == Effort::Full => Ok(full),
        Err(_) => Ok(quick),
    }
}

/// Pages that forms and tabs lead to. Of searches, those that find nothing cost most.
const FORM_PAGES: [&str; 6] = [
    "/audit?actor=nobody",
    "/events?type=tenant.created",
    "/policy?tab=specialization",
    "/tenants?label=division%3Dnone",
    "/tenants?search=nobody",
    "/usage?by=tenant",
];

/// Somebody who is signed in.
#[derive(Clone)]
struct ConsoleReader {
    port: u16,
    cookie: String,
}

impl ConsoleReader {
    /// Signs in with the token of a Hub.
    fn sign_in(hub: &HubProcess) -> Result<Self> {
        let body = format!("token={}", hub.token);
        let port = hub.port;
        let request = format!(
            "POST /sign-in HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\norigin: http://127.0.0.1:{port}\r\n\
             sec-fetch-site: same-origin\r\ncontent-type: application/x-www-form-urlencoded\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        let cookie = RuntimeFlavour::OneThread.run(async move {
            let mut connection = RawConnection::open(port).await?;
            let reply = connection.exchange(request.as_bytes()).await?;
            ensure!(reply.status == 303, "sign-in answers {}", reply.status);
            reply.cookie.context("sign-in sets no cookie")
        })?;
        Ok(Self { port, cookie })
    }

    fn request(&self, path: &str) -> Vec<u8> {
        format!(
            "GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{}\r\ncookie: {}\r\naccept-encoding: gzip, br, zstd\r\n\r\n",
            self.port, self.cookie
        )
        .into_bytes()
    }

    /// A page as text, or nothing if it is not a page that can be shown.
    fn read(&self, path: &str) -> Result<Option<String>> {
        let request = String::from_utf8(self.request(path))?;
        let request = request.replace("accept-encoding: gzip, br, zstd\r\n", "");
        let port = self.port;
        RuntimeFlavour::OneThread.run(async move {
            let mut connection = RawConnection::open(port).await?;
            let reply = connection.exchange(request.as_bytes()).await?;
            let text = String::from_utf8_lossy(reply.body).into_owned();
            Ok((reply.status == 200 && text.contains("<html")).then_some(text))
        })
    }

    /// One page of each kind that is linked, from the overview on, and those of forms.
    fn find_pages(&self) -> Result<Vec<String>> {
        let mut waiting = vec!["/".to_owned()];
        waiting.extend(FORM_PAGES.map(str::to_owned));
        let (mut kinds, mut pages) = (BTreeSet::new(), Vec::new());
        while let Some(address) = waiting.pop() {
            if !kinds.insert(page_kind(&address)) {
                continue;
            }
            let Some(text) = self.read(&address)? else {
                continue;
            };
            let links = text.split(" href=\"").skip(1);
            let links = links.filter_map(|rest| rest.split('"').next());
            let links = links.filter(|link| link.starts_with('/') && !link.starts_with("/assets"));
            waiting.extend(links.map(|link| {
                let link = link.split('#').next().unwrap_or_default();
                link.replace("&#38;", "&").replace("&amp;", "&")
            }));
            pages.push(address);
        }
        pages.sort();
        Ok(pages)
    }
}

/// An address without what differs between pages of one kind.
fn page_kind(address: &str) -> String {
    let (path, query) = address.split_once('?').unwrap_or((address, ""));
    let mut parts: Vec<&str> = path.split('/').collect();
    for place in [2, 4] {
        if parts.len() > place {
            parts[place] = "*";
        }
    }
    let names = query.split('&').map(|pair| pair.split('=').next());
    let names: BTreeSet<&str> = names.flatten().collect();
    format!("{}?{names:?}", parts.join("/"))
}

/// Runs a script of this folder in Node, with its browser, and returns the JSON that it prints.
fn run_script(name: &str, argument: &Value) -> Result<Value> {
    let packages = std::env::var_os("HERMES_TEST_OAUTH")
        .context("`scripts/equipment install npm-oauth browser` first")?;
    let node = PathBuf::from(packages).join("node/bin/node");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/console");
    let output = Command::new(node)
        .arg(script.join(name))
        .arg(argument.to_string())
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()?;
    ensure!(output.status.success(), "{name} failed");
    serde_json::from_slice(&output.stdout).with_context(|| format!("{name} printed no JSON"))
}

#[cfg(test)]
mod tests {
    use super::page_kind;

    #[test]
    fn pages_of_a_kind_differ_in_names_and_values_only() {
        let same = [
            ("/tenants/a/runs/1", "/tenants/b/runs/2"),
            ("/tenants/a", "/tenants/b"),
            ("/runs?status=a&x=1", "/runs?x=2&status=b"),
        ];
        for (one, other) in same {
            assert_eq!(page_kind(one), page_kind(other));
        }
        assert_ne!(page_kind("/tenants"), page_kind("/tenants/a"));
        assert_ne!(page_kind("/tenants/a/runs"), page_kind("/tenants/a/mcp"));
        assert_ne!(page_kind("/runs"), page_kind("/runs?status=a"));
    }
}
