//! What operations do with the cron jobs of a tenant.

use serde_json::json;

use crate::test_hub::TestHub;

#[tokio::test]
async fn paused_jobs_are_listed_and_running_one_names_its_run_at_once() {
    let site = TestHub::new().await.with_examples().await;
    let cron = "/v1/tenants/tenant_123/agent-cron";
    let paused = site
        .patch(
            &format!("{cron}/job_123"),
            &json!({"patch": {"enabled": false}}),
        )
        .await
        .expect(200);
    assert_eq!(
        (&paused["job"]["enabled"], &paused["job"]["state"]),
        (&json!(false), &json!("paused"))
    );
    let list = site.get(cron).await.expect(200);
    assert_eq!(list["jobs"][0]["id"], "job_123");
    let resumed = site
        .post(&format!("{cron}/job_123/resume"), &json!({}))
        .await
        .expect(200);
    assert_eq!(resumed["job"]["enabled"], true);
    let started = site
        .post(&format!("{cron}/job_123/run"), &json!({}))
        .await
        .expect(202);
    let run = started["runId"].as_str().unwrap();
    let events = site
        .get(&format!("/v1/tenants/tenant_123/runs/{run}/events"))
        .await;
    assert!(events.text.contains("run.completed"), "{}", events.text);
    let details = site.get(&format!("{cron}/job_123")).await.expect(200);
    assert_eq!(details["executions"][0]["runId"], run);
    let custom = site
        .post(
            cron,
            &json!({"job": {"schedule": "every 1h", "prompt": "x", "color": "red"}}),
        )
        .await
        .expect(201);
    assert_eq!(custom["job"]["color"], "red");
    assert_eq!(custom["job"]["id"].as_str().unwrap().len(), 12);
    site.post(
        cron,
        &json!({"id": "job_123", "schedule": "every 1h", "prompt": "x"}),
    )
    .await
    .expect(409);
    site.post(cron, &json!({"schedule": "whenever", "prompt": "x"}))
        .await
        .expect(400);
    site.patch(&format!("{cron}/job_123"), &json!({}))
        .await
        .expect(400);
    site.put(
        "/v1/agent-policy",
        &json!({"cron": {"maxJobs": 2, "minIntervalMinutes": 30}}),
    )
    .await
    .expect(200);
    site.post(cron, &json!({"schedule": "every 1h", "prompt": "x"}))
        .await
        .expect(422);
    site.patch(&format!("{cron}/job_123"), &json!({"schedule": "every 5m"}))
        .await
        .expect(422);
    site.get(&format!("{cron}/nothing")).await.expect(404);
}

#[tokio::test]
async fn a_damaged_file_of_jobs_is_kept_and_said() {
    let site = TestHub::new().await.with_examples().await;
    let file = site.home("tenant_123").join("cron/jobs.json");
    std::fs::write(&file, "{ damaged").unwrap();
    let refused = site
        .get("/v1/tenants/tenant_123/agent-cron")
        .await
        .expect(503);
    assert!(
        !refused
            .to_string()
            .contains(site.directory.path().to_str().unwrap())
    );
    site.post(
        "/v1/tenants/tenant_123/agent-cron",
        &json!({"schedule": "every 1h", "prompt": "x"}),
    )
    .await
    .expect(503);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "{ damaged");
}

#[tokio::test]
async fn a_link_in_the_place_of_the_jobs_is_not_followed() {
    let site = TestHub::new().await.with_examples().await;
    site.tenant(json!({"id": "neighbour"})).await;
    let cron = "/v1/tenants/neighbour/agent-cron";
    let job = json!({"schedule": "every 1h", "prompt": "not yours"});
    site.post(cron, &job).await.expect(201);
    let theirs = site.home("neighbour").join("cron/jobs.json");
    let before = std::fs::read(&theirs).unwrap();
    let own = site.home("tenant_123").join("cron/jobs.json");
    std::fs::remove_file(&own).unwrap();
    std::os::unix::fs::symlink(&theirs, &own).unwrap();
    let cron = "/v1/tenants/tenant_123/agent-cron";
    site.get(cron).await.expect(503);
    let job = json!({"schedule": "every 1h", "prompt": "x"});
    site.post(cron, &job).await.expect(503);
    assert_eq!(std::fs::read(&theirs).unwrap(), before);
}
