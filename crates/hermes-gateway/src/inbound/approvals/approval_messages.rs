//! What the message of a request says: what is asked, its buttons, and afterwards who decided what.

use hermes_agent::server_requests::elicitation::LinkRequest;
use hermes_store::runtime::{Approval, ApprovalAnswer, ApprovalOutcome, NewApproval};
use jiff::Zoned;

use super::{approval_cards::CardEnd, form_prompts::without_link_markup};
use crate::platform::{Button, OutboundMessage, TextFormat};

/// The longest text of a request that has buttons, and of one that has none, in characters.
const MAX_TEXT_CHARS: usize = 3800;
const MAX_PLAIN_CHARS: usize = 200;
/// Platforms refuse longer addresses in buttons. The text has it in any case.
const MAX_LINK_CHARS: usize = 512;
/// What the data of our buttons begins with.
const BUTTON_PREFIX: &str = "ea:";

/// What a request is about, which decides how its end is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::inbound) enum RequestKind {
    Approval,
    Link,
    Form,
}

/// A request as it is shown.
#[derive(Debug, Clone)]
pub(in crate::inbound) struct RequestMessage {
    pub(in crate::inbound) kind: RequestKind,
    pub(in crate::inbound) message: OutboundMessage,
    /// Without buttons, for a place that takes none.
    pub(in crate::inbound) plain: OutboundMessage,
}

fn choice_button(label: &str, choice: ApprovalAnswer, id: &str) -> Button {
    Button {
        label: label.to_owned(),
        data: format!("{BUTTON_PREFIX}{}:{id}", choice.as_str()),
        is_link: false,
    }
}

/// An approval as a message.
pub(in crate::inbound) fn approval_request(approval: &NewApproval) -> RequestMessage {
    let button = |label, choice| choice_button(label, choice, &approval.id);
    let mut first = vec![
        button("Once", ApprovalAnswer::Once),
        button("Session", ApprovalAnswer::Session),
    ];
    let mut words = "yes, session or no";
    if approval.allow_permanent {
        first.push(button("Always", ApprovalAnswer::Always));
        words = "yes, session, always or no";
    }
    let text = |most: usize, how: &str| {
        // A fence of the command's own would end ours.
        let command = shorten(&approval.command, most).replace("```", "'''");
        let reason = &approval.description;
        format!("May I do this? ({reason})\n```\n{command}\n```\n{how}")
    };
    RequestMessage {
        kind: RequestKind::Approval,
        message: OutboundMessage {
            text: text(
                MAX_TEXT_CHARS,
                &format!("Press a button, or write {words}."),
            ),
            format: TextFormat::Markdown,
            buttons: vec![first, vec![button("Deny", ApprovalAnswer::Deny)]],
            ..OutboundMessage::default()
        },
        plain: OutboundMessage::text(text(MAX_PLAIN_CHARS, &format!("Write {words}."))),
    }
}

/// A page to open as a message. Its address is shown in full, with its host, as it is.
pub(in crate::inbound) fn link_request(
    approval: &NewApproval,
    link: &LinkRequest,
) -> RequestMessage {
    let asks = |how: &str| OutboundMessage {
        text: format!(
            "The MCP server \"{}\" asks you to open a page:\n{}\n\nAddress: {}\nHost: {}\n\nOpen it only if you trust it. {how}",
            link.server,
            without_link_markup(link.message.trim()),
            link.url,
            link.host
        ),
        format: TextFormat::Plain,
        ..OutboundMessage::default()
    };
    let mut buttons = Vec::new();
    if link.url.chars().count() <= MAX_LINK_CHARS {
        buttons.push(vec![Button {
            label: format!("Open {}", shorten(&link.host, 40)),
            data: link.url.clone(),
            is_link: true,
        }]);
    }
    buttons.push(vec![
        choice_button("Done", ApprovalAnswer::Once, &approval.id),
        choice_button("Decline", ApprovalAnswer::Deny, &approval.id),
    ]);
    RequestMessage {
        kind: RequestKind::Link,
        message: OutboundMessage {
            buttons,
            ..asks("Then press Done, or write yes; no declines.")
        },
        plain: asks("Then write yes; no declines."),
    }
}

/// A question of a form as a message.
pub(in crate::inbound) fn form_request(prompt: OutboundMessage) -> RequestMessage {
    let plain = OutboundMessage {
        buttons: Vec::new(),
        ..prompt.clone()
    };
    RequestMessage {
        kind: RequestKind::Form,
        message: prompt,
        plain,
    }
}

/// What a question of a form becomes when it is answered. Without an answer only its buttons go.
pub(in crate::inbound) fn answered_message(
    question: &OutboundMessage,
    answered: Option<&str>,
) -> OutboundMessage {
    let text = match answered {
        Some(answer) => format!("{}\n→ {answer}", without_instruction(&question.text)),
        None => question.text.clone(),
    };
    plain_text(text)
}

/// The request once it is over: what was asked, what was decided, by whom and when.
pub(in crate::inbound) fn closed_message(
    kind: RequestKind,
    question: &OutboundMessage,
    end: &CardEnd,
    row: Option<&Approval>,
    now: &Zoned,
) -> OutboundMessage {
    let by = row
        .and_then(|row| row.answered_by.as_deref())
        .map(|by| format!(" by {by}"))
        .unwrap_or_default();
    let decided = match (end.outcome, kind) {
        (ApprovalOutcome::Expired, _) => "Expired: nobody answered in time".to_owned(),
        (ApprovalOutcome::Cancelled, _) => "No longer needed".to_owned(),
        (ApprovalOutcome::Answered(answer), RequestKind::Approval) => {
            let verb = match answer {
                ApprovalAnswer::Once => "Allowed once",
                ApprovalAnswer::Session => "Allowed for this session",
                ApprovalAnswer::Always => "Allowed from now on",
                ApprovalAnswer::Deny => "Denied",
            };
            format!("{verb}{by}")
        }
        (ApprovalOutcome::Answered(ApprovalAnswer::Deny), _) if end.form.is_dismissed => {
            format!("Cancelled{by}")
        }
        (ApprovalOutcome::Answered(ApprovalAnswer::Deny), _) => format!("Declined{by}"),
        (ApprovalOutcome::Answered(_), RequestKind::Link) => format!("Confirmed{by}"),
        (ApprovalOutcome::Answered(_), RequestKind::Form) => format!("Answered{by}"),
    };
    let mut text = without_instruction(&question.text).to_owned();
    if let Some(answer) = &end.form.answered {
        text = format!("{text}\n→ {answer}");
    }
    OutboundMessage {
        text: format!("{text}\n{decided}, {}.", now.strftime("%H:%M")),
        format: question.format,
        ..OutboundMessage::default()
    }
}

fn plain_text(text: String) -> OutboundMessage {
    OutboundMessage {
        text,
        format: TextFormat::Plain,
        ..OutboundMessage::default()
    }
}

/// The last line says how to answer.
fn without_instruction(text: &str) -> &str {
    let question = text.rsplit_once('\n').map_or("", |(question, _)| question);
    question.trim_end()
}

fn shorten(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most - 1).chain(['…']).collect()
}

/// What a pressed button of ours means.
pub(in crate::inbound) fn parse_button(data: &str) -> Option<(ApprovalAnswer, &str)> {
    let (choice, id) = data.strip_prefix(BUTTON_PREFIX)?.split_once(':')?;
    Some((ApprovalAnswer::parse(choice)?, id))
}

#[cfg(test)]
mod tests;
