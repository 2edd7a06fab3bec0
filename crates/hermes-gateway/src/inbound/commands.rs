//! Slash commands of chats: which events are one, who may use it, and what is said.

pub(super) mod command_context;
pub(super) mod model_commands;
pub(super) mod session_commands;

use std::sync::Arc;

use futures::future::BoxFuture;

use self::command_context::CommandRun;
use super::{
    InboundCore, routing::chat::LiveAccount, session_worker::WorkerInput,
    session_worker::waiting_turns::WorkerState,
};
use crate::{
    chat_commands::{
        ChatCommandContext as _, CommandName, CommandReply, CommandRequest, TypedCommand, execute,
        execute_unknown, is_stale, parse_command,
    },
    platform::{InboundEvent, InboundKind, OutboundMessage},
};

/// Whether an event is a command of this bot.
pub(super) fn is_command(event: &InboundEvent, account: &LiveAccount) -> bool {
    match &event.kind {
        InboundKind::Message(message) => matches!(
            parse_typed(&message.text, account),
            Some(TypedCommand::Known(_))
        ),
        InboundKind::Command(_) => true,
        _ => false,
    }
}

/// The command that a text is. `/command@name` is one of the bot with that name.
fn parse_typed(text: &str, account: &LiveAccount) -> Option<TypedCommand> {
    let bot_name = account.client.bot_name();
    parse_command(text, account.account.platform, bot_name.as_deref())
}

/// What an event asks for.
enum RequestedCommand {
    Known(CommandRequest),
    Unknown { name: String, arguments: String },
    Ignored,
}

impl RequestedCommand {
    /// Whether it must not be executed again after it was begun.
    fn must_not_repeat(&self) -> bool {
        match self {
            // What these begin is nowhere until its turn begins, and a turn that was begun goes on.
            Self::Known(request) => {
                let is_turn = matches!(request.name, CommandName::Queue | CommandName::Background);
                !is_turn && request.name.acts()
            }
            Self::Unknown { .. } | Self::Ignored => false,
        }
    }
}

/// Said about a command that an earlier process began.
const INTERRUPTED: &str = "The gateway was restarted while it dealt with this command, so it may not have had its effect. \
     Send it again if you still need it.";

fn asked_command(event: &InboundEvent, account: &LiveAccount) -> Option<RequestedCommand> {
    let typed = match &event.kind {
        // Something with a file is meant for the model.
        InboundKind::Message(message) if message.attachments.is_empty() => {
            parse_typed(&message.text, account)?
        }
        InboundKind::Command(call) => TypedCommand::from_call(call),
        _ => return None,
    };
    Some(match typed {
        TypedCommand::Known(request) => RequestedCommand::Known(request),
        TypedCommand::Unknown { name, arguments } => RequestedCommand::Unknown { name, arguments },
        TypedCommand::ForAnotherBot => RequestedCommand::Ignored,
    })
}

impl InboundCore {
    /// Executes the command that an event is; gives back one that is none.
    pub(super) fn begin_command(
        self: &Arc<Self>,
        input: WorkerInput,
        state: &Arc<WorkerState>,
    ) -> Result<BoxFuture<'static, ()>, Box<WorkerInput>> {
        let Some(asked) = asked_command(&input.event, &input.chat.account) else {
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
        Box::pin(run_command(run, RequestedCommand::Known(request)))
    }
}

async fn run_command(run: CommandRun, asked: RequestedCommand) {
    let key = run.input.key.clone();
    let is_begun = run
        .core
        .gateway
        .store()
        .start_update(&key, Some(&run.input.chat.key))
        .await;
    let is_open = matches!(is_begun, Ok(true));
    // It may have acted before the last process ended, and must not do so twice.
    let is_repeated = run.input.attempts > 0;
    if (!is_open || is_repeated) && run.resume_turn().await {
        return;
    }
    if !is_open || is_repeated && asked.must_not_repeat() {
        if is_open {
            // Where it was answered, this is not said: the key is the same.
            run.say(CommandReply::text(INTERRUPTED)).await;
        }
        run.core.finish(&key).await;
        return;
    }
    let reply = match &asked {
        // One that is repeated came in time.
        RequestedCommand::Known(request) if !is_repeated && run.is_stale(request.name) => {
            run.expire_button(request.name).await;
            CommandReply::default()
        }
        RequestedCommand::Known(request) if !run.may_use(request.name.word()) => {
            CommandReply::text(format!("You may not use `/{}`.", request.name.word()))
        }
        RequestedCommand::Known(request) => execute(request, &run).await,
        RequestedCommand::Unknown { name, arguments } => {
            execute_unknown(name, arguments, &run).await
        }
        RequestedCommand::Ignored => CommandReply::default(),
    };
    run.say(reply).await;
    if !run.is_taken_over() {
        run.core.finish(&key).await;
    }
}

impl CommandRun {
    /// Says in the message of a pressed button that it is out of date. That of Stop is the answer itself.
    async fn expire_button(&self, name: CommandName) {
        let input = &self.input;
        if matches!(input.event.kind, InboundKind::ButtonPress(_)) && name != CommandName::Stop {
            self.core
                .mark_expired(&input.chat.account, &input.event)
                .await;
        }
    }

    fn is_stale(&self, name: CommandName) -> bool {
        is_stale(
            name,
            self.input.event.sent_at,
            self.input.chat.platform_time(),
        )
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
        self.core.note_spoken(chat);
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
