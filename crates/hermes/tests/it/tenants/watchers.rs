//! Those who watch a run from the command line, and how they leave.

use hermes_testkit::model::{Answer, Ending, Script};
use reqwest::Method;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::real_hub::RealHub;
use crate::running::Background;

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_that_is_interrupted_says_so_and_the_run_goes_on() {
    let hub = RealHub::start();
    let stalled = Answer::text("begun").with(|reply| reply.ending = Ending::Stalled);
    let _model = hub.tenant("acme", json!({}), Script::new([stalled])).await;
    let interrupted = |arguments: &[&str]| {
        let mut watch = Background::start(hub.command(arguments));
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
    hub.ask(Method::POST, &stop, &json!({})).await.expect(202);
    assert_eq!(hub.ended(&run).await["status"], "cancelled");
}
