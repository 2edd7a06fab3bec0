//! `/mcp_<server>_<prompt>`: what a server's prompt says, as the user's turn. What is missing is asked for.

use hermes_agent::message::Content;

use super::{Done, Next, Room};
use crate::{
    chat::strip,
    commands::chat::{mentions, prompt::Prompt, slash::Slash},
    failure::Failure,
};

pub(super) async fn run(room: &mut Room<'_>, slash: Slash<'_>) -> Result<Done, Failure> {
    let mut prompt = Prompt::find(room.conversation, slash).await?;
    if room.floor.has_person() {
        for missing in prompt.arguments.missing.clone() {
            let name = strip::one_line(&missing.name, 60);
            let about = missing.description.as_deref().unwrap_or_default();
            let question = match strip::one_line(about, 80).as_str() {
                "" => name,
                about => format!("{name} ({about})"),
            };
            let value = room.floor.ask(move |asking| {
                loop {
                    // It is required: an empty line is not an answer.
                    let value = asking.line(&question)?;
                    if !value.is_empty() {
                        return Ok(value);
                    }
                }
            });
            let value = value.await;
            let value = value.ok_or_else(Failure::interrupted)?;
            prompt.arguments.add(&missing.name, value);
        }
    }
    let options = mentions::options(room.conversation, &room.cancel);
    let content = prompt.message(room.conversation, &options).await?;
    Ok(Done {
        text: shown(room, &content),
        next: Next::Say(content),
    })
}

/// What the person is told of what is said in their name.
fn shown(room: &Room<'_>, content: &Content) -> String {
    if room.floor.has_person() {
        format!("> {}", strip::one_line(&content.text(), 100))
    } else {
        String::new()
    }
}
