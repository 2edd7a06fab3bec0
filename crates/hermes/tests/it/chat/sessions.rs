//! Going on with sessions from the command line.

use hermes_testkit::model::ModelScript;

use super::{Chat, assert_messages, role_and_text};

#[test]
fn continue_takes_the_newest_session_or_the_one_of_a_title() {
    let chat = Chat::new(ModelScript::echo());
    assert!(
        chat.run(&["-c", "-z", "hi"])
            .exits_with(1)
            .stderr
            .contains("no earlier session")
    );
    chat.run(&["-z", "first"]).ok();
    // Ids carry the second, and the newest is found by the time of its start.
    chat.run(&["-z", "second"]).ok();
    chat.run(&["-c", "chat", "-z", "and more"]).ok();
    let stored = chat.stored();
    assert_eq!(stored.len(), 2);
    let newest: Vec<_> = stored[0].1.iter().map(role_and_text).collect();
    assert_messages(
        &newest,
        &[
            ("user", "second"),
            ("assistant", "second"),
            ("user", "and more"),
            ("assistant", "and more"),
        ],
    );
    for args in [
        &["-z", "hi", "-c", "no such title"][..],
        &["--resume", "no such title", "-q", "hi"],
    ] {
        let ran = chat.run(args).exits_with(3);
        assert!(ran.stderr.contains("`no such title`"), "{ran:?}");
    }
}

#[test]
fn a_session_goes_on_where_it_was() {
    let chat = Chat::new(ModelScript::echo());
    let there = chat.hermes.user().join("there");
    std::fs::create_dir(&there).unwrap();
    let mut command = chat.hermes.command(&["-z", "first"]);
    command.current_dir(&there);
    crate::harness::program::run(command, "").ok();
    let id = chat.stored()[0].0.id.to_string();
    let cwd = |args: &[&str]| {
        let ran = chat.run(args).ok();
        ran.stdout
    };
    let call = "/call terminal command=pwd";
    let there = there.canonicalize().unwrap();
    assert!(cwd(&["-r", &id, "-q", call]).contains(there.to_str().unwrap()));
    let here = cwd(&["-r", &id, "--no-restore-cwd", "-q", call]);
    assert!(!here.contains("there"), "{here}");
    // The call is not part of the conversation.
    assert_eq!(chat.stored()[0].1.len(), 2);
}

#[test]
fn two_processes_use_one_store_at_once() {
    let chat = Chat::new(ModelScript::echo());
    std::thread::scope(|scope| {
        for process in 0..4 {
            let chat = &chat;
            scope.spawn(move || {
                for number in 0..3 {
                    let text = format!("message {number} of {process}");
                    let ran = chat.run(&["-z", &text]).ok();
                    assert_eq!(ran.stdout.trim_end(), text);
                }
            });
        }
    });
    let stored = chat.stored();
    assert_eq!(stored.len(), 12);
    assert!(stored.iter().all(|(_, messages)| messages.len() == 2));
}
