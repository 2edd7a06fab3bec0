//! `busy_input_mode: steer`: what comes during a turn becomes part of it.

use std::path::PathBuf;

use hermes_testkit::model::{ModelRule, ReplyEnding};

use super::*;

const STEER: &str = "display: {busy_input_mode: steer}";

/// A command of the agent that runs until the test lets it end.
struct HeldCommand {
    directory: tempfile::TempDir,
}

impl HeldCommand {
    fn new() -> Self {
        let held = Self {
            directory: tempfile::tempdir().unwrap(),
        };
        let mut make = std::process::Command::new("mkfifo");
        assert!(make.arg(held.pipe()).status().unwrap().success());
        held
    }

    fn pipe(&self) -> PathBuf {
        self.directory.path().join("pipe")
    }

    fn started(&self) -> PathBuf {
        self.directory.path().join("started")
    }

    /// The reply of a model that runs it.
    fn call(&self) -> ScriptedAnswer {
        let (started, pipe) = (self.started(), self.pipe());
        let command = format!("touch {}; cat {}", started.display(), pipe.display());
        ScriptedAnswer::call("terminal", &json!({"command": command}))
    }

    #[track_caller]
    fn wait_until_started(&self) {
        wait_until("the command runs", || self.started().exists());
    }

    /// Lets it end with this output.
    fn finish(&self, output: &str) {
        std::fs::write(self.pipe(), output).unwrap();
    }
}

/// A model that paints: its command is held, and every wish has an answer.
fn painter(held: &HeldCommand) -> ModelScript {
    ModelScript::default()
        .rule("the door", held.call())
        .rule("in blue", ScriptedAnswer::text("It is blue."))
        .rule("in green", ScriptedAnswer::text("It is green."))
        .rule("dry", ScriptedAnswer::text("It is white."))
}

impl ChatHome {
    /// Waits until the worker of the conversation has taken everything that was said.
    #[track_caller]
    fn wait_until_taken(&self, queued: usize) {
        let statuses = || {
            let mut answers = self.telegram.answers(ADA);
            answers.retain(|answer| answer.contains("platforms:"));
            answers
        };
        let before = statuses().len();
        self.telegram.say(ADA, "/status");
        wait_until("the status", || statuses().len() > before);
        let status = statuses().pop().unwrap();
        let expected = format!("running, {queued} queued");
        assert!(status.contains(&expected), "{status}");
    }

    /// What the bot said, without the answers to `/status`.
    fn said(&self) -> Vec<String> {
        let mut answers = self.telegram.answers(ADA);
        answers.retain(|answer| !answer.contains("platforms:"));
        answers
    }

    #[track_caller]
    fn wait_until_said(&self, expected: &[&str]) {
        wait_until(&expected.join(", "), || {
            self.said().len() >= expected.len()
                && self
                    .said()
                    .last()
                    .is_some_and(|last| last == expected[expected.len() - 1])
        });
        assert_eq!(self.said(), expected);
    }
}

fn roles(messages: &Value) -> Vec<&str> {
    let messages = messages.as_array().unwrap().iter();
    messages
        .map(|message| message["role"].as_str().unwrap())
        .collect()
}

#[test]
fn a_message_during_a_call_reaches_the_model_with_the_next_request() {
    let held = HeldCommand::new();
    let home = ChatHome::with_more(painter(&held), STEER);
    let gateway = home.start();
    home.telegram.say(ADA, "paint the door");
    held.wait_until_started();
    home.telegram.say(ADA, "in blue please");
    home.wait_until_taken(1);
    held.finish("dry");
    home.wait_until_said(&["It is blue."]);
    // The call was not interrupted, and both messages were one turn.
    assert_eq!(home.turns().len(), 2);
    let asked = home.last_turn();
    assert_eq!(
        roles(&asked),
        ["system", "user", "assistant", "tool", "user"]
    );
    assert!(asked[3].to_string().contains("dry"), "{asked}");
    // Stored once, and nothing is left to do.
    home.telegram.say(ADA, "and now in green");
    home.wait_until_said(&["It is blue.", "It is green."]);
    let told = home.last_turn().to_string();
    assert_eq!(told.matches("in blue please").count(), 1, "{told}");
    drop(gateway);
    let _gateway = home.start();
    home.telegram.say(ADA, "still in green");
    home.wait_until_said(&["It is blue.", "It is green.", "It is green."]);
}

#[test]
fn a_message_that_comes_after_the_last_request_is_the_next_turn() {
    let slow = ScriptedAnswer::text("one done").with(|reply| reply.delay_ms = 1500);
    let script = ModelScript::default()
        .rule("one", slow)
        .rule("two", ScriptedAnswer::text("two done"));
    let home = ChatHome::with_more(script, STEER);
    let _gateway = home.start();
    home.telegram.say(ADA, "one");
    wait_until("the model is asked", || home.turns().len() == 1);
    home.telegram.say(ADA, "two");
    home.wait_until_said(&["one done", "two done"]);
}

#[test]
fn what_is_queued_by_command_has_a_turn_of_its_own() {
    let held = HeldCommand::new();
    let home = ChatHome::with_more(painter(&held), STEER);
    let _gateway = home.start();
    home.telegram.say(ADA, "paint the door");
    held.wait_until_started();
    home.telegram.say(ADA, "/queue then in green");
    home.telegram.say(ADA, "in blue please");
    home.wait_until_taken(2);
    held.finish("dry");
    home.wait_until_said(&["Queued, place 1.", "It is blue.", "It is green."]);
    let turns = home.turns();
    assert_eq!(turns.len(), 3);
    let first = turns[1].body["messages"].to_string();
    assert!(!first.contains("then in green"), "{first}");
}

#[test]
fn stop_drops_what_waits_for_the_next_request() {
    let held = HeldCommand::new();
    let home = ChatHome::with_more(painter(&held), STEER);
    let _gateway = home.start();
    home.telegram.say(ADA, "paint the door");
    held.wait_until_started();
    home.telegram.say(ADA, "in blue please");
    home.telegram.say(ADA, "/queue then in green");
    home.wait_until_taken(2);
    home.telegram.say(ADA, "/stop");
    let stopped = "Stopped; 2 messages that waited were dropped.";
    home.wait_until_said(&["Queued, place 2.", stopped]);
    home.telegram.say(ADA, "is it dry");
    home.wait_until_said(&["Queued, place 2.", stopped, "It is white."]);
    let told = home.last_turn().to_string();
    assert!(
        !told.contains("in blue") && !told.contains("in green"),
        "{told}"
    );
}

#[test]
fn killed_after_a_message_joined_a_turn_both_are_answered_once() {
    let held = HeldCommand::new();
    let mut script = painter(&held);
    let stalled = ScriptedAnswer::text("It").with(|reply| reply.ending = ReplyEnding::Stalled);
    script.rules.insert(
        0,
        ModelRule {
            contains: "in blue".into(),
            answer: stalled,
            times: Some(1),
        },
    );
    let home = ChatHome::with_more(script, STEER);
    let mut gateway = home.start();
    home.telegram.say(ADA, "paint the door");
    held.wait_until_started();
    home.telegram.say(ADA, "in blue please");
    home.wait_until_taken(1);
    held.finish("dry");
    wait_until("the model is asked again", || home.turns().len() == 2);
    gateway.process.kill();
    let _gateway = home.start();
    home.wait_until_said(&["It is blue."]);
    let told = home.last_turn().to_string();
    assert_eq!(told.matches("in blue please").count(), 1, "{told}");
    assert_eq!(told.matches("paint the door").count(), 1, "{told}");
    home.telegram.say(ADA, "and now in green");
    home.wait_until_said(&["It is blue.", "It is green."]);
}

#[test]
fn killed_before_a_message_joined_its_turn_it_is_not_lost() {
    let held = HeldCommand::new();
    let script = painter(&held).rule("interrupted", ScriptedAnswer::text("It was cut off."));
    let home = ChatHome::with_more(script, STEER);
    let mut gateway = home.start();
    home.telegram.say(ADA, "paint the door");
    held.wait_until_started();
    home.telegram.say(ADA, "in blue please");
    home.wait_until_taken(1);
    gateway.process.kill();
    let _gateway = home.start();
    // It joins the turn that goes on, or comes after it.
    wait_until("an answer", || {
        home.said().iter().any(|answer| answer == "It is blue.")
    });
    home.telegram.say(ADA, "and now in green");
    wait_until("a later answer", || {
        home.said().iter().any(|answer| answer == "It is green.")
    });
    let blue = home.said();
    let count = blue
        .iter()
        .filter(|answer| *answer == "It is blue.")
        .count();
    assert_eq!(count, 1, "{blue:?}");
    let told = home.last_turn().to_string();
    assert_eq!(told.matches("in blue please").count(), 1, "{told}");
}

#[test]
fn more_messages_than_a_conversation_keeps_in_memory_are_taken_in_order() {
    const COUNT: usize = 1005;
    let summary = ScriptedAnswer::text("They counted.").with(|reply| reply.delay_ms = 4000);
    let script = ModelScript::echo().rule("Sum up this transcript", summary);
    let compression = "compression: {protect_first_n: 1, protect_last_n: 2}";
    let home = ChatHome::with_more(script, &format!("{STEER}\n{compression}"));
    let _gateway = home.start();
    for number in 0..6 {
        home.telegram.say(ADA, &format!("item {number}"));
        home.wait_for_answers(ADA, number + 1);
    }
    let before = home.turns().len();
    // Nothing is taken while a command is executed.
    home.telegram.say(ADA, "/compress");
    wait_until("the summary is asked for", || {
        home.turns().len() == before + 1
    });
    for number in 0..COUNT {
        home.telegram.say(ADA, &format!("message-{number}."));
    }
    let last = format!("message-{}.", COUNT - 1);
    wait_until(&last, || home.telegram.answers(ADA).contains(&last));
    let asked = home.last_turn();
    let said: Vec<&str> = asked
        .as_array()
        .unwrap()
        .iter()
        .filter(|message| message["role"] == "user")
        .filter_map(|message| message["content"].as_str())
        .filter_map(|text| text.find("message-").map(|at| &text[at..]))
        .collect();
    let expected: Vec<String> = (0..COUNT)
        .map(|number| format!("message-{number}."))
        .collect();
    assert_eq!(said, expected);
}
