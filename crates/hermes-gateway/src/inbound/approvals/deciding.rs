//! Deciding in a chat: pressed buttons, words, and answers to the forms of MCP servers.

use std::sync::Arc;

use hermes_agent::approval::{FormReply, SubmitOutcome, SubmittedDecision};
use hermes_store::runtime::ApprovalAnswer;

use super::{
    approval_cards::FormInput,
    approval_messages::parse_button,
    form_dialogue::{FormPress, FormStep, parse_form_button},
};
use crate::{
    access::may_use_command,
    chat_commands::{ChatCommandContext as _, CommandName, approval_word, execute_approval_word},
    inbound::{
        InboundCore,
        commands::command_context::CommandRun,
        routing::chat::Chat,
        session_worker::waiting_turns::WorkerState,
        session_worker::{WorkerInput, is_stale},
        turn::user_content::sender_name,
    },
    platform::{ButtonPress, InboundEvent, InboundKind, Sender},
};

/// What a message is, as far as requests that wait are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::inbound) enum MessageUse {
    /// It was an answer.
    Answer,
    /// It is not: it is for the model.
    Other,
    /// The same, while somebody else is asked: it must not end the turn.
    Aside,
}

/// What somebody sees who pressed a button.
pub(in crate::inbound) struct ButtonNotice {
    pub(in crate::inbound) text: &'static str,
    /// Whether the message of the button is out of date.
    pub(in crate::inbound) is_expired: bool,
}

impl ButtonNotice {
    pub(in crate::inbound) fn new(text: &'static str) -> Self {
        Self {
            text,
            is_expired: false,
        }
    }

    fn expired() -> Self {
        Self {
            text: "This request has expired.",
            is_expired: true,
        }
    }
}

/// Who decided, for the record and for the chat.
pub(in crate::inbound) fn decided_by(sender: Option<&Sender>, chat: &Chat) -> String {
    let platform = chat.account.account.platform;
    match sender {
        Some(sender) => format!("{} ({platform})", sender_name(sender)),
        None => platform.to_string(),
    }
}

impl InboundCore {
    /// Does what a button of a request says.
    pub(in crate::inbound) fn decide_by_button(
        &self,
        chat: &Chat,
        event: &InboundEvent,
        press: &ButtonPress,
    ) -> ButtonNotice {
        let form = parse_form_button(&press.data);
        let decision = parse_button(&press.data);
        let (id, command) = match (form, decision) {
            (Some(form), _) if form.action.is_refusal() => (form.id, CommandName::Deny),
            (Some(form), _) => (form.id, CommandName::Approve),
            (None, Some((ApprovalAnswer::Deny, id))) => (id, CommandName::Deny),
            (None, Some((_, id))) => (id, CommandName::Approve),
            (None, None) => return ButtonNotice::new("This button does nothing any more."),
        };
        let account = &chat.account.account;
        if !self.cards.is_in_chat(id, account, &chat.address.id) {
            return ButtonNotice::expired();
        }
        if is_stale(event, chat) {
            return ButtonNotice::new(
                "That was pressed more than a minute ago, so it was ignored. Press again.",
            );
        }
        if !may_decide(chat, event.sender.as_ref(), command) {
            return ButtonNotice::new("You may not decide this.");
        }
        let by = decided_by(event.sender.as_ref(), chat);
        match (form, decision) {
            (Some(press), _) => self.press_form_button(press, by),
            (None, Some((answer, id))) => {
                let decision = SubmittedDecision::new(answer, by);
                notice_of(self.gateway.runs().decide_approval(id, decision))
            }
            (None, None) => ButtonNotice::expired(),
        }
    }

    fn press_form_button(&self, press: FormPress<'_>, by: String) -> ButtonNotice {
        let input = FormInput::Press {
            step: press.step,
            action: press.action,
        };
        match self.cards.answer_form(press.id, input) {
            None => ButtonNotice::expired(),
            Some(FormStep::Outdated) => ButtonNotice::new("This question was answered already."),
            Some(step) => match self.submit_form(press.id, step, by) {
                None => ButtonNotice::new(""),
                Some(outcome) => notice_of(outcome),
            },
        }
    }

    /// Submits what became of a form that is over.
    fn submit_form(&self, id: &str, step: FormStep, by: String) -> Option<SubmitOutcome> {
        let (answer, reply) = match step {
            FormStep::Complete { answers, .. } => {
                (ApprovalAnswer::Once, Some(FormReply::Answers(answers)))
            }
            FormStep::Declined => (ApprovalAnswer::Deny, None),
            FormStep::Dismissed => (ApprovalAnswer::Deny, Some(FormReply::Dismissed)),
            FormStep::Ask { .. } | FormStep::Outdated => return None,
        };
        let decision = SubmittedDecision {
            reply,
            ..SubmittedDecision::new(answer, by)
        };
        Some(self.gateway.runs().decide_approval(id, decision))
    }

    /// Takes a message as the answer to what waits in its conversation, if it is one.
    pub(in crate::inbound) async fn decide_by_message(
        self: &Arc<Self>,
        input: &WorkerInput,
        state: &Arc<WorkerState>,
    ) -> MessageUse {
        let Some(message) = input.message() else {
            return MessageUse::Other;
        };
        let waiting = self.cards.of_session(&input.chat.key);
        let Some(oldest) = waiting.first() else {
            return MessageUse::Other;
        };
        let word = approval_word(&message.text);
        let form = self.cards.oldest_form(&input.chat.key);
        match (word, form) {
            (Some(word), form) if form.is_none() || !self.cards.is_form(oldest) => {
                let run = CommandRun::new(self.clone(), input.clone(), state.clone());
                if run.may_use(word.command().word()) && !input.is_stale() {
                    // The message of the request says what was decided.
                    execute_approval_word(word, &run).await;
                }
                MessageUse::Answer
            }
            (_, Some(form)) => self.answer_form_by_text(input, &form, &message.text),
            (_, None) => MessageUse::Other,
        }
    }

    fn answer_form_by_text(&self, input: &WorkerInput, form: &str, text: &str) -> MessageUse {
        let has_files = input
            .message()
            .is_some_and(|message| !message.attachments.is_empty());
        // What was written before the question, or with a file, is not an answer to it.
        if has_files || input.is_stale() {
            return MessageUse::Other;
        }
        let sender = input.event.sender.as_ref();
        if !may_decide(&input.chat, sender, CommandName::Approve) {
            return MessageUse::Aside;
        }
        match self.cards.answer_form(form, FormInput::Text(text)) {
            None | Some(FormStep::Outdated) => MessageUse::Other,
            Some(step) => {
                // Somebody else may have been faster: the message of the form says so.
                self.submit_form(form, step, decided_by(sender, &input.chat));
                MessageUse::Answer
            }
        }
    }

    /// Whether an event is a word that decides something in this chat. It needs no mention.
    pub(in crate::inbound) fn is_awaited_word(&self, chat: &Chat, event: &InboundEvent) -> bool {
        match &event.kind {
            InboundKind::Message(message) => {
                approval_word(&message.text).is_some()
                    && !self.cards.of_session(&chat.key).is_empty()
            }
            _ => false,
        }
    }
}

/// Whether somebody may decide: as they could by a command.
fn may_decide(chat: &Chat, sender: Option<&Sender>, command: CommandName) -> bool {
    let access = &chat.account.settings.access;
    let sender = sender.map(|sender| sender.id.as_str()).unwrap_or_default();
    may_use_command(access, &chat.address, sender, command.word())
}

fn notice_of(outcome: SubmitOutcome) -> ButtonNotice {
    match outcome {
        SubmitOutcome::Accepted => ButtonNotice::new("Done."),
        SubmitOutcome::NotPermanent => {
            ButtonNotice::new("This cannot be allowed permanently. Choose another answer.")
        }
        SubmitOutcome::NeedsAnswers => ButtonNotice::new("Answer the questions, or decline."),
        SubmitOutcome::NotWaiting | SubmitOutcome::Refused => ButtonNotice::expired(),
    }
}
