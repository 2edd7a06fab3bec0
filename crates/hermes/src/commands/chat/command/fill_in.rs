//! `/mcp_SERVER_PROMPT`: a prompt of a server, whose missing arguments are asked for.

use hermes_agent::elicitation::plain;
use hermes_mcp::protocol::PromptArgument;

use super::{Done, Next, Room};
use crate::{
    chat::floor::Asking,
    commands::chat::{mentions, prompt::Prompt, slash::Slash, start},
    failure::Failure,
};

pub(super) async fn run(room: &mut Room<'_>, slash: Slash<'_>) -> Result<Done, Failure> {
    let mut prompt = Prompt::find(room.conversation, slash).await?;
    if room.floor.has_person() {
        for argument in prompt.arguments.missing.clone() {
            let name = argument.name.clone();
            let given = room.floor.ask(move |asking| ask(asking, &argument)).await;
            let given = given.ok_or_else(Failure::interrupted)?;
            prompt.arguments.add(&name, given);
        }
    }
    let found = room.conversation.find_model().await;
    found.map_err(|error| start::failure(&error))?;
    let options = mentions::options(room.conversation, &room.cancel);
    let content = prompt.message(room.conversation, &options).await?;
    Ok(Done::next(Next::Say(content)))
}

fn ask(asking: &Asking<'_>, argument: &PromptArgument) -> Result<String, Failure> {
    if let Some(description) = &argument.description {
        asking.say(&plain(description));
    }
    loop {
        let answer = asking.line(&plain(&argument.name))?;
        if !answer.trim().is_empty() {
            return Ok(answer);
        }
    }
}
