//! What a tenant may use a day: runs above it are refused until the next day, and only the whole Hub's tokens change it.

use reqwest::Method;
use serde_json::json;

use crate::test_hub::TestHub;

const LIMITS: &str = "/v1/tenants/acme/limits";
const RUNS: &str = "/v1/tenants/acme/runs";

#[tokio::test]
async fn above_the_limit_a_run_is_refused_with_the_time_of_the_reset() {
    let site = TestHub::new().await;
    site.tenant(json!({"id": "acme"})).await;
    let set = site
        .patch(LIMITS, &json!({"runsPerDay": 1}))
        .await
        .expect(200);
    assert_eq!(set["runsPerDay"], 1);
    assert_eq!(set["tokensPerDay"], json!(null));
    site.post(RUNS, &json!({"input": "Hi"})).await.expect(202);
    let refused = site.post(RUNS, &json!({"input": "Hi"})).await;
    assert_eq!(refused.status, 429, "{}", refused.text);
    let wait: u64 = refused.header("retry-after").parse().unwrap();
    assert!((1..=86_400).contains(&wait), "{wait}");
    let problem = refused.json();
    assert_eq!(problem["code"], "resource_exhausted");
    assert_eq!(problem["reason"], "daily_limit");
    let shown = site.get(LIMITS).await.expect(200);
    assert_eq!(shown["runsToday"], 1);
    let message = problem["message"].as_str().unwrap();
    assert!(
        message.contains(shown["resetsAt"].as_str().unwrap()),
        "{message}"
    );
    // A job that is run by hand counts too.
    let job = json!({"id": "j", "schedule": "0 9 * * *", "prompt": "x"});
    site.post("/v1/tenants/acme/agent-cron", &job)
        .await
        .expect(201);
    let refused = site
        .post("/v1/tenants/acme/agent-cron/j/run", &json!({}))
        .await;
    assert_eq!(refused.status, 429, "{}", refused.text);
    site.patch(LIMITS, &json!({"runsPerDay": null}))
        .await
        .expect(200);
    site.post(RUNS, &json!({"input": "Hi"})).await.expect(202);
}

#[tokio::test]
async fn a_token_of_some_tenants_reads_limits_and_changes_none() {
    let site = TestHub::new().await;
    site.tenant(json!({"id": "acme"})).await;
    let bound = json!({"name": "bound", "role": "admin", "tenants": ["acme"]});
    let bound = site.token(bound).await;
    for body in [json!({"runsPerDay": 5}), json!({"tokensPerDay": null})] {
        let request = site.request(&bound, Method::PATCH, LIMITS);
        let request = request.header("content-type", "application/json");
        let refused = site.send(request.body(body.to_string())).await;
        assert_eq!(refused.status, 403, "{}", refused.text);
        assert_eq!(refused.json()["reason"], "tenants");
    }
    let read = site.send(site.request(&bound, Method::GET, LIMITS)).await;
    assert_eq!(read.expect(200)["runsPerDay"], json!(null));
    for wrong in [json!({"runsPerDay": -1}), json!({"runs": 1})] {
        assert_eq!(site.patch(LIMITS, &wrong).await.status, 400);
    }
}
