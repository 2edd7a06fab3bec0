//! Slash commands, and messages that come while an answer is under way.

use std::time::{Duration, Instant};

use hermes_testkit::{Behaviour, Era, model::ReplyEnding};

use super::*;
use crate::harness::program::entry;

/// An answer that begins and never ends.
fn stalled(text: &str) -> ScriptedAnswer {
    ScriptedAnswer::text(text).with(|reply| reply.ending = ReplyEnding::Stalled)
}

#[test]
fn stop_ends_a_running_call_of_a_server_within_a_second() {
    let kit = entry(&Behaviour::new().era(Era::Legacy));
    let script = ModelScript::default().rule(
        "work",
        ScriptedAnswer::call("mcp_kit_sleep", &json!({"ms": 600_000})),
    );
    let home = ChatHome::with_more(script, &format!("mcp_servers: {}", json!({"kit": kit})));
    let gateway = home.start();
    let mut round = 0;
    assert_once_within(Duration::from_secs(1), || {
        round += 1;
        home.telegram.say(ADA, "work");
        wait_until("the call runs", || {
            home.turns().len() == round && gateway.runs_tool()
        });
        let asked = Instant::now();
        home.telegram.say(ADA, "/stop");
        home.wait_for_answers(ADA, round);
        wait_until("no run", || {
            gateway.get("/health/detailed")["queues"]["runs"] == 0
        });
        asked.elapsed()
    });
    let answers = home.telegram.answers(ADA);
    assert!(answers.iter().all(|text| text == "Stopped."), "{answers:?}");
    assert_eq!(answers.len(), round);
}

impl GatewayProcess {
    /// Whether a run is inside a tool call.
    fn runs_tool(&self) -> bool {
        self.get("/health/detailed")["queues"]["turns"] == 1
    }
}

#[test]
fn a_new_conversation_knows_nothing_of_the_last_one_and_resume_goes_back() {
    let home = ChatHome::new(ModelScript::echo());
    let _gateway = home.start();
    home.telegram.say(ADA, "apples");
    home.wait_for_answers(ADA, 1);
    home.telegram.say(ADA, "/title Fruit");
    assert!(home.wait_for_answers(ADA, 2)[1].contains("Fruit"));
    home.telegram.say(ADA, "/new");
    assert!(home.wait_for_answers(ADA, 3)[2].contains("new conversation"));
    home.telegram.say(ADA, "pears");
    home.wait_for_answers(ADA, 4);
    assert!(!home.last_turn().to_string().contains("apples"));
    home.telegram.say(ADA, "/sessions");
    let list = home.wait_for_answers(ADA, 5).pop().unwrap();
    assert!(list.contains("Fruit"), "{list}");
    home.telegram.say(ADA, "/resume Fruit");
    home.wait_for_answers(ADA, 6);
    home.telegram.say(ADA, "plums");
    home.wait_for_answers(ADA, 7);
    let asked = home.last_turn().to_string();
    assert!(
        asked.contains("apples") && !asked.contains("pears"),
        "{asked}"
    );
}

#[test]
fn turns_are_taken_back_and_tried_again() {
    let home = ChatHome::new(ModelScript::echo());
    let _gateway = home.start();
    home.telegram.say(ADA, "apples");
    home.wait_for_answers(ADA, 1);
    home.telegram.say(ADA, "/retry");
    assert_eq!(home.wait_for_answers(ADA, 2), ["apples"; 2]);
    let users = |home: &ChatHome| {
        let messages = home.last_turn();
        let roles = messages.as_array().unwrap().iter();
        roles.filter(|message| message["role"] == "user").count()
    };
    assert_eq!(users(&home), 1);
    assert_eq!(home.turns().len(), 2);
    home.telegram.say(ADA, "/undo");
    assert!(home.wait_for_answers(ADA, 3)[2].contains("apples"));
    home.telegram.say(ADA, "pears");
    assert_eq!(home.wait_for_answers(ADA, 4)[3], "pears");
    assert!(!home.last_turn().to_string().contains("apples"));
}

#[test]
fn commands_tell_what_they_know() {
    let home = ChatHome::new(ModelScript::echo());
    let _gateway = home.start();
    for (command, word) in [
        ("/help", "/stop"),
        ("/status", "telegram"),
        ("/whoami", "7001"),
        ("/usage", "used"),
        ("/model", "m"),
        ("/nonsense", "no command"),
        ("/stop", "Nothing is running."),
        ("/version", "hermes"),
    ] {
        let before = home.telegram.answers(ADA).len();
        home.telegram.say(ADA, command);
        let answer = home.wait_for_answers(ADA, before + 1).pop().unwrap();
        assert!(answer.contains(word), "{command}: {answer}");
    }
    assert_eq!(home.turns().len(), 0);
    let registered = home.telegram.commands();
    assert!(
        registered.contains(&"reload_mcp".to_owned()),
        "{registered:?}"
    );
}

#[test]
fn a_command_that_is_old_does_nothing() {
    let home = ChatHome::new(ModelScript::default().rule("long", stalled("I begin")));
    let gateway = home.start();
    home.telegram.say(ADA, "long work");
    wait_until("the model is asked", || home.turns().len() == 1);
    let old = std::time::SystemTime::now() - Duration::from_mins(2);
    let old = old.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    home.telegram
        .message(ADA, ADA)
        .text("/stop")
        .sent_at(old)
        .send();
    home.telegram.say(ADA, "/status");
    wait_until("an answer", || {
        home.telegram
            .answers(ADA)
            .iter()
            .any(|answer| answer.contains("telegram"))
    });
    assert_eq!(gateway.get("/health/detailed")["queues"]["turns"], 1);
    home.telegram.say(ADA, "/stop");
    wait_until("it stops", || {
        gateway.get("/health/detailed")["queues"]["turns"] == 0
    });
}

#[test]
fn a_message_stops_the_answer_that_is_under_way() {
    let script = ModelScript::default()
        .rule("long", stalled("I begin"))
        .rule("short", ScriptedAnswer::text("Here I am."));
    let home = ChatHome::new(script);
    let _gateway = home.start();
    home.telegram.say(ADA, "long work");
    wait_until("the model is asked", || home.turns().len() == 1);
    home.telegram.say(ADA, "short question");
    wait_until("an answer", || {
        home.telegram
            .answers(ADA)
            .iter()
            .any(|answer| answer == "Here I am.")
    });
    let asked = home.last_turn().to_string();
    assert!(
        asked.contains("long work") && asked.contains("short question"),
        "{asked}"
    );
}

#[test]
fn in_queue_mode_messages_wait_in_order_and_are_told_their_place() {
    let slow = ScriptedAnswer::text("one done").with(|reply| reply.delay_ms = 5000);
    let script = ModelScript::default()
        .rule("one", slow)
        .rule("two", ScriptedAnswer::text("two done"))
        .rule("three", ScriptedAnswer::text("three done"));
    let home = ChatHome::with_more(script, "display: {busy_input_mode: queue}");
    let _gateway = home.start();
    home.telegram.say(ADA, "one");
    wait_until("the model is asked", || home.turns().len() == 1);
    home.telegram.say(ADA, "two");
    home.telegram.say(ADA, "three");
    let answers = home.wait_for_answers(ADA, 5);
    assert_eq!(
        answers,
        [
            "Queued, place 1.",
            "Queued, place 2.",
            "one done",
            "two done",
            "three done"
        ]
    );
}
