//! Waits for the first message to a bot that was just set up.

use std::time::Duration;

use hermes_gateway::{
    conversations::{ConversationEntry, ConversationIndex},
    platform::Account,
};
use serde_json::{Value, json};

use super::super::accounts::list_accounts;
use crate::{commands::state::unix_now, context::Context, failure::Failure};

const WAIT_TIMEOUT: Duration = Duration::from_mins(5);
const INTERVAL: Duration = Duration::from_millis(500);

/// Waits until a conversation with this account begins or goes on, and says who writes.
pub(super) fn wait(context: &Context, account: &Account) -> Result<Value, Failure> {
    let output = context.output;
    output.note("Waiting for a message to the bot (Ctrl-C ends the waiting) …");
    let label = account.label();
    let index = ConversationIndex::open(&context.home);
    let entry = context.block_on(async {
        let newest = async || -> Result<Option<ConversationEntry>, Failure> {
            let entries = index.entries().await?;
            let mut of_account = entries.iter().filter(|entry| entry.platform == label);
            Ok(of_account.next().map(|entry| (**entry).clone()))
        };
        let before = newest().await?.map(|entry| entry.updated_at);
        let waiting = async {
            loop {
                if let Some(entry) = newest().await?
                    && Some(&entry.updated_at) != before.as_ref()
                {
                    return Ok(entry);
                }
                tokio::time::sleep(INTERVAL).await;
            }
        };
        tokio::time::timeout(WAIT_TIMEOUT, waiting)
            .await
            .unwrap_or_else(|_| Err(nothing_heard(context, &label)))
    })?;
    let names = [&entry.user_name, &entry.chat_name, &entry.chat_id];
    let who = names.into_iter().find(|name| !name.is_empty());
    let who = who.map_or("somebody", String::as_str);
    output.line(format!("{who} wrote to the bot: it works."));
    Ok(json!({"chat_id": entry.chat_id, "user_name": entry.user_name}))
}

fn nothing_heard(context: &Context, label: &str) -> Failure {
    let failure = Failure::failed("nothing was heard in 5 minutes");
    let Ok(settings) = context.written_settings() else {
        return failure;
    };
    let accounts = list_accounts(&context.home, &settings.gateway);
    let account = accounts.iter().find(|account| account.label == label);
    match account {
        Some(account) => failure.hint(account.summary(unix_now())),
        None => failure.hint("`hermes gateway status` shows how the platform is"),
    }
}
