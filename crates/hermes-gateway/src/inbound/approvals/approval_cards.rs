//! The requests that are shown in chats: approvals, and questions of MCP servers.
//!
//! The decision itself is the run's. A card here belongs to a request of this process; the buttons of others have
//! expired.

use std::collections::{BTreeMap, HashSet};

use hermes_config::sync::Mutex;
use hermes_store::{SessionKey, runtime::ApprovalOutcome};
use tokio::sync::{mpsc, oneshot};

use super::form_dialogue::{FormAction, FormDialogue, FormStep};
use crate::{
    inbound::routing::chat::Chat,
    platform::{Account, OutboundMessage},
};

/// The requests that are shown, in the order they were made.
#[derive(Default)]
pub(in crate::inbound) struct ApprovalCards {
    open: Mutex<BTreeMap<u64, ApprovalCard>>,
}

struct ApprovalCard {
    id: String,
    key: SessionKey,
    account: Account,
    chat_id: String,
    form: Option<FormCard>,
    /// Tells its message how it ended.
    closed: oneshot::Sender<CardEnd>,
}

struct FormCard {
    dialogue: FormDialogue,
    prompts: mpsc::UnboundedSender<PromptChange>,
    end: FormCardEnd,
}

/// What becomes of a form that is over.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::inbound) struct FormCardEnd {
    /// What its last question got.
    pub(in crate::inbound) answered: Option<String>,
    /// Whether it was left without a decision.
    pub(in crate::inbound) is_dismissed: bool,
}

/// How a card ended.
#[derive(Debug, Clone)]
pub(in crate::inbound) struct CardEnd {
    pub(in crate::inbound) outcome: ApprovalOutcome,
    pub(in crate::inbound) form: FormCardEnd,
}

/// The next question of a form, and what the last one got.
#[derive(Debug)]
pub(in crate::inbound) struct PromptChange {
    pub(in crate::inbound) answered: Option<String>,
    pub(in crate::inbound) prompt: OutboundMessage,
}

/// What somebody did with a form.
#[derive(Debug, Clone, Copy)]
pub(in crate::inbound) enum FormInput<'a> {
    Text(&'a str),
    Press { step: usize, action: FormAction },
}

impl ApprovalCards {
    /// Adds a request. The receiver gets its end.
    pub(in crate::inbound) fn open(&self, chat: &Chat, id: &str) -> oneshot::Receiver<CardEnd> {
        self.insert(chat, id, None)
    }

    /// Adds a form. The receivers get its further questions, and its end.
    pub(in crate::inbound) fn open_form(
        &self,
        chat: &Chat,
        dialogue: FormDialogue,
    ) -> (
        mpsc::UnboundedReceiver<PromptChange>,
        oneshot::Receiver<CardEnd>,
    ) {
        let (prompts, further) = mpsc::unbounded_channel();
        let id = dialogue.id().to_owned();
        let form = FormCard {
            dialogue,
            prompts,
            end: FormCardEnd::default(),
        };
        (further, self.insert(chat, &id, Some(form)))
    }

    fn insert(&self, chat: &Chat, id: &str, form: Option<FormCard>) -> oneshot::Receiver<CardEnd> {
        let (closed, end) = oneshot::channel();
        let card = ApprovalCard {
            id: id.to_owned(),
            key: chat.key.clone(),
            account: chat.account.account.clone(),
            chat_id: chat.address.id.clone(),
            form,
            closed,
        };
        let mut open = self.open.lock();
        let number = open.last_key_value().map_or(0, |(last, _)| last + 1);
        open.insert(number, card);
        end
    }

    pub(in crate::inbound) fn close(&self, id: &str, outcome: ApprovalOutcome) {
        let mut open = self.open.lock();
        let number = open
            .iter()
            .find(|(_, card)| card.id == id)
            .map(|(number, _)| *number);
        if let Some(card) = number.and_then(|number| open.remove(&number)) {
            let end = CardEnd {
                outcome,
                form: card.form.map(|form| form.end).unwrap_or_default(),
            };
            // Its message may be gone with the gateway.
            let _ = card.closed.send(end);
        }
    }

    /// The requests of a conversation, oldest first.
    pub(in crate::inbound) fn of_session(&self, key: &SessionKey) -> Vec<String> {
        let open = self.open.lock();
        let of_session = open.values().filter(|card| card.key == *key);
        of_session.map(|card| card.id.clone()).collect()
    }

    /// The conversations that wait for somebody's decision.
    pub(in crate::inbound) fn waiting_sessions(&self) -> HashSet<SessionKey> {
        let open = self.open.lock();
        open.values().map(|card| card.key.clone()).collect()
    }

    /// The oldest form of a conversation that waits for an answer.
    pub(in crate::inbound) fn oldest_form(&self, key: &SessionKey) -> Option<String> {
        let open = self.open.lock();
        let mut forms = open.values().filter(|card| card.key == *key);
        let card = forms.find(|card| {
            let form = card.form.as_ref();
            form.is_some_and(|form| !form.dialogue.is_over())
        })?;
        Some(card.id.clone())
    }

    /// Whether a request is a form that cannot be sent as it is.
    pub(in crate::inbound) fn needs_answers(&self, id: &str) -> bool {
        let open = self.open.lock();
        let card = open.values().find(|card| card.id == id);
        let form = card.and_then(|card| card.form.as_ref());
        form.is_some_and(|form| form.dialogue.request().form.default_answers().is_none())
    }

    /// Whether a request is a form.
    pub(in crate::inbound) fn is_form(&self, id: &str) -> bool {
        let open = self.open.lock();
        open.values()
            .any(|card| card.id == id && card.form.is_some())
    }

    /// Takes what somebody did with a form, and has the next question asked. `None` if there is no such form.
    pub(in crate::inbound) fn answer_form(
        &self,
        id: &str,
        input: FormInput<'_>,
    ) -> Option<FormStep> {
        let mut open = self.open.lock();
        let card = open.values_mut().find(|card| card.id == id)?;
        let form = card.form.as_mut()?;
        let step = match input {
            FormInput::Text(text) => form.dialogue.take_text(text),
            FormInput::Press { step, action } => form.dialogue.take_press(step, action),
        };
        match &step {
            FormStep::Ask { answered, prompt } => {
                let change = PromptChange {
                    answered: answered.clone(),
                    prompt: prompt.clone(),
                };
                // Nobody posts any more when the gateway stops.
                let _ = form.prompts.send(change);
            }
            FormStep::Complete { answered, .. } => form.end.answered.clone_from(answered),
            FormStep::Dismissed => form.end.is_dismissed = true,
            FormStep::Declined | FormStep::Outdated => {}
        }
        Some(step)
    }

    /// Whether a request is shown in this chat.
    pub(in crate::inbound) fn is_in_chat(
        &self,
        id: &str,
        account: &Account,
        chat_id: &str,
    ) -> bool {
        let open = self.open.lock();
        open.values()
            .any(|card| card.id == id && card.account == *account && card.chat_id == chat_id)
    }
}
