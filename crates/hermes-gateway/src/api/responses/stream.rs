//! A response as a stream of events.

use std::collections::VecDeque;

use futures::{Stream, stream};
use serde_json::{Value, json};

use super::{ResponseHead, text_part, usage};
use crate::api::{
    openai::{Answer, Step, Waiting},
    sse,
};

/// The events of a response, until it ends.
pub(super) fn events(frame: ResponseHead, waiting: Waiting) -> impl Stream<Item = String> + Send {
    let mut state = Streaming {
        frame,
        waiting: Some(waiting),
        ready: VecDeque::new(),
        sequence: 0,
        text: None,
    };
    for name in ["response.created", "response.in_progress"] {
        let response = state.frame.object("in_progress", &[], &Value::Null);
        state.tell(name, json!({"response": response}));
    }
    stream::unfold(state, async |mut state| {
        let line = state.next().await?;
        Some((line, state))
    })
}

/// A streamed response.
struct Streaming {
    frame: ResponseHead,
    waiting: Option<Waiting>,
    ready: VecDeque<String>,
    sequence: u64,
    /// The text so far; `None` before the first delta.
    text: Option<String>,
}

impl Streaming {
    async fn next(&mut self) -> Option<String> {
        if let Some(line) = self.ready.pop_front() {
            return Some(line);
        }
        let waiting = self.waiting.as_mut()?;
        let Ok(step) = tokio::time::timeout(sse::KEEPALIVE, waiting.next()).await else {
            return Some(sse::STILL_HERE.to_owned());
        };
        match step {
            Some(Ok(Step::Text(text))) => self.tell_text(&text),
            Some(Ok(Step::End(answer))) => {
                self.end(&answer);
                self.waiting = None;
            }
            Some(Err(error)) => {
                let mut response = self.frame.object("failed", &[], &Value::Null);
                let body = error.body();
                response["error"] = json!({
                    "code": body["error"]["code"], "message": body["error"]["message"],
                });
                self.tell("response.failed", json!({"response": response}));
                self.waiting = None;
            }
            None => self.waiting = None,
        }
        self.ready.pop_front()
    }

    fn tell(&mut self, name: &str, mut members: Value) {
        members["type"] = name.into();
        members["sequence_number"] = self.sequence.into();
        self.sequence += 1;
        self.ready
            .push_back(format!("event: {name}\ndata: {members}\n\n"));
    }

    fn tell_text(&mut self, text: &str) {
        let id = self.frame.message_id();
        if self.text.is_none() {
            let item = self.frame.message("in_progress", &[]);
            self.tell(
                "response.output_item.added",
                json!({"output_index": 0, "item": item}),
            );
            self.tell(
                "response.content_part.added",
                json!({"item_id": id, "output_index": 0, "content_index": 0, "part": text_part("")}),
            );
        }
        self.text.get_or_insert_default().push_str(text);
        self.tell(
            "response.output_text.delta",
            json!({
                "item_id": id, "output_index": 0, "content_index": 0, "delta": text, "logprobs": [],
            }),
        );
    }

    fn end(&mut self, answer: &Answer) {
        // An answer without deltas has not been streamed yet.
        if self.text.is_none() && (!answer.output.is_empty() || answer.client_calls.is_empty()) {
            self.tell_text(&answer.output);
        }
        let id = self.frame.message_id();
        let text = self.text.clone();
        if let Some(text) = &text {
            self.tell(
                "response.output_text.done",
                json!({
                    "item_id": id, "output_index": 0, "content_index": 0, "text": text, "logprobs": [],
                }),
            );
            self.tell(
                "response.content_part.done",
                json!({
                    "item_id": id, "output_index": 0, "content_index": 0, "part": text_part(text),
                }),
            );
            let item = self.frame.message("completed", &[text_part(text)]);
            self.tell(
                "response.output_item.done",
                json!({"output_index": 0, "item": item}),
            );
        }
        let first = usize::from(text.is_some());
        for (index, call) in answer.client_calls.iter().enumerate() {
            self.tell_call(first + index, index, call);
        }
        let output = self
            .frame
            .output(text.as_deref().unwrap_or_default(), answer);
        let response = self.frame.object("completed", &output, &usage(answer));
        self.tell("response.completed", json!({"response": response}));
    }

    fn tell_call(&mut self, place: usize, index: usize, call: &Value) {
        let mut begun = self.frame.call(index, call, "in_progress");
        let id = begun["id"].clone();
        let arguments = begun["arguments"].take();
        begun["arguments"] = "".into();
        self.tell(
            "response.output_item.added",
            json!({"output_index": place, "item": begun}),
        );
        self.tell(
            "response.function_call_arguments.delta",
            json!({"item_id": id, "output_index": place, "delta": arguments}),
        );
        let name = &call["function"]["name"];
        self.tell(
            "response.function_call_arguments.done",
            json!({"item_id": id, "output_index": place, "name": name, "arguments": arguments}),
        );
        let item = self.frame.call(index, call, "completed");
        self.tell(
            "response.output_item.done",
            json!({"output_index": place, "item": item}),
        );
    }
}
