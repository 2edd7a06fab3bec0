use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::behaviour::{Era, OddTool, OnCancel, WrongId};
use crate::observe::wait_until;
use crate::wire::{META_CLIENT_CAPABILITIES, META_LOG_LEVEL, META_SUBSCRIPTION, META_VERSION};

/// A client that keeps what it is sent.
#[derive(Default)]
struct Inbox(Mutex<Vec<Value>>);

impl Outlet for Inbox {
    fn send(&self, message: &Value) -> bool {
        lock(&self.0).push(message.clone());
        true
    }

    fn send_oversized(&self, bytes: usize) -> bool {
        lock(&self.0).push(json!({ "oversized": bytes }));
        true
    }
}

struct Client {
    script: Arc<Script>,
    session: Arc<Session>,
    inbox: Arc<Inbox>,
    exits: Arc<Mutex<Vec<i32>>>,
}

impl Client {
    fn new(behaviour: Behaviour) -> Self {
        let exits = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&exits);
        let script = Script::new(behaviour, move |code| lock(&seen).push(code)).unwrap();
        let session = Session::new("test");
        let inbox = Arc::new(Inbox::default());
        script.add_listener(&session, inbox.clone());
        Self {
            script,
            session,
            inbox,
            exits,
        }
    }

    /// A client after a legacy handshake that offers everything.
    fn legacy(behaviour: Behaviour) -> Self {
        let client = Self::new(behaviour);
        let capabilities =
            json!({ "sampling": {}, "elicitation": { "form": {}, "url": {} }, "roots": {} });
        let answer = client.request(
            "initialize",
            &json!({ "protocolVersion": "2025-11-25", "capabilities": capabilities }),
        );
        assert!(answer.get("result").is_some(), "{answer}");
        client
    }

    fn send(&self, message: Value) {
        self.script
            .receive(&self.session, self.inbox.clone(), message);
    }

    fn messages(&self) -> Vec<Value> {
        lock(&self.inbox.0).clone()
    }

    fn methods(&self) -> Vec<String> {
        self.messages()
            .iter()
            .filter_map(|message| message["method"].as_str().map(str::to_owned))
            .collect()
    }

    fn find(&self, fits: impl Fn(&Value) -> bool) -> Option<Value> {
        self.messages().into_iter().find(|message| fits(message))
    }

    fn wait_for(&self, fits: impl Fn(&Value) -> bool) -> Value {
        let mut found = None;
        wait_until(Duration::from_secs(5), || {
            found = self.find(&fits);
            found.is_some()
        });
        found.unwrap_or_else(|| panic!("not among {:?}", self.messages()))
    }

    fn start(&self, method: &str, params: &Value) -> Value {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = json!(NEXT.fetch_add(1, Ordering::SeqCst));
        self.send(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    fn request(&self, method: &str, params: &Value) -> Value {
        let id = self.start(method, params);
        self.wait_for(|message| message["id"] == id && message.get("method").is_none())
    }

    fn call(&self, tool: &str, arguments: &Value) -> Value {
        self.request(
            "tools/call",
            &json!({ "name": tool, "arguments": arguments }),
        )
    }

    fn cancel(&self, id: &Value) {
        let params = json!({ "requestId": id });
        self.send(
            json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }),
        );
    }
}

fn meta(capabilities: &Value) -> Value {
    json!({ META_VERSION: crate::STATELESS, META_CLIENT_CAPABILITIES: capabilities })
}

fn stateless_call(tool: &str, capabilities: &Value) -> Value {
    json!({ "name": tool, "arguments": {}, "_meta": meta(capabilities) })
}

fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"]
        .as_str()
        .unwrap_or_else(|| panic!("no text in {answer}"))
}

fn error_code(answer: &Value) -> i64 {
    crate::wire::error_code(answer).unwrap_or_else(|| panic!("no error in {answer}"))
}

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
    assert_eq!(probe(Discover::Exit), (None, vec![1]));
    assert_eq!(probe(Discover::Silent), (None, vec![]));
    let answer = |discover| probe(discover).0.unwrap();
    assert_eq!(answer(Discover::EmptyObject)["result"], json!({}));
    assert_eq!(error_code(&answer(Discover::MethodNotFound)), -32601);
    assert_eq!(error_code(&answer(Discover::InvalidParams)), -32602);
    let refused = answer(Discover::UnsupportedVersion);
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
fn progress_carries_the_token_of_its_request() {
    let client = Client::legacy(Behaviour::new());
    let answer = client.request(
        "tools/call",
        &json!({ "name": "progress", "arguments": { "steps": 2, "interval_ms": 1 }, "_meta": { "progressToken": "p" } }),
    );
    assert_eq!(text(&answer), "2 steps");
    let progress: Vec<Value> = client
        .messages()
        .into_iter()
        .filter(|message| message["method"] == "notifications/progress")
        .collect();
    assert_eq!(progress.len(), 2);
    assert!(progress.iter().all(|p| p["params"]["progressToken"] == "p"));
}

#[test]
fn a_cancelled_call_stops_without_an_answer() {
    let client = Client::legacy(Behaviour::new());
    let id = client.start(
        "tools/call",
        &json!({ "name": "sleep", "arguments": { "ms": 100 } }),
    );
    client.cancel(&id);
    std::thread::sleep(Duration::from_millis(200));
    assert!(client.find(|message| message["id"] == id).is_none());
}

#[test]
fn a_cancelled_call_may_be_answered_all_the_same() {
    for (on_cancel, expected) in [
        (OnCancel::LateReply, "late reply"),
        (OnCancel::Ignore, "slept 50 ms"),
    ] {
        let client = Client::legacy(Behaviour::new().calls(|calls| calls.on_cancel = on_cancel));
        let id = client.start(
            "tools/call",
            &json!({ "name": "sleep", "arguments": { "ms": 50 } }),
        );
        client.cancel(&id);
        assert_eq!(
            text(&client.wait_for(|message| message["id"] == id)),
            expected
        );
    }
}

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
    assert!(wait_until(Duration::from_secs(5), || asked() == 5));
}

#[test]
fn a_changed_list_is_announced_and_shown() {
    let client = Client::legacy(Behaviour::new());
    client.call(
        "change_tools",
        &json!({ "add": ["fresh"], "remove": ["add"] }),
    );
    assert!(
        client
            .methods()
            .contains(&"notifications/tools/list_changed".to_owned())
    );
    let list = client.request("tools/list", &json!({}))["result"]["tools"].to_string();
    assert!(list.contains(r#""fresh""#) && !list.contains(r#""name":"add""#));
    assert_eq!(text(&client.call("fresh", &json!({ "text": "hi" }))), "hi");
    assert_eq!(error_code(&client.call("add", &json!({}))), -32602);
}

#[test]
fn a_subscription_hears_only_what_it_asked_for() {
    let client = Client::new(Behaviour::new());
    let filter = json!({ "promptsListChanged": true, "resourceSubscriptions": ["test://text"] });
    let id = client.start(
        "subscriptions/listen",
        &json!({ "notifications": filter, "_meta": meta(&json!({})) }),
    );
    let acknowledged = &client.messages()[0];
    assert_eq!(
        acknowledged["method"],
        "notifications/subscriptions/acknowledged"
    );
    assert_eq!(acknowledged["params"]["notifications"], filter);
    assert_eq!(acknowledged["params"]["_meta"][META_SUBSCRIPTION], id);

    for tool in ["change_tools", "change_prompts", "change_resources"] {
        client.request("tools/call", &stateless_call(tool, &json!({})));
    }
    let mut touch = stateless_call("touch_resource", &json!({}));
    touch["arguments"] = json!({ "uri": "test://text" });
    client.request("tools/call", &touch);
    assert_eq!(
        client.methods()[1..],
        [
            "notifications/prompts/list_changed",
            "notifications/resources/updated"
        ]
    );
    client.cancel(&id);
    client.request("tools/call", &stateless_call("change_prompts", &json!({})));
    assert_eq!(client.methods().len(), 3);
}

#[test]
fn a_subscription_can_end_by_itself() {
    let client = Client::new(Behaviour::new().lists(|lists| lists.end_listen_after_ms = Some(10)));
    let params = json!({ "notifications": {}, "_meta": meta(&json!({})) });
    let end = client.request("subscriptions/listen", &params);
    assert_eq!(end["result"]["_meta"][META_SUBSCRIPTION], end["id"]);
    assert_eq!(end["result"]["resultType"], "complete");
}

#[test]
fn lists_come_in_pages() {
    let tools = (0..5).map(|n| Tool::named(&format!("t{n}")));
    let client = Client::legacy(
        Behaviour::new()
            .tools(tools)
            .lists(|lists| lists.page_size = Some(2)),
    );
    let mut names = Vec::new();
    let mut params = json!({});
    loop {
        let page = client.request("tools/list", &params)["result"].clone();
        let tools = page["tools"].as_array().unwrap().clone();
        names.extend(
            tools
                .iter()
                .map(|tool| tool["name"].as_str().unwrap().to_owned()),
        );
        match page.get("nextCursor") {
            Some(cursor) => params["cursor"] = cursor.clone(),
            None => break,
        }
    }
    assert_eq!(names, ["t0", "t1", "t2", "t3", "t4"]);
}

#[test]
fn cursors_can_repeat_or_never_end() {
    let next = |behaviour: Behaviour, cursor: &str| {
        let client = Client::legacy(behaviour);
        client.request("tools/list", &json!({ "cursor": cursor }))["result"]["nextCursor"].clone()
    };
    assert_eq!(
        next(
            Behaviour::new().lists(|lists| lists.repeat_cursor = true),
            "7"
        ),
        "7"
    );
    assert_eq!(
        next(
            Behaviour::new().lists(|lists| lists.endless_pages = true),
            "7"
        ),
        "8"
    );
}

#[test]
fn overlapping_lists_are_counted() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("overlap");
    let client = Client::legacy(Behaviour::new().lists(|lists| {
        lists.delay_ms = 50;
        lists.overlap_file = Some(file.clone());
    }));
    for _ in 0..2 {
        client.start("tools/list", &json!({}));
    }
    client.request("tools/list", &json!({}));
    let counts: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(counts, json!({ "lists": 3, "max_overlap": 3 }));
}

#[test]
fn a_list_can_change_while_it_is_read() {
    let client = Client::legacy(Behaviour::new().lists(|lists| lists.change_during_list = true));
    let has_appeared = |answer: Value| answer["result"]["tools"].to_string().contains("appeared");
    assert!(!has_appeared(client.request("tools/list", &json!({}))));
    assert_eq!(client.methods(), ["notifications/tools/list_changed"]);
    assert!(has_appeared(client.request("tools/list", &json!({}))));
    assert_eq!(client.methods().len(), 1);
}

#[test]
fn odd_tools_are_listed_as_they_are() {
    let client = Client::legacy(Behaviour::new().tools([]).lists(|lists| {
        lists.odd_tools = vec![OddTool::AlikeNames, OddTool::NoSchema];
    }));
    let tools = client.request("tools/list", &json!({}))["result"]["tools"].clone();
    assert_eq!(tools[0]["name"], "list-items.v2");
    assert_eq!(tools[1]["name"], "list_items_v2");
    assert_eq!(tools[2]["inputSchema"], "anything goes");
}

#[test]
fn a_server_dies_after_its_last_call() {
    let client = Client::legacy(Behaviour::new().calls(|calls| calls.die_after = Some(2)));
    client.call("echo", &json!({}));
    assert!(lock(&client.exits).is_empty());
    client.call("echo", &json!({}));
    assert_eq!(*lock(&client.exits), [3]);
}

#[test]
fn answers_can_carry_wrong_ids() {
    for (wrong, expected) in [
        (WrongId::Unknown, json!(987_654_321)),
        (WrongId::Null, Value::Null),
    ] {
        let client = Client::legacy(Behaviour::new().calls(|calls| calls.wrong_id = Some(wrong)));
        client.start("tools/call", &json!({ "name": "echo" }));
        assert_eq!(client.messages().last().unwrap()["id"], expected);
    }
}

#[test]
fn odd_result_types_and_secrets_reach_the_client() {
    let client = Client::legacy(Behaviour::new().calls(|calls| {
        calls.result_type = Some("riddle".to_owned());
        calls.secrets_in_errors = true;
    }));
    let failed = client.call("fail", &json!({}));
    assert_eq!(failed["result"]["resultType"], "riddle");
    assert_eq!(failed["result"]["isError"], true);
    assert_eq!(text(&failed), SECRETS);
    assert_eq!(
        error_code(&client.call("fail", &json!({ "code": -32000 }))),
        -32000
    );
}

#[test]
fn a_tool_may_never_answer_and_another_may_answer_too_much() {
    let client = Client::legacy(
        Behaviour::new()
            .calls(|calls| calls.never_answer = vec!["echo".to_owned()])
            .process(|process| {
                process.oversized_line = Some(crate::OversizedLine {
                    bytes: 1000,
                    instead_of: "big".to_owned(),
                });
            }),
    );
    let before = client.messages().len();
    client.start("tools/call", &json!({ "name": "echo" }));
    assert_eq!(client.messages().len(), before);
    client.start("tools/call", &json!({ "name": "big" }));
    assert_eq!(client.messages().last().unwrap()["oversized"], 1000);
}

#[test]
fn messages_are_logged_at_the_level_asked_for() {
    let client = Client::legacy(Behaviour::new());
    let log =
        |level| text(&client.call("log", &json!({ "level": level, "message": "m" }))).to_owned();
    assert_eq!(log("debug"), "logged");
    client.request("logging/setLevel", &json!({ "level": "error" }));
    assert_eq!(log("warning"), "not wanted");
    assert_eq!(log("critical"), "logged");

    let mut params = stateless_call("log", &json!({}));
    assert_eq!(text(&client.request("tools/call", &params)), "not wanted");
    params["_meta"][META_LOG_LEVEL] = json!("info");
    assert_eq!(text(&client.request("tools/call", &params)), "logged");
}

#[test]
fn resources_and_prompts_can_be_read_and_switched_off() {
    let client = Client::legacy(Behaviour::new());
    let read = |uri| client.request("resources/read", &json!({ "uri": uri }));
    assert_eq!(
        read("test://text")["result"]["contents"][0]["text"],
        "contents of test://text"
    );
    assert_eq!(
        read("test://blob")["result"]["contents"][0]["blob"],
        "AAECAw=="
    );
    assert_eq!(
        read("test://note/a")["result"]["contents"][0]["text"],
        "note a"
    );
    assert_eq!(error_code(&read("test://none")), -32002);
    let prompt = json!({ "name": "greet", "arguments": { "name": "Ada" } });
    let greeting = client.request("prompts/get", &prompt)["result"].clone();
    assert_eq!(
        greeting["messages"][0]["content"]["text"],
        "Greet Ada kindly."
    );
    assert_eq!(
        error_code(&client.request("prompts/get", &json!({ "name": "greet" }))),
        -32602
    );

    let bare = Client::legacy(Behaviour::new().without_resources().without_prompts());
    assert_eq!(
        error_code(&bare.request("resources/list", &json!({}))),
        -32601
    );
    assert_eq!(
        error_code(&bare.request("prompts/list", &json!({}))),
        -32601
    );
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
