//! `/mcp_<server>_<prompt>`: what a server's prompt says, as the user's turn.

use std::time::Duration;

use hermes_agent::{message::Content, prompt_command::PromptCommand};
use hermes_mcp::{CallOptions, inquiry};

use super::{Done, Next, Room};
use crate::{chat::strip, failure::Failure};

/// How long a server that is being connected is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// Runs a prompt. `None` if there is none of that name.
pub(super) async fn run(
    room: &mut Room<'_>,
    name: &str,
    rest: &str,
) -> Result<Option<Done>, Failure> {
    let Some(host) = room.conversation.agent().host().cloned() else {
        return Ok(None);
    };
    let Some(command) = PromptCommand::find(&host, name, PATIENCE).await else {
        return Ok(None);
    };
    let usage = |reason: String| Failure::usage(reason).hint(format!("`{}`", command.usage()));
    let mut arguments = command
        .arguments(rest)
        .map_err(|error| usage(error.to_string()))?;
    for missing in arguments.missing.clone() {
        if !room.floor.has_person() {
            return Err(usage(format!("`{}` is missing", missing.name)));
        }
        let about = missing.description.as_deref().unwrap_or_default();
        let prompt = match strip::one_line(about, 80).as_str() {
            "" => strip::one_line(&missing.name, 60),
            about => format!("{} ({about})", strip::one_line(&missing.name, 60)),
        };
        let value = room.floor.ask(move |asking| asking.line(&prompt)).await;
        arguments.add(&missing.name, value.ok_or_else(Failure::interrupted)?);
    }
    let options = options(room);
    let content = command.turn(&host, &arguments, &options).await;
    let content = content.map_err(|error| Failure::failed(error.to_string()))?;
    Ok(Some(Done {
        text: shown(&content),
        next: Next::Say(content),
    }))
}

/// A call in the name of the conversation.
fn options(room: &Room<'_>) -> CallOptions {
    CallOptions {
        conversation: Some(inquiry::Conversation(
            room.conversation.id().as_str().into(),
        )),
        cancel: room.cancel.clone(),
        ..CallOptions::default()
    }
}

/// What the person is told of what is said in their name.
fn shown(content: &Content) -> String {
    format!("> {}", strip::one_line(&content.text(), 100))
}
