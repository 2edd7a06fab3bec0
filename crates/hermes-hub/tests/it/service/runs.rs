//! Events of runs.

use reqwest::Method;
use serde_json::json;

use crate::test_hub::TestHub;

#[tokio::test]
async fn a_watcher_sees_all_events_from_any_of_them_on() {
    let site = TestHub::new().await;
    site.tenant(json!({"id": "acme"})).await;
    let run = site
        .post(
            "/v1/tenants/acme/runs",
            &json!({"input": "Hi", "metadata": {"a": 1}}),
        )
        .await
        .expect(202);
    let path = format!("/v1/tenants/acme/runs/{}", run["runId"].as_str().unwrap());
    let watched = site.get(&format!("{path}/events")).await;
    assert_eq!(watched.header("content-type"), "text/event-stream");
    assert!(watched.text.ends_with(": stream closed\n\n"));
    let ids: Vec<u64> = watched
        .text
        .lines()
        .filter_map(|line| line.strip_prefix("id: ")?.parse().ok())
        .collect();
    assert_eq!(ids, (1..=ids.len() as u64).collect::<Vec<_>>());
    let replayed = site.get(&format!("{path}/events")).await;
    assert_eq!(replayed.text, watched.text);
    let request = site
        .request(&site.admin, Method::GET, &format!("{path}/events"))
        .header("last-event-id", "1");
    let (resumed, after) = (
        site.send(request).await,
        site.get(&format!("{path}/events?after=1")).await,
    );
    assert_eq!(resumed.text, after.text);
    assert!(resumed.text.starts_with("id: 2\n"), "{}", resumed.text);
    let done = site.get(&path).await.expect(200);
    assert_eq!(
        (&done["status"], &done["metadata"]),
        (&json!("completed"), &json!({"a": 1}))
    );
    site.get("/v1/tenants/acme/runs?status=completed&trigger=api")
        .await
        .expect(200);
}

#[tokio::test]
async fn runs_of_all_tenants_are_listed_for_those_who_see_them() {
    let site = TestHub::new().await;
    let mut runs = Vec::new();
    for tenant in ["acme", "globex"] {
        site.tenant(json!({"id": tenant})).await;
        let path = format!("/v1/tenants/{tenant}/runs");
        let run = site.post(&path, &json!({"input": "Hi"})).await.expect(202);
        let run = run["runId"].clone();
        let path = format!("{path}/{}", run.as_str().unwrap());
        site.wait_until(&path, |run| run["status"] == "completed")
            .await;
        runs.push(run);
    }
    let ids = |list: &serde_json::Value| {
        let listed = list["runs"].as_array().unwrap().iter();
        listed.map(|run| run["runId"].clone()).collect::<Vec<_>>()
    };
    let newest = site.get("/v1/runs?limit=1").await.expect(200);
    assert_eq!(ids(&newest), [runs[1].clone()]);
    let cursor = newest["nextCursor"].as_str().unwrap();
    let rest = site.get(&format!("/v1/runs?cursor={cursor}")).await;
    assert_eq!(ids(&rest.expect(200)), [runs[0].clone()]);
    let failed = site.get("/v1/runs?status=failed").await.expect(200);
    assert_eq!(failed["runs"], json!([]));
    let bound = json!({"name": "bound", "role": "viewer", "tenants": ["acme"]});
    let bound = site.token(bound).await;
    let own = site.request(&bound, Method::GET, "/v1/runs");
    assert_eq!(ids(&site.send(own).await.expect(200)), [runs[0].clone()]);
    let none = json!({"name": "none", "scopes": ["tenants:read"]});
    let none = site.token(none).await;
    let refused = site.request(&none, Method::GET, "/v1/runs");
    site.send(refused).await.expect(403);
}

#[tokio::test]
async fn a_run_shows_what_it_was_asked_without_secrets() {
    let site = TestHub::new().await;
    site.tenant(json!({"id": "acme"})).await;
    let secret = json!({"value": "hunter2hunter2"});
    site.put("/v1/tenants/acme/env/MY_KEY", &secret)
        .await
        .expect(204);
    let asked =
        json!({"input": "Say hunter2hunter2", "instructions": "Be short", "timeoutSeconds": 60});
    let run = site.post("/v1/tenants/acme/runs", &asked).await.expect(202);
    let path = format!("/v1/tenants/acme/runs/{}", run["runId"].as_str().unwrap());
    let read = site.get(&path).await.expect(200);
    assert_eq!(read["input"], "Say [REDACTED]");
    assert_eq!(
        (&read["instructions"], &read["timeoutSeconds"]),
        (&json!("Be short"), &json!(60))
    );
}
