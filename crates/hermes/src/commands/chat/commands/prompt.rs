//! `/mcp_<server>_<prompt>`: what a server's prompt says, as the user's turn; what is missing is asked for. `/<skill>`: a
//! message that asks to work by a skill.

use std::fmt::Write as _;

use hermes_agent::message::Content;
use hermes_store::skills::SkillView;

use super::{ChatContext, CommandOutcome, NextStep, PendingMessage};
use crate::{
    commands::chat::{attachments, commands::SlashCommand, prompt::TypedPrompt, rendering::wrap},
    failure::Failure,
};

pub(super) async fn run(
    chat: &mut ChatContext<'_>,
    slash: SlashCommand<'_>,
) -> Result<CommandOutcome, Failure> {
    let mut prompt = TypedPrompt::find(chat.conversation, slash).await?;
    if chat.prompts.has_person() {
        for missing in prompt.arguments.missing.clone() {
            let name = wrap::first_line(&missing.name, 60);
            let about = missing.description.as_deref().unwrap_or_default();
            let question = match wrap::first_line(about, 80).as_str() {
                "" => name,
                about => format!("{name} ({about})"),
            };
            let value = chat.prompts.prompt(move |asking| {
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
    let options = attachments::call_options(chat.conversation, &chat.cancel);
    let content = prompt.message(chat.conversation, &options).await?;
    Ok(CommandOutcome {
        text: describe_message(chat, &content),
        next: NextStep::SendMessage(content),
    })
}

/// What the person is told of what is said in their name.
fn describe_message(chat: &ChatContext<'_>, content: &Content) -> String {
    if chat.prompts.has_person() {
        format!("> {}", wrap::first_line(&content.text(), 100))
    } else {
        String::new()
    }
}

/// The skill's instructions and what the user says to them.
pub(super) fn skill_message(
    pending: &mut PendingMessage,
    view: &SkillView,
    request: &str,
) -> Content {
    let name = &view.skill.name;
    let mut text = format!(
        "[Use the skill `{name}`. Its instructions:]\n\n{}",
        view.body.trim()
    );
    if !view.files.is_empty() {
        let files = view.files.join(", ");
        let _ = write!(
            text,
            "\n\n[Files of the skill, to be read with `skill_view`: {files}]"
        );
    }
    if !request.is_empty() {
        let _ = write!(text, "\n\n{request}");
    }
    pending.take_message(&text)
}

#[cfg(test)]
mod tests {
    use hermes_store::skills::Skill;
    use serde_json::Map;

    use super::*;

    #[test]
    fn the_request_follows_the_instructions() {
        let view = SkillView {
            skill: Skill {
                name: "review".into(),
                description: String::new(),
                category: None,
                directory: "/s".into(),
                frontmatter: Map::new(),
            },
            body: "Look twice.\n".into(),
            files: vec!["references/list.md".into()],
        };
        let text = skill_message(&mut PendingMessage::default(), &view, "src/main.rs");
        let text = text.text();
        assert!(
            text.contains("`review`") && text.contains("Look twice.\n\n[Files"),
            "{text}"
        );
        assert!(
            text.ends_with("references/list.md]\n\nsrc/main.rs"),
            "{text}"
        );
    }
}
