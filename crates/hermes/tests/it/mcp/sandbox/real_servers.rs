//! Servers that others wrote, fetched and started by the runners that people use, inside a sandbox.

use std::{fs, path::PathBuf};

use serde_json::{Value, json};

use crate::harness::{
    program::installed,
    program::{CommandOutput, Hermes},
};

/// A home with directories, one server that may read `notes` and write `work`, and nothing else.
struct SandboxHome {
    hermes: Hermes,
}

impl SandboxHome {
    #[expect(clippy::print_stdout, reason = "a test that is skipped says so")]
    fn new() -> Option<Self> {
        let support = hermes_mcp::process::sandbox::SandboxSupport::detect();
        if support.landlock.is_none() || !support.seccomp {
            println!("SKIPPED: {support:?} is not enough to confine a process");
            return None;
        }
        let directory = Self {
            hermes: Hermes::new(),
        };
        for name in ["notes", "work", "private"] {
            fs::create_dir(directory.path(name)).unwrap();
            fs::write(
                directory.path(name).join("note.txt"),
                format!("from {name}"),
            )
            .unwrap();
        }
        Some(directory)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.hermes.user().join(name)
    }

    fn configure(&self, mut server: Value) {
        server["sandbox"] = json!({
            "enabled": true,
            "required": true,
            "read": [self.path("notes")],
            "write": [self.path("work")],
        });
        let config = json!({ "mcp_servers": { "s": server } });
        self.hermes.home.write_config(&config.to_string());
    }

    fn call(&self, tool: &str, arguments: &Value) -> CommandOutput {
        let arguments = arguments.to_string();
        self.hermes.run(&["mcp", "call", "s", tool, &arguments])
    }
}

/// The server refused, and hermes says that the sandbox may be why.
#[track_caller]
fn blames_the_sandbox(ran: CommandOutput) {
    let ran = ran.exits_with(1);
    let all = format!("{}{}", ran.stdout, ran.stderr);
    assert!(all.contains("runs in a sandbox"), "{ran:#?}");
    assert!(all.contains("`sandbox.read`"), "{ran:#?}");
}

#[test]
fn a_server_of_npx_is_confined_with_all_that_npx_needs() {
    let Some(runners) = installed("HERMES_TEST_RUNNERS", "npm") else {
        return;
    };
    let Some(base) = SandboxHome::new() else {
        return;
    };
    let directories = ["notes", "work", "private"].map(|name| base.path(name));
    let mut arguments = vec![json!("-y"), json!(fetched("npx_server"))];
    arguments.extend(directories.iter().map(|directory| json!(directory)));
    base.configure(json!({
        "command": "npx",
        "args": arguments,
        "env": { "npm_config_cache": runners, "npm_config_offline": "true" },
    }));

    let tested = base.hermes.run(&["mcp", "test", "s", "--json"]).ok();
    let sandbox = &tested.json()["sandbox"];
    assert!(sandbox["landlock"].is_number(), "{tested:#?}");
    assert!(
        sandbox["write"]
            .to_string()
            .contains(runners.to_str().unwrap()),
        "{sandbox}"
    );
    let checked = base.hermes.run(&["mcp", "doctor"]);
    assert!(checked.stdout.contains("files by Landlock"), "{checked:#?}");

    let read = |name: &str| {
        let path = base.path(name).join("note.txt");
        base.call("read_text_file", &json!({ "path": path }))
    };
    assert!(read("notes").ok().stdout.contains("from notes"));
    blames_the_sandbox(read("private"));
    let write = |name: &str| {
        let arguments = json!({ "path": base.path(name).join("new.txt"), "content": "new" });
        base.call("write_file", &arguments)
    };
    write("work").ok();
    blames_the_sandbox(write("notes"));
    assert!(!base.path("notes").join("new.txt").exists());
}

#[test]
fn a_server_of_uvx_is_confined_with_all_that_uvx_needs() {
    let Some(uvx) = installed("HERMES_TEST_RUNNERS", "bin/uvx") else {
        return;
    };
    let Some(cache) = installed("HERMES_TEST_RUNNERS", "uv") else {
        return;
    };
    let Some(directory) = SandboxHome::new() else {
        return;
    };
    directory.configure(json!({
        "command": uvx,
        "args": ["--python", "/usr/bin/python3", fetched("uvx_server")],
        "env": { "UV_CACHE_DIR": cache, "UV_OFFLINE": "1" },
    }));
    let told = directory.call("get_current_time", &json!({ "timezone": "UTC" }));
    assert!(told.ok().stdout.contains("UTC"));
}

#[test]
fn a_server_in_python_is_kept_out_and_its_odd_error_is_explained() {
    let Some(git) = installed("HERMES_TEST_VENV", "bin/mcp-server-git") else {
        return;
    };
    let Some(directory) = SandboxHome::new() else {
        return;
    };
    for name in ["work", "private"] {
        let made = std::process::Command::new("git")
            .args(["init", "--quiet"])
            .arg(directory.path(name))
            .status();
        assert!(made.unwrap().success());
    }
    directory.configure(json!({ "command": git }));
    let status =
        |name: &str| directory.call("git_status", &json!({ "repo_path": directory.path(name) }));
    let open = status("work").ok();
    assert!(open.stdout.contains("note.txt"), "{open:#?}");
    // The library that it uses takes a repository that it cannot read for none.
    blames_the_sandbox(status("private"));
}

/// The server that the equipment has fetched for a runner.
fn fetched(name: &str) -> String {
    let versions = include_str!("../../../../../../scripts/versions.sh");
    let line = versions
        .lines()
        .find_map(|line| line.strip_prefix(&format!("{name}=")));
    line.unwrap().to_owned()
}
