//! -q, -Q, -z, --json: what is printed where.

use hermes_testkit::model::{ModelScript, ScriptedAnswer, ScriptedUsage};
use serde_json::{Value, json};

use super::{Chat, assert_messages};
use crate::harness::program::run;

fn counted(text: &str) -> ScriptedAnswer {
    ScriptedAnswer::text(text).with(|reply| {
        reply.usage = Some(ScriptedUsage {
            prompt: 30,
            cached: 0,
            completion: 5,
        });
    })
}

#[test]
fn quiet_prints_the_answer_alone_and_the_id_last() {
    let answers = [
        ScriptedAnswer::call("todo", &json!({}))
            .with(|reply| reply.text = vec!["Let me see.".into()]),
        ScriptedAnswer::text("Rain."),
        ScriptedAnswer::text("Sun."),
    ];
    let chat = Chat::new(ModelScript::new(answers));
    let ran = chat.run(&["chat", "-q", "weather?", "-Q"]).ok();
    assert_eq!(ran.stdout, "Rain.\n");
    let last = ran.stderr.lines().last().unwrap();
    let id = last.strip_prefix("session_id: ").unwrap();

    let ran = chat
        .run(&["-Q", "--resume", id, "chat", "-q", "tomorrow?"])
        .ok();
    assert_eq!(ran.stdout, "Sun.\n");
    assert!(
        ran.stderr.ends_with(&format!("session_id: {id}\n")),
        "{ran:?}"
    );
    let content = chat.stored_texts();
    assert_eq!(content.len(), 6, "{content:?}");
    assert_messages(
        &content[3..],
        &[
            ("assistant", "Rain."),
            ("user", "tomorrow?"),
            ("assistant", "Sun."),
        ],
    );
    assert_eq!(chat.request_messages(2).len(), 5);
    let session = &chat.stored()[0].0;
    assert_eq!(session.end_reason.as_deref(), Some("cli_close"));
    assert_eq!(session.source, "cli");
}

#[test]
fn a_query_shows_calls_and_how_to_go_on_beside_the_answer() {
    let chat = Chat::new(ModelScript::new([
        ScriptedAnswer::call("read_file", &json!({"path": "missing.txt"})),
        counted("It is not there."),
    ]));
    let ran = chat.run(&["-q", "read it"]).ok();
    assert_eq!(ran.stdout, "It is not there.\n");
    let id = chat.stored()[0].0.id.to_string();
    for part in [
        "> read it",
        "[read_file {\"path\":\"missing.txt\"}] error",
        "2 model calls, 1 tool call, 30 tokens in, 5 out",
        &format!("hermes --resume {id}"),
    ] {
        assert!(ran.stderr.contains(part), "{part}: {ran:#?}");
    }
}

#[test]
fn oneshot_prints_the_final_text_and_writes_the_usage() {
    let chat = Chat::new(ModelScript::new([counted("Forty-two.")]));
    let file = chat.hermes.user().join("usage.json");
    let path = file.to_str().unwrap();
    let ran = chat.run(&["-z", "what?", "--usage-file", path]).ok();
    assert_eq!(ran.stdout, "Forty-two.\n");
    assert_eq!(ran.stderr, "");
    let usage: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    assert_eq!(usage["total_tokens"], 35);
    assert_eq!(usage["model"], "scripted");
    assert_eq!(usage["session_id"], chat.stored()[0].0.id.as_str());
}

#[test]
fn json_is_one_object_whatever_happens() {
    let chat = Chat::new(ModelScript::new([
        ScriptedAnswer::call("todo", &json!({})),
        counted("Done."),
        ScriptedAnswer::status(400, "no"),
    ]));
    let object = chat.run(&["--json", "-q", "go"]).ok().json();
    let keys: Vec<&String> = object.as_object().unwrap().keys().collect();
    assert_eq!(
        keys,
        ["session_id", "output", "usage", "tool_calls", "error"]
    );
    assert_eq!(object["output"], "Done.");
    assert_eq!(object["usage"]["total_tokens"], 35);
    assert_eq!(object["tool_calls"][0]["name"], "todo");
    assert_eq!(object["tool_calls"][0]["ok"], true);
    assert_eq!(object["error"], Value::Null);

    let object = chat.run(&["-q", "go", "--json"]).exits_with(1).json();
    assert_eq!(object["output"], Value::Null);
    assert_eq!(object["error"]["code"], "failed");
    assert!(object["session_id"].is_string(), "{object}");
    let object = chat
        .run(&["-q", "go", "--json", "-r", "nobody"])
        .exits_with(3)
        .json();
    assert!(
        object["error"]["message"]
            .as_str()
            .unwrap()
            .contains("nobody")
    );
    let object = chat
        .run(&["-q", "go", "--json", "-t", "fly"])
        .exits_with(2)
        .json();
    assert_eq!(object["error"]["code"], "usage");
}

#[test]
fn flags_work_before_and_after_the_command() {
    let chat = Chat::new(ModelScript::echo());
    for args in [
        ["-m", "other", "-z", "hi"].as_slice(),
        &["chat", "-m", "other", "-z", "hi"],
        &["-m", "other", "chat", "-z", "hi"],
        &["-m", "first", "-z", "hi", "chat", "-m", "other"],
    ] {
        assert_eq!(chat.run(args).ok().stdout, "hi\n");
    }
    for request in chat.model.requests() {
        assert_eq!(request.body["model"], "other");
    }
    let ran = chat.run(&["-z", "hi", "mcp", "list"]).exits_with(2);
    assert!(ran.stderr.contains("hermes chat"), "{ran:?}");
}

#[test]
fn wrong_usage_is_told_apart() {
    let chat = Chat::new(ModelScript::echo());
    for args in [
        ["-q", "a", "-z", "b"].as_slice(),
        &["-Q"],
        &["--json"],
        &["-q", " "],
        &["--usage-file", "x", "-q", "a"],
        &["-q", "a", "-c", "-r", "x"],
        &["-q", "a", "--max-turns", "0"],
        &["-q", "a", "-t", "fly"],
        &["-q", "a", "--image", "missing.png"],
        &["-q", "/dance"],
    ] {
        let ran = chat.run(args).exits_with(2);
        assert_eq!(ran.stdout.contains("\"ok\":false"), args == ["--json"]);
    }
    let ran = chat.run(&["-q", "a", "-t", "fiel"]).exits_with(2);
    assert!(ran.stderr.contains("did you mean `file`?"), "{ran:?}");
    assert_eq!(chat.model.requests().len(), 0);
}

#[test]
fn the_question_can_come_from_stdin_and_be_about_an_image() {
    let chat = Chat::new(ModelScript::echo());
    let ran = chat
        .hermes
        .run_with_input(&["-z", "-"], "two\nlines\n")
        .ok();
    assert_eq!(ran.stdout, "two\nlines\n");
    let picture = chat.hermes.user().join("a.png");
    std::fs::write(&picture, b"\x89PNG and so on").unwrap();
    let path = picture.to_str().unwrap();
    chat.run(&["-z", "what is it", "--image", path]).ok();
    let content = &chat.request_messages(1)[0]["content"];
    assert_eq!(content[0]["text"], "what is it");
    let url = content[1]["image_url"]["url"].as_str().unwrap();
    assert!(url.starts_with("data:image/png;base64,"), "{url}");
}

#[test]
fn the_limit_of_model_calls_ends_a_turn_that_would_not_end() {
    let endless = ScriptedAnswer::call("todo", &json!({}));
    let chat = Chat::new(
        ModelScript::echo()
            .rule("summary", endless.clone())
            .rule("go", endless),
    );
    let ran = chat.run(&["-q", "go", "--max-turns", "2"]).ok();
    assert!(ran.stderr.contains("the limit of model calls"), "{ran:?}");
    assert_eq!(chat.model.requests().len(), 3);
    assert_eq!(chat.model.requests()[2].body["tool_choice"], "none");
}

#[test]
fn instructions_toolsets_and_skills_reach_the_model_as_asked() {
    let chat = Chat::new(ModelScript::echo());
    let home = &chat.hermes.home;
    home.write("SOUL.md", "You are a heron.");
    home.write(
        "skills/fishing/SKILL.md",
        "---\nname: fishing\ndescription: How to fish\n---\nStand still.\n",
    );
    chat.run(&["-z", "a"]).ok();
    chat.run(&[
        "-z",
        "b",
        "-t",
        "todo,memory",
        "-s",
        "fishing",
        "--pass-session-id",
    ])
    .ok();
    chat.run(&["-z", "c", "--ignore-rules"]).ok();
    assert!(chat.prompt(0).starts_with("You are a heron."));
    assert!(!chat.prompt(0).contains("Stand still."));
    assert!(chat.tools(0).len() > 10);
    assert_eq!(chat.tools(1), ["todo", "memory"]);
    assert!(chat.prompt(1).contains("Stand still."));
    let ids: Vec<String> = chat
        .stored()
        .iter()
        .map(|(session, _)| session.id.to_string())
        .collect();
    assert!(ids.iter().any(|id| chat.prompt(1).contains(id.as_str())));
    assert!(!chat.prompt(2).contains("heron"));
    assert!(!chat.prompt(2).contains("fish"));
    chat.run(&["-z", "d", "-s", "flying"]).exits_with(1);
    let ran = chat.run(&["-z", "d", "-s", "fishng"]).exits_with(1);
    assert!(ran.stderr.contains("did you mean `fishing`?"), "{ran:?}");
}

#[test]
fn the_rules_of_a_project_reach_the_model_and_are_named_in_one_line() {
    let chat = Chat::new(ModelScript::echo());
    let project = chat.hermes.home.path().join("project");
    std::fs::create_dir_all(project.join(".git")).unwrap();
    std::fs::create_dir_all(project.join("src")).unwrap();
    std::fs::write(project.join("AGENTS.md"), "Indent with tabs.").unwrap();
    let run_there = |args: &[&str]| {
        let mut command = chat.hermes.command(args);
        command.current_dir(project.join("src"));
        run(command, "").ok()
    };
    let ran = run_there(&["-q", "hello"]);
    assert!(chat.prompt(0).contains("Indent with tabs."));
    let lines: Vec<_> = ran
        .stderr
        .lines()
        .filter(|line| line.contains("AGENTS.md"))
        .collect();
    assert_eq!(lines.len(), 1, "{ran:?}");
    assert!(lines[0].starts_with("rules: /"), "{ran:?}");
    let ran = run_there(&["-q", "hello", "--ignore-rules"]);
    assert!(!chat.prompt(1).contains("tabs"), "{}", chat.prompt(1));
    assert!(!ran.stderr.contains("AGENTS.md"), "{ran:?}");
    // What was there at the beginning of a session stays.
    std::fs::write(project.join("AGENTS.md"), "Indent with spaces.").unwrap();
    run_there(&["-q", "more", "--continue"]);
    assert!(!chat.prompt(2).contains("spaces"), "{}", chat.prompt(2));
}

#[test]
fn safe_mode_and_an_ignored_configuration_leave_the_users_own_aside() {
    let chat = Chat::new(ModelScript::echo());
    chat.hermes.home.write("SOUL.md", "You are a heron.");
    for flag in ["--safe-mode", "--ignore-user-config"] {
        let ran = chat.run(&[flag, "-z", "hi"]).exits_with(1);
        assert!(ran.stderr.contains("No model is chosen"), "{ran:?}");
    }
    assert_eq!(chat.model.requests().len(), 0);
    // Keys and what local servers say still count.
    let ollama = Chat::new(ModelScript {
        ollama: true,
        models: vec!["qwen3".into()],
        ..ModelScript::echo()
    });
    ollama.hermes.home.write("SOUL.md", "You are a heron.");
    let origin = ollama.model.origin();
    let variables = [("OLLAMA_HOST", origin.as_str())];
    let ran = ollama
        .run_with(&["--safe-mode", "-z", "hi"], &variables)
        .ok();
    assert_eq!(ran.stdout, "hi\n");
    assert!(!ollama.prompt(0).contains("heron"));
}

#[test]
fn what_a_failed_turn_took_is_told() {
    let paid = |reply: &mut hermes_testkit::model::ScriptedReply| {
        reply.usage = Some(ScriptedUsage {
            prompt: 30,
            cached: 0,
            completion: 5,
        });
    };
    let script = || {
        ModelScript::new([
            ScriptedAnswer::call("todo", &json!({})).with(paid),
            ScriptedAnswer::status(400, "no"),
        ])
    };
    let chat = Chat::new(script());
    let object = chat.run(&["-q", "go", "--json"]).exits_with(1).json();
    assert_eq!(object["error"]["code"], "failed");
    assert_eq!(object["usage"]["total_tokens"], 35, "{object}");
    assert_eq!(object["tool_calls"][0]["name"], "todo");

    let chat = Chat::new(script());
    let file = chat.hermes.user().join("usage.json");
    let path = file.to_str().unwrap();
    chat.run(&["-z", "go", "--usage-file", path]).exits_with(1);
    let usage: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    assert_eq!(usage["total_tokens"], 35);
    assert_eq!(usage["tool_call_count"], 1);
}

#[test]
fn what_an_interrupted_turn_took_is_told() {
    let chat = Chat::new(ModelScript::new([
        ScriptedAnswer::call("todo", &json!({})),
        ScriptedAnswer::Silence,
    ]));
    let child = chat.start_until_asked(&["-q", "go", "--json"], 2);
    crate::harness::test_home::signal_process(child.id(), rustix::process::Signal::INT);
    let object = super::finish(child).exits_with(130).json();
    assert_eq!(object["usage"]["api_calls"], 1, "{object}");
    assert_eq!(object["tool_calls"][0]["name"], "todo");
}
