//! `/v1/responses`: OpenAI's newer protocol, over the same runs as chat completions.
//!
//! A response is a run: its id is the run's with another prefix, and `previous_response_id` continues that run's
//! session. Messages are always stored in the home, whatever `store` says.

mod input;
mod stream;

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Response},
};
use hermes_store::epoch_seconds;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    ApiState, client_tools,
    error::ApiError,
    idempotency, openai,
    openai::{MODEL, RunAnswer, RunWaiter},
    payload::Payload,
    runs,
};
use crate::{
    api::payload,
    runs::{RunInput, RunSource},
};

#[derive(Deserialize)]
struct CreateResponse {
    input: Value,
    instructions: Option<String>,
    previous_response_id: Option<String>,
    #[serde(default)]
    stream: bool,
    tools: Option<Value>,
    tool_choice: Option<Value>,
    #[serde(default)]
    metadata: Option<Map<String, Value>>,
}

pub(super) async fn create(
    State(api): State<ApiState>,
    headers: HeaderMap,
    body: Payload,
) -> Result<Response, ApiError> {
    let key = idempotency::parse_key("/v1/responses", &headers, &body)?;
    let new: CreateResponse = body.parse()?;
    let session = match &new.previous_response_id {
        Some(id) => Some(find_session(&api, id).await?),
        None => None,
    };
    let mut request = openai::parse_input(input::to_messages(&new.input)?, None, session)?;
    request.add_instructions(new.instructions.clone());
    request.client_tools =
        client_tools::parse_client_tools(new.tools.as_ref(), new.tool_choice.as_ref())?;
    let input = RunInput::Turn(Box::new(request));
    let runs = api.gateway.runs();
    let started = runs
        .start(input, RunSource::Chat, new.input.clone(), key)
        .await?;
    let waiting = RunWaiter::new(&api, &started, &headers).await?;
    let frame = ResponseFrame::new(&started.id, new);
    let is_streamed = frame.request.stream;
    let mut response = if is_streamed {
        payload::event_stream_response(stream::response_events(frame, waiting))
    } else {
        let answer = waiting.wait_for_answer().await?;
        let output = frame.output(&answer.output, &answer);
        Json(frame.object("completed", &output, &usage_json(&answer))).into_response()
    };
    idempotency::mark_replay(&mut response, started.is_replay);
    Ok(response)
}

async fn find_session(api: &ApiState, id: &str) -> Result<String, ApiError> {
    let run = id
        .strip_prefix("resp_")
        .map(|digits| format!("run_{digits}"));
    let session = match run {
        Some(run) => runs::find_session(api, &run).await.ok(),
        None => None,
    };
    session.ok_or_else(|| {
        let message = format!("there is no response `{id}` to continue");
        ApiError::new(
            StatusCode::BAD_REQUEST,
            "invalid_request_error",
            "previous_response_not_found",
            message,
        )
    })
}

/// What all events of one response share.
struct ResponseFrame {
    digits: String,
    created: u64,
    request: CreateResponse,
}

impl ResponseFrame {
    fn new(run: &str, request: CreateResponse) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "whole seconds since 1970 fit"
        )]
        let created = epoch_seconds() as u64;
        Self {
            digits: run.strip_prefix("run_").unwrap_or(run).to_owned(),
            created,
            request,
        }
    }

    /// The response object with this status and output.
    fn object(&self, status: &str, output: &[Value], usage: &Value) -> Value {
        let request = &self.request;
        json!({
            "id": format!("resp_{}", self.digits),
            "object": "response",
            "created_at": self.created,
            "status": status,
            "background": false,
            "error": null,
            "incomplete_details": null,
            "instructions": request.instructions,
            "max_output_tokens": null,
            "model": MODEL,
            "output": output,
            "parallel_tool_calls": true,
            "previous_response_id": request.previous_response_id,
            "reasoning": {"effort": null, "summary": null},
            "store": true,
            "temperature": null,
            "text": {"format": {"type": "text"}},
            "tool_choice": request.tool_choice.clone().unwrap_or_else(|| "auto".into()),
            "tools": request.tools.clone().unwrap_or_else(|| json!([])),
            "top_p": null,
            "truncation": "disabled",
            "usage": usage,
            "metadata": request.metadata.clone().unwrap_or_default(),
        })
    }

    /// The output: the text, if any, and the calls that the client has to make.
    fn output(&self, text: &str, answer: &RunAnswer) -> Vec<Value> {
        let message = (!text.is_empty() || answer.client_calls.is_empty())
            .then(|| self.message("completed", &[text_part(text)]));
        let calls = answer.client_calls.iter().enumerate();
        let calls = calls.map(|(index, call)| self.call(index, call, "completed"));
        message.into_iter().chain(calls).collect()
    }

    fn message_id(&self) -> String {
        format!("msg_{}", self.digits)
    }

    fn message(&self, status: &str, content: &[Value]) -> Value {
        json!({
            "type": "message",
            "id": self.message_id(),
            "status": status,
            "role": "assistant",
            "content": content,
        })
    }

    fn call(&self, index: usize, call: &Value, status: &str) -> Value {
        json!({
            "type": "function_call",
            "id": format!("fc_{}{index}", self.digits),
            "call_id": call["id"],
            "name": call["function"]["name"],
            "arguments": call["function"]["arguments"],
            "status": status,
        })
    }
}

fn text_part(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []})
}

fn usage_json(answer: &RunAnswer) -> Value {
    let usage = answer.usage.unwrap_or_default();
    json!({
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.total_tokens,
    })
}
