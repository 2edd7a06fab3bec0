//! The forms in which servers are added and tools called.

use hermes_testkit::{Behaviour, HttpServer, Tool};
use serde_json::json;

use crate::harness::program::{Hermes, entry, local};

#[test]
fn a_server_is_added_by_its_address_or_its_program() {
    let hermes = Hermes::new();
    let server = HttpServer::start(Behaviour::new());
    let added = hermes
        .run(&["mcp", "add", "web", &server.url(), "--yes", "--json"])
        .ok();
    assert_eq!(added.json()["saved"], true);
    assert_eq!(hermes.entry("web"), json!({"url": server.url()}));

    let (program, argument) = local(&Behaviour::new());
    let line = [
        "mcp", "add", "kit", "--yes", "--env", "A=1", "--", &program, &argument,
    ];
    hermes.run(&line).ok();
    let kit = hermes.entry("kit");
    assert_eq!(kit["command"], json!(program));
    assert_eq!(kit["args"], json!([argument]));
    assert_eq!(kit["env"], json!({"A": "1"}));

    // What comes after the dashes is the program's, whatever it looks like.
    let line = [
        "mcp",
        "add",
        "api",
        "--no-test",
        "--",
        "api",
        "--json",
        "--",
        "-y",
    ];
    hermes.run(&line).ok();
    let args = &hermes.entry("api")["args"];
    assert_eq!(args, &json!(["--json", "--", "-y"]));

    let refused = hermes.run(&["mcp", "add", "time", "uvx"]).exits_with(2);
    assert!(
        refused.stderr.contains("hermes mcp add time -- uvx"),
        "{refused:?}"
    );
    for both in [
        &["mcp", "add", "x", "https://x.example", "--command", "y"][..],
        &["mcp", "add", "x", "https://x.example", "--", "y"],
        &["mcp", "add", "x", "--command", "y", "--", "z"],
    ] {
        hermes.run(both).exits_with(2);
    }
}

#[test]
fn the_first_server_of_a_new_home_is_remembered_and_its_words_are_kept() {
    let directory = tempfile::tempdir().unwrap();
    let hermes = Hermes::new();
    let (program, argument) = local(&Behaviour::new().process(|process| {
        process.stderr_flood = 200;
    }));
    let home = directory.path().join("new");
    let mut command = hermes.command(&["mcp", "add", "kit", "--yes", "--", &program, &argument]);
    command.env("HERMES_HOME", &home);
    crate::harness::program::run(command, "").ok();
    let manifests = std::fs::read_dir(home.join("cache/mcp")).unwrap().count();
    assert_eq!(manifests, 1);
    let log = std::fs::read_to_string(home.join("logs/mcp-stderr.log")).unwrap();
    assert!(log.len() > 200, "{log}");
}

/// A tool that is particular about what it takes.
fn particular() -> Hermes {
    let search = Tool::defined(json!({
        "name": "search",
        "description": "Finds notes by their words.\nThe newest come first.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "The words to look for"},
                "limit": {"type": "integer", "description": "How many notes at most", "default": 10, "maximum": 100},
                "tags": {"type": "array", "items": {"type": "string"}},
                "order": {"enum": ["newest", "best"]},
            },
            "required": ["query"],
            "additionalProperties": false,
        },
    }))
    .acting_as("echo");
    let kit = entry(&Behaviour::new().tools([search]));
    Hermes::with_config(&json!({"mcp_servers": {"notes": kit}}).to_string())
}

#[test]
fn a_tool_is_shown_as_people_read_it() {
    let hermes = particular();
    let shown = hermes.run(&["mcp", "tools", "notes.search"]).ok();
    insta::assert_snapshot!(shown.stdout);
    let json = hermes
        .run(&["mcp", "tools", "notes.search", "--json"])
        .ok()
        .json();
    assert_eq!(json["tools"][0]["registered_name"], "mcp_notes_search");
    assert_eq!(json["tools"][0]["schema"]["required"], json!(["query"]));
}

#[test]
fn wrong_arguments_show_what_the_tool_takes() {
    let hermes = particular();
    let missing = hermes
        .run(&["mcp", "call", "notes.search", "limit=3"])
        .exits_with(2);
    insta::assert_snapshot!(missing.stderr);
    for (arguments, said) in [
        (&["query=x", "limits=3"][..], "did you mean `limit`?"),
        (&["query=x", "limit=many"], "/limit"),
        (&["query=x", "order=worst"], "/order"),
        (&["query=x", "tags:={}"], "/tags"),
    ] {
        let line = [&["mcp", "call", "notes.search"], arguments].concat();
        let wrong = hermes.run(&line).exits_with(2);
        assert!(wrong.stderr.contains(said), "{arguments:?}: {wrong:?}");
        assert!(wrong.stderr.contains("How many notes at most"), "{wrong:?}");
    }
    let line = ["mcp", "call", "notes.search", "limit=3", "--json"];
    let json = hermes.run(&line).refused(2, "usage").json();
    assert_eq!(json["signature"]["name"], "search");
    for bad in [&["query"][..], &["=1"], &["a:=x"]] {
        let line = [&["mcp", "call", "notes.search"], bad].concat();
        hermes.run(&line).exits_with(2);
    }
    // What is given as it is gets there as it is.
    hermes
        .run(&["mcp", "call", "notes.search", "--raw", "limit=many"])
        .ok();
}

#[test]
fn an_entry_is_shown_as_it_is_in_effect_without_secrets() {
    let hermes = Hermes::with_config(
        "mcp_servers:\n  api:\n    command: api\n    args: [-v, run]\n    env: {API_KEY: sk-verysecretvalue123, TOKEN: '${MY_TOKEN}'}\n    timeout: 9\n",
    );
    let shown = hermes
        .run(&["mcp", "get", "api"])
        .ok()
        .hides(&["sk-verysecretvalue123"]);
    insta::assert_snapshot!(shown.stdout);
    assert!(shown.stderr.contains("`MY_TOKEN` is not set"), "{shown:?}");
    let json = hermes.run(&["mcp", "get", "api", "--json"]).ok().json();
    assert_eq!(json["entry"]["env"]["TOKEN"], "${MY_TOKEN}");
    assert_eq!(json["entry"]["timeout"], 9);
    assert_eq!(json["status"], "enabled");
    hermes
        .run(&["mcp", "get", "ap", "--json"])
        .refused(3, "not_found");
}

#[test]
fn resources_and_prompts_are_listed_read_and_filled_in() {
    let kit = entry(&Behaviour::new());
    let hermes = Hermes::with_config(&json!({"mcp_servers": {"kit": kit}}).to_string());
    let list = hermes.run(&["mcp", "resources", "--json"]).ok().json();
    let uri = list["resources"][0]["uri"].as_str().unwrap().to_owned();
    assert_eq!(list["resources"][0]["server"], "kit");
    let shown = hermes.run(&["mcp", "resources", "kit"]).ok().stdout;
    assert!(
        shown.starts_with("SERVER") && shown.contains(&uri),
        "{shown}"
    );
    let read = hermes
        .run(&["mcp", "resources", "kit", &uri, "--json"])
        .ok()
        .json();
    let text = read["contents"][0]["text"].as_str().unwrap().to_owned();
    let shown = hermes.run(&["mcp", "resources", "kit", &uri]).ok().stdout;
    assert_eq!(shown.trim_end(), text.trim_end());

    let list = hermes.run(&["mcp", "prompts"]).ok().stdout;
    assert!(list.contains("greet"), "{list}");
    let filled = hermes
        .run(&["mcp", "prompts", "kit", "greet", "name=Ada"])
        .ok();
    assert_eq!(filled.stdout, "user: Greet Ada kindly.\n");
    let missing = hermes
        .run(&["mcp", "prompts", "kit", "greet"])
        .exits_with(2);
    assert!(missing.stderr.contains("`name` is missing"), "{missing:?}");
    assert!(missing.stderr.contains("Arguments:"), "{missing:?}");
    let unknown = hermes
        .run(&["mcp", "prompts", "kit", "great", "name=Ada"])
        .exits_with(3);
    assert!(
        unknown.stderr.contains("did you mean `greet`?"),
        "{unknown:?}"
    );
}
