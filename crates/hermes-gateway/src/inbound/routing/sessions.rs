//! The session that a turn of a chat belongs to, begun anew where the policy says so.

use hermes_config::ResetPolicy;
use hermes_store::{EndReason, SessionId, StoreError};
use jiff::{Timestamp, Zoned};

use super::chat::Chat;
use crate::{
    inbound::{InboundCore, routing::RoutedSession},
    session_reset::{
        ResetReason, SessionActivity, describe_reset, find_due_reset, is_user_told, note_for_model,
    },
};

/// The session of a turn.
pub(in crate::inbound) struct OpenedSession {
    pub(in crate::inbound) id: SessionId,
    /// What the model is told about it.
    pub(in crate::inbound) notice: Option<String>,
}

impl InboundCore {
    /// The session of a chat, a new one if the policy ends the last.
    pub(in crate::inbound) async fn open_session(
        &self,
        chat: &Chat,
    ) -> Result<OpenedSession, StoreError> {
        let session = self.routing.session(&chat.key, &chat.origin).await?;
        let settings = self.gateway.agent().settings();
        let policy = settings
            .gateway
            .session_reset
            .policy(chat.label(), chat.address.kind.as_str());
        let Some(reason) = self.find_reset(&session, policy) else {
            return Ok(OpenedSession {
                id: session.id,
                notice: None,
            });
        };
        let ended = match reason {
            ResetReason::Idle => EndReason::Idle,
            ResetReason::Daily => EndReason::Daily,
        };
        let id = self.start_session(chat, ended).await?;
        self.routing.update(&chat.key, |entry| {
            entry.details.was_auto_reset = true;
            entry.details.auto_reset_reason = Some(reason.as_str().to_owned());
            entry.details.reset_had_activity = true;
        });
        if is_user_told(policy, chat.label()) {
            let text = describe_reset(reason, policy);
            let key = format!("reset:{id}");
            self.queue_text(chat, &text, None, &key).await;
        }
        Ok(OpenedSession {
            id,
            notice: Some(note_for_model(reason).to_owned()),
        })
    }

    /// Why the conversation begins anew with this message, if it does.
    fn find_reset(&self, session: &RoutedSession, policy: &ResetPolicy) -> Option<ResetReason> {
        let last_used = session.last_used?;
        #[expect(clippy::cast_possible_truncation, reason = "whole seconds are enough")]
        let activity = SessionActivity {
            updated_at: Timestamp::from_second(last_used as i64).ok()?,
            has_background_process: self.gateway.runs().has_processes(&session.id),
        };
        find_due_reset(policy, activity, &Zoned::now())
    }

    /// Gives a chat a new session. Returns its id.
    pub(in crate::inbound) async fn start_session(
        &self,
        chat: &Chat,
        reason: EndReason,
    ) -> Result<SessionId, StoreError> {
        let next = SessionId::for_gateway(&Zoned::now());
        let before = self
            .routing
            .replace_session(&chat.key, &chat.origin, next.clone(), reason)
            .await?;
        if let Some(before) = before {
            self.gateway.runs().release_session(&before).await;
        }
        Ok(next)
    }
}
