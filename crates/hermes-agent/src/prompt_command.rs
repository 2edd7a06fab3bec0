//! Prompts of MCP servers as slash commands: `/mcp_<server>_<prompt>`, in both spellings.
//!
//! The rendered prompt is sent as a user message, since the user chose it.

use std::{collections::HashSet, fmt::Write as _, time::Duration};

use hermes_config::ServerName;
use hermes_mcp::{
    CallError, CallOptions, Host, RegisteredName,
    protocol::{Prompt, PromptArgument},
    tools::{names, names::Naming},
};

use crate::message::Content;

mod arguments;
mod render;

pub use arguments::{PromptArgumentError, PromptArguments};

/// A prompt under its command name, without the slash.
#[derive(Debug, Clone)]
pub struct PromptCommand {
    /// Its name, as `mcp.tool_naming` spells it.
    pub name: RegisteredName,
    pub alias: RegisteredName,
    pub server: ServerName,
    pub prompt: Prompt,
}

/// Why a prompt could not be rendered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PromptError {
    /// The server failed. The reason is redacted.
    #[error("the prompt `{name}` is not available: {reason}")]
    Failed { name: String, reason: String },
    #[error("the prompt `{0}` is empty")]
    Empty(String),
}

impl PromptCommand {
    /// The prompts that the servers of a host offer now.
    pub fn list(host: &Host) -> Vec<Self> {
        Self::assign_names(host.naming(), host.offered_prompts())
    }

    /// Assigns command names: first come, first served.
    fn assign_names(naming: Naming, prompts: Vec<(ServerName, Prompt)>) -> Vec<Self> {
        let mut taken = HashSet::new();
        let command = |(server, prompt): (ServerName, Prompt)| {
            let register = |naming| names::registered_name(naming, server.as_str(), &prompt.name);
            let wanted = register(naming);
            let numbered = (2..).map(|number| names::with_suffix(&wanted, number));
            let mut free = std::iter::once(wanted.clone()).chain(numbered);
            let name = free.find(|name| taken.insert(name.clone()));
            Self {
                name: name.unwrap_or(wanted),
                alias: register(naming.alternate()),
                server,
                prompt,
            }
        };
        prompts.into_iter().map(command).collect()
    }

    /// Finds a command by its typed name, with or without the slash. Waits for servers that have not listed
    /// their prompts yet, if the name looks like a prompt.
    pub async fn find(host: &Host, typed: &str, limit: Duration) -> Option<Self> {
        let typed = typed.strip_prefix('/').unwrap_or(typed);
        if !typed.starts_with("mcp_") {
            return None;
        }
        let look = || Self::find_among(Self::list(host), typed);
        if let Some(found) = look() {
            return Some(found);
        }
        host.wait_until_listed(limit).await;
        look()
    }

    /// By name, else by alias.
    fn find_among(commands: Vec<Self>, typed: &str) -> Option<Self> {
        let position = |spelling: fn(&Self) -> &RegisteredName| {
            let mut names = commands.iter().map(spelling);
            names.position(|name| name.as_str() == typed)
        };
        let index =
            position(|command| &command.name).or_else(|| position(|command| &command.alias))?;
        commands.into_iter().nth(index)
    }

    pub fn parameters(&self) -> &[PromptArgument] {
        self.prompt.arguments.as_deref().unwrap_or_default()
    }

    /// How it is called, on one line: `/mcp_s_greet name=… [style=…]`.
    pub fn usage(&self) -> String {
        let mut usage = format!("/{}", self.name);
        for parameter in self.parameters() {
            let _ = match parameter.required {
                Some(true) => write!(usage, " {}=…", parameter.name),
                _ => write!(usage, " [{}=…]", parameter.name),
            };
        }
        usage
    }

    pub fn parse_arguments(&self, text: &str) -> Result<PromptArguments, PromptArgumentError> {
        arguments::parse_arguments(text, self.parameters())
    }

    /// Renders the prompt as a user message.
    pub async fn render(
        &self,
        host: &Host,
        arguments: &PromptArguments,
        options: &CallOptions,
    ) -> Result<Content, PromptError> {
        let filled = host
            .get_prompt(
                &self.server,
                &self.prompt.name,
                arguments.given.clone(),
                options,
            )
            .await
            .map_err(|error| self.prompt_failed(host, &error))?;
        let content =
            crate::prompt_command::render::render_content(host, &self.server, filled.messages)
                .await;
        content.ok_or_else(|| PromptError::Empty(self.name.to_string()))
    }

    fn prompt_failed(&self, host: &Host, error: &CallError) -> PromptError {
        PromptError::Failed {
            name: self.name.to_string(),
            reason: host.describe_error(&self.server, error),
        }
    }
}

#[cfg(test)]
mod tests;
