//! Internal errors in MCP answers, which the HTTP status does not show.

use hermes_hub::{Problem, ProblemCode};
use serde_json::{Value, json};

use crate::test_hub::HttpAnswer;

/// The JSON-RPC messages of an answer, from a stream or a single body.
fn messages(answer: &HttpAnswer) -> Vec<Value> {
    let is_stream = answer
        .header("content-type")
        .starts_with("text/event-stream");
    let texts: Vec<&str> = if is_stream {
        let lines = answer.text.lines();
        lines
            .filter_map(|line| line.strip_prefix("data:"))
            .collect()
    } else {
        vec![&answer.text]
    };
    texts
        .into_iter()
        .filter_map(|text| serde_json::from_str(text).ok())
        .collect()
}

/// Protocol errors, and problems of tools, which are texts in results.
pub(super) fn problems(answer: &HttpAnswer) -> Vec<Value> {
    let mut found = Vec::new();
    for message in messages(answer) {
        if message["error"].is_object() {
            found.push(message["error"].clone());
        }
        let result = &message["result"];
        if result["isError"] == true {
            let contents = result["content"].as_array().into_iter().flatten();
            let texts = contents.filter_map(|content| content["text"].as_str());
            found.extend(
                texts.map(|text| serde_json::from_str(text).unwrap_or_else(|_| text.into())),
            );
        }
    }
    found
}

/// Whether it is an internal error of the Hub.
pub(super) fn is_fault(problem: &Value) -> bool {
    /// "Internal error" of JSON-RPC.
    const INTERNAL: i64 = -32603;
    problem["code"] == "internal"
        || problem["code"] == INTERNAL
        || problem["status"]
            .as_u64()
            .is_some_and(|status| status >= 500)
}

fn has_fault(answer: &HttpAnswer) -> bool {
    problems(answer).iter().any(is_fault)
}

fn json_answer(message: &Value) -> HttpAnswer {
    HttpAnswer {
        status: 200,
        headers: reqwest::header::HeaderMap::new(),
        text: message.to_string(),
    }
}

fn stream_answer(message: &Value) -> HttpAnswer {
    let mut answer = json_answer(&json!(null));
    let kind = "text/event-stream".parse().unwrap();
    answer.headers.insert("content-type", kind);
    answer.text = format!("id: 0\ndata:\n\ndata: {message}\n\n");
    answer
}

fn tool_problem(problem: &Problem) -> Value {
    let text = problem.to_document("request").to_json();
    let content = json!([{"type": "text", "text": text}]);
    json!({"jsonrpc": "2.0", "id": 1, "result": {"content": content, "isError": true}})
}

#[test]
fn a_fault_inside_of_a_result_is_found() {
    let fault = tool_problem(&Problem::new(ProblemCode::Internal, "a fault"));
    assert!(has_fault(&json_answer(&fault)));
    assert!(has_fault(&stream_answer(&fault)));
    let late = tool_problem(&Problem::new(ProblemCode::DeadlineExceeded, "too late"));
    assert!(has_fault(&json_answer(&late)));
}

#[test]
fn a_fault_of_the_protocol_is_found() {
    let error = |code: i64| json!({"jsonrpc": "2.0", "id": 1, "error": {"code": code}});
    assert!(has_fault(&json_answer(&error(-32603))));
    assert!(!has_fault(&json_answer(&error(-32602))));
}

#[test]
fn what_somebody_else_did_wrong_is_not_a_fault() {
    let refused = json_answer(&tool_problem(&Problem::new(
        ProblemCode::NotFound,
        "not there",
    )));
    assert_eq!(problems(&refused).len(), 1);
    assert!(!has_fault(&refused));
    let content = json!([{"type": "text", "text": "{\"status\":500}"}]);
    let read = json!({"jsonrpc": "2.0", "id": 1, "result": {"content": content}});
    assert!(!has_fault(&json_answer(&read)));
}
