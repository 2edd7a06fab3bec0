//! Responses, whole and streamed.

use hermes_testkit::model::ScriptedAnswer;

use super::*;

fn respond(service: &ApiFixture, body: &Value) -> reqwest::RequestBuilder {
    service
        .request(Method::POST, "/v1/responses")
        .body(body.to_string())
}

#[tokio::test]
async fn a_response_comes_whole_and_the_next_one_goes_on_from_it() {
    let script = ModelScript::new([
        ScriptedAnswer::text("Hello."),
        ScriptedAnswer::text("Again."),
        ScriptedAnswer::text("Once more."),
    ]);
    let service = ApiFixture::start(script).await;
    let body = json!({"model": "m", "input": "Hi", "instructions": "Be brief."});
    let (status, first) = send(respond(&service, &body)).await;
    assert_eq!(status, StatusCode::OK, "{first}");
    assert_eq!(
        (&first["object"], &first["status"]),
        (&json!("response"), &json!("completed"))
    );
    assert_eq!(first["output"][0]["content"][0]["text"], "Hello.");
    let prompt = service.last_messages()[0]["content"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(prompt.ends_with("Be brief."), "{prompt}");

    let body = json!({"model": "m", "input": "More", "previous_response_id": first["id"]});
    let (status, second) = send(respond(&service, &body)).await;
    assert_eq!(status, StatusCode::OK, "{second}");
    assert_eq!(second["previous_response_id"], first["id"]);
    let request: Vec<Value> = service.last_messages()[1..]
        .iter()
        .map(|message| message["content"].clone())
        .collect();
    assert_eq!(request, ["Hi", "Hello.", "More"]);
    // A run continues it, too.
    let run = json!({"input": "Last", "previous_response_id": second["id"]});
    let run = service.run(&run).await;
    assert_eq!(service.wait_for_end(&run).await["output"], "Once more.");
    let request = service.last_messages();
    assert_eq!(request[request.len() - 2]["content"], "Again.");
    let body = json!({"model": "m", "input": "More", "previous_response_id": "resp_0"});
    let (status, body) = send(respond(&service, &body)).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert_eq!(body["error"]["code"], "previous_response_not_found");
}

#[tokio::test]
async fn a_function_of_the_client_is_called_and_its_output_should_continue() {
    let script = ModelScript::new([
        ScriptedAnswer::call("weather", &json!({"at": "Rome"})),
        ScriptedAnswer::text("Sunny."),
    ]);
    let service = ApiFixture::start(script).await;
    let tools = json!([{"type": "function", "name": "weather", "parameters": {"type": "object"}}]);
    let body = json!({"model": "m", "input": "Rome?", "tools": tools});
    let (_, first) = send(respond(&service, &body)).await;
    let call = &first["output"][0];
    assert_eq!(
        (&call["type"], &call["name"]),
        (&json!("function_call"), &json!("weather"))
    );
    let output = json!([
        {"type": "function_call_output", "call_id": call["call_id"], "output": "22 degrees"},
    ]);
    let body = json!({
        "model": "m", "input": output, "tools": tools, "previous_response_id": first["id"],
    });
    let (status, second) = send(respond(&service, &body)).await;
    assert_eq!(status, StatusCode::OK, "{second}");
    assert_eq!(second["output"][0]["content"][0]["text"], "Sunny.");
    let messages = service.last_messages();
    assert_eq!(messages.last().unwrap()["content"], "22 degrees");
    assert_eq!(messages.len(), 4, "{messages:?}");
}

#[tokio::test]
async fn a_streamed_response_tells_its_events_in_order() {
    let service =
        ApiFixture::start(ModelScript::new([ScriptedAnswer::pieces(["Hel", "lo"])])).await;
    let body = json!({"model": "m", "input": "Hi", "stream": true});
    let mut watcher = EventReader::new(respond(&service, &body).send().await.unwrap());
    let mut events: Vec<Value> = Vec::new();
    while let Some(block) = watcher.block().await {
        let (name, data) = block.split_once('\n').unwrap();
        let event: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(name, format!("event: {}", event["type"].as_str().unwrap()));
        assert_eq!(event["sequence_number"], events.len());
        events.push(event);
    }
    let mut names: Vec<&str> = events
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .collect();
    names.dedup();
    assert_eq!(
        names,
        [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.content_part.added",
            "response.output_text.delta",
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.completed",
        ]
    );
    let last = events.last().unwrap();
    assert_eq!(last["response"]["output"][0]["content"][0]["text"], "Hello");
}
