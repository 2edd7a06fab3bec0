//! What goes wrong, and what is left afterwards.

use std::{
    fs,
    process::Command,
    time::{Duration, Instant},
};

use hermes_testkit::model::{ModelScript, ModelServer, ReplyEnding, ScriptedAnswer};
use rustix::process::Signal;
use serde_json::json;

use super::{Chat, assert_messages, finish};
use crate::harness::{
    program::run,
    test_home::{TIMEOUT, assert_gone, read_pids, signal_process, wait_until},
};

#[test]
fn without_a_model_one_text_says_what_to_do() {
    let chat = Chat::new(ModelScript::echo());
    chat.hermes
        .home
        .write_config("model: {autodetect: false}\n");
    for args in [["-q", "hi"], ["-z", "hi"]] {
        let ran = chat
            .run_with(&args, &[("OPENAI_API_KEY", "key-0123456789")])
            .exits_with(1);
        assert_eq!(ran.stdout, "");
        for part in [
            "No model is chosen",
            "`OPENAI_API_KEY`",
            "`hermes model`",
            "-m MODEL",
        ] {
            assert!(ran.stderr.contains(part), "{part}: {ran:#?}");
        }
        assert!(!ran.stderr.contains("0123456789"), "{ran:?}");
    }
    assert!(chat.stored().is_empty());
}

#[test]
fn a_local_server_is_found_and_told() {
    let chat = Chat::new(ModelScript::echo());
    chat.hermes.home.write_config("");
    let ollama = ModelServer::start(ModelScript {
        ollama: true,
        models: vec!["nomic-embed-text".into(), "qwen3:8b".into()],
        loaded: vec!["qwen3:8b".into()],
        ..ModelScript::echo()
    });
    let origin = ollama.origin();
    let ran = chat
        .run_with(&["-z", "hi"], &[("OLLAMA_HOST", &origin)])
        .ok();
    assert_eq!(ran.stdout, "hi\n");
    assert_eq!(ran.stderr.lines().count(), 1, "{ran:?}");
    assert!(
        ran.stderr.contains("using `qwen3:8b` from ollama"),
        "{ran:?}"
    );
    assert_eq!(chat.hermes.config(), "");
    // The session remembers it, so that it is found again without looking.
    let ran = chat.run(&["-z", "again", "-c"]).ok();
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("again\n", ""));
}

#[test]
fn a_refused_key_and_an_unknown_model_name_what_to_check() {
    let chat = Chat::new(ModelScript::echo().with_key("another"));
    let ran = chat.run(&["-q", "hi", "-Q"]).exits_with(1);
    assert!(ran.stderr.contains("`api_key`"), "{ran:?}");
    assert!(!ran.stderr.contains("key-main"), "{ran:?}");
    // What was said is there, and so is the way back to it.
    assert!(
        ran.stderr
            .lines()
            .last()
            .unwrap()
            .starts_with("session_id: "),
        "{ran:?}"
    );
    assert_messages(&chat.stored_texts(), &[("user", "hi")]);

    let chat = Chat::new(ModelScript {
        refuse_others: true,
        ..ModelScript::echo().with_models(["known"])
    });
    let ran = chat.run(&["-z", "hi"]).exits_with(1);
    assert!(ran.stderr.contains("`scripted`"), "{ran:?}");
}

#[test]
fn ctrl_c_ends_the_turn_and_keeps_the_session() {
    let sleep = ScriptedAnswer::call("terminal", &json!({"command": "sleep 600"}));
    for (answer, messages) in [(ScriptedAnswer::Silence, 1), (sleep, 3)] {
        let chat = Chat::new(ModelScript::new([answer]));
        let child = chat.start_until_asked(&["-q", "wait for it", "-Q"], 1);
        if messages > 1 {
            crate::harness::test_home::wait_until("the command runs", || {
                hermes_testkit::children_named(child.id(), "sleep").len() == 1
                    || !hermes_testkit::descendants(child.id()).is_empty()
            });
        }
        let began = Instant::now();
        signal_process(child.id(), Signal::INT);
        let ran = finish(child).exits_with(130);
        assert!(began.elapsed() < Duration::from_secs(20));
        assert_eq!(ran.stdout, "");
        assert!(
            ran.stderr
                .lines()
                .last()
                .unwrap()
                .starts_with("session_id: "),
            "{ran:?}"
        );
        let stored = chat.stored();
        assert_eq!(stored[0].1.len(), messages, "{:?}", chat.stored_texts());
        assert_eq!(stored[0].0.end_reason.as_deref(), Some("cli_close"));
        chat.run(&["-c", "-z", "go on"]).ok();
    }
}

#[test]
fn a_killed_process_loses_nothing_that_was_finished() {
    let calls = ScriptedAnswer::calls([
        ("todo", json!({})),
        ("terminal", json!({"command": "sleep 600"})),
    ]);
    let chat = Chat::new(ModelScript::new([calls]));
    let mut child = chat.start_until_asked(&["-q", "do it"], 1);
    crate::harness::test_home::wait_until("the calls are stored", || {
        let stored = chat.stored();
        stored
            .first()
            .is_some_and(|(_, messages)| messages.len() >= 2)
    });
    child.kill().unwrap();
    child.wait().unwrap();

    let ran = chat.run(&["-c", "-q", "go on", "-Q"]).ok();
    assert_eq!(ran.stdout, "go on\n");
    let asked = chat.request_messages(1);
    let roles: Vec<&str> = asked
        .iter()
        .map(|message| message["role"].as_str().unwrap())
        .collect();
    assert_eq!(roles, ["user", "assistant", "tool", "tool", "user"]);
    assert_eq!(asked[0]["content"], "do it");
    let texts = chat.stored_texts();
    assert!(texts[3].1.contains("interrupted"), "{texts:?}");
}

#[test]
fn commands_end_with_a_process_that_is_killed() {
    // One in a session of its own, and one that leaves even that.
    let command = "sleep 611 & echo $! >>pids; setsid sleep 612 & echo $! >>pids; sleep 613";
    let script = ModelScript::new([ScriptedAnswer::call(
        "terminal",
        &json!({"command": command}),
    )]);
    let chat = Chat::new(script);
    let mut child = chat.start_until_asked(&["-q", "go", "--yolo"], 1);
    let pids = chat.hermes.user().join("pids");
    wait_until("both commands", || read_pids(&pids).len() == 2);
    let pids = read_pids(&pids);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_gone(&pids, TIMEOUT);
}

#[test]
fn a_damaged_database_is_told_and_left_alone() {
    let chat = Chat::new(ModelScript::echo());
    let file = chat.hermes.home.path().join("state.db");
    let damaged = vec![b'x'; 20_000];
    fs::write(&file, &damaged).unwrap();
    let ran = chat.run(&["-z", "hi"]).exits_with(1);
    assert!(ran.stderr.contains("damaged or not a database"), "{ran:?}");
    assert_eq!(fs::read(&file).unwrap(), damaged);
    assert_eq!(chat.model.requests().len(), 0);
}

#[test]
fn a_newer_database_is_used_if_it_has_what_is_needed_and_left_alone_else() {
    let chat = Chat::new(ModelScript::echo());
    chat.run(&["-z", "hi"]).ok();
    let file = chat.hermes.home.path().join("state.db");
    let sql = |statement: &str| {
        let done = Command::new("python3")
            .args([
                "-c",
                "import sqlite3, sys\nd = sqlite3.connect(sys.argv[1])\nd.execute(sys.argv[2])\nd.commit()",
            ])
            .arg(&file)
            .arg(statement)
            .status()
            .unwrap();
        assert!(done.success());
    };
    sql("UPDATE schema_version SET version = 99");
    chat.run(&["-z", "still fine"]).ok();
    sql("ALTER TABLE messages RENAME COLUMN finish_reason TO why");
    let before = fs::read(&file).unwrap();
    let ran = chat.run(&["-z", "hi"]).exits_with(1);
    assert!(ran.stderr.contains("newer than this program"), "{ran:?}");
    assert_eq!(fs::read(&file).unwrap(), before);
}

#[test]
fn a_full_disk_ends_the_turn_with_its_reason() {
    let chat = Chat::new(ModelScript::new([ScriptedAnswer::text(
        &"long answer ".repeat(100_000),
    )]));
    // No file may grow beyond 600 blocks of 512 bytes, and the signal that says so is ignored.
    let program = env!("CARGO_BIN_EXE_hermes");
    let mut command = chat.hermes.command(&[]);
    let variables: Vec<_> = command
        .get_envs()
        .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())))
        .collect();
    command = Command::new("sh");
    command
        .args([
            "-c",
            "trap '' XFSZ; ulimit -f 600; exec \"$0\" -q hi -Q",
            program,
        ])
        .env_clear()
        .envs(variables)
        .current_dir(chat.hermes.user());
    let ran = run(command, "").exits_with(1);
    assert!(ran.stderr.contains("could not be stored"), "{ran:?}");
    // What was there before can be read and goes on.
    let said = chat.stored_texts();
    assert_messages(&said, &[("user", "hi")]);
    chat.run(&["-c", "-z", "again"]).ok();
}

#[test]
fn a_database_that_cannot_be_written_is_told() {
    let chat = Chat::new(ModelScript::echo());
    fs::create_dir(chat.hermes.home.path().join("state.db")).unwrap();
    let ran = chat.run(&["-z", "hi"]).exits_with(1);
    assert!(ran.stderr.contains("state.db"), "{ran:?}");
}

fn cut(text: &str) -> ScriptedAnswer {
    ScriptedAnswer::text(text).with(|reply| reply.ending = ReplyEnding::Cut)
}

#[test]
fn an_answer_that_breaks_off_is_begun_again_only_where_none_of_it_was_printed() {
    let script = || ModelScript::new([cut("Half an "), ScriptedAnswer::text("A whole answer.")]);
    let chat = Chat::new(script());
    let ran = chat.run(&["-q", "hi"]).exits_with(1);
    assert_eq!(ran.stdout, "Half an \n");
    assert!(ran.stderr.contains("cut off"), "{ran:?}");
    assert_eq!(chat.model.requests().len(), 1);

    let chat = Chat::new(script());
    let ran = chat.hermes.run_with_input(&[], "hi\n").exits_with(1);
    assert_eq!(ran.stdout, "Half an \n");
    assert_eq!(chat.model.requests().len(), 1);

    for args in [["-q", "hi", "-Q"].as_slice(), &["-z", "hi"]] {
        let chat = Chat::new(script());
        assert_eq!(chat.run(args).ok().stdout, "A whole answer.\n");
        assert_eq!(chat.model.requests().len(), 2);
    }
}

#[test]
fn a_request_that_failed_before_any_text_is_made_again_and_then_by_the_next_provider() {
    let chat = Chat::new(ModelScript::new([
        ScriptedAnswer::too_many_requests("0"),
        ScriptedAnswer::text("Now."),
    ]));
    let ran = chat.run(&["-q", "hi"]).ok();
    assert_eq!(ran.stdout, "Now.\n");
    assert!(ran.stderr.contains("attempt 1 of 3"), "{ran:?}");

    let second = ModelServer::start(ModelScript::new([ScriptedAnswer::text("From the second.")]));
    let others = json!({
        "agent": {"api_max_retries": 0},
        "providers": {"spare": {"base_url": second.base_url(), "model": "other"}},
        "fallback_providers": ["spare"],
    });
    for (first, stdout, code) in [
        (ScriptedAnswer::status(500, "oops"), "From the second.\n", 0),
        (cut("Half an "), "Half an \n", 1),
    ] {
        let chat = Chat::with_config(ModelScript::new([first]), others.clone());
        let ran = chat.run(&["-q", "hi"]).exits_with(code);
        assert_eq!(ran.stdout, stdout);
        assert_eq!(ran.stderr.contains("`other` from spare"), code == 0);
    }
    assert_eq!(second.requests().len(), 1);
}
