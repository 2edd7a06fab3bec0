//! Events over the protocol: polling, waiting, cancelling.

use rmcp::{
    model::{ClientRequest, NumberOrString, ProgressToken, Request, RequestMetaObject},
    service::{PeerRequestOptions, RequestHandle},
};

use super::*;

#[tokio::test]
async fn what_is_said_after_the_beginning_is_polled_once() {
    let (place, store) = with_chat().await;
    store.append(&id(SESSION), &user("before")).await.unwrap();
    let client = place.client().await;
    let nothing = client.call_document("events_poll", json!({})).await;
    assert_eq!(nothing["events"], json!([]));
    assert_eq!(nothing["dropped"], 0);
    store.append(&id(SESSION), &user("deploy?")).await.unwrap();
    let polled = client
        .poll_events(&json!({"after_cursor": 0, "session_key": KEY}), 1)
        .await;
    let event = &polled["events"][0];
    assert_eq!(
        (&event["type"], &event["role"], &event["content"]),
        (&json!("message"), &json!("user"), &json!("deploy?"))
    );
    assert_eq!(polled["next_cursor"], event["cursor"]);
    let again = client
        .call_document(
            "events_poll",
            json!({"after_cursor": polled["next_cursor"]}),
        )
        .await;
    assert_eq!(again["events"], json!([]));
    assert_eq!(again["next_cursor"], polled["next_cursor"]);
    let other = client
        .call_document("events_poll", json!({"session_key": "other"}))
        .await;
    assert_eq!(other["events"], json!([]));
}

#[tokio::test]
async fn what_is_said_before_the_log_is_opened_counts_from_the_start_of_the_process() {
    let (place, store) = with_chat().await;
    store.append(&id(SESSION), &user("early")).await.unwrap();
    // Once in a home without a log, once in one that has it.
    for text in ["first", "second"] {
        let bridge = place.bridge(BridgeOptions::default());
        store.append(&id(SESSION), &user(text)).await.unwrap();
        let client = Client::connect(&bridge, "test", ClientLifecycleMode::Initialize).await;
        let polled = client.poll_events(&json!({}), 1).await;
        let said: Vec<_> = polled["events"].as_array().unwrap().iter().collect();
        assert_eq!(said.len(), 1, "{polled}");
        assert_eq!(said[0]["content"], text);
        bridge.close().await;
    }
}

#[tokio::test]
async fn a_wait_ends_with_the_event_or_in_time() {
    let (place, store) = with_chat().await;
    let client = place.client().await;
    let timed_out = client
        .call_document("events_wait", json!({"timeout_ms": 50}))
        .await;
    assert_eq!(
        (&timed_out["event"], &timed_out["reason"]),
        (&Value::Null, &json!("timeout"))
    );
    assert_eq!(timed_out["dropped"], 0);
    let wait = client.call_document("events_wait", json!({"timeout_ms": 30_000}));
    let say = async {
        // Answered after the wait was taken in.
        client.running.list_all_tools().await.unwrap();
        store
            .append(&id(SESSION), &assistant("done"))
            .await
            .unwrap();
    };
    let (event, ()) = tokio::join!(wait, say);
    assert_eq!(event["event"]["content"], "done", "{event}");
    let queued = client
        .call_document("events_wait", json!({"timeout_ms": 0}))
        .await;
    assert_eq!(queued["event"]["content"], "done");
    let after = json!({"timeout_ms": 0, "after_cursor": queued["event"]["cursor"]});
    assert_eq!(
        client.call_document("events_wait", after).await["event"],
        Value::Null
    );
}

async fn begin_wait(client: &Client, options: PeerRequestOptions) -> RequestHandle<RoleClient> {
    let arguments = json!({"timeout_ms": 300_000}).as_object().unwrap().clone();
    let params = CallToolRequestParams::new("events_wait").with_arguments(arguments);
    let request = ClientRequest::CallToolRequest(Request::new(params));
    let sent = client.running.send_cancellable_request(request, options);
    sent.await.unwrap()
}

#[tokio::test]
async fn fifty_waits_hold_nobody_up() {
    let (place, _store) = with_chat().await;
    for era in [ClientLifecycleMode::Initialize, stateless()] {
        let client = Client::connect(&place.bridge(BridgeOptions::default()), "test", era).await;
        let mut waits = Vec::new();
        for _ in 0..50 {
            waits.push(begin_wait(&client, PeerRequestOptions::no_options()).await);
        }
        // Answered long before any of the waits is over.
        client.call_document("conversations_list", json!({})).await;
        drop(waits);
    }
}

#[tokio::test]
async fn a_wait_too_many_is_refused_until_others_are_cancelled() {
    let (place, _store) = with_chat().await;
    for era in [ClientLifecycleMode::Initialize, stateless()] {
        let client = Client::connect(&place.bridge(BridgeOptions::default()), "test", era).await;
        let mut waits = Vec::new();
        for _ in 0..1000 {
            waits.push(begin_wait(&client, PeerRequestOptions::no_options()).await);
        }
        let one_more = async || {
            let tried = client
                .call_document("events_wait", json!({"timeout_ms": 0}))
                .await;
            tried["error"].as_str().map(str::to_owned)
        };
        assert_eq!(
            one_more().await.as_deref(),
            Some("Too many calls of events_wait are open")
        );
        for wait in waits {
            wait.cancel(None).await.unwrap();
        }
        let freed = async { while one_more().await.is_some() {} };
        tokio::time::timeout(TIMEOUT, freed).await.unwrap();
    }
}

#[tokio::test]
async fn a_long_wait_reports_progress_to_those_who_ask() {
    let (place, store) = with_chat().await;
    let mut client = place.client().await;
    let mut options = PeerRequestOptions::no_options();
    let mut meta = RequestMetaObject::new();
    meta.set_progress_token(ProgressToken(NumberOrString::Number(7)));
    options.meta = Some(meta);
    let wait = begin_wait(&client, options).await;
    let Notification::Progress(progress) = client.next().await else {
        panic!("something else was told");
    };
    assert!(progress.progress >= 10.0);
    assert_eq!(progress.total, Some(300.0));
    store.append(&id(SESSION), &user("x")).await.unwrap();
    tokio::time::timeout(TIMEOUT, wait.await_response())
        .await
        .unwrap()
        .unwrap();
}

#[tokio::test]
async fn two_bridges_share_their_cursors() {
    let (place, store) = with_chat().await;
    let (one, two) = (place.client().await, place.client().await);
    for text in ["a", "b", "c"] {
        store.append(&id(SESSION), &user(text)).await.unwrap();
    }
    let first = one.poll_events(&json!({}), 3).await;
    let second = two.poll_events(&json!({}), 3).await;
    assert_eq!(first["events"].as_array().unwrap().len(), 3);
    assert_eq!(first["events"], second["events"]);
    // A third that comes later resumes where the first stopped.
    let cursor = first["events"][0]["cursor"].clone();
    let third = place.client().await;
    let rest = third.poll_events(&json!({"after_cursor": cursor}), 2).await;
    assert_eq!(rest["events"].as_array().unwrap().len(), 2);
    assert_eq!(
        third.call_document("events_poll", json!({})).await["events"],
        json!([])
    );
}
