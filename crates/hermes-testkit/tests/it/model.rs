//! The scripted model, as another program sees it.

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
    time::Duration,
};

use hermes_testkit::{
    binary, eventually,
    model::{ModelRule, ModelScript, ModelServer, ReplyEnding, ScriptedAnswer, ScriptedUsage},
};
use reqwest::{Client, Response};
use serde_json::{Value, json};

/// Far longer than anything here takes, so that a busy machine fails no test.
const TIMEOUT: Duration = Duration::from_secs(30);

async fn post(url: &str, body: &Value) -> Response {
    let request = Client::new().post(url).body(body.to_string());
    request.send().await.unwrap()
}

async fn get(url: &str) -> Response {
    Client::new().get(url).send().await.unwrap()
}

async fn body(response: Response) -> Value {
    serde_json::from_slice(&response.bytes().await.unwrap()).unwrap()
}

fn user_message(text: &str) -> Value {
    json!({ "model": "m", "stream": true, "messages": [{ "role": "user", "content": text }] })
}

/// The events of a stream, as JSON where they are.
async fn events(response: Response) -> Vec<Value> {
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let text = String::from_utf8(response.bytes().await.unwrap().to_vec()).unwrap();
    text.split("\n\n")
        .filter_map(|event| event.lines().find_map(|line| line.strip_prefix("data: ")))
        .map(|data| serde_json::from_str(data).unwrap_or_else(|_| data.into()))
        .collect()
}

#[tokio::test]
async fn chat_completions_are_streamed() {
    let answer =
        ScriptedAnswer::calls([("a", json!({ "x": 1 })), ("b", json!({}))]).with(|reply| {
            reply.text = vec!["Hel".into(), "lo".into()];
            reply.usage = Some(ScriptedUsage {
                prompt: 3,
                cached: 1,
                completion: 2,
            });
        });
    let server = ModelServer::start(ModelScript::new([answer]));
    let url = format!("{}/chat/completions", server.base_url());
    let events = events(post(&url, &user_message("hi")).await).await;
    let text: String = events
        .iter()
        .filter_map(|event| event["choices"][0]["delta"]["content"].as_str())
        .collect();
    assert_eq!(text, "Hello");
    let calls: Vec<_> = events
        .iter()
        .filter_map(|event| event["choices"][0]["delta"]["tool_calls"][0]["index"].as_u64())
        .collect();
    assert_eq!(calls, [0, 1, 0, 1, 0, 1]);
    let finish = &events[events.len() - 3]["choices"][0]["finish_reason"];
    assert_eq!(finish, "tool_calls");
    assert_eq!(events[events.len() - 2]["usage"]["prompt_tokens"], 3);
    assert_eq!(events[events.len() - 1], "[DONE]");
}

#[tokio::test]
async fn anthropic_messages_are_streamed() {
    let server = ModelServer::start(ModelScript::new([ScriptedAnswer::pieces(["Hel", "lo"])]));
    let url = format!("{}/v1/messages", server.origin());
    let events = events(post(&url, &user_message("hi")).await).await;
    let kinds: Vec<_> = events
        .iter()
        .filter_map(|event| event["type"].as_str())
        .collect();
    assert_eq!(
        kinds,
        [
            "message_start",
            "ping",
            "content_block_start",
            "content_block_delta",
            "content_block_delta",
            "content_block_stop",
            "message_delta",
            "message_stop"
        ]
    );
}

#[tokio::test]
async fn without_a_stream_the_reply_is_whole() {
    let server = ModelServer::start(ModelScript::echo());
    let mut request = user_message("hello");
    request["stream"] = false.into();
    let chat = post(&format!("{}/chat/completions", server.origin()), &request).await;
    assert_eq!(
        body(chat).await["choices"][0]["message"]["content"],
        "hello"
    );
    let anthropic = post(&format!("{}/v1/messages", server.origin()), &request).await;
    assert_eq!(body(anthropic).await["content"][0]["text"], "hello");
}

#[tokio::test]
async fn rules_come_before_answers_and_echo_after_them() {
    let mut script = ModelScript::new([ScriptedAnswer::text("first")])
        .rule("magic", ScriptedAnswer::text("rule"));
    script.rules.push(ModelRule {
        contains: "once".into(),
        answer: ScriptedAnswer::status(500, "oops"),
        times: Some(1),
    });
    let server = ModelServer::start(script);
    let url = format!("{}/chat/completions", server.base_url());
    let mut answers = Vec::new();
    for text in ["magic", "once", "once", "magic", "more"] {
        let mut request = user_message(text);
        request["stream"] = false.into();
        let answer = body(post(&url, &request).await).await;
        let text = answer["choices"][0]["message"]["content"].as_str();
        answers.push(text.map(str::to_owned));
    }
    let expected = [
        Some("rule"),
        None,
        Some("first"),
        Some("rule"),
        Some("more"),
    ];
    assert_eq!(answers, expected.map(|text| text.map(str::to_owned)));
    assert_eq!(server.requests().len(), 5);
    assert_eq!(server.requests()[0].body["messages"][0]["content"], "magic");
}

#[tokio::test]
async fn keys_models_and_refusals() {
    let server = ModelServer::start(ModelScript {
        refuse_others: true,
        ..ModelScript::new([
            ScriptedAnswer::too_many_requests("7"),
            ScriptedAnswer::Overflow,
        ])
        .with_models(["m"])
    });
    let url = format!("{}/chat/completions", server.base_url());
    let refused = post(&url, &user_message("hi")).await;
    assert_eq!(refused.status(), 429);
    assert_eq!(refused.headers()["retry-after"], "7");
    let full = body(post(&url, &user_message("hi")).await).await;
    assert_eq!(full["error"]["code"], "context_length_exceeded");
    let mut other = user_message("hi");
    other["model"] = "n".into();
    assert_eq!(post(&url, &other).await.status(), 404);

    let locked = ModelServer::start(ModelScript::echo().with_key("secret"));
    let url = format!("{}/v1/messages", locked.origin());
    assert_eq!(post(&url, &user_message("hi")).await.status(), 401);
    let request = Client::new().post(&url).header("x-api-key", "secret");
    let response = request
        .body(user_message("hi").to_string())
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), 200);
}

#[tokio::test]
async fn streams_break_off_as_told() {
    for (ending, is_error) in [(ReplyEnding::Early, false), (ReplyEnding::Cut, true)] {
        let answer = ScriptedAnswer::text("Hel").with(|reply| reply.ending = ending);
        let server = ModelServer::start(ModelScript::new([answer]));
        let url = format!("{}/chat/completions", server.base_url());
        let text = post(&url, &user_message("hi")).await.text().await;
        assert_eq!(text.is_err(), is_error);
        assert!(text.is_err() || !text.unwrap().contains("[DONE]"));
    }
}

#[tokio::test]
async fn a_client_that_leaves_is_noticed() {
    let server = ModelServer::start(ModelScript::new([ScriptedAnswer::Silence]));
    let url = format!("{}/chat/completions", server.base_url());
    let body = user_message("hi");
    let arrived = eventually(TIMEOUT, || !server.requests().is_empty());
    tokio::select! {
        answer = post(&url, &body) => panic!("{answer:?}"),
        has_arrived = arrived => assert!(has_arrived),
    }
    let left = || server.requests().iter().any(|request| request.abandoned);
    assert!(eventually(TIMEOUT, left).await);
}

#[tokio::test]
async fn models_are_listed_in_both_ways() {
    let server = ModelServer::start(ModelScript {
        ollama: true,
        loaded: vec!["b".into()],
        ..ModelScript::echo().with_models(["a", "b"])
    });
    let list = body(get(&format!("{}/v1/models", server.origin())).await).await;
    assert_eq!(list["data"][1]["id"], "b");
    let tags = body(get(&format!("{}/api/tags", server.origin())).await).await;
    assert_eq!(tags["models"][0]["name"], "a");
    let loaded = body(get(&format!("{}/api/ps", server.origin())).await).await;
    assert_eq!(loaded["models"][0]["name"], "b");
    let plain = ModelServer::start(ModelScript::echo());
    let tags = get(&format!("{}/api/tags", plain.origin())).await;
    assert_eq!(tags.status(), 404);
}

#[tokio::test]
async fn the_program_prints_its_address_and_follows_its_script() {
    let script =
        serde_json::to_string(&ModelScript::new([ScriptedAnswer::text("scripted")])).unwrap();
    let mut child = Command::new(binary("testkit-model"))
        .arg(script)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut url = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut url)
        .unwrap();
    let mut request = user_message("hi");
    request["stream"] = false.into();
    let answer = body(post(&format!("{}/chat/completions", url.trim()), &request).await).await;
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(answer["choices"][0]["message"]["content"], "scripted");
}
