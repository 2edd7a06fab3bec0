//! Why a server could not be connected, in words that name the cause and the fix.

use std::{sync::Arc, time::Duration};

use hermes_config::ServerResolveError;

use super::handshake::OpenError;
use crate::{
    process::{StartError, sandbox::AppliedSandbox},
    tools::catalog::ListError,
    transport::http::{HttpFailure, classify},
};

/// Why an attempt to connect failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectError {
    /// The configuration has to change first; retrying does not help.
    #[error("{0}")]
    Invalid(String),
    /// A login is needed.
    #[error("the server needs a login")]
    Auth { challenge: Option<String> },
    #[error("the attempt was cancelled")]
    Cancelled,
    /// Handshake, HTTP or listing trouble; the text is complete and redacted.
    #[error("{0}")]
    Failed(String),
}

/// The raw cause of a failed attempt, before it is put into words.
#[derive(Debug, thiserror::Error)]
pub(super) enum AttemptFailure {
    #[error("{0}")]
    Reference(#[from] ServerResolveError),
    #[error("{0}")]
    Start(#[from] StartError),
    #[error("{0}")]
    Open(#[from] OpenError),
    #[error("{0}")]
    Http(HttpFailure),
    #[error("{0}")]
    Invalid(String),
    #[error("{0}")]
    List(#[from] ListError),
    #[error("no answer within {} s", .0.as_secs_f32())]
    Timeout(Duration),
}

/// What is known of a local server's process when an attempt fails.
#[derive(Debug, Default)]
pub(super) struct ExitReport {
    pub(super) exit: Option<String>,
    pub(super) stderr: Vec<String>,
    pub(super) confined: Option<Arc<AppliedSandbox>>,
}

impl AttemptFailure {
    /// The error that says so, if a login is all that is missing.
    fn as_login_error(&self) -> Option<ConnectError> {
        let failure = match self {
            Self::Open(OpenError::Auth { challenge }) => {
                let challenge = challenge.clone();
                return Some(ConnectError::Auth { challenge });
            }
            Self::Http(failure) => failure.clone(),
            // Some servers let everybody begin a session.
            Self::List(ListError::Service { error, .. }) => classify(error)?,
            _ => return None,
        };
        match failure {
            HttpFailure::Auth { challenge }
            | HttpFailure::Forbidden {
                challenge: challenge @ Some(_),
            } => Some(ConnectError::Auth { challenge }),
            _ => None,
        }
    }

    /// Puts the cause into words, with the last lines the process wrote.
    pub(super) fn into_connect_error(
        self,
        last: &ExitReport,
        redact: impl Fn(&str) -> String,
    ) -> ConnectError {
        if let Some(wanted) = self.as_login_error() {
            return wanted;
        }
        let text = match self {
            Self::Reference(error) => return ConnectError::Invalid(redact(&error.to_string())),
            Self::Invalid(reason) => return ConnectError::Invalid(redact(&reason)),
            Self::Start(error) if error.is_configuration_error() => {
                return ConnectError::Invalid(redact(&error.to_string()));
            }
            Self::Timeout(limit) => format!(
                "no answer within {} s; if the server starts slowly, raise `connect_timeout`",
                limit.as_secs_f32()
            ),
            Self::Open(OpenError::Closed) if last.exit.is_some() => String::new(),
            other => strip_type_names(&other.to_string()),
        };
        let mut parts = Vec::new();
        if !text.is_empty() {
            parts.push(text);
        }
        if let Some(exit) = &last.exit {
            parts.push(format!("the server's process ended ({exit})"));
        }
        let mut text = parts.join("; ");
        if !last.stderr.is_empty() {
            text.push_str("; its last stderr lines:\n");
            text.push_str(&last.stderr.join("\n"));
        }
        if let Some(note) = last
            .confined
            .as_ref()
            .and_then(|confined| confined.hint_for(&text))
        {
            text.push('\n');
            text.push_str(note);
        }
        ConnectError::Failed(redact(&text))
    }
}

/// The text without types and their values, which libraries put into their messages.
pub(crate) fn strip_type_names(text: &str) -> String {
    let text = strip_transport_prefix(text);
    let text = match value_start(&text) {
        Some(at) => match text[..at].trim_end_matches([' ', ':', ',', '(']) {
            "" => "it does not answer as MCP requires".to_owned(),
            words => format!("{words} something else"),
        },
        None => text,
    };
    let words = text.split(' ').filter(|word| !word.contains("::"));
    words.collect::<Vec<_>>().join(" ")
}

/// Takes out `Transport [a type] error: `.
fn strip_transport_prefix(text: &str) -> String {
    const BEGIN: &str = "Transport [";
    const END: &str = "] error: ";
    let mut text = text.to_owned();
    while let Some(begin) = text.find(BEGIN)
        && let Some(length) = text[begin..].find(END)
    {
        text.replace_range(begin..begin + length + END.len(), "");
    }
    text
}

/// Where a value begins that is written as Rust writes it: `Type(…` or `Type { …`.
fn value_start(text: &str) -> Option<usize> {
    let mut start = None;
    for (at, character) in text.char_indices() {
        let rest = &text[at..];
        if let Some(start) = start
            && is_type_name(&text[start..at])
            && (rest.starts_with('(') || rest.starts_with(" { "))
        {
            return Some(start);
        }
        if !(character.is_ascii_alphanumeric() || character == '_') {
            start = None;
        } else if start.is_none() {
            start = Some(at);
        }
    }
    None
}

fn is_type_name(word: &str) -> bool {
    word.len() > 1
        && word.starts_with(|first: char| first.is_ascii_uppercase())
        && word.contains(|character: char| character.is_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_left_out_and_words_stay() {
        for (text, words) in [
            (
                "expect initialized response, but received: Some(Response(JsonRpcResponse { id: 1 }))",
                "expect initialized response, but received something else",
            ),
            (
                "Transport [rmcp::transport::worker::WorkerTransport<X>] error: Connection refused (os error 111)",
                "Connection refused (os error 111)",
            ),
            ("Transport(Closed)", "it does not answer as MCP requires"),
            ("Method Not Allowed (405)", "Method Not Allowed (405)"),
            ("bad JSON at line 1 {", "bad JSON at line 1 {"),
            ("no answer within 2 s", "no answer within 2 s"),
        ] {
            assert_eq!(strip_type_names(text), words, "{text}");
        }
    }
}
