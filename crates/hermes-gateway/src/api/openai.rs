//! OpenAI's protocol: chat completions, and the list of models with the agent as the only one.

use std::collections::VecDeque;

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode},
    response::{IntoResponse as _, Response},
};
use futures::{Stream, stream};
use hermes_agent::message::Message;
use hermes_protocol::{EventEnvelope, RunEvent, RunFailure, TokenUsage};
use hermes_store::{SessionId, StoreError, epoch_seconds};
use jiff::Zoned;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{ApiState, client_tools, error::ApiError, idempotency, payload::Payload};
use crate::{
    api::payload,
    runs::{RunInput, RunSource, RunWatcher, StartedRun, TurnRequest},
};

/// The agent's name as a model.
pub(super) const MODEL: &str = "hermes-agent";
const SESSION_HEADER: HeaderName = HeaderName::from_static("x-hermes-session-id");

/// Parses the input: a text, or messages that end with the user's, or with the results of the client's own tools.
pub(super) fn parse_input(
    input: Value,
    history: Option<Value>,
    session: Option<String>,
) -> Result<TurnRequest, ApiError> {
    let mut request = match history {
        None | Some(Value::Null) => Vec::new(),
        Some(history) => parse_messages("conversation_history", history)?,
    };
    match input {
        Value::String(text) if !text.trim().is_empty() => request.push(Message::user(text)),
        input @ Value::Array(_) => request.extend(parse_messages("input", input)?),
        _ => {
            return Err(ApiError::invalid_member(
                "input",
                "`input` is a text, or a list of messages that ends with the user's",
            ));
        }
    }
    let mut results = Vec::new();
    while let Some(Message::Tool(result)) = request.pop_if(|last| matches!(last, Message::Tool(_)))
    {
        results.insert(0, result);
    }
    let input = match request.pop_if(|last| matches!(last, Message::User { .. })) {
        _ if !results.is_empty() => None,
        Some(Message::User { content }) => Some(content),
        _ => {
            return Err(ApiError::invalid_member(
                "input",
                "the last message must be the user's, or the result of a tool",
            ));
        }
    };
    let session = match session {
        Some(id) => SessionId::parse(&id).map_err(StoreError::from)?,
        None => SessionId::for_gateway(&Zoned::now()),
    };
    let mut turn = TurnRequest {
        input,
        results,
        client_tools: None,
        instructions: None,
        history: Vec::new(),
        session,
        model: None,
        surface: None,
    };
    for message in request {
        match message {
            Message::System { content } => {
                turn.add_instructions(Some(content.text().into_owned()));
            }
            other => turn.history.push(other),
        }
    }
    Ok(turn)
}

fn parse_messages(param: &'static str, value: Value) -> Result<Vec<Message>, ApiError> {
    serde_json::from_value(value)
        .map_err(|error| ApiError::invalid_member(param, format!("`{param}`: {error}")))
}

#[derive(Deserialize)]
struct CompletionRequest {
    messages: Value,
    #[serde(default)]
    stream: bool,
    #[serde(default)]
    stream_options: Map<String, Value>,
    tools: Option<Value>,
    tool_choice: Option<Value>,
}

pub(super) async fn complete(
    State(api): State<ApiState>,
    headers: HeaderMap,
    body: Payload,
) -> Result<Response, ApiError> {
    let key = idempotency::parse_key("/v1/chat/completions", &headers, &body)?;
    let completion: CompletionRequest = body.parse()?;
    let session = match headers.get(&SESSION_HEADER).map(HeaderValue::to_str) {
        None => None,
        Some(Ok(id)) => Some(id.to_owned()),
        Some(Err(_)) => {
            let message = "`X-Hermes-Session-Id` is not a session id";
            return Err(ApiError::invalid("invalid_session_id", message));
        }
    };
    let input = completion.messages.clone();
    let mut request = parse_input(completion.messages, None, session)?;
    request.client_tools = client_tools::parse_client_tools(
        completion.tools.as_ref(),
        completion.tool_choice.as_ref(),
    )?;
    let run_input = RunInput::Turn(Box::new(request));
    let runs = api.gateway.runs();
    let started = runs.start(run_input, RunSource::Chat, input, key).await?;
    let waiting = RunWaiter::new(&api, &started, &headers).await?;
    let frame = CompletionFrame::new(&started);
    let mut response = if completion.stream {
        let with_usage = completion.stream_options.get("include_usage") == Some(&Value::Bool(true));
        payload::event_stream_response(frame.chunks(waiting, with_usage))
    } else {
        let answer = waiting.wait_for_answer().await?;
        Json(frame.whole(&answer)).into_response()
    };
    let session = started.session.map(|session| session.to_string());
    if let Some(Ok(value)) = session.map(|id| HeaderValue::from_str(&id)) {
        response.headers_mut().insert(SESSION_HEADER, value);
    }
    idempotency::mark_replay(&mut response, started.is_replay);
    Ok(response)
}

pub(super) async fn models() -> Json<Value> {
    Json(json!({"object": "list", "data": [model_card()]}))
}

pub(super) async fn model() -> Json<Value> {
    Json(model_card())
}

fn model_card() -> Value {
    json!({"id": MODEL, "object": "model", "created": 0, "owned_by": "hermes"})
}

/// What came of a run that somebody waited for.
pub(super) struct RunAnswer {
    pub(super) output: String,
    /// None for a job.
    pub(super) usage: Option<TokenUsage>,
    /// Calls that the client has to make, in the format of chat completions.
    pub(super) client_calls: Vec<Value>,
}

impl RunAnswer {
    fn finish_reason(&self) -> &'static str {
        if self.client_calls.is_empty() {
            "stop"
        } else {
            "tool_calls"
        }
    }
}

/// Waits for a run to end. Dropping it stops the run, unless the request has an idempotency key.
pub(super) struct RunWaiter {
    api: ApiState,
    run: String,
    watcher: RunWatcher,
    stops_on_drop: bool,
}

impl RunWaiter {
    pub(super) async fn new(
        api: &ApiState,
        started: &StartedRun,
        headers: &HeaderMap,
    ) -> Result<Self, ApiError> {
        let watching = api.gateway.runs().watch_events(&started.id, 0).await?;
        let watching = watching.ok_or_else(|| ApiError::internal("the run is gone"))?;
        Ok(Self {
            api: api.clone(),
            run: started.id.clone(),
            watcher: watching,
            stops_on_drop: !headers.contains_key("idempotency-key"),
        })
    }

    pub(super) async fn next(&mut self) -> Option<Result<RunStep, ApiError>> {
        loop {
            let body = match self.watcher.next().await {
                Ok(Some(event)) => event.body,
                Ok(None) => return None,
                Err(error) => return Some(Err(error.into())),
            };
            let event = match EventEnvelope::from_body(body) {
                Ok(envelope) => envelope.event,
                Err(error) => return Some(Err(ApiError::internal(error.to_string()))),
            };
            self.stops_on_drop &= !event.is_final();
            match event {
                RunEvent::MessageDelta { delta, .. } => return Some(Ok(RunStep::Text(delta))),
                RunEvent::Completed {
                    output,
                    usage,
                    tool_calls,
                    ..
                } => {
                    return Some(Ok(RunStep::End(RunAnswer {
                        output,
                        usage,
                        client_calls: tool_calls,
                    })));
                }
                RunEvent::Failed { error, .. } => return Some(Err(run_failure(&error))),
                RunEvent::Cancelled { .. } => {
                    let message = "the run was stopped";
                    return Some(Err(ApiError::conflict("run_cancelled", message)));
                }
                _ => {}
            }
        }
    }

    pub(super) async fn wait_for_answer(mut self) -> Result<RunAnswer, ApiError> {
        while let Some(step) = self.next().await {
            if let RunStep::End(answer) = step? {
                return Ok(answer);
            }
        }
        Err(ApiError::internal("the run ended without an answer"))
    }
}

impl Drop for RunWaiter {
    fn drop(&mut self) {
        if self.stops_on_drop {
            self.api.gateway.runs().abandon(&self.run);
        }
    }
}

pub(super) enum RunStep {
    Text(String),
    End(RunAnswer),
}

fn run_failure(failure: &RunFailure) -> ApiError {
    let (status, code) = match failure.code.as_str() {
        "model_error" => (StatusCode::BAD_GATEWAY, "model_error"),
        "no_model" => (StatusCode::SERVICE_UNAVAILABLE, "no_model"),
        "interrupted" => (StatusCode::SERVICE_UNAVAILABLE, "interrupted"),
        _ => (StatusCode::INTERNAL_SERVER_ERROR, "run_failed"),
    };
    ApiError::new(status, "server_error", code, failure.message.clone())
}

/// What all chunks of one completion share.
struct CompletionFrame {
    id: String,
    created: u64,
}

impl CompletionFrame {
    fn new(started: &StartedRun) -> Self {
        let digits = started.id.strip_prefix("run_").unwrap_or(&started.id);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "whole seconds since 1970 fit"
        )]
        let created = epoch_seconds() as u64;
        Self {
            id: format!("chatcmpl-{digits}"),
            created,
        }
    }

    fn whole(&self, answer: &RunAnswer) -> Value {
        let mut message = json!({"role": "assistant", "content": answer.output});
        if !answer.client_calls.is_empty() {
            message["tool_calls"] = json!(answer.client_calls);
            if answer.output.is_empty() {
                message["content"] = Value::Null;
            }
        }
        json!({
            "id": self.id,
            "object": "chat.completion",
            "created": self.created,
            "model": MODEL,
            "choices": [{
                "index": 0,
                "message": message,
                "logprobs": null,
                "finish_reason": answer.finish_reason(),
            }],
            "usage": usage_json(answer.usage),
        })
    }

    fn chunk(&self, delta: &Value, finish: Option<&str>) -> String {
        let choices = json!([{
            "index": 0, "delta": delta, "logprobs": null, "finish_reason": finish,
        }]);
        self.line(&choices, Value::Null)
    }

    fn line(&self, choices: &Value, usage: Value) -> String {
        let mut chunk = json!({
            "id": self.id,
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": MODEL,
            "choices": choices,
        });
        if !usage.is_null() {
            chunk["usage"] = usage;
        }
        format!("data: {chunk}\n\n")
    }

    fn chunks(self, waiting: RunWaiter, with_usage: bool) -> impl Stream<Item = String> + Send {
        let first = self.chunk(&json!({"role": "assistant", "content": ""}), None);
        let state = CompletionStream {
            frame: self,
            waiter: Some(waiting),
            ready: VecDeque::from([first]),
            with_usage,
        };
        stream::unfold(state, async |mut state| {
            let line = state.next().await?;
            Some((line, state))
        })
    }
}

/// A streamed completion.
struct CompletionStream {
    frame: CompletionFrame,
    waiter: Option<RunWaiter>,
    ready: VecDeque<String>,
    with_usage: bool,
}

impl CompletionStream {
    async fn next(&mut self) -> Option<String> {
        if let Some(line) = self.ready.pop_front() {
            return Some(line);
        }
        let waiting = self.waiter.as_mut()?;
        let Ok(step) = tokio::time::timeout(payload::KEEPALIVE_INTERVAL, waiting.next()).await
        else {
            return Some(payload::KEEPALIVE_COMMENT.to_owned());
        };
        match step {
            Some(Ok(RunStep::Text(text))) => {
                return Some(self.frame.chunk(&json!({"content": text}), None));
            }
            Some(Ok(RunStep::End(answer))) => {
                for (index, call) in answer.client_calls.iter().enumerate() {
                    let mut call = call.clone();
                    call["index"] = index.into();
                    let delta = json!({"tool_calls": [call]});
                    self.ready.push_back(self.frame.chunk(&delta, None));
                }
                let end = self.frame.chunk(&json!({}), Some(answer.finish_reason()));
                self.ready.push_back(end);
                if self.with_usage {
                    let usage = usage_json(answer.usage);
                    self.ready.push_back(self.frame.line(&json!([]), usage));
                }
            }
            Some(Err(error)) => self.ready.push_back(format!("data: {}\n\n", error.body())),
            None => {}
        }
        self.ready.push_back("data: [DONE]\n\n".to_owned());
        self.waiter = None;
        self.ready.pop_front()
    }
}

fn usage_json(usage: Option<TokenUsage>) -> Value {
    let usage = usage.unwrap_or_default();
    json!({
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
    })
}
