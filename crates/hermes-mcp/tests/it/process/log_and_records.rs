//! What a running server leaves on disk: its stderr and its record.

use std::sync::Arc;

use hermes_mcp::process::{
    ServerExit, StderrLog,
    records::{self, ProcessRecords, ProcessState},
};

use super::*;

#[tokio::test]
async fn a_server_that_exits_at_once_says_why() {
    let home = tempfile::tempdir().unwrap();
    let log = StderrLog::new(home.path());
    let marked = MarkedProcess::new("last-words");
    let script = "echo starting >&2; echo 'no token given' >&2; exit 3";
    let mut child = guard().spawn(marked.script(script)).await.unwrap();
    let mut stderr = log.drain(
        child.process.server(),
        child.process.pid(),
        "/bin/sh",
        Arc::default(),
        child.stderr,
    );
    assert_eq!(child.process.exited().await, ServerExit::Code(3));
    stderr.wait_for_end().await;
    assert_eq!(stderr.tail(), ["starting", "no token given"]);
    assert_eq!(ServerExit::Code(3).to_string(), "exit code 3");
}

#[tokio::test]
async fn a_flood_on_stderr_is_bounded_in_memory_and_on_disk() {
    if !runs_alone("process::log_and_records::a_flood_on_stderr_is_bounded_in_memory_and_on_disk") {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let log = StderrLog::new(home.path());
    let marked = MarkedProcess::new("flood");
    let resident = || -> u64 {
        let shown = status(std::process::id(), "VmRSS").unwrap();
        shown.split(' ').next().unwrap().parse().unwrap()
    };
    let before = resident();
    let script = "yes 'a line of quite ordinary length, as servers print them' | head -c 100000000 >&2; echo done";
    let mut child = guard().spawn(marked.script(script)).await.unwrap();
    let (server, pid) = (child.process.server().clone(), child.process.pid());
    let (_, no_stderr) = tokio::net::unix::pipe::pipe().unwrap();
    let stderr = std::mem::replace(&mut child.stderr, no_stderr);
    let _stderr = log.drain(&server, pid, "/bin/sh", Arc::default(), stderr);
    let text = tokio::time::timeout(Duration::from_mins(1), output(&mut child)).await;
    assert_eq!(text.unwrap(), "done\n");

    let grown = resident().saturating_sub(before);
    assert!(grown < 24 * 1024, "{grown} KiB more");
    for entry in std::fs::read_dir(home.path().join("logs")).unwrap() {
        let size = entry.unwrap().metadata().unwrap().len();
        assert!(size <= 10 * 1024 * 1024);
    }
}

#[tokio::test]
async fn a_server_is_on_record_while_it_runs() {
    let home = tempfile::tempdir().unwrap();
    let run_dir = home.path().join("run");
    let records = ProcessRecords::create(&run_dir).unwrap();
    let marked = MarkedProcess::new("record");
    let mut child = guard().spawn(marked.program("cat", &[])).await.unwrap();
    echo(&mut child).await;
    let pid = child.process.pid();
    records.add(&child.process).unwrap();

    let listed = records::list_processes(&run_dir);
    assert_eq!(listed.len(), 1);
    assert_eq!((listed[0].pid, listed[0].pgid), (pid, pid));
    assert_eq!(listed[0].host_pid, std::process::id());
    assert_eq!(listed[0].state, ProcessState::Running);
    assert!(listed[0].rss_bytes > 0);

    drop(child.stdin);
    child.process.stop().await.unwrap();
    assert!(
        records::list_processes(&run_dir).is_empty(),
        "gone, though still written down"
    );
    records.remove(pid).unwrap();
    let left = std::fs::read_to_string(run_dir.join(format!("host-{}.json", std::process::id())));
    assert!(
        left.unwrap()
            .ends_with(&format!("{{\"gone\":{{\"pid\":{pid}}}}}\n"))
    );
}

#[tokio::test]
async fn a_recorded_server_can_be_killed_by_another_process_of_the_home() {
    let home = tempfile::tempdir().unwrap();
    let ready = home.path().join("ready");
    let records = ProcessRecords::create(home.path()).unwrap();
    let marked = MarkedProcess::new("kill-record");
    let script = format!(
        "trap '' TERM; sleep 300 & touch {}; while :; do sleep 1; done",
        ready.display()
    );
    let mut child = guard().spawn(marked.script(&script)).await.unwrap();
    created(&ready).await;
    records.add(&child.process).unwrap();
    records::stop_recorded_process(&records::list_processes(home.path())[0])
        .await
        .unwrap();
    assert_eq!(child.process.exited().await, ServerExit::Signal(9));
    assert!(within(TIMEOUT, || marked.pids().is_empty()).await);
}
