//! What changes an `ETag` and what does not; settings that would have no effect.

use hermes_hub::{
    TenantId,
    api_types::{Condition, ConditionStatus, Time},
    storage::state::TenantObservation,
};
use reqwest::Method;
use serde_json::json;

use crate::test_hub::TestHub;

const TENANT: &str = "/v1/tenants/tenant_123";

#[tokio::test]
async fn what_the_hub_finds_out_by_itself_leaves_a_tenants_version() {
    let site = TestHub::new().await.with_examples().await;
    let before = site.get(TENANT).await;
    let version = before.header("etag").to_owned();
    let tenant = TenantId::parse("tenant_123").unwrap();
    let condition = Condition {
        kind: "AgentHealthy".into(),
        status: ConditionStatus::False,
        reason: "signal".into(),
        message: String::new(),
        last_transition_time: Time::now(),
    };
    let observation = TenantObservation {
        conditions: vec![condition],
        ..TenantObservation::default()
    };
    let state = site.hub.state();
    state.observe_tenant(&tenant, observation).await.unwrap();
    let after = site.get(TENANT).await;
    assert_eq!(after.header("etag"), version);
    let (before, after) = (before.expect(200), after.expect(200));
    assert_eq!(after["updatedAt"], before["updatedAt"]);
    let conditions = after["conditions"].as_array().unwrap();
    assert!(conditions.iter().any(|one| one["type"] == "AgentHealthy"));
    // So a client that read it before may still change it.
    let change = site
        .request(&site.admin, Method::PATCH, TENANT)
        .header("if-match", &version)
        .header("content-type", "application/json")
        .body(json!({"displayName": "Another"}).to_string());
    let changed = site.send(change).await;
    assert_ne!(changed.header("etag"), version);
    changed.expect(200);
}

#[tokio::test]
async fn a_run_of_a_job_leaves_the_jobs_version() {
    let site = TestHub::new().await.with_examples().await;
    let job = format!("{TENANT}/agent-cron/job_123");
    let version = site.get(&job).await.header("etag").to_owned();
    let file = site.home("tenant_123").join("cron/jobs.json");
    let text = std::fs::read_to_string(&file).unwrap();
    let mut jobs: serde_json::Value = serde_json::from_str(&text).unwrap();
    let record = &mut jobs["jobs"][0];
    record["last_run_at"] = json!("2026-02-01T09:00:00.000000+00:00");
    record["next_run_at"] = json!("2036-02-02T09:00:00.000000+00:00");
    record["last_status"] = json!("ok");
    record["repeat"]["completed"] = json!(1);
    std::fs::write(&file, jobs.to_string()).unwrap();
    let after = site.get(&job).await;
    assert_eq!(after.header("etag"), version);
    assert_eq!(after.expect(200)["job"]["last_status"], "ok");
    let changed = site.patch(&job, &json!({"name": "Another"})).await;
    assert_ne!(changed.header("etag"), version);
}

#[tokio::test]
async fn a_setting_that_would_have_no_effect_is_refused_with_that_reason() {
    let site = TestHub::new().await.with_examples().await;
    for (browser, place) in [
        (json!({"enabled": true}), "/browser/enabled"),
        (json!({"mode": "headless"}), "/browser/mode"),
        (json!({"maxTabs": 8}), "/browser/maxTabs"),
    ] {
        let body = json!({"browser": browser});
        let refused = site.patch(TENANT, &body).await.expect(422);
        assert_eq!(refused["details"][0]["field"], place, "{refused}");
        let message = refused["message"].as_str().unwrap();
        assert!(message.contains("has no effect"), "{message}");
        site.post("/v1/tenants", &body).await.expect(422);
        let refused = site.patch("/v1/config/tenant-impact", &body).await;
        let refused = refused.expect(422);
        assert_eq!(refused["details"][0]["field"], place, "{refused}");
    }
    // The shown values may be sent back.
    let shown = site.get(TENANT).await.expect(200);
    let same = json!({"browser": shown["browser"]});
    site.patch(TENANT, &same).await.expect(200);
}

#[tokio::test]
async fn a_move_makes_the_directories_above_its_target() {
    let site = TestHub::new().await.with_examples().await;
    let share = format!("{TENANT}/shares/division1");
    let file = json!({"path": "plan.md", "content": "one"});
    site.put(&format!("{share}/files/content"), &file)
        .await
        .expect(201);
    let to = json!({"from": "plan.md", "to": "archive/2026/q1/plan.md"});
    site.post(&format!("{share}/move"), &to).await.expect(200);
    let moved = site
        .get(&format!(
            "{share}/files/content?path=archive/2026/q1/plan.md"
        ))
        .await
        .expect(200);
    assert_eq!(moved["content"], "one");
}

#[tokio::test]
async fn a_job_tells_what_its_schedule_was_understood_to_mean() {
    let site = TestHub::new().await.with_examples().await;
    let cron = format!("{TENANT}/agent-cron");
    for (schedule, words, count) in [
        ("every monday 9am", "on Monday at 09:00 (UTC)", 3),
        ("0 9 * * MON-FRI", "on Monday to Friday at 09:00 (UTC)", 3),
        ("daily at 18:30", "every day at 18:30 (UTC)", 3),
        ("every hour", "every hour", 3),
        ("in 30m", "once, on", 1),
    ] {
        let job = json!({"schedule": schedule, "prompt": "x"});
        let made = site.post(&cron, &job).await.expect(201);
        let understood = &made["understood"];
        let said = understood["words"].as_str().unwrap();
        assert!(said.starts_with(words), "{schedule}: {said}");
        let next = understood["next"].as_array().unwrap();
        assert_eq!(next.len(), count, "{schedule}: {understood}");
        assert_eq!(next[0], made["job"]["next_run_at"], "{schedule}");
        let id = made["job"]["id"].as_str().unwrap();
        let job = format!("{cron}/{id}");
        let patch = json!({"schedule": "weekdays at 9am"});
        let changed = site.patch(&job, &patch).await.expect(200);
        let said = changed["understood"]["words"].as_str().unwrap();
        assert_eq!(said, "on Monday to Friday at 09:00 (UTC)");
    }
}
