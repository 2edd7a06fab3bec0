//! What a process can still do once it has confined itself.

use std::{
    fs,
    os::{fd::AsFd, unix::net::UnixListener},
    path::Path,
    process::{Command, Output, Stdio},
};

use hermes::embedded_hub::runtime::{handover, handover::AgentKeys};
use serde_json::{Value, json};

use super::{HubDir, has_landlock};

/// Runs a shell script as a tenant would run, with this home.
fn run_in(directory: &HubDir, home: &Path, rights: &Value, script: &str) -> Output {
    let socket = directory.0.path().join("agent.sock");
    let _ = fs::remove_file(&socket);
    let listener = UnixListener::bind(&socket).unwrap();
    let keys = AgentKeys::default().into_file().unwrap();
    let handed = handover::send_files(listener.as_fd(), &keys).unwrap();
    let plan = json!({
        "program": "/bin/sh", "arguments": ["-c", script], "home": home,
        "sandbox": {"readable": [], "sockets": []}, "filters_calls": true, "rights": rights,
        "most_processes": null, "niceness": 0, "cgroup": null,
    });
    Command::new(env!("CARGO_BIN_EXE_hermes"))
        .args(["__tenant", &plan.to_string()])
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .current_dir(home)
        .stdin(Stdio::from(handed))
        .output()
        .unwrap()
}

fn text(output: &Output) -> String {
    let both = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&both).into_owned()
}

#[test]
fn a_tenant_reaches_its_home_and_nothing_of_others() {
    if !has_landlock() {
        return;
    }
    let directory = HubDir::new();
    let (mine, other) = (directory.home("a"), directory.home("b"));
    // Root keeps no powers in a sandbox: some of them reach around it.
    let rights = if rustix::process::geteuid().is_root() {
        json!("without_powers")
    } else {
        json!("kept")
    };
    let own = run_in(
        &directory,
        &mine,
        &rights,
        "cat secret.txt && echo new > made.txt && cat made.txt",
    );
    assert_eq!(text(&own), "secret of anew\n");
    let this = std::process::id();
    let closed = [
        format!("cat {}/secret.txt", other.display()),
        format!("ls {}", other.display()),
        format!("echo x > {}/planted.txt", other.display()),
        format!("ln {}/secret.txt link && cat link", other.display()),
        format!("ln -s {}/secret.txt soft && cat soft", other.display()),
        format!("cat {}/hub.db", directory.data().display()),
        format!("cat {}/shares/division1/a.md", directory.data().display()),
        format!("ls {}", directory.data().display()),
        format!("cat /proc/{this}/environ"),
        format!("ls /proc/{this}/root/"),
        format!("kill -0 {this}"),
        "cat /etc/shadow".to_owned(),
        "ls /root".to_owned(),
        "echo x > /tmp/planted-by-a-tenant".to_owned(),
        "mknod device c 1 3".to_owned(),
    ];
    for attempt in closed {
        let output = run_in(&directory, &mine, &rights, &attempt);
        assert!(
            !output.status.success(),
            "`{attempt}` worked: {}",
            text(&output)
        );
    }
    for open in [
        "echo x > /dev/null",
        "head -c1 /dev/urandom > /dev/null",
        "cat /proc/self/stat",
        "ls /usr",
    ] {
        let output = run_in(&directory, &mine, &rights, open);
        assert!(
            output.status.success(),
            "`{open}` failed: {}",
            text(&output)
        );
    }
}

#[test]
fn a_launched_process_has_neither_powers_nor_core_files_nor_other_descriptors() {
    if !has_landlock() || !rustix::process::geteuid().is_root() {
        println!("!!! NOT TESTED: needs Landlock and root !!!");
        return;
    }
    let directory = HubDir::new();
    let home = directory.home("a");
    let script = "grep -E '^(Uid|CapEff|CapPrm|NoNewPrivs)' /proc/self/status; ulimit -c; ls /proc/self/fd | wc -l; \
                  echo fd=$HERMES_API_FD";
    let reduced = text(&run_in(&directory, &home, &json!("without_powers"), script));
    assert!(reduced.contains("CapEff:\t0000000000000000"), "{reduced}");
    assert!(
        reduced.contains("NoNewPrivs:\t1") && reduced.contains("\n0\n"),
        "{reduced}"
    );
    assert!(reduced.contains("fd=3"), "{reduced}");

    std::os::unix::fs::chown(&home, Some(234_567), Some(234_567)).unwrap();
    let own = text(&run_in(&directory, &home, &json!({"own": 234_567}), script));
    assert!(
        own.contains("Uid:\t234567\t234567\t234567\t234567"),
        "{own}"
    );
    assert!(own.contains("CapPrm:\t0000000000000000"), "{own}");
}

#[test]
fn a_tenant_has_its_system_calls_filtered() {
    if !has_landlock() {
        return;
    }
    let directory = HubDir::new();
    let home = directory.home("a");
    let script = "grep -E '^Seccomp:' /proc/self/status; unshare --user true || echo refused";
    let filtered = text(&run_in(&directory, &home, &json!("kept"), script));
    assert!(filtered.contains("Seccomp:\t2"), "{filtered}");
    assert!(
        filtered.contains("Operation not permitted") && filtered.contains("refused"),
        "{filtered}"
    );
}

#[test]
fn the_hidden_mode_refuses_what_is_not_a_plan() {
    let output = Command::new(env!("CARGO_BIN_EXE_hermes"))
        .args(["__tenant", "{}"])
        .output()
        .unwrap();
    assert!(!output.status.success());
    assert!(
        text(&output).contains("hermes gateway run"),
        "{}",
        text(&output)
    );
}
