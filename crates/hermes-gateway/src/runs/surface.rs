//! Where a turn takes place besides the local API: a chat on a platform, and who follows the turn there.

use std::{fmt, sync::Arc};

use futures::future::BoxFuture;
use hermes_agent::{conversation::SteeringMessage, turn::TurnEvent};
use hermes_protocol::RunFailure;
use hermes_store::{
    NewSession, SessionKey,
    runtime::{ApprovalOutcome, NewApproval},
};
use serde_json::Value;

use super::elicitation::ServerQuestion;

/// The chat that a turn answers.
#[derive(Clone)]
pub struct ChatSurface {
    /// The key under `platform_toolsets`.
    pub platform: String,
    /// What the model is told about where its answers are shown.
    pub platform_note: String,
    /// The session's row, should it be new.
    pub row: NewSession,
    pub session_key: SessionKey,
    /// The platform's id of the message that is answered.
    pub message_id: Option<String>,
    /// Told to the model before the message, and not shown to people.
    pub note: Option<String>,
    /// The provider of the model that was chosen for this chat.
    pub provider: Option<String>,
    /// The chat that cron jobs created here deliver to.
    pub cron_origin: Option<Value>,
    pub observer: Arc<dyn TurnObserver>,
}

impl fmt::Debug for ChatSurface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChatSurface")
            .field("platform", &self.platform)
            .field("session_key", &self.session_key)
            .finish_non_exhaustive()
    }
}

/// Follows a turn. Only [`TurnObserver::take_user_messages`] may take time: the turn does not wait for the others.
pub trait TurnObserver: Send + Sync {
    /// The turn has its session and begins.
    fn turn_started(&self, run: &str);

    fn show_event(&self, event: &TurnEvent);

    /// Takes what was said in the chat since the last request of the turn, for the next one. The turn waits for this.
    fn take_user_messages(&self) -> BoxFuture<'_, Vec<SteeringMessage>>;

    /// Somebody has to decide. `question` is what an MCP server asks, if it does.
    fn approval_opened(&self, approval: &NewApproval, question: Option<ServerQuestion>);

    fn approval_closed(&self, id: &str, outcome: ApprovalOutcome);

    /// The last call. The messages of the turn are stored.
    fn turn_ended(&self, result: TurnResult);
}

#[derive(Debug, Clone, PartialEq)]
pub enum TurnResult {
    Answered {
        text: String,
    },
    Failed(RunFailure),
    /// Somebody stopped it.
    Stopped,
    /// The gateway stops; the turn can go on afterwards.
    ShutDown,
}
