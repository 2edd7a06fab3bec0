//! Those who watch a run: over HTTP and from the command line, whenever they come and however they leave.

use std::{
    hash::{BuildHasher, RandomState},
    time::Duration,
};

use futures::StreamExt;
use hermes_testkit::model::{ModelScript, ReplyEnding, ScriptedAnswer};
use reqwest::Method;
use rustix::process::Signal;
use serde_json::{Value, json};
use sse_stream::SseStream;

use super::real_hub::{RealHub, TIMEOUT};
use crate::harness::test_home::BackgroundProcess;

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_that_is_interrupted_says_so_and_the_run_should_continue() {
    let hub = RealHub::start();
    let stalled = ScriptedAnswer::text("begun").with(|reply| reply.ending = ReplyEnding::Stalled);
    let _model = hub
        .tenant("acme", json!({}), ModelScript::new([stalled]))
        .await;
    let interrupted = |arguments: &[&str]| {
        let mut watch = BackgroundProcess::start(hub.command(arguments));
        let line = watch.wait_for("message.delta");
        watch.signal(Signal::INT);
        assert_eq!(watch.wait(), Some(130), "{arguments:?}: {:?}", watch.seen);
        serde_json::from_str::<Value>(&line).unwrap()
    };
    let event = interrupted(&["tenant", "run", "acme", "Hello", "--watch", "--json"]);
    let run = event["runId"].as_str().unwrap();
    interrupted(&["tenant", "watch", "acme", run, "--json"]);

    let run = format!("/v1/tenants/acme/runs/{run}");
    assert_eq!(hub.get(&run).await["status"], "running");
    let stop = format!("{run}/stop");
    hub.request(Method::POST, &stop, &json!({}))
        .await
        .expect(202);
    assert_eq!(hub.wait_for_end(&run).await["status"], "cancelled");
}

/// Another number each time.
fn below(most: u64) -> u64 {
    RandomState::new().hash_one(most) % most
}

/// What somebody sees who leaves again and again and comes back behind what was seen, and how often that was.
async fn watch_with_drops(hub: &RealHub, run: &str) -> (Vec<Value>, u32) {
    let mut seen: Vec<Value> = Vec::new();
    let mut visits = 0;
    loop {
        visits += 1;
        let after = seen.last().map_or(0, |event| event["id"].as_u64().unwrap());
        let response = hub.events(run, after).await;
        let mut events = SseStream::from_bytes_stream(response.bytes_stream());
        for _ in 0..=below(8) {
            let Some(event) = events.next().await else {
                return (seen, visits);
            };
            let event = event.unwrap();
            let data: Value = serde_json::from_str(&event.data.unwrap()).unwrap();
            assert_eq!(event.id.unwrap(), data["id"].to_string());
            seen.push(data);
        }
        drop(events);
        tokio::time::sleep(Duration::from_millis(below(30))).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_watchers_over_http_with_random_drops_see_one_sequence() {
    let hub = RealHub::start();
    let round = |number: u32| {
        let command = json!({"command": format!("echo {number}")});
        ScriptedAnswer::call("terminal", &command)
            .with(|reply| reply.text = vec![format!("{number} ")])
    };
    let script = ModelScript::new((0..25).map(round).chain([ScriptedAnswer::text("done")]));
    let _model = hub.tenant("acme", json!({}), script).await;
    let run = hub.start_run("acme", "count").await;
    let watchers = (0..10).map(|_| watch_with_drops(&hub, &run));
    let all = tokio::time::timeout(TIMEOUT, futures::future::join_all(watchers));
    let watched = all.await.expect("watchers do not come to an end");

    let (first, _) = &watched[0];
    assert!(first.len() > 50, "{first:?}");
    assert_eq!(first.last().unwrap()["event"], "run.completed");
    let expected: Vec<u64> = (1..=first.len() as u64).collect();
    for (sequence, visits) in &watched {
        let ids = sequence.iter().map(|event| event["id"].as_u64().unwrap());
        assert_eq!(ids.collect::<Vec<_>>(), expected);
        assert_eq!(sequence, first);
        assert!(*visits > 5, "{visits} visits are too few to tell");
    }
}
