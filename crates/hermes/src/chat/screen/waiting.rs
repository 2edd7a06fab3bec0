//! The line that says what an answer is waiting for.

use std::time::Instant;

use hermes_agent::printable::printable;
use hermes_config::ServerName;

use crate::chat::{
    calls::SPIN,
    strip,
    style::{Colour, Paint, Style},
};

/// Waiting for the model.
#[derive(Debug, Clone)]
pub(super) struct Waiting {
    since: Instant,
    what: String,
    /// The end of its thoughts.
    thoughts: String,
}

const DOTS: [&str; 4] = ["·  ", "·· ", "···", " ··"];
/// As much of the thoughts as a line can hold.
const MOST_THOUGHTS: usize = 400;

impl Waiting {
    pub(super) fn new() -> Self {
        Self {
            since: Instant::now(),
            what: "thinking".into(),
            thoughts: String::new(),
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
    pub(super) fn think(&mut self, text: &str) {
        self.thoughts.push_str(text);
        let excess = self.thoughts.len().saturating_sub(MOST_THOUGHTS);
        let start = self.thoughts.ceil_char_boundary(excess);
        self.thoughts.drain(..start);
    }

    /// It writes a call.
    pub(super) fn call(&mut self, name: &str) {
        self.what = format!("calling {name}");
        self.thoughts.clear();
    }

    /// The conversation so far is summed up.
    pub(super) fn summing_up(&mut self) {
        self.what = "summing the conversation up".into();
        self.thoughts.clear();
    }

    /// It writes a table.
    pub(super) fn table(&mut self, rows: usize) {
        self.what = format!("table, {rows} rows so far");
        self.thoughts.clear();
    }

    pub(super) fn line(&self, paint: Paint, width: usize) -> String {
        let picture = self.since.elapsed().as_millis() / (3 * SPIN.as_millis());
        let dots = DOTS[usize::try_from(picture).unwrap_or(0) % DOTS.len()];
        let head = format!("{dots} {} {} s", self.what, self.since.elapsed().as_secs());
        let head = strip::cut(&head, width);
        // The last words, as many as fit.
        let room = width.saturating_sub(head.chars().count() + 2);
        let thoughts: Vec<char> = printable(&self.thoughts)
            .chars()
            .map(|c| if c.is_whitespace() { ' ' } else { c })
            .collect();
        let last: String = thoughts[thoughts.len().saturating_sub(room)..]
            .iter()
            .collect();
        let last = strip::cut(last.trim(), room);
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
        let mut waiting = Waiting::new();
        for _ in 0..200 {
            waiting.think("ä word\n");
        }
        waiting.think("the end");
        let line = waiting.line(Paint::Plain, 40);
        assert!(line.ends_with("the end") && line.width() <= 40, "{line}");
        assert!(line.contains("thinking 0 s"), "{line}");
        let servers = ["a", "b"].map(ServerName::new);
        let line = Waiting::for_servers(&servers).line(Paint::Plain, 40);
        assert!(line.contains("waiting for a, b 0 s"), "{line}");
        waiting.call("read_file");
        assert!(waiting.line(Paint::Plain, 40).contains("calling read_file"));
    }
}
