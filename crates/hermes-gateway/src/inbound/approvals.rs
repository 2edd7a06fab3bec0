//! Shows approvals in their chats, and keeps their messages up to date.

use std::sync::Arc;

use hermes_store::runtime::{ApprovalOutcome, NewApproval};
use jiff::Zoned;

use super::{
    InboundCore,
    approval_cards::{closed_message, request_message},
    chat::{Chat, LiveAccount},
};
use crate::platform::{ButtonPress, InboundEvent, InboundKind, OutboundMessage};

impl InboundCore {
    /// Shows a request until it is decided. Does not wait.
    pub(super) fn show_approval(
        self: &Arc<Self>,
        chat: &Chat,
        approval: &NewApproval,
        link: Option<&str>,
    ) {
        let end = self.cards.open(chat, &approval.id);
        let opened = request_message(approval, link);
        let (core, chat, id) = (self.clone(), chat.clone(), approval.id.clone());
        self.tasks.spawn(async move {
            let posted = core
                .outbox
                .post_now(&chat.account.account, &chat.address, opened.clone())
                .await;
            let posted = match posted {
                Ok(posted) => posted,
                Err(error) => {
                    // It can be decided elsewhere, or times out.
                    tracing::warn!(session_key = %chat.key, %error, "failed to show an approval");
                    return;
                }
            };
            let outcome = tokio::select! {
                outcome = end => outcome.unwrap_or(ApprovalOutcome::Cancelled),
                () = core.stop_sending.cancelled() => return,
            };
            let row = core.gateway.store().approval(&id).await.ok().flatten();
            let closed = closed_message(&opened, outcome, row.as_ref(), &Zoned::now());
            let edited = core
                .outbox
                .edit_now(
                    &chat.account.account,
                    &chat.address,
                    &posted.message_id,
                    closed,
                )
                .await;
            if let Err(error) = edited {
                tracing::info!(session_key = %chat.key, %error, "failed to edit the message of an approval");
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
