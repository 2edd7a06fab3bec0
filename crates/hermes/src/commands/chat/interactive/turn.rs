//! One turn: what goes with the person's words, and the answer.

use std::time::Duration;

use hermes_agent::{
    conversation::{Conversation, ConversationError, TurnOutcome},
    mention::Mentions,
    message::Content,
    turn::TurnEvent,
};
use hermes_mcp::Host;
use tokio_util::sync::CancellationToken;

use crate::{
    commands::chat::{commands::PendingMessage, mentions, screen::Screen},
    server_requests::ServerRequests,
};

/// What a turn begins with.
pub(super) enum TurnInput<'a> {
    /// What was typed.
    Line(&'a str),
    /// What a command says in the person's name.
    Content(Content),
    /// What was said last.
    Again,
}

pub(super) struct ChatTurn<'a> {
    pub(super) conversation: &'a mut Conversation,
    pub(super) pending: &'a mut PendingMessage,
    pub(super) mentions: Option<&'a mut Mentions>,
    pub(super) server_requests: &'a ServerRequests,
    pub(super) screen: &'a Screen,
    /// How long servers are waited for that are being connected.
    pub(super) server_timeout: Duration,
    pub(super) cancel: &'a CancellationToken,
}

impl ChatTurn<'_> {
    pub(super) async fn run(
        mut self,
        said: TurnInput<'_>,
    ) -> Result<TurnOutcome, ConversationError> {
        // Without a model, what lies ready has to stay there.
        let selection = self.conversation.find_model().await?;
        self.server_requests.set_model(&selection);
        let agent = self.conversation.agent().clone();
        let awaited = agent
            .host()
            .map(Host::servers_without_tools)
            .unwrap_or_default();
        if !awaited.is_empty() && !self.server_timeout.is_zero() {
            self.screen.wait_for_servers(&awaited);
        }
        tokio::select! {
            missing = agent.wait_for_servers(self.server_timeout) => {
                self.conversation.set_missing_servers(&missing);
            }
            () = self.cancel.cancelled() => {}
        }
        let content = match said {
            TurnInput::Again => None,
            TurnInput::Content(content) => Some(content),
            TurnInput::Line(line) => Some(self.attach(line).await),
        };
        let screen = self.screen;
        screen.begin_turn();
        let mut display = |event: TurnEvent| screen.show(&event);
        let cancel = self.cancel.clone();
        match content {
            Some(content) => {
                self.conversation
                    .send_user_message(content, &mut display, cancel)
                    .await
            }
            None => self.conversation.retry(&mut display, cancel).await,
        }
    }

    /// The words with all that lies ready, the resources they mention, and news of those mentioned before.
    async fn attach(&mut self, line: &str) -> Content {
        let content = self.pending.take_message(line);
        let Some(mentions) = self.mentions.as_deref_mut() else {
            return content;
        };
        let awaited = mentions.servers_to_connect(&content.text());
        if !awaited.is_empty() {
            self.screen.wait_for_servers(&awaited);
        }
        let options = mentions::call_options(self.conversation, self.cancel);
        let (content, warnings) = mentions.expand_message(content, &options).await;
        for warning in warnings {
            self.screen.note(&warning);
        }
        content
    }
}
