//! The line that is typed: history, several lines, completion.

use std::io::{Read, Write};

use hermes_testkit::model::ModelScript;

use super::CTRL_D;
use crate::harness::{chat_terminal::ChatHome, pty, test_home::TIMEOUT};

const UP: &str = "\x1b[A";
const ALT_ENTER: &str = "\x1b\r";

#[test]
fn lines_are_remembered_from_one_chat_to_the_next() {
    use std::os::unix::fs::PermissionsExt;
    let place = ChatHome::with_model(ModelScript::echo(), &[]);
    let talk = place.start_chat(&[]);
    talk.line("the first line");
    talk.wait_until("answer", |screen| {
        screen.matches("the first line").count() == 2
    });
    talk.prompt();
    talk.keys(CTRL_D);
    talk.end();
    let file = place.home.path().join("chat_history");
    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let talk = place.start_chat(&[]);
    talk.keys(UP);
    talk.wait_for("> the first line");
}

#[test]
fn a_chat_ends_with_its_terminal() {
    let place = ChatHome::without_model(&[]);
    let (mut chat, mut terminal) = pty::start(place.command(&[], &[]), 100, 40);
    let mut seen = String::new();
    let mut is_prompted = false;
    while !is_prompted {
        let mut bytes = [0; 4096];
        let count = terminal.read(&mut bytes).unwrap();
        seen.push_str(&String::from_utf8_lossy(&bytes[..count]));
        // The editor asks where the cursor is, and shows its prompt there.
        if let Some((before, after)) = seen.rsplit_once("\x1b[6n") {
            is_prompted = after.contains("> ");
            if !is_prompted && after.is_empty() && !before.is_empty() {
                terminal.write_all(b"\x1b[40;1R").unwrap();
            }
        }
    }
    drop(terminal);
    let is_over = || chat.try_wait().unwrap().is_some();
    let ended = hermes_testkit::wait_until(TIMEOUT, is_over);
    let _ = chat.kill();
    let _ = chat.wait();
    assert!(ended, "it still runs:\n{seen}");
}

#[test]
fn a_message_may_have_several_lines() {
    let place = ChatHome::with_model(ModelScript::echo(), &[]);
    let talk = place.start_chat(&[]);
    talk.keys("one").keys(ALT_ENTER).keys("two\\\rthree\r");
    talk.wait_until("answer", |screen| screen.contains("\none\ntwo\nthree"));
    let requests = place.model.as_ref().unwrap().requests();
    assert!(requests[0].body.to_string().contains("one\\ntwo\\nthree"));
}

#[test]
fn commands_are_completed() {
    let place = ChatHome::without_model(&[]);
    let talk = place.start_chat(&[]);
    talk.keys("/verb\t\r");
    talk.wait_for("Arguments and results of tools are shown");
}

#[test]
fn what_is_typed_during_an_answer_waits_for_its_end() {
    use hermes_testkit::model::ScriptedAnswer;
    let slow = ScriptedAnswer::pieces(["slow", " answer"]).with(|reply| reply.pause_ms = 800);
    let place = ChatHome::with_model(ModelScript::new([slow]), &[]);
    let talk = place.start_chat(&[]);
    talk.line("first");
    talk.wait_for("slow");
    talk.keys("second\r");
    talk.wait_for("slow answer");
    talk.wait_for("> second");
    talk.wait_until("echo", |screen| screen.matches("second").count() == 2);
}
