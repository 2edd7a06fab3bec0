//! One gateway per home, its end, and what is left when it is killed.

use std::fs;

use hermes_testkit::model::{ReplyEnding, ScriptedAnswer};
use rustix::process::Signal;

use super::*;
use crate::harness::{
    program::{entry, with_tools},
    test_home::{assert_gone, is_running, read_pids, wait_until},
};

fn stalled() -> ScriptedAnswer {
    ScriptedAnswer::text("begun").with(|reply| reply.ending = ReplyEnding::Stalled)
}

#[test]
fn a_second_gateway_of_a_home_is_refused_and_the_first_can_be_replaced() {
    let place = GatewayHome::new(ModelScript::echo());
    let none = place.home.run(&["gateway", "status", "--json"]).ok().json();
    assert_eq!(none["running"], false);
    place.home.run(&["gateway", "stop"]).exits_with(3);
    let mut first = place.start();
    let pid = first.process.pid();
    let second = place.home.run(&["gateway", "run"]).exits_with(1);
    assert!(
        second.stderr.contains(&format!("process {pid}")),
        "{}",
        second.stderr
    );
    let status = place.home.run(&["gateway", "status", "--json"]).ok().json();
    assert_eq!(
        (&status["running"], &status["pid"]),
        (&json!(true), &json!(pid))
    );
    assert_eq!(status["gateway_state"], "running");
    assert_eq!(status["kind"], "hermes-gateway");
    assert_eq!(status["platforms"]["api_server"]["state"], "connected");
    let next = place.start_with(&["gateway", "run", "--replace"]);
    assert_eq!(first.process.wait(), Some(0));
    assert_eq!(next.get("/health"), json!({"status": "ok"}));
    place.home.run(&["gateway", "stop"]).ok();
    assert!(!is_running(next.process.pid()));
    let status = place.home.run(&["gateway", "status", "--json"]).ok().json();
    assert_eq!(
        (&status["running"], &status["pid"]),
        (&json!(false), &Value::Null)
    );
    assert_eq!(
        (&status["gateway_state"], &status["exit_reason"]),
        (&json!("stopped"), &json!("SIGTERM"))
    );
    assert!(!place.home.path().join("gateway.pid").exists());
}

#[test]
fn a_killed_gateway_loses_no_run_and_says_what_became_of_it() {
    let script = ModelScript::echo().rule("stall", stalled());
    let place = GatewayHome::new(script);
    let mut first = place.start();
    let done = first.run(&json!({"input": "hi"}));
    let done_events = first.events(&done);
    let headers = "Idempotency-Key: k\r\n";
    let body = json!({"input": "stall", "session_id": "s"});
    let (_, started) = first.request("POST", "/v1/runs", headers, &body);
    let cut = started["run_id"].as_str().unwrap().to_owned();
    // A second one waits for its turn in the same session.
    let waiting = first.run(&json!({"input": "later", "session_id": "s"}));
    first.wait_for(&cut, "running");
    wait_until("text", || {
        first.get(&format!("/v1/runs/{cut}"))["last_event"] == "message.delta"
    });
    first.process.kill();

    let next = place.start();
    for run in [&cut, &waiting] {
        let shown = next.get(&format!("/v1/runs/{run}"));
        assert_eq!(shown["status"], "failed", "{shown}");
        assert_eq!(shown["error"]["code"], "interrupted");
    }
    let events = next.events(&cut);
    let names: Vec<&str> = events
        .iter()
        .map(|event| event["event"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["run.started", "message.delta", "run.failed"]);
    assert_eq!(next.events(&done), done_events);
    let (status, again) = next.request("POST", "/v1/runs", headers, &body);
    assert_eq!((status, &again["run_id"]), (202, &json!(cut)));
    // The session goes on.
    let more = next.run(&json!({"input": "more", "session_id": "s"}));
    assert_eq!(next.wait_for(&more, "completed")["output"], "more");
}

#[test]
fn commands_end_with_a_gateway_that_is_killed() {
    // One in a session of its own, one that leaves even that, and the one that is waited for.
    let command = "sleep 631 & echo $! >>\"$HOME/pids\"; setsid sleep 632 & echo $! >>\"$HOME/pids\"; \
                   echo $$ >>\"$HOME/pids\"; exec sleep 633";
    let call = ScriptedAnswer::call("terminal", &json!({"command": command}));
    let place = GatewayHome::with_more(
        ModelScript::echo().rule("work", call),
        "approvals: {mode: 'off'}",
    );
    let mut gateway = place.start();
    let run = gateway.run(&json!({"input": "work"}));
    let pids = place.home.beside("pids");
    wait_until("all commands", || read_pids(&pids).len() == 3);
    let pids = read_pids(&pids);
    assert!(pids.iter().all(|pid| is_running(*pid)), "{pids:?}");
    gateway.process.kill();
    assert_gone(&pids, TIMEOUT);

    // Nothing begins anew with the next one.
    let next = place.start();
    let shown = next.get(&format!("/v1/runs/{run}"));
    assert_eq!(shown["error"]["code"], "interrupted", "{shown}");
    assert_eq!(place.model.requests().len(), 1);
}

#[test]
fn a_run_under_way_gets_the_time_that_is_set_and_is_then_interrupted() {
    let slow = ScriptedAnswer::pieces(["a", "b"]).with(|reply| reply.pause_ms = 1500);
    let script = ModelScript::echo()
        .rule("slow", slow)
        .rule("stall", stalled());
    let more = "agent: {restart_drain_timeout: 8, api_max_retries: 0}";
    let place = GatewayHome::new(script);
    let config = fs::read_to_string(place.home.config()).unwrap();
    place
        .home
        .write_config(&config.replace("agent: {api_max_retries: 0}", more));
    let mut gateway = place.start();
    let slow = gateway.run(&json!({"input": "slow"}));
    let stall = gateway.run(&json!({"input": "stall"}));
    gateway.wait_for(&slow, "running");
    gateway.wait_for(&stall, "running");
    gateway.process.signal(Signal::TERM);
    gateway.process.wait_for("stopping");
    let refused = gateway.post("/v1/runs", &json!({"input": "new"}));
    assert_eq!(refused.0, 503, "{refused:?}");
    assert_eq!(gateway.process.wait(), Some(0));
    let next = place.start();
    let shown = next.get(&format!("/v1/runs/{slow}"));
    assert_eq!(
        (&shown["status"], &shown["output"]),
        (&json!("completed"), &json!("ab"))
    );
    let shown = next.get(&format!("/v1/runs/{stall}"));
    assert_eq!(shown["error"]["code"], "interrupted");
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let place = GatewayHome::new(ModelScript::echo().rule("stall", stalled()));
    let config = fs::read_to_string(place.home.config()).unwrap();
    let more = "agent: {restart_drain_timeout: 600, api_max_retries: 0}";
    place
        .home
        .write_config(&config.replace("agent: {api_max_retries: 0}", more));
    let mut gateway = place.start();
    let run = gateway.run(&json!({"input": "stall"}));
    gateway.wait_for(&run, "running");
    gateway.process.signal(Signal::INT);
    gateway.process.wait_for("stopping");
    gateway.process.signal(Signal::INT);
    assert_eq!(gateway.process.wait(), Some(130));
}

#[test]
fn servers_are_connected_once_and_their_tools_serve_every_run() {
    let script =
        ModelScript::echo().rule("please", ScriptedAnswer::call("mcp_one_hello", &json!({})));
    let place = GatewayHome::new(script);
    let record = place.home.beside("starts");
    let mut behaviour = with_tools(&["hello"]);
    behaviour.process.pid_file = Some(record.clone());
    let config = fs::read_to_string(place.home.config()).unwrap();
    let servers = json!({"one": entry(&behaviour)});
    place
        .home
        .write_config(&format!("{config}mcp_servers: {servers}\n"));
    let gateway = place.start();
    for session in ["a", "b"] {
        let run = gateway.run(&json!({"input": "please", "session_id": session}));
        let events = gateway.events(&run);
        assert!(
            events
                .iter()
                .any(|event| event["tool"] == "mcp_one_hello" && event["error"] == false),
            "{events:?}"
        );
        gateway.post(&format!("/v1/runs/{run}/stop"), &json!({}));
    }
    assert_eq!(read_pids(&record).len(), 1);
    let health = gateway.get("/health/detailed");
    assert_eq!(health["mcp_servers"][0]["status"], "ready");
}

#[test]
fn a_short_key_or_an_open_address_leaves_the_api_off() {
    let place = GatewayHome::new(ModelScript::echo());
    for (key, host, trouble) in [
        ("short", "127.0.0.1", "fewer than 16 characters"),
        (KEY, "0.0.0.0", "allow_http"),
    ] {
        let mut command = place.home.command(&["gateway"]);
        command
            .env("API_SERVER_KEY", key)
            .env("API_SERVER_HOST", host);
        let mut gateway = BackgroundProcess::start(command);
        let line = gateway.wait_for("no HTTP API");
        assert!(line.contains(trouble), "{line}");
        wait_until("the state", || {
            let status = place.home.run(&["gateway", "status", "--json"]).ok().json();
            status["gateway_state"] == "degraded"
        });
        gateway.signal(Signal::TERM);
        assert_eq!(gateway.wait(), Some(0));
    }
}
