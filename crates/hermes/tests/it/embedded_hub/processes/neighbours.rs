//! Two tenants at work side by side: the terminal of one tries every way into the other that a process could have.

use std::{
    fmt::Write,
    os::{linux::net::SocketAddrExt, unix::net::SocketAddr},
};

use super::*;

/// What one tenant tries: a name, and a command that ends well if the way is open.
fn attempts(
    directory: &HubDir,
    neighbour: &TestTenant,
    pid: u32,
    name: &str,
) -> Vec<(&'static str, String)> {
    let (home, data) = (neighbour.home.display(), directory.data());
    let data = data.display();
    let this = std::process::id();
    let connect = |address: &str| {
        format!("python3 -c \"import socket; socket.socket(socket.AF_UNIX).connect({address})\"")
    };
    vec![
        ("read-home", format!("cat {home}/secret.txt")),
        ("list-home", format!("ls {home}")),
        ("read-config", format!("cat {home}/config.yaml")),
        ("write-home", format!("touch {home}/planted")),
        ("link-home", format!("ln {home}/secret.txt hard")),
        (
            "follow-link",
            format!("ln -sf {home}/secret.txt soft && cat soft"),
        ),
        ("move-home", format!("mv {home}/secret.txt .")),
        ("read-hub", format!("cat {data}/hub.db")),
        ("list-hub", format!("ls {data}")),
        ("read-share", format!("cat {data}/shares/division1/a.md")),
        ("probe", format!("kill -0 {pid}")),
        ("signal", format!("kill -STOP {pid}")),
        ("kill", format!("kill -KILL {pid}")),
        ("kill-group", format!("kill -KILL -{pid}")),
        ("kill-hub", format!("kill -0 {this}")),
        ("environment", format!("cat /proc/{pid}/environ")),
        ("memory", format!("head -c 1 /proc/{pid}/mem")),
        ("descriptors", format!("ls /proc/{pid}/fd/")),
        ("root", format!("ls /proc/{pid}/root/")),
        ("working-directory", format!("ls /proc/{pid}/cwd/")),
        ("hub-environment", format!("cat /proc/{this}/environ")),
        ("hub-descriptors", format!("ls /proc/{this}/fd/")),
        ("socket", connect(&format!("'{data}/run/b.sock'"))),
        ("sockets", format!("ls {data}/run")),
        ("abstract-socket", connect(&format!("'\\0{name}'"))),
        (
            "trace",
            format!(
                "python3 -c \"import ctypes,sys; sys.exit(ctypes.CDLL(None).ptrace(16, {pid}, 0, 0) != 0)\""
            ),
        ),
        ("slow-down", format!("renice 19 -p {pid}")),
        ("limits", format!("prlimit --pid {pid} --nofile=1")),
    ]
}

/// The attempts as one script that tells of each whether the way was open.
fn script(attempts: &[(&str, String)]) -> String {
    let mut script = String::new();
    for (name, command) in attempts {
        write!(
            script,
            "if {{ {command}; }} >/dev/null 2>&1; then printf '%s=%s;' open {name}; else printf '%s=%s;' shut {name}; fi; "
        )
        .unwrap();
    }
    script
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_finds_no_way_into_the_neighbours_home_process_or_socket() {
    let means = IsolationSupport::detect();
    if means.landlock.is_none_or(|level| level < 6) || !means.is_root {
        println!(
            "!!! NOT TESTED: needs Landlock 6, which scopes signals and sockets, and root !!!"
        );
        return;
    }
    let directory = HubDir::new();
    let name = format!("hermes-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let _listening = std::os::unix::net::UnixListener::bind_addr(&address).unwrap();
    let neighbour = TestTenant::new(&directory, "b", ModelScript::echo());
    let runtime = runtime(&directory, Isolation::default());
    runtime.start(neighbour.launch()).await.unwrap();
    let theirs = pid(&runtime, &neighbour.id).await;
    assert!(directory.data().join("run/b.sock").exists());
    let attempts = attempts(&directory, &neighbour, theirs, &name);

    let tenant = TestTenant::new(&directory, "a", terminal(&script(&attempts)));
    runtime.start(tenant.launch()).await.unwrap();
    let events = run(&runtime, &tenant.id, "look around").await;
    assert_eq!(last(&events), "run.completed", "{events:?}");
    let told = tenant.tool_results();
    for (name, command) in &attempts {
        assert!(
            told.contains(&format!("shut={name};")),
            "{name} (`{command}`): {told}"
        );
        assert!(
            !told.contains(&format!("open={name};")),
            "{name} (`{command}`): {told}"
        );
    }
    // The neighbour has noticed nothing.
    assert_eq!(pid(&runtime, &neighbour.id).await, theirs);
    assert_eq!(
        last(&run(&runtime, &neighbour.id, "hi").await),
        "run.completed"
    );
    let secret = fs::read_to_string(neighbour.home.join("secret.txt")).unwrap();
    assert_eq!(secret, "secret of b");
    assert!(!neighbour.home.join("planted").exists());
    runtime.close(Duration::from_secs(5)).await;
}

/// Without the sandbox the same ways are open, or the test above would prove nothing.
#[test]
fn the_same_attempts_work_where_nothing_is_confined() {
    let directory = HubDir::new();
    let name = format!("hermes-open-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let _listening = std::os::unix::net::UnixListener::bind_addr(&address).unwrap();
    fs::create_dir(directory.data().join("run")).unwrap();
    let _socket =
        std::os::unix::net::UnixListener::bind(directory.data().join("run/b.sock")).unwrap();
    let neighbour = TestTenant::new(&directory, "b", ModelScript::echo());
    let mut theirs = Command::new("sleep").arg("600").spawn().unwrap();
    let attempts = attempts(&directory, &neighbour, theirs.id(), &name);
    // What would end the neighbour, or take its files, comes to nothing for those after it.
    let harmless: Vec<_> = attempts
        .into_iter()
        .filter(|(name, _)| {
            ![
                "kill",
                "kill-group",
                "signal",
                "move-home",
                "memory",
                "trace",
                "limits",
            ]
            .contains(name)
        })
        .collect();
    let mine = directory.home("a");
    let output = Command::new("sh")
        .args(["-c", &script(&harmless)])
        .current_dir(&mine)
        .output()
        .unwrap();
    theirs.kill().unwrap();
    theirs.wait().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    for (name, command) in harmless {
        assert!(
            told.contains(&format!("open={name};")),
            "{name} (`{command}`): {told}"
        );
    }
}
