//! Chat completions, whole and streamed.

use hermes_testkit::{
    model::{Answer, Ending},
    wait_until,
};

use super::*;

fn completion(stream: bool) -> Value {
    json!({
        "model": "gpt-x",
        "stream": stream,
        "stream_options": {"include_usage": true},
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "before"},
            {"role": "assistant", "content": "indeed"},
            {"role": "user", "content": [{"type": "text", "text": "now"}]},
        ],
    })
}

fn counted() -> Script {
    let usage = hermes_testkit::model::Usage {
        prompt: 10,
        cached: 0,
        completion: 5,
    };
    let answer = Answer::pieces(["Hel", "lo"]).with(|reply| {
        reply.usage = Some(usage);
        reply.pause_ms = 60;
    });
    Script::new([answer.clone(), answer])
}

#[tokio::test]
async fn a_completion_comes_whole() {
    let service = Service::start(counted()).await;
    let request = service
        .request(Method::POST, "/v1/chat/completions")
        .body(completion(false).to_string());
    let response = request.send().await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    let session = response.headers()["X-Hermes-Session-Id"]
        .to_str()
        .unwrap()
        .to_owned();
    let body: Value = serde_json::from_str(&response.text().await.unwrap()).unwrap();
    assert_eq!(body["object"], "chat.completion");
    assert_eq!(
        body["choices"][0]["message"],
        json!({"role": "assistant", "content": "Hello"})
    );
    assert_eq!(body["choices"][0]["finish_reason"], "stop");
    let usage = json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15});
    assert_eq!(body["usage"], usage);
    let messages = service.last_messages();
    assert!(
        messages[0]["content"]
            .as_str()
            .unwrap()
            .ends_with("Be brief.")
    );
    assert_eq!(messages.len(), 4);
    // The header goes on with the session; what the client repeats of it is not added again.
    let request = service
        .request(Method::POST, "/v1/chat/completions")
        .header("X-Hermes-Session-Id", &session)
        .body(completion(false).to_string());
    assert_eq!(answer(request).await.0, StatusCode::OK);
    assert_eq!(service.last_messages().len(), 6);
}

#[tokio::test]
async fn a_completion_comes_in_pieces() {
    let service = Service::start(counted()).await;
    let request = service
        .request(Method::POST, "/v1/chat/completions")
        .body(completion(true).to_string());
    let mut watcher = Watcher::of(request.send().await.unwrap());
    let mut chunks = Vec::new();
    while let Some(block) = watcher.block().await {
        chunks.push(block.strip_prefix("data: ").unwrap().to_owned());
    }
    assert_eq!(chunks.pop().unwrap(), "[DONE]");
    let chunks: Vec<Value> = chunks
        .iter()
        .map(|chunk| serde_json::from_str(chunk).unwrap())
        .collect();
    for chunk in &chunks {
        assert_eq!(chunk["object"], "chat.completion.chunk");
        assert_eq!(chunk["id"], chunks[0]["id"]);
    }
    assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
    let text: String = chunks
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str())
        .collect();
    assert_eq!(text, "Hello");
    let [.., end, usage] = &chunks[..] else {
        panic!("{chunks:?}");
    };
    assert_eq!(end["choices"][0]["finish_reason"], "stop");
    assert_eq!(
        (&usage["choices"], &usage["usage"]["total_tokens"]),
        (&json!([]), &json!(15))
    );
}

#[tokio::test]
async fn a_client_that_leaves_stops_what_it_asked_for() {
    let script = Script::new([Answer::text("a").with(|reply| reply.ending = Ending::Stalled)]);
    let service = Service::start(script).await;
    let request = service
        .request(Method::POST, "/v1/chat/completions")
        .body(completion(true).to_string());
    let mut watcher = Watcher::of(request.send().await.unwrap());
    while !watcher.block().await.unwrap().contains("\"a\"") {}
    drop(watcher);
    let gone = tokio::task::spawn_blocking(move || {
        wait_until(PATIENCE, || service.model.requests()[0].abandoned)
    });
    assert!(gone.await.unwrap(), "the model was still asked");
}

#[tokio::test]
async fn a_model_that_refuses_is_told_in_the_usual_shape() {
    let script = Script::new([Answer::status(400, "no"), Answer::status(400, "no")]);
    let service = Service::start(script).await;
    let (status, body) = service
        .post("/v1/chat/completions", &completion(false))
        .await;
    assert_eq!(status, StatusCode::BAD_GATEWAY);
    assert_eq!(body["error"]["code"], "model_error");
    let request = service
        .request(Method::POST, "/v1/chat/completions")
        .body(completion(true).to_string());
    let text = request.send().await.unwrap().text().await.unwrap();
    assert!(text.contains("\"error\":{"), "{text}");
    assert!(text.ends_with("data: [DONE]\n\n"), "{text}");
}
