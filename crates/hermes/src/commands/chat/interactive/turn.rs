//! One turn: what goes with the person's words, and the answer.

use std::time::Duration;

use hermes_agent::{
    conversation::{Answer, Conversation, ConversationError},
    mention::Mentions,
    message::Content,
    turn::TurnEvent,
};
use hermes_mcp::Host;
use tokio_util::sync::CancellationToken;

use crate::{
    answers::Answers,
    chat::screen::Screen,
    commands::chat::{command::Desk, mentions},
};

/// What a turn begins with.
pub(super) enum Said<'a> {
    /// What was typed.
    Line(&'a str),
    /// What a command says in the person's name.
    Content(Content),
    /// What was said last.
    Again,
}

pub(super) struct Turn<'a> {
    pub(super) conversation: &'a mut Conversation,
    pub(super) desk: &'a mut Desk,
    pub(super) mentions: Option<&'a mut Mentions>,
    pub(super) answers: &'a Answers,
    pub(super) screen: &'a Screen,
    /// How long servers are waited for that are being connected.
    pub(super) patience: Duration,
    pub(super) cancel: &'a CancellationToken,
}

impl Turn<'_> {
    pub(super) async fn run(mut self, said: Said<'_>) -> Result<Answer, ConversationError> {
        // Without a model, what lies ready has to stay there.
        let selection = self.conversation.find_model().await?;
        self.answers.use_model(&selection);
        let agent = self.conversation.agent().clone();
        let awaited = agent.host().map(Host::awaited).unwrap_or_default();
        if !awaited.is_empty() && !self.patience.is_zero() {
            self.screen.wait_for_servers(&awaited);
        }
        tokio::select! {
            missing = agent.wait_for_servers(self.patience) => {
                self.conversation.tell_missing(&missing);
            }
            () = self.cancel.cancelled() => {}
        }
        let content = match said {
            Said::Again => None,
            Said::Content(content) => Some(content),
            Said::Line(line) => Some(self.attach(line).await),
        };
        let screen = self.screen;
        screen.begin_turn();
        let mut display = |event: TurnEvent| screen.show(&event);
        let cancel = self.cancel.clone();
        match content {
            Some(content) => self.conversation.say(content, &mut display, cancel).await,
            None => self.conversation.retry(&mut display, cancel).await,
        }
    }

    /// The words with all that lies ready, the resources they mention, and news of those mentioned before.
    async fn attach(&mut self, line: &str) -> Content {
        let content = self.desk.message(line);
        let Some(mentions) = self.mentions.as_deref_mut() else {
            return content;
        };
        let awaited = mentions.awaited(&content.text());
        if !awaited.is_empty() {
            self.screen.wait_for_servers(&awaited);
        }
        let options = mentions::options(self.conversation, self.cancel);
        let (content, warnings) = mentions.complete(content, &options).await;
        for warning in warnings {
            self.screen.note(&warning);
        }
        content
    }
}
