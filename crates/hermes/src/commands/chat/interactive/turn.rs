//! One turn: what goes with the person's words, and the answer.

use std::time::Duration;

use hermes_agent::{
    conversation::{Answer, Conversation, ConversationError},
    mention::Mentions,
    message::Content,
    turn::TurnEvent,
};
use hermes_mcp::{CallOptions, inquiry};
use tokio_util::sync::CancellationToken;

use crate::{chat::screen::Screen, commands::chat::command::Desk};

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
    pub(super) screen: &'a Screen,
    /// How long servers are waited for that are being connected.
    pub(super) patience: Duration,
    pub(super) cancel: &'a CancellationToken,
}

impl Turn<'_> {
    pub(super) async fn run(mut self, said: Said<'_>) -> Result<Answer, ConversationError> {
        // Without a model, what lies ready has to stay there.
        self.conversation.find_model().await?;
        let agent = self.conversation.agent().clone();
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
        let mut display = |event: TurnEvent| screen.show(&event);
        let cancel = self.cancel.clone();
        match content {
            Some(content) => self.conversation.say(content, &mut display, cancel).await,
            None => self.conversation.retry(&mut display, cancel).await,
        }
    }

    /// The words with all that lies ready, the resources they mention, and news of those mentioned before.
    async fn attach(&mut self, line: &str) -> Content {
        let id = self.conversation.id().as_str();
        let options = CallOptions {
            conversation: Some(inquiry::Conversation(id.into())),
            cancel: self.cancel.clone(),
            ..CallOptions::default()
        };
        let Some(mentions) = self.mentions.as_deref_mut() else {
            return self.desk.message(line);
        };
        let news = mentions.changed_since_last_turn(&options).await;
        self.desk.notes.extend(news);
        let attached = mentions.attach(line, &options).await;
        for warning in &attached.warnings {
            self.screen.note(warning);
        }
        attached.join(self.desk.message(line))
    }
}
