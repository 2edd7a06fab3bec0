//! The line that is typed: history, several lines, completion.

use hermes_testkit::model::Script;

use super::CTRL_D;
use crate::talk::Place;

const UP: &str = "\x1b[A";
const ALT_ENTER: &str = "\x1b\r";

#[test]
fn lines_are_remembered_from_one_chat_to_the_next() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::with_model(Script::echo(), &[]);
    let talk = place.talk(&[]);
    talk.line("the first line");
    talk.until("answer", |screen| {
        screen.matches("the first line").count() == 2
    });
    talk.prompt();
    talk.keys(CTRL_D);
    talk.end();
    let file = place.home.path().join("chat_history");
    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let talk = place.talk(&[]);
    talk.keys(UP);
    talk.sees("> the first line");
}

#[test]
fn a_message_may_have_several_lines() {
    let place = Place::with_model(Script::echo(), &[]);
    let talk = place.talk(&[]);
    talk.keys("one").keys(ALT_ENTER).keys("two\\\rthree\r");
    talk.until("answer", |screen| screen.contains("\none\ntwo\nthree"));
    let requests = place.model.as_ref().unwrap().requests();
    assert!(requests[0].body.to_string().contains("one\\ntwo\\nthree"));
}

#[test]
fn commands_are_completed() {
    let place = Place::without_model(&[]);
    let talk = place.talk(&[]);
    talk.keys("/verb\t\r");
    talk.sees("Arguments and results of tools are shown");
}

#[test]
fn what_is_typed_during_an_answer_waits_for_its_end() {
    use hermes_testkit::model::Answer;
    let slow = Answer::pieces(["slow", " answer"]).with(|reply| reply.pause_ms = 800);
    let place = Place::with_model(Script::new([slow]), &[]);
    let talk = place.talk(&[]);
    talk.line("first");
    talk.sees("slow");
    talk.keys("second\r");
    talk.sees("slow answer");
    talk.sees("> second");
    talk.until("echo", |screen| screen.matches("second").count() == 2);
}
