//! `cron`: how many jobs a tenant may have, and how often they may run.

use super::*;

async fn count_jobs(hub: &RealHub) -> usize {
    let jobs = hub.get("/v1/tenants/acme/agent-cron").await;
    jobs["jobs"].as_array().unwrap().len()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_makes_no_job_too_many_and_none_that_runs_too_often() {
    let hub = RealHub::start();
    let job = json!({"action": "create", "prompt": "x", "schedule": "every 5m"});
    let model = tenant_calling(&hub, "cronjob", &job).await;
    result_of_call(&hub, &model).await;
    assert_eq!(count_jobs(&hub).await, 1);

    put(&hub, json!({"cron": {"minIntervalMinutes": 6}})).await;
    let result = result_of_call(&hub, &model).await;
    assert!(result.contains("a run every 6 minutes"), "{result}");
    assert_eq!(count_jobs(&hub).await, 1);
    put(&hub, json!({"cron": {"minIntervalMinutes": 5}})).await;
    result_of_call(&hub, &model).await;
    assert_eq!(count_jobs(&hub).await, 2);

    put(&hub, json!({"cron": {"maxJobs": 2}})).await;
    let result = result_of_call(&hub, &model).await;
    assert!(result.contains("allows 2 cron jobs"), "{result}");
    assert_eq!(count_jobs(&hub).await, 2);
    put(&hub, json!({"cron": {"maxJobs": 3}})).await;
    result_of_call(&hub, &model).await;
    assert_eq!(count_jobs(&hub).await, 3);
}
