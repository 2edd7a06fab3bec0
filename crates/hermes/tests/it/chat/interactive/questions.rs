//! Questions to the person: approvals and what the model wants to know.

use std::time::Duration;

use hermes_agent::approval::{SubmitOutcome, SubmittedDecision, send_decision};
use hermes_config::Home;
use hermes_store::runtime::{self, RuntimeStore};
use hermes_testkit::{
    Behaviour,
    model::{ModelScript, ScriptedAnswer},
    recorded,
};
use serde_json::json;

use super::CTRL_C;
use crate::harness::{chat_terminal::ChatHome, test_home::TIMEOUT};

fn risky() -> ModelScript {
    let call = json!({"command": "rm -r build"});
    ModelScript::new([
        ScriptedAnswer::call("terminal", &call),
        ScriptedAnswer::text("Done."),
        ScriptedAnswer::call("terminal", &call),
        ScriptedAnswer::text("Again."),
    ])
}

fn place(script: ModelScript) -> ChatHome {
    let place = ChatHome::with_model(script, &[]);
    place.home.write("build/file", "x");
    place
}

#[test]
fn something_risky_runs_once_it_is_approved() {
    let place = place(risky());
    let talk = place.start_chat(&[]);
    talk.line("clean up");
    let screen = talk.wait_for("[o]nce, [s]ession, [a]lways, [d]eny");
    assert!(
        screen.contains("terminal wants to run:\n  rm -r build"),
        "{screen}"
    );
    assert!(place.home.path().join("build").exists());
    talk.keys("o\r");
    talk.wait_for("Done.");
    assert!(!place.home.path().join("build").exists());
    talk.line("and again");
    talk.wait_until("second question", |screen| {
        screen.matches("terminal wants to run").count() == 2
    });
}

#[test]
fn another_process_may_answer_in_the_place_of_the_person() {
    let place = place(risky());
    let talk = place.start_chat(&[]);
    // Without a question there is nothing to publish.
    assert!(!place.home.path().join("runtime.db").exists());
    talk.line("clean up");
    talk.wait_for("[d]eny");
    answer_elsewhere(&place, runtime::ApprovalAnswer::Once);
    let screen = talk.wait_for("Done.");
    assert!(
        screen.contains("Answered by another program: allowed once."),
        "{screen}"
    );
    assert!(!place.home.path().join("build").exists());
    // The terminal is free again.
    talk.line("/whoami");
    talk.wait_for("platform");
}

#[test]
fn a_single_message_at_a_terminal_asks_and_can_be_answered_elsewhere() {
    let place = place(risky());
    let talk = place.start_chat_with(&["-q", "clean up"], &[]);
    talk.wait_for("[o]nce, [s]ession, [a]lways, [d]eny");
    talk.keys("o\r");
    talk.wait_for("Done.");
    assert_eq!(talk.end().0, Some(0));
    assert!(!place.home.path().join("build").exists());
    place.home.write("build/file", "x");
    let talk = place.start_chat_with(&["-q", "and again"], &[]);
    talk.wait_for("[d]eny");
    answer_elsewhere(&place, runtime::ApprovalAnswer::Deny);
    talk.wait_for("Answered by another program: denied.");
    talk.wait_for("Again.");
    assert_eq!(talk.end().0, Some(0));
    assert!(place.home.path().join("build").exists());
}

#[test]
fn ctrl_c_at_the_question_of_a_single_message_ends_it() {
    let place = place(risky());
    let talk = place.start_chat_with(&["-q", "clean up"], &[]);
    talk.wait_for("[d]eny");
    talk.keys(CTRL_C);
    assert_eq!(talk.end().0, Some(130));
    assert!(place.home.path().join("build").exists());
}

/// Answers the question that is open, as another process of the home would.
fn answer_elsewhere(place: &ChatHome, answer: runtime::ApprovalAnswer) {
    let home = Home::at(place.home.path());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let store = RuntimeStore::open(&home).await.unwrap();
        let open = hermes_testkit::eventually_some(TIMEOUT, async || {
            store.open_approvals().await.unwrap().pop()
        });
        let open = open.await.unwrap();
        assert_eq!(open.command, "rm -r build");
        let given = SubmittedDecision::new(answer, "another program");
        let owner = u32::try_from(open.owner_pid).unwrap();
        let taken = send_decision(&home, owner, &open.id, &given).await;
        assert_eq!(taken.unwrap(), Some(SubmitOutcome::Accepted));
        store.close().await;
    });
}

#[test]
fn a_refusal_and_its_reason_reach_the_model() {
    let place = place(risky());
    let talk = place.start_chat(&[]);
    talk.line("clean up");
    talk.wait_for("[d]eny");
    talk.keys("d I need it\r");
    talk.wait_for("Done.");
    assert!(place.home.path().join("build").exists());
    let requests = place.model.as_ref().unwrap().requests();
    assert!(requests[1].body.to_string().contains("I need it"));
}

#[test]
fn always_is_written_down_and_not_asked_again() {
    let place = place(risky());
    let talk = place.start_chat(&[]);
    talk.line("clean up");
    talk.wait_for("[d]eny");
    talk.keys("a\r");
    talk.wait_for("Done.");
    let config = std::fs::read_to_string(place.home.path().join("config.yaml")).unwrap();
    assert!(config.contains("command_allowlist"), "{config}");
    // What was shown, and no class of commands.
    assert!(config.contains("rm -r build"), "{config}");
    assert!(!config.contains("recursive delete"), "{config}");
    talk.line("once more");
    let screen = talk.wait_for("Again.");
    assert_eq!(screen.matches("wants to run").count(), 1, "{screen}");
}

#[test]
fn a_question_nobody_answers_is_a_refusal() {
    let place = ChatHome::new(Some(risky()), &[], "approvals: {timeout: 3}\n");
    place.home.write("build/file", "x");
    let talk = place.start_chat(&[]);
    talk.line("clean up");
    talk.wait_for("[d]eny");
    talk.wait_for("Done.");
    assert!(place.home.path().join("build").exists());
    // The terminal is free again.
    talk.line("/whoami");
    talk.wait_for("platform");
}

#[test]
fn keys_pressed_before_a_question_do_not_answer_it() {
    let wait = "until [ -e pressed ]; do sleep 0.05; done";
    let script = ModelScript::new([
        ScriptedAnswer::call("terminal", &json!({"command": wait})),
        ScriptedAnswer::call("terminal", &json!({"command": "rm -r build"})),
        ScriptedAnswer::text("Done."),
    ]);
    let place = place(script);
    let talk = place.start_chat(&[]);
    talk.line("clean up");
    talk.wait_for("until [ -e pressed ]");
    talk.keys("o\r");
    place.home.write("pressed", "");
    talk.wait_for("[d]eny");
    let build = place.home.path().join("build");
    let is_deleted = hermes_testkit::wait_until(Duration::from_millis(300), || !build.exists());
    assert!(!is_deleted);
    talk.keys("d\r");
    talk.wait_for("Done.");
}

#[test]
fn ctrl_c_at_a_question_stops_the_turn() {
    let place = place(risky());
    let talk = place.start_chat(&[]);
    talk.line("clean up");
    talk.wait_for("[d]eny");
    talk.keys("\x03");
    talk.wait_for("Interrupted.");
    talk.prompt();
    assert!(place.home.path().join("build").exists());
}

#[test]
fn a_question_of_the_model_is_answered_by_number_or_in_words() {
    let ask = json!({"question": "Which colour?", "choices": ["red", "green"]});
    let script = ModelScript::new([
        ScriptedAnswer::call("clarify", &ask),
        ScriptedAnswer::call("clarify", &ask),
        ScriptedAnswer::text("Fine."),
    ]);
    let place = ChatHome::with_model(script, &[]);
    let talk = place.start_chat(&[]);
    talk.line("paint");
    let screen = talk.wait_for("A number, or an answer of your own");
    assert!(
        screen.contains("Which colour?\n  1. red\n  2. green"),
        "{screen}"
    );
    talk.keys("2\r");
    talk.wait_until("second question", |screen| {
        screen.matches("2. green").count() == 2
    });
    talk.keys("bright blue\r");
    talk.wait_for("Fine.");
    let requests = place.model.as_ref().unwrap().requests();
    assert!(
        requests[1]
            .body
            .to_string()
            .contains(r#"user_response\":\"green"#)
    );
    assert!(requests[2].body.to_string().contains("bright blue"));
}

#[test]
fn a_form_of_a_server_is_filled_in_during_the_call() {
    let params = json!({
        "mode": "form",
        "message": "Who are you?",
        "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
    });
    let script = ModelScript::new([
        ScriptedAnswer::call("mcp_kit_elicit", &json!({"params": params})),
        ScriptedAnswer::text("Hello Ada."),
    ]);
    let place = ChatHome::with_model(script, &[("kit", &Behaviour::new())]);
    let talk = place.start_chat(&[]);
    talk.wait_until_ready("kit");
    talk.line("ask me");
    talk.wait_for("Who are you?");
    talk.wait_for("name:");
    talk.keys("Ada\r");
    talk.wait_for("Send this to `kit`?");
    talk.keys("y\r");
    talk.wait_for("Hello Ada.");
    let requests = place.model.as_ref().unwrap().requests();
    let result = requests[1].body.to_string();
    assert!(
        result.contains("Ada") && result.contains("accept"),
        "{result}"
    );
}

#[test]
fn a_tool_that_its_server_calls_destructive_is_asked_about_in_the_chat() {
    let (place, record) = ChatHome::wiping(&json!("@destructive"), &["one", "two"]);
    let calls = || recorded(&record, "tools/call").len();
    let talk = place.start_chat(&[]);
    talk.wait_until_ready("kit");
    talk.line("wipe it");
    let screen = talk.wait_for("[o]nce, [s]ession, [a]lways, [d]eny");
    assert!(screen.contains("kit.wipe {\"text\":\"one\"}"), "{screen}");
    assert_eq!(calls(), 0);
    talk.keys("o\r");
    talk.wait_until("second question", |screen| {
        screen.contains("kit.wipe {\"text\":\"two\"}")
    });
    assert_eq!(calls(), 1);
    talk.keys("d\r");
    talk.wait_for("Done.");
    assert_eq!(calls(), 1);
}
