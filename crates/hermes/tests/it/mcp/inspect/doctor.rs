//! `hermes mcp doctor`.

use std::fs;

use hermes_testkit::Tool;
use serde_json::{Value, json};

use super::working_server;
use crate::harness::{
    program::{CommandOutput, entry},
    test_home::{TestHome, set_mode},
};

/// The checks with this id, as `(server, level)`.
fn checks(done: &CommandOutput, id: &str) -> Vec<(Value, Value)> {
    let json = done.json();
    let all = json["checks"].as_array().unwrap();
    all.iter()
        .filter(|check| check["id"] == id)
        .map(|check| (check["server"].clone(), check["level"].clone()))
        .collect()
}

fn pair(server: &str, level: &str) -> (Value, Value) {
    (json!(server), json!(level))
}

#[test]
fn a_healthy_home_is_healthy() {
    let home = TestHome::with_servers(&[("one", entry(&working_server()))]);
    let done = home.run(&["mcp", "doctor", "--probe", "--json"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(done.json()["ok"], true);
    assert_eq!(checks(&done, "session"), [pair("one", "ok")]);
    let levels: Vec<Value> = done.json()["checks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|check| check["level"].clone())
        .collect();
    assert!(levels.iter().all(|level| level == "ok"), "{done:?}");
}

#[test]
fn a_text_that_is_not_yaml_is_the_one_thing_to_mend() {
    let home = TestHome::with_servers(&[]);
    home.write_config("mcp_servers: [");
    let done = home.run(&["mcp", "doctor"]);
    assert_eq!(done.code, 1, "{done:?}");
    assert!(done.stdout.contains("fail config"), "{done:?}");
    assert!(done.stdout.contains("line 1"), "{done:?}");
}

#[test]
fn mistakes_in_the_configuration_are_found() {
    let home = TestHome::with_servers(&[
        ("typo", json!({"command": "sh", "arg": []})),
        ("both", json!({"command": "sh", "url": "http://x"})),
        (
            "unset",
            json!({"command": "sh", "env": {"A": "${NOT_SET_ANYWHERE}"}}),
        ),
        (
            "nofile",
            json!({"command": "sh", "env": {"A": "${file:missing}"}}),
        ),
        ("noprogram", json!({"command": "no-such-program-anywhere"})),
        (
            "nofolder",
            json!({"command": "sh", "cwd": "/no/such/folder"}),
        ),
        (
            "off",
            json!({"command": "no-such-program-either", "enabled": false}),
        ),
    ]);
    let done = home.run(&["mcp", "doctor", "--json"]);
    assert_eq!(done.code, 1, "{done:?}");
    assert_eq!(done.json()["ok"], false);
    assert_eq!(checks(&done, "keys"), [(Value::Null, json!("warn"))]);
    assert_eq!(checks(&done, "entry"), [pair("both", "fail")]);
    assert_eq!(
        checks(&done, "reference"),
        [pair("unset", "warn"), pair("nofile", "fail")]
    );
    let programs = checks(&done, "program");
    assert!(
        programs.contains(&pair("noprogram", "fail")),
        "{programs:?}"
    );
    assert!(
        !programs.iter().any(|(server, _)| server == "off"),
        "{programs:?}"
    );
    assert_eq!(checks(&done, "cwd"), [pair("nofolder", "fail")]);
}

#[test]
fn a_package_runner_without_its_runtime_is_found() {
    let home = TestHome::with_servers(&[]);
    let bin = home.beside("bin");
    fs::create_dir(&bin).unwrap();
    for program in ["uvx", "sh"] {
        fs::write(bin.join(program), "#!/bin/sh\n").unwrap();
        set_mode(&bin.join(program), 0o755);
    }
    let path = json!({"PATH": bin});
    home.write_servers(&[("one", json!({"command": "uvx", "env": path}))]);
    let done = home.run(&["mcp", "doctor", "--json"]);
    assert_eq!(
        checks(&done, "program"),
        [pair("one", "ok"), pair("one", "fail")],
        "{done:?}"
    );
    assert!(done.stdout.contains("docs.astral.sh/uv"), "{done:?}");
}

#[test]
fn files_that_others_may_read_are_found() {
    let home = TestHome::with_servers(&[("one", entry(&working_server()))]);
    set_mode(&home.config(), 0o644);
    let only_config = home.run(&["mcp", "doctor", "--json"]);
    assert_eq!(only_config.code, 0, "{only_config:?}");
    assert_eq!(checks(&only_config, "mode"), [(Value::Null, json!("warn"))]);

    let tokens = home.path().join("mcp-tokens");
    fs::create_dir(&tokens).unwrap();
    set_mode(&tokens, 0o700);
    for file in [home.path().join(".env"), tokens.join("one.json")] {
        fs::write(&file, "").unwrap();
        set_mode(&file, 0o640);
    }
    let done = home.run(&["mcp", "doctor", "--json"]);
    assert_eq!(done.code, 1);
    assert_eq!(checks(&done, "mode").len(), 3);
    assert!(done.stdout.contains("chmod 600"), "{done:?}");
}

#[test]
fn filters_and_names_are_checked_against_what_was_offered_last() {
    let long = "a_rather_long_name_of_a_tool_that_goes_on_and_on_and_on_for_ever";
    let tools = ["list", "a.b", "a-b", long].map(Tool::named);
    let mut filtered = entry(&working_server().tools(tools));
    filtered["tools"] = json!({"exclude": ["lsit", "list"]});
    let home = TestHome::with_servers(&[("one", filtered)]);
    let before = home.run(&["mcp", "doctor", "--json"]);
    assert_eq!(checks(&before, "lists"), [pair("one", "ok")]);
    assert!(checks(&before, "filter").is_empty());

    assert_eq!(home.run(&["mcp", "test", "one"]).code, 0);
    let done = home.run(&["mcp", "doctor", "--json"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(checks(&done, "filter"), [pair("one", "warn")]);
    assert!(done.stdout.contains("`lsit`"), "{done:?}");
    assert_eq!(
        checks(&done, "name"),
        [pair("one", "warn"), pair("one", "warn")],
        "{done:?}"
    );
}

#[test]
fn a_socket_that_nobody_answers_is_found_and_cleared() {
    let home = TestHome::with_servers(&[("one", entry(&working_server()))]);
    let mut up = home.up(&["one: ready"]);
    up.kill();
    let socket = home.path().join(format!("run/host-{}.sock", up.pid()));
    assert!(socket.exists());
    let done = home.run(&["mcp", "doctor", "--json"]);
    assert_eq!(checks(&done, "socket"), [(Value::Null, json!("warn"))]);
    home.run(&["mcp", "status"]);
    assert!(!socket.exists());
}

#[test]
fn a_server_that_does_not_answer_fails_the_probe() {
    let silent = json!({"command": "sh", "args": ["-c", "exit 7"], "connect_timeout": 5});
    let home = TestHome::with_servers(&[("one", entry(&working_server())), ("two", silent)]);
    let done = home.run(&["mcp", "doctor", "--probe", "--json"]);
    assert_eq!(done.code, 1, "{done:?}");
    assert_eq!(
        checks(&done, "session"),
        [pair("one", "ok"), pair("two", "fail")]
    );
    assert!(done.stdout.contains("exit code 7"), "{done:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn what_confines_a_server_is_told_by_test_and_doctor() {
    use hermes_mcp::process::sandbox::SandboxSupport;

    let support = SandboxSupport::detect();
    let Some(version) = support.landlock.filter(|_| support.seccomp) else {
        println!("SKIPPED: {support:?} is not enough to confine a process");
        return;
    };
    let mut confined = entry(&working_server());
    confined["sandbox"] = json!({"enabled": true, "network": "deny", "required": true});
    let home = TestHome::with_servers(&[("one", confined)]);
    let policy = format!("files by Landlock {version}, system calls by seccomp, network denied");

    let done = home.run(&["mcp", "test", "one"]);
    assert!(
        done.stdout.contains(&format!("sandbox: {policy}")),
        "{done:?}"
    );
    assert!(done.stdout.contains("writes "), "{done:?}");
    let done = home.run(&["mcp", "test", "one", "--json"]);
    let sandbox = &done.json()["sandbox"];
    assert_eq!(sandbox["network"], "denied");
    assert_eq!(sandbox["landlock"], version);
    let done = home.run(&["mcp", "doctor"]);
    assert!(done.stdout.contains(&policy), "{done:?}");

    let mut online = entry(&working_server());
    online["sandbox"] = json!({"enabled": true});
    let home = TestHome::with_servers(&[("one", online)]);
    for command in ["test one", "doctor"] {
        let words = command.split(' ');
        let done = home.run(&["mcp"].into_iter().chain(words).collect::<Vec<_>>());
        let closes = "`sandbox.unix_sockets: deny` closes them";
        assert!(version >= 9 || done.stdout.contains(closes), "{done:?}");
    }
}
