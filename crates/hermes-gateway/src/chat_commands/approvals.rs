//! Deciding about what waits for approval: `/approve`, `/deny`, and single words.

use hermes_agent::approval::Decision;

use super::{
    context::{ChatCommandContext, CommandError, WaitingApproval},
    execute::{CommandReply, usage_of},
    table::CommandName,
    texts,
};

/// A word that decides while something waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalWord {
    Once,
    Session,
    Always,
    Deny,
}

impl ApprovalWord {
    /// The command that it stands for, for the rights of its sender.
    pub fn command(self) -> CommandName {
        match self {
            Self::Deny => CommandName::Deny,
            _ => CommandName::Approve,
        }
    }

    fn decision(self) -> Decision {
        match self {
            Self::Once => Decision::Once,
            Self::Session => Decision::Session,
            Self::Always => Decision::Always,
            Self::Deny => Decision::Denied { reason: None },
        }
    }
}

/// The most characters of a reason.
const MAX_REASON: usize = 280;

/// The decision that a whole message is, if it is one of the known words.
pub fn approval_word(message: &str) -> Option<ApprovalWord> {
    let word = message.trim().trim_end_matches(['.', '!']).to_lowercase();
    match word.as_str() {
        "yes" | "ok" | "approve" | "y" => Some(ApprovalWord::Once),
        "session" => Some(ApprovalWord::Session),
        "always" => Some(ApprovalWord::Always),
        "no" | "deny" | "cancel" | "n" => Some(ApprovalWord::Deny),
        _ => None,
    }
}

/// Decides about the oldest request. `None` if nothing waits: then the word is a message like others.
pub async fn execute_approval_word(
    word: ApprovalWord,
    context: &dyn ChatCommandContext,
) -> Option<CommandReply> {
    let waiting = match context.waiting_approvals().await {
        Ok(waiting) => waiting,
        Err(error) => return Some(CommandReply::text(error.to_string())),
    };
    let oldest = waiting.into_iter().next()?;
    let decided = decide_all(vec![oldest], &word.decision(), context).await;
    Some(decided.unwrap_or_else(|error| CommandReply::text(error.to_string())))
}

/// `/approve [all] [session|always]`.
pub(super) async fn approve(
    arguments: &str,
    context: &dyn ChatCommandContext,
) -> Result<CommandReply, CommandError> {
    let mut is_all = false;
    let mut decision = Decision::Once;
    for word in arguments.to_lowercase().split_whitespace() {
        match word {
            "all" => is_all = true,
            "once" => decision = Decision::Once,
            "session" => decision = Decision::Session,
            "always" => decision = Decision::Always,
            _ => return Err(usage_of(CommandName::Approve)),
        }
    }
    let mut waiting = context.waiting_approvals().await?;
    let count = waiting.len();
    waiting.retain(|approval| !approval.needs_answers);
    if waiting.is_empty() && count > 0 {
        return Ok(CommandReply::text(
            "A question waits for its answers. Answer it, or use `/deny`.",
        ));
    }
    decide_all(select(waiting, is_all), &decision, context).await
}

/// `/deny [all] [reason]`.
pub(super) async fn deny(
    arguments: &str,
    context: &dyn ChatCommandContext,
) -> Result<CommandReply, CommandError> {
    let (first, rest) = arguments
        .split_once(char::is_whitespace)
        .unwrap_or((arguments, ""));
    let is_all = first.eq_ignore_ascii_case("all");
    let reason = if is_all { rest.trim() } else { arguments };
    let reason: String = reason.chars().take(MAX_REASON).collect();
    let decision = Decision::Denied {
        reason: Some(reason).filter(|reason| !reason.is_empty()),
    };
    let waiting = select(context.waiting_approvals().await?, is_all);
    decide_all(waiting, &decision, context).await
}

fn select(mut waiting: Vec<WaitingApproval>, is_all: bool) -> Vec<WaitingApproval> {
    if !is_all {
        waiting.truncate(1);
    }
    waiting
}

async fn decide_all(
    waiting: Vec<WaitingApproval>,
    decision: &Decision,
    context: &dyn ChatCommandContext,
) -> Result<CommandReply, CommandError> {
    let mut decided = Vec::new();
    let mut is_only_once = false;
    for approval in waiting {
        let decision = match decision {
            Decision::Always if !approval.can_allow_always => {
                is_only_once = true;
                &Decision::Session
            }
            decision => decision,
        };
        if context.decide(&approval.id, decision.clone()).await? {
            decided.push(approval);
        }
    }
    Ok(CommandReply::text(describe(
        &decided,
        decision,
        is_only_once,
    )))
}

fn describe(decided: &[WaitingApproval], decision: &Decision, is_only_session: bool) -> String {
    let verb = match decision {
        Decision::Once => "Allowed once",
        Decision::Session => "Allowed in this conversation",
        Decision::Always if is_only_session => {
            "Allowed in this conversation, because this cannot be allowed always"
        }
        Decision::Always => "Allowed always",
        Decision::Denied { .. } => "Denied",
    };
    match decided {
        [] => "Nothing waits for approval.".to_owned(),
        [one] => format!("{verb}: `{}`", texts::inline_code(&one.subject, 200)),
        several => format!("{verb}: {} requests.", several.len()),
    }
}
