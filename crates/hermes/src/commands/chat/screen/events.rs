//! What becomes of the events of a turn: lines that stay, and what is under way.

use hermes_agent::{
    message::ToolCall, model::ModelEvent, tools::tool::ToolOutput, turn::TurnEvent,
};

use super::{CallDetail, OutputStream, ScreenState, waiting::WaitingLine};
use crate::commands::chat::{
    rendering,
    rendering::{
        calls,
        calls::RunningCall,
        style::{Colour, Style},
        wrap,
    },
};

impl ScreenState {
    pub(super) fn show(&mut self, event: &TurnEvent) {
        match event {
            TurnEvent::Model(event) => self.show_model_event(event),
            TurnEvent::CallStarted(call) => {
                self.end_text();
                self.waiting = None;
                self.running.push(RunningCall::new(call));
                self.redraw();
            }
            TurnEvent::CallProgress { id, line } => self.show_progress(id, line),
            TurnEvent::CallEnded { call, output, took } => {
                self.running.retain(|running| running.id != call.id);
                if self.running.is_empty() {
                    self.waiting = Some(WaitingLine::new());
                }
                let line = calls::render_ended(call, output, *took, self.paint, self.width());
                self.write_lines(OutputStream::Err, &line);
                self.show_details(call, output);
                self.show_todo(call, output);
            }
            TurnEvent::LimitReached => {
                self.write_faint(
                    "The limit of model calls is reached: one last answer without tools.",
                );
            }
            TurnEvent::Compacting(_) => {
                self.end_text();
                self.waiting
                    .get_or_insert_with(WaitingLine::new)
                    .set_compacting();
                self.redraw();
            }
            TurnEvent::Compacted { .. } | TurnEvent::SummaryFailed(_) => {
                self.end_text();
                self.waiting = Some(WaitingLine::new());
                self.write_faint(&rendering::compaction_line(event).unwrap_or_default());
            }
        }
    }

    fn show_model_event(&mut self, event: &ModelEvent) {
        match event {
            ModelEvent::TextDelta(text) => self.write_text(text),
            ModelEvent::ReasoningDelta(text) => {
                if self.text.is_none() {
                    self.waiting
                        .get_or_insert_with(WaitingLine::new)
                        .add_reasoning(text);
                }
            }
            ModelEvent::ToolCallStarted { name } => {
                self.end_text();
                let name = wrap::first_line(name, 60);
                self.waiting
                    .get_or_insert_with(WaitingLine::new)
                    .set_call(&name);
                self.redraw();
            }
            ModelEvent::TextRetracted => {
                if self.text.is_some() {
                    self.end_text();
                    self.write_faint("The reply was cut off; ignore the text above.");
                }
                self.waiting = Some(WaitingLine::new());
            }
            ModelEvent::Retrying {
                retry,
                of,
                after,
                error,
            } => {
                self.end_text();
                let error = wrap::first_line(&error.to_string(), 300);
                let after = calls::format_duration(*after);
                self.write_faint(&format!("{error}; retry {retry} of {of} in {after}"));
            }
            ModelEvent::FallbackActive { model, provider }
            | ModelEvent::FallbackStarted {
                model, provider, ..
            } => {
                self.end_text();
                self.write_faint(&format!("continuing with `{model}` from {provider}"));
            }
        }
    }

    pub(super) fn show_progress(&mut self, id: &str, line: &str) {
        if let Some(running) = self.running.iter_mut().find(|running| running.id == id) {
            running.set_progress(line);
            self.redraw();
        }
    }

    fn show_details(&mut self, call: &ToolCall, output: &ToolOutput) {
        if self.detail == CallDetail::Full {
            let lines = calls::render_details(call, output, self.paint);
            self.write_lines(OutputStream::Err, &lines.join("\n"));
        }
    }

    fn show_todo(&mut self, call: &ToolCall, output: &ToolOutput) {
        if call.name != "todo" {
            return;
        }
        let lines = calls::render_todo(&output.text, self.paint, self.width());
        if !lines.is_empty() && lines != self.todo {
            self.write_lines(OutputStream::Err, &lines.join("\n"));
            self.todo = lines;
        }
    }

    fn write_faint(&mut self, text: &str) {
        let text = self
            .paint
            .paint(Style::PLAIN.coloured(Colour::Yellow), text);
        self.write_lines(OutputStream::Err, &text);
    }
}
