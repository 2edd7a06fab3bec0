//! Runs: started, watched, stopped, and started again under the same key.

use std::{path::Path, time::Instant};

use hermes_testkit::model::{ReplyEnding, ScriptedAnswer, ScriptedUsage};

use super::*;

fn slow(pieces: &[&str], pause: u64) -> ScriptedAnswer {
    ScriptedAnswer::pieces(pieces.iter().copied()).with(|reply| reply.pause_ms = pause)
}

/// A call that ends with `released` when the file is there.
fn wait_for_file(file: &Path) -> ScriptedAnswer {
    let command = format!(
        "until [ -e '{}' ]; do sleep 0.05; done; echo released",
        file.display()
    );
    ScriptedAnswer::call("terminal", &json!({"command": command}))
}

#[tokio::test]
async fn a_run_is_answered_and_its_events_are_numbered() {
    let script = ModelScript::new([
        ScriptedAnswer::call("read_file", &json!({"path": "note.txt"})),
        ScriptedAnswer::text("It says hello."),
    ]);
    let service = ApiFixture::start(script).await;
    service.home.write("note.txt", "hello");
    let run = service
        .run(&json!({"input": "What does note.txt say?"}))
        .await;
    assert_eq!(run.len(), "run_".len() + 32);
    let events = service.events(&run, 0).await;
    let expected = [
        "run.started",
        "tool.started",
        "tool.completed",
        "message.delta",
        "run.completed",
    ];
    assert_eq!(names(&events), expected);
    assert_eq!(numbers(&events), [1, 2, 3, 4, 5]);
    for (_, event) in &events {
        assert_eq!(event["run_id"], run.as_str());
        assert!(event["timestamp"].as_f64().unwrap() > 1e9);
    }
    let tool = &events[1].1;
    assert_eq!(
        (&tool["tool"], &tool["preview"]),
        (&json!("read_file"), &json!("note.txt"))
    );
    assert_eq!(events[2].1["error"], false);
    assert_eq!(events[4].1["output"], "It says hello.");
    let shown = service.get(&format!("/v1/runs/{run}")).await;
    assert_eq!(shown["object"], "hermes.run");
    assert_eq!(shown["status"], "completed");
    assert_eq!(shown["output"], "It says hello.");
    assert_eq!(
        (&shown["last_event"], &shown["last_event_id"]),
        (&json!("run.completed"), &json!(5))
    );
    assert!(shown["usage"]["total_tokens"].is_u64());
}

#[tokio::test]
async fn three_watchers_see_the_same_and_one_may_leave_and_return() {
    let pieces: Vec<String> = (0..20).map(|number| format!("{number} ")).collect();
    let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
    let service = ApiFixture::start(ModelScript::new([slow(&pieces, 60)])).await;
    let run = service.run(&json!({"input": "Count."})).await;
    let one = service.watch(&run, 0).await;
    let two = service.watch(&run, 0).await;
    let mut three = service.watch(&run, 0).await;
    let mut seen = Vec::new();
    for _ in 0..4 {
        seen.push(three.next().await.unwrap());
    }
    drop(three);
    let last = seen.last().unwrap().0;
    let back = async {
        let path = format!("/v1/runs/{run}");
        let is_ahead = hermes_testkit::eventually_some(TIMEOUT, async || {
            let shown = service.get(&path).await;
            (shown["last_event_id"].as_i64() >= Some(last + 3)).then_some(())
        });
        assert!(is_ahead.await.is_some(), "nothing happens meanwhile");
        service.watch(&run, last).await.read_rest().await
    };
    let (one, two, rest) = tokio::join!(one.read_rest(), two.read_rest(), back);
    seen.extend(rest);
    assert_eq!(one, two);
    assert_eq!(one, seen);
    let gapless: Vec<i64> = (1..=i64::try_from(one.len()).unwrap()).collect();
    assert_eq!(numbers(&one), gapless);
    let text: String = one
        .iter()
        .filter_map(|(_, event)| event["delta"].as_str())
        .collect();
    assert_eq!(text, pieces.concat());
    // What is over is told again, from anywhere.
    assert_eq!(service.events(&run, 0).await, one);
    let path = format!("/v1/runs/{run}/events?after=2");
    let late = service.request(Method::GET, &path).send().await.unwrap();
    assert_eq!(EventReader::new(late).read_rest().await, one[2..]);
}

#[tokio::test]
async fn a_stopped_run_ends_its_tool_at_once() {
    let script = ModelScript::new([ScriptedAnswer::call(
        "terminal",
        &json!({"command": "sleep 60"}),
    )]);
    let service = ApiFixture::start(script).await;
    let run = service.run(&json!({"input": "Wait."})).await;
    let mut watcher = service.watch(&run, 0).await;
    while watcher.next().await.unwrap().1["event"] != "tool.started" {}
    let began = Instant::now();
    let (status, body) = service
        .post(&format!("/v1/runs/{run}/stop"), &json!({}))
        .await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(body, json!({"run_id": run, "status": "stopping"}));
    let rest = watcher.read_rest().await;
    // A loaded machine is given more than the second it should take.
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(names(&rest).last(), Some(&"run.cancelled"));
    let shown = service.get(&format!("/v1/runs/{run}")).await;
    assert_eq!(shown["status"], "cancelled");
    let (status, body) = service
        .post(&format!("/v1/runs/{run}/stop"), &json!({}))
        .await;
    assert_eq!(
        (status, &body["error"]["code"]),
        (StatusCode::CONFLICT, &json!("run_not_active"))
    );
}

#[tokio::test]
async fn a_session_goes_on_by_its_id_or_by_an_earlier_run() {
    let service = ApiFixture::start(ModelScript::echo()).await;
    let first = service
        .run(&json!({"input": "one", "session_id": "mine"}))
        .await;
    assert_eq!(service.wait_for_end(&first).await["session_id"], "mine");
    let second = service
        .run(&json!({"input": "two", "session_id": "mine"}))
        .await;
    service.wait_for_end(&second).await;
    let third = service
        .run(&json!({"input": "three", "previous_response_id": second}))
        .await;
    assert_eq!(service.wait_for_end(&third).await["session_id"], "mine");
    let request: Vec<Value> = service.last_messages()[1..]
        .iter()
        .map(|message| message["content"].clone())
        .collect();
    assert_eq!(json!(request), json!(["one", "one", "two", "two", "three"]));
}

#[tokio::test]
async fn turns_of_a_session_follow_each_other_and_sessions_do_not_wait() {
    let directory = tempfile::tempdir().unwrap();
    let go = directory.path().join("go");
    let script = ModelScript::echo()
        .rule("first", wait_for_file(&go))
        .rule("released", ScriptedAnswer::text("abcd"))
        .rule("second", ScriptedAnswer::text("2"));
    let service = ApiFixture::start(script).await;
    let first = service
        .run(&json!({"input": "first", "session_id": "s"}))
        .await;
    let mut watcher = service.watch(&first, 0).await;
    watcher.next().await.unwrap();
    let second = service
        .run(&json!({"input": "second", "session_id": "s"}))
        .await;
    let other = service
        .run(&json!({"input": "other", "session_id": "t"}))
        .await;
    assert_eq!(service.wait_for_end(&other).await["output"], "other");
    let waits = service.get(&format!("/v1/runs/{second}")).await;
    assert_eq!(waits["status"], "queued");
    std::fs::write(go, "").unwrap();
    assert_eq!(service.wait_for_end(&second).await["output"], "2");
    let messages = service.last_messages();
    let before = &messages[messages.len() - 2];
    assert_eq!(before["content"], "abcd");
}

#[tokio::test]
async fn instructions_and_what_was_said_before_reach_the_model() {
    let service = ApiFixture::start(ModelScript::echo()).await;
    let run = service
        .run(&json!({
            "input": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "now"},
            ],
            "instructions": "Speak Latin.",
            "conversation_history": [
                {"role": "user", "content": "before"},
                {"role": "assistant", "content": "indeed"},
            ],
        }))
        .await;
    let ended = service.wait_for_end(&run).await;
    assert_eq!(ended["output"], "now");
    let messages = service.last_messages();
    let system = messages[0]["content"].as_str().unwrap();
    assert!(system.ends_with("Be brief.\n\nSpeak Latin."), "{system}");
    let request: Vec<&Value> = messages[1..].iter().map(|it| &it["content"]).collect();
    assert_eq!(request, ["before", "indeed", "now"]);
    let session = ended["session_id"].as_str().unwrap();
    let stored = service
        .get(&format!("/api/sessions/{session}/messages"))
        .await;
    assert_eq!(stored["messages"].as_array().unwrap().len(), 4);
}

#[tokio::test]
async fn too_many_runs_are_refused_for_the_moment() {
    let directory = tempfile::tempdir().unwrap();
    let go = directory.path().join("go");
    let script = ModelScript::echo()
        .rule("slow", wait_for_file(&go))
        .rule("released", ScriptedAnswer::text("abcd"));
    let config = "api_server: {max_concurrent_runs: 2}";
    let service = ApiFixture::start_with(script, config, ControlMode::Own).await;
    let one = service.run(&json!({"input": "slow 1"})).await;
    let two = service.run(&json!({"input": "slow 2"})).await;
    let request = service
        .request(Method::POST, "/v1/runs")
        .body(json!({"input": "three"}).to_string());
    let response = request.send().await.unwrap();
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
    assert!(response.headers().contains_key("Retry-After"));
    std::fs::write(go, "").unwrap();
    for run in [one, two] {
        assert_eq!(service.wait_for_end(&run).await["output"], "abcd");
    }
    let three = service.run(&json!({"input": "three"})).await;
    assert_eq!(service.wait_for_end(&three).await["output"], "three");
}

#[tokio::test]
async fn the_same_key_is_the_same_run_and_another_body_a_conflict() {
    let service = ApiFixture::start(ModelScript::echo()).await;
    let post = |key: &str, input: &str| {
        let body = json!({"input": input}).to_string();
        let request = service.request(Method::POST, "/v1/runs").body(body);
        request.header("Idempotency-Key", key.to_owned())
    };
    let (_, first) = send(post("k", "hi")).await;
    let again = post("k", "hi").send().await.unwrap();
    assert_eq!(again.status(), StatusCode::ACCEPTED);
    assert_eq!(again.headers()["Idempotent-Replay"], "true");
    let again: Value = serde_json::from_str(&again.text().await.unwrap()).unwrap();
    assert_eq!(again["run_id"], first["run_id"]);
    let (status, body) = send(post("k", "ho")).await;
    assert_eq!(status, StatusCode::CONFLICT);
    assert_eq!(body["error"]["code"], "idempotency_key_reused");
    let (_, other) = send(post("l", "hi")).await;
    assert_ne!(other["run_id"], first["run_id"]);
    let (status, _) = send(post(&"k".repeat(129), "hi")).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    for run in [&first, &other] {
        service.wait_for_end(run["run_id"].as_str().unwrap()).await;
    }
    assert_eq!(service.model.requests().len(), 2);
}

#[tokio::test]
async fn a_model_that_refuses_fails_the_run_and_nothing_else() {
    let script = ModelScript::echo().rule("bad", ScriptedAnswer::status(400, "I do not like it"));
    let service = ApiFixture::start(script).await;
    let bad = service.run(&json!({"input": "bad"})).await;
    let good = service.run(&json!({"input": "good"})).await;
    let shown = service.wait_for_end(&bad).await;
    assert_eq!(shown["status"], "failed");
    assert_eq!(shown["error"]["code"], "model_error");
    let message = shown["error"]["message"].as_str().unwrap();
    assert!(message.contains("I do not like it"), "{message}");
    assert_eq!(service.wait_for_end(&good).await["status"], "completed");
}

#[tokio::test]
async fn a_run_without_any_sign_of_life_is_stopped() {
    let stalled = ScriptedAnswer::text("begun").with(|reply| reply.ending = ReplyEnding::Stalled);
    let service = ApiFixture::start(ModelScript::new([stalled])).await;
    let config = service.home.path().join("config.yaml");
    let text = std::fs::read_to_string(&config).unwrap();
    let text = text.replace(
        "api_max_retries: 0",
        "api_max_retries: 0, gateway_timeout: 1",
    );
    service.home.write_config(&text);
    let settings = Settings::load(service.gateway.home()).unwrap();
    service.gateway.reload(settings).await;
    let run = service.run(&json!({"input": "Hi"})).await;
    let shown = service.wait_for_end(&run).await;
    assert_eq!(shown["error"]["code"], "inactive", "{shown}");
}

#[tokio::test]
async fn input_that_makes_no_sense_is_refused() {
    let service = ApiFixture::start(ModelScript::echo()).await;
    for body in [
        json!({}),
        json!({"input": ""}),
        json!({"input": 3}),
        json!({"input": []}),
        json!({"input": [{"role": "assistant", "content": "x"}]}),
        json!({"input": [{"role": "king", "content": "x"}]}),
        json!({"input": "x", "session_id": "../x"}),
        json!({"input": "x", "conversation_history": "y"}),
    ] {
        let (status, answer) = service.post("/v1/runs", &body).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{body} {answer}");
    }
    assert!(service.model.requests().is_empty());
}

#[tokio::test]
async fn what_a_run_used_is_told_though_it_failed_or_was_stopped() {
    let counted = |answer: ScriptedAnswer| {
        answer.with(|reply| {
            reply.usage = Some(ScriptedUsage {
                prompt: 100,
                cached: 40,
                completion: 10,
            });
        })
    };
    let read = || ScriptedAnswer::call("read_file", &json!({"path": "note.txt"}));
    let stalled = ScriptedAnswer::text("begun").with(|reply| reply.ending = ReplyEnding::Stalled);
    for (answers, end) in [
        (
            vec![counted(read()), ScriptedAnswer::status(400, "not today")],
            "run.failed",
        ),
        (vec![counted(read()), stalled], "run.cancelled"),
    ] {
        let service = ApiFixture::start(ModelScript::new(answers)).await;
        service.home.write("note.txt", "hello");
        let run = service.run(&json!({"input": "Go."})).await;
        if end == "run.cancelled" {
            // Its second request is answered in part.
            let begun = hermes_testkit::eventually_some(TIMEOUT, async || {
                let shown = service.get(&format!("/v1/runs/{run}")).await;
                (shown["last_event_id"].as_u64() >= Some(4)).then_some(())
            });
            begun.await.expect("it says nothing");
            service
                .post(&format!("/v1/runs/{run}/stop"), &json!({}))
                .await;
        }
        let events = service.events(&run, 0).await;
        let (_, last) = events.last().unwrap();
        assert_eq!(last["event"], end, "{last}");
        assert_eq!(last["usage"]["input_tokens"], 100, "{last}");
        assert_eq!(last["usage"]["total_tokens"], 110, "{last}");
        assert_eq!(last["usage"]["cached_tokens"], 40, "{last}");
        assert!(last["model"].is_string(), "{last}");
        let shown = service.get(&format!("/v1/runs/{run}")).await;
        assert_eq!(shown["usage"]["total_tokens"], 110, "{shown}");
    }
}
