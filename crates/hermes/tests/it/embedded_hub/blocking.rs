//! A tenant that is blocked over the API: what it does ends, nothing begins, and nothing of that is made up for.

use hermes_testkit::model::{ModelScript, ReplyEnding, ScriptedAnswer};
use jiff::Timestamp;
use reqwest::Method;
use serde_json::{Value, json};

use super::real_hub::{RealHub, TIMEOUT};
use crate::harness::test_home::assert_gone;

async fn set_access(hub: &RealHub, status: &str) {
    let path = "/v1/tenants/acme/access";
    hub.request(Method::PUT, path, &json!({"status": status}))
        .await
        .expect(200);
}

async fn is_refused(hub: &RealHub, path: &str, body: Value) {
    let refused = hub.request(Method::POST, path, &body).await.expect(403);
    assert_eq!(refused["reason"], "tenant_blocked", "{path}: {refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn blocking_ends_what_a_tenant_does_and_unblocking_brings_no_burst() {
    let hub = RealHub::start();
    let stalled = ScriptedAnswer::text("begun").with(|reply| reply.ending = ReplyEnding::Stalled);
    let script = ModelScript::default()
        .rule("stall", stalled)
        .rule("water the plants", ScriptedAnswer::text("watered"));
    let one_at_a_time = json!({"agent": {"maxConcurrentRuns": 1}});
    let model = hub.tenant("acme", one_at_a_time, script).await;
    let under_way = hub.start_run("acme", "stall").await;
    hub.wait_for(&under_way, |run| run["lastEventId"].as_u64() > Some(1))
        .await;
    let waiting = hub.start_run("acme", "wait your turn").await;
    assert_eq!(hub.get(&waiting).await["status"], "queued");
    let agent = hub.get("/v1/tenants/acme/agent").await;
    let pid = u32::try_from(agent["pid"].as_u64().unwrap()).unwrap();

    set_access(&hub, "blocked").await;
    for run in [&under_way, &waiting] {
        let run = hub.wait_for_end(run).await;
        assert_eq!(run["status"], "cancelled", "{run}");
    }
    assert_gone(&[pid], TIMEOUT);
    is_refused(&hub, "/v1/tenants/acme/runs", json!({"input": "hello"})).await;
    let mut missed = Vec::new();
    for prompt in ["feed the cat", "feed the dog"] {
        let due = Timestamp::now().to_string();
        missed.push(hub.job("acme", &due, prompt).await);
    }
    for job in &missed {
        is_refused(&hub, &format!("{job}/run"), json!({})).await;
        let shown = hub
            .wait_for(job, |job| job["executions"] != json!([]))
            .await;
        let execution = &shown["executions"][0];
        assert_eq!(execution["status"], "skipped", "{shown}");
        assert_eq!(execution["error"], "the tenant is blocked", "{shown}");
    }
    let agent = hub.get("/v1/tenants/acme/agent").await;
    assert_eq!(agent["pid"], Value::Null, "{agent}");

    set_access(&hub, "active").await;
    assert_eq!(hub.run("acme", "hello").await["output"], "hello");
    // The clock deals with what is due in order: behind this one there is nothing left of the others.
    let due = Timestamp::now().to_string();
    hub.job("acme", &due, "water the plants").await;
    let is_over = |all: &Value| {
        let newest = &all["runs"][0];
        newest["trigger"] == "cron" && newest["status"] == "completed"
    };
    let all = hub.wait_for("/v1/tenants/acme/runs", is_over).await;
    assert_eq!(all["runs"][0]["output"], "watered", "{all}");
    assert_eq!(all["runs"].as_array().unwrap().len(), 4, "{all}");
    for job in &missed {
        let job = hub.get(job).await;
        assert_eq!(job["executions"].as_array().unwrap().len(), 1, "{job}");
    }
    let asked = model.requests();
    let asked = asked.iter().map(|request| request.body.to_string());
    let asked: String = asked.collect();
    for never in ["wait your turn", "feed the"] {
        assert!(!asked.contains(never), "{never}: {asked}");
    }
}
