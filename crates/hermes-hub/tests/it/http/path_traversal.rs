//! Path traversal in every path argument, in every encoding, over REST and MCP.

use std::{collections::BTreeMap, fs, path::Path};

use futures::StreamExt;
use hermes_hub::operations::{
    Argument, ArgumentKind, ArgumentLocation, Effect, HttpMethod, Operation, Toolset, table,
};
use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{
    agent_harness::ScriptedRuntime,
    mcp_client::{self, McpEra},
    tenant_fixture::TenantFixture,
    test_hub::{TIMEOUT, TestHub},
};

/// Content outside that must never be returned.
const SECRET: &str = "SECRET-OUTSIDE";

const ATTACKS: [&str; 22] = [
    "..",
    "../",
    "../other/secret.txt",
    "../../admin.token",
    "notes/../../other/secret.txt",
    "./../other/secret.txt",
    "....//other/secret.txt",
    "..;/other/secret.txt",
    "/etc/passwd",
    "//etc/passwd",
    "/proc/self/root/etc/passwd",
    "..\\other\\secret.txt",
    "C:\\windows",
    "file:///etc/passwd",
    "a\0../secret",
    "a\r\nX-Injected: 1",
    "\u{202e}../secret",
    "..\u{200b}/other",
    "%2e%2e%2fother%2fsecret.txt",
    "%c0%ae%c0%ae/other/secret.txt",
    "\u{ff0e}\u{ff0e}/other/secret.txt",
    "\u{2025}/other/secret.txt",
];

/// Characters that must be escaped in a URL.
const ESCAPED_IN_ADDRESS: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'&')
    .add(b'\\');

/// Encodings of a text in a URL: plain, encoded once, encoded twice, and in lower case.
fn encodings(text: &str) -> Vec<String> {
    let once = utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let twice = utf8_percent_encode(&once, NON_ALPHANUMERIC).to_string();
    let small = once.to_lowercase();
    vec![
        utf8_percent_encode(text, ESCAPED_IN_ADDRESS).to_string(),
        once,
        twice,
        small,
    ]
}

/// Whether an argument is a path or id.
fn is_path_argument(member: &Argument) -> bool {
    let names = ["path", "from", "to", "destination", "id", "name", "cursor"];
    member.kind == ArgumentKind::Text
        && (member.location == ArgumentLocation::Path || names.contains(&member.name.as_str()))
}

/// Sends a raw request that no client library would send; returns status and text.
async fn send_raw(site: &TestHub, verb: HttpMethod, target: &str, body: &str) -> (u16, String) {
    let address = site.url.strip_prefix("http://").unwrap();
    let exchange = async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!(
            "{} {target} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            verb.as_str(),
            site.admin,
            body.len()
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    };
    let answer = tokio::time::timeout(TIMEOUT, exchange).await;
    let answer = answer.unwrap_or_else(|_| panic!("no answer to {target}"));
    let status = answer
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok());
    (
        status.unwrap_or_else(|| panic!("{target}: {answer}")),
        answer,
    )
}

/// All files below a directory, with their content.
fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut ahead = vec![directory.to_owned()];
    while let Some(next) = ahead.pop() {
        // Shares in object storage have no directory.
        for entry in fs::read_dir(next).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                ahead.push(path);
            } else {
                let name = path.strip_prefix(directory).unwrap();
                found.insert(name.display().to_string(), fs::read(&path).unwrap());
            }
        }
    }
    found
}

/// A Hub with a tenant, and files outside that must not be reachable.
async fn prepared_hub() -> (TestHub, TenantFixture) {
    let site = TestHub::with_runtime(ScriptedRuntime::new(), |_, _| {}).await;
    let scene = TenantFixture::new(&site, "mine").await;
    site.post("/v1/groups", &json!({"id": "other"}))
        .await
        .expect(201);
    site.tenant(json!({"id": "other", "groups": [{"id": "other", "access": "write"}]}))
        .await;
    let secret = json!({"path": "secret.txt", "content": SECRET});
    let path = "/v1/tenants/other/shares/other/files/content";
    site.put(path, &secret).await.expect(201);
    for place in ["", "workspace", "skills", "cron"] {
        fs::write(site.home("other").join(place).join("secret.txt"), SECRET).unwrap();
    }
    let outside = site.directory.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret.txt"), SECRET).unwrap();
    (site, scene)
}

/// Files that must not change: the other tenant's home and share, and those beside the Hub's directory.
fn outside(site: &TestHub) -> Vec<BTreeMap<String, Vec<u8>>> {
    let beside = site.directory.path();
    let beside: BTreeMap<_, _> = fs::read_dir(beside)
        .unwrap()
        .map(|entry| {
            (
                entry.unwrap().file_name().to_string_lossy().into_owned(),
                Vec::new(),
            )
        })
        .collect();
    let hub = site.directory.path().join("hub");
    vec![
        beside,
        files(&site.directory.path().join("outside")),
        files(&hub.join("tenants/other")),
        files(&hub.join("shares/other")),
    ]
}

#[track_caller]
fn check_answer(site: &TestHub, what: &str, status: u16, text: &str) {
    assert!(status < 500, "{what}: {status} {text}");
    let hidden = [SECRET, site.admin.as_str(), "root:x:0:0"];
    assert!(
        !hidden.iter().any(|hidden| text.contains(hidden)),
        "{what}: {text}"
    );
    assert!(
        status < 400 || !text.starts_with("HTTP/") || text.contains("application/problem+json"),
        "{what}: {text}"
    );
    let has_header = text.lines().any(|line| line.starts_with("X-Injected"));
    assert!(!has_header, "{what}: {text}");
}

/// Operations and their path arguments.
fn targets() -> impl Iterator<Item = (&'static Operation, &'static Argument)> {
    table().rows().flat_map(|operation| {
        let members = operation.input.arguments.iter();
        members
            .filter(|member| is_path_argument(member))
            .map(move |member| (operation, member))
    })
}

/// The attacks on an argument: all of them on paths, some on names.
fn attacks(member: &Argument) -> &'static [&'static str] {
    let is_path = ["path", "from", "to", "destination"].contains(&member.name.as_str());
    if is_path { &ATTACKS } else { &ATTACKS[..5] }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_argument_of_a_route_or_query_leads_out_in_any_encoding() {
    let (site, scene) = prepared_hub().await;
    let before = outside(&site);
    let mut requests = Vec::new();
    for (operation, member) in
        targets().filter(|(_, member)| member.location != ArgumentLocation::Body)
    {
        let arguments = scene.arguments(operation.name);
        for attack in attacks(member).iter().flat_map(|attack| encodings(attack)) {
            let (target, body) = attacked_request(operation, &arguments, member, &attack);
            requests.push((operation.method(), target, body));
        }
    }
    assert!(requests.len() > 2000, "only {}", requests.len());
    let sent = requests.iter().map(|(verb, target, body)| {
        let site = &site;
        async move {
            let (status, text) = send_raw(site, *verb, target, body).await;
            check_answer(site, &format!("{} {target}", verb.as_str()), status, &text);
        }
    });
    futures::stream::iter(sent)
        .buffer_unordered(8)
        .collect::<Vec<()>>()
        .await;
    assert_eq!(outside(&site), before);
}

/// Target and body of a request in which one argument of the URL is this encoded text.
fn attacked_request(
    operation: &Operation,
    arguments: &Value,
    attacked: &Argument,
    attack: &str,
) -> (String, String) {
    let mut path = operation.path.replace("{*", "{");
    let mut query = Vec::new();
    let mut body = serde_json::Map::new();
    let mut arguments = arguments.as_object().unwrap().clone();
    arguments
        .entry(attacked.name.clone())
        .or_insert(Value::Null);
    for (name, value) in &arguments {
        let member = operation
            .input
            .arguments
            .iter()
            .find(|member| member.name == *name);
        let member = member.unwrap();
        let plain = match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let text = if *name == attacked.name {
            attack
        } else {
            &plain
        };
        match member.location {
            ArgumentLocation::Path => path = path.replace(&format!("{{{name}}}"), text),
            ArgumentLocation::Query => query.push(format!("{}={text}", member.rest_name)),
            ArgumentLocation::Body if operation.input.whole_body == Some(name) => {
                body.clone_from(value.as_object().unwrap());
            }
            ArgumentLocation::Body => {
                body.insert(member.rest_name.clone(), value.clone());
            }
        }
    }
    if !query.is_empty() {
        path = format!("{path}?{}", query.join("&"));
    }
    let has_body = operation.method().has_body();
    (
        path,
        if has_body {
            Value::Object(body).to_string()
        } else {
            String::new()
        },
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn no_argument_in_json_leads_out_over_rest_or_mcp() {
    let (site, scene) = prepared_hub().await;
    let before = outside(&site);
    let mut sent = 0;
    for (operation, member) in targets() {
        for attack in attacks(member) {
            let attack = *attack;
            let mut arguments = scene.arguments(operation.name);
            arguments[&member.name] = attack.into();
            if member.location == ArgumentLocation::Body {
                let asked = crate::rest_request::RestRequest::new(
                    operation,
                    operation.method(),
                    &arguments,
                );
                let answer = site.send(asked.build(&site, &site.admin)).await;
                let what = format!("{} {} {attack:?}", operation.name, member.name);
                check_answer(&site, &what, answer.status, &answer.text);
                sent += 1;
            }
            if operation.toolset == Toolset::Standard {
                let era = &McpEra::Stateless;
                let result =
                    mcp_client::call_tool(&site, &site.admin, era, operation.name, &arguments)
                        .await;
                let text = result["content"][0]["text"].as_str().unwrap();
                let problem: Value = serde_json::from_str(text).unwrap();
                let status = problem["status"]
                    .as_u64()
                    .filter(|_| result["isError"] == true);
                let status = u16::try_from(status.unwrap_or(200)).unwrap();
                let what = format!("{} {} {attack:?} over MCP", operation.name, member.name);
                check_answer(&site, &what, status, text);
                sent += 1;
            }
        }
        assert!(
            operation.effect == Effect::Read || outside(&site) == before,
            "{} changed something outside",
            operation.name
        );
    }
    assert!(sent > 300, "only {sent} were tried");
    assert_eq!(outside(&site), before);
}
