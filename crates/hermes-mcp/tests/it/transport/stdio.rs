//! What comes out of a local server's stdout and stderr: garbage, floods, lines without end, wrong ids, nothing.

use std::time::{Duration, Instant};

use hermes_mcp::{CallOptions, LinkStatus};
use hermes_testkit::{
    Behaviour, Era, ExitAtStart, HttpServer, OversizedLine, TemporaryHome, WrongId,
};
use serde_json::json;

use crate::setup::{
    ALL_TRANSPORTS, Growth, RecordedServer, Setup, TIMEOUT, http, over_every_transport, stdio,
    with, with_neighbour,
};

/// For calls that are answered: they may take longer than the server's short time.
fn patient() -> CallOptions {
    CallOptions {
        timeout: Some(TIMEOUT),
        ..CallOptions::default()
    }
}

#[tokio::test]
async fn replies_under_wrong_ids_are_not_replies() {
    for wrong in [WrongId::Unknown, WrongId::Null] {
        over_every_transport(async |wire, era| {
            let home = TemporaryHome::new();
            let behaviour = Behaviour::new()
                .era(era)
                .calls(|calls| calls.wrong_id = Some(wrong));
            let peer = RecordedServer::new(wire, behaviour, home.path());
            let entry = with(peer.entry, json!({ "timeout": 0.5 }));
            let setup = Setup::in_home(home, with_neighbour(json!({ "s": entry }))).await;
            let told = setup.call("mcp_s_echo", json!({ "text": "hi" })).await;
            let context = format!("{wrong:?}, {wire:?}, {era:?}: {told}");
            assert!(told["error"].is_string(), "{context}");
            // Other requests of the same server are not affected.
            let arguments = json!({ "uri": "test://text" });
            let told = setup
                .call_with("mcp_s_read_resource", arguments, &patient())
                .await;
            assert_eq!(
                told,
                json!({ "result": "contents of test://text" }),
                "{context}"
            );
            setup.assert_neighbour_is_well().await;
        })
        .await;
    }
}

#[tokio::test]
async fn a_number_that_comes_back_as_text_is_understood() {
    for (wire, era) in ALL_TRANSPORTS {
        let home = TemporaryHome::new();
        let behaviour = Behaviour::new()
            .era(era)
            .calls(|calls| calls.wrong_id = Some(WrongId::Text));
        let peer = RecordedServer::new(wire, behaviour, home.path());
        let setup = Setup::in_home(home, json!({ "s": peer.entry })).await;
        let told = setup.call("mcp_s_echo", json!({ "text": "hi" })).await;
        assert_eq!(told, json!({ "result": "hi" }), "{wire:?}, {era:?}");
    }
}

#[tokio::test]
async fn lines_that_are_not_messages_are_skipped() {
    for era in [Era::Legacy, Era::Stateless] {
        let behaviour = Behaviour::new().era(era).process(|process| {
            process.junk_stdout = [
                "Starting the server...",
                "",
                "{ not json",
                "{}",
                "[]",
                "[{\"jsonrpc\":\"2.0\"}]",
                "null",
                "42",
                "{\"jsonrpc\":\"2.0\"}",
                "{\"jsonrpc\":\"1.0\",\"id\":1,\"result\":{}}",
                "{\"level\":\"info\",\"msg\":\"a log line\",\"id\":\"x\"}",
                "\u{1b}[32mcoloured\u{1b}[0m",
            ]
            .map(str::to_owned)
            .into();
        });
        let setup = Setup::start(with_neighbour(json!({ "s": stdio(&behaviour) }))).await;
        setup.assert_ready("s");
        let told = setup.call("mcp_s_echo", json!({ "text": "hi" })).await;
        assert_eq!(told, json!({ "result": "hi" }), "{era:?}");
        setup.assert_neighbour_is_well().await;
    }
}

#[tokio::test]
async fn stray_messages_are_not_answers() {
    for era in [Era::Legacy, Era::Stateless] {
        let behaviour = Behaviour::new().era(era).process(|process| {
            process.junk_stdout = [
                "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/unheard_of\",\"params\":{}}",
                "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":\"hi\"}}",
                "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":\"nobody's\",\"progress\":1}}",
                "{\"jsonrpc\":\"2.0\",\"id\":987654321,\"result\":{\"content\":[]}}",
                "{\"jsonrpc\":\"2.0\",\"id\":\"stray\",\"error\":{\"code\":-1,\"message\":\"no\"}}",
            ]
            .map(str::to_owned)
            .into();
        });
        let setup = Setup::start(with_neighbour(json!({ "s": stdio(&behaviour) }))).await;
        setup.assert_ready("s");
        let told = setup.call("mcp_s_echo", json!({ "text": "hi" })).await;
        assert_eq!(told, json!({ "result": "hi" }), "{era:?}");
        setup.assert_neighbour_is_well().await;
    }
}

fn oversized(instead_of: &str, mebibytes: usize) -> Behaviour {
    Behaviour::new().process(|process| {
        process.oversized_line = Some(OversizedLine {
            bytes: mebibytes << 20,
            instead_of: instead_of.into(),
        });
    })
}

#[tokio::test]
async fn a_line_over_the_cap_fails_the_calls_in_flight_at_once_and_names_the_cap() {
    for era in [Era::Legacy, Era::Stateless] {
        let entry = with(
            stdio(&oversized("big", 17).era(era)),
            json!({ "supports_parallel_tool_calls": true }),
        );
        let setup = Setup::start(with_neighbour(json!({ "s": entry }))).await;
        let began = Instant::now();
        let (long, big) = tokio::join!(
            setup.error("mcp_s_sleep", json!({ "ms": 600_000 })),
            setup.error("mcp_s_big", json!({})),
        );
        for error in [long, big] {
            assert!(error.contains("16 MiB"), "{error}");
        }
        assert!(began.elapsed() < Duration::from_secs(50));
        let told = setup.call("mcp_s_echo", json!({ "text": "next" })).await;
        assert_eq!(told, json!({ "result": "next" }), "{era:?}");
        assert_eq!(setup.status("s").restarts, 0);
        setup.assert_neighbour_is_well().await;
    }
}

#[tokio::test]
async fn an_answer_nested_far_too_deep_fails_its_call_at_once_and_names_the_cause() {
    for era in [Era::Legacy, Era::Stateless] {
        let deep = Behaviour::new()
            .era(era)
            .calls(|calls| calls.nested_levels = Some(200_000));
        let setup = Setup::start(with_neighbour(json!({ "s": stdio(&deep) }))).await;
        let hi = json!({ "text": "hi" });
        let error = setup.error_at_once("mcp_s_echo", hi).await;
        assert!(error.contains("levels deep"), "{era:?}: {error}");
        setup.assert_ready("s");
        assert_eq!(setup.status("s").restarts, 0);
        setup.assert_neighbour_is_well().await;
    }
}

#[tokio::test]
async fn a_line_of_a_hundred_megabytes_takes_no_hundred_megabytes() {
    let setup = Setup::start(with_neighbour(
        json!({ "s": stdio(&oversized("big", 100)) }),
    ))
    .await;
    let growth = Growth::watch();
    for _ in 0..3 {
        let error = setup.error("mcp_s_big", json!({})).await;
        assert!(error.contains("16 MiB"), "{error}");
    }
    // The answer after it comes when all of the line has been read.
    let told = setup.call("mcp_s_echo", json!({ "text": "next" })).await;
    assert_eq!(told, json!({ "result": "next" }));
    // The buffer doubles on its way to the cap, and old and new exist together while it grows.
    let peak = growth.peak();
    assert!(peak < 64, "{peak} MiB");
    setup.assert_neighbour_is_well().await;
}

#[tokio::test]
async fn a_line_over_the_cap_during_the_handshake_fails_the_connection() {
    for method in ["initialize", "tools/list"] {
        let behaviour = oversized(method, 40).era(Era::Legacy);
        let setup = Setup::start(with_neighbour(json!({ "s": stdio(&behaviour) }))).await;
        let status = setup.status("s");
        assert_eq!(status.status, LinkStatus::Reconnecting, "{method}");
        let error = status.error.unwrap();
        assert!(error.contains("16 MiB"), "{method}: {error}");
        setup.assert_neighbour_is_well().await;
    }
}

#[tokio::test]
async fn a_flood_on_stderr_stops_nobody_and_the_log_stays_small() {
    const MEBIBYTE: u64 = 1 << 20;
    let behaviour = Behaviour::new().process(|process| process.stderr_flood = 40 << 20);
    let growth = Growth::watch();
    let setup = Setup::start(with_neighbour(json!({ "s": stdio(&behaviour) }))).await;
    setup.assert_ready("s");
    let told = setup.call("mcp_s_echo", json!({ "text": "hi" })).await;
    assert_eq!(told, json!({ "result": "hi" }));
    setup.assert_neighbour_is_well().await;
    let peak = growth.peak();
    assert!(peak < 64, "{peak} MiB");
    setup.host.shutdown().await;
    let logs = std::fs::read_dir(setup.path("logs")).unwrap();
    let sizes: Vec<u64> = logs
        .map(|file| file.unwrap().metadata().unwrap().len())
        .collect();
    assert!(
        sizes.iter().all(|size| *size <= 11 * MEBIBYTE) && sizes.len() <= 2,
        "{sizes:?}"
    );
    assert!(sizes.iter().sum::<u64>() > MEBIBYTE, "{sizes:?}");
}

#[tokio::test]
async fn a_call_that_is_never_answered_ends_with_its_timeout() {
    over_every_transport(async |wire, era| {
        let home = TemporaryHome::new();
        let behaviour = Behaviour::new()
            .era(era)
            .calls(|calls| calls.never_answer = vec!["echo".into()]);
        let peer = RecordedServer::new(wire, behaviour, home.path());
        let entry = with(peer.entry, json!({ "timeout": 1 }));
        let setup = Setup::in_home(home, with_neighbour(json!({ "s": entry }))).await;
        for _ in 0..3 {
            let error = setup.error("mcp_s_echo", json!({ "text": "hi" })).await;
            assert!(error.contains("allowed: 1 s"), "{wire:?}, {era:?}: {error}");
        }
        let told = setup
            .call_with("mcp_s_counter", json!({}), &patient())
            .await;
        assert_eq!(told, json!({ "result": "4" }), "{wire:?}, {era:?}");
        setup.assert_ready("s");
        setup.assert_neighbour_is_well().await;
    })
    .await;
}

#[tokio::test]
async fn a_server_that_never_lists_its_tools_fails_after_its_own_time_and_delays_nobody() {
    let slow = Behaviour::new().lists(|lists| lists.delay_ms = 600_000);
    let remote = HttpServer::start(slow.clone());
    let limit = json!({ "connect_timeout": 3 });
    let servers = json!({
        "local": with(stdio(&slow), limit.clone()),
        "remote": with(http(&remote), limit),
    });
    let home = TemporaryHome::new();
    let setup = Setup::in_home(home, with_neighbour(servers)).await;
    for server in ["local", "remote"] {
        let status = setup.status(server);
        assert_eq!(status.status, LinkStatus::Reconnecting, "{server}");
        let error = status.error.unwrap();
        assert!(error.contains("no answer within 3 s"), "{server}: {error}");
        assert!(error.contains("connect_timeout"), "{server}: {error}");
    }
    setup.assert_neighbour_is_well().await;
}

#[tokio::test]
async fn a_server_that_dies_at_once_is_quoted() {
    let behaviour = Behaviour::new().process(|process| {
        process.exit_at_start = Some(ExitAtStart {
            code: 7,
            stderr: "cannot open the database".into(),
        });
    });
    let setup = Setup::start(with_neighbour(json!({ "s": stdio(&behaviour) }))).await;
    let status = setup.status("s");
    assert_eq!(status.status, LinkStatus::Reconnecting);
    let error = status.error.unwrap();
    assert!(
        error.contains("cannot open the database") && error.contains('7'),
        "{error}"
    );
    setup.assert_neighbour_is_well().await;
}

#[tokio::test]
async fn a_server_that_cannot_be_started_is_named_with_advice() {
    for (command, words) in [
        ("hermes-test-no-such-program", "hermes-test-no-such-program"),
        ("/nowhere/at/all/server", "/nowhere/at/all/server"),
    ] {
        let entry = json!({ "command": command });
        let setup = Setup::start(with_neighbour(json!({ "s": entry }))).await;
        let status = setup.status("s");
        assert!(!status.connected);
        let error = status.error.unwrap();
        assert!(error.contains(words), "{error}");
        setup.assert_neighbour_is_well().await;
    }
}

#[tokio::test]
async fn a_crash_during_a_call_is_told_and_the_server_returns() {
    for era in [Era::Legacy, Era::Stateless] {
        let entry = with(
            stdio(&Behaviour::new().era(era)),
            json!({ "supports_parallel_tool_calls": true }),
        );
        let setup = Setup::start(with_neighbour(json!({ "s": entry }))).await;
        let (sleeping, crashing) = tokio::join!(
            setup.error("mcp_s_sleep", json!({ "ms": 600_000 })),
            setup.error("mcp_s_crash", json!({})),
        );
        for error in [sleeping, crashing] {
            assert!(error.contains("`s` was lost"), "{error}");
        }
        setup.assert_neighbour_is_well().await;
        setup
            .until("s", |link| {
                link.status == LinkStatus::Ready && link.restarts == 1
            })
            .await;
        let told = setup.call("mcp_s_echo", json!({ "text": "back" })).await;
        assert_eq!(told, json!({ "result": "back" }));
    }
}
