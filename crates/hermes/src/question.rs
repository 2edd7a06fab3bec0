//! Questions to the person at the terminal. They go to stderr, since stdout is for data, unless nobody sees that.

use std::io::{self, IsTerminal, Write};

use hermes_config::Secret;
use tokio_util::sync::CancellationToken;

use crate::{
    failure::{Failure, FailureKind},
    output::printable,
};

pub(crate) mod browser;
mod checklist;
pub(crate) mod form;
mod person;
mod terminal;

pub(crate) use checklist::ChecklistItem;
pub(crate) use person::TerminalPerson;

use terminal::Echo;

/// Who answers the questions of one command.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Questions {
    takes_defaults: bool,
    has_terminal: bool,
}

/// The answer that an empty line or `--yes` stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DefaultAnswer {
    Yes,
    No,
}

impl Questions {
    /// With `--yes` the usual answer is taken wherever there is one.
    pub(crate) fn new(takes_defaults: bool) -> Self {
        Self {
            takes_defaults,
            has_terminal: io::stdin().is_terminal()
                && (io::stderr().is_terminal() || io::stdout().is_terminal()),
        }
    }

    /// Whether a person is there who wants to be asked.
    pub(crate) fn can_ask(self) -> bool {
        self.has_terminal && !self.takes_defaults
    }

    /// Yes or no. `instead` says what to pass where nobody can answer.
    pub(crate) fn confirm(
        self,
        question: &str,
        usual: DefaultAnswer,
        instead: &str,
    ) -> Result<bool, Failure> {
        if self.takes_defaults {
            return Ok(usual == DefaultAnswer::Yes);
        }
        self.need_terminal(question, instead)?;
        let choices = match usual {
            DefaultAnswer::Yes => "[Y/n]",
            DefaultAnswer::No => "[y/N]",
        };
        loop {
            let answer = ask_line(&format!("{question} {choices} "), Echo::On)?;
            match answer.trim().to_lowercase().as_str() {
                "" => return Ok(usual == DefaultAnswer::Yes),
                "y" | "yes" => return Ok(true),
                "n" | "no" => return Ok(false),
                _ => write_message("Please answer `y` or `n`.\n")?,
            }
        }
    }

    /// A line of text; an empty one stands for the default, where there is one.
    pub(crate) fn text(
        self,
        question: &str,
        default: Option<&str>,
        instead: &str,
    ) -> Result<String, Failure> {
        if self.takes_defaults
            && let Some(default) = default
        {
            return Ok(default.to_owned());
        }
        self.need_terminal(question, instead)?;
        let shown = default.map_or_else(String::new, |default| format!(" [{default}]"));
        let answer = ask_line(&format!("{question}{shown}: "), Echo::On)?;
        match (answer.trim(), default) {
            ("", Some(default)) => Ok(default.to_owned()),
            (answer, _) => Ok(answer.to_owned()),
        }
    }

    /// A line that is not shown while it is typed. There is no usual answer, so `--yes` does not help.
    pub(crate) fn hidden(self, question: &str, instead: &str) -> Result<Secret<String>, Failure> {
        self.need_terminal(question, instead)?;
        let answer = ask_line(&format!("{question}: "), Echo::Off)?;
        Ok(Secret::new(answer.trim().to_owned()))
    }

    /// Which of the items; those in `chosen` are marked at first. Returns the indices, in order.
    pub(crate) fn select(
        self,
        title: &str,
        items: &[ChecklistItem],
        chosen: &[usize],
        instead: &str,
    ) -> Result<Vec<usize>, Failure> {
        if self.takes_defaults {
            return Ok(chosen.to_vec());
        }
        self.need_terminal(title, instead)?;
        checklist::ask_checklist(title, items, chosen)?.ok_or_else(interrupted_failure)
    }

    fn need_terminal(self, question: &str, instead: &str) -> Result<(), Failure> {
        if self.has_terminal {
            return Ok(());
        }
        let question = question.trim_end_matches([':', '?']);
        Err(Failure::new(
            FailureKind::AnswerNeeded,
            format!("there is no terminal to ask on: {question}?"),
        )
        .hint(instead))
    }
}

/// Asks questions that end without an answer when the token is cancelled.
pub(crate) fn with_cancellation<T>(stop: CancellationToken, ask: impl FnOnce() -> T) -> T {
    terminal::with_cancellation(stop, ask)
}

fn ask_line(prompt: &str, echo: Echo) -> Result<String, Failure> {
    terminal::read_line(prompt, echo)?.ok_or_else(interrupted_failure)
}

fn interrupted_failure() -> Failure {
    Failure::new(FailureKind::Interrupted, "interrupted; nothing was changed")
}

/// Questions may quote servers and files, which must not control the terminal.
fn write_message(text: &str) -> io::Result<()> {
    write_picture(&printable(text))
}

/// The text as it is, for a picture whose parts are clean. Where stderr goes elsewhere, the person sees stdout alone.
fn write_picture(text: &str) -> io::Result<()> {
    let mut terminal: Box<dyn Write> = if io::stderr().is_terminal() {
        Box::new(io::stderr().lock())
    } else {
        Box::new(io::stdout().lock())
    };
    terminal.write_all(text.as_bytes())?;
    terminal.flush()
}
