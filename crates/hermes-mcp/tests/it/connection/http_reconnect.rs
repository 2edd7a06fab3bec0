//! Remote servers that go and come back: noticed, tried again, and used again, whoever notices first.

use std::time::{Duration, Instant, SystemTime};

use hermes_mcp::LinkStatus;
use hermes_testkit::{Behaviour, Era, Fault, FaultKind, HttpServer, Tool, eventually};
use serde_json::json;

use crate::test_host::{TIMEOUT, TestHost};

const ERAS: [Era; 2] = [Era::Legacy, Era::Stateless];

/// A host with a remote server that has one tool of its own beside `echo` and `counter`.
async fn connect(behaviour: Behaviour) -> (TestHost, HttpServer) {
    let server = HttpServer::start(behaviour);
    let host = TestHost::start(&[("remote", json!({ "url": server.url() }))]).await;
    host.ready("remote").await;
    (host, server)
}

fn with_tool(era: Era, own: &str) -> Behaviour {
    let tools = [own, "echo", "counter"].map(Tool::named);
    Behaviour::new().era(era).tools(tools)
}

fn count(server: &HttpServer, method: &str) -> usize {
    let requests = server.requests();
    let matching = requests
        .iter()
        .filter(|request| request.rpc_method() == method);
    matching.count()
}

/// Waits until the server has the stream on which it tells of changes, so that its end is noticed.
async fn is_heard(server: &HttpServer, era: Era) {
    let has_stream = || match era {
        Era::Stateless => count(server, "subscriptions/listen") > 0,
        _ => server.requests().iter().any(|one| one.method == "GET"),
    };
    assert!(eventually(TIMEOUT, has_stream).await);
}

async fn echoes(host: &TestHost) {
    let text = host.text("remote", "echo", json!({ "text": "a" })).await;
    assert_eq!(text, "a");
}

#[tokio::test]
async fn a_remote_server_that_is_killed_is_missed_without_a_call_and_comes_back_with_its_tools() {
    for era in ERAS {
        let (host, mut server) = connect(with_tool(era, "old")).await;
        is_heard(&server, era).await;
        server.stop();
        let link = host.until("remote", |link| link.session.is_none()).await;
        assert_eq!(link.status, LinkStatus::Reconnecting, "{era:?}");
        let reason = link.error.unwrap().text;
        assert!(reason.contains("no connection to"), "{era:?}: {reason}");
        assert!(
            host.tools("remote").contains(&"old".to_owned()),
            "kept for now"
        );

        let _again = HttpServer::start_on(server.port(), with_tool(era, "new"));
        host.ready("remote").await;
        let tools = host.tools("remote");
        assert!(tools.contains(&"new".to_owned()), "{era:?}: {tools:?}");
        assert!(!tools.contains(&"old".to_owned()), "{era:?}: {tools:?}");
        echoes(&host).await;
    }
}

#[tokio::test]
async fn a_call_finds_out_and_is_made_when_it_was_not_sent() {
    for era in ERAS {
        // Nothing but calls tells about this one.
        let mut behaviour = with_tool(era, "own");
        behaviour.http.get_stream = false;
        behaviour.lists.unannounced = true;
        let (host, mut server) = connect(behaviour.clone()).await;
        server.stop();
        let restart = async {
            host.until("remote", |link| link.status == LinkStatus::Reconnecting)
                .await;
            HttpServer::start_on(server.port(), behaviour)
        };
        let call = host.text("remote", "counter", json!({}));
        let (text, again) = tokio::join!(call, restart);
        assert_eq!(text, "1", "{era:?}");
        assert_eq!(count(&again, "tools/call"), 1, "{era:?}");
    }
}

#[tokio::test]
async fn a_call_to_a_server_that_is_on_its_way_back_does_not_wait_for_the_planned_attempt() {
    for era in ERAS {
        let (host, mut server) = connect(with_tool(era, "own")).await;
        is_heard(&server, era).await;
        server.stop();
        // So that the next attempt is planned far away.
        loop {
            let link = host.until("remote", |link| link.error.is_some()).await;
            if link.attempt == 5 {
                break;
            }
            host.host.retry_failed();
            let more = link.attempts_ended;
            host.until("remote", |now| now.attempts_ended > more).await;
        }
        // A call that comes too early fails, and uses up no attempt.
        let outcome = host.call("remote", "counter", json!({})).await;
        assert!(outcome.is_error());
        let link = host
            .until("remote", |link| link.next_attempt_at.is_some())
            .await;
        assert_eq!((link.status, link.attempt), (LinkStatus::Reconnecting, 5));

        let _again = HttpServer::start_on(server.port(), with_tool(era, "own"));
        echoes(&host).await;
        let planned = link.next_attempt_at.unwrap();
        assert!(SystemTime::now() < planned, "{era:?}: it waited");
    }
}

#[tokio::test]
async fn a_server_that_forgot_the_session_is_initialised_again_whatever_status_says_so() {
    for status in [404, 400] {
        let behaviour = |own| {
            with_tool(Era::Legacy, own).http(|http| {
                http.unknown_session = status;
                // No stream that would tell before the call does.
                http.get_stream = false;
            })
        };
        let (host, mut server) = connect(behaviour("old")).await;
        server.stop();
        let again = HttpServer::start_on(server.port(), behaviour("new"));
        let text = host.text("remote", "counter", json!({})).await;
        assert_eq!(text, "1", "{status}");
        assert_eq!(count(&again, "initialize"), 1, "{status}");
        let answered = again.requests().into_iter();
        let calls = answered.filter(|request| request.rpc_method() == "tools/call");
        assert_eq!(calls.count(), 2, "{status}: refused once, repeated once");
        assert!(host.shows("remote", "new", true).await, "{status}");
        assert!(host.shows("remote", "old", false).await, "{status}");
        assert_eq!(host.status("remote").restarts, 0, "{status}");
    }
}

#[tokio::test]
async fn a_session_that_was_forgotten_unnoticed_is_missed_by_its_stream() {
    let behaviour = || with_tool(Era::Legacy, "own").http(|http| http.unknown_session = 400);
    let (host, mut server) = connect(behaviour()).await;
    is_heard(&server, Era::Legacy).await;
    server.stop();
    let again = HttpServer::start_on(server.port(), behaviour());
    let is_known = || count(&again, "initialize") > 0 && count(&again, "tools/list") > 0;
    assert!(eventually(TIMEOUT, is_known).await);
    echoes(&host).await;
}

#[tokio::test]
async fn a_bare_400_means_a_lost_session_once_and_the_second_is_told_as_it_is() {
    let fault = |times| Fault::on("counter", FaultKind::Status(400)).times(times);
    let behaviour = |times| {
        let behaviour = with_tool(Era::Legacy, "own");
        behaviour.http(|http| http.faults.push(fault(times)))
    };
    let (host, server) = connect(behaviour(1)).await;
    let text = host.text("remote", "counter", json!({})).await;
    assert_eq!(text, "1");
    assert_eq!(count(&server, "initialize"), 2);
    assert_eq!(count(&server, "tools/call"), 2);

    let (host, server) = connect(behaviour(2)).await;
    let outcome = host.call("remote", "counter", json!({})).await;
    let error = outcome.to_json();
    assert!(error.contains("HTTP 400"), "{error}");
    assert_eq!(count(&server, "tools/call"), 2, "repeated once");
    echoes(&host).await;
    assert_eq!(host.status("remote").restarts, 0);
}

#[tokio::test]
async fn a_watched_resource_is_subscribed_again_in_the_session_that_replaces_a_lost_one() {
    let uri = "test://text";
    let lost = Fault::on("counter", FaultKind::Status(400)).times(1);
    let behaviour = Behaviour::new().era(Era::Legacy);
    let (host, server) = connect(behaviour.http(|http| http.faults.push(lost))).await;
    is_heard(&server, Era::Legacy).await;
    let name = hermes_config::ServerName::new("remote");
    let mut updates = host.host.resource_updates(&name).unwrap();
    let _watch = host.host.watch_resource(&name, uri).unwrap();
    for session in 1..=2 {
        let is_subscribed = || count(&server, "resources/subscribe") == session;
        assert!(
            eventually(TIMEOUT, is_subscribed).await,
            "session {session}"
        );
        let hear = async {
            loop {
                let touched = host.text("remote", "touch_resource", json!({ "uri": uri }));
                touched.await;
                // A session that has no stream yet misses it.
                let update = tokio::time::timeout(Duration::from_millis(200), updates.recv());
                if let Ok(update) = update.await {
                    break update.unwrap();
                }
            }
        };
        let heard = tokio::time::timeout(TIMEOUT, hear).await;
        assert_eq!(heard.unwrap(), uri, "session {session}");
        if session == 1 {
            let outcome = host.call("remote", "counter", json!({})).await;
            assert!(!outcome.is_error());
            assert_eq!(count(&server, "initialize"), 2);
        }
    }
    assert_eq!(host.status("remote").restarts, 0);
}

#[tokio::test]
async fn a_proxy_whose_server_is_gone_is_a_server_that_is_gone() {
    for era in ERAS {
        for status in [502, 503, 504] {
            let (host, mut server) = connect(with_tool(era, "own")).await;
            server.stop();
            let broken = with_tool(era, "own");
            let broken =
                broken.http(|http| http.faults.push(Fault::always(FaultKind::Status(status))));
            let mut proxy = HttpServer::start_on(server.port(), broken);
            let outcome = host.call("remote", "counter", json!({})).await;
            assert!(outcome.is_error());
            let link = host.until("remote", |link| link.session.is_none()).await;
            assert_eq!(link.status, LinkStatus::Reconnecting, "{era:?}");
            host.until("remote", |link| {
                let error = link.error.as_ref().map(|error| error.text.clone());
                error.is_some_and(|text| text.contains(&format!("HTTP {status}")))
            })
            .await;
            proxy.stop();
            let _again = HttpServer::start_on(server.port(), with_tool(era, "own"));
            echoes(&host).await;
        }
    }
}

#[tokio::test]
async fn a_single_answer_of_a_proxy_does_not_end_a_session_that_works() {
    for era in ERAS {
        let behaviour = with_tool(era, "own").http(|http| {
            let fault = Fault::on("counter", FaultKind::Status(504)).times(1);
            http.faults.push(fault);
        });
        let (host, server) = connect(behaviour).await;
        let outcome = host.call("remote", "counter", json!({})).await;
        assert!(outcome.to_json().contains("HTTP 504"));
        assert_eq!(
            count(&server, "tools/call"),
            1,
            "it may have been processed"
        );
        echoes(&host).await;
        let status = host.status("remote");
        assert_eq!((status.status, status.restarts), (LinkStatus::Ready, 0));
    }
}

#[tokio::test]
async fn a_call_that_may_have_been_processed_is_not_repeated_when_its_server_goes() {
    for era in ERAS {
        let behaviour = with_tool(era, "own");
        let behaviour = behaviour.http(|http| {
            let fault = Fault::on("counter", FaultKind::Hangup).times(1);
            http.faults.push(fault);
        });
        let (host, server) = connect(behaviour).await;
        let outcome = host.call("remote", "counter", json!({})).await;
        assert!(outcome.is_error(), "{era:?}");
        echoes(&host).await;
        let calls = server.requests().into_iter();
        let calls = calls.filter(|request| {
            request.rpc_method() == "tools/call" && request.body.contains("counter")
        });
        assert_eq!(calls.count(), 1, "{era:?}");
    }
}

#[tokio::test]
async fn a_reload_looks_behind_a_ready_and_brings_back_what_is_gone() {
    for era in ERAS {
        // Without a stream or a call nobody notices.
        let mut behaviour = with_tool(era, "own");
        behaviour.http.get_stream = false;
        behaviour.lists.unannounced = true;
        let silent = behaviour;
        let (host, mut server) = connect(silent.clone()).await;
        let entry = json!({ "url": server.url() });
        let report = host.reload(&[("remote", entry.clone())]).await;
        assert_eq!(report.unchanged, ["remote"], "{era:?}");

        server.stop();
        assert_eq!(host.status("remote").status, LinkStatus::Ready, "{era:?}");
        let report = host.reload(&[("remote", entry.clone())]).await;
        assert_eq!(report.retried, ["remote"], "{era:?}");
        assert_eq!(
            host.status("remote").status,
            LinkStatus::Reconnecting,
            "{era:?}"
        );

        let _again = HttpServer::start_on(server.port(), silent);
        let report = host.reload(&[("remote", entry)]).await;
        assert_eq!(report.retried, ["remote"], "{era:?}");
        host.ready("remote").await;
        echoes(&host).await;
    }
}

/// Kills and restarts a server that nothing but its keepalive tells about.
async fn is_missed_by_its_keepalive(era: Era) {
    let mut behaviour = with_tool(era, "own");
    behaviour.http.get_stream = false;
    behaviour.lists.unannounced = true;
    let mut server = HttpServer::start(behaviour.clone());
    // The shortest interval that there is.
    let entry = json!({ "url": server.url(), "keepalive_interval": 5 });
    let host = TestHost::start(&[("remote", entry)]).await;
    host.ready("remote").await;
    // Nothing is left to be asked.
    host.remembered("remote").await;
    server.stop();
    host.reaches("remote", LinkStatus::Reconnecting).await;
    let _again = HttpServer::start_on(server.port(), behaviour);
    host.ready("remote").await;
    echoes(&host).await;
}

#[tokio::test]
async fn a_server_that_nobody_calls_is_missed_by_its_keepalive() {
    let missed = ERAS.map(|era| Box::pin(is_missed_by_its_keepalive(era)));
    futures::future::join_all(missed).await;
}

#[tokio::test]
async fn a_server_that_is_asked_for_by_name_is_looked_at_too() {
    let mut behaviour = with_tool(Era::Legacy, "own");
    behaviour.http.get_stream = false;
    let (host, mut server) = connect(behaviour).await;
    let name = hermes_config::ServerName::new("remote");
    host.host.check(&name).await;
    assert_eq!(host.status("remote").status, LinkStatus::Ready);
    server.stop();
    host.host.check(&name).await;
    host.until("remote", |link| link.status == LinkStatus::Reconnecting)
        .await;
}

/// What is measured by hand a hundred times: a server that comes and goes is called within five seconds of its return.
#[tokio::test]
async fn a_server_that_restarts_again_and_again_is_called_soon_after_each_return() {
    for era in ERAS {
        let behaviour = || with_tool(era, "own").http(|http| http.unknown_session = 400);
        let (host, mut first) = connect(behaviour()).await;
        let port = first.port();
        let mut again = None;
        for round in 0..8 {
            first.stop();
            drop(again.take());
            // Some are away for a moment, some longer than the first attempts.
            tokio::time::sleep(Duration::from_millis(150 * (round % 4))).await;
            again = Some(HttpServer::start_on(port, behaviour()));
            let back = Instant::now();
            loop {
                let outcome = host.call("remote", "counter", json!({})).await;
                if !outcome.is_error() {
                    break;
                }
            }
            let took = back.elapsed();
            // A busy machine is given more than the five.
            assert!(took < Duration::from_secs(15), "{era:?}, {round}: {took:?}");
        }
    }
}
