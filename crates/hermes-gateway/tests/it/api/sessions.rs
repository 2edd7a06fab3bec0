//! Sessions: listed, read, and talked to.

use super::*;

#[tokio::test]
async fn sessions_are_listed_and_read_in_pages() {
    let service = ApiFixture::start(ModelScript::echo()).await;
    for (session, text) in [("a", "one"), ("b", "two"), ("a", "three")] {
        let run = service
            .run(&json!({"input": text, "session_id": session}))
            .await;
        service.wait_for_end(&run).await;
    }
    let listed = service.get("/api/sessions").await;
    let ids: Vec<&Value> = listed["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["id"])
        .collect();
    assert_eq!(ids, ["a", "b"]);
    let newest = &listed["sessions"][0];
    assert_eq!(
        (&newest["source"], &newest["preview"]),
        (&json!("api_server"), &json!("one"))
    );
    let before = newest["last_active"].as_f64().unwrap();
    let older = service
        .get(&format!("/api/sessions?before={before}&limit=1"))
        .await;
    assert_eq!(older["sessions"][0]["id"], "b");
    let shown = service.get("/api/sessions/a").await;
    assert_eq!(shown["session"]["message_count"], 4);
    let last = service.get("/api/sessions/a/messages?limit=2").await;
    let last = last["messages"].as_array().unwrap();
    assert_eq!(
        (&last[0]["role"], &last[0]["content"]),
        (&json!("user"), &json!("three"))
    );
    let path = format!("/api/sessions/a/messages?limit=2&before={}", last[0]["id"]);
    let earlier = service.get(&path).await;
    assert_eq!(earlier["messages"][1]["content"], "one");
    let (status, _) = send(service.request(Method::GET, "/api/sessions?limit=x")).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn something_said_in_a_session_is_answered_there() {
    let service = ApiFixture::start(ModelScript::echo()).await;
    let run = service
        .run(&json!({"input": "one", "session_id": "a"}))
        .await;
    service.wait_for_end(&run).await;
    let (status, said) = service
        .post("/api/sessions/a/chat", &json!({"message": "two"}))
        .await;
    assert_eq!(status, StatusCode::OK, "{said}");
    assert_eq!(
        (&said["output"], &said["session_id"]),
        (&json!("two"), &json!("a"))
    );
    let request = service.request(Method::POST, "/api/sessions/a/chat/stream");
    let streamed = request.body(json!({"message": "three"}).to_string());
    let events = EventReader::new(streamed.send().await.unwrap())
        .read_rest()
        .await;
    assert_eq!(
        names(&events),
        ["run.started", "message.delta", "run.completed"]
    );
    assert_eq!(service.last_messages().len(), 6);
    let (status, _) = service
        .post("/api/sessions/none/chat", &json!({"message": "x"}))
        .await;
    assert_eq!(status, StatusCode::NOT_FOUND);
}
