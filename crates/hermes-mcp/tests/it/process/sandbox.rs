//! Servers that are confined: what they reach, what they do not, and what is said about it.

use std::{
    net::TcpListener,
    os::unix::net::UnixListener,
    path::{Path, PathBuf},
};

use hermes_mcp::{
    LinkStatus,
    process::sandbox::{NetworkAccess, SandboxSupport},
};
use hermes_testkit::{Behaviour, TemporaryHome, Tool};
use serde_json::{Value, json};

use crate::setup::{Setup, stdio, with_neighbour};

/// Whether this kernel can do what these tests are about.
pub(crate) fn can_confine() -> bool {
    let support = SandboxSupport::detect();
    let can = support.landlock.is_some() && support.seccomp;
    if !can {
        println!("SKIPPED: {support:?} is not enough to confine a process");
    }
    can
}

/// A home with directories and a file in each.
struct SandboxFixture {
    home: TemporaryHome,
}

impl SandboxFixture {
    fn new() -> Self {
        let home = TemporaryHome::new();
        for name in ["inside", "work", "outside"] {
            let directory = home.path().join(name);
            std::fs::create_dir(&directory).unwrap();
            std::fs::write(directory.join("file"), format!("from {name}")).unwrap();
        }
        Self { home }
    }

    fn file(&self, directory: &str, name: &str) -> String {
        let path = self.home.path().join(directory).join(name);
        path.to_str().unwrap().to_owned()
    }

    /// The entry of a server that may read `inside` and write `work`.
    fn server(&self, mut sandbox: Value) -> Value {
        let path = |name: &str| self.home.path().join(name);
        sandbox["enabled"] = true.into();
        sandbox["read"] = json!([path("inside")]);
        sandbox["write"] = json!([path("work")]);
        let mut entry = open_server();
        entry["sandbox"] = sandbox;
        entry
    }
}

/// The entry of a server that is not confined.
fn open_server() -> Value {
    let tools = ["reach", "fail", "cwd", "environment"].map(Tool::named);
    stdio(&Behaviour::new().tools(tools))
}

/// What came of one way to something: the server's words, or its error.
async fn reach(setup: &Setup, way: &str, target: &str) -> Result<String, String> {
    let arguments = json!({ "way": way, "target": target });
    let told = setup.call("mcp_s_reach", arguments).await;
    match &told["error"] {
        Value::Null => Ok(told["result"].as_str().unwrap().to_owned()),
        error => Err(error.as_str().unwrap().to_owned()),
    }
}

#[tokio::test]
async fn a_confined_server_reaches_what_is_listed_and_the_rest_is_blamed_on_the_sandbox() {
    if !can_confine() {
        return;
    }
    let ground = SandboxFixture::new();
    let file = |directory: &str| ground.file(directory, "file");
    let (inside, work, outside) = (file("inside"), file("work"), file("outside"));
    let new_inside = ground.file("inside", "new");
    let servers = with_neighbour(json!({ "s": ground.server(json!({})) }));
    let setup = Setup::in_home(ground.home, servers).await;
    setup.assert_ready("s");

    assert_eq!(reach(&setup, "read", &inside).await.unwrap(), "from inside");
    reach(&setup, "write", &work).await.unwrap();
    assert_eq!(std::fs::read_to_string(&work).unwrap(), "written");
    let settings = setup.path("config.yaml");
    for (way, target) in [
        ("read", outside.as_str()),
        ("write", outside.as_str()),
        ("write", new_inside.as_str()),
        ("read", settings.to_str().unwrap()),
        ("read", "/etc/shadow"),
    ] {
        let error = reach(&setup, way, target).await.unwrap_err();
        assert!(
            error.contains("Permission denied"),
            "{way} {target}: {error}"
        );
        assert!(error.contains("`sandbox.read`"), "{way} {target}: {error}");
    }
    assert_eq!(std::fs::read_to_string(&outside).unwrap(), "from outside");
    assert!(!Path::new(&new_inside).exists());

    let error = setup
        .error("mcp_s_fail", json!({ "text": "no such city" }))
        .await;
    assert_eq!(error, "no such city");
    let sandbox = setup.status("s").sandbox.unwrap();
    assert!(sandbox.plan.support.landlock.is_some() && sandbox.warnings.is_empty());
    assert_eq!(sandbox.plan.network, NetworkAccess::Allowed);
    setup.assert_neighbour_is_well().await;
    setup.host.shutdown().await;
}

#[tokio::test]
async fn what_a_confined_server_starts_is_confined_too() {
    if !can_confine() {
        return;
    }
    let ground = SandboxFixture::new();
    let (inside, outside) = (
        ground.file("inside", "file"),
        ground.file("outside", "file"),
    );
    let servers = json!({ "s": ground.server(json!({ "network": "deny" })) });
    let setup = Setup::in_home(ground.home, servers).await;
    setup.assert_ready("s");
    assert_eq!(
        reach(&setup, "child", &inside).await.unwrap(),
        "from inside"
    );
    let error = reach(&setup, "child", &outside).await.unwrap_err();
    assert!(error.contains("Permission denied"), "{error}");
    setup.host.shutdown().await;
}

#[tokio::test]
async fn a_server_without_a_network_makes_no_socket() {
    if !can_confine() {
        return;
    }
    let ground = SandboxFixture::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let socket = ground.file("work", "socket");
    let _door = UnixListener::bind(&socket).unwrap();
    let servers = json!({
        "s": ground.server(json!({ "network": "deny" })),
        "online": ground.server(json!({ "network": "allow" })),
    });
    let setup = Setup::in_home(ground.home, servers).await;
    setup.assert_ready("s");
    setup.assert_ready("online");
    for (way, target) in [
        ("tcp", address.as_str()),
        ("udp", "127.0.0.1:0"),
        ("unix", socket.as_str()),
    ] {
        let error = reach(&setup, way, target).await.unwrap_err();
        assert!(error.contains("Operation not permitted"), "{way}: {error}");
        assert!(error.contains("without a network"), "{way}: {error}");
        let arguments = json!({ "way": way, "target": target });
        let told = setup.call("mcp_online_reach", arguments).await;
        assert!(told["error"].is_null(), "{way}: {told}");
    }
    // Runtimes speak to their own children this way.
    assert_eq!(reach(&setup, "pair", "").await.unwrap(), "made");
    setup.host.shutdown().await;
}

#[tokio::test]
async fn a_server_without_unix_sockets_keeps_the_network_and_pairs() {
    if !can_confine() {
        return;
    }
    let ground = SandboxFixture::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let socket = ground.file("work", "socket");
    let _door = UnixListener::bind(&socket).unwrap();
    let servers = json!({ "s": ground.server(json!({ "unix_sockets": "deny" })) });
    let setup = Setup::in_home(ground.home, servers).await;
    setup.assert_ready("s");
    let error = reach(&setup, "unix", &socket).await.unwrap_err();
    assert!(error.contains("Operation not permitted"), "{error}");
    for (way, target) in [
        ("tcp", address.as_str()),
        ("udp", "127.0.0.1:0"),
        ("pair", ""),
    ] {
        reach(&setup, way, target).await.unwrap();
    }
    let sandbox = setup.status("s").sandbox.unwrap();
    assert!(
        sandbox.to_string().contains("Unix sockets denied"),
        "{sandbox}"
    );
    assert_eq!(sandbox.open_sockets_note(), None);
    setup.host.shutdown().await;
}

#[tokio::test]
async fn a_confined_server_makes_no_user_namespace() {
    if !can_confine() {
        return;
    }
    let ground = SandboxFixture::new();
    let servers = json!({ "s": ground.server(json!({})), "open": open_server() });
    let setup = Setup::in_home(ground.home, servers).await;
    for (call, refusal) in [
        ("unshare", "Operation not permitted"),
        ("clone", "Operation not permitted"),
        ("clone3", "Function not implemented"),
    ] {
        let error = reach(&setup, "namespace", call).await.unwrap_err();
        assert!(error.contains(refusal), "{call}: {error}");
        let arguments = json!({ "way": "namespace", "target": call });
        let error = setup.error("mcp_open_reach", arguments).await;
        assert!(error.contains("Invalid argument"), "{call}: {error}");
    }
    // Processes and threads are made without it.
    reach(&setup, "child", "/proc/self/status").await.unwrap();
    setup.host.shutdown().await;
}

#[tokio::test]
async fn system_calls_that_reach_into_others_are_refused() {
    if !can_confine() {
        return;
    }
    let ground = SandboxFixture::new();
    let servers = json!({ "s": ground.server(json!({})), "open": open_server() });
    let setup = Setup::in_home(ground.home, servers).await;
    let error = reach(&setup, "call", "").await.unwrap_err();
    assert!(error.contains("Operation not permitted"), "{error}");
    let error = setup
        .error("mcp_open_reach", json!({ "way": "call" }))
        .await;
    assert!(error.contains("No such process"), "{error}");
    setup.host.shutdown().await;
}

#[tokio::test]
async fn a_confined_server_has_a_place_for_temporary_files_and_starts_there() {
    if !can_confine() {
        return;
    }
    let ground = SandboxFixture::new();
    let servers = json!({ "s": ground.server(json!({})) });
    let setup = Setup::in_home(ground.home, servers).await;
    let own = setup.path("cache/sandbox/s");
    let text = async |tool: &str| {
        let told = setup.call(tool, json!({})).await;
        told["result"].as_str().unwrap().to_owned()
    };
    let cwd = PathBuf::from(text("mcp_s_cwd").await);
    assert_eq!(cwd, own.canonicalize().unwrap());
    let variables: Value = serde_json::from_str(&text("mcp_s_environment").await).unwrap();
    assert_eq!(variables["TMPDIR"], own.to_str().unwrap());
    let file = own.join("file");
    reach(&setup, "write", file.to_str().unwrap())
        .await
        .unwrap();
    setup.host.shutdown().await;
}

#[tokio::test]
async fn a_server_without_a_sandbox_is_left_alone() {
    let setup = Setup::start(json!({ "s": open_server() })).await;
    let status = reach(&setup, "read", "/proc/self/status").await.unwrap();
    let has = |line: &str| status.lines().any(|found| found == line);
    assert!(has("NoNewPrivs:\t0") && has("Seccomp:\t0"), "{status}");
    assert_eq!(setup.status("s").sandbox, None);
    assert!(!setup.path("cache/sandbox").exists());
    setup.host.shutdown().await;
}

#[tokio::test]
async fn without_support_of_the_kernel_a_server_runs_with_a_warning_unless_that_is_forbidden() {
    let ground = SandboxFixture::new();
    let outside = ground.file("outside", "file");
    let servers = with_neighbour(json!({
        "s": ground.server(json!({ "network": "deny" })),
        "strict": ground.server(json!({ "required": true })),
    }));
    let none = |options: &mut hermes_mcp::HostOptions| {
        options.sandbox_support = Some(SandboxSupport::NONE);
    };
    let setup = Setup::with_options(ground.home, servers, none).await;

    setup.assert_ready("s");
    assert_eq!(
        reach(&setup, "read", &outside).await.unwrap(),
        "from outside"
    );
    let warnings = setup.status("s").warnings;
    assert!(
        warnings.iter().any(|text| text.contains("no Landlock"))
            && warnings.iter().any(|text| text.contains("network is open")),
        "{warnings:?}"
    );
    let strict = setup.status("strict");
    assert_eq!(strict.status, LinkStatus::Invalid);
    let reason = strict.error.unwrap();
    assert!(reason.contains("`sandbox.required`"), "{reason}");
    setup.assert_neighbour_is_well().await;
    setup.host.shutdown().await;
}

#[tokio::test]
async fn a_server_that_cannot_start_in_its_sandbox_is_told_apart_from_a_broken_one() {
    if !can_confine() {
        return;
    }
    let ground = SandboxFixture::new();
    let outside = ground.file("outside", "file");
    let script = ground.file("outside", "server");
    std::fs::write(&script, "#!/bin/sh\n").unwrap();
    let sandbox = json!({ "enabled": true });
    let servers = json!({
        "reads": {
            "command": "/bin/sh",
            "args": ["-c", format!("cat {outside} || exit 1")],
            "sandbox": sandbox,
        },
        "forbidden": { "command": script, "sandbox": sandbox },
    });
    let setup = Setup::in_home(ground.home, servers).await;
    let reason = setup.status("reads").error.unwrap();
    assert!(reason.contains("runs in a sandbox"), "{reason}");
    let reason = setup.status("forbidden").error.unwrap();
    assert!(reason.contains("`sandbox.read`"), "{reason}");
    setup.host.shutdown().await;
}
