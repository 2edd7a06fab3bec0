//! How connections end, and what comes next.

use std::time::Duration;

use super::rest::DiscordFailure;
use crate::platform::{Account, FatalError, IntakeError};

const MISSING_INTENT: &str = "the `Message Content Intent` is not turned on: https://discord.com/developers/applications, your application, Bot, Privileged Gateway Intents";

/// How a connection ended.
pub(super) enum ConnectionEnd {
    /// Discord asked for another one: nothing is wrong.
    ReconnectRequested,
    /// The session is over; another one begins after a pause.
    SessionOver {
        reason: String,
    },
    Lost {
        code: &'static str,
        reason: String,
    },
    /// No session may be begun for so long.
    Exhausted {
        wait: Duration,
    },
    Stopped,
    Fatal(FatalError),
}

impl From<IntakeError> for ConnectionEnd {
    fn from(error: IntakeError) -> Self {
        Self::Lost {
            code: "storage",
            reason: error.to_string(),
        }
    }
}

impl ConnectionEnd {
    fn fatal(code: &'static str, message: &str) -> Self {
        Self::Fatal(FatalError {
            code,
            message: message.to_owned(),
        })
    }

    fn bad_token(account: &Account) -> Self {
        let variable = account.variable("BOT_TOKEN");
        let message = format!(
            "Discord does not accept the token: set {variable} to the one of https://discord.com/developers/applications, your application, Bot, Reset Token"
        );
        Self::fatal("bad_token", &message)
    }

    /// What the failure of a request before the connection means.
    pub(super) fn from_request(failure: &DiscordFailure, account: &Account) -> Self {
        match failure {
            DiscordFailure::BadToken => Self::bad_token(account),
            _ => Self::Lost {
                code: "unreachable",
                reason: failure.to_string(),
            },
        }
    }

    /// What a close code means.
    pub(super) fn from_close(code: u16, reason: &str, account: &Account) -> Self {
        match code {
            4004 => Self::bad_token(account),
            4014 => Self::fatal("missing_intent", MISSING_INTENT),
            4013 => Self::fatal("invalid_intent", "Discord does not know one of the intents"),
            4010 | 4011 => Self::fatal(
                "sharding_required",
                "the bot is in more servers than one connection may follow",
            ),
            4012 => Self::fatal(
                "invalid_api_version",
                "Discord does not offer this version of its gateway any more",
            ),
            // The position or the session is not valid any more.
            4007 | 4009 => Self::SessionOver {
                reason: format!("closed with code {code}"),
            },
            _ => Self::Lost {
                code: "closed",
                reason: match reason {
                    "" => format!("the connection was closed (code {code})"),
                    reason => format!("the connection was closed (code {code}): {reason}"),
                },
            },
        }
    }
}
