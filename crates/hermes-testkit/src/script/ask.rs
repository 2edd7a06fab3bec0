//! Tools that need something from the client: requests of their own to a legacy client, a result that asks
//! for input to a stateless one.

use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::request::{Answer, Request};
use super::{Script, content, lock};
use crate::wire::{self, Error};

/// How often a waiting tool checks for cancellation.
const LOOK: Duration = Duration::from_millis(20);
/// Timeout for the client's reply.
const PATIENCE: Duration = Duration::from_mins(10);

/// What a tool asks the client for.
struct Question {
    method: &'static str,
    params: Value,
    /// Where the client declares that it can answer.
    capability: &'static str,
}

impl Question {
    fn of(tool: &str, request: &Request) -> Self {
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

impl Script {
    /// Answers `sample`, `elicit`, `elicit_url` and `roots` with what the client said.
    pub(super) fn ask(&self, tool: &str, request: &Request) -> Result<Answer, Error> {
        let question = Question::of(tool, request);
        let declared = request
            .client_capabilities()
            .pointer(question.capability)
            .is_some();
        if !declared && !self.behaviour.calls.ask_undeclared {
            if request.is_stateless() {
                return Err(Error::new(
                    wire::MISSING_CAPABILITY,
                    "Missing required client capability",
                )
                .with_data(json!({ "requiredCapabilities": question.required() })));
            }
            return Ok(Answer::Result(content::failure(&format!(
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
            self.ask_for_input(tool, &question, count, request)
        } else {
            Ok(self.ask_directly(&question, count, request))
        }
    }

    fn ask_for_input(
        &self,
        tool: &str,
        question: &Question,
        count: u64,
        request: &Request,
    ) -> Result<Answer, Error> {
        let round = match request.params["requestState"].as_str() {
            None => 0,
            // The state is ours: anything but a round of this very tool was tampered with.
            Some(state) => state
                .strip_prefix(&format!("{tool}/"))
                .and_then(|round| round.parse::<u64>().ok())
                .ok_or_else(|| Error::new(wire::INVALID_PARAMS, "requestState was altered"))?,
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
            return Ok(Answer::Result(content::document(&shown)));
        }
        let input_requests: Map<String, Value> = (0..count)
            .map(|number| {
                let input = json!({ "method": question.method, "params": question.params });
                (format!("{tool}-{number}"), input)
            })
            .collect();
        Ok(Answer::Result(json!({
            "resultType": "input_required",
            "inputRequests": input_requests,
            "requestState": format!("{tool}/{}", round + 1),
        })))
    }

    fn ask_directly(&self, question: &Question, count: u64, request: &Request) -> Answer {
        let (sender, answers) = mpsc::channel();
        let mut ids = Vec::new();
        for _ in 0..count {
            let id = format!("ask-{}", self.next_ask.fetch_add(1, Ordering::SeqCst));
            lock(&self.asked).insert(id.clone(), sender.clone());
            request.outlet.send(&wire::request(
                &json!(id),
                question.method,
                &question.params,
            ));
            ids.push(id);
        }
        let mut received = Vec::new();
        let deadline = Instant::now() + PATIENCE;
        while received.len() < ids.len() && Instant::now() < deadline {
            match answers.recv_timeout(LOOK) {
                Ok(answer) => received.push(answer),
                Err(_) if request.wait(Duration::ZERO) => {
                    lock(&self.asked).retain(|id, _| !ids.contains(id));
                    return request.stopped();
                }
                Err(_) => {}
            }
        }
        let shown = if received.len() == 1 {
            received.remove(0)
        } else {
            json!(received)
        };
        Answer::Result(content::document(&shown))
    }

    /// Takes a client's answer to one of our requests: its result, or `{"error": …}`.
    pub(super) fn take_answer(&self, mut message: Value) {
        let Some(id) = message["id"].as_str() else {
            return;
        };
        let Some(waiting) = lock(&self.asked).remove(id) else {
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
