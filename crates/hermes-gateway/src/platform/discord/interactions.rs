//! Pressed buttons and used commands: confirming them, and registering commands.

use reqwest::Method;
use serde_json::{Value, json};

use super::{DiscordClient, rest::RestBody};
use crate::platform::{CommandSpec, InboundEvent, InboundKind, PostError};

/// A reply that only whoever did it sees.
const EPHEMERAL: u64 = 1 << 6;
const REPLY: u64 = 4;
const DEFERRED_REPLY: u64 = 5;
const DEFERRED_UPDATE: u64 = 6;
/// The interaction has had its first reply.
const ALREADY_ACKNOWLEDGED: u64 = 40_060;
const MAX_NOTICE_CHARS: usize = 2000;
const MAX_DESCRIPTION_CHARS: usize = 100;
/// The most commands of a bot.
const MAX_COMMANDS: usize = 100;
const TEXT_OPTION: u64 = 3;

/// What is needed to reply to an interaction.
struct InteractionToken<'t> {
    id: &'t str,
    application: &'t str,
    token: &'t str,
}

impl<'t> InteractionToken<'t> {
    fn parse(text: &'t str) -> Option<Self> {
        let (id, rest) = text.split_once(':')?;
        let (application, token) = rest.split_once(':')?;
        Some(Self {
            id,
            application,
            token,
        })
    }
}

fn build_notice(notice: &str) -> Value {
    let text: String = notice.chars().take(MAX_NOTICE_CHARS).collect();
    json!({"content": text, "flags": EPHEMERAL, "allowed_mentions": {"parse": []}})
}

impl DiscordClient {
    /// Confirms an interaction. Without a notice nothing is left to see.
    pub(super) async fn acknowledge_interaction(
        &self,
        event: &InboundEvent,
        notice: Option<&str>,
    ) -> Result<(), PostError> {
        let (token, is_command) = match &event.kind {
            InboundKind::ButtonPress(press) => (&press.token, false),
            InboundKind::Command(call) => (&call.token, true),
            _ => return Ok(()),
        };
        let Some(interaction) = InteractionToken::parse(token) else {
            return Err(PostError::Refused {
                reason: "the interaction has no token".into(),
            });
        };
        let notice = notice.filter(|notice| !notice.trim().is_empty());
        let body = match notice {
            Some(notice) => json!({"type": REPLY, "data": build_notice(notice)}),
            None if is_command => json!({"type": DEFERRED_REPLY, "data": {"flags": EPHEMERAL}}),
            None => json!({"type": DEFERRED_UPDATE}),
        };
        let path = format!(
            "/interactions/{}/{}/callback",
            interaction.id, interaction.token
        );
        let hooks = format!(
            "/webhooks/{}/{}",
            interaction.application, interaction.token
        );
        match self.rest.post(&path, &body).await {
            Ok(_) if is_command && notice.is_none() => {
                // The sign that something is being thought about goes away.
                let original = format!("{hooks}/messages/@original");
                let deleted = self
                    .rest
                    .call(Method::DELETE, &original, RestBody::Nothing)
                    .await;
                if let Err(failure) = deleted {
                    tracing::info!(%failure, "failed to remove the placeholder of a Discord command");
                }
                Ok(())
            }
            Ok(_) => Ok(()),
            Err(failure) if failure.has_code(ALREADY_ACKNOWLEDGED) => match notice {
                Some(notice) => {
                    self.rest.post(&hooks, &build_notice(notice)).await?;
                    Ok(())
                }
                None => Ok(()),
            },
            Err(failure) => Err(failure.into()),
        }
    }

    /// Replaces the commands of the bot in all guilds and private chats.
    pub(super) async fn put_commands(&self, commands: &[CommandSpec]) -> Result<(), PostError> {
        let identity = self.fetch_identity().await?;
        let list: Vec<Value> = commands
            .iter()
            .take(MAX_COMMANDS)
            .map(build_command)
            .collect();
        let path = format!("/applications/{}/commands", identity.application);
        let body = Value::from(list);
        let body = RestBody::Json(&body);
        self.rest.call(Method::PUT, &path, body).await?;
        Ok(())
    }
}

fn shorten(text: &str) -> String {
    text.chars().take(MAX_DESCRIPTION_CHARS).collect()
}

fn build_command(command: &CommandSpec) -> Value {
    let mut body = json!({
        "name": command.name, "type": 1, "description": shorten(command.description),
    });
    if let Some(argument) = command.argument {
        // Names of options are single words.
        let name: String = argument
            .to_lowercase()
            .chars()
            .map(|sign| {
                if sign.is_ascii_alphanumeric() {
                    sign
                } else {
                    '_'
                }
            })
            .take(32)
            .collect();
        body["options"] = json!([{
            "name": name, "type": TEXT_OPTION, "description": shorten(argument), "required": false,
        }]);
    }
    body
}
