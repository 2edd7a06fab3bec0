//! Invalid bodies: random bytes, and damaged valid bodies.

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use super::{
    FuzzRun, RandomInput,
    faults::{is_fault, problems},
};
use crate::{
    mcp_client::{self, McpEra},
    test_hub::TestHub,
};

/// Valid requests with their bodies.
fn requests() -> Vec<(Method, String, Value)> {
    let own = "/v1/tenants/tenant_123";
    let share = format!("{own}/shares/division1");
    let job = json!({"schedule": "every 1h", "prompt": "Say \"hello\"", "deliver": "local"});
    vec![
        (
            Method::POST,
            "/v1/groups".into(),
            json!({"id": "division2", "displayName": "Two"}),
        ),
        (
            Method::PATCH,
            own.into(),
            json!({"displayName": "Ä", "limits": {"maxConcurrentRuns": 2}}),
        ),
        (Method::POST, format!("{own}/agent-cron"), job),
        (
            Method::PATCH,
            format!("{own}/agent-cron/job_123"),
            json!({"prompt": "x"}),
        ),
        (
            Method::POST,
            format!("{own}/runs"),
            json!({"input": "Hi", "metadata": {"a": [1]}}),
        ),
        (
            Method::PUT,
            format!("{share}/files/content"),
            json!({"path": "a/b.md", "content": "some text\n"}),
        ),
        (
            Method::PUT,
            "/v1/agent-policy".into(),
            json!({"cron": {"maxJobs": 40}}),
        ),
        (
            Method::PATCH,
            "/v1/config/tenant-impact".into(),
            json!({"feature": {"on": true, "share": 0.5}}),
        ),
        (
            Method::POST,
            "/v1/tokens".into(),
            json!({"name": "new", "role": "viewer"}),
        ),
    ]
}

/// A damaged body.
fn damaged(chance: &mut RandomInput, good: &Value) -> Vec<u8> {
    let mut bytes = good.to_string().into_bytes();
    match chance.below(6) {
        0 => any_bytes(chance, 300),
        1 => {
            bytes.truncate(chance.below(bytes.len()));
            bytes
        }
        2 => {
            for _ in 0..=chance.below(4) {
                let place = chance.below(bytes.len());
                bytes[place] ^= 1 << chance.below(8);
            }
            bytes
        }
        3 => twice(chance, good),
        4 => nested(chance, &bytes),
        _ => {
            let place = chance.below(bytes.len());
            let between = if chance.once_in(2) {
                any_bytes(chance, 8)
            } else {
                chance.text().into_bytes()
            };
            bytes.splice(place..place, between);
            bytes
        }
    }
}

fn any_bytes(chance: &mut RandomInput, most: usize) -> Vec<u8> {
    let count = chance.below(most);
    (0..count)
        .map(|_| u8::try_from(chance.below(256)).unwrap())
        .collect()
}

/// Duplicates a member, with the same value or another.
fn twice(chance: &mut RandomInput, good: &Value) -> Vec<u8> {
    let members: Vec<_> = good.as_object().unwrap().iter().collect();
    let (name, value) = *chance.one_of(&members);
    let value = if chance.once_in(2) {
        value.clone()
    } else {
        chance.json(1)
    };
    let rest = good.to_string();
    format!("{{{}:{value},{}", json!(name), &rest[1..]).into_bytes()
}

/// Nests the body in lists or objects, which may be left open.
fn nested(chance: &mut RandomInput, bytes: &[u8]) -> Vec<u8> {
    let depth = *chance.one_of(&[2, 63, 64, 65, 127, 128, 1000, 50_000]);
    let (open, close) = *chance.one_of(&[("[", "]"), ("{\"a\":", "}")]);
    let close = if chance.once_in(3) { "" } else { close };
    [
        open.repeat(depth).as_bytes(),
        bytes,
        close.repeat(depth).as_bytes(),
    ]
    .concat()
}

/// Whether no parser could accept it. An empty body may stand for the defaults.
fn is_hopeless(bytes: &[u8]) -> bool {
    !bytes.is_empty() && serde_json::from_slice::<Value>(bytes).is_err()
}

fn message(chance: &mut RandomInput, site: &TestHub, session: &McpEra) -> (RequestBuilder, Value) {
    let arguments = json!({"tenant_id": "tenant_123", "displayName": "Acme"});
    let (method, params) = match chance.below(3) {
        0 => ("tools/list", json!({})),
        1 => (
            "tools/call",
            json!({"name": "update_tenant", "arguments": arguments}),
        ),
        _ => ("ping", json!({})),
    };
    let era = if chance.once_in(2) {
        session
    } else {
        &McpEra::Stateless
    };
    let request = mcp_client::mcp_request(site, &site.admin, era, method, params);
    let sent = request.try_clone().unwrap().build().unwrap();
    let body = sent.body().unwrap().as_bytes().unwrap();
    let body = serde_json::from_slice(body).unwrap();
    (request, body)
}

#[tokio::test(flavor = "multi_thread")]
async fn no_body_that_is_damaged_is_a_fault() {
    let site = TestHub::new().await.with_examples().await;
    let session = mcp_client::open_session(&site, &site.admin).await;
    let requests = requests();
    let mut fuzzing = FuzzRun::start("bytes");
    while fuzzing.next_round() {
        let chance = &mut fuzzing.random;
        let is_mcp = chance.once_in(4);
        let (request, good) = if is_mcp {
            message(chance, &site, &session)
        } else {
            let (method, path, body) = chance.one_of(&requests);
            let request = site.request(&site.admin, method.clone(), path);
            let request = request.header("content-type", "application/json");
            (request, body.clone())
        };
        let bytes = damaged(chance, &good);
        let told = String::from_utf8_lossy(&bytes[..bytes.len().min(1000)]).into_owned();
        let is_hopeless = is_hopeless(&bytes);
        let answer = site.send(request.body(bytes)).await;
        let said = format!("{told}: {} {}", answer.status, answer.text);
        let problems = problems(&answer);
        assert!(answer.status < 500, "{said}");
        assert!(!problems.iter().any(is_fault), "{said}");
        let is_refused = answer.status >= 400 || (is_mcp && !problems.is_empty());
        assert!(is_refused || !is_hopeless, "{said}");
    }
    site.get("/v1/readyz").await.expect(200);
}
