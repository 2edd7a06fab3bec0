//! The commands that tell about servers: `status`, `ps`, `reload`, `doctor`, `demo`, `logs`.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    process::Stdio,
    time::Duration,
};

use hermes_testkit::{Behaviour, Tool};
use serde_json::{Value, json};

use crate::{
    program::{Ran, entry, run},
    running::{TestHome, assert_gone, is_running, pids_in, set_mode, wait_until},
};

fn well() -> Behaviour {
    Behaviour::new()
}

mod status {
    use super::*;

    #[test]
    fn without_a_process_it_tells_what_configuration_and_cache_know() {
        let home = TestHome::with_servers(&[
            ("seen", entry(&well())),
            ("new", entry(&well().era(hermes_testkit::Era::Legacy))),
            ("off", json!({"command": "x", "enabled": false})),
            ("bad", json!({})),
        ]);
        assert_eq!(home.run(&["mcp", "test", "seen"]).code, 0);
        let status = home.run(&["mcp", "status", "--json"]);
        assert_eq!(status.code, 0, "{status:?}");
        assert_eq!(status.json()["processes"], json!([]));
        let seen = status.server("seen");
        assert_eq!(
            (&seen["status"], &seen["era"]),
            (&json!("stopped"), &json!("stateless"))
        );
        assert!(seen["tools"].as_u64().unwrap() > 0, "{seen}");
        assert_eq!(status.server("new")["tools"], 0);
        assert_eq!(status.server("off")["status"], "disabled");
        assert_eq!(status.server("bad")["status"], "invalid");
    }

    #[test]
    fn with_a_process_it_is_live() {
        let home = TestHome::with_servers(&[("one", entry(&well()))]);
        let up = home.up(&["one: ready"]);
        let status = home.run(&["mcp", "status", "--json"]);
        assert_eq!(status.json()["processes"], json!([up.pid()]));
        let one = status.server("one");
        assert_eq!(one["status"], "ready");
        assert!(one["pid"].is_u64(), "{one}");
        let table = home.run(&["mcp", "status"]).stdout;
        assert!(table.contains("one   stdio      ready"), "{table}");
    }

    #[test]
    fn one_server_is_told_in_full_and_an_unknown_one_is_not_found() {
        let home = TestHome::with_servers(&[("one", entry(&well()))]);
        let _up = home.up(&["one: ready"]);
        let one = home.run(&["mcp", "status", "one"]).stdout;
        assert!(one.starts_with("one: ready\n"), "{one}");
        assert!(one.contains("testkit"), "{one}");
        assert_eq!(home.run(&["mcp", "status", "two"]).code, 3);
    }

    #[test]
    fn a_broken_file_hides_no_running_server() {
        let home = TestHome::with_servers(&[("one", entry(&well()))]);
        let _up = home.up(&["one: ready"]);
        home.write_config("mcp_servers: [");
        let status = home.run(&["mcp", "status", "--json"]);
        assert_eq!(status.code, 0, "{status:?}");
        assert_eq!(status.server("one")["status"], "ready");
        assert!(status.stderr.contains("line 1"), "{status:?}");
    }

    #[test]
    fn looking_runs_no_command() {
        let home = TestHome::with_servers(&[]);
        let trace = home.beside("trace");
        let command = format!("${{cmd:touch {}}}", trace.display());
        home.write_servers(&[("one", json!({"command": "x", "args": [command]}))]);
        assert_eq!(home.run(&["mcp", "status"]).code, 0);
        assert!(!trace.exists());
    }

    #[test]
    fn mcp_alone_shows_states_and_verbs() {
        let home = TestHome::with_servers(&[("one", entry(&well()))]);
        let done = home.run(&["mcp"]);
        assert_eq!(done.code, 0, "{done:?}");
        assert!(done.stdout.contains("one   stdio      stopped"), "{done:?}");
        assert!(
            done.stdout.contains("doctor     Look for trouble"),
            "{done:?}"
        );
        assert!(home.run(&["mcp", "--json"]).json()["servers"].is_array());
    }
}

mod processes {
    use super::*;

    #[test]
    fn ps_lists_what_runs_and_ends_it() {
        let home = TestHome::with_servers(&[]);
        let pids = home.beside("pids");
        let server = well().process(|process| process.pid_file = Some(pids.clone()));
        home.write_servers(&[("one", entry(&server))]);
        assert_eq!(
            home.run(&["mcp", "ps", "--json"]).json()["processes"],
            json!([])
        );

        let up = home.up(&["one: ready"]);
        let listed = home.run(&["mcp", "ps", "--json"]).json();
        let process = &listed["processes"][0];
        assert_eq!(process["server"], "one");
        assert_eq!(process["state"], "running");
        assert_eq!(process["host_pid"], up.pid());
        assert!(process["rss_bytes"].as_u64().unwrap() > 0);
        let first = pids_in(&pids)[0];
        assert_eq!(process["pid"], first);
        assert!(home.run(&["mcp", "ps"]).stdout.contains("MiB"));

        let killed = home.run(&["mcp", "ps", "--kill", "one", "--json"]);
        assert_eq!(killed.code, 0, "{killed:?}");
        assert_eq!(killed.json()["killed"], json!([first]));
        assert!(
            killed.stderr.contains("hermes mcp disable one"),
            "{killed:?}"
        );
        assert_gone(&[first], Duration::from_secs(1));
        wait_until("its host starts it again", || pids_in(&pids).len() == 2);
        assert!(is_running(pids_in(&pids)[1]));
        assert_eq!(home.run(&["mcp", "ps", "--kill", "two"]).code, 3);
    }

    #[test]
    fn reload_without_a_process_does_nothing() {
        let home = TestHome::with_servers(&[("one", entry(&well()))]);
        let done = home.run(&["mcp", "reload", "--json"]);
        assert_eq!(done.code, 0, "{done:?}");
        assert_eq!(
            done.json(),
            json!({
                "ok": true, "processes": [], "added": [], "removed": [], "restarted": [],
                "unchanged": [], "retried": [],
            })
        );
        assert!(done.stderr.contains("No hermes process runs"), "{done:?}");
    }

    #[test]
    fn reload_tells_what_it_did_and_refuses_a_broken_file() {
        let config = |servers: Value| {
            let auto = json!({"auto_reload_on_config_change": false});
            json!({"mcp": auto, "mcp_servers": servers}).to_string()
        };
        let home = TestHome::with_servers(&[]);
        let (one, other) = (entry(&well()), entry(&well().without_prompts()));
        home.write_config(&config(json!({"a": one, "b": one, "c": one})));
        let up = home.up(&["a: ready", "b: ready", "c: ready"]);
        home.write_config(&config(json!({"a": one, "b": other, "d": one})));
        let done = home.run(&["mcp", "reload", "--json"]);
        assert_eq!(done.code, 0, "{done:?}");
        assert_eq!(
            done.json(),
            json!({
                "ok": true, "processes": [up.pid()], "added": ["d"], "removed": ["c"],
                "restarted": ["b"], "unchanged": ["a"], "retried": [],
            })
        );
        assert_eq!(home.run(&["mcp", "reload", "nobody"]).code, 3);
        home.write_config("mcp_servers: [");
        assert_eq!(home.run(&["mcp", "reload"]).code, 2);
        assert_eq!(
            home.run(&["mcp", "status", "--json"]).server("a")["status"],
            "ready"
        );
    }
}

mod doctor {
    use super::*;

    /// The checks with this id, as `(server, level)`.
    fn checks(done: &Ran, id: &str) -> Vec<(Value, Value)> {
        let json = done.json();
        let all = json["checks"].as_array().expect("a list of checks");
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
        let home = TestHome::with_servers(&[("one", entry(&well()))]);
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
    fn a_text_that_is_no_yaml_is_the_one_thing_to_mend() {
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
        let home = TestHome::with_servers(&[("one", entry(&well()))]);
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
        let mut filtered = entry(&well().tools(tools));
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
        let home = TestHome::with_servers(&[("one", entry(&well()))]);
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
        let home = TestHome::with_servers(&[("one", entry(&well())), ("two", silent)]);
        let done = home.run(&["mcp", "doctor", "--probe", "--json"]);
        assert_eq!(done.code, 1, "{done:?}");
        assert_eq!(
            checks(&done, "session"),
            [pair("one", "ok"), pair("two", "fail")]
        );
        assert!(done.stdout.contains("exit code 7"), "{done:?}");
    }
}

mod demo {
    use super::*;

    #[test]
    fn it_is_a_server_like_any_other() {
        let home = TestHome::with_servers(&[(
            "demo",
            json!({"command": env!("CARGO_BIN_EXE_hermes"), "args": ["mcp", "demo"]}),
        )]);
        let sum = home.run(&[
            "mcp", "call", "demo.add", "--arg", "a=2", "--arg", "b=40", "--json",
        ]);
        assert_eq!(sum.code, 0, "{sum:?}");
        assert!(sum.stdout.contains("42"), "{sum:?}");
    }

    #[test]
    fn it_ends_when_its_client_goes() {
        let mut child = TestHome::fresh()
            .command(&["mcp", "demo"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let hello = json!({
            "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
                "protocolVersion": "2025-11-25", "capabilities": {},
                "clientInfo": {"name": "test", "version": "1"},
            },
        });
        writeln!(stdin, "{hello}").unwrap();
        let mut answer = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut answer).unwrap();
        assert!(answer.contains("hermes-demo"), "{answer}");
        drop(stdin);
        assert!(child.wait().unwrap().success());
        let mut rest = String::new();
        stdout.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "");
    }
}

mod logs {
    use super::*;

    fn home_with_log(lines: usize) -> TestHome {
        let home = TestHome::with_servers(&[]);
        let logs = home.path().join("logs");
        fs::create_dir(&logs).unwrap();
        let text: String = (1..=lines).map(|line| format!("line {line}\n")).collect();
        fs::write(logs.join("mcp-stderr.log"), text).unwrap();
        home
    }

    #[test]
    fn the_last_lines_are_shown() {
        let home = home_with_log(200);
        let shown = home.run(&["logs"]).stdout;
        assert_eq!(shown.lines().count(), 100);
        assert!(shown.ends_with("line 200\n"));
        assert_eq!(
            home.run(&["logs", "mcp", "-n", "2"]).stdout,
            "line 199\nline 200\n"
        );
        let json = home.run(&["logs", "-n", "1", "--json"]).json();
        assert_eq!(json["lines"], json!(["line 200"]));
    }

    #[test]
    fn a_log_that_is_not_there_yet_is_no_error() {
        let done = TestHome::with_servers(&[]).run(&["logs", "hermes"]);
        assert_eq!((done.code, done.stdout.as_str()), (0, ""), "{done:?}");
        assert!(done.stderr.contains("nothing is logged yet"), "{done:?}");
    }

    #[test]
    fn what_a_server_prints_is_there() {
        let noisy = well().process(|process| process.stderr_flood = 300);
        let home = TestHome::with_servers(&[("one", entry(&noisy))]);
        assert_eq!(home.run(&["mcp", "test", "one"]).code, 0);
        assert!(home.run(&["logs", "mcp"]).stdout.contains("[one]"));
    }

    #[test]
    fn following_shows_new_lines() {
        let home = home_with_log(1);
        let mut follow = home.start(&["logs", "--follow"]);
        follow.wait_for("line 1");
        let path = home.path().join("logs/mcp-stderr.log");
        let mut log = fs::OpenOptions::new().append(true).open(path).unwrap();
        writeln!(log, "line 2").unwrap();
        follow.wait_for("line 2");
    }

    #[test]
    fn following_ends_with_its_reader() {
        let home = home_with_log(1);
        let mut child = home
            .command(&["logs", "--follow"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let path = home.path().join("logs/mcp-stderr.log");
        let mut log = fs::OpenOptions::new().append(true).open(path).unwrap();
        wait_until("it ends", || {
            writeln!(log, "more").unwrap();
            child.try_wait().unwrap().is_some()
        });
    }

    #[test]
    fn short_commands_log_only_if_asked() {
        let home = TestHome::with_servers(&[("one", entry(&well()))]);
        let quiet = home.run(&["mcp", "test", "one"]);
        assert_eq!(quiet.stderr, "");
        assert!(!home.path().join("logs/hermes.log").exists());

        let mut command = home.command(&["mcp", "test", "one"]);
        command.env("HERMES_LOG", "info");
        let asked = run(command, "");
        assert!(asked.stderr.contains("to=ready"), "{asked:?}");
        assert!(!asked.stdout.contains("to=ready"), "{asked:?}");

        let mut command = home.command(&["mcp", "list"]);
        command.env("HERMES_LOG", "hermes=loud");
        assert_eq!(run(command, "").code, 2);
    }
}
