//! `hermes send`: one message to a chat of a platform; and `hermes channels …`: the chats that messages can be sent to.

use std::{
    fs,
    io::{IsTerminal as _, Read as _, stdin},
    path::Path,
};

use hermes_gateway::{
    conversations::ConversationIndex,
    send::{MediaPolicy, MessageSender, SendTarget, SentMessage},
};
use serde_json::json;

use crate::{
    cli::{ChannelsCommand, ChannelsListArgs, SendArgs},
    context::Context,
    failure::Failure,
    output::{Table, Tone},
};

pub(super) fn run(context: &Context, args: &SendArgs) -> Result<(), Failure> {
    if let Some(platform) = &args.list {
        return context.block_on(list_channels(context, platform.as_deref()));
    }
    let target = args.to.as_deref().unwrap_or_default();
    let message = read_message(args)?;
    let sender = MessageSender::new(&context.home, &context.written_settings()?);
    let sent = context.block_on(async {
        let sent = sender.send(target, &message, MediaPolicy::Upload).await;
        sent.map_err(Failure::from)
    })?;
    let output = context.output;
    for warning in &sent.warnings {
        output.warning(warning);
    }
    if !args.quiet {
        output.line(receipt(&sent));
        output.json(json!(sent));
    }
    Ok(())
}

/// What to send, from wherever it comes.
fn read_message(args: &SendArgs) -> Result<String, Failure> {
    let text = match (&args.message, &args.file) {
        (Some(message), _) => message.clone(),
        (None, Some(path)) if path != Path::new("-") => {
            fs::read_to_string(path).map_err(|error| {
                Failure::usage(format!("`{}` cannot be read: {error}", path.display()))
            })?
        }
        (None, None) if stdin().is_terminal() => {
            return Err(Failure::usage("there is no message")
                .hint("give it as an argument, in a file with `-f`, or on stdin"));
        }
        _ => read_stdin()?,
    };
    let text = text.trim_end();
    if text.is_empty() {
        return Err(Failure::usage("the message is empty"));
    }
    Ok(match &args.subject {
        Some(subject) => format!("{subject}\n\n{}", text.trim_start()),
        None => text.to_owned(),
    })
}

fn read_stdin() -> Result<String, Failure> {
    let mut text = String::new();
    stdin()
        .read_to_string(&mut text)
        .map_err(|error| Failure::usage(format!("stdin cannot be read: {error}")))?;
    Ok(text)
}

fn receipt(sent: &SentMessage) -> String {
    if let Some(note) = &sent.note {
        return format!("{note}.");
    }
    let thread = sent.thread_id.as_ref().map(|thread| format!(":{thread}"));
    format!(
        "Sent to {}:{}{} (message {}).",
        sent.platform,
        sent.chat_id,
        thread.unwrap_or_default(),
        sent.message_id
    )
}

pub(super) fn run_channels(context: &Context, command: &ChannelsCommand) -> Result<(), Failure> {
    let ChannelsCommand::List(ChannelsListArgs { platform }) = command;
    context.block_on(list_channels(context, platform.as_deref()))
}

/// Lists what is known, of one platform or of all.
async fn list_channels(context: &Context, platform: Option<&str>) -> Result<(), Failure> {
    let sender = MessageSender::new(&context.home, &context.written_settings()?);
    let conversations = ConversationIndex::open(&context.home);
    let targets = sender.list_targets(&conversations, platform).await;
    conversations.close().await;
    let targets = targets?;
    let output = context.output;
    if targets.is_empty() {
        output.note(
            "No chat is known yet. You can send to a chat by its id, such as `telegram:123456`.",
        );
    } else {
        output.table(&target_table(&targets));
    }
    output.json(json!({"count": targets.len(), "channels": targets}));
    Ok(())
}

fn target_table(targets: &[SendTarget]) -> Table {
    let mut table = Table::new(&["TARGET", "TYPE", "NAME"]);
    for target in targets {
        table.row([
            (target.target.clone(), Tone::Strong),
            (target.chat_type.clone(), Tone::Plain),
            (target.name.clone(), Tone::Plain),
        ]);
    }
    table
}
