//! Builds the client of an account.

use std::sync::Arc;

use hermes_agent::policy::PolicyHandle;
use hermes_config::{Platform, PlatformSettings};

use crate::{
    platform::{
        Account, FatalError, SharedClient, discord::DiscordClient, slack::SlackClient,
        telegram::TelegramClient,
    },
    send::SendError,
};

/// The client of an account; an error where its settings cannot work.
pub(in crate::inbound) fn build_client(
    account: &Account,
    settings: &PlatformSettings,
    policy: &PolicyHandle,
) -> Result<SharedClient, FatalError> {
    let invalid = |error: SendError| FatalError {
        code: "bad_configuration",
        message: error.to_string(),
    };
    let account = account.clone();
    Ok(match account.platform {
        Platform::Telegram => {
            Arc::new(TelegramClient::with_policy(account, settings, policy).map_err(invalid)?)
        }
        Platform::Discord => {
            Arc::new(DiscordClient::with_policy(account, settings, policy).map_err(invalid)?)
        }
        Platform::Slack => {
            Arc::new(SlackClient::with_policy(account, settings, policy).map_err(invalid)?)
        }
    })
}
