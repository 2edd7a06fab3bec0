//! A person who talks to the program at a terminal.

use hermes_testkit::{
    Behaviour,
    model::{Answer, Script},
};
use serde_json::json;

use crate::talk::Place;

mod commands;
mod line;
mod questions;
mod servers;

const CTRL_C: &str = "\x03";
const CTRL_D: &str = "\x04";

#[test]
fn an_answer_is_streamed_and_rendered() {
    let answer = Answer::pieces([
        "Hel",
        "lo **wor",
        "ld** and ",
        "`more`.\n\n",
        "- one\n- two",
    ])
    .with(|reply| reply.pause_ms = 30);
    let place = Place::with_model(Script::new([answer]), &[]);
    let talk = place.talk(&[]);
    talk.line("Say hello");
    talk.sees("Hello");
    let screen = talk.sees("• two");
    assert!(screen.contains("Hello world and more."), "{screen}");
    assert!(talk.is_bold("world"));
    talk.prompt();
    talk.keys(CTRL_D);
    let (code, screen) = talk.end();
    assert_eq!(code, Some(0));
    assert!(
        screen.contains("Go on with: hermes --resume 20"),
        "{screen}"
    );
}

#[test]
fn what_a_model_says_does_not_steer_the_terminal() {
    let answer = Answer::text("before\x1b[2J\x1b]0;owned\x07\u{202e} after");
    let place = Place::with_model(Script::new([answer]), &[]);
    let talk = place.talk(&[]);
    talk.line("hi");
    talk.sees("before after");
    talk.prompt();
    let raw = talk.raw();
    assert!(!raw.contains("owned") && !raw.contains('\u{202e}'), "{raw}");
}

#[test]
fn a_tool_call_is_one_line_and_its_result_reaches_the_model() {
    let script = Script::new([
        Answer::call("mcp_kit_add", &json!({"a": 2, "b": 3})),
        Answer::text("It is five."),
    ]);
    let place = Place::with_model(script, &[("kit", &Behaviour::new())]);
    let talk = place.talk(&[]);
    talk.line("add");
    let screen = talk.sees("It is five.");
    let line = screen.lines().find(|line| line.starts_with('✓')).unwrap();
    assert!(line.starts_with("✓ mcp_kit_add a=2 b=3 "), "{line}");
    let requests = place.model.as_ref().unwrap().requests();
    assert_eq!(requests.len(), 2);
}

#[test]
fn progress_and_time_are_shown_while_a_tool_runs() {
    let script = Script::new([
        Answer::call(
            "mcp_kit_progress",
            &json!({"steps": 1000, "interval_ms": 20}),
        ),
        Answer::text("never"),
    ]);
    let place = Place::with_model(script, &[("kit", &Behaviour::new())]);
    let talk = place.talk(&[]);
    talk.line("go");
    talk.until("time", |screen| {
        let mut lines = screen.lines();
        let shows_time = |line: &str| line.contains("mcp_kit_progress") && !line.contains(" 0 s");
        lines.any(|line| line.contains(" s") && shows_time(line))
    });
    talk.keys(CTRL_C);
    talk.sees("Interrupted.");
}

#[test]
fn ctrl_c_stops_a_hanging_tool_and_the_prompt_returns() {
    let behaviour = Behaviour::new().calls(|calls| calls.never_answer = vec!["echo".into()]);
    let script = Script::new([
        Answer::call("mcp_kit_echo", &json!({"text": "x"})),
        Answer::text("Still here."),
    ]);
    let place = Place::with_model(script, &[("kit", &behaviour)]);
    let talk = place.talk(&[]);
    talk.line("hang");
    talk.sees("mcp_kit_echo");
    talk.keys(CTRL_C);
    talk.sees("Interrupted.");
    talk.line("and now?");
    talk.sees("Still here.");
    talk.prompt();
    talk.keys(CTRL_C);
    talk.sees("Ctrl-C once more leaves");
    talk.keys(CTRL_C);
    assert_eq!(talk.end().0, Some(0));
}

#[test]
fn stop_is_heard_during_a_turn_and_other_lines_wait_for_theirs() {
    let behaviour = Behaviour::new().calls(|calls| calls.never_answer = vec!["echo".into()]);
    let script = Script::new([
        Answer::call("mcp_kit_echo", &json!({"text": "x"})),
        Answer::text("Still here."),
        Answer::text("And here."),
    ]);
    let place = Place::with_model(script, &[("kit", &behaviour)]);
    let talk = place.talk(&[]);
    talk.line("hang");
    talk.sees("mcp_kit_echo");
    talk.keys("are you there?\r/stop\rand no");
    talk.sees("Interrupted.");
    let screen = talk.sees("Still here.");
    assert!(screen.contains("> are you there?"), "{screen}");
    assert!(!screen.contains("> /stop"), "{screen}");
    talk.keys("w?\r");
    let screen = talk.sees("And here.");
    assert!(screen.contains("> and now?"), "{screen}");
}

#[test]
fn a_session_is_resumed_with_what_was_said() {
    let script = Script::new([
        Answer::text("First answer."),
        Answer::text("Second answer."),
    ]);
    let place = Place::with_model(script, &[]);
    let talk = place.talk(&[]);
    talk.line("remember the number 42");
    talk.sees("First answer.");
    talk.prompt();
    talk.keys(CTRL_D);
    talk.end();
    let talk = place.talk(&["--continue"]);
    let screen = talk.screen();
    assert!(screen.contains("> remember the number 42"), "{screen}");
    assert!(screen.contains("First answer."), "{screen}");
    talk.line("which number?");
    talk.sees("Second answer.");
    let requests = place.model.as_ref().unwrap().requests();
    let last = requests.last().unwrap().body.to_string();
    assert!(last.contains("remember the number 42"), "{last}");
}

#[test]
fn the_prompt_does_not_wait_for_servers() {
    let slow = Behaviour::new().process(|process| process.start_delay_ms = 20_000);
    let place = Place::with_model(Script::new([Answer::text("Here.")]), &[("slow", &slow)]);
    let talk = place.talk(&[]);
    assert!(
        talk.screen().contains("1 connecting (slow)"),
        "{}",
        talk.screen()
    );
    talk.line("hello");
    talk.sees("Here.");
}

#[test]
fn a_server_that_comes_and_goes_is_news() {
    let place = Place::without_model(&[("kit", &Behaviour::new())]);
    let talk = place.talk(&[]);
    talk.ready("kit");
    talk.line("/call kit.crash");
    talk.sees("kit disconnected");
}

#[test]
fn without_colour_markdown_is_rendered_and_nothing_is_coloured() {
    let script = Script::new([Answer::text("- **plain** text")]);
    let place = Place::with_model(script, &[]);
    let talk = place.start(&[], &[("NO_COLOR", "1")]);
    talk.line("hi");
    talk.sees("• plain text");
    let colours = ["\x1b[0;36m", "\x1b[36m", ";36m", ";31m"];
    let raw = talk.raw();
    assert!(
        colours.iter().all(|colour| !raw.contains(colour)),
        "{raw:?}"
    );
}
