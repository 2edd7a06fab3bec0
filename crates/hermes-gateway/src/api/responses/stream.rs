//! A response as a stream of events.

use std::collections::VecDeque;

use futures::{Stream, stream};
use serde_json::{Value, json};

use super::{ResponseFrame, text_part, usage_json};
use crate::api::{
    openai::{RunAnswer, RunStep, RunWaiter},
    payload,
};

/// The events of a response, until it ends.
pub(super) fn response_events(
    frame: ResponseFrame,
    waiting: RunWaiter,
) -> impl Stream<Item = String> + Send {
    let mut state = ResponseStream {
        frame,
        waiter: Some(waiting),
        ready: VecDeque::new(),
        sequence: 0,
        text: None,
    };
    for name in ["response.created", "response.in_progress"] {
        let response = state.frame.object("in_progress", &[], &Value::Null);
        state.push_event(name, json!({"response": response}));
    }
    stream::unfold(state, async |mut state| {
        let line = state.next().await?;
        Some((line, state))
    })
}

/// A streamed response.
struct ResponseStream {
    frame: ResponseFrame,
    waiter: Option<RunWaiter>,
    ready: VecDeque<String>,
    sequence: u64,
    /// The text so far; `None` before the first delta.
    text: Option<String>,
}

impl ResponseStream {
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
            Some(Ok(RunStep::Text(text))) => self.push_text(&text),
            Some(Ok(RunStep::End(answer))) => {
                self.push_end(&answer);
                self.waiter = None;
            }
            Some(Err(error)) => {
                let mut response = self.frame.object("failed", &[], &Value::Null);
                let body = error.body();
                response["error"] = json!({
                    "code": body["error"]["code"], "message": body["error"]["message"],
                });
                self.push_event("response.failed", json!({"response": response}));
                self.waiter = None;
            }
            None => self.waiter = None,
        }
        self.ready.pop_front()
    }

    fn push_event(&mut self, name: &str, mut members: Value) {
        members["type"] = name.into();
        members["sequence_number"] = self.sequence.into();
        self.sequence += 1;
        self.ready
            .push_back(format!("event: {name}\ndata: {members}\n\n"));
    }

    fn push_text(&mut self, text: &str) {
        let id = self.frame.message_id();
        if self.text.is_none() {
            let item = self.frame.message("in_progress", &[]);
            self.push_event(
                "response.output_item.added",
                json!({"output_index": 0, "item": item}),
            );
            self.push_event(
                "response.content_part.added",
                json!({"item_id": id, "output_index": 0, "content_index": 0, "part": text_part("")}),
            );
        }
        self.text.get_or_insert_default().push_str(text);
        self.push_event(
            "response.output_text.delta",
            json!({
                "item_id": id, "output_index": 0, "content_index": 0, "delta": text, "logprobs": [],
            }),
        );
    }

    fn push_end(&mut self, answer: &RunAnswer) {
        // An answer without deltas has not been streamed yet.
        if self.text.is_none() && (!answer.output.is_empty() || answer.client_calls.is_empty()) {
            self.push_text(&answer.output);
        }
        let id = self.frame.message_id();
        let text = self.text.clone();
        if let Some(text) = &text {
            self.push_event(
                "response.output_text.done",
                json!({
                    "item_id": id, "output_index": 0, "content_index": 0, "text": text, "logprobs": [],
                }),
            );
            self.push_event(
                "response.content_part.done",
                json!({
                    "item_id": id, "output_index": 0, "content_index": 0, "part": text_part(text),
                }),
            );
            let item = self.frame.message("completed", &[text_part(text)]);
            self.push_event(
                "response.output_item.done",
                json!({"output_index": 0, "item": item}),
            );
        }
        let first = usize::from(text.is_some());
        for (index, call) in answer.client_calls.iter().enumerate() {
            self.push_call(first + index, index, call);
        }
        let output = self
            .frame
            .output(text.as_deref().unwrap_or_default(), answer);
        let response = self.frame.object("completed", &output, &usage_json(answer));
        self.push_event("response.completed", json!({"response": response}));
    }

    fn push_call(&mut self, place: usize, index: usize, call: &Value) {
        let mut begun = self.frame.call(index, call, "in_progress");
        let id = begun["id"].clone();
        let arguments = begun["arguments"].take();
        begun["arguments"] = "".into();
        self.push_event(
            "response.output_item.added",
            json!({"output_index": place, "item": begun}),
        );
        self.push_event(
            "response.function_call_arguments.delta",
            json!({"item_id": id, "output_index": place, "delta": arguments}),
        );
        let name = &call["function"]["name"];
        self.push_event(
            "response.function_call_arguments.done",
            json!({"item_id": id, "output_index": place, "name": name, "arguments": arguments}),
        );
        let item = self.frame.call(index, call, "completed");
        self.push_event(
            "response.output_item.done",
            json!({"output_index": place, "item": item}),
        );
    }
}
