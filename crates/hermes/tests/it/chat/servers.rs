//! MCP servers in a conversation.

use std::time::Duration;

use hermes_testkit::{
    Behaviour, ExitAtStart, Grandchild, binary,
    model::{ModelScript, ScriptedAnswer},
};
use serde_json::{Value, json};

use super::Chat;
use crate::harness::{
    program::entry,
    test_home::{assert_gone, read_pids},
};

fn parallel() -> Value {
    let mut entry = entry(&Behaviour::new());
    entry["supports_parallel_tool_calls"] = json!(true);
    entry
}

#[test]
fn a_model_uses_the_tools_of_a_server() {
    let chat = Chat::with_servers(
        ModelScript::new([
            ScriptedAnswer::call("mcp_kit_add", &json!({"a": 2, "b": 40})),
            ScriptedAnswer::text("Forty-two."),
        ]),
        &[("kit", entry(&Behaviour::new()))],
    );
    let ran = chat.run(&["-q", "add them"]).ok();
    assert!(ran.stderr.contains("[mcp_kit_add"), "{ran:?}");
    assert!(chat.tools(0).contains(&"mcp_kit_add".to_owned()));
    let result = chat.request_messages(1)[2]["content"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(result.contains("42"), "{result}");
}

#[test]
fn ten_calls_at_once_return_in_their_order() {
    let calls: Vec<(&str, Value)> = (0..10)
        .map(|number| {
            let ms = 1200 - number * 100;
            ("mcp_kit_sleep", json!({ "ms": ms }))
        })
        .collect();
    let chat = Chat::with_servers(
        ModelScript::new([ScriptedAnswer::calls(calls), ScriptedAnswer::text("done")]),
        &[("kit", parallel())],
    );
    let object = chat.run(&["-q", "go", "--json"]).ok().json();
    let calls = object["tool_calls"].as_array().unwrap();
    assert_eq!(calls.len(), 10);
    let slept: f64 = calls
        .iter()
        .map(|call| call["seconds"].as_f64().unwrap())
        .sum();
    assert!(slept > 7.4, "{object}");
    let results = chat.request_messages(1);
    for (number, result) in results[2..].iter().enumerate() {
        assert_eq!(result["tool_call_id"], format!("call_{number}"));
    }
    // The last began while the first was asleep, so it ended earlier than some before it.
    let ends: Vec<&str> = calls
        .iter()
        .map(|call| call["id"].as_str().unwrap())
        .collect();
    let in_order: Vec<String> = (0..10).map(|number| format!("call_{number}")).collect();
    assert_ne!(ends, in_order);
}

#[test]
fn the_model_is_told_which_servers_are_missing() {
    let broken = json!({"command": "/does/not/exist"});
    let chat = Chat::with_servers(
        ModelScript::echo(),
        &[("gone", broken), ("kit", entry(&Behaviour::new()))],
    );
    let ran = chat.run(&["-z", "hi"]).ok();
    assert!(
        ran.stderr.contains("MCP server `gone` is missing"),
        "{ran:?}"
    );
    let prompt = chat.prompt(0);
    assert!(prompt.contains("- gone: "), "{prompt}");
    assert!(!prompt.contains("- kit: "), "{prompt}");
    assert!(chat.tools(0).contains(&"mcp_kit_echo".to_owned()));
}

#[test]
fn the_last_words_of_a_server_that_died_are_told_whole() {
    let dying = Behaviour::new().process(|process| {
        process.exit_at_start = Some(ExitAtStart {
            code: 3,
            stderr: "Traceback:\nboom: there is no index".into(),
        });
    });
    let chat = Chat::with_servers(ModelScript::echo(), &[("dying", entry(&dying))]);
    let ran = chat.run(&["-z", "hi"]).ok();
    let told = "its last stderr lines:\n  Traceback:\n  boom: there is no index\n";
    assert!(ran.stderr.contains(told), "{ran:?}");
    let prompt = chat.prompt(0);
    assert!(prompt.contains("boom: there is no index"), "{prompt}");
}

#[test]
fn a_question_waits_no_longer_than_the_discovery_timeout_or_a_servers_own() {
    let never = Behaviour::new().process(|process| process.start_delay_ms = 600_000);
    let slow = json!({"mcp_servers": {"slow": entry(&never)}, "mcp_discovery_timeout": 0.2});
    let chat = Chat::with_config(ModelScript::echo(), slow);
    chat.run(&["-z", "hi"]).ok();
    let prompt = chat.prompt(0);
    let told = "- slow: it is still connecting, after ";
    assert!(prompt.contains(told), "{prompt}");

    let mut slow = entry(&never);
    slow["connect_timeout"] = json!(1);
    let slow = json!({"mcp_servers": {"slow": slow}, "mcp_discovery_timeout": 30});
    let chat = Chat::with_config(ModelScript::echo(), slow);
    chat.run(&["-z", "hi"]).ok();
    let prompt = chat.prompt(0);
    assert!(prompt.contains("- slow: no answer within 1 s"), "{prompt}");
}

#[test]
fn a_server_known_from_an_earlier_run_is_not_waited_for_but_its_call_is() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("behaviour.json");
    let behave = |delay: u64| {
        let behaviour = Behaviour::new().process(|process| process.start_delay_ms = delay);
        std::fs::write(&file, serde_json::to_vec(&behaviour).unwrap()).unwrap();
    };
    let argument = format!("@{}", file.display());
    let kit = json!({"command": binary("testkit-stdio"), "args": [argument]});
    let script = ModelScript::new([
        ScriptedAnswer::text("Hello."),
        ScriptedAnswer::call("mcp_kit_add", &json!({"a": 2, "b": 40})),
        ScriptedAnswer::text("Forty-two."),
    ]);
    let chat = Chat::with_servers(script, &[("kit", kit)]);
    behave(0);
    chat.run(&["-z", "hi"]).ok();
    assert!(chat.hermes.home.path().join("cache/mcp").exists());

    // It is slower than anybody waits for it.
    let config = chat
        .hermes
        .config()
        .replacen('{', "{\"mcp_discovery_timeout\": 0, ", 1);
    chat.hermes.home.write_config(&config);
    behave(2_000);
    let ran = chat.run(&["-q", "add them"]).ok();
    assert!(!ran.stderr.contains("is missing"), "{ran:?}");
    assert!(chat.tools(1).contains(&"mcp_kit_add".to_owned()));
    let result = chat.request_messages(2)[2]["content"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(result.contains("42"), "{result}");
}

#[test]
fn a_server_that_is_still_starting_does_not_outlive_the_question() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pids");
    let starting = Behaviour::new().process(|process| {
        process.start_delay_ms = 600_000;
        process.ignore_sigterm = true;
        process.grandchildren = vec![Grandchild::Attached, Grandchild::Detached];
        process.pid_file = Some(file.clone());
    });
    let config = json!({
        "mcp_servers": {"starting": entry(&starting)},
        // Long enough for all its processes to be there.
        "mcp_discovery_timeout": 5,
    });
    let chat = Chat::with_config(ModelScript::echo(), config);
    chat.run(&["-z", "hi"]).ok();
    let pids = std::fs::read_to_string(&file).unwrap();
    assert_eq!(pids.lines().count(), 3);
    // At once: what outlives the command is ended a few seconds later in any case.
    assert_gone(&read_pids(&file), Duration::ZERO);
}

#[test]
fn tools_are_listed_and_called_without_a_model() {
    let mut bare = Behaviour::new().tools([]);
    (bare.resources, bare.prompts) = (false, false);
    let servers = [("kit", entry(&Behaviour::new())), ("bare", entry(&bare))];
    let chat = Chat::with_servers(ModelScript::echo(), &servers);
    let config = chat.hermes.config().replace("scripted", "");
    let mut config: Value = serde_json::from_str(&config).unwrap();
    config["model"] = json!({"autodetect": false});
    chat.hermes.home.write_config(&config.to_string());
    let ran = chat.run(&["-q", "/tools"]).ok();
    let listed = "\nmcp-kit (MCP server, ready, ";
    assert!(ran.stdout.contains(listed), "{ran:?}");
    assert!(
        !ran.stdout.contains("mcp-bare"),
        "no tools, no toolset: {ran:?}"
    );
    assert!(
        ran.stdout
            .contains("\nno tools of bare (MCP server, ready)"),
        "{ran:?}"
    );
    assert!(ran.stdout.contains("mcp_kit_echo"), "{ran:?}");
    for call in [
        "/call kit.echo {\"text\": \"hello\"}",
        "/call kit.echo text=hello",
        "/call mcp_kit_echo text=hello",
        "/call mcp__kit__echo text=hello",
    ] {
        assert_eq!(chat.run(&["-q", call]).ok().stdout, "hello\n");
    }
    let sum = chat.run(&["-q", "/call kit.add a=2 b=3"]).ok();
    assert_eq!(sum.stdout, "{\"sum\":5}\n");
    let ran = chat.run(&["-q", "/call kit.fail text=oh"]).exits_with(1);
    assert!(ran.stderr.contains("oh"), "{ran:?}");
    let ran = chat.run(&["-q", "/call kit.fly"]).exits_with(1);
    assert!(ran.stderr.contains("it offers: echo, add"), "{ran:?}");
    for (mistyped, meant) in [
        ("kit.ehco", "echo"),
        ("kti.echo", "kit.echo"),
        ("mcp_kit_ehco", "mcp_kit_echo"),
        ("reed_file", "read_file"),
    ] {
        let call = format!("/call {mistyped} text=x");
        let ran = chat.run(&["-q", &call]).exits_with(1);
        let asked = format!("did you mean `{meant}`?");
        assert!(ran.stderr.contains(&asked), "{mistyped}: {ran:?}");
    }
    let object = chat
        .run(&["-q", "/call kit.echo text=x", "--json"])
        .ok()
        .json();
    assert_eq!(object["output"], "x");
    assert!(chat.stored().is_empty());
}

#[test]
fn toolsets_choose_among_servers() {
    let chat = Chat::with_servers(
        ModelScript::echo(),
        &[
            ("one", entry(&Behaviour::new())),
            ("two", entry(&Behaviour::new())),
        ],
    );
    for toolsets in ["one", "file", "file,mcp-two", "all"] {
        chat.run(&["-z", "hi", "-t", toolsets]).ok();
    }
    let has = |request: usize, start: &str| {
        let tools = chat.tools(request);
        tools.iter().any(|name| name.starts_with(start))
    };
    let offers: Vec<[bool; 3]> = (0..4)
        .map(|request| {
            [
                has(request, "mcp_one_"),
                has(request, "mcp_two_"),
                has(request, "read_file"),
            ]
        })
        .collect();
    assert_eq!(
        offers,
        [
            [true, false, false],
            [false, false, true],
            [false, true, true],
            [true, true, true],
        ]
    );
    let ran = chat.run(&["-z", "hi", "-t", "twoo"]).exits_with(2);
    assert!(ran.stderr.contains("did you mean `two`?"), "{ran:?}");
    assert!(ran.stderr.contains("mcp-one, mcp-two, all"), "{ran:?}");
}

#[test]
fn a_conversation_without_the_configuration_does_not_load_it_later() {
    let chat = Chat::with_servers(ModelScript::echo(), &[("kit", entry(&Behaviour::new()))]);
    let before = chat.hermes.config();
    for command in ["/reload-mcp", "/mcp disable kit"] {
        let input = format!("{command}\n/tools\n");
        let ran = chat
            .hermes
            .run_with_input(&["--ignore-user-config"], &input)
            .exits_with(1);
        assert!(
            ran.stderr.contains("config.yaml is ignored"),
            "{command}: {ran:?}"
        );
        assert!(!ran.stdout.contains("kit"), "{command}: {ran:?}");
    }
    assert_eq!(chat.hermes.config(), before);
}
