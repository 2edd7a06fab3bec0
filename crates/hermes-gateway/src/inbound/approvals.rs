//! Shows requests in their chats, and keeps their messages up to date.

pub(super) mod approval_cards;
pub(super) mod approval_messages;
pub(super) mod deciding;
pub(super) mod form_dialogue;
pub(super) mod form_prompts;

use std::sync::Arc;

use hermes_agent::{
    approval::SubmittedDecision,
    server_requests::elicitation::{FormField, FormRequest},
};
use hermes_store::runtime::{ApprovalAnswer, ApprovalOutcome, NewApproval};
use jiff::Zoned;
use tokio::sync::{mpsc, oneshot};

use self::{
    approval_cards::{CardEnd, FormCardEnd, PromptChange},
    approval_messages::{
        RequestKind, RequestMessage, answered_message, approval_request, closed_message,
        form_request, link_request,
    },
    form_dialogue::{FormAudience, FormDialogue},
};
use super::{
    InboundCore,
    routing::chat::{Chat, LiveAccount},
};
use crate::{
    platform::{ButtonPress, InboundEvent, InboundKind, OutboundMessage, PostError},
    runs::ServerQuestion,
    send::{LengthLimit, split_text},
};

/// Room in the last part of a request for what was decided.
const DECISION_RESERVE: usize = 150;
/// Recorded as answerer where nobody is asked.
const ANSWERED_BY: &str = "hermes";

/// A message that was posted.
struct PostedRequest {
    id: String,
    message: OutboundMessage,
}

impl InboundCore {
    /// Shows a request until it is decided. Does not wait.
    pub(super) fn show_approval(
        self: &Arc<Self>,
        chat: &Chat,
        approval: &NewApproval,
        question: Option<ServerQuestion>,
    ) {
        match question {
            Some(ServerQuestion::Form(form)) => self.show_form(chat, approval, form),
            Some(ServerQuestion::Link(link)) => {
                self.show_request(chat, &approval.id, link_request(approval, &link));
            }
            None => self.show_request(chat, &approval.id, approval_request(approval)),
        }
    }

    fn show_request(self: &Arc<Self>, chat: &Chat, id: &str, shown: RequestMessage) {
        let end = self.cards.open(chat, id);
        let (core, chat, id) = (self.clone(), chat.clone(), id.to_owned());
        self.tasks.spawn(async move {
            let kind = shown.kind;
            let posted = core.post_request(&chat, shown).await;
            core.follow_request(&chat, &id, kind, posted, end).await;
        });
    }

    fn show_form(self: &Arc<Self>, chat: &Chat, approval: &NewApproval, form: FormRequest) {
        let place = if chat.address.is_direct() {
            FormAudience::Direct
        } else {
            FormAudience::Group
        };
        let secret =
            form.form.fields.iter().find(|field| {
                field.is_sensitive && field.is_required && place == FormAudience::Group
            });
        if let Some(secret) = secret {
            self.decline_secret(chat, &approval.id, &form, secret);
            return;
        }
        let (dialogue, first) = FormDialogue::new(&approval.id, form, place);
        let (prompts, end) = self.cards.open_form(chat, dialogue);
        let (core, chat, id) = (self.clone(), chat.clone(), approval.id.clone());
        self.tasks.spawn(async move {
            core.follow_form(&chat, &id, first, prompts, end).await;
        });
    }

    /// Asks one question after the other, until the form is over.
    async fn follow_form(
        &self,
        chat: &Chat,
        id: &str,
        first: OutboundMessage,
        mut prompts: mpsc::UnboundedReceiver<PromptChange>,
        end: oneshot::Receiver<CardEnd>,
    ) {
        let mut posted = self.post_request(chat, form_request(first)).await;
        // The sender goes with the card, when the form is over.
        while let Some(change) = tokio::select! {
            change = prompts.recv() => change,
            () = self.stop_sending.cancelled() => return,
        } {
            if let Some(posted) = posted {
                let answered = answered_message(&posted.message, change.answered.as_deref());
                self.replace(chat, &posted, answered).await;
            }
            posted = self.post_request(chat, form_request(change.prompt)).await;
        }
        self.follow_request(chat, id, RequestKind::Form, posted, end)
            .await;
    }

    /// Waits for the end of a request, and tells it in its message.
    async fn follow_request(
        &self,
        chat: &Chat,
        id: &str,
        kind: RequestKind,
        posted: Option<PostedRequest>,
        end: oneshot::Receiver<CardEnd>,
    ) {
        let Some(posted) = posted else {
            return;
        };
        let end = tokio::select! {
            end = end => end.unwrap_or(CardEnd {
                outcome: ApprovalOutcome::Cancelled,
                form: FormCardEnd::default(),
            }),
            () = self.stop_sending.cancelled() => return,
        };
        let row = self.gateway.store().approval(id).await.ok().flatten();
        let closed = closed_message(kind, &posted.message, &end, row.as_ref(), &Zoned::now());
        self.replace(chat, &posted, closed).await;
    }

    /// Posts a request, in several messages if it is long. The last one has the buttons, and is returned. Where the
    /// platform does not take them, words decide.
    async fn post_request(&self, chat: &Chat, shown: RequestMessage) -> Option<PostedRequest> {
        let mut without_links = shown.message.clone();
        for row in &mut without_links.buttons {
            row.retain(|button| !button.is_link);
        }
        without_links.buttons.retain(|row| !row.is_empty());
        let mut refused = None;
        for message in [shown.message, without_links, shown.plain] {
            match self.post_parts(chat, message).await {
                Ok(posted) => return Some(posted),
                Err(PostError::Refused { reason }) => refused = Some(reason),
                Err(error) => {
                    refused = Some(error.to_string());
                    break;
                }
            }
        }
        let reason = refused.unwrap_or_default();
        // It can be decided elsewhere, or times out.
        tracing::warn!(session_key = %chat.key, reason, "failed to show an approval");
        None
    }

    async fn post_parts(
        &self,
        chat: &Chat,
        message: OutboundMessage,
    ) -> Result<PostedRequest, PostError> {
        let account = &chat.account.account;
        let limits = chat.account.client.limits();
        let limit = LengthLimit {
            max: limits.message.saturating_sub(DECISION_RESERVE),
            measure: limits.measure,
        };
        let mut parts = split_text(&message.text, &limit);
        let last = OutboundMessage {
            text: parts.pop().unwrap_or_default(),
            ..message.clone()
        };
        for text in parts {
            let part = OutboundMessage {
                text,
                buttons: Vec::new(),
                ..message.clone()
            };
            self.outbox.post_now(account, &chat.address, part).await?;
        }
        let posted = self
            .outbox
            .post_now(account, &chat.address, last.clone())
            .await?;
        Ok(PostedRequest {
            id: posted.message_id,
            message: last,
        })
    }

    async fn replace(&self, chat: &Chat, posted: &PostedRequest, message: OutboundMessage) {
        let account = &chat.account.account;
        let edited = self
            .outbox
            .edit_now(account, &chat.address, &posted.id, message)
            .await;
        if let Err(error) = edited {
            tracing::info!(session_key = %chat.key, %error, "failed to edit the message of an approval");
        }
    }

    /// Declines a form that needs a secret where others would read it, and says so.
    fn decline_secret(
        self: &Arc<Self>,
        chat: &Chat,
        id: &str,
        form: &FormRequest,
        secret: &FormField,
    ) {
        let text = format!(
            "The MCP server \"{}\" asks for \"{}\". That looks like a secret, and others read along here, so I declined.",
            form.server, secret.title
        );
        let message = OutboundMessage {
            format: crate::platform::TextFormat::Plain,
            ..OutboundMessage::text(text)
        };
        let decision = SubmittedDecision {
            reason: Some("it asks for a secret in a group".to_owned()),
            ..SubmittedDecision::new(ApprovalAnswer::Deny, ANSWERED_BY)
        };
        self.gateway.runs().decide_approval(id, decision);
        let (core, chat) = (self.clone(), chat.clone());
        self.tasks.spawn(async move {
            let account = &chat.account.account;
            let posted = core.outbox.post_now(account, &chat.address, message).await;
            if let Err(error) = posted {
                tracing::warn!(session_key = %chat.key, %error, "failed to send the notice of a declined form");
            }
        });
    }

    pub(super) fn close_approval(&self, id: &str, outcome: ApprovalOutcome) {
        self.cards.close(id, outcome);
    }

    /// Says in the message of a button that it is out of date.
    pub(super) async fn mark_expired(&self, account: &LiveAccount, event: &InboundEvent) {
        let InboundKind::ButtonPress(ButtonPress {
            message_id: Some(message_id),
            ..
        }) = &event.kind
        else {
            return;
        };
        let message = OutboundMessage::text("This request has expired.");
        let edited = self
            .outbox
            .edit_now(&account.account, &event.chat, message_id, message)
            .await;
        if let Err(error) = edited {
            tracing::info!(platform = %account.account, %error, "failed to edit the message of an expired approval");
        }
    }
}
