//! Jobs: told in words, made with the schedule editor, changed, paused, deleted.

use serde_json::{Value, json};

use super::ConsoleBrowser;
use crate::test_hub::TestHub;

const PAGE: &str = "/tenants/tenant_123/cron";
const JOBS: &str = "/v1/tenants/tenant_123/agent-cron";

async fn job(hub: &TestHub, id: &str) -> Value {
    let found = hub.get(&format!("{JOBS}/{id}")).await.expect(200);
    found["job"].clone()
}

#[tokio::test]
async fn jobs_are_told_in_words_of_the_readers_language() {
    let hub = TestHub::new().await.with_examples().await;
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let page = admin.get(PAGE).await.expect_status(200);
    page.assert_shows("every day at 09:00");
    let page = admin
        .get(&format!("{PAGE}/job_123"))
        .await
        .expect_status(200);
    page.assert_shows("every day at 09:00");
    let times = page.text.matches("09:00 UTC</td>").count();
    assert_eq!(times, 5, "{}", page.text);
    let german = admin.speaking("de");
    let page = german.get(PAGE).await;
    page.assert_shows("jeden Tag um 09:00");
}

#[tokio::test]
async fn the_schedule_editor_makes_the_schedule_that_it_says() {
    let hub = TestHub::new().await.with_examples().await;
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let fields = [
        ("tenant_id", "tenant_123"),
        ("job.prompt", "Plan <i>the</i> week"),
        ("job.name", "<script>week"),
        ("job.schedule:schedule", "weekly"),
        ("job.schedule:time", "08:15"),
        ("job.schedule:weekday", "1"),
        ("job.schedule:weekday", "4"),
        ("job.schedule:every", "30"),
        ("job.repeat", "3"),
        ("next", PAGE),
    ];
    let page = admin.submit("/do/create_tenant_cron", &fields).await;
    let page = page.expect_status(200);
    page.assert_shows("on Monday and Thursday at 08:15");
    page.assert_lacks("<script>week");
    let jobs = hub.get(JOBS).await.expect(200);
    let mut jobs = jobs["jobs"].as_array().unwrap().iter();
    let made = jobs.find(|job| job["name"] == "<script>week").unwrap();
    assert_eq!(made["schedule"]["expr"], "15 8 * * 1,4");
    assert_eq!(made["repeat"]["times"], 3);
    let wrong = [
        ("tenant_id", "tenant_123"),
        ("job.prompt", "x"),
        ("job.schedule:schedule", "daily"),
        ("job.schedule:time", "25:00"),
        ("next", PAGE),
    ];
    let refused = admin.submit("/do/create_tenant_cron", &wrong).await;
    refused.expect_status(400).assert_shows("09:30");
}

#[tokio::test]
async fn a_job_is_changed_paused_resumed_and_deleted() {
    let hub = TestHub::new().await.with_examples().await;
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let address = format!("{PAGE}/job_123");
    let named = [("tenant_id", "tenant_123"), ("job_id", "job_123")];
    let with = |more: &[(&'static str, &'static str)]| {
        let mut fields = named.to_vec();
        fields.extend_from_slice(more);
        fields
    };
    let before = job(&hub, "job_123").await;
    let unchanged = with(&[
        ("patch.prompt", "Summarize <b>all</b>"),
        ("patch.schedule:schedule", "daily"),
        ("patch.schedule:time", "09:00"),
        ("patch.schedule:was", "0 9 * * *"),
        ("next", "/tenants/tenant_123/cron/job_123"),
    ]);
    let page = admin.submit("/do/update_tenant_cron", &unchanged).await;
    let page = page.expect_status(200);
    page.assert_shows("Summarize &#60;b&#62;all&#60;/b&#62;");
    let after = job(&hub, "job_123").await;
    assert_eq!(after["schedule"], before["schedule"]);
    let stale = with(&[
        ("patch.prompt", "Mine"),
        ("if_match", "\"0\""),
        ("current", "get_tenant_cron:/job"),
        ("next", "/tenants/tenant_123/cron/job_123"),
    ]);
    let conflict = admin.submit("/do/update_tenant_cron", &stale).await;
    conflict.expect_status(412).assert_shows("<ins>Mine</ins>");
    let go = with(&[("next", "/tenants/tenant_123/cron/job_123")]);
    let page = admin.submit("/do/pause_tenant_cron", &go).await;
    page.assert_shows("/do/resume_tenant_cron");
    page.assert_shows("No time is to come.");
    let page = admin.submit("/do/resume_tenant_cron", &go).await;
    page.assert_shows("/do/pause_tenant_cron");
    let gone = with(&[("next", PAGE)]);
    let page = admin.submit("/do/delete_tenant_cron", &gone).await;
    page.expect_status(200).assert_shows("No job yet.");
    admin.get(&address).await.expect_status(404);
}

#[tokio::test]
async fn delivery_is_told_apart_from_the_run() {
    let hub = TestHub::new().await.with_examples().await;
    let file = hub.home("tenant_123").join("cron/jobs.json");
    let text = std::fs::read_to_string(&file).unwrap();
    let mut jobs: Value = serde_json::from_str(&text).unwrap();
    let stored = &mut jobs["jobs"][0];
    stored["last_status"] = json!("ok");
    stored["last_run_at"] = json!("2026-11-15T09:00:00+00:00");
    stored["last_delivery_status"] = json!("failed");
    stored["last_delivery_error"] = json!("the chat <x> is gone");
    stored["last_deliveries"] =
        json!([{"target": "telegram:7", "message_id": null, "error": "the chat <x> is gone"}]);
    std::fs::write(&file, jobs.to_string()).unwrap();
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let list = admin.get(PAGE).await.expect_status(200);
    list.assert_shows(">done</span>");
    list.assert_shows(">not delivered</span>");
    let page = admin
        .get(&format!("{PAGE}/job_123"))
        .await
        .expect_status(200);
    page.assert_shows("telegram:7");
    page.assert_shows("the chat &#60;x&#62; is gone");
}

#[tokio::test]
async fn the_next_jobs_of_all_tenants_are_listed_for_those_who_may_see_them() {
    let hub = TestHub::new().await.with_examples().await;
    hub.tenant(json!({"id": "other", "displayName": "Other"}))
        .await;
    let soon = json!({"id": "soon", "name": "Soon", "schedule": "every 5m", "prompt": "x"});
    let jobs = "/v1/tenants/other/agent-cron";
    hub.post(jobs, &soon).await.expect(201);
    hub.wait_until("/v1/agent-cron", |listed| {
        listed["jobs"]
            .as_array()
            .is_some_and(|jobs| jobs.len() == 2)
    })
    .await;
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let page = admin.get("/cron").await.expect_status(200);
    let (soon, later) = (page.text.find("Soon</bdi>"), page.text.find("job_123"));
    assert!(soon.unwrap() < later.unwrap(), "{}", page.text);
    let bound = json!({"role": "admin", "tenants": ["other"]});
    let bound = ConsoleBrowser::with_rights(&hub, bound).await;
    let page = bound.get("/cron").await.expect_status(200);
    page.assert_shows("Soon</bdi>");
    page.assert_lacks("tenant_123");
}

#[tokio::test]
async fn all_jobs_of_all_tenants_are_on_one_page_paused_ones_too() {
    let hub = TestHub::new().await.with_examples().await;
    hub.tenant(json!({"id": "other", "displayName": "Other"}))
        .await;
    let soon = json!({"id": "soon", "name": "Soon", "schedule": "every 5m", "prompt": "x"});
    let jobs = "/v1/tenants/other/agent-cron";
    hub.post(jobs, &soon).await.expect(201);
    hub.post(&format!("{jobs}/soon/pause"), &json!({}))
        .await
        .expect(200);
    hub.wait_until("/v1/agent-cron?all=true", |listed| {
        let jobs = listed["jobs"].as_array().unwrap();
        jobs.len() == 2 && jobs.iter().any(|job| job["nextRunAt"].is_null())
    })
    .await;
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let next = admin.get("/cron").await.expect_status(200);
    next.assert_lacks("Soon</bdi>");
    let links = next.links();
    let all = links.iter().find(|link| link.contains("all=1")).unwrap();
    let all = admin.get(all).await.expect_status(200);
    all.assert_shows("Soon</bdi>");
    all.assert_shows("/do/resume_tenant_cron");
    all.assert_shows("/tenants/tenant_123/cron/job_123");
    let bound = json!({"role": "admin", "tenants": ["other"]});
    let bound = ConsoleBrowser::with_rights(&hub, bound).await;
    let page = bound.get("/cron?all=1").await.expect_status(200);
    page.assert_shows("Soon</bdi>");
    page.assert_lacks("tenant_123");
    let viewer = ConsoleBrowser::with_rights(&hub, json!({"role": "viewer"})).await;
    let page = viewer.get("/cron?all=1").await.expect_status(200);
    page.assert_shows("Soon</bdi>");
    page.assert_lacks("/do/resume_tenant_cron");
}

#[tokio::test]
async fn the_jobs_of_all_tenants_come_in_pages() {
    let hub = TestHub::new().await.with_examples().await;
    for number in 1..=21 {
        let id = format!("job-{number:02}");
        let schedule = format!("every {number}h");
        let job = json!({"id": id, "name": id, "schedule": schedule, "prompt": "x"});
        hub.post(JOBS, &job).await.expect(201);
    }
    hub.wait_until("/v1/agent-cron?limit=500", |listed| {
        let jobs = listed["jobs"].as_array();
        jobs.is_some_and(|jobs| jobs.len() == 22)
    })
    .await;
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let first = admin.get("/cron").await.expect_status(200);
    first.assert_shows("job-01</bdi>");
    first.assert_lacks("job-21</bdi>");
    let links = first.links();
    let more = links.iter().find(|link| link.contains("cursor=")).unwrap();
    let second = admin.get(more).await.expect_status(200);
    second.assert_shows("job-21</bdi>");
    second.assert_lacks("job-01</bdi>");
    let links = second.links();
    assert!(!links.iter().any(|link| link.contains("cursor=")));
    assert!(links.iter().any(|link| link == "/cron"));
    assert_eq!(admin.get("/cron?cursor=x").await.status, 400);
}
