//! What is answered, how often, and to whom.

use super::*;

#[test]
fn a_direct_message_is_answered_once() {
    let home =
        ChatHome::new(ModelScript::default().rule("hello", ScriptedAnswer::text("Good day.")));
    let gateway = home.start();
    home.telegram.say(ADA, "hello bot");
    assert_eq!(home.wait_for_answers(ADA, 1), ["Good day."]);
    let asked = home.last_turn().to_string();
    assert!(asked.contains("hello bot"), "{asked}");
    // The same conversation goes on.
    home.telegram.say(ADA, "hello again");
    assert_eq!(home.wait_for_answers(ADA, 2), ["Good day.", "Good day."]);
    let asked = home.last_turn().to_string();
    assert!(
        asked.contains("hello bot") && asked.contains("hello again"),
        "{asked}"
    );
    let sessions = gateway.get("/api/sessions");
    let session = &sessions["sessions"][0];
    assert_eq!(session["source"], "telegram", "{sessions}");
    assert_eq!(home.turns().len(), 2);
}

#[test]
fn an_update_that_comes_twice_is_answered_once() {
    let home = ChatHome::new(ModelScript::echo());
    let _gateway = home.start();
    home.telegram.say(ADA, "first");
    home.wait_for_answers(ADA, 1);
    let update = serde_json::json!({
        "update_id": 900_000,
        "message": {
            "message_id": 900, "date": 1_900_000_000, "text": "twice",
            "from": {"id": ADA, "is_bot": false, "first_name": "Ada"},
            "chat": {"id": ADA, "type": "private", "first_name": "Ada"},
        },
    });
    home.telegram.deliver(update.clone());
    home.telegram.deliver(update);
    home.wait_for_answers(ADA, 2);
    home.telegram.say(ADA, "last");
    let answers = home.wait_for_answers(ADA, 3);
    assert_eq!(answers.len(), 3, "{answers:?}");
    assert!(answers[2].contains("last"), "{answers:?}");
}

#[test]
fn somebody_who_may_not_use_the_bot_causes_no_request_and_gets_no_answer() {
    let home = ChatHome::new(ModelScript::echo());
    let _gateway = home.start();
    home.telegram.say(EVE, "let me in");
    home.telegram.say(ADA, "hello");
    home.wait_for_answers(ADA, 1);
    assert_eq!(home.telegram.answers(EVE), Vec::<String>::new());
    assert_eq!(home.turns().len(), 1);
    assert!(!home.last_turn().to_string().contains("let me in"));
}

#[test]
fn a_conversation_that_was_idle_for_long_begins_anew_and_both_are_told() {
    let more = "session_reset: {mode: idle, idle_minutes: 60}";
    let home = ChatHome::with_more(ModelScript::echo(), more);
    let gateway = home.start();
    home.telegram.say(ADA, "apples");
    home.wait_for_answers(ADA, 1);
    let file = home.gateway.home.path().join("sessions/sessions.json");
    wait_until("the routing is written", || file.exists());
    drop(gateway);
    // Two hours pass.
    let database = home.gateway.home.path().join("state.db");
    let sql = "UPDATE gateway_routing SET entry_json = json_set(entry_json, '$.updated_at', \
               strftime('%Y-%m-%dT%H:%M:%S', 'now', 'localtime', '-2 hours'))";
    let script =
        "import sqlite3, sys\nd = sqlite3.connect(sys.argv[1])\nd.execute(sys.argv[2])\nd.commit()";
    let mut python = std::process::Command::new("python3");
    assert!(
        python
            .args(["-c", script])
            .arg(&database)
            .arg(sql)
            .status()
            .unwrap()
            .success()
    );
    let _gateway = home.start();
    home.telegram.say(ADA, "pears");
    let answers = home.wait_for_answers(ADA, 3);
    assert!(answers[1].contains("new conversation"), "{answers:?}");
    assert!(answers[2].ends_with("pears"), "{answers:?}");
    let asked = home.last_turn().to_string();
    assert!(
        asked.contains("This is a new conversation") && !asked.contains("apples"),
        "{asked}"
    );
}

#[test]
fn the_typing_sign_is_shown_unless_it_is_turned_off() {
    let script = || {
        let slow = ScriptedAnswer::text("Good day.").with(|reply| reply.delay_ms = 2000);
        ModelScript::default().rule("hello", slow)
    };
    for (more, is_shown) in [("", true), ("telegram: {typing_indicator: false}", false)] {
        let home = ChatHome::with_more(script(), more);
        let _gateway = home.start();
        home.telegram.say(ADA, "hello bot");
        home.wait_for_answers(ADA, 1);
        let shown = home.telegram.actions(ADA);
        assert_eq!(!shown.is_empty(), is_shown, "{more}: {shown:?}");
    }
}
