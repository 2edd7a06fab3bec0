//! Every way a server ends, and that its tree ends with it.

use hermes_mcp::process::ServerExit;
use tokio::io::{AsyncBufReadExt, BufReader};

use super::*;

/// Children in the group, in a session of their own, and forked off twice; some deaf to SIGTERM.
const FAMILY: &str = r#"
    sleep 300 &
    sh -c 'trap "" TERM; sleep 300 & wait' &
    setsid sleep 300 &
    setsid sh -c 'trap "" TERM HUP; (setsid sleep 300 &) ; while :; do sleep 1; done' &
"#;

#[tokio::test]
async fn a_server_ends_when_its_stdin_closes() {
    let marked = MarkedProcess::new("eof");
    let mut child = guard().spawn(marked.program("cat", &[])).await.unwrap();
    child.stdin.write_all(b"ping\n").await.unwrap();
    let mut line = String::new();
    BufReader::new(&mut child.stdout)
        .read_line(&mut line)
        .await
        .unwrap();
    assert_eq!(line, "ping\n");

    drop(child.stdin);
    // Had it needed a SIGTERM, the signal would be its end.
    assert_eq!(child.process.stop().await.unwrap(), ServerExit::Code(0));
    assert!(marked.pids().is_empty());
}

#[tokio::test]
async fn a_server_that_overhears_the_end_of_stdin_is_told_by_sigterm() {
    let marked = MarkedProcess::new("term");
    let script = "trap 'exit 7' TERM; while :; do sleep 0.05; done";
    let child = guard().spawn(marked.script(script)).await.unwrap();
    let started = Instant::now();
    drop(child.stdin);
    assert_eq!(child.process.stop().await.unwrap(), ServerExit::Code(7));
    assert!(started.elapsed() > Duration::from_millis(1900));
}

#[tokio::test]
async fn a_server_that_ignores_sigterm_is_killed() {
    let marked = MarkedProcess::new("kill");
    let script = "trap '' TERM; while :; do sleep 1; done";
    let child = guard().spawn(marked.script(script)).await.unwrap();
    let started = Instant::now();
    drop(child.stdin);
    assert_eq!(child.process.stop().await.unwrap(), ServerExit::Signal(9));
    assert!(started.elapsed() > Duration::from_millis(3900));
    assert!(marked.pids().is_empty());
}

#[tokio::test]
async fn a_kill_takes_no_time_and_leaves_nothing() {
    let marked = MarkedProcess::new("at_once");
    let script = format!("{FAMILY} cat");
    let child = guard().spawn(marked.script(&script)).await.unwrap();
    marked.wait_for(9).await;
    // Its stdin is open, and it had no SIGTERM.
    assert_eq!(child.process.kill().await.unwrap(), ServerExit::Signal(9));
    assert_eq!(marked.pids(), Vec::<u32>::new());
}

#[tokio::test]
async fn at_its_deadline_a_server_is_killed_whatever_its_host_does() {
    let (marked, kept) = (MarkedProcess::new("over"), MarkedProcess::new("extended"));
    let guard = guard();
    let script = format!("{FAMILY} cat");
    let child = guard.spawn(marked.script(&script)).await.unwrap();
    marked.wait_for(9).await;
    let mut other = guard.spawn(kept.script("exec sleep 300")).await.unwrap();
    let deadline = Instant::now() + Duration::from_secs(1);
    child.process.set_deadline(deadline);
    other.process.set_deadline(deadline);
    other
        .process
        .set_deadline(Instant::now() + Duration::from_mins(10));
    // The host does nothing; it only looks.
    let is_gone = || marked.pids().is_empty();
    assert!(within(TIMEOUT, is_gone).await, "{:?}", marked.pids());
    assert!(Instant::now() >= deadline);
    // The later time counts.
    assert_eq!(kept.pids().len(), 1);
    other.process.set_deadline(Instant::now());
    assert_eq!(other.process.exited().await, ServerExit::Signal(9));
}

#[tokio::test]
async fn attached_and_detached_descendants_end_with_a_stop() {
    let marked = MarkedProcess::new("family");
    let script = format!("{FAMILY} cat");
    let child = guard().spawn(marked.script(&script)).await.unwrap();
    marked.wait_for(9).await;
    drop(child.stdin);
    child.process.stop().await.unwrap();
    assert_eq!(marked.pids(), Vec::<u32>::new());
}

#[tokio::test]
async fn a_stop_spares_the_detached_descendants_of_other_servers() {
    let (stopped, kept) = (MarkedProcess::new("stopped"), MarkedProcess::new("kept"));
    let guard = guard();
    let script = "(setsid sleep 300 &); exec cat";
    let first = guard.spawn(stopped.script(script)).await.unwrap();
    let second = guard.spawn(kept.script(script)).await.unwrap();
    stopped.wait_for(2).await;
    kept.wait_for(2).await;
    drop(first.stdin);
    first.process.stop().await.unwrap();
    assert!(stopped.pids().is_empty());
    assert_eq!(kept.pids().len(), 2);
    drop(second.stdin);
    second.process.stop().await.unwrap();
    assert!(kept.pids().is_empty());
}

#[tokio::test]
async fn a_daemon_without_any_environment_ends_with_its_server() {
    let marked = MarkedProcess::new("bare");
    let script = "(setsid env -i /bin/sh -c 'echo $$; exec >&-; while :; do sleep 1; done' &); exec >&-; read line";
    let mut child = guard().spawn(marked.script(script)).await.unwrap();
    let daemon: u32 = output(&mut child).await.trim().parse().unwrap();
    assert!(status(daemon, "State").is_some());
    drop(child.stdin);
    child.process.stop().await.unwrap();
    assert!(status(daemon, "State").is_none());
}

#[tokio::test]
async fn servers_that_end_together_leave_no_daemon_even_if_daemons_replace_themselves() {
    // Each daemon starts the next one and ends, so that children of the guard come and go during the stop.
    let script = r#"
        step='if [ "$1" -gt 0 ]; then (setsid sh -c "$0" "$0" $(($1 - 1)) &) else exec sleep 300; fi'
        (setsid sh -c "$step" "$step" 50 &)
        exec cat
    "#;
    let guard = guard();
    let mut servers = Vec::new();
    for number in 0..8 {
        let marked = MarkedProcess::new(&format!("together_{number}"));
        let child = guard.spawn(marked.script(script)).await.unwrap();
        marked.wait_for(2).await;
        servers.push((marked, child));
    }
    let stops = servers.into_iter().map(async |(marked, child)| {
        drop(child.stdin);
        child.process.stop().await.unwrap();
        // As soon as this one is said to be gone, whatever the others do.
        assert_eq!(marked.pids(), Vec::<u32>::new());
    });
    futures::future::join_all(stops).await;
}

#[tokio::test]
async fn descendants_end_when_the_server_exits_by_itself() {
    let marked = MarkedProcess::new("leftovers");
    let script = format!("{FAMILY} read line; exit 3");
    let mut child = guard().spawn(marked.script(&script)).await.unwrap();
    marked.wait_for(8).await;
    child.stdin.write_all(b"go\n").await.unwrap();
    assert_eq!(child.process.exited().await, ServerExit::Code(3));
    // Those that are deaf to SIGTERM have two seconds.
    assert!(!marked.pids().is_empty(), "noticed at once");
    assert!(within(TIMEOUT, || marked.pids().is_empty()).await);
    assert_eq!(child.process.stop().await.unwrap(), ServerExit::Code(3));
}

#[tokio::test]
async fn a_killed_server_is_noticed_at_once() {
    let marked = MarkedProcess::new("killed");
    let mut child = guard().spawn(marked.program("cat", &[])).await.unwrap();
    signal(child.process.pid(), "KILL");
    let exit = tokio::time::timeout(TIMEOUT, child.process.exited()).await;
    assert_eq!(exit.unwrap(), ServerExit::Signal(9));
}

#[tokio::test]
async fn a_dropped_child_leaves_nothing() {
    let marked = MarkedProcess::new("dropped");
    let script = format!("{FAMILY} cat");
    let child = guard().spawn(marked.script(&script)).await.unwrap();
    marked.wait_for(9).await;
    drop(child);
    assert!(within(TIMEOUT, || marked.pids().is_empty()).await);
}

#[tokio::test]
async fn a_cancelled_spawn_leaves_nothing() {
    let marked = MarkedProcess::new("cancelled");
    let guard = guard();
    for micros in [0, 50, 200, 500, 1000, 2000, 4000] {
        let spawn = guard.spawn(marked.script("sleep 300"));
        let _ = tokio::time::timeout(Duration::from_micros(micros), spawn).await;
    }
    assert!(within(TIMEOUT, || marked.pids().is_empty()).await);
}

#[tokio::test]
async fn a_hundred_restarts_leave_no_zombie_and_no_open_file() {
    if !runs_alone("process::stopping::a_hundred_restarts_leave_no_zombie_and_no_open_file") {
        return;
    }
    let marked = MarkedProcess::new("hundred");
    let guard = guard();
    let open_files = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let cycle = async || {
        let child = guard.spawn(marked.program("cat", &[])).await.unwrap();
        drop(child.stdin);
        child.process.stop().await.unwrap();
    };
    cycle().await;
    let before = open_files();
    for _ in 0..100 {
        cycle().await;
    }
    assert_eq!(open_files(), before);
    assert_eq!(children(std::process::id()), [guard.pid().unwrap()]);
    assert!(children(below_watchdog(&guard)).is_empty());
}

#[tokio::test]
async fn orphans_that_end_early_are_reaped_while_the_server_runs() {
    let marked = MarkedProcess::new("reaped");
    let script = "for i in 1 2 3 4 5; do (setsid sleep 0.1 &); done; exec cat";
    let child = guard().spawn(marked.script(script)).await.unwrap();
    let guard_pid = parent(child.process.pid());
    let only_the_server = || children(guard_pid) == [child.process.pid()];
    assert!(within(TIMEOUT, only_the_server).await);
}
