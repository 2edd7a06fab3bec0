//! The feed: stored then sent, resumable, and only for tenants that the token covers.

use std::time::Duration;

use hermes_hub::api_types::Time;
use reqwest::{Method, Response};
use serde_json::{Value, json};

use crate::test_hub::{TIMEOUT, TestHub};

/// The events of a text of lines.
fn parse(text: &str) -> Vec<Value> {
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    data.map(|data| serde_json::from_str(data).unwrap())
        .collect()
}

/// What is stored after an event.
async fn stored(site: &TestHub, token: &str, query: &str) -> Vec<Value> {
    let path = format!("/v1/events?follow=false{query}");
    let answer = site.send(site.request(token, Method::GET, &path)).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert!(
        answer.text.ends_with(": stream closed\n\n"),
        "{}",
        answer.text
    );
    parse(&answer.text)
}

async fn follow(site: &TestHub, query: &str, last: Option<u64>) -> Response {
    let mut request = site.request(&site.admin, Method::GET, &format!("/v1/events{query}"));
    if let Some(last) = last {
        request = request.header("last-event-id", last);
    }
    let stream = request.send().await.unwrap();
    assert_eq!(stream.status(), 200);
    stream
}

/// Reads a stream until it has so many events.
async fn read_events(stream: &mut Response, count: usize) -> Vec<Value> {
    let mut text = String::new();
    while parse_whole(&text).len() < count {
        let chunk = tokio::time::timeout(TIMEOUT, stream.chunk());
        let chunk = chunk.await.expect("no event").unwrap();
        text.push_str(std::str::from_utf8(&chunk.expect("the stream ended")).unwrap());
    }
    parse_whole(&text)
}

/// Events that have come whole.
fn parse_whole(text: &str) -> Vec<Value> {
    let end = text.rfind("\n\n").map_or(0, |end| end + 2);
    parse(&text[..end])
}

fn kinds(events: &[Value]) -> Vec<&str> {
    let kinds = events.iter().map(|event| event["type"].as_str().unwrap());
    kinds.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watcher_sees_what_happens_from_now_on_and_resumes_where_it_was() {
    let site = TestHub::new().await;
    site.tenant(json!({"id": "before"})).await;
    let mut live = follow(&site, "?type=tenant.created,run.ended", None).await;
    site.tenant(json!({"id": "acme"})).await;
    let run = site
        .post("/v1/tenants/acme/runs", &json!({"input": "Hi"}))
        .await;
    let run = run.expect(202);
    let seen = read_events(&mut live, 2).await;
    assert_eq!(kinds(&seen), ["tenant.created", "run.ended"]);
    assert_eq!(seen[0]["tenantId"], "acme");
    assert_eq!(seen[1]["data"]["runId"], run["runId"]);
    assert_eq!(seen[1]["data"]["status"], "completed");
    drop(live);
    site.tenant(json!({"id": "later"})).await;
    let last = seen[0]["id"].as_u64().unwrap();
    let mut again = follow(&site, "?type=tenant.created,run.ended", Some(last)).await;
    let resumed = read_events(&mut again, 2).await;
    assert_eq!(resumed[0], seen[1], "a replay is what was sent");
    assert_eq!(resumed[1]["tenantId"], "later");
}

#[tokio::test]
async fn a_token_of_some_tenants_sees_only_them_whatever_it_asks_for() {
    let site = TestHub::new().await;
    for tenant in ["mine", "other"] {
        site.tenant(json!({"id": tenant})).await;
    }
    let bound = json!({"name": "bound", "role": "viewer", "tenants": ["mine"]});
    let bound = site.token(bound).await;
    let seen = stored(&site, &bound, "&after=0&type=tenant.created").await;
    assert_eq!(seen.len(), 1, "{seen:?}");
    assert_eq!(seen[0]["tenantId"], "mine");
    assert!(
        stored(&site, &bound, "&after=0&tenant=other")
            .await
            .is_empty()
    );
    let all = stored(&site, &site.admin, "&after=0&type=tenant.created").await;
    assert_eq!(all.len(), 2);
    let wrong = site.get("/v1/events?type=nothing").await;
    assert_eq!(wrong.status, 400, "{}", wrong.text);
    assert!(wrong.text.contains("`run.ended`"), "{}", wrong.text);
}

#[tokio::test]
async fn who_was_away_for_too_long_is_told_of_the_gap() {
    let site = TestHub::new().await;
    site.tenant(json!({"id": "a"})).await;
    let first = stored(&site, &site.admin, "&after=0").await;
    assert!(!first.is_empty());
    let later = Time::now().after(Duration::from_mins(1));
    site.hub.state().forget_hub_events(later).await.unwrap();
    site.tenant(json!({"id": "b"})).await;
    let seen = stored(&site, &site.admin, "&after=0").await;
    assert_eq!(seen[0]["event"], "gap", "{seen:?}");
    assert_eq!(seen[0]["oldest"], seen[1]["id"]);
    let last = seen.last().unwrap()["id"].as_u64().unwrap();
    assert!(
        stored(&site, &site.admin, &format!("&after={last}"))
            .await
            .is_empty()
    );
    // An id of another Hub, or of one that was restored, is not waited for.
    let future = format!("&after={}", last + 1000);
    assert!(stored(&site, &site.admin, &future).await.is_empty());
}

#[tokio::test]
async fn a_stream_ends_with_its_token() {
    let site = TestHub::new().await;
    let token = json!({"name": "short", "role": "viewer"});
    let made = site.post("/v1/tokens", &token).await.expect(201);
    let request = site.request(made["token"].as_str().unwrap(), Method::GET, "/v1/events");
    let mut stream = request.send().await.unwrap();
    let id = made["id"].as_str().unwrap();
    site.delete(&format!("/v1/tokens/{id}")).await.expect(204);
    let ended = tokio::time::timeout(TIMEOUT, async {
        while let Ok(Some(_)) = stream.chunk().await {}
    });
    ended.await.expect("the stream goes on");
}
