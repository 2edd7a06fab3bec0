use std::time::Duration;

use hermes_agent::{model::ModelEvent, tools::tool::ToolOutput};
use serde_json::json;

use super::*;

/// A screen and the terminal it is on.
fn terminal() -> (Screen, Arc<Mutex<vt100::Parser>>) {
    let (rows, columns) = (24.try_into().unwrap(), 60.try_into().unwrap());
    let terminal = Arc::new(Mutex::new(vt100::Parser::new(rows, columns, 0)));
    let drawn = terminal.clone();
    let write = Box::new(move |_: OutputStream, text: &str| {
        let bytes = text.replace('\n', "\r\n");
        drawn.lock().process(bytes.as_bytes());
    });
    let size = || (60, 24);
    let screen = Screen::with_writer(
        ScreenKind::Terminal,
        ColourMode::Coloured,
        CallDetail::Brief,
        write,
        size,
    );
    (screen, terminal)
}

fn seen(terminal: &Mutex<vt100::Parser>) -> String {
    terminal.lock().screen().contents()
}

fn text(screen: &Screen, text: &str) {
    screen.show(&TurnEvent::Model(ModelEvent::TextDelta(text.into())));
}

fn call(id: &str) -> ToolCall {
    ToolCall::new(id, format!("tool_{id}"), json!({"n": 1}).to_string())
}

fn ended(id: &str, output: ToolOutput) -> TurnEvent {
    TurnEvent::CallEnded {
        call: call(id),
        output,
        took: Duration::from_millis(5),
    }
}

#[test]
fn an_answer_takes_the_place_of_the_waiting_line() {
    let (screen, terminal) = terminal();
    screen.begin_turn();
    assert!(seen(&terminal).contains("thinking"));
    text(&screen, "Hel");
    assert_eq!(seen(&terminal), "Hel");
    text(&screen, "lo\n");
    screen.end_turn();
    assert_eq!(seen(&terminal), "Hello");
}

#[test]
fn calls_that_run_are_below_those_that_have_ended() {
    let (screen, terminal) = terminal();
    screen.begin_turn();
    for id in ["a", "b"] {
        screen.show(&TurnEvent::CallStarted(call(id)));
    }
    screen.show(&TurnEvent::CallProgress {
        id: "b".into(),
        line: "half".into(),
    });
    screen.show(&ended("a", ToolOutput::text("done")));
    let lines = seen(&terminal);
    let lines: Vec<&str> = lines.lines().collect();
    assert_eq!(lines[0], "✓ tool_a n=1 5 ms done");
    assert!(lines[1].ends_with("tool_b 0 s half n=1"), "{lines:?}");
    screen.show(&ended("b", ToolOutput::error("broken")));
    screen.end_turn();
    assert_eq!(
        seen(&terminal),
        "✓ tool_a n=1 5 ms done\n✗ tool_b n=1 5 ms broken"
    );
}

#[test]
fn news_waits_for_the_end_of_a_line() {
    let (screen, terminal) = terminal();
    text(&screen, "first li");
    screen.note("news");
    text(&screen, "ne\nsecond");
    assert_eq!(seen(&terminal), "first line\nsecond");
    screen.end_turn();
    assert_eq!(seen(&terminal), "first line\nsecond\nnews");
}

#[test]
fn nothing_is_written_while_a_question_is_open() {
    let (screen, terminal) = terminal();
    screen.show(&TurnEvent::CallStarted(call("a")));
    screen.show(&TurnEvent::CallStarted(call("b")));
    let lock = screen.lock_output();
    assert_eq!(seen(&terminal), "");
    lock.say("May I?");
    screen.show(&ended("a", ToolOutput::text("done")));
    screen.redraw();
    screen.note("news");
    assert_eq!(seen(&terminal), "May I?");
    drop(lock);
    let lines = seen(&terminal);
    assert!(
        lines.starts_with("May I?\n✓ tool_a n=1 5 ms done\nnews\n"),
        "{lines}"
    );
    assert!(lines.ends_with("tool_b 0 s n=1"), "{lines}");
}

#[test]
fn while_a_line_is_typed_news_goes_through_its_editor() {
    let (screen, terminal) = terminal();
    let (sender, receiver) = std::sync::mpsc::sync_channel(2);
    screen.begin_editing(sender);
    screen.note("news");
    assert_eq!(receiver.try_recv().unwrap(), "news");
    assert_eq!(seen(&terminal), "");
    screen.end_editing();
    screen.note("more");
    assert_eq!(seen(&terminal), "more");
}

#[test]
fn an_answer_that_breaks_off_is_marked() {
    let (screen, terminal) = terminal();
    screen.begin_turn();
    text(&screen, "half an ans");
    screen.show(&TurnEvent::Model(ModelEvent::TextRetracted));
    text(&screen, "A whole answer.");
    screen.end_turn();
    assert_eq!(
        seen(&terminal),
        "half an ans\nThe reply was cut off; ignore the text above.\nA whole answer."
    );
}

#[test]
fn the_list_of_things_to_do_is_shown_when_it_changes() {
    let (screen, terminal) = terminal();
    let todo = |status: &str| {
        let list = json!({"todos": [{"id": "1", "content": "read", "status": status}]});
        TurnEvent::CallEnded {
            call: ToolCall::new("1", "todo", "{}"),
            output: ToolOutput::json(&list),
            took: Duration::ZERO,
        }
    };
    for status in ["pending", "pending", "completed"] {
        screen.show(&todo(status));
    }
    screen.end_turn();
    let lines = seen(&terminal);
    assert_eq!(lines.matches("☐ read").count(), 1, "{lines}");
    assert_eq!(lines.matches("☑ read").count(), 1, "{lines}");
}

/// A screen whose writing is kept as it is.
fn written(paint: ColourMode, size: fn() -> (usize, usize)) -> (Screen, Arc<Mutex<String>>) {
    let written = Arc::new(Mutex::new(String::new()));
    let kept = written.clone();
    let write = Box::new(move |_: OutputStream, text: &str| kept.lock().push_str(text));
    let screen = Screen::with_writer(ScreenKind::Terminal, paint, CallDetail::Brief, write, size);
    (screen, written)
}

#[test]
fn without_colours_markdown_is_rendered_all_the_same() {
    let (screen, written) = written(ColourMode::Plain, || (60, 24));
    text(
        &screen,
        "# Title\n- one **bold**\n```rust\nlet x = 1;\n```\n",
    );
    screen.end_turn();
    let written = written.lock();
    assert!(written.contains("\x1b[0;1;4mTitle"), "{written:?}");
    assert!(
        written.contains("• ") && !written.contains("**"),
        "{written:?}"
    );
    for colour in 30..38 {
        assert!(!written.contains(&format!(";{colour}m")), "{written:?}");
    }
}

#[test]
fn lines_that_a_narrower_terminal_broke_are_cleared_whole() {
    static COLUMNS: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(60);
    let size = || (COLUMNS.load(std::sync::atomic::Ordering::Relaxed), 24);
    let (screen, written) = written(ColourMode::Plain, size);
    let arguments = json!({"path": "a".repeat(200)}).to_string();
    let call = ToolCall::new("a", "read_file", arguments);
    screen.show(&TurnEvent::CallStarted(call));
    let width = written.lock().width();
    assert!((31..60).contains(&width), "{width}");
    COLUMNS.store(30, std::sync::atomic::Ordering::Relaxed);
    written.lock().clear();
    screen.redraw();
    let again = written.lock().clone();
    assert!(again.starts_with("\r\x1b[1A\x1b[J"), "{again:?}");
    let line = again.trim_start_matches("\r\x1b[1A\x1b[J");
    assert!(line.width() < 30, "{line:?}");
}

#[test]
fn elsewhere_answers_go_to_stdout_and_the_rest_to_stderr() {
    let written = Arc::new(Mutex::new(Vec::new()));
    let kept = written.clone();
    let write = Box::new(move |stream: OutputStream, text: &str| {
        kept.lock().push((stream, text.to_owned()));
    });
    let screen = Screen::with_writer(
        ScreenKind::Plain,
        ColourMode::Plain,
        CallDetail::Brief,
        write,
        || (80, 24),
    );
    screen.begin_turn();
    screen.show(&TurnEvent::CallStarted(call("a")));
    screen.show(&ended("a", ToolOutput::text("done")));
    text(&screen, "# An *answer*\x1b[2J");
    screen.end_turn();
    assert_eq!(
        *written.lock(),
        [
            (OutputStream::Err, "✓ tool_a n=1 5 ms done\n".to_owned()),
            (OutputStream::Out, "# An *answer*".to_owned()),
            (OutputStream::Out, "\n".to_owned()),
        ]
    );
}
