//! What becomes of the events of a turn: lines that stay, and what is under way.

use hermes_agent::{message::ToolCall, model::ModelEvent, tool::ToolOutput, turn::TurnEvent};

use super::{Detail, Inner, Stream, waiting::Waiting};
use crate::chat::{
    calls::{self, Running},
    length, strip,
    style::{Colour, Style},
    todo,
};

impl Inner {
    pub(super) fn show(&mut self, event: &TurnEvent) {
        match event {
            TurnEvent::Model(event) => self.model(event),
            TurnEvent::CallStarted(call) => {
                self.end_text();
                self.waiting = None;
                self.running.push(Running::new(call));
                self.redraw();
            }
            TurnEvent::CallProgress { id, line } => self.progress(id, line),
            TurnEvent::CallEnded { call, output, took } => {
                self.running.retain(|running| running.id != call.id);
                if self.running.is_empty() {
                    self.waiting = Some(Waiting::new());
                }
                let line = calls::ended(call, output, *took, self.paint, self.width());
                self.lines(Stream::Err, &line);
                self.details(call, output);
                self.todo(call, output);
            }
            TurnEvent::LimitReached => {
                self.faint("The limit of model calls is reached: one last answer without tools.");
            }
            TurnEvent::Compacting(_) => {
                self.end_text();
                self.waiting.get_or_insert_with(Waiting::new).summing_up();
                self.redraw();
            }
            TurnEvent::Compacted { .. } | TurnEvent::SummaryFailed(_) => {
                self.end_text();
                self.waiting = Some(Waiting::new());
                self.faint(&length::line(event).unwrap_or_default());
            }
        }
    }

    fn model(&mut self, event: &ModelEvent) {
        match event {
            ModelEvent::TextDelta(text) => self.text(text),
            ModelEvent::ReasoningDelta(text) => {
                if self.text.is_none() {
                    self.waiting.get_or_insert_with(Waiting::new).think(text);
                }
            }
            ModelEvent::ToolCallStarted { name } => {
                self.end_text();
                let name = strip::one_line(name, 60);
                self.waiting.get_or_insert_with(Waiting::new).call(&name);
                self.redraw();
            }
            ModelEvent::TextTakenBack => {
                if self.text.is_some() {
                    self.end_text();
                    self.faint("The reply was cut off; ignore the text above.");
                }
                self.waiting = Some(Waiting::new());
            }
            ModelEvent::Retrying {
                retry,
                of,
                after,
                error,
            } => {
                self.end_text();
                let error = strip::one_line(&error.to_string(), 300);
                let after = calls::duration(*after);
                self.faint(&format!("{error}; retry {retry} of {of} in {after}"));
            }
            ModelEvent::StandsIn { model, provider }
            | ModelEvent::FellBack {
                model, provider, ..
            } => {
                self.end_text();
                self.faint(&format!("continuing with `{model}` from {provider}"));
            }
        }
    }

    pub(super) fn progress(&mut self, id: &str, line: &str) {
        if let Some(running) = self.running.iter_mut().find(|running| running.id == id) {
            running.report(line);
            self.redraw();
        }
    }

    fn details(&mut self, call: &ToolCall, output: &ToolOutput) {
        if self.detail == Detail::Full {
            let lines = calls::details(call, output, self.paint);
            self.lines(Stream::Err, &lines.join("\n"));
        }
    }

    fn todo(&mut self, call: &ToolCall, output: &ToolOutput) {
        if call.name != "todo" {
            return;
        }
        let lines = todo::lines(&output.text, self.paint, self.width());
        if !lines.is_empty() && lines != self.todo {
            self.lines(Stream::Err, &lines.join("\n"));
            self.todo = lines;
        }
    }

    fn faint(&mut self, text: &str) {
        let text = self
            .paint
            .paint(Style::PLAIN.coloured(Colour::Yellow), text);
        self.lines(Stream::Err, &text);
    }
}
