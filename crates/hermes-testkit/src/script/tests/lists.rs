//! What is listed, how that changes, and who hears of it.

use super::*;
use crate::{behaviour::OddTool, wire::META_SUBSCRIPTION};

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
fn made_pages_have_all_their_tools_and_an_end() {
    let client = Client::legacy(Behaviour::new().lists(|lists| {
        lists.made_pages = 3;
        lists.page_size = Some(2);
    }));
    let page = |cursor: &str| {
        let params = json!({ "cursor": cursor });
        client.request("tools/list", &params)["result"].clone()
    };
    let middle = page("1");
    assert_eq!(middle["tools"][0]["name"], "tool_2");
    assert_eq!(middle["tools"][1]["name"], "tool_3");
    assert_eq!(middle["nextCursor"], "2");
    let last = page("2");
    assert_eq!(last["tools"].as_array().unwrap().len(), 2);
    assert!(last.get("nextCursor").is_none(), "{last}");
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
