//! Prompts of MCP servers, typed as commands: `/mcp_SERVER_PROMPT name=value`.

use std::time::Duration;

use hermes_agent::{
    conversation::Conversation,
    message::Content,
    prompt_command::{PromptArguments, PromptCommand},
};
use hermes_mcp::CallOptions;

use crate::{
    commands::chat::commands::SlashCommand,
    failure::{Failure, FailureKind},
};

/// Timeout for a server that has not listed its prompts yet.
const LIST_TIMEOUT: Duration = Duration::from_secs(15);

/// Whether a command can only be a prompt.
pub(super) fn is_prompt_name(name: &str) -> bool {
    name.starts_with("mcp_")
}

/// A prompt and what was given with it.
pub(super) struct TypedPrompt {
    pub(super) command: PromptCommand,
    pub(super) arguments: PromptArguments,
}

impl TypedPrompt {
    /// Finds the prompt that a command names.
    pub(super) async fn find(
        conversation: &Conversation,
        slash: SlashCommand<'_>,
    ) -> Result<Self, Failure> {
        let unknown = |known: &[PromptCommand]| {
            let failure = Failure::new(
                FailureKind::NotFound,
                format!("there is no prompt `/{}`", slash.name),
            );
            if known.is_empty() {
                return failure.hint("no MCP server that is connected has prompts");
            }
            let names: Vec<String> = known.iter().map(PromptCommand::usage).collect();
            failure.hint(format!("there are: {}", names.join(", ")))
        };
        let Some(host) = conversation.agent().host() else {
            return Err(unknown(&[]));
        };
        let command = PromptCommand::find(host, slash.name, LIST_TIMEOUT)
            .await
            .ok_or_else(|| unknown(&PromptCommand::list(host)))?;
        let arguments = command.parse_arguments(slash.rest).map_err(|error| {
            Failure::usage(error.to_string()).hint(format!("`{}`", command.usage()))
        })?;
        Ok(Self { command, arguments })
    }

    /// The message it stands for.
    pub(super) async fn message(
        &self,
        conversation: &Conversation,
        options: &CallOptions,
    ) -> Result<Content, Failure> {
        let missing = &self.arguments.missing;
        if !missing.is_empty() {
            let names: Vec<String> = missing
                .iter()
                .map(|argument| format!("`{}`", argument.name))
                .collect();
            return Err(Failure::new(
                FailureKind::AnswerNeeded,
                format!("the prompt needs {}", names.join(", ")),
            )
            .hint(format!("`{}`", self.command.usage())));
        }
        let Some(host) = conversation.agent().host() else {
            return Err(Failure::failed("there are no MCP servers in safe mode"));
        };
        let turn = self.command.render(host, &self.arguments, options).await;
        turn.map_err(|error| {
            if options.cancel.is_cancelled() {
                Failure::interrupted()
            } else {
                Failure::failed(error.to_string())
            }
        })
    }
}
