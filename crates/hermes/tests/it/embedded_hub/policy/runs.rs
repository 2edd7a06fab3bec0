//! `runs`: how many at once, and how long each may take.

use std::time::Duration;

use hermes_testkit::{eventually, eventually_some};

use super::{super::real_hub::TIMEOUT, *};

/// Whether a run has got as far as its command.
fn is_at_work(run: &Value) -> bool {
    run["lastEventId"].as_u64() > Some(1)
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_runs_go_on_at_once_than_the_policy_allows() {
    let hub = RealHub::start();
    let wait = json!({"command": "until test -e go; do sleep 0.05; done"});
    let _model = tenant_calling(&hub, "terminal", &wait).await;
    let go = |hub: &RealHub| hub.tenant_home("acme").join("workspace/go");
    for (limit, is_parallel) in [(2, true), (1, false)] {
        put(&hub, json!({"runs": {"maxConcurrent": limit}})).await;
        let first = hub.start_run("acme", "begin").await;
        hub.wait_for(&first, is_at_work).await;
        let second = hub.start_run("acme", "begin").await;
        if is_parallel {
            hub.wait_for(&second, is_at_work).await;
        } else {
            let begins = async || {
                let shown = hub.get(&second).await;
                (shown["status"] != "queued").then_some(shown)
            };
            let begun = eventually_some(Duration::from_secs(2), begins).await;
            assert!(begun.is_none(), "{begun:?}");
        }
        fs::write(go(&hub), "").unwrap();
        for run in [first, second] {
            let ended = hub.wait_for_end(&run).await;
            assert_eq!(ended["status"], "completed", "{ended}");
        }
        fs::remove_file(go(&hub)).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_takes_longer_than_the_policy_allows_is_stopped() {
    let hub = RealHub::start();
    // The shortest limit there is, and an answer that takes a little longer.
    let late = ScriptedAnswer::text("late").with(|reply| reply.delay_ms = 70_000);
    let script = ModelScript::echo().rule("begin", late);
    let model = hub.tenant("acme", json!({}), script).await;
    // A run keeps the limit that it began with.
    let unlimited = hub.start_run("acme", "begin").await;
    assert!(eventually(TIMEOUT, || !model.requests().is_empty()).await);
    put(&hub, json!({"runs": {"maxMinutes": 1}})).await;
    let limited = hub.start_run("acme", "begin").await;
    let limited = hub.wait_for_end(&limited).await;
    assert_eq!(limited["status"], "failed", "{limited}");
    let code = limited["error"]["code"].as_str().unwrap();
    assert!(["timeout", "too_long"].contains(&code), "{limited}");
    let unlimited = hub.wait_for_end(&unlimited).await;
    assert_eq!(unlimited["output"], "late", "{unlimited}");
}
