//! Everything that reaches the user's terminal: data on stdout, the rest on stderr, colour only where it is wanted.

#![expect(clippy::print_stderr, reason = "the one module that prints")]

use std::{
    borrow::Cow,
    io::{IsTerminal, Write},
};

pub(crate) use hermes_agent::printable::printable;
use hermes_config::Redactor;
use serde_json::{Map, Value, json};

use crate::failure::{Failure, FailureKind};

mod table;
pub(crate) mod terminal;
mod untrusted;

pub(crate) use table::{Table, wrap};

/// Where and how a command prints.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    is_json: bool,
    has_colour: bool,
    data: OutputSink,
    messages: OutputSink,
}

/// Who reads what is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OutputSink {
    /// A person: nothing that others wrote may steer the terminal.
    Terminal,
    /// A file or a program, which get what others wrote as they wrote it.
    File,
}

impl OutputSink {
    fn from_stream(stream: &impl IsTerminal) -> Self {
        if stream.is_terminal() {
            Self::Terminal
        } else {
            Self::File
        }
    }

    /// The one place where text becomes output.
    fn sanitize(self, text: &str) -> Cow<'_, str> {
        match self {
            Self::Terminal => untrusted::for_terminal(text),
            Self::File => untrusted::for_file(text),
        }
    }
}

/// What a piece of text means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Good,
    Bad,
    Warning,
    Faint,
    Strong,
}

impl Output {
    pub(crate) fn new(is_json: bool) -> Self {
        let refuses = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let data = OutputSink::from_stream(&std::io::stdout());
        Self {
            is_json,
            has_colour: !is_json && !refuses && data == OutputSink::Terminal,
            data,
            messages: OutputSink::from_stream(&std::io::stderr()),
        }
    }

    pub(crate) fn is_json(self) -> bool {
        self.is_json
    }

    /// Whether stdout is a terminal that a person looks at.
    pub(crate) fn is_interactive(self) -> bool {
        !self.is_json && self.data == OutputSink::Terminal
    }

    /// Whether text is coloured.
    pub(crate) fn has_colour(self) -> bool {
        self.has_colour
    }

    /// How many columns of data a line has room for; a file has no end of them.
    pub(crate) fn columns(self) -> Option<usize> {
        (self.data == OutputSink::Terminal).then(|| terminal::terminal_size().0)
    }

    /// One line of data; in `--json` mode nothing, since [`Self::json`] says it all.
    pub(crate) fn line(self, text: impl AsRef<str>) {
        if !self.is_json {
            self.write_data(&format!("{}\n", text.as_ref()));
        }
    }

    /// Text without a line end of its own.
    pub(crate) fn raw(self, text: &str) {
        self.write_data(text);
    }

    /// A picture for the terminal: sequences of our own around text that is clean already.
    pub(crate) fn draw(self, picture: &str) {
        write_stdout(format_args!("{}", untrusted::for_picture(picture)));
    }

    /// A piece of a file that may be anything.
    pub(crate) fn bytes(self, piece: &[u8]) -> std::io::Result<()> {
        match self.data {
            OutputSink::Terminal => {
                self.write_data(&String::from_utf8_lossy(piece));
                Ok(())
            }
            OutputSink::File => std::io::stdout().lock().write_all(piece),
        }
    }

    /// Data without an end, in pieces: whether anybody still reads it. In `--json` mode nothing is written.
    pub(crate) fn stream(self, text: &str) -> bool {
        let mut stdout = std::io::stdout().lock();
        let text = self.data.sanitize(text);
        self.is_json || stdout.write_all(text.as_bytes()).is_ok() && stdout.flush().is_ok()
    }

    /// A table of data.
    pub(crate) fn table(self, table: &Table) {
        if !self.is_json {
            self.write_data(&table.render(self));
        }
    }

    /// The one object of `--json`, `"ok": true` first.
    pub(crate) fn json(self, members: Value) {
        if self.is_json {
            let mut object = Map::from_iter([("ok".to_owned(), Value::Bool(true))]);
            if let Value::Object(members) = members {
                object.extend(members);
            }
            self.write_data(&format!("{}\n", Value::Object(object)));
        }
    }

    /// The one object of `--json` for a failure that has more to tell than its message.
    pub(crate) fn json_failure(self, message: &str, members: Value) {
        if self.is_json {
            let error = json!({"code": FailureKind::Failed.code(), "message": message});
            let mut object = Map::from_iter([
                ("ok".to_owned(), Value::Bool(false)),
                ("error".to_owned(), error),
            ]);
            if let Value::Object(members) = members {
                object.extend(members);
            }
            self.write_data(&format!("{}\n", Value::Object(object)));
        }
    }

    /// The one object of `--json`, as it is: for a command whose object has a shape of its own.
    pub(crate) fn object(self, object: &Value) {
        self.write_data(&format!("{object}\n"));
    }

    /// A message to the user beside the data.
    pub(crate) fn note(self, text: impl AsRef<str>) {
        self.write_message(text.as_ref());
    }

    /// Something to look at; names an action.
    pub(crate) fn warning(self, text: impl AsRef<str>) {
        let word = self.tint(Tone::Warning, "warning:");
        self.write_message(&format!("{word} {}", text.as_ref()));
    }

    /// The end of a command that failed.
    pub(crate) fn failure(self, failure: &Failure) {
        if failure.is_printed {
            return;
        }
        // Messages of servers are redacted where they arrive; this catches what came another way.
        let redactor = Redactor::default();
        let message = redactor.redact(&failure.message);
        if self.is_json {
            let mut error = json!({"code": failure.kind.code(), "message": message});
            if let Some(server) = &failure.server {
                error["server"] = json!(server);
            }
            if !failure.hints.is_empty() {
                error["hints"] = json!(failure.hints);
            }
            let mut object = json!({"ok": false, "error": error});
            for (key, value) in &failure.findings {
                object[*key] = value.clone();
            }
            self.write_data(&format!("{object}\n"));
            return;
        }
        self.write_message(&format!("{} {message}", self.tint(Tone::Bad, "error:")));
        if !failure.hints.is_empty() {
            self.write_message("");
        }
        for hint in &failure.hints {
            self.write_message(&format!("{} {hint}", self.tint(Tone::Strong, "hint:")));
        }
        if let Some(line) = &failure.last_line {
            self.write_message(line);
        }
    }

    /// Colours a text, if colours are wanted.
    pub(crate) fn tint(self, tone: Tone, text: &str) -> String {
        let code = match tone {
            _ if !self.has_colour => return text.to_owned(),
            Tone::Plain => return text.to_owned(),
            Tone::Good => "32",
            Tone::Bad => "31;1",
            Tone::Warning => "33",
            Tone::Faint => "2",
            Tone::Strong => "1",
        };
        untrusted::mark_colour(code, text)
    }

    /// Whether there is a terminal to show progress on.
    pub(crate) fn shows_progress(self) -> bool {
        self.messages == OutputSink::Terminal && !self.is_json
    }

    /// A line on a terminal's stderr that is replaced while something takes its time.
    pub(crate) fn progress(self, text: &str) {
        if self.shows_progress() {
            let text = self.messages.sanitize(text);
            eprint!("\r\x1b[2K{}", text.lines().next().unwrap_or_default());
            let _ = std::io::stderr().flush();
        }
    }

    fn write_data(self, text: &str) {
        write_stdout(format_args!("{}", self.data.sanitize(text)));
    }

    fn write_message(self, text: &str) {
        eprintln!("{}", self.messages.sanitize(text));
    }

    /// Takes the progress line away.
    pub(crate) fn end_progress(self) {
        self.progress("");
    }
}

/// A closed pipe ends the output quietly: `hermes mcp list | head` is not an error.
fn write_stdout(text: std::fmt::Arguments<'_>) {
    let _ = std::io::stdout().lock().write_fmt(text);
    let _ = std::io::stdout().flush();
}
