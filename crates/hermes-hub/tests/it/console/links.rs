//! Every page that is linked answers, for whoever sees the link.

use std::collections::BTreeSet;

use hermes_hub::operations::{HttpMethod, table};
use serde_json::json;

use super::{ConsoleBrowser, ConsolePage, conversations::add_conversation};
use crate::test_hub::TestHub;

/// More than this is a page that makes up addresses.
const MAX_PAGES: usize = 400;

/// A link with other values of the query is another page, but one of each kind is enough.
fn page_kind(address: &str) -> String {
    let (path, query) = address.split_once('?').unwrap_or((address, ""));
    let names: BTreeSet<&str> = query
        .split('&')
        .map(|pair| pair.split('=').next().unwrap_or_default())
        .collect();
    let names: Vec<&str> = names.into_iter().collect();
    format!("{path}?{}", names.join("&"))
}

/// Reads the overview and whatever it links to, and so on.
pub(super) async fn crawl_pages(browser: &ConsoleBrowser) -> Vec<ConsolePage> {
    let mut seen = BTreeSet::new();
    let mut waiting = vec!["/".to_owned()];
    let mut pages = Vec::new();
    while let Some(address) = waiting.pop() {
        if !seen.insert(page_kind(&address)) {
            continue;
        }
        assert!(seen.len() < MAX_PAGES, "no end of pages: {seen:?}");
        let page = browser.get(&address).await;
        if page.is_html() {
            waiting.extend(page.links());
        }
        pages.push(page);
    }
    pages
}

impl ConsolePage {
    pub(super) fn is_html(&self) -> bool {
        let kind = self.headers.get("content-type");
        kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/html"))
    }

    fn has_path(&self, path: &str) -> bool {
        self.address.split('?').next() == Some(path)
    }
}

/// The addresses of all pages, with `{name}` for values, by the table of pages.
fn page_paths() -> Vec<&'static str> {
    let rows = include_str!("../../../src/console/pages.rs").split("page!(");
    let paths = rows.filter_map(|row| row.trim_start().strip_prefix('"')?.split('"').next());
    paths.collect()
}

/// Whether a page lies at an address with `{name}` for values.
fn is_at(page: &ConsolePage, path: &str) -> bool {
    let address = page.address.split('?').next().unwrap_or_default();
    let (here, there): (Vec<&str>, Vec<&str>) =
        (address.split('/').collect(), path.split('/').collect());
    let is_same = |(part, wanted): (&&str, &&str)| wanted.starts_with('{') || part == wanted;
    here.len() == there.len() && here.iter().zip(&there).all(is_same)
}

async fn hub_with_everything() -> TestHub {
    let hub = TestHub::new().await.with_examples().await;
    add_conversation(&hub, "tenant_123", "Where is the invoice?").await;
    // Of events that never come: nothing is sent.
    let hook = json!({"url": "https://example.org/hook", "events": ["quota.near"]});
    hub.post("/v1/webhooks", &hook).await.expect(201);
    let skill = "---\nname: minutes\ndescription: Writes minutes.\n---\nListen.\n";
    let skill = json!({"files": [{"path": "SKILL.md", "content": skill}]});
    hub.put("/v1/skills/minutes", &skill).await.expect(201);
    hub.tenant(json!({"id": "other", "displayName": "Other"}))
        .await;
    let run = json!({"input": "hello"});
    let runs = "/v1/tenants/tenant_123/runs";
    hub.post(runs, &run).await.expect(202);
    hub
}

#[track_caller]
fn assert_all_answer(role: &str, pages: &[ConsolePage]) {
    let failed: Vec<String> = pages
        .iter()
        .filter(|page| page.status != 200)
        .map(|page| format!("{} {}", page.status, page.address))
        .collect();
    assert!(failed.is_empty(), "{role}: {failed:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_link_that_a_role_sees_answers() {
    let hub = hub_with_everything().await;
    for role in ["admin", "operator", "viewer"] {
        let browser = ConsoleBrowser::with_rights(&hub, json!({"role": role})).await;
        let pages = crawl_pages(&browser).await;
        assert_all_answer(role, &pages);
        for path in ["/", "/tenants", "/tenants/other", "/tenants/tenant_123"] {
            let found = pages.iter().any(|page| page.has_path(path));
            assert!(found, "{role}: no link to {path}");
        }
        if role == "admin" {
            let mut paths = page_paths();
            assert!(paths.len() > 30, "{paths:?}");
            paths.retain(|path| !pages.iter().any(|page| is_at(page, path)));
            assert!(paths.is_empty(), "no link to {paths:?}");
        }
    }
}

/// The forms of a page that take something away: their operations, and where they are in it.
fn removals(page: &ConsolePage) -> Vec<(&str, usize)> {
    let mark = "action=\"/do/";
    let forms = page.text.match_indices(mark).filter_map(|(at, _)| {
        let name = page.text[at + mark.len()..].split('"').next()?;
        let operation = table().find(name)?;
        (operation.method() == HttpMethod::Delete).then_some((name, at))
    });
    let blocks = page.text.match_indices("value=\"blocked\">");
    let blocks = blocks.filter(|(at, _)| {
        let before = &page.text[..*at];
        before.rfind("<button") > before.rfind("<option")
    });
    forms
        .chain(blocks.map(|(at, _)| ("set_tenant_access", at)))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_takes_something_away_is_folded_and_says_what_it_does() {
    let hub = hub_with_everything().await;
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let mut seen = BTreeSet::new();
    for page in crawl_pages(&admin).await {
        if !page.is_html() || page.has_path("/docs") {
            continue;
        }
        for (operation, at) in removals(&page) {
            let place = format!("{operation} on {}", page.address);
            let (before, after) = page.text.split_at(at);
            let opened = before.matches("<details").count();
            let closed = before.matches("</details>").count();
            assert!(opened > closed, "one click: {place}");
            let begin = before.rfind("<form").unwrap_or_default();
            let end = at + after.find("</form>").unwrap_or(after.len());
            let form = &page.text[begin..end];
            assert!(form.contains("<p>"), "without a sentence: {place}: {form}");
            seen.insert(operation.to_owned());
        }
    }
    for operation in [
        "delete_group",
        "delete_library_skill",
        "delete_mcp_server",
        "delete_tenant",
        "delete_tenant_cron",
        "delete_webhook",
        "end_console_session",
        "remove_member",
        "revoke_token",
        "set_tenant_access",
    ] {
        assert!(seen.contains(operation), "{operation} is not in {seen:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_of_one_tenant_finds_no_page_of_another() {
    let hub = hub_with_everything().await;
    let rights = json!({"role": "admin", "tenants": ["tenant_123"]});
    let browser = ConsoleBrowser::with_rights(&hub, rights).await;
    let pages = crawl_pages(&browser).await;
    assert_all_answer("tenant-bound", &pages);
    for page in &pages {
        let address = &page.address;
        assert!(!address.starts_with("/tenants/other"), "{address}");
        page.assert_lacks("/tenants/other");
    }
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let others = crawl_pages(&admin).await;
    let others = others
        .iter()
        .filter(|page| page.address.starts_with("/tenants/other"));
    for page in others {
        let seen = browser.get(&page.address).await;
        assert_eq!(seen.status, 404, "{}", page.address);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_without_a_session_leads_to_the_sign_in_and_from_there_back() {
    let hub = TestHub::new().await;
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let pages = crawl_pages(&admin).await;
    for page in pages.iter().filter(|page| page.is_html()) {
        if page.has_path("/sign-in") || page.has_path("/docs") {
            continue;
        }
        let request = hub.client.get(format!("{}{}", hub.url, page.address));
        let asked = admin.send(request).await;
        let address = &page.address;
        assert!(asked.address.starts_with("/sign-in"), "{address}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_page_forbids_what_it_does_not_bring_and_is_not_kept() {
    let hub = hub_with_everything().await;
    let admin = ConsoleBrowser::as_admin(&hub).await;
    for page in crawl_pages(&admin).await {
        // The reference has a policy of its own: it may not even have scripts.
        if !page.is_html() || page.has_path("/docs") {
            continue;
        }
        let header = |name: &str| {
            let value = page.headers.get(name);
            value.map_or("", |value| value.to_str().unwrap())
        };
        let address = &page.address;
        let policy = header("content-security-policy");
        assert!(policy.contains("script-src 'self'"), "{address}: {policy}");
        assert!(!policy.contains("unsafe"), "{address}: {policy}");
        assert_eq!(header("cache-control"), "no-store", "{address}");
        assert_eq!(header("x-content-type-options"), "nosniff", "{address}");
        for inline in [" style=\"", " onclick=\"", "<style", "javascript:"] {
            page.assert_lacks(inline);
        }
    }
}
