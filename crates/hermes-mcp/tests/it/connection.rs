//! How servers start, what is published about them, and that none stands in another's way.

mod breaker;
mod changes_during_calls;
mod era;
mod http_reconnect;
mod lazy;
mod list_changes;
mod reconnect;
mod recycling;

use std::time::{Duration, Instant};

use hermes_config::ServerName;
use hermes_mcp::{LinkStatus, process::records};
use hermes_testkit::{
    Behaviour, ExitAtStart, HttpServer, TemporaryHome, Tool, eventually, process_exists,
};
use serde_json::json;

use crate::test_host::{
    BehaviourFile, TIMEOUT, TestHost, kill, listen, pids, stdio, stdio_from, with,
};

#[tokio::test]
async fn unusable_entries_are_named_and_the_others_get_ready() {
    let good = stdio(&Behaviour::new());
    let host = TestHost::start(&[
        ("good", good.clone()),
        ("both", with(good.clone(), "url", "http://127.0.0.1:9/mcp")),
        ("neither", json!({ "timeout": 5 })),
        ("bad_url", json!({ "url": "ftp://example.com" })),
        ("off", with(good.clone(), "enabled", false)),
        (
            "bad_reference",
            with(
                good.clone(),
                "env",
                json!({ "TOKEN": "${file:no/such/file}" }),
            ),
        ),
        (
            "bad_directory",
            with(good.clone(), "cwd", "/no/such/directory"),
        ),
        ("also_good", good),
    ])
    .await;
    host.ready("good").await;
    host.ready("also_good").await;
    host.reaches("bad_reference", LinkStatus::Invalid).await;
    host.reaches("bad_directory", LinkStatus::Invalid).await;

    let states: Vec<(String, LinkStatus)> = host
        .host
        .status()
        .into_iter()
        .map(|status| (status.name, status.status))
        .collect();
    let expected = [
        ("good", LinkStatus::Ready),
        ("both", LinkStatus::Invalid),
        ("neither", LinkStatus::Invalid),
        ("bad_url", LinkStatus::Invalid),
        ("off", LinkStatus::Disabled),
        ("bad_reference", LinkStatus::Invalid),
        ("bad_directory", LinkStatus::Invalid),
        ("also_good", LinkStatus::Ready),
    ];
    assert_eq!(
        states,
        expected.map(|(name, state)| (name.to_owned(), state))
    );
    for (server, word) in [
        ("both", "`command` and `url`"),
        ("neither", "neither"),
        ("bad_url", "`url`"),
        ("bad_reference", "no/such/file"),
        ("bad_directory", "/no/such/directory"),
    ] {
        let error = host.status(server).error.unwrap();
        assert!(error.contains(word), "{server}: {error}");
        assert!(host.tools(server).is_empty(), "{server}");
    }
    assert_eq!(host.status("good").error, None);
    assert!(host.status("off").disabled);
}

#[tokio::test]
async fn a_failed_first_connect_is_reported_at_once() {
    let broken = Behaviour::new().process(|process| {
        process.exit_at_start = Some(ExitAtStart {
            code: 7,
            stderr: "reading settings\nno database at /var/lib/db".into(),
        });
    });
    let host = TestHost::start(&[
        ("broken", stdio(&broken)),
        ("good", stdio(&Behaviour::new())),
    ])
    .await;
    let missing = host.host.wait_until_settled(TIMEOUT).await;
    assert_eq!(missing.len(), 1);
    assert_eq!(missing[0].as_str(), "broken");

    let link = host.until("broken", |link| link.error.is_some()).await;
    assert_eq!(link.status, LinkStatus::Reconnecting);
    assert_eq!(link.attempt, 1);
    let error = host.status("broken").error.unwrap();
    assert!(error.contains("exit code 7"), "{error}");
    assert!(error.contains("no database at /var/lib/db"), "{error}");
    assert!(host.status("broken").error_at.is_some());
    assert_eq!(host.status("good").status, LinkStatus::Ready);
}

#[tokio::test]
async fn a_missing_program_is_named_with_advice() {
    let nothing = json!({ "PATH": "/no/such/directory", "HOME": "/no/such/home" });
    let entry = |command: &str| json!({ "command": command, "env": nothing });
    let host = TestHost::start(&[
        ("uv", entry("uvx")),
        ("node", entry("/no/such/directory/npx")),
        ("other", entry("no-such-program")),
    ])
    .await;
    for (server, program, advice) in [
        ("uv", "uvx", "https://docs.astral.sh/uv"),
        ("node", "npx", "https://nodejs.org"),
        ("other", "no-such-program", "`PATH`"),
    ] {
        host.until(server, |link| link.error.is_some()).await;
        let error = host.status(server).error.unwrap();
        assert!(error.contains(program), "{error}");
        assert!(error.contains(advice), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

#[tokio::test]
async fn slow_starters_start_side_by_side() {
    let slow = Behaviour::new().process(|process| process.start_delay_ms = 3000);
    let names = ["a", "b", "c", "d", "e", "f"];
    let servers = names.map(|name| (name, stdio(&slow)));
    let started = Instant::now();
    let host = TestHost::start(&servers).await;
    let is_ready = |name: &str| host.status(name).status == LinkStatus::Ready;
    assert!(!names.iter().all(|name| is_ready(name)), "start waited");
    assert_eq!(host.host.wait_until_settled(TIMEOUT).await, []);
    assert!(
        started.elapsed() < Duration::from_secs(18),
        "one after the other"
    );
    for name in names {
        assert_eq!(host.status(name).status, LinkStatus::Ready);
    }
}

#[tokio::test]
async fn a_server_that_never_answers_is_given_up_and_delays_nobody() {
    let stuck = Behaviour::new().process(|process| process.start_delay_ms = 600_000);
    let host = TestHost::start(&[
        ("stuck", with(stdio(&stuck), "connect_timeout", 3)),
        ("good", stdio(&Behaviour::new())),
    ])
    .await;
    host.ready("good").await;
    assert_eq!(host.status("stuck").status, LinkStatus::Connecting);
    let link = host.until("stuck", |link| link.error.is_some()).await;
    assert_eq!(link.status, LinkStatus::Reconnecting);
    let error = link.error.unwrap().text;
    assert!(error.contains("connect_timeout"), "{error}");
}

#[tokio::test]
async fn a_single_question_waits_as_long_as_a_server_may_take_to_connect() {
    let stuck = Behaviour::new().process(|process| process.start_delay_ms = 600_000);
    let entry = with(stdio(&stuck), "connect_timeout", 60);
    let host = TestHost::start(&[("stuck", entry)]).await;
    // Nothing is waited for but time, so it passes as fast as it can.
    tokio::time::pause();
    let began = tokio::time::Instant::now();
    let missing = host.host.wait_for_tools_among(None, |_| true).await;
    let waited = began.elapsed();
    tokio::time::resume();
    assert_eq!(missing, [ServerName::new("stuck")]);
    assert!(waited >= Duration::from_secs(59), "{waited:?}");
    assert!(waited < Duration::from_secs(70), "{waited:?}");
}

#[tokio::test]
async fn discoveries_at_the_same_time_share_one_child() {
    let directory = tempfile::tempdir().unwrap();
    let starts = directory.path().join("pids");
    let file = BehaviourFile::new(directory.path(), &Behaviour::new());
    file.break_it();
    let host = TestHost::start(&[("server", stdio_from(&file))]).await;
    host.until("server", |link| link.error.is_some()).await;

    file.set(&Behaviour::new().process(|process| {
        process.start_delay_ms = 300;
        process.pid_file = Some(starts.clone());
    }));
    host.host.retry_failed();
    host.host.retry_failed();
    host.ready("server").await;
    host.host.retry_failed();
    assert_eq!(
        host.text("server", "echo", json!({ "text": "a" })).await,
        "a"
    );
    assert_eq!(pids(&starts), [host.pid("server")]);
}

#[tokio::test]
async fn discovery_leaves_a_live_server_alone() {
    let host = TestHost::start(&[("server", stdio(&Behaviour::new()))]).await;
    let session = host.ready("server").await;
    host.host.retry_failed();
    host.host.retry_failed();
    assert_eq!(host.text("server", "counter", json!({})).await, "1");
    assert!(std::sync::Arc::ptr_eq(
        &session,
        &host.ready("server").await
    ));
}

#[tokio::test]
async fn a_turn_keeps_the_tools_it_began_with() {
    let host = TestHost::start(&[("server", stdio(&Behaviour::new()))]).await;
    host.ready("server").await;
    let turn = host.host.registry();
    let mut changes = host.host.subscribe_changes();
    changes.borrow_and_update();
    let arguments = json!({ "add": [{ "name": "new" }], "remove": ["add"] });
    host.text("server", "change_tools", arguments).await;
    assert!(host.shows("server", "new", true).await);
    assert!(changes.has_changed().unwrap());

    assert!(turn.find("mcp_server_new").is_none());
    assert!(turn.find("mcp_server_add").is_some());
    let next = host.host.registry();
    assert!(next.generation() > turn.generation());
    assert!(next.find("mcp_server_add").is_none());
}

#[tokio::test]
async fn every_change_of_state_is_logged_once() {
    let (sender, mut events) = tokio::sync::mpsc::unbounded_channel();
    let _listening = listen(move |event| {
        if event.get("to").is_some() {
            let _ = sender.send(event);
        }
    });
    let host = TestHost::start(&[("server", stdio(&Behaviour::new()))]).await;
    let session = host.ready("server").await;
    kill(session.pid.unwrap());
    host.until("server", |link| link.restarts == 1).await;
    host.host.shutdown().await;

    let expected = [
        ("connecting", "ready"),
        ("ready", "reconnecting"),
        ("reconnecting", "ready"),
        ("ready", "stopped"),
    ];
    for (from, to) in expected {
        let event = events.try_recv().unwrap();
        assert_eq!(event["server"], "server");
        assert_eq!((&event["from"], &event["to"]), (&json!(from), &json!(to)));
        if to == "reconnecting" {
            let reason = event["reason"].as_str().unwrap();
            assert!(reason.contains("signal 9"), "{reason}");
        }
    }
    assert!(events.try_recv().is_err());
}

#[tokio::test]
async fn a_discovery_counts_servers_that_still_connect_apart_from_those_that_failed() {
    let (sender, mut events) = tokio::sync::mpsc::unbounded_channel();
    let _listening = listen(move |event| {
        if event["message"] == "MCP servers discovered" {
            let _ = sender.send(event);
        }
    });
    let broken =
        Behaviour::new().process(|process| process.exit_at_start = Some(ExitAtStart::default()));
    let slow = Behaviour::new().process(|process| process.start_delay_ms = 600_000);
    let host = TestHost::start(&[
        ("good", stdio(&Behaviour::new())),
        ("broken", stdio(&broken)),
        ("broken_too", stdio(&broken)),
        ("slow", with(stdio(&slow), "connect_timeout", 600)),
    ])
    .await;
    host.ready("good").await;
    for name in ["broken", "broken_too"] {
        host.until(name, |link| link.attempts_ended > 0).await;
    }
    let moment = Duration::from_millis(1);
    let one_shot = host.host.wait_for_tools_among(Some(moment), |_| true).await;
    let settled = host.host.wait_until_settled(moment).await;
    assert_eq!(one_shot, settled);
    assert_eq!(settled.len(), 3, "{settled:?}");
    for _ in 0..2 {
        let event = events.try_recv().unwrap();
        let counted = ["servers", "connecting", "failed"].map(|key| event[key].clone());
        assert_eq!(counted, ["1", "1", "2"].map(|number| json!(number)));
    }
}

#[tokio::test]
async fn homes_with_equal_server_names_share_nothing() {
    let named = |tool: &str| {
        let behaviour = Behaviour::new().tools([Tool::named(tool).acting_as("environment")]);
        let entry = stdio(&behaviour);
        [(
            "server",
            with(entry, "env", json!({ "SECRET": "${SECRET}" })),
        )]
    };
    let (one, other) = (TemporaryHome::new(), TemporaryHome::new());
    one.write_env("SECRET=first-value\n");
    other.write_env("SECRET=second-value\n");
    let one = TestHost::start_in(one, &named("first")).await;
    let other = TestHost::start_in(other, &named("second")).await;
    one.ready("server").await;
    other.ready("server").await;
    assert_eq!(one.tools("server")[0], "first");
    assert_eq!(other.tools("server")[0], "second");
    let environment = one.text("server", "first", json!({})).await;
    assert!(environment.contains("first-value") && !environment.contains("second-value"));
    let unknown = one.call("server", "second", json!({})).await;
    assert!(unknown.to_json().contains("Unknown tool"));

    one.remembered("server").await;
    other.remembered("server").await;
    for host in [&one, &other] {
        let known = records::list_processes(&host.home.path().join("run"));
        assert_eq!(known.len(), 1);
        assert_eq!(known[0].pid, host.pid("server"));
        assert_eq!(host.manifests().len(), 1);
    }

    // What happens to one is nothing to the other.
    let before = other.ready("server").await;
    kill(one.pid("server"));
    one.until("server", |link| link.restarts == 1).await;
    let home = one.end().await;
    assert!(!other.text("server", "second", json!({})).await.is_empty());
    assert!(std::sync::Arc::ptr_eq(
        &before,
        &other.ready("server").await
    ));
    assert!(process_exists(other.pid("server")));
    assert!(records::list_processes(&home.path().join("run")).is_empty());
}

#[tokio::test]
async fn a_stopped_host_says_so_and_refuses_calls() {
    let server = HttpServer::start(Behaviour::new());
    let host = TestHost::start(&[
        ("local", stdio(&Behaviour::new())),
        ("remote", json!({ "url": server.url() })),
    ])
    .await;
    host.ready("local").await;
    host.ready("remote").await;
    let turn = host.host.registry();
    host.host.shutdown().await;
    for name in ["local", "remote"] {
        assert_eq!(host.status(name).status, LinkStatus::Stopped);
        assert!(host.tools(name).is_empty());
        let tool = turn.find(&format!("mcp_{name}_echo")).unwrap();
        let options = hermes_mcp::CallOptions::default();
        let outcome = host.host.call_tool(tool, serde_json::Map::new(), &options);
        let outcome = outcome.await.to_json();
        assert!(outcome.contains("stopped"), "{outcome}");
    }
}

#[tokio::test]
async fn a_legacy_session_over_http_is_ended_politely() {
    let server = HttpServer::start(Behaviour::new().era(hermes_testkit::Era::Legacy));
    let host = TestHost::start(&[("remote", json!({ "url": server.url() }))]).await;
    host.ready("remote").await;
    host.host.shutdown().await;
    let was_deleted = || {
        let requests = server.requests();
        requests.iter().any(|request| request.method == "DELETE")
    };
    assert!(eventually(TIMEOUT, was_deleted).await);
}
