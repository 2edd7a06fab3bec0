//! Slash commands of chats: which events are one, who may use it, and what is said.

use std::sync::Arc;

use futures::future::BoxFuture;
use hermes_config::Platform;
use hermes_store::epoch_seconds;

use super::{
    InboundCore,
    command_context::CommandRun,
    session_worker::{WorkerInput, WorkerState},
};
use crate::{
    chat_commands::{
        ChatCommandContext as _, CommandName, CommandReply, CommandRequest, TypedCommand,
        approval_word, execute, execute_approval_word, execute_unknown, is_stale, parse_command,
    },
    platform::{InboundEvent, InboundKind, OutboundMessage},
};

/// Whether an event is a command of this bot.
pub(super) fn is_command(event: &InboundEvent, platform: Platform) -> bool {
    match &event.kind {
        InboundKind::Message(message) => matches!(
            parse_command(&message.text, platform, None),
            Some(TypedCommand::Known(_))
        ),
        InboundKind::Command(_) => true,
        _ => false,
    }
}

/// What an event asks for.
enum AskedCommand {
    Known(CommandRequest),
    Unknown { name: String, arguments: String },
    Ignored,
}

fn asked_command(event: &InboundEvent, platform: Platform) -> Option<AskedCommand> {
    let typed = match &event.kind {
        // Something with a file is meant for the model.
        InboundKind::Message(message) if message.attachments.is_empty() => {
            parse_command(&message.text, platform, None)?
        }
        InboundKind::Command(call) => TypedCommand::from_call(call),
        _ => return None,
    };
    Some(match typed {
        TypedCommand::Known(request) => AskedCommand::Known(request),
        TypedCommand::Unknown { name, arguments } => AskedCommand::Unknown { name, arguments },
        TypedCommand::ForAnotherBot => AskedCommand::Ignored,
    })
}

impl InboundCore {
    /// Executes the command that an event is; gives back one that is none.
    pub(super) fn begin_command(
        self: &Arc<Self>,
        input: WorkerInput,
        state: &Arc<WorkerState>,
    ) -> Result<BoxFuture<'static, ()>, Box<WorkerInput>> {
        let platform = input.chat.account.account.platform;
        let Some(asked) = asked_command(&input.event, platform) else {
            return Err(Box::new(input));
        };
        let run = CommandRun::new(self.clone(), input, state.clone());
        Ok(Box::pin(run_command(run, asked)))
    }

    /// Executes the command of a button.
    pub(super) fn begin_button_command(
        self: &Arc<Self>,
        input: WorkerInput,
        request: CommandRequest,
        state: &Arc<WorkerState>,
    ) -> BoxFuture<'static, ()> {
        let run = CommandRun::new(self.clone(), input, state.clone());
        Box::pin(run_command(run, AskedCommand::Known(request)))
    }

    /// Decides the oldest request of a conversation, if the whole message is a word that does. Returns whether it was.
    pub(super) async fn decide_by_word(
        self: &Arc<Self>,
        input: &WorkerInput,
        state: &Arc<WorkerState>,
    ) -> bool {
        let Some(word) = input
            .message()
            .and_then(|message| approval_word(&message.text))
        else {
            return false;
        };
        if self.cards.of_session(&input.chat.key).is_empty() {
            return false;
        }
        let run = CommandRun::new(self.clone(), input.clone(), state.clone());
        if !run.may_use(word.command().word()) || run.is_stale(word.command()) {
            return true;
        }
        // The message of the request says what was decided.
        execute_approval_word(word, &run).await.is_some()
    }
}

async fn run_command(run: CommandRun, asked: AskedCommand) {
    let key = run.input.key.clone();
    run.acknowledge().await;
    let is_begun = run
        .core
        .gateway
        .store()
        .start_update(&key, Some(&run.input.chat.key))
        .await;
    // It may have acted before the last process ended, and must not do so twice.
    let is_repeated = run.input.attempts > 0;
    if !matches!(is_begun, Ok(true)) || is_repeated {
        if !run.resume_turn().await {
            run.core.finish(&key).await;
        }
        return;
    }
    let reply = match &asked {
        AskedCommand::Known(request) if run.is_stale(request.name) => CommandReply::default(),
        AskedCommand::Known(request) if !run.may_use(request.name.word()) => {
            CommandReply::text(format!("You may not use `/{}`.", request.name.word()))
        }
        AskedCommand::Known(request) => execute(request, &run).await,
        AskedCommand::Unknown { name, arguments } => execute_unknown(name, arguments, &run).await,
        AskedCommand::Ignored => CommandReply::default(),
    };
    run.say(reply).await;
    if !run.is_taken_over() {
        run.core.finish(&key).await;
    }
}

impl CommandRun {
    fn is_stale(&self, name: CommandName) -> bool {
        is_stale(name, self.input.event.sent_at, epoch_seconds())
    }

    /// Confirms a command of the platform's own.
    async fn acknowledge(&self) {
        if !matches!(self.input.event.kind, InboundKind::Command(_)) {
            return;
        }
        let account = &self.input.chat.account;
        let shown = account.client.acknowledge(&self.input.event, None).await;
        if let Err(error) = shown {
            tracing::warn!(platform = %account.account, %error, "failed to acknowledge a command");
        }
    }

    async fn say(&self, reply: CommandReply) {
        if reply.is_empty() {
            return;
        }
        let chat = &self.input.chat;
        if reply.buttons.is_empty() {
            let key = super::dedupe_key("command", &self.input.key);
            self.core
                .reply(chat, &self.input.event, &reply.text, &key)
                .await;
            return;
        }
        let message = OutboundMessage {
            buttons: reply.buttons,
            ..OutboundMessage::text(reply.text)
        };
        let posted = self
            .core
            .outbox
            .post_now(&chat.account.account, &chat.address, message)
            .await;
        if let Err(error) = posted {
            tracing::warn!(session_key = %chat.key, %error, "failed to answer a command");
        }
    }
}
