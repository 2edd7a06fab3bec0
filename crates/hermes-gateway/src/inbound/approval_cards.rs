//! Approvals in a chat: a message with buttons for each, which says afterwards who decided what.
//!
//! The decision itself is the run's. A message here belongs to a request of this process; the buttons of others have
//! expired.

use std::collections::BTreeMap;

use hermes_config::sync::Mutex;
use hermes_store::{
    SessionKey,
    runtime::{Approval, ApprovalAnswer, ApprovalOutcome, NewApproval},
};
use jiff::Zoned;
use tokio::sync::oneshot;

use super::chat::Chat;
use crate::platform::{Account, Button, OutboundMessage, TextFormat};

/// The longest text of a request that has buttons, in characters.
const MAX_TEXT_CHARS: usize = 3800;
/// What the data of our buttons begins with.
const BUTTON_PREFIX: &str = "ea:";

/// The requests that are shown, by id.
#[derive(Default)]
pub(super) struct ApprovalCards {
    open: Mutex<BTreeMap<u64, ApprovalCard>>,
}

struct ApprovalCard {
    id: String,
    key: SessionKey,
    account: Account,
    chat_id: String,
    /// Tells its message how it ended.
    closed: oneshot::Sender<ApprovalOutcome>,
}

impl ApprovalCards {
    /// Adds a request. The receiver gets its end.
    pub(super) fn open(&self, chat: &Chat, id: &str) -> oneshot::Receiver<ApprovalOutcome> {
        let (closed, end) = oneshot::channel();
        let card = ApprovalCard {
            id: id.to_owned(),
            key: chat.key.clone(),
            account: chat.account.account.clone(),
            chat_id: chat.address.id.clone(),
            closed,
        };
        let mut open = self.open.lock();
        let number = open.last_key_value().map_or(0, |(last, _)| last + 1);
        open.insert(number, card);
        end
    }

    pub(super) fn close(&self, id: &str, outcome: ApprovalOutcome) {
        let mut open = self.open.lock();
        let number = open
            .iter()
            .find(|(_, card)| card.id == id)
            .map(|(number, _)| *number);
        if let Some(card) = number.and_then(|number| open.remove(&number)) {
            // Its message may be gone with the gateway.
            let _ = card.closed.send(outcome);
        }
    }

    /// The requests of a conversation, oldest first.
    pub(super) fn of_session(&self, key: &SessionKey) -> Vec<String> {
        let open = self.open.lock();
        let of_session = open.values().filter(|card| card.key == *key);
        of_session.map(|card| card.id.clone()).collect()
    }

    /// Whether a request is shown in this chat.
    pub(super) fn is_in_chat(&self, id: &str, account: &Account, chat_id: &str) -> bool {
        let open = self.open.lock();
        open.values()
            .any(|card| card.id == id && card.account == *account && card.chat_id == chat_id)
    }
}

/// The request as a message. `link` is a page that has to be opened before a yes.
pub(super) fn request_message(approval: &NewApproval, link: Option<&str>) -> OutboundMessage {
    let id = &approval.id;
    let button = |label: &str, choice: &str| Button {
        label: label.to_owned(),
        data: format!("{BUTTON_PREFIX}{choice}:{id}"),
        is_link: false,
    };
    let mut rows = Vec::new();
    if let Some(link) = link {
        rows.push(vec![Button {
            label: "Open the page".into(),
            data: link.to_owned(),
            is_link: true,
        }]);
        rows.push(vec![button("Done", "once"), button("Cancel", "deny")]);
    } else {
        let mut first = vec![button("Once", "once"), button("Session", "session")];
        if approval.allow_permanent {
            first.push(button("Always", "always"));
        }
        rows.push(first);
        rows.push(vec![button("Deny", "deny")]);
    }
    OutboundMessage {
        text: request_text(approval, link),
        format: TextFormat::Markdown,
        buttons: rows,
        ..OutboundMessage::default()
    }
}

fn request_text(approval: &NewApproval, link: Option<&str>) -> String {
    let command: String = approval.command.chars().take(MAX_TEXT_CHARS).collect();
    let reason = &approval.description;
    if link.is_some() {
        return format!("{reason}:\n{command}\n\nOpen the page, then press Done.");
    }
    // A fence of the command's own would end ours.
    let command = command.replace("```", "'''");
    format!(
        "May I do this? ({reason})\n```\n{command}\n```\nPress a button, or write yes, session, always or no."
    )
}

/// The request once it is over.
pub(super) fn closed_message(
    opened: &OutboundMessage,
    outcome: ApprovalOutcome,
    row: Option<&Approval>,
    now: &Zoned,
) -> OutboundMessage {
    let question = opened
        .text
        .rsplit_once('\n')
        .map_or("", |(question, _)| question);
    let by = row
        .and_then(|row| row.answered_by.as_deref())
        .map(|by| format!(" by {by}"))
        .unwrap_or_default();
    let decided = match outcome {
        ApprovalOutcome::Answered(ApprovalAnswer::Once) => format!("Allowed once{by}"),
        ApprovalOutcome::Answered(ApprovalAnswer::Session) => {
            format!("Allowed for this session{by}")
        }
        ApprovalOutcome::Answered(ApprovalAnswer::Always) => format!("Allowed from now on{by}"),
        ApprovalOutcome::Answered(ApprovalAnswer::Deny) => format!("Denied{by}"),
        ApprovalOutcome::Expired => "Expired: nobody answered in time".to_owned(),
        ApprovalOutcome::Cancelled => "No longer needed".to_owned(),
    };
    OutboundMessage::text(format!("{question}\n{decided}, {}.", now.strftime("%H:%M")))
}

/// What a pressed button of ours means.
pub(super) fn parse_button(data: &str) -> Option<(ApprovalAnswer, &str)> {
    let (choice, id) = data.strip_prefix(BUTTON_PREFIX)?.split_once(':')?;
    Some((ApprovalAnswer::parse(choice)?, id))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn approval(allow_permanent: bool) -> NewApproval {
        NewApproval {
            id: "ap_0123456789ab".into(),
            kind: "exec".into(),
            session_key: None,
            session: None,
            run_id: None,
            command: "rm -r x\n```\nfake".into(),
            description: "recursive delete".into(),
            pattern_keys: Vec::new(),
            allow_permanent,
            timeout: None,
            owner_pid: 1,
            owner_start: None,
        }
    }

    #[test]
    fn buttons_name_the_request_and_fit_a_platform() {
        let message = request_message(&approval(true), None);
        let buttons: Vec<_> = message.buttons.iter().flatten().collect();
        let choices: Vec<_> = buttons
            .iter()
            .map(|button| parse_button(&button.data).unwrap())
            .collect();
        assert_eq!(choices.len(), 4);
        assert!(choices.iter().all(|(_, id)| *id == "ap_0123456789ab"));
        assert!(buttons.iter().all(|button| button.data.len() <= 64));
        assert_eq!(message.text.matches("```").count(), 2);
        let message = request_message(&approval(false), None);
        let data: Vec<_> = message
            .buttons
            .iter()
            .flatten()
            .map(|button| &button.data)
            .collect();
        assert!(!data.iter().any(|data| data.contains("always")), "{data:?}");
        let message = request_message(&approval(false), Some("https://example.org/login"));
        assert!(message.buttons[0][0].is_link);
        assert_eq!(message.buttons[1].len(), 2);
        for other in ["", "ea:", "ea:once", "ea:maybe:ap_1", "xx:once:ap_1"] {
            assert_eq!(parse_button(other), None, "{other}");
        }
    }

    #[test]
    fn a_closed_request_says_what_was_decided() {
        let opened = request_message(&approval(true), None);
        let now = Zoned::now();
        let outcome = ApprovalOutcome::Answered(ApprovalAnswer::Deny);
        let text = closed_message(&opened, outcome, None, &now).text;
        assert!(text.contains("Denied, "), "{text}");
        assert!(!text.contains("Press a button"), "{text}");
        let text = closed_message(&opened, ApprovalOutcome::Expired, None, &now).text;
        assert!(text.contains("Expired"), "{text}");
    }
}
