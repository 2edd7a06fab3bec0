//! One turn: what goes with the person's words, the answer, and who answers MCP servers meanwhile.

use std::{sync::Arc, time::Duration};

use hermes_agent::{
    conversation::{Conversation, ConversationError, TurnOutcome},
    mention::Mentions,
    message::Content,
    server_requests::elicitation::ElicitationRegistration,
    turn::TurnEvent,
};
use hermes_config::Settings;
use hermes_mcp::Host;
use hermes_store::SessionId;
use tokio_util::sync::CancellationToken;

use crate::{
    commands::chat::{
        attachments,
        commands::PendingMessage,
        prompts::{questions, queue::PromptQueue},
        screen::Screen,
    },
    context::Context,
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
        input: TurnInput<'_>,
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
        let content = match input {
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
        let options = attachments::call_options(self.conversation, self.cancel);
        let (content, warnings) = mentions.expand_message(content, &options).await;
        for warning in warnings {
            self.screen.note(&warning);
        }
        content
    }
}

/// The answers to servers, and the session they belong to.
pub(super) struct SessionPresence {
    pub(super) server_requests: ServerRequests,
    registered: Option<(SessionId, Option<ElicitationRegistration>)>,
}

impl SessionPresence {
    pub(super) fn new(context: &Context, settings: &Settings, queue: PromptQueue) -> Self {
        let person = Arc::new(questions::FormPrompt::new(queue));
        Self {
            server_requests: ServerRequests::with_person(context, settings, person),
            registered: None,
        }
    }

    /// Follows the conversation: to another session, another directory.
    pub(super) async fn follow(&mut self, conversation: &Conversation) {
        if let Some(host) = conversation.agent().host() {
            self.server_requests
                .set_directory(conversation.cwd(), host)
                .await;
        }
        let id = conversation.id();
        if self
            .registered
            .as_ref()
            .is_none_or(|(taken, _)| taken != id)
        {
            let presence = self.server_requests.register_presence(id.as_str());
            self.registered = Some((id.clone(), presence));
        }
    }
}
