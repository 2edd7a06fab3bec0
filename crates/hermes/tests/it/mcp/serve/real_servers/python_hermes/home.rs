//! A home of 0.19 in which something happens, an older one, and one that must stay as it is.

use std::fs;

use super::*;

#[test]
fn new_messages_are_the_same_events() {
    let Some(python) = python() else { return };
    let hermes = written(&python);
    let mut both = BridgePair::open(&hermes, &python);
    both.initialize();
    // Ours begins with what comes; theirs begins with all there is.
    let [_, CallOutcome::Document(nothing, _)] = both.call("events_poll", &json!({})) else {
        panic!("no events");
    };
    assert_eq!(nothing["events"], json!([]));
    let said = chats(&hermes, &python, &["say", KEY, &"news 😀 ".repeat(100)]);
    let events = hermes_testkit::wait_for(TIMEOUT, || {
        let polled = both.call("events_poll", &json!({"session_key": KEY, "limit": 200}));
        let found = polled.map(|polled| match polled {
            CallOutcome::Document(page, _) => {
                let events = page["events"].as_array().unwrap().clone();
                events.into_iter().find(|event| event["message_id"] == said)
            }
            other => panic!("{other:?}"),
        });
        match found {
            [Some(theirs), Some(ours)] => Some([theirs, ours]),
            _ => None,
        }
    });
    let mut events = events.expect("the message never came");
    let cursors = events.each_mut().map(|event| {
        let event = event.as_object_mut().unwrap();
        event.shift_remove("cursor").unwrap()
    });
    let [theirs, ours] = &events;
    assert_eq!(format!("{ours:#}"), format!("{theirs:#}"));
    // Each waits with its own cursor.
    let wait = |id: u64, cursor: &Value| {
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {
            "name": "events_wait", "arguments": {"after_cursor": cursor, "timeout_ms": 30_000}}})
    };
    both.asked += 1;
    both.theirs.send(&wait(both.asked, &cursors[0]));
    both.ours.send(&wait(both.asked, &cursors[1]));
    let said = chats(&hermes, &python, &["say", KEY, "and more"]);
    let [theirs, ours] = both.answers().map(|answer| match outcome(&answer) {
        CallOutcome::Document(mut document, _) => {
            let event = document["event"].as_object_mut().unwrap();
            event.shift_remove("cursor").unwrap();
            without_added(document)
        }
        other => panic!("{other:?}"),
    });
    assert_eq!(ours["event"]["message_id"], said);
    assert_eq!(format!("{ours:#}"), format!("{theirs:#}"));
}

#[test]
fn conversations_of_an_older_home_come_from_its_json_file() {
    let Some(python) = python() else { return };
    let hermes = Hermes::new();
    let session = chats(&hermes, &python, &["write-bare"]);
    let origin = json!({"platform": "telegram", "chat_id": "1", "chat_name": "Ann A.", "chat_type": "dm",
        "user_id": "1", "user_name": null, "thread_id": null});
    let entry = |session: &str| {
        json!({"session_key": KEY, "session_id": session, "created_at": "2026-01-01T10:00:00.000001",
            "updated_at": "2026-01-02T10:00:00.000001", "display_name": "Ann", "platform": "telegram",
            "chat_type": "dm", "input_tokens": 1, "output_tokens": 2, "total_tokens": 3, "origin": origin})
    };
    let file = json!({"_README": "what this is", KEY: entry(&session), NOBODY: entry("")});
    hermes
        .home
        .write("sessions/sessions.json", &file.to_string());
    let mut both = BridgePair::open(&hermes, &python);
    both.initialize();
    same(&mut both, "conversations_list", &json!({}));
    for key in [KEY, NOBODY, "_README"] {
        same(&mut both, "conversation_get", &json!({"session_key": key}));
        same(&mut both, "messages_read", &json!({"session_key": key}));
        same(
            &mut both,
            "attachments_fetch",
            &json!({"session_key": key, "message_id": "1"}),
        );
    }
    same(&mut both, "channels_list", &json!({}));
}

#[test]
fn our_bridge_leaves_their_database_as_it_is() {
    let Some(python) = python() else { return };
    let hermes = written(&python);
    let database = hermes.home.path().join("state.db");
    let before = fs::read(&database).unwrap();
    let mut ours = BridgeProcess::open(&hermes, &[]);
    for (id, (tool, arguments)) in (1..).zip([
        ("conversations_list", json!({})),
        ("conversation_get", json!({"session_key": KEY})),
        ("messages_read", json!({"session_key": KEY})),
        (
            "attachments_fetch",
            json!({"session_key": KEY, "message_id": "14"}),
        ),
        ("channels_list", json!({})),
        ("events_poll", json!({})),
        ("events_wait", json!({"timeout_ms": 500})),
        ("permissions_list_open", json!({})),
    ]) {
        ours.call(id, tool, &arguments);
        let answer = ours.receive();
        assert!(
            matches!(outcome(&answer), CallOutcome::Document(..)),
            "{answer}"
        );
    }
    assert_eq!(fs::read(&database).unwrap(), before);
    drop(ours.stdin.take());
    ours.wait_for_exit();
    assert_eq!(fs::read(&database).unwrap(), before);
}
