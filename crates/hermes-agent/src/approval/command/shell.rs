//! Parses a shell command line: which programs run with which words, what they read and where they write.
//!
//! It is not a shell. Quotes, escapes, substitutions, here-documents, groups and variables of the same line are
//! handled; what only a running shell knows stays as written. Text a shell would reject is parsed as far as it
//! makes sense.

mod parser;
#[cfg(test)]
mod tests;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ShellCommand {
    /// The program and its arguments, without quotes.
    pub(crate) words: Vec<ShellWord>,
    /// Files it reads from and writes to.
    pub(crate) redirects: Vec<Redirect>,
    /// Whether it reads what another command writes.
    pub(crate) reads_pipe: bool,
    /// Whether the shell does not wait for it (`&`).
    pub(crate) is_background: bool,
    pub(crate) function: Option<String>,
    /// What it reads from a here-document or here-string.
    pub(crate) input: Option<String>,
    id: usize,
}

pub(crate) fn join_words(words: &[ShellWord]) -> String {
    let words: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
    words.join(" ")
}

/// A word after the quotes are gone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ShellWord {
    /// What the program receives. Unknown variables and substitutions stay as written, `${X}` becomes `$X`.
    pub(crate) text: String,
    /// The command lines whose output becomes part of it.
    pub(crate) substitutions: Vec<String>,
}

impl From<&str> for ShellWord {
    fn from(text: &str) -> Self {
        Self {
            text: text.into(),
            substitutions: Vec::new(),
        }
    }
}

/// A file a command is connected to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Redirect {
    pub(crate) direction: Direction,
    pub(crate) target: String,
}

/// Which way data goes between a command and a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    In,
    Out,
}

/// A line that is not parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the command is too long or too deeply nested to be checked")]
pub(crate) struct TooComplex;

/// All commands of a line in the order in which they are written; those in substitutions come before the command whose
/// words they make.
pub(crate) fn parse(line: &str) -> Result<Vec<ShellCommand>, TooComplex> {
    parser::ShellParser::new(line, 0)?.parse()
}
