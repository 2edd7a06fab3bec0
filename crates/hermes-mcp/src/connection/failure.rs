//! Why a server could not be connected, in words that name the cause and the fix.

use std::{sync::Arc, time::Duration};

use hermes_config::ReferenceError;

use super::handshake::OpenError;
use crate::{
    catalog::ListError,
    process::StartError,
    reason,
    sandbox::Confined,
    transport::http::{HttpFailure, classify},
};

/// Why an attempt to connect failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectError {
    /// The configuration has to change first; retrying does not help.
    #[error("{0}")]
    Invalid(String),
    /// A login is needed.
    #[error("the server wants a login")]
    Auth { challenge: Option<String> },
    #[error("the attempt was cancelled")]
    GivenUp,
    /// Handshake, HTTP or listing trouble; the text is complete and redacted.
    #[error("{0}")]
    Failed(String),
}

/// The raw cause of a failed attempt, before it is put into words.
#[derive(Debug, thiserror::Error)]
pub(super) enum Cause {
    #[error("{0}")]
    Reference(#[from] ReferenceError),
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
pub(super) struct LastWords {
    pub(super) exit: Option<String>,
    pub(super) stderr: Vec<String>,
    pub(super) confined: Option<Arc<Confined>>,
}

impl Cause {
    /// The error that says so, if a login is all that is missing.
    fn wants_login(&self) -> Option<ConnectError> {
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
    pub(super) fn explain(self, last: &LastWords, redact: impl Fn(&str) -> String) -> ConnectError {
        if let Some(wanted) = self.wants_login() {
            return wanted;
        }
        let text = match self {
            Self::Reference(error) => return ConnectError::Invalid(redact(&error.to_string())),
            Self::Invalid(reason) => return ConnectError::Invalid(redact(&reason)),
            Self::Start(error) if error.is_configured() => {
                return ConnectError::Invalid(redact(&error.to_string()));
            }
            Self::Timeout(limit) => format!(
                "no answer within {} s; a slow starter needs a higher `connect_timeout`",
                limit.as_secs_f32()
            ),
            Self::Open(OpenError::Closed) if last.exit.is_some() => String::new(),
            other => reason::in_words(&other.to_string()),
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
            .and_then(|confined| confined.note(&text))
        {
            text.push('\n');
            text.push_str(note);
        }
        ConnectError::Failed(redact(&text))
    }
}
