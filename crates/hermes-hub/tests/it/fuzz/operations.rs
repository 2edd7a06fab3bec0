//! Arguments and bodies of every operation, and messages to `/mcp`.

use hermes_hub::operations::{ArgumentLocation, HttpMethod, Operation, document, table};
use serde_json::{Map, Value, json};

use super::{
    FuzzRun, RandomInput,
    faults::{is_fault, problems},
};
use crate::{
    agent_harness::ScriptedRuntime, mcp_client, rest_request::RestRequest,
    tenant_fixture::TenantFixture, test_hub::TestHub,
};

/// Operations that remove what others need; they get resources of their own.
const DESTRUCTIVE: [&str; 11] = [
    "put_manifest",
    "delete_tenant",
    "update_tenant",
    "set_tenant_access",
    "delete_group",
    "update_group",
    "put_member",
    "remove_member",
    "revoke_token",
    "rotate_token",
    "delete_tenant_cron",
];

/// Valid arguments of which some are replaced, removed or added.
fn arguments(
    chance: &mut RandomInput,
    operation: &Operation,
    working: Value,
) -> Map<String, Value> {
    let Value::Object(mut arguments) = working else {
        unreachable!()
    };
    for member in &operation.input.arguments {
        match (member.location, chance.below(6)) {
            // The target of the request is mostly kept.
            (ArgumentLocation::Path, 1..=5) => {}
            (_, 0 | 1) => {
                let value = chance.matching_schema(&member.schema, 5);
                arguments.insert(member.name.clone(), value);
            }
            (_, 2) => {
                arguments.remove(&member.name);
            }
            _ => {}
        }
    }
    // A stream that follows has no end.
    if operation.name == "watch_events" {
        arguments.insert("follow".into(), false.into());
    }
    // The input of a run is a script for the scripted agents.
    if arguments.get("input").is_some_and(Value::is_string) {
        arguments.insert("input".into(), "say=1".into());
    }
    arguments
}

#[tokio::test(flavor = "multi_thread")]
async fn no_request_is_a_fault_and_every_status_is_documented() {
    let site = TestHub::with_runtime(ScriptedRuntime::new(), |_, _| {}).await;
    let (mine, spare) = (
        TenantFixture::new(&site, "mine").await,
        TenantFixture::new(&site, "spare").await,
    );
    let document = document::openapi("http://hub");
    let rows: Vec<&Operation> = table().rows().collect();
    let mut worked = 0_u64;
    let mut fuzzing = FuzzRun::start("bodies");
    while fuzzing.next_round() {
        let operation = *fuzzing.random.one_of(&rows);
        let verb = *fuzzing.random.one_of(operation.methods);
        let scene = if DESTRUCTIVE.contains(&operation.name) {
            &spare
        } else {
            &mine
        };
        let working = scene.arguments(operation.name);
        let arguments = arguments(&mut fuzzing.random, operation, working);
        let (request, told) = request(&mut fuzzing.random, &site, operation, verb, arguments);
        let answer = site.send(request).await;
        assert!(
            answer.status < 500,
            "{told}: {} {}",
            answer.status,
            answer.text
        );
        worked += u64::from(answer.status < 300);
        let path = operation.path.replace("{*", "{");
        let described = &document["paths"][path][verb.as_str().to_lowercase()]["responses"];
        // A path argument may turn the route into an unknown one.
        let is_other_route = [404, 405].contains(&answer.status);
        assert!(
            is_other_route || described[answer.status.to_string()].is_object(),
            "{told}: {} is not documented: {}",
            answer.status,
            answer.text
        );
    }
    assert!(
        fuzzing.rounds < 100 || worked * 20 > fuzzing.rounds,
        "only {worked} of {} worked",
        fuzzing.rounds
    );
}

/// The request, and its description.
fn request(
    chance: &mut RandomInput,
    site: &TestHub,
    operation: &Operation,
    verb: HttpMethod,
    arguments: Map<String, Value>,
) -> (reqwest::RequestBuilder, String) {
    let mut arguments = arguments;
    if let Some(whole) = operation.input.whole_body
        && !arguments.get(whole).is_some_and(Value::is_object)
    {
        arguments.insert(whole.to_owned(), json!({}));
    }
    // A path argument cannot be empty: that would be another route.
    for member in &operation.input.arguments {
        if member.location == ArgumentLocation::Path
            && arguments.get(&member.name).is_none_or(|value| *value == "")
        {
            arguments.insert(member.name.clone(), "x".into());
        }
    }
    let mut asked = RestRequest::new(operation, verb, &Value::Object(arguments));
    // Clients normalize dots in URLs, which would give another route.
    asked.path = asked.path.replace("/%2E%2E", "/x").replace("/%2E", "/x");
    if chance.once_in(10) {
        asked.body = asked.body.map(|_| chance.json(3));
    }
    let told = format!(
        "{} {} {}",
        verb.as_str(),
        asked.path,
        asked.body.clone().unwrap_or_default()
    );
    (asked.build(site, &site.admin), told)
}

#[tokio::test(flavor = "multi_thread")]
async fn no_message_over_mcp_is_a_fault() {
    let site = TestHub::with_runtime(ScriptedRuntime::new(), |_, _| {}).await;
    let mine = TenantFixture::new(&site, "mine").await;
    let session = mcp_client::open_session(&site, &site.admin).await;
    let rows: Vec<&Operation> = table().rows().collect();
    let methods = [
        "tools/call",
        "tools/list",
        "ping",
        "initialize",
        "server/discover",
        "prompts/list",
        "logging/setLevel",
    ];
    let mut refused = 0_u64;
    let mut fuzzing = FuzzRun::start("messages");
    while fuzzing.next_round() {
        let chance = &mut fuzzing.random;
        let operation = *chance.one_of(&rows);
        let working = mine.arguments(operation.name);
        let params = match chance.below(4) {
            0 => chance.json(3),
            _ if DESTRUCTIVE.contains(&operation.name) => continue,
            _ => {
                json!({"name": operation.name, "arguments": arguments(chance, operation, working)})
            }
        };
        let params = if params.is_object() {
            params
        } else {
            json!({})
        };
        let method = if chance.once_in(4) {
            chance.one_of(&methods)
        } else {
            "tools/call"
        };
        let era = if chance.once_in(2) {
            &session
        } else {
            &mcp_client::McpEra::Stateless
        };
        let told = format!("{era:?} {method} {params}");
        let is_sendable = |name: &Value| {
            name.as_str()
                .is_none_or(|name| name.bytes().all(|byte| (32..127).contains(&byte)))
        };
        if !is_sendable(&params["name"]) {
            continue;
        }
        let answer = site
            .send(mcp_client::mcp_request(
                &site,
                &site.admin,
                era,
                method,
                params,
            ))
            .await;
        assert!(
            answer.status < 500,
            "{told}: {} {}",
            answer.status,
            answer.text
        );
        let problems = problems(&answer);
        assert!(!problems.iter().any(is_fault), "{told}: {}", answer.text);
        refused += u64::from(!problems.is_empty());
    }
    // Otherwise an internal error would go unnoticed.
    assert!(
        fuzzing.rounds < 100 || refused > 0,
        "none of {} was refused",
        fuzzing.rounds
    );
}
