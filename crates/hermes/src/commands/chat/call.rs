//! `/call`: a tool called by the user, without any model.

use std::sync::Arc;

use hermes_agent::{
    approval::{ApprovalMode, ApprovalSettings},
    conversation::{Agent, Consent, Conversation, UserCallError, approve_user_call},
    message::ToolCall,
    printable::printable,
    tools::{tool::ProgressSink, toolbox::McpCall},
};
use hermes_config::{ServerName, Settings};
use hermes_mcp::{ApprovalCheck, Host, HostRequest, RequestOutcome};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::{
    commands::{
        chat::commands::{ChatContext, CommandOutcome},
        mcp::{RoutedRequest, ask_running, insert_pairs, parse_tool_name, request_failure},
    },
    context::Context,
    failure::{Failure, FailureKind},
};

const USAGE: &str = "`/call SERVER.TOOL {\"name\": \"value\"}`, or `/call SERVER.TOOL name=value other=\"two words\"`";

/// Calls what the line names. Returns what the tool said; a failed call is a failure with its text.
pub(super) async fn run(
    conversation: &Conversation,
    rest: &str,
    progress: ProgressSink,
    cancel: CancellationToken,
) -> Result<String, Failure> {
    let (name, arguments) = parse_call(rest)?;
    let called = conversation
        .call_tool(name, arguments, progress, cancel.clone())
        .await;
    match called {
        _ if cancel.is_cancelled() => Err(Failure::interrupted()),
        Ok(called) if called.is_error => Err(Failure::failed(called.text)),
        Ok(called) => Ok(called.text),
        Err(error) => {
            let failure = Failure::new(FailureKind::Failed, error.to_string());
            Err(match &error {
                UserCallError::NotOffered { tool, offers, .. } if !offers.is_empty() => failure
                    .suggest_nearest(tool, offers.iter().cloned())
                    .hint(format!("it offers: {}", offers.join(", "))),
                UserCallError::NoSuchTool { name } => failure
                    .suggest_nearest(name, callable_names(conversation, name).into_iter())
                    .hint("`/tools` lists what there is"),
                UserCallError::NotOffered { .. } => failure.hint("`/tools` lists what there is"),
                UserCallError::ServerUnavailable { .. } => {
                    failure.hint("`/mcp` shows the state of the servers")
                }
            })
        }
    }
}

/// The names that a mistyped one may stand for. In `server.tool` it is the server that is not known, so the tool is kept.
fn callable_names(conversation: &Conversation, typed: &str) -> Vec<String> {
    if let Some((_, tool)) = typed.split_once('.') {
        let settings = conversation.agent().settings();
        let servers = settings.servers.iter();
        return servers
            .map(|entry| format!("{}.{tool}", entry.name))
            .collect();
    }
    let registry = conversation.agent().host().map(Host::registry);
    let registered = registry.iter().flat_map(|registry| registry.tools());
    let registered = registered.map(|tool| tool.name.to_string());
    registered.chain(Agent::reserved_names()).collect()
}

/// A `/call` that a running process of the home may make.
pub(super) struct ForwardedCall<'a> {
    pub(super) context: &'a Context,
    pub(super) settings: &'a Settings,
    /// Who approves the tools of `tools.approve`.
    pub(super) consent: Consent,
    pub(super) cancel: &'a CancellationToken,
}

impl ForwardedCall<'_> {
    /// Has a running process call what the line names; `None` if none has the server, or if a model has to judge first.
    pub(super) async fn run(&self, rest: &str) -> Result<Option<String>, Failure> {
        let (name, arguments) = parse_call(rest)?;
        // What is none of a server's tools may be one of our own.
        let Ok(target) = parse_tool_name(self.settings, name) else {
            return Ok(None);
        };
        for server in &target.servers {
            let pending = ApprovalCheck::Pending;
            let mut outcome = self.send(server, &target.tool, &arguments, pending).await?;
            if let Some(RequestOutcome::NeedsApproval { tool, original }) = &outcome {
                let approvals = ApprovalSettings::from_document(&self.settings.document);
                if approvals.mode == ApprovalMode::Smart {
                    return Ok(None);
                }
                let call = McpCall {
                    server,
                    tool,
                    original,
                    arguments: &arguments,
                };
                let (home, cancel) = (&self.context.home, self.cancel);
                let approved =
                    approve_user_call(home, self.settings, &self.consent, call, cancel).await;
                if cancel.is_cancelled() {
                    return Err(Failure::interrupted());
                }
                approved.map_err(|refusal| Failure::failed(refusal.to_string()))?;
                let passed = ApprovalCheck::Passed;
                outcome = self.send(server, original, &arguments, passed).await?;
            }
            match outcome {
                None => return Ok(None),
                Some(RequestOutcome::UnknownName { .. }) if target.servers.len() > 1 => {}
                Some(
                    report @ RequestOutcome::Answered {
                        is_error: false, ..
                    },
                ) => {
                    return Ok(Some(report.text().trim_end().to_owned()));
                }
                Some(report) => {
                    return Err(request_failure(self.context, server, &target.tool, report));
                }
            }
        }
        Ok(None)
    }

    async fn send(
        &self,
        server: &ServerName,
        tool: &str,
        arguments: &Map<String, Value>,
        approval: ApprovalCheck,
    ) -> Result<Option<RequestOutcome>, Failure> {
        let wanted = RoutedRequest {
            server,
            request: HostRequest::CallTool {
                tool: tool.to_owned(),
                arguments: arguments.clone(),
                is_raw: false,
                approval,
            },
            timeout: None,
        };
        ask_running(self.context, self.settings, wanted).await
    }
}

/// The tool and its arguments.
fn parse_call(rest: &str) -> Result<(&str, Map<String, Value>), Failure> {
    let (name, text) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let text = text.trim();
    if name.is_empty() {
        return Err(Failure::usage("which tool?").hint(USAGE));
    }
    if text.is_empty() {
        return Ok((name, Map::new()));
    }
    if text.starts_with('{') {
        return match serde_json::from_str(text) {
            Ok(arguments) => Ok((name, arguments)),
            Err(error) => {
                Err(Failure::usage(format!("the arguments are not JSON: {error}")).hint(USAGE))
            }
        };
    }
    Ok((name, parse_pairs(text)?))
}

/// `name=value` and `name:=JSON`. Values are texts; the tool's schema turns them into what it wants.
fn parse_pairs(text: &str) -> Result<Map<String, Value>, Failure> {
    let mut arguments = Map::new();
    let words = split_words(text)?;
    insert_pairs(&mut arguments, words.iter().map(String::as_str))?;
    Ok(arguments)
}

/// Splits at spaces outside of quotes.
pub(super) fn split_words(text: &str) -> Result<Vec<String>, Failure> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for character in text.chars() {
        match (quote, character) {
            (Some(end), _) if end == character => quote = None,
            (None, '\'' | '"') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None, space) if space.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(character),
        }
    }
    if quote.is_some() {
        return Err(Failure::usage("a quote is not closed").hint(USAGE));
    }
    words.extend(word);
    Ok(words)
}

/// The one call that the user makes at a time.
const CALL_ID: &str = "call";

pub(crate) async fn call_and_show(
    chat: &mut ChatContext<'_>,
    rest: &str,
) -> Result<CommandOutcome, Failure> {
    let (name, arguments) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    chat.screen
        .begin_call(&ToolCall::new(CALL_ID, name, arguments));
    let screen = chat.screen.clone();
    let progress = Arc::new(move |line: &str| screen.call_progress(CALL_ID, line));
    let called = run(chat.conversation, rest, progress, chat.cancel.clone()).await;
    chat.screen.end_call(CALL_ID);
    let text = called?;
    Ok(CommandOutcome::text(printable(text.trim_end())))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_are_json_or_pairs() {
        let read = |line: &str| {
            let (name, arguments) = parse_call(line).unwrap();
            (name.to_owned(), Value::Object(arguments))
        };
        assert_eq!(read("a.b"), ("a.b".into(), json!({})));
        assert_eq!(read("a.b {\"x\": [1]}"), ("a.b".into(), json!({"x": [1]})));
        assert_eq!(
            read("a.b x=1 y='two words' z="),
            ("a.b".into(), json!({"x": "1", "y": "two words", "z": ""}))
        );
        for bad in ["", "a.b {", "a.b [1]", "a.b word", "a.b x='"] {
            assert_eq!(
                parse_call(bad).unwrap_err().kind,
                FailureKind::Usage,
                "{bad}"
            );
        }
    }
}
