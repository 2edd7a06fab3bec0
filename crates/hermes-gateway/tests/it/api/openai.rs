//! Chat completions, whole and streamed.

use hermes_testkit::{
    model::{ReplyEnding, ScriptedAnswer},
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

fn counted() -> ModelScript {
    let usage = hermes_testkit::model::ScriptedUsage {
        prompt: 10,
        cached: 0,
        completion: 5,
    };
    let answer = ScriptedAnswer::pieces(["Hel", "lo"]).with(|reply| {
        reply.usage = Some(usage);
        reply.pause_ms = 60;
    });
    ModelScript::new([answer.clone(), answer])
}

#[tokio::test]
async fn a_completion_comes_whole() {
    let service = ApiFixture::start(counted()).await;
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
    assert_eq!(send(request).await.0, StatusCode::OK);
    assert_eq!(service.last_messages().len(), 6);
}

#[tokio::test]
async fn a_completion_comes_in_pieces() {
    let service = ApiFixture::start(counted()).await;
    let request = service
        .request(Method::POST, "/v1/chat/completions")
        .body(completion(true).to_string());
    let mut watcher = EventReader::new(request.send().await.unwrap());
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

fn weather() -> Value {
    json!([{"type": "function", "function": {
        "name": "weather",
        "description": "Tells the weather.",
        "parameters": {"type": "object", "properties": {"at": {"type": "string"}}},
    }}])
}

fn with_weather(messages: &Value, more: &Value) -> Value {
    let mut body = json!({"model": "m", "messages": messages, "tools": weather()});
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

/// The names of the tools in the last request to the model.
fn offered(service: &ApiFixture) -> Vec<String> {
    let body = service.model.requests().pop().unwrap().body;
    let tools = body["tools"].as_array().cloned().unwrap_or_default();
    tools
        .iter()
        .map(|tool| tool["function"]["name"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn a_call_of_the_clients_own_tool_comes_back_and_its_result_should_continue() {
    let script = ModelScript::new([
        ScriptedAnswer::calls([("todo", json!({})), ("weather", json!({"at": "Rome"}))]),
        ScriptedAnswer::text("Sunny."),
    ]);
    let service = ApiFixture::start(script).await;
    let question = json!([{"role": "user", "content": "Rome?"}]);
    let request = service
        .request(Method::POST, "/v1/chat/completions")
        .body(with_weather(&question, &json!({})).to_string());
    let (status, body) = send(request).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    let choice = &body["choices"][0];
    assert_eq!(choice["finish_reason"], "tool_calls");
    let calls = choice["message"]["tool_calls"].as_array().unwrap();
    // Those of the agent's own tools stay here.
    assert_eq!(calls.len(), 1, "{calls:?}");
    assert_eq!(calls[0]["type"], "function");
    assert_eq!(calls[0]["function"]["name"], "weather");
    let arguments = calls[0]["function"]["arguments"].as_str().unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(arguments).unwrap()["at"],
        "Rome"
    );
    assert!(offered(&service).contains(&"todo".to_owned()));
    assert!(offered(&service).contains(&"weather".to_owned()));

    let next = json!([
        question[0],
        choice["message"],
        {"role": "tool", "tool_call_id": calls[0]["id"], "content": "22 degrees"},
    ]);
    let request = service
        .request(Method::POST, "/v1/chat/completions")
        .body(with_weather(&next, &json!({})).to_string());
    let (status, body) = send(request).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    assert_eq!(body["choices"][0]["message"]["content"], "Sunny.");
    let messages = service.last_messages();
    let last = messages.last().unwrap();
    assert_eq!(
        (&last["role"], &last["content"]),
        (&json!("tool"), &json!("22 degrees"))
    );
}

#[tokio::test]
async fn in_a_session_the_results_of_both_sides_are_kept() {
    let script = ModelScript::new([
        ScriptedAnswer::calls([("todo", json!({})), ("weather", json!({"at": "Rome"}))]),
        ScriptedAnswer::text("Sunny."),
    ]);
    let service = ApiFixture::start(script).await;
    let question = json!([{"role": "user", "content": "Rome?"}]);
    let request = |messages: Value| {
        service
            .request(Method::POST, "/v1/chat/completions")
            .header("X-Hermes-Session-Id", "20260102_030405_abcdef01")
            .body(with_weather(&messages, &json!({})).to_string())
    };
    let (_, body) = send(request(question)).await;
    let call = body["choices"][0]["message"]["tool_calls"][0].clone();
    let result = json!([{"role": "tool", "tool_call_id": call["id"], "content": "22 degrees"}]);
    let (status, body) = send(request(result)).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    let messages = service.last_messages();
    let roles: Vec<&str> = messages
        .iter()
        .map(|it| it["role"].as_str().unwrap())
        .collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool", "tool"]);
    assert_eq!(messages[4]["content"], "22 degrees");
}

#[tokio::test]
async fn the_choice_of_tools_is_kept_to_and_a_stream_carries_calls() {
    let script = ModelScript::new([
        ScriptedAnswer::call("weather", &json!({"at": "Rome"})),
        ScriptedAnswer::text("No tools."),
    ]);
    let service = ApiFixture::start(script).await;
    let question = json!([{"role": "user", "content": "Rome?"}]);
    let forced = json!({
        "stream": true,
        "tool_choice": {"type": "function", "function": {"name": "weather"}},
    });
    let request = service
        .request(Method::POST, "/v1/chat/completions")
        .body(with_weather(&question, &forced).to_string());
    let mut watcher = EventReader::new(request.send().await.unwrap());
    let (mut calls, mut finish) = (Vec::new(), Value::Null);
    while let Some(block) = watcher.block().await {
        let Ok(chunk) = serde_json::from_str::<Value>(block.strip_prefix("data: ").unwrap()) else {
            break;
        };
        let choice = &chunk["choices"][0];
        calls.extend(
            choice["delta"]["tool_calls"]
                .as_array()
                .cloned()
                .unwrap_or_default(),
        );
        if !choice["finish_reason"].is_null() {
            finish = choice["finish_reason"].clone();
        }
    }
    assert_eq!(finish, "tool_calls");
    assert_eq!(
        (&calls[0]["index"], &calls[0]["function"]["name"]),
        (&json!(0), &json!("weather"))
    );
    assert_eq!(offered(&service), ["weather"]);
    let turn = service.model.requests().pop().unwrap().body;
    assert_eq!(turn["tool_choice"]["function"]["name"], "weather");

    let request = service
        .request(Method::POST, "/v1/chat/completions")
        .body(with_weather(&question, &json!({"tool_choice": "none"})).to_string());
    assert_eq!(send(request).await.0, StatusCode::OK);
    assert!(!offered(&service).contains(&"weather".to_owned()));
    let request = service
        .request(Method::POST, "/v1/chat/completions")
        .body(with_weather(&question, &json!({"tool_choice": "often"})).to_string());
    assert_eq!(send(request).await.0, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn a_client_that_leaves_stops_what_it_asked_for() {
    let script = ModelScript::new([
        ScriptedAnswer::text("a").with(|reply| reply.ending = ReplyEnding::Stalled)
    ]);
    let service = ApiFixture::start(script).await;
    let request = service
        .request(Method::POST, "/v1/chat/completions")
        .body(completion(true).to_string());
    let mut watcher = EventReader::new(request.send().await.unwrap());
    while !watcher.block().await.unwrap().contains("\"a\"") {}
    drop(watcher);
    let gone = tokio::task::spawn_blocking(move || {
        wait_until(TIMEOUT, || service.model.requests()[0].abandoned)
    });
    assert!(gone.await.unwrap(), "the model was still asked");
}

#[tokio::test]
async fn a_model_that_refuses_is_told_in_the_usual_shape() {
    let script = ModelScript::new([
        ScriptedAnswer::status(400, "no"),
        ScriptedAnswer::status(400, "no"),
    ]);
    let service = ApiFixture::start(script).await;
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
