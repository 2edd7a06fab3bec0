//! The host dies without a word: nothing of its servers outlives it for long.

use std::{
    io::{BufRead, BufReader, Read},
    process::{Command, Stdio},
};

use super::*;

/// How the stand-in host is to end; set only for the process that plays it.
const ROLE: &str = "HERMES_TEST_HOST_ENDS_BY";

/// Five processes a server: a wrapper with a child, a detached one and a detached one that is deaf.
const WRAPPER: &str = r#"
    sleep 300 &
    setsid sleep 300 &
    (setsid sh -c 'trap "" TERM HUP INT; while :; do sleep 1; done' &)
    cat
"#;

/// Not a test of its own: the other tests here run this binary again, as the host that dies.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "plays the host for the other tests"]
async fn act_as_host() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let marked = MarkedProcess(std::env::var(MARK).unwrap());
    let guard = guard();
    let mut children = Vec::new();
    for _ in 0..3 {
        children.push(guard.spawn(marked.script(WRAPPER)).await.unwrap());
    }
    println!("\nready");
    match role.as_str() {
        "panic" => panic!("as asked"),
        "return" => {}
        _ => std::future::pending().await,
    }
    drop(children);
}

/// Starts a host in the given role and returns it when its servers run.
fn host(role: &str, marked: &MarkedProcess) -> std::process::Child {
    let mut host = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "process::host_death::act_as_host"])
        .args(["--ignored", "--nocapture"])
        .env(ROLE, role)
        .env(MARK, &marked.0)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdout = BufReader::new(host.stdout.take().unwrap());
    assert!(stdout.by_ref().lines().any(|line| line.unwrap() == "ready"));
    // It prints more on its way out, and must not fail at that.
    host.stdout = Some(stdout.into_inner());
    host
}

async fn nothing_is_left(marked: &MarkedProcess, ended: Instant) {
    // Five seconds are promised; a busy machine is given more.
    let limit = Duration::from_secs(15).saturating_sub(ended.elapsed());
    let gone = within(limit, || marked.pids().is_empty()).await;
    assert!(gone, "left: {:?}", marked.pids());
}

#[tokio::test]
async fn nothing_outlives_a_host_killed_with_sigkill() {
    let marked = MarkedProcess::new("kill-9");
    let mut host = host("waiting", &marked);
    // Three trees of five or six, and the host.
    assert!(within(TIMEOUT, || marked.pids().len() > 15).await);
    let ended = Instant::now();
    host.kill().unwrap();
    host.wait().unwrap();
    nothing_is_left(&marked, ended).await;
}

#[tokio::test]
async fn nothing_outlives_a_host_that_panics() {
    let marked = MarkedProcess::new("panic");
    let mut host = host("panic", &marked);
    assert!(!host.wait().unwrap().success());
    nothing_is_left(&marked, Instant::now()).await;
}

#[tokio::test]
async fn nothing_outlives_a_host_that_just_returns() {
    let marked = MarkedProcess::new("return");
    let mut host = host("return", &marked);
    assert!(host.wait().unwrap().success());
    nothing_is_left(&marked, Instant::now()).await;
}

#[tokio::test]
async fn nothing_outlives_a_host_killed_together_with_its_guard_or_watchdog() {
    for both in ["guard", "sentry"] {
        let marked = MarkedProcess::new(both);
        let mut host = host("waiting", &marked);
        assert!(within(TIMEOUT, || marked.pids().len() > 15).await);
        let sentry = children(host.id())[0];
        let ended = Instant::now();
        match both {
            "guard" => signal(children(sentry)[0], "KILL"),
            _ => signal(sentry, "KILL"),
        }
        host.kill().unwrap();
        host.wait().unwrap();
        nothing_is_left(&marked, ended).await;
    }
}

/// A host as the server of another one.
async fn nested(outer: &GuardHandle, marked: &MarkedProcess) -> SpawnedServer {
    let own = std::env::current_exe().unwrap();
    let mut request = marked.program(
        own.to_str().unwrap(),
        &["--exact", "process::host_death::act_as_host", "--ignored"],
    );
    request.environment.push((ROLE.into(), "waiting".into()));
    let child = outer.spawn(request).await.unwrap();
    assert!(within(TIMEOUT, || marked.pids().len() > 15).await);
    child
}

#[tokio::test]
async fn a_server_that_is_a_host_itself_leaves_nothing_either() {
    let marked = MarkedProcess::new("nested");
    let outer = guard();
    let child = nested(&outer, &marked).await;
    drop(child.stdin);
    child.process.stop().await.unwrap();
    assert_eq!(marked.pids(), Vec::<u32>::new());
}

#[tokio::test]
async fn a_guard_ends_what_a_killed_guard_below_it_has_left() {
    let marked = MarkedProcess::new("below");
    let outer = guard();
    let child = nested(&outer, &marked).await;
    let host = child.process.pid();
    let sentry = children(host)[0];
    let inner = children(sentry)[0];
    signal(sentry, "KILL");
    signal(inner, "KILL");
    let only_the_host = || marked.pids() == [host];
    assert!(
        within(TIMEOUT, only_the_host).await,
        "left: {:?}",
        marked.pids()
    );
}

#[tokio::test]
async fn a_terminal_s_signals_do_not_reach_guard_and_watchdog() {
    let marked = MarkedProcess::new("signals");
    let guard = guard();
    let child = guard.spawn(marked.program("cat", &[])).await.unwrap();
    let (sentry, guard_pid) = (guard.pid().unwrap(), below_watchdog(&guard));
    for name in ["INT", "TERM", "HUP", "QUIT"] {
        signal(sentry, name);
        signal(guard_pid, name);
    }
    // Signals come before whatever is asked of a process after them.
    let next = guard.spawn(marked.program("cat", &[])).await.unwrap();
    for process in [&child.process, &next.process] {
        assert_eq!(parent(process.pid()), guard_pid);
    }
    assert_eq!(parent(guard_pid), sentry);
}

#[tokio::test]
async fn all_that_was_guarded_dies_with_the_guard() {
    let marked = MarkedProcess::new("unguarded");
    let guard = guard();
    let mut first = guard.spawn(marked.script(WRAPPER)).await.unwrap();
    let second = guard.spawn(marked.program("cat", &[])).await.unwrap();
    assert!(within(TIMEOUT, || marked.pids().len() > 5).await);
    signal(below_watchdog(&guard), "KILL");
    let exit = first.process.exited().await;
    assert_eq!(exit, hermes_mcp::process::ServerExit::Unknown);
    assert!(within(TIMEOUT, || marked.pids().is_empty()).await);
    assert!(first.process.stop().await.is_err());
    assert!(second.process.stop().await.is_err());
}

#[tokio::test]
async fn a_dead_guard_is_replaced() {
    let marked = MarkedProcess::new("replaced");
    let guard = guard();
    let _first = guard.spawn(marked.program("cat", &[])).await.unwrap();
    let old = guard.pid().unwrap();
    signal(below_watchdog(&guard), "KILL");
    let second = guard.spawn(marked.program("cat", &[])).await.unwrap();
    assert_ne!(guard.pid().unwrap(), old);
    drop(second.stdin);
    second.process.stop().await.unwrap();
}

#[tokio::test]
async fn a_killed_watchdog_is_not_missed_as_long_as_the_guard_lives() {
    let marked = MarkedProcess::new("no-sentry");
    let guard = guard();
    let first = guard.spawn(marked.program("cat", &[])).await.unwrap();
    signal(guard.pid().unwrap(), "KILL");
    let second = guard.spawn(marked.program("cat", &[])).await.unwrap();
    assert_eq!(marked.pids().len(), 2);
    for child in [first, second] {
        drop(child.stdin);
        child.process.stop().await.unwrap();
    }
    assert!(marked.pids().is_empty());
}

#[tokio::test]
async fn the_guard_ends_with_its_handle_and_its_last_server() {
    let marked = MarkedProcess::new("handle");
    let guard = guard();
    let child = guard.spawn(marked.program("cat", &[])).await.unwrap();
    let pids = [guard.pid().unwrap(), below_watchdog(&guard)];
    drop(guard);
    drop(child.stdin);
    child.process.stop().await.unwrap();
    let gone = || pids.iter().all(|pid| status(*pid, "State").is_none());
    assert!(within(TIMEOUT, gone).await);
}

#[tokio::test]
async fn commands_end_though_their_owner_was_dead_before_the_guard_began() {
    use hermes_mcp::process::command_marker::{MARKER_VARIABLE, OWNER_VARIABLE};
    let mut owner = std::process::Command::new("true").spawn().unwrap();
    let identity = format!("{}-1", owner.id());
    owner.wait().unwrap();
    let mut command = std::process::Command::new("sleep")
        .arg("600")
        .env(MARKER_VARIABLE, format!("{identity}-0"))
        .spawn()
        .unwrap();
    let (host, guard_end) = std::os::unix::net::UnixStream::pair().unwrap();
    drop(host);
    let mut guard = std::process::Command::new(env!("CARGO_BIN_EXE_hermes-mcp-guard"))
        .env(OWNER_VARIABLE, identity)
        .stdin(std::os::fd::OwnedFd::from(guard_end))
        .spawn()
        .unwrap();
    let ended = tokio::task::spawn_blocking(move || {
        guard.wait().unwrap();
        hermes_testkit::wait_until(TIMEOUT, || command.try_wait().unwrap().is_some())
    });
    assert!(ended.await.unwrap());
}
