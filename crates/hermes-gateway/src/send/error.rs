//! Why a message was not sent. Clients of the bridge know these messages.

use std::time::Duration;

use hermes_config::Platform;
use hermes_store::StoreError;
use serde::{Serialize, Serializer, ser::SerializeMap};

use crate::platforms::Account;

/// Why a message was not sent, or not all of it. Texts from outside have been redacted.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// No chat of that name is known.
    #[error(
        "Could not resolve '{reference}' on {platform}. Use send_message(action='list') to see available targets."
    )]
    Unresolved {
        /// The platform, as it was given.
        platform: String,
        /// The chat, as it was given.
        reference: String,
    },
    #[error("Unknown platform: {platform}")]
    UnknownPlatform { platform: String },
    /// The platform has no token, or cannot be used yet.
    #[error(
        "Platform '{platform}' is not configured. Set up credentials in ~/.hermes/config.yaml or environment variables."
    )]
    NotConfigured { platform: String },
    /// No chat was named and there is none by default.
    #[error(
        "No home channel set for {} to determine where to send the message. Name a chat as '{}:CHAT', or set {} to the one to use.",
        account.label(), account.label(), account.variable("HOME_CHANNEL")
    )]
    NoHomeChannel { account: Account },
    /// Neither text nor a file remains to be sent.
    #[error("No deliverable text or media remained{}", format_warnings(warnings))]
    NothingToSend { warnings: Vec<String> },
    /// The platform's address cannot be used.
    #[error("The address of {platform} cannot be used: {reason}")]
    BadAddress { platform: Platform, reason: String },
    /// The platform did not take the message.
    #[error("{}", failure.describe(account.platform))]
    Failed {
        account: Account,
        failure: PlatformFailure,
        /// Parts of the message that were sent before.
        sent_chunks: usize,
    },
    /// The known chats cannot be read.
    #[error("The known chats cannot be read: {0}")]
    Targets(#[from] StoreError),
}

/// What a platform did instead of taking a message.
#[derive(Debug, Clone, PartialEq)]
pub enum PlatformFailure {
    Refused {
        /// The HTTP status; `None` if a successful response contains the error.
        status: Option<u16>,
        reason: String,
    },
    /// Rate-limited for longer than we wait.
    RateLimited { wait: Duration },
    /// Timed out. The message may have arrived.
    TimedOut { waited: Duration },
    /// There was no connection, or it broke.
    Unreachable { reason: String },
    /// The reply is not from the platform.
    InvalidReply { status: u16 },
}

impl PlatformFailure {
    fn describe(&self, platform: Platform) -> String {
        match self {
            Self::Refused { status, reason } => match status {
                Some(status) => format!("{platform} API error ({status}): {reason}"),
                None => format!("{platform} API error: {reason}"),
            },
            Self::RateLimited { wait } => format!(
                "{platform} accepts no more messages for {} s; retry after that",
                wait.as_secs().max(1)
            ),
            Self::TimedOut { waited } => format!(
                "{platform} did not answer within {} s; the message may have arrived anyway",
                waited.as_secs_f32()
            ),
            Self::Unreachable { reason } => format!("{platform} could not be reached: {reason}"),
            Self::InvalidReply { status } => format!(
                "{platform} returned an unexpected reply (HTTP {status}); is a proxy in between?"
            ),
        }
    }

    fn is_token_problem(&self, platform: Platform) -> bool {
        let Self::Refused { status, reason } = self else {
            return false;
        };
        let words = [
            "invalid_auth",
            "not_authed",
            "token_revoked",
            "token_expired",
            "account_inactive",
        ];
        // For Telegram a malformed token is an unknown path.
        let unknown = platform == Platform::Telegram && *status == Some(404);
        *status == Some(401) || unknown || words.contains(&reason.as_str())
    }
}

impl SendError {
    /// How many parts of the message were sent before it failed.
    pub fn sent_chunks(&self) -> usize {
        match self {
            Self::Failed { sent_chunks, .. } => *sent_chunks,
            _ => 0,
        }
    }

    /// Whether the platform does not accept the token.
    pub fn is_token_problem(&self) -> bool {
        matches!(self, Self::Failed { account, failure, .. } if failure.is_token_problem(account.platform))
    }

    /// What to do about it, for a person at a command line.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unresolved { .. } => {
                Some("`hermes channels list` shows the chats that are known".into())
            }
            Self::UnknownPlatform { .. } => Some(
                "a target is `telegram`, `discord` or `slack`, with `:CHAT` after it if need be"
                    .into(),
            ),
            Self::NotConfigured { platform } => Account::from_label(platform).map(|account| {
                format!(
                    "put `{}=…` into `.env` of the home",
                    account.variable("BOT_TOKEN")
                )
            }),
            Self::Failed {
                account, failure, ..
            } if failure.is_token_problem(account.platform) => {
                Some(format!("check `{}`", account.variable("BOT_TOKEN")))
            }
            _ => None,
        }
    }
}

/// `{"error": "…"}`, with `sent_chunks` where some were.
impl Serialize for SendError {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("error", &self.to_string())?;
        if self.sent_chunks() > 0 {
            map.serialize_entry("sent_chunks", &self.sent_chunks())?;
        }
        map.end()
    }
}

fn format_warnings(warnings: &[String]) -> String {
    if warnings.is_empty() {
        String::new()
    } else {
        format!(": {}", warnings.join("; "))
    }
}
