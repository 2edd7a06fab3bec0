//! Tools that need something from the client: requests of their own to a legacy client, a result that asks
//! for input to a stateless one.

use std::{
    sync::{atomic::Ordering, mpsc},
    time::{Duration, Instant},
};

use serde_json::{Map, Value, json};

use super::{
    ServerScript, content, lock,
    request::{RequestOutcome, ScriptRequest},
};
use crate::wire::{self, RpcError};

/// How often a waiting tool checks for cancellation.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Timeout for the client's reply.
const REPLY_TIMEOUT: Duration = Duration::from_mins(10);

/// What a tool asks the client for.
struct ServerRequest {
    method: &'static str,
    params: Value,
    /// Where the client declares that it can answer.
    capability: &'static str,
}

impl ServerRequest {
    fn for_tool(tool: &str, request: &ScriptRequest) -> Self {
        let given = request.argument("params");
        let (method, capability, usual) = match tool {
            "sample" => {
                let prompt = request.argument("prompt").as_str().unwrap_or("Say hello.");
                let message =
                    json!({ "role": "user", "content": { "type": "text", "text": prompt } });
                (
                    "sampling/createMessage",
                    "/sampling",
                    json!({ "messages": [message], "maxTokens": 100 }),
                )
            }
            "elicit" => (
                "elicitation/create",
                "/elicitation",
                json!({
                    "mode": "form",
                    "message": "What is your name?",
                    "requestedSchema": {
                        "type": "object",
                        "properties": { "name": { "type": "string", "description": "Your name." } },
                        "required": ["name"],
                    },
                }),
            ),
            "elicit_url" => (
                "elicitation/create",
                "/elicitation/url",
                json!({
                    "mode": "url",
                    "message": "Please log in.",
                    "url": "https://login.example.com/start",
                    "elicitationId": "login-1",
                }),
            ),
            _ => ("roots/list", "/roots", json!({})),
        };
        let params = if given.is_object() {
            given.clone()
        } else {
            usual
        };
        Self {
            method,
            params,
            capability,
        }
    }

    /// The capability as an object, `{"elicitation":{"url":{}}}` for instance.
    fn required(&self) -> Value {
        self.capability
            .trim_start_matches('/')
            .rsplit('/')
            .fold(json!({}), |inner, name| json!({ name: inner }))
    }
}

impl ServerScript {
    /// Answers `sample`, `elicit`, `elicit_url` and `roots` with what the client said.
    pub(super) fn request_client(
        &self,
        tool: &str,
        request: &ScriptRequest,
    ) -> Result<RequestOutcome, RpcError> {
        let question = ServerRequest::for_tool(tool, request);
        let declared = request
            .client_capabilities()
            .pointer(question.capability)
            .is_some();
        if !declared && !self.behaviour.calls.ask_undeclared {
            if request.is_stateless() {
                return Err(RpcError::new(
                    wire::MISSING_CAPABILITY,
                    "Missing required client capability",
                )
                .with_data(json!({ "requiredCapabilities": question.required() })));
            }
            return Ok(RequestOutcome::Result(content::failure(&format!(
                "the client does not offer {}",
                question.required()
            ))));
        }
        let count = match (tool, request.argument("requests").as_u64()) {
            ("sample", Some(count)) => count,
            ("sample", None) => self.behaviour.calls.sampling_flood.unwrap_or(1).into(),
            _ => 1,
        };
        if request.is_stateless() {
            self.request_input(tool, &question, count, request)
        } else {
            Ok(self.request_directly(&question, count, request))
        }
    }

    fn request_input(
        &self,
        tool: &str,
        question: &ServerRequest,
        count: u64,
        request: &ScriptRequest,
    ) -> Result<RequestOutcome, RpcError> {
        let round = match request.params["requestState"].as_str() {
            None => 0,
            // The state is ours: anything but a round of this very tool was tampered with.
            Some(state) => state
                .strip_prefix(&format!("{tool}/"))
                .and_then(|round| round.parse::<u64>().ok())
                .ok_or_else(|| RpcError::new(wire::INVALID_PARAMS, "requestState was altered"))?,
        };
        let responses = request.params["inputResponses"].as_object();
        if let Some(responses) = responses
            && !self.behaviour.calls.endless_input
        {
            let mut answers: Vec<Value> = responses.values().cloned().collect();
            let shown = if count == 1 && answers.len() == 1 {
                answers.remove(0)
            } else {
                json!(answers)
            };
            return Ok(RequestOutcome::Result(content::document(&shown)));
        }
        let input_requests: Map<String, Value> = (0..count)
            .map(|number| {
                let input = json!({ "method": question.method, "params": question.params });
                (format!("{tool}-{number}"), input)
            })
            .collect();
        Ok(RequestOutcome::Result(json!({
            "resultType": "input_required",
            "inputRequests": input_requests,
            "requestState": format!("{tool}/{}", round + 1),
        })))
    }

    fn request_directly(
        &self,
        question: &ServerRequest,
        count: u64,
        request: &ScriptRequest,
    ) -> RequestOutcome {
        let (sender, answers) = mpsc::channel();
        let mut ids = Vec::new();
        for _ in 0..count {
            let id = format!(
                "ask-{}",
                self.next_request_id.fetch_add(1, Ordering::SeqCst)
            );
            lock(&self.pending_requests).insert(id.clone(), sender.clone());
            request.outlet.send(&wire::request(
                &json!(id),
                question.method,
                &question.params,
            ));
            ids.push(id);
        }
        let mut received = Vec::new();
        let deadline = Instant::now() + REPLY_TIMEOUT;
        while received.len() < ids.len() && Instant::now() < deadline {
            match answers.recv_timeout(POLL_INTERVAL) {
                Ok(answer) => received.push(answer),
                Err(_) if request.wait(Duration::ZERO) => {
                    lock(&self.pending_requests).retain(|id, _| !ids.contains(id));
                    return request.cancelled_outcome();
                }
                Err(_) => {}
            }
        }
        let shown = if received.len() == 1 {
            received.remove(0)
        } else {
            json!(received)
        };
        RequestOutcome::Result(content::document(&shown))
    }

    /// Takes a client's answer to one of our requests: its result, or `{"error": …}`.
    pub(super) fn receive_reply(&self, mut message: Value) {
        let Some(id) = message["id"].as_str() else {
            return;
        };
        let Some(waiting) = lock(&self.pending_requests).remove(id) else {
            return;
        };
        let answer = match message.get_mut("result") {
            Some(result) => result.take(),
            None => json!({ "error": message["error"] }),
        };
        // The tool may have stopped waiting.
        let _ = waiting.send(answer);
    }
}
