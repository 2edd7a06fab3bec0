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
