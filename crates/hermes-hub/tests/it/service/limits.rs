//! What a tenant may use a day: runs above it are refused until the next day, and only the whole Hub's tokens change it.

use reqwest::Method;
use serde_json::{Value, json};

use crate::{agent_harness::ScriptedRuntime, test_hub::TestHub};

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

/// A run that has ended, and so counts with its tokens. Returns what is used and allowed then.
async fn complete_run(site: &TestHub) -> Value {
    let run = site.post(RUNS, &json!({"input": "say=1"})).await;
    let run = run.expect(202)["runId"].as_str().unwrap().to_owned();
    site.wait_until(&format!("{RUNS}/{run}"), |run| run["status"] == "completed")
        .await;
    site.get(LIMITS).await.expect(200)
}

#[tokio::test(flavor = "multi_thread")]
async fn above_the_limit_of_tokens_a_run_is_refused_until_it_is_raised() {
    let site = TestHub::with_runtime(ScriptedRuntime::new(), |_, _| {}).await;
    site.tenant(json!({"id": "acme"})).await;
    let limit = async |tokens: Option<u64>| {
        let change = json!({"tokensPerDay": tokens});
        site.patch(LIMITS, &change).await.expect(200)
    };
    limit(Some(1)).await;
    // What a run will take is not known before it ends.
    let used = complete_run(&site).await["tokensToday"].as_u64().unwrap();
    assert!(used > 1, "{used}");
    let refused = site.post(RUNS, &json!({"input": "say=1"})).await;
    assert_eq!(refused.status, 429, "{}", refused.text);
    let wait: u64 = refused.header("retry-after").parse().unwrap();
    assert!((1..=86_400).contains(&wait), "{wait}");
    let problem = refused.json();
    assert_eq!(problem["code"], "resource_exhausted");
    assert_eq!(problem["reason"], "daily_limit");
    let message = problem["message"].as_str().unwrap();
    let shown = site.get(LIMITS).await.expect(200);
    for told in ["tokensPerDay", shown["resetsAt"].as_str().unwrap()] {
        assert!(message.contains(told), "{told}: {message}");
    }
    // What was refused counts as nothing.
    assert_eq!(
        (&shown["runsToday"], &shown["tokensToday"]),
        (&json!(1), &json!(used))
    );
    limit(Some(used + 1)).await;
    complete_run(&site).await;
    let refused = site.post(RUNS, &json!({"input": "say=1"})).await;
    assert_eq!(refused.status, 429, "{}", refused.text);
    limit(None).await;
    complete_run(&site).await;
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
