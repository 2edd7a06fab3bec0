//! Tool calls that the user makes. They do not become part of the conversation.

use std::sync::Arc;

use futures::future::BoxFuture;
use hermes_config::{Home, Redactor, ServerName, Settings};
use hermes_mcp::{
    CallError, Host, RegisteredTool,
    tools::names::{Naming, sanitise},
};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::{Consent, Conversation, setup::home_approvals};
use crate::{
    approval::ApprovalError,
    tools::{
        tool::{ProgressSink, ToolContext},
        toolbox::{McpCall, ToolTarget, Toolbox, call_mcp},
    },
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserCallResult {
    /// The tool's result for people, without the wrapping for models.
    pub text: String,
    pub is_error: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UserCallError {
    #[error("there is no tool `{name}`")]
    NoSuchTool { name: String },
    /// A known server that cannot be called now.
    #[error("{reason}")]
    ServerUnavailable { reason: String },
    /// A server without that tool.
    #[error("server `{server}` offers no tool `{tool}`")]
    NotOffered {
        server: String,
        tool: String,
        offers: Vec<String>,
    },
}

impl Conversation {
    /// Calls a tool by its registered name, by `server.tool`, or a built-in one. Approvals apply.
    pub fn call_tool<'a>(
        &'a self,
        name: &'a str,
        arguments: Map<String, Value>,
        progress: ProgressSink,
        cancel: CancellationToken,
    ) -> BoxFuture<'a, Result<UserCallResult, UserCallError>> {
        Box::pin(async move {
            let settings = self.agent.settings();
            if let Some(host) = self.agent.host()
                && let Some((server, _)) = split_server_tool(&settings, name)
                && let Err(error) = host.wait_for_session(&server, &cancel).await
            {
                return Err(unavailable(&error));
            }
            let toolbox = self
                .wait_for_registered_tool(&settings, name, &cancel)
                .await?;
            let mut context = self.tool_context(cancel);
            context.progress = progress;
            match (toolbox.find(name), self.agent.host()) {
                (Some(ToolTarget::BuiltIn(_)), _) => {
                    let output = toolbox.call(name, arguments, &context).await;
                    return Ok(UserCallResult {
                        text: output.text,
                        is_error: output.is_error,
                    });
                }
                (Some(ToolTarget::Mcp(tool)), Some(host)) => {
                    return Ok(
                        call_registered_tool(&toolbox, host, tool, arguments, &context).await,
                    );
                }
                _ => {}
            }
            let unknown = || UserCallError::NoSuchTool {
                name: name.to_owned(),
            };
            let (server, original) = split_server_tool(&settings, name).ok_or_else(unknown)?;
            let host = self.agent.host().ok_or_else(unknown)?;
            let registry = host.registry();
            match registry.find_original(&server, original) {
                Some(tool) => {
                    Ok(call_registered_tool(&toolbox, host, tool, arguments, &context).await)
                }
                None => Err(UserCallError::NotOffered {
                    offers: registry
                        .tools()
                        .filter(|tool| tool.server == server)
                        .map(|tool| tool.original_name().to_owned())
                        .collect(),
                    server: server.to_string(),
                    tool: original.to_owned(),
                }),
            }
        })
    }
}

impl Conversation {
    /// The tools, after the servers were waited for whose tool a registered name can be.
    async fn wait_for_registered_tool(
        &self,
        settings: &Settings,
        name: &str,
        cancel: &CancellationToken,
    ) -> Result<Toolbox, UserCallError> {
        let mut toolbox = self.toolbox();
        let Some(host) = self.agent.host() else {
            return Ok(toolbox);
        };
        let mut failure = None;
        for server in servers_of_registered_name(settings, name) {
            if toolbox.find(name).is_some() {
                return Ok(toolbox);
            }
            match host.wait_for_session(&server, cancel).await {
                Ok(()) => toolbox = self.toolbox(),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        match failure {
            Some(error) if toolbox.find(name).is_none() => Err(unavailable(&error)),
            _ => Ok(toolbox),
        }
    }
}

fn unavailable(error: &CallError) -> UserCallError {
    UserCallError::ServerUnavailable {
        reason: Redactor::default().redact(&error.to_string()).into_owned(),
    }
}

/// The servers whose tool a name such as `mcp_server_tool` can be, in either spelling; the longest name first.
fn servers_of_registered_name(settings: &Settings, name: &str) -> Vec<ServerName> {
    let is_of = |server: &ServerName| {
        [Naming::Single, Naming::Double].iter().any(|naming| {
            let separator = naming.separator();
            let prefix = format!("mcp{separator}{}{separator}", sanitise(server.as_str()));
            name.len() > prefix.len() && name.starts_with(&prefix)
        })
    };
    let entries = settings.servers.iter().map(|entry| entry.name.clone());
    let mut servers: Vec<ServerName> = entries.filter(is_of).collect();
    servers.sort_by_key(|server| std::cmp::Reverse(server.as_str().len()));
    servers
}

/// Requests approval for a tool in `tools.approve` that another process calls for the user: the question that a
/// conversation of this home would ask.
pub fn approve_user_call<'a>(
    home: &'a Home,
    settings: &'a Settings,
    consent: &'a Consent,
    call: McpCall<'a>,
    cancel: &'a CancellationToken,
) -> BoxFuture<'a, Result<(), ApprovalError>> {
    Box::pin(async move {
        let approvals = home_approvals(home, settings, consent);
        call.request_approval(&approvals, cancel).await
    })
}

/// Splits `server.tool`. Server names may contain dots: the longest match wins.
fn split_server_tool<'a>(settings: &Settings, name: &'a str) -> Option<(ServerName, &'a str)> {
    let fitting = settings.servers.iter().filter_map(|entry| {
        let tool = name.strip_prefix(entry.name.as_str())?.strip_prefix('.')?;
        (!tool.is_empty()).then_some((entry.name.clone(), tool))
    });
    fitting.min_by_key(|(_, tool)| tool.len())
}

async fn call_registered_tool(
    toolbox: &Toolbox,
    host: &Host,
    tool: &Arc<RegisteredTool>,
    arguments: Map<String, Value>,
    context: &ToolContext,
) -> UserCallResult {
    let checked = toolbox
        .check_permission(ToolTarget::Mcp(tool), &arguments, context)
        .await;
    if let Err(refusal) = checked {
        return UserCallResult {
            text: refusal.to_string(),
            is_error: true,
        };
    }
    match call_mcp(host, tool, arguments, context).await {
        Ok(outcome) => UserCallResult {
            text: outcome.text().into_owned(),
            is_error: outcome.is_error(),
        },
        Err(refusal) => UserCallResult {
            text: refusal.to_string(),
            is_error: true,
        },
    }
}
