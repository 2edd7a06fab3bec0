//! Precedence of the Hub's settings, its documents and a tenant's own settings.

use std::time::Duration;

use hermes_hub::{
    TenantId,
    storage::{audit::NewAuditEntry, state::DocumentKind},
};
use hermes_protocol::Policy;
use hermes_testkit::eventually;
use serde_json::json;

use crate::{
    agent_harness::{ScriptedRuntime, TIMEOUT},
    test_hub::TestHub,
};

#[tokio::test]
async fn documents_override_only_what_they_say() {
    let site = TestHub::with_settings(|settings, _| {
        settings.runs.max_concurrent = 9;
        settings.idle_stop_seconds = 77;
    })
    .await;
    site.tenant(json!({"id": "acme"})).await;
    let agent = async || site.get("/v1/tenants/acme").await.expect(200)["agent"].clone();
    let first = agent().await;
    assert_eq!(
        (&first["maxConcurrentRuns"], &first["idleStopSeconds"]),
        (&json!(9), &json!(77))
    );
    let policy = site.get("/v1/agent-policy").await.expect(200);
    assert_eq!(policy["policy"]["runs"]["maxConcurrent"], 9);

    let patch = json!({"runs": {"maxConcurrent": 6}});
    site.patch("/v1/config/tenant-impact", &patch)
        .await
        .expect(200);
    let patched = agent().await;
    assert_eq!(
        (&patched["maxConcurrentRuns"], &patched["idleStopSeconds"]),
        (&json!(6), &json!(77))
    );

    let policy = json!({"runs": {"maxConcurrent": 2}});
    site.put("/v1/agent-policy", &policy).await.expect(200);
    assert_eq!(agent().await["maxConcurrentRuns"], 2);
    site.put(
        "/v1/agent-policy",
        &json!({"tools": {"deny": ["terminal"]}}),
    )
    .await
    .expect(200);
    assert_eq!(agent().await["maxConcurrentRuns"], 6);
}

#[tokio::test]
async fn a_tenant_that_is_blocked_without_a_word_has_the_usual_one() {
    let site = TestHub::new().await;
    site.tenant(json!({"id": "acme"})).await;
    let rules = json!({"access": {"blockedMessage": "Ask accounting."}});
    site.patch("/v1/config/tenant-impact", &rules)
        .await
        .expect(200);
    let access = "/v1/tenants/acme/access";
    let block = json!({"status": "blocked"});
    let blocked = site.put(access, &block).await.expect(200);
    assert_eq!(blocked["message"], "Ask accounting.");
    let block = json!({"status": "blocked", "message": "Not today."});
    let blocked = site.put(access, &block).await.expect(200);
    assert_eq!(blocked["message"], "Not today.");
    let active = site.put(access, &json!({"status": "active"})).await;
    assert_eq!(active.expect(200)["message"], json!(null));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_reaches_agents_whole_and_past_one_that_hangs() {
    let agent = ScriptedRuntime::new();
    let site = TestHub::with_runtime(agent.clone(), |_, _| {}).await;
    let ids = ["a", "b", "c"].map(|id| TenantId::parse(id).unwrap());
    for id in &ids {
        site.tenant(json!({"id": id.as_str()})).await;
        let state = format!("/v1/tenants/{id}/agent");
        site.wait_until(&state, |agent| agent["state"] == "idle")
            .await;
    }
    agent.hang_on_apply(&ids[0]);
    let policy = json!({"tools": {"deny": ["terminal"]}});
    site.put("/v1/agent-policy", &policy).await.expect(200);
    for id in &ids[1..] {
        let knows = || {
            let directives = agent.directives(id).unwrap();
            directives.policy.tools.deny == ["terminal"]
        };
        assert!(
            eventually(TIMEOUT, knows).await,
            "{id} does not know the policy"
        );
        // What the document leaves out is filled in.
        let policy = agent.directives(id).unwrap().policy;
        assert_eq!(policy.cron.max_jobs, 50, "{policy:?}");
    }
    let first = agent.directives(&ids[0]).unwrap();
    assert!(first.policy.tools.deny.is_empty(), "it does not hang");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_begins_under_the_policy_of_its_time_however_late_the_agent_is_told() {
    let agent = ScriptedRuntime::new();
    let site = TestHub::with_runtime(agent.clone(), |_, _| {}).await;
    site.tenant(json!({"id": "a"})).await;
    let id = TenantId::parse("a").unwrap();
    site.wait_until("/v1/tenants/a/agent", |agent| agent["state"] == "idle")
        .await;
    agent.delay_applying(Duration::from_millis(500));
    for denied in ["terminal", "write_file"] {
        let policy = json!({"tools": {"deny": [denied]}});
        site.put("/v1/agent-policy", &policy).await.expect(200);
        let run = json!({"input": "say=1"});
        let run = site.post("/v1/tenants/a/runs", &run).await.expect(202);
        let path = format!("/v1/tenants/a/runs/{}", run["runId"].as_str().unwrap());
        site.wait_until(&path, |run| run["status"] == "completed")
            .await;
        let began = agent.directives_at_runs(&id).pop().unwrap();
        assert_eq!(began.policy.tools.deny, [denied]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stored_policy_that_cannot_be_read_allows_nothing() {
    let agent = ScriptedRuntime::new();
    let site = TestHub::with_runtime(agent.clone(), |_, _| {}).await;
    site.tenant(json!({"id": "a"})).await;
    let explain = async || {
        let question = json!({"tenantId": "a", "tool": "terminal"});
        let answer = site.post("/v1/agent-policy/explain", &question).await;
        answer.expect(200)["decision"].clone()
    };
    assert_eq!(explain().await, "allow");
    // As a later version may have written it.
    let document = json!({"tools": {"allow": ["*"], "quota": 5}});
    let entry = NewAuditEntry::by_hub("put_agent_policy");
    let kind = DocumentKind::Policy;
    let state = site.hub.state();
    let put = state.put_document(kind, document, "tok_1", None, entry);
    let stored = put.await.unwrap();
    let specialization = json!({"content": "Be brief."});
    site.put("/v1/agent-specialization", &specialization)
        .await
        .expect(200);
    assert_eq!(explain().await, "deny");
    let id = TenantId::parse("a").unwrap();
    // It may only be starting yet.
    let is_closed = || {
        let known = agent.directives(&id);
        known.is_some_and(|known| known.policy == Policy::closed())
    };
    assert!(eventually(TIMEOUT, is_closed).await);

    // Nor can anybody go back to it.
    site.put("/v1/agent-policy", &json!({})).await.expect(200);
    assert_eq!(explain().await, "allow");
    let restore = format!("/v1/agent-policy/revisions/{}/restore", stored.revision);
    site.post(&restore, &json!({})).await.expect(422);
    assert_eq!(explain().await, "allow");
}
