//! `/mcp_<server>_<prompt>`: what a server's prompt says, as the user's turn. What is missing is asked for.

use hermes_agent::message::Content;

use super::{ChatContext, CommandOutcome, NextStep};
use crate::{
    commands::chat::{
        commands::slash::SlashCommand, mentions, prompt::TypedPrompt, rendering::truncate,
    },
    failure::Failure,
};

pub(super) async fn run(
    room: &mut ChatContext<'_>,
    slash: SlashCommand<'_>,
) -> Result<CommandOutcome, Failure> {
    let mut prompt = TypedPrompt::find(room.conversation, slash).await?;
    if room.prompts.has_person() {
        for missing in prompt.arguments.missing.clone() {
            let name = truncate::first_line(&missing.name, 60);
            let about = missing.description.as_deref().unwrap_or_default();
            let question = match truncate::first_line(about, 80).as_str() {
                "" => name,
                about => format!("{name} ({about})"),
            };
            let value = room.prompts.prompt(move |asking| {
                loop {
                    // It is required: an empty line is not an answer.
                    let value = asking.read_line(&question)?;
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
    let options = mentions::call_options(room.conversation, &room.cancel);
    let content = prompt.message(room.conversation, &options).await?;
    Ok(CommandOutcome {
        text: describe_message(room, &content),
        next: NextStep::SendMessage(content),
    })
}

/// What the person is told of what is said in their name.
fn describe_message(room: &ChatContext<'_>, content: &Content) -> String {
    if room.prompts.has_person() {
        format!("> {}", truncate::first_line(&content.text(), 100))
    } else {
        String::new()
    }
}
