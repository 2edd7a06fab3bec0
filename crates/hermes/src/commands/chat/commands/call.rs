//! `/call` with somebody who watches: the call is shown while it runs.

use std::sync::Arc;

use hermes_agent::{message::ToolCall, printable::printable};

use super::{ChatContext, CommandOutcome};
use crate::{commands::chat::call, failure::Failure};

/// The one call that the user makes at a time.
const CALL_ID: &str = "call";

pub(super) async fn run(room: &mut ChatContext<'_>, rest: &str) -> Result<CommandOutcome, Failure> {
    let (name, arguments) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    room.screen
        .begin_call(&ToolCall::new(CALL_ID, name, arguments));
    let screen = room.screen.clone();
    let progress = Arc::new(move |line: &str| screen.call_progress(CALL_ID, line));
    let called = call::run(room.conversation, rest, progress, room.cancel.clone()).await;
    room.screen.end_call(CALL_ID);
    let text = called?;
    Ok(CommandOutcome::text(printable(text.trim_end())))
}
