//! One call of a server's tool for an operator. The policy applies to it as to the agent's own calls; an approval is not
//! asked for, since it is a person who calls.

use std::time::{Duration, Instant};

use hermes_agent::conversation::Agent;
use hermes_config::Redactor;
use hermes_mcp::{ApprovalCheck, CallOptions, HostRequest, RequestOutcome};
use hermes_protocol::{RefusalReason, RequestRefusal, ResultMedia, ToolCallReport, ToolPermission};
use serde_json::{Map, Value};

use super::{UsableServer, refuse, result_media, servers::elapsed_ms};

/// The longest text of a result.
const MAX_TEXT_BYTES: usize = 256 * 1024;
/// The largest structured result.
const MAX_STRUCTURED_BYTES: usize = 256 * 1024;

pub(super) struct WantedCall {
    pub(super) tool: String,
    pub(super) arguments: Map<String, Value>,
    pub(super) timeout_seconds: u64,
}

pub(super) async fn call(
    agent: &Agent,
    usable: &UsableServer<'_>,
    wanted: WantedCall,
) -> Result<ToolCallReport, RequestRefusal> {
    let began = Instant::now();
    let timeout = Duration::from_secs(wanted.timeout_seconds);
    let options = CallOptions {
        timeout: Some(timeout),
        ..CallOptions::default()
    };
    let WantedCall {
        tool, arguments, ..
    } = wanted;
    let calling = async {
        // Its tools are known when it has a session, and with them the names that the policy speaks of.
        let listed = HostRequest::ListTools;
        let ready = usable
            .host
            .execute_request(&usable.name, listed, &options)
            .await;
        if let RequestOutcome::Failed { .. } = ready {
            return Err(explain_outcome(agent, usable, &tool, ready));
        }
        check_permission(agent, usable, &tool)?;
        let request = HostRequest::CallTool {
            tool: tool.clone(),
            arguments,
            is_raw: false,
            approval: ApprovalCheck::Passed,
        };
        let outcome = usable
            .host
            .execute_request(&usable.name, request, &options)
            .await;
        match outcome {
            RequestOutcome::Answered { .. } => Ok(outcome),
            other => Err(explain_outcome(agent, usable, &tool, other)),
        }
    };
    let outcome = match tokio::time::timeout(timeout, calling).await {
        Ok(outcome) => outcome?,
        Err(_) => {
            return Err(refuse(
                RefusalReason::TimedOut,
                format!(
                    "`{tool}` of `{}` did not answer within {} s",
                    usable.name,
                    timeout.as_secs()
                ),
            ));
        }
    };
    let (text, structured, is_error) = read_outcome(outcome);
    let (media, is_media_cut) = read_media(agent, &text).await;
    let redactor = agent.redactor();
    let (text, is_text_cut) = cut_text(&redactor.redact(&text), MAX_TEXT_BYTES);
    let mut structured = structured;
    if let Some(content) = &mut structured {
        redact_strings(content, &redactor);
    }
    let is_too_large = structured
        .as_ref()
        .is_some_and(|content| content.to_string().len() > MAX_STRUCTURED_BYTES);
    Ok(ToolCallReport {
        server: usable.name.to_string(),
        tool,
        is_error,
        text,
        structured_content: structured.filter(|_| !is_too_large),
        media,
        truncated: is_text_cut || is_too_large || is_media_cut,
        elapsed_ms: elapsed_ms(began),
    })
}

async fn read_media(agent: &Agent, text: &str) -> (Vec<ResultMedia>, bool) {
    let (cache, text) = (agent.home().cache_dir(), text.to_owned());
    let reading = tokio::task::spawn_blocking(move || result_media::read_media(&cache, &text));
    reading.await.unwrap_or_default()
}

fn check_permission(
    agent: &Agent,
    usable: &UsableServer<'_>,
    tool: &str,
) -> Result<(), RequestRefusal> {
    let registry = usable.host.registry();
    let registered = registry.find_original(&usable.name, tool).or_else(|| {
        registry
            .find(tool)
            .filter(|found| found.server == usable.name)
    });
    // One without a registered name is refused by the host.
    let Some(registered) = registered else {
        return Ok(());
    };
    let name = registered.name.as_str();
    match agent.policy().tool_permission(name) {
        ToolPermission::Allow | ToolPermission::RequireApproval => Ok(()),
        ToolPermission::Deny => Err(refuse(
            RefusalReason::Policy,
            format!("the policy does not allow the tool `{name}` (`tools`)"),
        )),
    }
}

fn explain_outcome(
    agent: &Agent,
    usable: &UsableServer<'_>,
    tool: &str,
    outcome: RequestOutcome,
) -> RequestRefusal {
    let server = &usable.name;
    let refusal = match outcome {
        RequestOutcome::UnknownName { is_withheld, .. } if is_withheld => refuse(
            RefusalReason::Unusable,
            format!(
                "`{tool}` of `{server}` is withheld, because it has changed since it was accepted"
            ),
        ),
        RequestOutcome::UnknownName { offers, .. } => {
            let offers: Vec<String> = offers
                .iter()
                .take(20)
                .map(|name| format!("`{name}`"))
                .collect();
            refuse(
                RefusalReason::NotFound,
                format!(
                    "`{server}` offers no tool `{tool}`; it offers {}",
                    offers.join(", ")
                ),
            )
        }
        RequestOutcome::WrongArguments { problem, .. } => refuse(
            RefusalReason::Arguments,
            format!("the arguments of `{tool}`: {problem}"),
        ),
        RequestOutcome::Failed {
            ref members,
            ref definition,
        } => {
            let reason = if members.get("needs_reauth") == Some(&Value::Bool(true)) {
                RefusalReason::LoginNeeded
            } else if definition.is_some() {
                RefusalReason::Arguments
            } else {
                RefusalReason::Unusable
            };
            refuse(reason, outcome.text())
        }
        RequestOutcome::Answered { .. } | RequestOutcome::NeedsApproval { .. } => refuse(
            RefusalReason::Unusable,
            format!("`{server}` gave no result"),
        ),
    };
    RequestRefusal {
        message: agent.redactor().redact(&refusal.message).into_owned(),
        ..refusal
    }
}

/// The text, the structured content, and whether the tool says that it failed.
fn read_outcome(outcome: RequestOutcome) -> (String, Option<Value>, bool) {
    let text = outcome.text().to_owned();
    let RequestOutcome::Answered {
        members, is_error, ..
    } = outcome
    else {
        return (text, None, true);
    };
    let structured = match members {
        Value::Object(mut members) => members
            .remove("structuredContent")
            .or_else(|| members.remove("structured_content"))
            .or_else(|| members.remove("result").filter(Value::is_object)),
        _ => None,
    };
    (text, structured, is_error)
}

/// The text up to a size, between two characters.
fn cut_text(text: &str, most: usize) -> (String, bool) {
    if text.len() <= most {
        return (text.to_owned(), false);
    }
    (text[..text.floor_char_boundary(most)].to_owned(), true)
}

fn redact_strings(value: &mut Value, redactor: &Redactor) {
    match value {
        Value::String(text) => {
            if let std::borrow::Cow::Owned(clean) = redactor.redact(text) {
                *text = clean;
            }
        }
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| redact_strings(item, redactor)),
        Value::Object(members) => members
            .values_mut()
            .for_each(|member| redact_strings(member, redactor)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(cut_text("ab", 2), ("ab".to_owned(), false));
        assert_eq!(cut_text("aäb", 2), ("a".to_owned(), true));
    }

    #[test]
    fn secrets_within_a_result_are_replaced() {
        let redactor = Redactor::new([hermes_config::Secret::new("planted words".to_owned())]);
        let mut result = json!({"a": ["it is planted words"], "b": 1});
        redact_strings(&mut result, &redactor);
        assert_eq!(result, json!({"a": ["it is [REDACTED]"], "b": 1}));
    }
}
