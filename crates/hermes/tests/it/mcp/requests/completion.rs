//! What shells offer while a line is typed.

use hermes_testkit::Behaviour;
use serde_json::json;

use crate::harness::{
    program::{CommandOutput, entry, run, with_tools},
    test_home::TestHome,
};

mod real_servers;

/// A home with two servers, one of which was connected before.
fn home() -> TestHome {
    let home = TestHome::with_servers(&[
        (
            "github",
            entry(&with_tools(&["create_issue", "list_issues"])),
        ),
        ("gitlab", json!({"command": "no-such-program"})),
        ("other", entry(&Behaviour::new())),
    ]);
    home.run(&["mcp", "test", "github"]).ok();
    std::fs::create_dir_all(home.path().join("profiles/work")).unwrap();
    home
}

/// What a shell is told for a line whose last word is being typed.
fn offered(home: &TestHome, line: &[&str]) -> Vec<String> {
    let mut command = home.command(&[]);
    command
        .env("HERMES_COMPLETE", "fish")
        .arg("--")
        .arg("hermes")
        .args(line);
    let CommandOutput {
        code,
        stdout,
        stderr,
    } = run(command, "");
    assert_eq!((code, stderr.as_str()), (0, ""), "{line:?}");
    let word = |line: &str| line.split('\t').next().unwrap_or_default().to_owned();
    stdout.lines().map(word).collect()
}

#[test]
fn the_built_in_server_is_offered_where_none_is_configured_and_nothing_is_changed() {
    let home = TestHome::fresh();
    assert_eq!(offered(&home, &["mcp", "test", "de"]), ["demo"]);
    assert_eq!(offered(&home, &["mcp", "call", "de"]), ["demo"]);
    assert_eq!(offered(&home, &["mcp", "remove", "de"]), [""; 0]);
}

#[test]
fn names_come_from_configuration_and_caches_and_nothing_is_started() {
    let home = home();
    assert_eq!(
        offered(&home, &["mcp", "test", "git"]),
        ["github", "gitlab"]
    );
    let tools = ["github.create_issue", "github.list_issues"];
    assert_eq!(offered(&home, &["mcp", "call", "github."])[..2], tools);
    assert_eq!(
        offered(&home, &["mcp", "tools", "github.c"]),
        ["github.create_issue"]
    );
    // Nothing is known of its tools, and it is not started to learn of them.
    assert_eq!(offered(&home, &["mcp", "call", "oth"]), ["other"]);
    let registered = offered(&home, &["mcp", "call", "mcp_github_l"]);
    assert!(
        registered.contains(&"mcp_github_list_issues".to_owned()),
        "{registered:?}"
    );
    assert_eq!(offered(&home, &["--profile", "w"]), ["work"]);
    assert_eq!(
        offered(&home, &["-p", "work", "mcp", "test", "git"]),
        [""; 0]
    );
    assert_eq!(
        offered(&home, &["mcp", "add", "x", "--preset", "co"]),
        ["codex"]
    );
    assert!(offered(&home, &["mcp", "install", "file"]).contains(&"filesystem".to_owned()));
    assert!(offered(&home, &["mcp", "res"]).contains(&"resources".to_owned()));
    assert_eq!(offered(&home, &["tenant", "get", "x"]), [""; 0]);
}

#[test]
fn tools_that_only_a_running_process_knows_are_offered_too() {
    let mut kit = entry(&with_tools(&["one", "two"]));
    // What a command gives is not looked up to complete a line, so the cache cannot be found.
    kit["env"] = json!({"X": "${cmd:echo x}"});
    let home = TestHome::with_servers(&[("kit", kit)]);
    let _up = home.up(&["kit: ready"]);
    let found = offered(&home, &["mcp", "call", "kit."]);
    assert_eq!(found, ["kit.one", "kit.two"]);
}

#[test]
fn jobs_are_offered() {
    let home = home();
    let job = [
        "cron",
        "create",
        "every 1h",
        "Look around",
        "--name",
        "patrol",
        "--json",
    ];
    let id = home.run(&job).ok().json()["job"]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let found = offered(&home, &["cron", "pause", &id[..2]]);
    assert_eq!(found, [id]);
}
