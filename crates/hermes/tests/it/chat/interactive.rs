//! A person who talks to the program at a terminal.

use hermes_testkit::{
    Behaviour,
    model::{ModelScript, ScriptedAnswer},
};
use serde_json::json;

use crate::harness::chat_terminal::ChatHome;

mod commands;
mod line;
mod questions;
mod servers;

const CTRL_C: &str = "\x03";
const CTRL_D: &str = "\x04";

#[test]
fn an_answer_is_streamed_and_rendered() {
    let answer = ScriptedAnswer::pieces([
        "Hel",
        "lo **wor",
        "ld** and ",
        "`more`.\n\n",
        "- one\n- two",
    ])
    .with(|reply| reply.pause_ms = 30);
    let place = ChatHome::with_model(ModelScript::new([answer]), &[]);
    let talk = place.start_chat(&[]);
    talk.line("Say hello");
    talk.wait_for("Hello");
    let screen = talk.wait_for("• two");
    assert!(screen.contains("Hello world and more."), "{screen}");
    assert!(talk.is_bold("world"));
    talk.prompt();
    talk.keys(CTRL_D);
    let (code, screen) = talk.end();
    assert_eq!(code, Some(0));
    assert!(
        screen.contains("Continue with: hermes --resume 20"),
        "{screen}"
    );
}

#[test]
fn what_a_model_says_does_not_steer_the_terminal() {
    let answer = ScriptedAnswer::text("before\x1b[2J\x1b]0;owned\x07\u{202e} after");
    let place = ChatHome::with_model(ModelScript::new([answer]), &[]);
    let talk = place.start_chat(&[]);
    talk.line("hi");
    talk.wait_for("before after");
    talk.prompt();
    let raw = talk.raw();
    assert!(!raw.contains("owned") && !raw.contains('\u{202e}'), "{raw}");
}

#[test]
fn a_tool_call_is_one_line_and_its_result_reaches_the_model() {
    let script = ModelScript::new([
        ScriptedAnswer::call("mcp_kit_add", &json!({"a": 2, "b": 3})),
        ScriptedAnswer::text("It is five."),
    ]);
    let place = ChatHome::with_model(script, &[("kit", &Behaviour::new())]);
    let talk = place.start_chat(&[]);
    talk.wait_until_ready("kit");
    talk.line("add");
    let screen = talk.wait_for("It is five.");
    let line = screen.lines().find(|line| line.starts_with('✓')).unwrap();
    assert!(line.starts_with("✓ mcp_kit_add a=2 b=3 "), "{line}");
    let requests = place.model.as_ref().unwrap().requests();
    assert_eq!(requests.len(), 2);
}

#[test]
fn progress_and_time_are_shown_while_a_tool_runs() {
    let script = ModelScript::new([
        ScriptedAnswer::call(
            "mcp_kit_progress",
            &json!({"steps": 1000, "interval_ms": 20}),
        ),
        ScriptedAnswer::text("never"),
    ]);
    let place = ChatHome::with_model(script, &[("kit", &Behaviour::new())]);
    let talk = place.start_chat(&[]);
    talk.wait_until_ready("kit");
    talk.line("go");
    talk.wait_until("time", |screen| {
        let mut lines = screen.lines();
        let shows_time = |line: &str| line.contains("mcp_kit_progress") && !line.contains(" 0 s");
        lines.any(|line| line.contains(" s") && shows_time(line))
    });
    talk.keys(CTRL_C);
    talk.wait_for("Interrupted.");
}

#[test]
fn ctrl_c_stops_a_hanging_tool_and_the_prompt_returns() {
    let behaviour = Behaviour::new().calls(|calls| calls.never_answer = vec!["echo".into()]);
    let script = ModelScript::new([
        ScriptedAnswer::call("mcp_kit_echo", &json!({"text": "x"})),
        ScriptedAnswer::text("Still here."),
    ]);
    let place = ChatHome::with_model(script, &[("kit", &behaviour)]);
    let talk = place.start_chat(&[]);
    talk.wait_until_ready("kit");
    talk.line("hang");
    talk.wait_for("mcp_kit_echo");
    talk.keys(CTRL_C);
    talk.wait_for("Interrupted.");
    talk.line("and now?");
    talk.wait_for("Still here.");
    talk.prompt();
    talk.keys(CTRL_C);
    talk.wait_for("Ctrl-C once more leaves");
    talk.keys(CTRL_C);
    assert_eq!(talk.end().0, Some(0));
}

#[test]
fn stop_is_heard_during_a_turn_and_other_lines_wait_for_theirs() {
    let behaviour = Behaviour::new().calls(|calls| calls.never_answer = vec!["echo".into()]);
    let script = ModelScript::new([
        ScriptedAnswer::call("mcp_kit_echo", &json!({"text": "x"})),
        ScriptedAnswer::text("Still here."),
        ScriptedAnswer::text("And here."),
    ]);
    let place = ChatHome::with_model(script, &[("kit", &behaviour)]);
    let talk = place.start_chat(&[]);
    talk.wait_until_ready("kit");
    talk.line("hang");
    talk.wait_for("mcp_kit_echo");
    talk.keys("are you there?\r/stop\rand no");
    talk.wait_for("Interrupted.");
    let screen = talk.wait_for("Still here.");
    assert!(screen.contains("> are you there?"), "{screen}");
    assert!(!screen.contains("> /stop"), "{screen}");
    talk.keys("w?\r");
    let screen = talk.wait_for("And here.");
    assert!(screen.contains("> and now?"), "{screen}");
}

#[test]
fn a_session_is_resumed_with_what_was_said() {
    let script = ModelScript::new([
        ScriptedAnswer::text("First answer."),
        ScriptedAnswer::text("Second answer."),
    ]);
    let place = ChatHome::with_model(script, &[]);
    let talk = place.start_chat(&[]);
    talk.line("remember the number 42");
    talk.wait_for("First answer.");
    talk.prompt();
    talk.keys(CTRL_D);
    talk.end();
    let talk = place.start_chat(&["--continue"]);
    let screen = talk.screen();
    assert!(screen.contains("> remember the number 42"), "{screen}");
    assert!(screen.contains("First answer."), "{screen}");
    talk.line("which number?");
    talk.wait_for("Second answer.");
    let requests = place.model.as_ref().unwrap().requests();
    let last = requests.last().unwrap().body.to_string();
    assert!(last.contains("remember the number 42"), "{last}");
}

#[test]
fn the_prompt_does_not_wait_for_servers() {
    let slow = Behaviour::new().process(|process| process.start_delay_ms = 20_000);
    let place = ChatHome::with_model(
        ModelScript::new([ScriptedAnswer::text("Here.")]),
        &[("slow", &slow)],
    );
    let talk = place.start_chat(&[]);
    assert!(
        talk.screen().contains("1 connecting (slow)"),
        "{}",
        talk.screen()
    );
    talk.line("hello");
    talk.wait_for("Here.");
}

#[test]
fn a_server_that_comes_and_goes_is_news() {
    let place = ChatHome::without_model(&[("kit", &Behaviour::new())]);
    let talk = place.start_chat(&[]);
    talk.wait_until_ready("kit");
    talk.line("/call kit.crash");
    // A chat that looks only after the first new attempt has begun tells that.
    let news = ["kit disconnected, reconnecting", "kit failed, retrying"];
    talk.wait_until("news of kit", |screen| {
        news.iter().any(|line| screen.contains(line))
    });
    talk.wait_for("ready: kit");
}

#[test]
fn without_colour_markdown_is_rendered_and_nothing_is_coloured() {
    let script = ModelScript::new([ScriptedAnswer::text("- **plain** text")]);
    let place = ChatHome::with_model(script, &[]);
    let talk = place.start_chat_with(&[], &[("NO_COLOR", "1")]);
    talk.line("hi");
    talk.wait_for("• plain text");
    let colours = ["\x1b[0;36m", "\x1b[36m", ";36m", ";31m"];
    let raw = talk.raw();
    assert!(
        colours.iter().all(|colour| !raw.contains(colour)),
        "{raw:?}"
    );
}
