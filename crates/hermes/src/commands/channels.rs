//! `hermes channels …`: the chats messages can be sent to.

use hermes_gateway::{
    conversations::ConversationIndex,
    send::{MessageSender, SendTarget},
};
use serde_json::json;

use crate::{
    cli::{ChannelsCommand, ChannelsListArgs},
    context::Context,
    failure::Failure,
    output::{Table, Tone},
};

pub(super) fn run(context: &Context, command: &ChannelsCommand) -> Result<(), Failure> {
    let ChannelsCommand::List(ChannelsListArgs { platform }) = command;
    context.block_on(list(context, platform.as_deref()))
}

/// Lists what is known, of one platform or of all.
pub(super) async fn list(context: &Context, platform: Option<&str>) -> Result<(), Failure> {
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
        output.table(&table(&targets));
    }
    output.json(json!({"count": targets.len(), "channels": targets}));
    Ok(())
}

fn table(targets: &[SendTarget]) -> Table {
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
