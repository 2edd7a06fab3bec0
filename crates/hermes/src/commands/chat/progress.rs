//! A turn as plain text: the answer on stdout as it comes, calls and everything else on stderr.

use std::time::Duration;

use hermes_agent::{
    conversation::TurnDisplay,
    message::ToolCall,
    model::{ModelEvent, TextDelivery},
    tools::tool::ToolOutput,
    turn::TurnEvent,
};

use crate::{
    commands::chat::rendering,
    output::{Output, Tone, printable},
};

/// How much of arguments and results one line shows.
const MAX_LINE_LENGTH: usize = 80;
/// How much of them -v shows.
const MAX_VERBOSE_LENGTH: usize = 2000;

/// How much is told about calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProgressDetail {
    Line,
    Verbose,
}

/// Shows a turn as it goes.
pub(super) struct TurnProgress {
    output: Output,
    detail: ProgressDetail,
    /// Whether the last thing on stdout was a text without its line end.
    is_open: bool,
}

impl TurnProgress {
    pub(super) fn new(output: Output, detail: ProgressDetail) -> Self {
        Self {
            output,
            detail,
            is_open: false,
        }
    }

    /// Ends a line that is open.
    pub(super) fn end_line(&mut self) {
        if self.is_open {
            self.output.stream("\n");
            self.is_open = false;
        }
    }

    fn note(&mut self, text: &str) {
        self.end_line();
        self.output.note(text);
    }

    fn show_ended_call(&mut self, call: &ToolCall, output: &ToolOutput, took: Duration) {
        let ending = if output.is_error {
            self.output.tint(Tone::Bad, "error")
        } else {
            self.output.tint(Tone::Good, "ok")
        };
        let arguments = one_line(&call.arguments, MAX_LINE_LENGTH);
        let seconds = took.as_secs_f32();
        let line = format!("[{} {arguments}] {ending} {seconds:.1} s", call.name);
        self.note(&line);
        if self.detail == ProgressDetail::Verbose {
            let text = printable(&output.text);
            self.note(truncate(&text, MAX_VERBOSE_LENGTH));
        } else if output.is_error {
            let line = format!("  {}", one_line(&output.text, MAX_LINE_LENGTH));
            self.note(&line);
        }
    }
}

impl TurnDisplay for TurnProgress {
    /// What is written to a file or a pipe stays there.
    fn shown_text(&self) -> TextDelivery {
        TextDelivery::Final
    }

    fn show(&mut self, event: TurnEvent) {
        match event {
            TurnEvent::Model(ModelEvent::TextDelta(text)) => {
                let text = printable(&text);
                if !text.is_empty() {
                    self.output.stream(&text);
                    self.is_open = !text.ends_with('\n');
                }
            }
            TurnEvent::Model(ModelEvent::TextRetracted) => {
                self.note("[the reply was cut off and starts again]");
            }
            TurnEvent::Model(ModelEvent::Retrying {
                retry,
                of,
                after,
                error,
            }) => {
                let seconds = after.as_secs_f32();
                self.note(&format!(
                    "[{error}; attempt {retry} of {of} in {seconds:.0} s]"
                ));
            }
            TurnEvent::Model(ModelEvent::FallbackActive { model, provider }) => {
                self.note(&format!(
                    "[still using the fallback `{model}` from {provider}]"
                ));
            }
            TurnEvent::Model(ModelEvent::FallbackStarted {
                model,
                provider,
                error,
            }) => self.note(&format!(
                "[{error}; continuing with `{model}` from {provider}]"
            )),
            TurnEvent::CallStarted(_) => self.end_line(),
            TurnEvent::CallProgress { line, .. } if self.detail == ProgressDetail::Verbose => {
                let line = one_line(&line, MAX_LINE_LENGTH);
                self.note(&format!("  {line}"));
            }
            TurnEvent::CallProgress { .. }
            | TurnEvent::Model(
                ModelEvent::ReasoningDelta(_) | ModelEvent::ToolCallStarted { .. },
            ) => {}
            TurnEvent::CallEnded { call, output, took } => {
                self.show_ended_call(&call, &output, took);
            }
            TurnEvent::LimitReached => {
                self.note("[the limit of model calls is reached; this is the last answer]");
            }
            TurnEvent::Compacting(_)
            | TurnEvent::Compacted { .. }
            | TurnEvent::SummaryFailed(_) => {
                let line = rendering::compaction_line(&event).unwrap_or_default();
                self.note(&format!("[{line}]"));
            }
        }
    }
}

/// The beginning of a text on one line.
fn one_line(text: &str, length: usize) -> String {
    let text = printable(text);
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = words.join(" ");
    match truncate(&line, length) {
        cut if cut.len() < line.len() => format!("{cut}…"),
        whole => whole.to_owned(),
    }
}

fn truncate(text: &str, length: usize) -> &str {
    let end = text.char_indices().nth(length);
    end.map_or(text, |(end, _)| &text[..end])
}
