//! How a session is opened, in either era.

use super::*;
use crate::behaviour::Era;

#[test]
fn discover_describes_the_server_to_a_stateless_client() {
    let client = Client::new(Behaviour::new());
    let result =
        &client.request("server/discover", &json!({ "_meta": meta(&json!({})) }))["result"];
    assert_eq!(result["supportedVersions"][0], crate::STATELESS);
    assert_eq!(result["resultType"], "complete");
    assert_eq!(result["cacheScope"], "private");
    assert_eq!(
        result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"],
        "testkit"
    );
}

#[test]
fn each_answer_to_discover_is_the_one_asked_for() {
    let probe = |discover| {
        let client = Client::new(Behaviour::new().discover(discover));
        let id = client.start("server/discover", &json!({ "_meta": meta(&json!({})) }));
        let exits = lock(&client.exits).clone();
        (client.find(|message| message["id"] == id), exits)
    };
    assert_eq!(probe(DiscoverBehaviour::Exit), (None, vec![1]));
    assert_eq!(probe(DiscoverBehaviour::Silent), (None, vec![]));
    let answer = |discover| probe(discover).0.unwrap();
    assert_eq!(answer(DiscoverBehaviour::EmptyObject)["result"], json!({}));
    assert_eq!(
        error_code(&answer(DiscoverBehaviour::MethodNotFound)),
        -32601
    );
    assert_eq!(
        error_code(&answer(DiscoverBehaviour::InvalidParams)),
        -32602
    );
    let refused = answer(DiscoverBehaviour::UnsupportedVersion);
    assert_eq!(error_code(&refused), -32022);
    assert_eq!(refused["error"]["data"]["requested"], crate::STATELESS);
}

#[test]
fn a_legacy_server_does_not_know_discover() {
    let client = Client::new(Behaviour::new().era(Era::Legacy));
    let params = json!({ "_meta": meta(&json!({})) });
    assert_eq!(
        error_code(&client.request("server/discover", &params)),
        -32601
    );
    assert_eq!(error_code(&client.request("tools/list", &params)), -32602);
}

#[test]
fn a_stateless_server_refuses_the_handshake() {
    let client = Client::new(Behaviour::new().era(Era::Stateless));
    let params = json!({ "protocolVersion": "2025-11-25" });
    assert_eq!(error_code(&client.request("initialize", &params)), -32022);
    assert_eq!(
        error_code(&client.request("tools/list", &json!({}))),
        -32602
    );
    let list = client.request("tools/list", &json!({ "_meta": meta(&json!({})) }));
    assert_eq!(list["result"]["ttlMs"], 0);
}

#[test]
fn initialize_agrees_on_a_version_both_sides_know() {
    let agreed = |asked| {
        let client = Client::new(Behaviour::new());
        let answer = client.request("initialize", &json!({ "protocolVersion": asked }));
        answer["result"]["protocolVersion"].clone()
    };
    assert_eq!(agreed("2024-11-05"), "2024-11-05");
    assert_eq!(agreed(crate::STATELESS), "2025-11-25");
}

#[test]
fn initialize_after_discover_can_be_refused() {
    let client = Client::new(Behaviour::new().refuse_initialize_after_discover());
    client.request("server/discover", &json!({ "_meta": meta(&json!({})) }));
    let params = json!({ "protocolVersion": "2025-11-25" });
    assert_eq!(error_code(&client.request("initialize", &params)), -32022);
}

#[test]
fn a_client_that_samples_with_tools_can_be_refused() {
    let client = Client::new(Behaviour::new().reject_sampling_tools());
    let params = |sampling: Value| json!({ "protocolVersion": "2025-11-25", "capabilities": { "sampling": sampling } });
    let refused = client.request("initialize", &params(json!({ "tools": {} })));
    assert_eq!(error_code(&refused), -32602);
    let accepted = client.request("initialize", &params(json!({})));
    assert!(accepted.get("result").is_some());
}

#[test]
fn the_client_is_described_as_it_described_itself() {
    let client = Client::legacy(Behaviour::new());
    let legacy: Value = serde_json::from_str(text(&client.call("protocol", &json!({})))).unwrap();
    assert_eq!(legacy["era"], "legacy");
    assert_eq!(legacy["protocolVersion"], "2025-11-25");
    let params = stateless_call("protocol", &json!({ "roots": {} }));
    let answer = client.request("tools/call", &params);
    let stateless: Value = serde_json::from_str(text(&answer)).unwrap();
    assert_eq!(stateless["era"], "stateless");
    assert_eq!(stateless["capabilities"], json!({ "roots": {} }));
}
