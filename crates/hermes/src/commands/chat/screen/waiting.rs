//! The line that says what an answer is waiting for.

use std::time::Instant;

use hermes_agent::printable::printable;
use hermes_config::ServerName;

use crate::commands::chat::rendering::{
    calls::SPINNER_INTERVAL,
    style::{Colour, ColourMode, Style},
    wrap,
};

/// Waiting for the model.
#[derive(Debug, Clone)]
pub(super) struct WaitingLine {
    since: Instant,
    what: String,
    /// The end of its thoughts.
    reasoning: String,
}

const DOTS: [&str; 4] = ["·  ", "·· ", "···", " ··"];
/// As much of the thoughts as a line can hold.
const MAX_REASONING: usize = 400;

impl WaitingLine {
    pub(super) fn new() -> Self {
        Self {
            since: Instant::now(),
            what: "thinking".into(),
            reasoning: String::new(),
        }
    }

    /// Waiting for servers, before the model is asked.
    pub(super) fn for_servers(servers: &[ServerName]) -> Self {
        let names: Vec<&str> = servers.iter().map(ServerName::as_str).collect();
        Self {
            what: format!("waiting for {}", printable(&names.join(", "))),
            ..Self::new()
        }
    }

    /// It thinks aloud.
    pub(super) fn add_reasoning(&mut self, text: &str) {
        self.reasoning.push_str(text);
        let excess = self.reasoning.len().saturating_sub(MAX_REASONING);
        let start = self.reasoning.ceil_char_boundary(excess);
        self.reasoning.drain(..start);
    }

    /// It writes a call.
    pub(super) fn set_call(&mut self, name: &str) {
        self.what = format!("calling {name}");
        self.reasoning.clear();
    }

    /// The conversation so far is summed up.
    pub(super) fn set_compacting(&mut self) {
        self.what = "summarizing the conversation".into();
        self.reasoning.clear();
    }

    /// It writes a table.
    pub(super) fn set_table_rows(&mut self, rows: usize) {
        self.what = format!("table, {rows} rows so far");
        self.reasoning.clear();
    }

    pub(super) fn render(&self, paint: ColourMode, width: usize) -> String {
        let picture = self.since.elapsed().as_millis() / (3 * SPINNER_INTERVAL.as_millis());
        let dots = DOTS[usize::try_from(picture).unwrap_or(0) % DOTS.len()];
        let head = format!("{dots} {} {} s", self.what, self.since.elapsed().as_secs());
        let head = wrap::truncate_line(&head, width);
        // The end of the text, as much as fits.
        let available = width.saturating_sub(head.chars().count() + 2);
        let thoughts: Vec<char> = printable(&self.reasoning)
            .chars()
            .map(|c| if c.is_whitespace() { ' ' } else { c })
            .collect();
        let last: String = thoughts[thoughts.len().saturating_sub(available)..]
            .iter()
            .collect();
        let last = wrap::truncate_line(last.trim(), available);
        let head = paint.paint(Style::PLAIN.coloured(Colour::Cyan), &head);
        if last.is_empty() {
            head
        } else {
            format!("{head} {}", paint.paint(Style::faint(), &last))
        }
    }
}

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthStr;

    use super::*;

    #[test]
    fn the_last_words_of_its_thoughts_are_shown() {
        let mut waiting = WaitingLine::new();
        for _ in 0..200 {
            waiting.add_reasoning("ä word\n");
        }
        waiting.add_reasoning("the end");
        let line = waiting.render(ColourMode::Plain, 40);
        assert!(line.ends_with("the end") && line.width() <= 40, "{line}");
        assert!(line.contains("thinking 0 s"), "{line}");
        let servers = ["a", "b"].map(ServerName::new);
        let line = WaitingLine::for_servers(&servers).render(ColourMode::Plain, 40);
        assert!(line.contains("waiting for a, b 0 s"), "{line}");
        waiting.set_call("read_file");
        assert!(
            waiting
                .render(ColourMode::Plain, 40)
                .contains("calling read_file")
        );
    }
}
