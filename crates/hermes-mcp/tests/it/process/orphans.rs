//! Whatever ends a server, nothing of its tree is left.

use std::{path::Path, time::Duration};

use hermes_config::{Home, Settings};
use hermes_mcp::{Host, HostOptions, LinkStatus, process::records};
use hermes_testkit::{
    Behaviour, DiscoverBehaviour, Era, Grandchild, TemporaryHome, descendants, eventually,
    process_exists, zombies,
};
use serde_json::json;

use crate::test_host::{TIMEOUT, TestHost, config, guard, listen, pids, stdio, with};

/// A server with an attached and a detached grandchild; all three pids go to `file`.
fn family(file: &Path) -> Behaviour {
    Behaviour::new().process(|process| {
        process.grandchildren = vec![Grandchild::Attached, Grandchild::Detached];
        process.pid_file = Some(file.to_owned());
    })
}

/// The same, deaf to all but SIGKILL.
fn stubborn_family(file: &Path) -> Behaviour {
    family(file).process(|process| {
        process.ignore_sigterm = true;
        process.ignore_stdin_close = true;
    })
}

/// Waits until a family of three has been started and returns its pids.
async fn started(file: &Path) -> Vec<u32> {
    assert!(eventually(TIMEOUT, || pids(file).len() >= 3).await);
    pids(file)
}

/// What `mcp ps` would show.
fn recorded_processes(host: &TestHost) -> Vec<records::ProcessRecord> {
    records::list_processes(&host.home.path().join("run"))
}

/// Whether nothing is left of them; what ends in the background gets its time.
async fn are_gone(pids: &[u32]) -> bool {
    let gone = || !pids.iter().any(|pid| process_exists(*pid));
    eventually(Duration::from_secs(15), gone).await
}

#[tokio::test]
async fn shutdown_returns_when_every_tree_is_gone() {
    let directory = tempfile::tempdir().unwrap();
    let (polite, stubborn) = (directory.path().join("a"), directory.path().join("b"));
    let host = TestHost::start(&[
        ("polite", stdio(&family(&polite))),
        ("stubborn", stdio(&stubborn_family(&stubborn))),
    ])
    .await;
    host.ready("polite").await;
    host.ready("stubborn").await;
    let later = [false, true].map(|detach| json!({ "detach": detach }));
    let mut all = started(&polite).await;
    all.extend(started(&stubborn).await);
    for arguments in later {
        let pid = host.text("polite", "spawn_grandchild", arguments).await;
        all.push(pid.parse().unwrap());
    }
    assert_eq!(all.len(), 8);
    assert!(all.iter().all(|pid| process_exists(*pid)));

    host.host.shutdown().await;
    let left: Vec<_> = all.iter().filter(|pid| process_exists(**pid)).collect();
    assert!(left.is_empty(), "{left:?}");
    assert!(zombies(std::process::id()).is_empty());
}

#[tokio::test]
async fn a_removed_server_takes_its_tree_along() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pids");
    let host = TestHost::start(&[("server", stdio(&family(&file)))]).await;
    host.ready("server").await;
    let tree = started(&file).await;
    let report = host.reload(&[]).await;
    assert_eq!(report.removed, ["server"]);
    assert!(!tree.iter().any(|pid| process_exists(*pid)));
}

#[tokio::test]
async fn a_failed_handshake_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pids");
    let hopeless = family(&file)
        .era(Era::Legacy)
        .discover(DiscoverBehaviour::Silent);
    let entry = with(stdio(&hopeless), "protocol", "stateless");
    let host = TestHost::start(&[("server", with(entry, "connect_timeout", 2))]).await;
    host.until("server", |link| link.error.is_some()).await;
    let tree = started(&file).await[..3].to_vec();
    assert!(are_gone(&tree).await);
}

#[tokio::test]
async fn a_handshake_cut_short_by_its_time_limit_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pids");
    let stuck = stubborn_family(&file).process(|process| process.start_delay_ms = 600_000);
    let entry = with(stdio(&stuck), "connect_timeout", 2);
    let host = TestHost::start(&[("server", entry)]).await;
    let tree = started(&file).await;
    host.reaches("server", LinkStatus::Reconnecting).await;
    assert!(are_gone(&tree[..3]).await);
    let recorded = recorded_processes(&host);
    assert!(
        !recorded
            .iter()
            .any(|record| tree[..3].contains(&record.pid))
    );
}

#[tokio::test]
async fn an_attempt_that_is_no_longer_wanted_takes_its_tree_along() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pids");
    let stuck = family(&file).process(|process| process.start_delay_ms = 600_000);
    let host = TestHost::start(&[("server", stdio(&stuck))]).await;
    let tree = started(&file).await;
    assert_eq!(host.reload(&[]).await.removed, ["server"]);
    assert!(
        !tree.iter().any(|pid| process_exists(*pid)),
        "after a reload"
    );
    assert!(recorded_processes(&host).is_empty());

    std::fs::remove_file(&file).unwrap();
    host.reload(&[("server", stdio(&stuck))]).await;
    let tree = started(&file).await;
    host.host.shutdown().await;
    assert!(
        !tree.iter().any(|pid| process_exists(*pid)),
        "after a shutdown"
    );
}

#[tokio::test]
async fn a_host_dropped_while_it_connects_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pids");
    let stuck = family(&file).process(|process| process.start_delay_ms = 600_000);
    let host = TestHost::start(&[("server", stdio(&stuck))]).await;
    let tree = started(&file).await;
    assert_eq!(host.status("server").status, LinkStatus::Connecting);
    drop(host);
    assert!(are_gone(&tree).await);
}

#[tokio::test]
async fn a_host_dropped_while_it_is_connected_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pids");
    let host = TestHost::start(&[("server", stdio(&stubborn_family(&file)))]).await;
    host.ready("server").await;
    let tree = started(&file).await;
    drop(host);
    assert!(are_gone(&tree).await);
    let guard_is_gone = || descendants(std::process::id()).is_empty();
    assert!(eventually(TIMEOUT, guard_is_gone).await);
}

#[test]
fn a_runtime_that_ends_under_its_host_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pids");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (host, tree) = runtime.block_on(async {
        let host = TestHost::start(&[("server", stdio(&family(&file)))]).await;
        host.ready("server").await;
        (host, started(&file).await)
    });
    drop(runtime);
    let gone = || !tree.iter().any(|pid| process_exists(*pid));
    assert!(hermes_testkit::wait_until(Duration::from_secs(15), gone));
    drop(host);
}

#[tokio::test]
async fn a_panic_in_a_connection_takes_its_tree_along_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pids");
    let host = TestHost::start(&[("healthy", stdio(&Behaviour::new()))]).await;
    host.ready("healthy").await;
    let tree = {
        // The connection's own task logs, so it is there that this panics.
        let _listening = listen(|event| assert!(event["to"] != "ready", "on purpose"));
        host.reload(&[
            ("healthy", stdio(&Behaviour::new())),
            ("unlucky", stdio(&stubborn_family(&file))),
        ])
        .await;
        let tree = started(&file).await;
        assert!(are_gone(&tree).await);
        tree
    };
    assert_eq!(tree.len(), 3, "it is not started again");
    assert_eq!(host.status("unlucky").status, LinkStatus::Stopped);
    assert_eq!(
        host.text("healthy", "echo", json!({ "text": "a" })).await,
        "a"
    );
    host.host.shutdown().await;
}

/// The home of the host that is to be killed; set only for the process that plays it.
const DOOMED_HOME: &str = "HERMES_TEST_DOOMED_HOME";

/// Not a test of its own: the next one runs this binary again, as the host that is killed.
#[tokio::test]
#[ignore = "plays the host for another test"]
async fn act_as_doomed_host() {
    let Some(home) = std::env::var_os(DOOMED_HOME) else {
        return;
    };
    let home = Home::at(home);
    let settings = Settings::load(&home).unwrap();
    let _host = Host::start(HostOptions::new(home, guard()), &settings).await;
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn nothing_outlives_a_host_that_is_killed_and_the_next_one_starts_clean() {
    let home = TemporaryHome::new();
    let file = home.path().join("pids");
    let servers = [("server", stdio(&stubborn_family(&file)))];
    home.write_config(&config(&servers));
    let mut doomed = std::process::Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "process::orphans::act_as_doomed_host",
            "--ignored",
        ])
        .env(DOOMED_HOME, home.path())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let tree = started(&file).await;
    doomed.kill().unwrap();
    doomed.wait().unwrap();
    let gone = || !tree.iter().any(|pid| process_exists(*pid));
    // Five seconds are promised; a busy machine is given more.
    assert!(eventually(Duration::from_secs(15), gone).await);

    let host = TestHost::start_in(home, &servers).await;
    host.ready("server").await;
    let only_ours = || {
        let pids: Vec<u32> = recorded_processes(&host).iter().map(|r| r.pid).collect();
        pids == [host.pid("server")]
    };
    assert!(eventually(TIMEOUT, only_ours).await);
}

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_restarts_leave_one_child_and_no_trace() {
    let entry = |number: usize| {
        let entry = stdio(&Behaviour::new());
        [("server", with(entry, "env", json!({ "NUMBER": number })))]
    };
    let host = TestHost::start(&entry(0)).await;
    host.ready("server").await;
    host.remembered("server").await;
    // It is opened a little later, and stays open.
    let log = host.home.path().join("logs/mcp-stderr.log");
    assert!(eventually(TIMEOUT, || log.exists()).await);
    let before = open_files();
    let mut seen = std::collections::HashSet::from([host.pid("server")]);
    for number in 1..=100 {
        let report = host.reload(&entry(number)).await;
        assert_eq!(report.restarted, ["server"]);
        host.ready("server").await;
        seen.insert(host.pid("server"));
    }
    let alive: Vec<_> = seen.iter().filter(|pid| process_exists(**pid)).collect();
    assert_eq!(alive, [&host.pid("server")]);
    // The watchdog, the guard, the server.
    let three_left = || descendants(std::process::id()).len() == 3;
    assert!(eventually(TIMEOUT, three_left).await);
    assert!(zombies(std::process::id()).is_empty());
    for process in descendants(std::process::id()) {
        assert!(zombies(process).is_empty());
    }
    // A file that was being written when they were counted is closed by now.
    let files = || open_files() <= before;
    assert!(
        eventually(TIMEOUT, files).await,
        "{before} -> {}",
        open_files()
    );
}
