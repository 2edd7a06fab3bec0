use hermes_testkit::{Behaviour, HttpServer};
use serde_json::json;

use super::COMMENTED;
use crate::harness::program::{CommandOutput, Hermes, assert_private, local, with_tools};

const SECRET: &str = "s3cr3t-value-0123456789";

fn behind_bearer(token: &str) -> HttpServer {
    HttpServer::start(with_tools(&["search"]).http(|http| http.bearer = Some(token.to_owned())))
}

fn add_local(hermes: &Hermes, more: &[&str]) -> CommandOutput {
    let (command, argument) = local(&with_tools(&["read", "write"]));
    let line = ["mcp", "add", "kit", "--command", &command];
    hermes.run(&[&line, more, &["--args", &argument]].concat())
}

#[test]
fn a_server_is_probed_shown_and_saved() {
    let hermes = Hermes::new();
    let ran = add_local(&hermes, &[]).ok();
    insta::assert_snapshot!(ran.stdout, @r"
    TOOL   DESCRIPTION
    read   Does read
    write  Does write
    ");
    assert!(ran.stderr.contains("Saved `kit`."), "{ran:?}");
    let (command, argument) = local(&with_tools(&["read", "write"]));
    let expected = json!({"command": command, "args": [argument]});
    assert_eq!(hermes.entry("kit"), expected);
    assert_private(&hermes.home.path().join("config.yaml"));
}

#[test]
fn json_names_the_tools_and_what_is_odd() {
    let hermes = Hermes::new();
    let more = ["--json", "--include", "read", "--include", "raed"];
    let ran = add_local(&hermes, &more).ok();
    insta::assert_json_snapshot!(ran.json(), @r#"
    {
      "ok": true,
      "server": "kit",
      "saved": true,
      "tools": [
        {
          "name": "read",
          "registered_name": "mcp_kit_read",
          "description": "Does read",
          "included": true
        },
        {
          "name": "write",
          "registered_name": null,
          "description": "Does write",
          "included": false
        }
      ],
      "warnings": [
        "the filter `raed` matches none of its tools"
      ]
    }
    "#);
}

#[test]
fn every_flag_finds_its_key_and_repeated_ones_are_all_kept() {
    let hermes = Hermes::new();
    let line = [
        "mcp",
        "add",
        "kit",
        "--no-test",
        "--command",
        "npx",
        "--env",
        "A=1",
        "--env",
        "B=x=y",
        "--cwd",
        "/tmp",
        "--timeout",
        "30",
        "--connect-timeout",
        "2.5",
        "--include",
        "a*",
        "--include",
        "b",
        "--exclude",
        "c",
        "--parallel",
        "--disabled",
        "--args",
        "-y",
        "@scope/pkg",
        "--force",
        "/tmp",
    ];
    hermes.run(&line).ok();
    insta::assert_snapshot!(hermes.config(), @r#"
    mcp_servers:
      kit:
        command: npx
        args:
          - -y
          - "@scope/pkg"
          - --force
          - /tmp
        env:
          A: "1"
          B: x=y
        cwd: /tmp
        timeout: 30
        connect_timeout: 2.5
        supports_parallel_tool_calls: true
        tools:
          include:
            - a*
            - b
          exclude:
            - c
        enabled: false
    "#);
}

#[test]
fn every_other_byte_of_a_commented_file_stays() {
    let hermes = Hermes::with_config(COMMENTED);
    hermes
        .run(&[
            "mcp",
            "add",
            "time",
            "--no-test",
            "--command",
            "uvx",
            "--args",
            "mcp-server-time",
        ])
        .ok();
    let new = "  time:\n    command: uvx\n    args:\n      - mcp-server-time\n";
    assert_eq!(hermes.config().replacen(new, "", 1), COMMENTED);
}

#[test]
fn secrets_of_the_command_line_move_to_env_and_reach_the_server() {
    let hermes = Hermes::new();
    let (command, argument) = local(&Behaviour::new());
    let secret = format!("API_TOKEN={SECRET}");
    let line = [
        "mcp",
        "add",
        "kit",
        "--command",
        &command,
        "--env",
        &secret,
        "--env",
        "REGION=eu",
        "--args",
        &argument,
    ];
    let ran = hermes.run(&line).ok().hides(&[SECRET]);
    assert!(ran.stderr.contains("`API_TOKEN` (s3cr***6789)"), "{ran:?}");
    assert!(!hermes.config().contains(SECRET));
    assert_eq!(hermes.entry("kit")["env"]["API_TOKEN"], "${API_TOKEN}");
    assert_eq!(hermes.entry("kit")["env"]["REGION"], "eu");
    assert_eq!(hermes.env(), format!("API_TOKEN={SECRET}\n"));
    assert_private(&hermes.home.path().join(".env"));
    let environment = hermes.run(&["mcp", "call", "kit.environment"]).ok();
    assert!(environment.stdout.contains(SECRET), "{environment:?}");
}

#[test]
fn a_variable_that_means_something_else_stays() {
    let hermes = Hermes::new();
    hermes.home.write_env("# mine\nAPI_KEY=other-value\n");
    hermes
        .run(&[
            "mcp",
            "add",
            "my-kit",
            "--no-test",
            "--command",
            "x",
            "--env",
            "API_KEY=new-value",
        ])
        .ok();
    assert_eq!(
        hermes.env(),
        "# mine\nAPI_KEY=other-value\nMCP_MY_KIT_API_KEY=new-value\n"
    );
    assert_eq!(
        hermes.entry("my-kit")["env"]["API_KEY"],
        "${MCP_MY_KIT_API_KEY}"
    );
}

#[test]
fn all_headers_are_kept_and_their_secrets_used_but_not_shown() {
    let server = behind_bearer(SECRET);
    let hermes = Hermes::new();
    let header = format!("Authorization=Bearer {SECRET}");
    let url = server.url();
    let line = [
        "mcp",
        "add",
        "docs",
        "--url",
        &url,
        "--header",
        &header,
        "--header",
        "X-Team: blue",
    ];
    hermes.run(&line).ok().hides(&[SECRET]);
    let expected = json!({
        "url": url,
        "headers": {"Authorization": "Bearer ${MCP_DOCS_AUTHORIZATION}", "X-Team": "blue"},
    });
    assert_eq!(hermes.entry("docs"), expected);
    assert_eq!(hermes.env(), format!("MCP_DOCS_AUTHORIZATION={SECRET}\n"));
    let requests = server.requests();
    let last = requests.last().unwrap();
    assert_eq!(last.header("x-team"), Some("blue"));
}

#[test]
fn a_token_on_stdin_becomes_a_reference() {
    let server = behind_bearer(SECRET);
    let hermes = Hermes::new();
    let url = server.url();
    let line = ["mcp", "add", "my.docs", "--url", &url, "--auth", "header"];
    let ran = hermes.run_with_input(&line, &format!("Bearer {SECRET}\n"));
    ran.ok().hides(&[SECRET]);
    let header = &hermes.entry("my.docs")["headers"]["Authorization"];
    assert_eq!(header, "Bearer ${MCP_MY_DOCS_API_KEY}");
    assert_eq!(hermes.env(), format!("MCP_MY_DOCS_API_KEY={SECRET}\n"));
    // Once more, with another token: it is this server's own variable.
    let line = [&line[..], &["--force", "--no-test"]].concat();
    hermes.run_with_input(&line, "newer-token-value").ok();
    assert_eq!(hermes.env(), "MCP_MY_DOCS_API_KEY=newer-token-value\n");
}

#[test]
fn no_token_on_stdin_is_an_answer_that_is_missing() {
    let hermes = Hermes::new();
    let line = [
        "mcp",
        "add",
        "docs",
        "--url",
        "https://x.example",
        "--auth",
        "header",
        "--json",
    ];
    hermes.run(&line).refused(5, "answer_needed");
    assert_eq!(hermes.config() + &hermes.env(), "");
}

#[test]
fn a_refused_token_is_not_saved() {
    let server = behind_bearer("right-token");
    let hermes = Hermes::new();
    let url = server.url();
    let line = [
        "mcp", "add", "docs", "--url", &url, "--auth", "header", "--json",
    ];
    let ran = hermes.run_with_input(&line, SECRET);
    ran.refused(4, "needs_login").hides(&[SECRET]);
    assert_eq!(hermes.config() + &hermes.env(), "");
}

#[test]
fn a_server_with_a_login_is_saved_before_it() {
    let server = behind_bearer("a-token");
    let hermes = Hermes::new();
    let url = server.url();
    let line = [
        "mcp", "add", "docs", "--url", &url, "--auth", "oauth", "--json",
    ];
    let json = hermes.run(&line).ok().json();
    assert_eq!(json["saved"], true);
    let warning = json["warnings"][0].as_str().unwrap();
    assert!(warning.contains("hermes mcp login docs"), "{warning}");
    assert_eq!(hermes.entry("docs"), json!({"url": url, "auth": "oauth"}));
}

#[test]
fn a_server_that_fails_is_not_saved_unless_forced() {
    let behaviour = Behaviour::new().process(|process| {
        process.exit_at_start = Some(hermes_testkit::ExitAtStart {
            code: 3,
            stderr: "no database".to_owned(),
        });
    });
    let (command, argument) = local(&behaviour);
    let secret = format!("DB_PASSWORD={SECRET}");
    let line = [
        "mcp",
        "add",
        "kit",
        "--json",
        "--command",
        &command,
        "--env",
        &secret,
    ];
    let args = ["--args", &argument];
    let hermes = Hermes::new();
    let ran = hermes.run(&[&line[..], &args].concat());
    let ran = ran.refused(1, "failed").hides(&[SECRET]);
    let json = ran.json();
    assert!(
        json["error"]["message"]
            .as_str()
            .unwrap()
            .contains("no database")
    );
    assert_eq!(json["error"]["server"], "kit");
    assert_eq!(hermes.config() + &hermes.env(), "");

    let ran = hermes.run(&[&line[..], &["--force"], &args].concat());
    let json = ran.ok().hides(&[SECRET]).json();
    assert_eq!(json["saved"], true);
    assert!(
        json["warnings"][0]
            .as_str()
            .unwrap()
            .contains("no database")
    );
    assert_eq!(hermes.entry("kit")["enabled"], false);
}

#[test]
fn a_missing_program_is_named() {
    let hermes = Hermes::new();
    let ran = hermes
        .run(&["mcp", "add", "kit", "--command", "no-such-program"])
        .exits_with(1);
    assert!(ran.stderr.contains("`no-such-program`"), "{ran:?}");
    assert!(ran.stderr.contains("nothing was saved"), "{ran:?}");
}

#[test]
fn a_taken_name_is_kept_unless_forced() {
    let hermes = Hermes::with_config(COMMENTED);
    let line = [
        "mcp",
        "add",
        "files",
        "--no-test",
        "--command",
        "new",
        "--json",
    ];
    hermes.run(&line).refused(5, "answer_needed");
    hermes
        .run(&[&line[..], &["--yes"]].concat())
        .refused(1, "failed");
    assert_eq!(hermes.config(), COMMENTED);
    hermes.run(&[&line[..], &["--force"]].concat()).ok();
    assert_eq!(hermes.entry("files"), json!({"command": "new"}));
    assert!(hermes.config().contains("# Talks to the shop."));
}

#[test]
fn a_preset_gives_way_to_flags() {
    let hermes = Hermes::new();
    let add = |more: &[&str]| {
        let line = [
            "mcp",
            "add",
            "--no-test",
            "--preset",
            "codex",
            "--force",
            "my-codex",
        ];
        hermes.run(&[&line[..], more].concat()).ok();
        hermes.entry("my-codex")
    };
    assert_eq!(
        add(&[]),
        json!({"command": "codex", "args": ["mcp-server"]})
    );
    let changed = add(&["--command", "/opt/codex", "--env", "LEVEL=1"]);
    let expected = json!({"command": "/opt/codex", "args": ["mcp-server"], "env": {"LEVEL": "1"}});
    assert_eq!(changed, expected);
}

#[test]
fn wrong_usage_says_what_is_right() {
    let hermes = Hermes::new();
    for (line, code, says) in [
        (
            &["--url", "https://x.example", "--env", "A=1"][..],
            2,
            "--header",
        ),
        (&["--url", "https://x.example", "--args", "a"], 2, "local"),
        (&["--url", "ftp://x.example", "--no-test"], 2, "`url`"),
        (&["--command", "x", "--header", "A=1"], 2, "--env"),
        (&["--command", "x", "--auth", "oauth"], 2, "remote"),
        (&["--command", "x", "--env", "novalue"], 2, "K=V"),
        (&["--command", "x", "--timeout", "0"], 2, "seconds above 0"),
        (&["--command", " "], 2, "a program after `--`"),
        (&[], 2, "an address, a program after `--`, or `--preset`"),
        (&["--preset", "nope"], 3, "codex"),
        (
            &["--url", "https://x", "--command", "x"],
            2,
            "cannot be used with",
        ),
    ] {
        let ran = hermes
            .run(&[&["mcp", "add", "kit"], line].concat())
            .exits_with(code);
        assert!(ran.stderr.contains(says), "{ran:?}");
    }
    assert_eq!(hermes.config(), "");
}

#[test]
fn a_broken_file_is_not_touched() {
    let broken = "mcp_servers:\n  a: {command: x}\n  a: {command: y}\n";
    let hermes = Hermes::with_config(broken);
    hermes
        .run(&["mcp", "add", "kit", "--no-test", "--command", "x", "--json"])
        .refused(2, "usage");
    assert_eq!(hermes.config(), broken);
}

#[test]
fn in_safe_mode_nothing_is_started() {
    let hermes = Hermes::new();
    let pids = hermes.home.path().join("pids");
    let behaviour = Behaviour::new().process(|process| process.pid_file = Some(pids.clone()));
    let (command, argument) = local(&behaviour);
    hermes
        .run(&[
            "--safe-mode",
            "mcp",
            "add",
            "kit",
            "--command",
            &command,
            "--args",
            &argument,
        ])
        .ok();
    assert_eq!(hermes.entry("kit")["command"], command.as_str());
    assert!(!pids.exists());
}
