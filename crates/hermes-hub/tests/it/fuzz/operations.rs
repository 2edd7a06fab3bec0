//! Arguments and bodies of every operation, and messages to `/mcp`.

use hermes_hub::{
    document,
    operations::{Operation, Place, Verb, table},
};
use serde_json::{Map, Value, json};

use super::{
    Chance, Fuzzing,
    faults::{is_fault, problems},
};
use crate::{asking::Asked, client, site::Site, surface::scene::Scene, world::Scripted};

/// Operations that remove what others need; they get resources of their own.
const DESTRUCTIVE: [&str; 10] = [
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
fn arguments(chance: &mut Chance, operation: &Operation, working: Value) -> Map<String, Value> {
    let Value::Object(mut arguments) = working else {
        unreachable!()
    };
    for member in &operation.input.members {
        match (member.place, chance.below(6)) {
            // The target of the request is mostly kept.
            (Place::Path, 1..=5) => {}
            (_, 0 | 1) => {
                let value = chance.fitting(&member.schema, 5);
                arguments.insert(member.name.clone(), value);
            }
            (_, 2) => {
                arguments.remove(&member.name);
            }
            _ => {}
        }
    }
    // The input of a run is a script for the scripted agents.
    if arguments.get("input").is_some_and(Value::is_string) {
        arguments.insert("input".into(), "say=1".into());
    }
    arguments
}

#[tokio::test(flavor = "multi_thread")]
async fn no_request_is_a_fault_and_every_status_is_documented() {
    let site = Site::with_runtime(Scripted::new(), |_, _| {}).await;
    let (mine, spare) = (
        Scene::new(&site, "mine").await,
        Scene::new(&site, "spare").await,
    );
    let document = document::openapi("http://hub");
    let rows: Vec<&Operation> = table().rows().collect();
    let mut worked = 0_u64;
    let mut fuzzing = Fuzzing::begin("bodies");
    while fuzzing.goes_on() {
        let operation = *fuzzing.chance.one_of(&rows);
        let verb = *fuzzing.chance.one_of(operation.verbs);
        let scene = if DESTRUCTIVE.contains(&operation.name) {
            &spare
        } else {
            &mine
        };
        let working = scene.arguments(operation.name);
        let arguments = arguments(&mut fuzzing.chance, operation, working);
        let (request, told) = request(&mut fuzzing.chance, &site, operation, verb, arguments);
        let answer = site.send(request).await;
        assert!(
            answer.status < 500,
            "{told}: {} {}",
            answer.status,
            answer.text
        );
        worked += u64::from(answer.status < 300);
        let path = operation.path.replace("{*", "{");
        let described = &document["paths"][path][verb.word().to_lowercase()]["responses"];
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
    chance: &mut Chance,
    site: &Site,
    operation: &Operation,
    verb: Verb,
    arguments: Map<String, Value>,
) -> (reqwest::RequestBuilder, String) {
    let mut arguments = arguments;
    if let Some(whole) = operation.input.whole_body
        && !arguments.get(whole).is_some_and(Value::is_object)
    {
        arguments.insert(whole.to_owned(), json!({}));
    }
    // A path argument cannot be empty: that would be another route.
    for member in &operation.input.members {
        if member.place == Place::Path
            && arguments.get(&member.name).is_none_or(|value| *value == "")
        {
            arguments.insert(member.name.clone(), "x".into());
        }
    }
    let mut asked = Asked::new(operation, verb, &Value::Object(arguments));
    // Clients normalize dots in URLs, which would give another route.
    asked.path = asked.path.replace("/%2E%2E", "/x").replace("/%2E", "/x");
    if chance.once_in(10) {
        asked.body = asked.body.map(|_| chance.json(3));
    }
    let told = format!(
        "{} {} {}",
        verb.word(),
        asked.path,
        asked.body.clone().unwrap_or_default()
    );
    (asked.request(site, &site.admin), told)
}

#[tokio::test(flavor = "multi_thread")]
async fn no_message_over_mcp_is_a_fault() {
    let site = Site::with_runtime(Scripted::new(), |_, _| {}).await;
    let mine = Scene::new(&site, "mine").await;
    let session = client::session(&site, &site.admin).await;
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
    let mut fuzzing = Fuzzing::begin("messages");
    while fuzzing.goes_on() {
        let chance = &mut fuzzing.chance;
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
            &client::Era::Stateless
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
            .send(client::request(&site, &site.admin, era, method, params))
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
