//! `send_message`: sends a message to a chat of a messaging platform, or lists known chats.

use std::sync::Arc;

use futures::future::BoxFuture;
use hermes_config::{Platform, Settings};
use serde_json::{Map, Value, json};

use super::{ToolError, arguments::ToolArguments, into_output, tool_definition};
use crate::{
    model::ToolDefinition,
    policy::{AgentPolicy, PolicyHandle},
    tools::{
        files::path_access,
        tool::{Tool, ToolContext, ToolOutput},
    },
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutgoingMessage {
    /// `platform`, or `platform:chat`.
    pub target: String,
    /// The text; empty where only files are sent.
    pub text: String,
    pub media: Vec<String>,
}

pub trait Messenger: Send + Sync {
    /// Sends a message. Success and failure are objects; a failure has a member `error`.
    fn send(
        &self,
        settings: Arc<Settings>,
        message: OutgoingMessage,
    ) -> BoxFuture<'_, Result<Value, Value>>;

    /// The chats that are known, of one platform or of all.
    fn list_chats(
        &self,
        settings: Arc<Settings>,
        platform: Option<String>,
    ) -> BoxFuture<'_, Result<Value, Value>>;

    /// Whether the messages of a cron job can be delivered: `deliver` as jobs have it, `origin` the chat that it was
    /// created in. The reason if not.
    fn check_delivery(
        &self,
        settings: &Settings,
        deliver: &str,
        origin: Option<&Value>,
    ) -> Result<(), String>;
}

/// Whether a bot of a messaging platform has a token, the first or a further one.
pub(crate) fn has_platform(settings: &Settings) -> bool {
    let has_token = |platform: &Platform| settings.gateway.accounts(*platform).next().is_some();
    Platform::ALL.iter().any(has_token)
}

pub struct SendMessageTool {
    messenger: Arc<dyn Messenger>,
    settings: Arc<Settings>,
    policy: PolicyHandle,
}

impl SendMessageTool {
    pub fn new(
        messenger: Arc<dyn Messenger>,
        settings: Arc<Settings>,
        policy: PolicyHandle,
    ) -> Self {
        Self {
            messenger,
            settings,
            policy,
        }
    }

    async fn run(
        &self,
        arguments: &ToolArguments,
        context: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        let action = arguments.required_choice("action", &["send", "list"])?;
        let settings = self.settings.clone();
        let target = arguments.text("target")?.unwrap_or_default();
        let target = target.trim().to_owned();
        let answer = if action == "list" {
            let platform = target.split(':').next().filter(|name| !name.is_empty());
            let platform = platform.map(str::to_ascii_lowercase);
            self.messenger.list_chats(settings, platform)
        } else {
            let message = OutgoingMessage {
                target,
                text: arguments.text("message")?.unwrap_or_default(),
                media: media_paths(arguments, context)?,
            };
            if message.target.is_empty() {
                return Err(ToolError::new(
                    "`target` is required: `telegram:123456`, `discord:#general`, or a platform alone for its home \
                     channel",
                ));
            }
            if message.text.trim().is_empty() && message.media.is_empty() {
                return Err(ToolError::new("`message` or `media` is required"));
            }
            check_egress(&settings, &self.policy.policy(), &message.target)?;
            self.messenger.send(settings, message)
        };
        let answer = tokio::select! {
            answer = answer => answer,
            () = context.cancel.cancelled() => {
                return Err(ToolError::new("interrupted; the message may have been sent"));
            }
        };
        Ok(match answer {
            Ok(value) => ToolOutput::json(&value),
            Err(value) => ToolOutput {
                is_error: true,
                ..ToolOutput::json(&value)
            },
        })
    }
}

/// Whether the operator's policy lets the platform of a target be reached.
fn check_egress(settings: &Settings, policy: &AgentPolicy, target: &str) -> Result<(), ToolError> {
    let Some(account) = settings.gateway.target_account(target) else {
        return Ok(());
    };
    let reached = policy.egress().check_url(&account.base_url);
    reached.map_err(|reason| ToolError::new(reason.to_string()))
}

/// The files, as absolute paths.
fn media_paths(arguments: &ToolArguments, context: &ToolContext) -> Result<Vec<String>, ToolError> {
    let map = path_access::PathRules::from_context(context);
    let paths = arguments.texts("media")?;
    paths
        .iter()
        .map(|path| match map.locate(path) {
            Ok(path) => Ok(path.display().to_string()),
            Err(error) => Err(ToolError::new(format!("`{path}`: {error}"))),
        })
        .collect()
}

impl Tool for SendMessageTool {
    fn definition(&self) -> ToolDefinition {
        tool_definition(
            "send_message",
            "Sends a message to a chat on Telegram, Discord or Slack, as the bot, or lists the chats that are known. Use \
             it only when the user wants something sent; your answers reach the user by themselves. List first if you do \
             not know the target.",
            json!({
                "action": {"type": "string", "enum": ["send", "list"], "description": "What to do"},
                "target": {"type": "string", "description": "`platform:chat`, such as `telegram:123456`, `discord:#general` or `slack:C0123456789`, or a platform alone for its home channel. For list: a platform, or nothing for all"},
                "message": {"type": "string", "description": "The text, in Markdown"},
                "media": {"type": "array", "items": {"type": "string"}, "description": "Paths of files to send along"},
            }),
            &["action"],
        )
    }

    fn toolset(&self) -> &'static str {
        "messaging"
    }

    fn call<'a>(
        &'a self,
        arguments: Map<String, Value>,
        context: &'a ToolContext,
    ) -> BoxFuture<'a, ToolOutput> {
        Box::pin(
            async move { into_output(self.run(&ToolArguments::new(arguments), context).await) },
        )
    }
}

#[cfg(test)]
mod tests {
    use hermes_config::Variables;
    use hermes_protocol::{Directives, Policy};

    use super::*;

    fn settings(yaml: &str) -> Settings {
        Settings::parse(yaml, Variables::default()).unwrap()
    }

    #[test]
    fn a_further_bot_is_enough_to_send() {
        assert!(!has_platform(&settings("telegram: {home_channel: '1'}")));
        assert!(has_platform(&settings("telegram: {token: t}")));
        assert!(has_platform(&settings(
            "discord: {accounts: {work: {token: t}}}"
        )));
    }

    #[test]
    fn a_platform_that_the_operator_does_not_allow_is_not_reached() {
        let settings = settings("telegram: {token: t}\nslack: {token: s}");
        let document = json!({"egress": {"allowHosts": ["slack.com"]}});
        let policy = Policy::resolve(&document, &Policy::unrestricted()).unwrap();
        let policy = AgentPolicy::from(Directives::new(policy));
        assert!(check_egress(&settings, &policy, "slack:C12345678").is_ok());
        let refused = check_egress(&settings, &policy, "Telegram:5");
        assert!(refused.is_err());
        // Unknown ones are told as such by whoever sends.
        assert!(check_egress(&settings, &policy, "nonsense").is_ok());
    }
}
