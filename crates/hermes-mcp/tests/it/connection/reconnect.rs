//! Lost servers: noticed at once, tried again, parked, and brought back.

use std::time::{Duration, Instant};

use hermes_mcp::LinkStatus;
use hermes_testkit::{
    Behaviour, Era, Grandchild, HttpServer, Tool, eventually, eventually_some, process_exists,
    recorded,
};
use serde_json::json;

use crate::test_host::{BehaviourFile, TIMEOUT, TestHost, kill, pids, stdio, stdio_from};

/// A server is known to be lost this soon, even on a busy machine. Nothing asks it for longer than that.
const AT_ONCE: Duration = Duration::from_secs(10);

#[tokio::test]
async fn a_killed_server_is_missed_at_once_and_comes_back_with_its_tools() {
    let host = TestHost::start(&[("server", stdio(&Behaviour::new()))]).await;
    let session = host.ready("server").await;
    let before = host.tools("server");

    kill(session.pid.unwrap());
    let killed = Instant::now();
    let link = host.until("server", |link| link.session.is_none()).await;
    assert!(killed.elapsed() < AT_ONCE, "{:?}", killed.elapsed());
    assert_eq!(link.status, LinkStatus::Reconnecting);
    assert_eq!(host.tools("server"), before, "the tools stay meanwhile");
    let link = host.until("server", |link| link.error.is_some()).await;
    let error = link.error.unwrap().text;
    assert!(error.contains("signal 9"), "{error}");

    let link = host.reaches("server", LinkStatus::Ready).await;
    assert_eq!(link.restarts, 1);
    assert!(link.error.is_none());
    assert_ne!(link.session.unwrap().pid, session.pid);
    assert_eq!(host.tools("server"), before);
    assert_eq!(
        host.text("server", "echo", json!({ "text": "a" })).await,
        "a"
    );
}

#[tokio::test]
async fn a_loss_is_noticed_at_once_even_if_the_rest_of_the_tree_lingers() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pids");
    let behaviour = Behaviour::new().process(|process| {
        process.grandchildren = vec![Grandchild::Attached, Grandchild::Detached];
        process.pid_file = Some(file.clone());
    });
    let host = TestHost::start(&[("server", stdio(&behaviour))]).await;
    let session = host.ready("server").await;
    let tree = pids(&file);
    // A stopped process does not even die of SIGTERM.
    for pid in &tree[1..] {
        let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    }

    kill(session.pid.unwrap());
    let link = host.until("server", |link| link.session.is_none()).await;
    // They are given two seconds to end.
    let lingers = |pid: &u32| process_exists(*pid);
    assert!(tree[1..].iter().any(lingers), "they were waited for");
    assert_eq!(link.status, LinkStatus::Reconnecting);
    let new = host.ready("server").await;
    assert_ne!(new.pid, session.pid);
    for pid in tree {
        assert!(!process_exists(pid), "there before the new one came");
    }
}

#[tokio::test]
async fn tools_that_changed_during_the_outage_are_published() {
    let directory = tempfile::tempdir().unwrap();
    let file = BehaviourFile::new(
        directory.path(),
        &Behaviour::new().tools([Tool::named("old"), Tool::named("kept")]),
    );
    let host = TestHost::start(&[("server", stdio_from(&file))]).await;
    let session = host.ready("server").await;
    assert_eq!(host.tools("server")[..2], ["old", "kept"]);

    file.set(&Behaviour::new().tools([Tool::named("kept"), Tool::named("new")]));
    kill(session.pid.unwrap());
    host.until("server", |link| link.restarts == 1).await;
    assert_eq!(host.tools("server")[..2], ["kept", "new"]);
    assert!(host.host.registry().find("mcp_server_old").is_none());
}

#[tokio::test]
async fn a_call_that_killed_its_server_is_not_sent_again() {
    let directory = tempfile::tempdir().unwrap();
    let record = directory.path().join("record");
    let host = TestHost::start(&[("server", stdio(&Behaviour::new().record(&record)))]).await;
    host.ready("server").await;
    let outcome = host.call("server", "crash", json!({})).await;
    assert!(outcome.is_error());
    host.until("server", |link| link.restarts == 1).await;
    assert_eq!(
        host.text("server", "echo", json!({ "text": "a" })).await,
        "a"
    );
    let crashes = recorded(&record, "tools/call")
        .iter()
        .filter(|call| call["params"]["name"] == "crash")
        .count();
    assert_eq!(crashes, 1);
}

#[tokio::test]
async fn a_server_that_was_down_at_start_is_published_once_it_is_up() {
    let mut server = HttpServer::start(Behaviour::new());
    server.stop();
    let host = TestHost::start(&[("late", json!({ "url": server.url() }))]).await;
    let link = host.until("late", |link| link.error.is_some()).await;
    assert_eq!(link.status, LinkStatus::Reconnecting);
    assert!(host.tools("late").is_empty());

    let _server = HttpServer::start_on(server.port(), Behaviour::new());
    host.ready("late").await;
    assert!(host.tools("late").iter().any(|tool| tool == "echo"));
    assert_eq!(host.text("late", "echo", json!({ "text": "a" })).await, "a");
}

#[tokio::test]
async fn a_remote_server_that_restarts_is_used_again() {
    for era in [Era::Legacy, Era::Stateless] {
        let mut server = HttpServer::start(Behaviour::new().era(era));
        let port = server.port();
        let host = TestHost::start(&[("remote", json!({ "url": server.url() }))]).await;
        host.ready("remote").await;
        server.stop();
        let again = HttpServer::start_on(port, Behaviour::new().era(era));
        let works = eventually(TIMEOUT, || !again.requests().is_empty());
        // A call finds out, if the connection has not yet.
        let call = eventually_some(TIMEOUT, async || {
            let outcome = host.call("remote", "echo", json!({ "text": "a" })).await;
            (outcome.text() == "a").then_some(())
        });
        let (reached, called) = tokio::join!(works, call);
        assert!(reached && called.is_some(), "{era:?}");
    }
}

/// Lets every attempt happen at once instead of after its pause, until the server is parked.
async fn park(host: &TestHost, server: &str) {
    for _ in 0..10 {
        let link = host.until(server, |link| link.error.is_some()).await;
        if link.status == LinkStatus::Parked {
            return;
        }
        host.host.retry_failed();
        host.until(server, |now| now.attempts_ended > link.attempts_ended)
            .await;
    }
    panic!("it was never parked: {:?}", host.status(server));
}

#[tokio::test]
async fn five_failures_park_a_server_and_a_call_revives_it() {
    let directory = tempfile::tempdir().unwrap();
    let file = BehaviourFile::new(directory.path(), &Behaviour::new());
    let host = TestHost::start(&[
        ("server", stdio_from(&file)),
        ("other", stdio(&Behaviour::new())),
    ])
    .await;
    let session = host.ready("server").await;
    host.ready("other").await;

    file.break_it();
    kill(session.pid.unwrap());
    host.until("server", |link| link.session.is_none()).await;
    assert!(host.tools("server").len() > 20, "still offered for now");
    park(&host, "server").await;
    let status = host.status("server");
    assert_eq!(status.attempt, 6, "the loss and five attempts");
    assert!(status.next_attempt_at.is_some());
    assert_eq!(status.tools, 0);
    assert!(host.tools("server").is_empty());
    assert!(!host.tools("other").is_empty());
    assert!(host.host.registry().find("mcp_server_echo").is_some());

    let outcome = host.call("server", "echo", json!({ "text": "a" })).await;
    let error = outcome.to_json();
    assert!(
        error.contains("parked") && error.contains("out of order"),
        "{error}"
    );
    assert_eq!(host.status("server").status, LinkStatus::Parked);

    file.set(&Behaviour::new());
    assert_eq!(
        host.text("server", "echo", json!({ "text": "a" })).await,
        "a"
    );
    assert_eq!(host.status("server").status, LinkStatus::Ready);
    assert!(host.tools("server").len() > 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_comes_and_goes_ends_parked() {
    let host = TestHost::start(&[("server", stdio(&Behaviour::new()))]).await;
    for losses in 1..=6 {
        let session = host.ready("server").await;
        kill(session.pid.unwrap());
        let link = host
            .until("server", |link| {
                link.session.is_none() && link.attempt == losses
            })
            .await;
        let expected = if losses < 6 {
            LinkStatus::Reconnecting
        } else {
            LinkStatus::Parked
        };
        assert_eq!(link.status, expected, "after {losses} losses");
        host.host.wake(&hermes_config::ServerName::new("server"));
        if losses == 6 {
            // Asked for, it gets one more chance.
            host.ready("server").await;
        }
    }
}

/// The beginning of the table of pauses, in real time; the rest of it is not waited for.
#[tokio::test]
async fn pauses_grow_until_the_server_is_parked() {
    const WAITED_FOR: usize = 3;
    let directory = tempfile::tempdir().unwrap();
    let starts = directory.path().join("pids");
    let mut broken = Behaviour::new().process(|process| {
        process.pid_file = Some(starts.clone());
    });
    broken.process.exit_at_start = Some(hermes_testkit::ExitAtStart::default());
    let entry = crate::test_host::with(stdio(&broken), "protocol", "legacy");
    let host = TestHost::start(&[("server", entry)]).await;
    let mut pauses = Vec::new();
    for attempt in 1..=6 {
        let link = host.host.link(&hermes_config::ServerName::new("server"));
        let mut link = link.unwrap();
        let failed = link.wait_for(|link| link.attempt == attempt);
        let failed = tokio::time::timeout(Duration::from_mins(1), failed).await;
        assert_eq!(pids(&starts).len(), attempt as usize);
        drop(failed.unwrap());
        pauses.push(Instant::now());
        if pauses.len() > WAITED_FOR && attempt < 6 {
            host.host.retry_failed();
        }
    }
    assert_eq!(host.status("server").status, LinkStatus::Parked);
    for (number, pair) in pauses.windows(2).take(WAITED_FOR).enumerate() {
        let least = Duration::from_secs(1 << number).mul_f64(0.8);
        assert!(
            pair[1] - pair[0] >= least,
            "pause {number}: {:?}",
            pair[1] - pair[0]
        );
    }
}
