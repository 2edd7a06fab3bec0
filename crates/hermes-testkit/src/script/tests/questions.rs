//! What servers ask of their clients.

use super::*;

#[test]
fn a_legacy_client_is_asked_by_a_request() {
    let client = Client::legacy(Behaviour::new());
    let id = client.start("tools/call", &json!({ "name": "elicit", "arguments": {} }));
    let asked = client.wait_for(|message| message["method"] == "elicitation/create");
    client.send(json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "action": "decline" } }));
    let answer = client.wait_for(|message| message["id"] == id);
    assert_eq!(text(&answer), r#"{"action":"decline"}"#);
}

#[test]
fn a_stateless_client_is_asked_by_a_result() {
    let client = Client::new(Behaviour::new());
    let mut params = stateless_call("sample", &json!({ "sampling": {} }));
    let asked = client.request("tools/call", &params)["result"].clone();
    assert_eq!(asked["resultType"], "input_required");
    assert_eq!(
        asked["inputRequests"]["sample-0"]["method"],
        "sampling/createMessage"
    );
    params["inputResponses"] = json!({ "sample-0": { "role": "assistant" } });
    params["requestState"] = asked["requestState"].clone();
    let answer = client.request("tools/call", &params);
    assert_eq!(text(&answer), r#"{"role":"assistant"}"#);
    assert_eq!(answer["result"]["resultType"], "complete");

    params["requestState"] = json!("elicit/1");
    assert_eq!(error_code(&client.request("tools/call", &params)), -32602);
}

#[test]
fn input_can_be_required_without_end() {
    let client = Client::new(Behaviour::new().calls(|calls| calls.endless_input = true));
    let mut params = stateless_call("roots", &json!({ "roots": {} }));
    for _ in 0..12 {
        let asked = client.request("tools/call", &params)["result"].clone();
        assert_eq!(asked["resultType"], "input_required");
        params["requestState"] = asked["requestState"].clone();
        params["inputResponses"] = json!({ "roots-0": { "roots": [] } });
    }
}

#[test]
fn nobody_is_asked_for_what_was_not_declared() {
    let client = Client::new(Behaviour::new());
    let refused = client.request("tools/call", &stateless_call("sample", &json!({})));
    assert_eq!(error_code(&refused), -32021);
    let refused = client.request("tools/call", &stateless_call("elicit_url", &json!({})));
    assert_eq!(
        refused["error"]["data"]["requiredCapabilities"],
        json!({ "elicitation": { "url": {} } })
    );
    client.request("initialize", &json!({ "protocolVersion": "2025-11-25" }));
    assert_eq!(client.call("sample", &json!({}))["result"]["isError"], true);

    let rude = Client::new(Behaviour::new().calls(|calls| calls.ask_undeclared = true));
    let asked = rude.request("tools/call", &stateless_call("sample", &json!({})));
    assert_eq!(asked["result"]["resultType"], "input_required");
}

#[test]
fn a_flood_asks_many_times_at_once() {
    let client = Client::legacy(Behaviour::new().calls(|calls| calls.sampling_flood = Some(5)));
    client.start("tools/call", &json!({ "name": "sample", "arguments": {} }));
    let asked = || {
        client
            .methods()
            .iter()
            .filter(|m| *m == "sampling/createMessage")
            .count()
    };
    assert!(wait_until(Duration::from_secs(30), || asked() == 5));
}
