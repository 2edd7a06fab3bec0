//! Lines from a pipe.

use hermes_testkit::model::{ModelScript, ScriptedAnswer};

use super::{Chat, assert_messages};

#[test]
fn every_line_is_a_message_and_all_of_them_one_session() {
    let chat = Chat::new(ModelScript::new([
        ScriptedAnswer::text("One."),
        ScriptedAnswer::text("Two."),
    ]));
    let input = "first\n\nsecond \\\nand more\n/quit\nnever\n";
    let ran = chat.hermes.run_with_input(&["chat"], input).ok();
    assert_eq!(ran.stdout, "One.\nTwo.\n");
    assert_messages(
        &chat.stored_texts(),
        &[
            ("user", "first"),
            ("assistant", "One."),
            ("user", "second \nand more"),
            ("assistant", "Two."),
        ],
    );
}

#[test]
fn commands_need_no_model_and_a_failed_call_is_told_at_the_end() {
    let chat = Chat::new(ModelScript::echo());
    chat.hermes
        .home
        .write_config("model: {autodetect: false}\n");
    let input = "/tools\n/call read_file path=missing\n/call todo {}\n";
    let ran = chat.hermes.run_with_input(&[], input).exits_with(1);
    assert!(ran.stdout.contains("file (built in, 4 tools)"), "{ran:?}");
    assert!(ran.stdout.contains("\"todos\":[]"), "{ran:?}");
    assert!(ran.stderr.contains("missing"), "{ran:?}");
    assert!(chat.stored().is_empty());
    let ran = chat
        .hermes
        .run_with_input(&[], "hello\nagain\n")
        .exits_with(1);
    assert_eq!(
        ran.stderr.matches("No model is chosen").count(),
        1,
        "{ran:?}"
    );
}

#[test]
fn a_message_that_fails_does_not_take_the_next_ones_with_it() {
    let chat = Chat::new(ModelScript::new([ScriptedAnswer::status(400, "bad day")]));
    let ran = chat.hermes.run_with_input(&[], "one\ntwo\n").exits_with(1);
    assert!(ran.stderr.contains("bad day"), "{ran:?}");
    assert_eq!(ran.stdout, "two\n");
}

#[test]
fn toolsets_are_switched_for_the_rest_of_the_conversation() {
    let chat = Chat::new(ModelScript::echo());
    let input = "/tools disable file\nhi\n/tools enable nothing\n";
    let ran = chat.hermes.run_with_input(&[], input).exits_with(1);
    assert!(ran.stdout.contains("`file` is off"), "{ran:?}");
    assert!(!chat.tools(0).contains(&"read_file".to_owned()));
    assert!(ran.stderr.contains("`nothing`"), "{ran:?}");
    let mistyped = "/tools disable fiel\n";
    let ran = chat.hermes.run_with_input(&[], mistyped).exits_with(1);
    assert!(ran.stderr.contains("did you mean `file`?"), "{ran:?}");
}

#[test]
fn other_commands_work_over_a_pipe_and_an_unknown_one_is_wrong_usage() {
    let chat = Chat::new(ModelScript::new([
        ScriptedAnswer::text("One."),
        ScriptedAnswer::text("Two."),
    ]));
    let input = "/title Piped\nfirst\n/retry\n/title\n/whoami\n";
    let ran = chat.hermes.run_with_input(&[], input).ok();
    assert!(ran.stdout.contains("One.\nTwo.\nPiped\n"), "{ran:?}");
    assert!(ran.stdout.contains("platform   cli"), "{ran:?}");
    let ran = chat.hermes.run_with_input(&[], "/hlep\n").exits_with(2);
    assert!(ran.stderr.contains("did you mean `/help`?"), "{ran:?}");
    let ran = chat.hermes.run(&["-q", "/background x"]).exits_with(2);
    assert!(ran.stderr.contains("at a terminal"), "{ran:?}");
}
