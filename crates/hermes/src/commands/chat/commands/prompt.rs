//! `/mcp_SERVER_PROMPT name=value`: what a server's prompt says, as the user's turn; what is missing is asked for.
//! `/<skill>`: a message that asks to work by a skill.

use std::{fmt::Write as _, time::Duration};

use hermes_agent::{
    conversation::Conversation,
    message::Content,
    prompt_command::{PromptArguments, PromptCommand},
};
use hermes_mcp::CallOptions;
use hermes_store::skills::SkillView;

use super::{ChatContext, CommandOutcome, NextStep, PendingMessage};
use crate::{
    commands::chat::{attachments, commands::SlashCommand, rendering::wrap},
    failure::{Failure, FailureKind},
};

/// Timeout for a server that has not listed its prompts yet.
const LIST_TIMEOUT: Duration = Duration::from_secs(15);

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
            let value = chat.prompts.prompt(move |open_prompt| {
                loop {
                    // It is required: an empty line is not an answer.
                    let value = open_prompt.read_line(&question)?;
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

/// Whether a command can only be a prompt.
pub(in crate::commands::chat) fn is_prompt_name(name: &str) -> bool {
    name.starts_with("mcp_")
}

/// A prompt and what was given with it.
struct TypedPrompt {
    command: PromptCommand,
    arguments: PromptArguments,
}

impl TypedPrompt {
    /// Finds the prompt that a command names.
    async fn find(conversation: &Conversation, slash: SlashCommand<'_>) -> Result<Self, Failure> {
        let unknown = |known: &[PromptCommand]| {
            let failure = Failure::new(
                FailureKind::NotFound,
                format!("there is no prompt `/{}`", slash.name),
            );
            if known.is_empty() {
                return failure.hint("no MCP server that is connected has prompts");
            }
            let names = known.iter().map(|command| command.name.to_string());
            let usages: Vec<String> = known.iter().map(PromptCommand::usage).collect();
            match hermes_config::nearest(slash.name, names) {
                Some(name) => failure.hint(format!("did you mean `/{name}`?")),
                None => failure,
            }
            .hint(format!("there are: {}", usages.join(", ")))
        };
        let Some(host) = conversation.agent().host() else {
            return Err(unknown(&[]));
        };
        let command = PromptCommand::find(host, slash.name, LIST_TIMEOUT)
            .await
            .ok_or_else(|| unknown(&PromptCommand::list(host)))?;
        let arguments = command.parse_arguments(slash.rest).map_err(|error| {
            Failure::usage(error.to_string()).hint(format!("`{}`", command.usage()))
        })?;
        Ok(Self { command, arguments })
    }

    /// The message it stands for.
    async fn message(
        &self,
        conversation: &Conversation,
        options: &CallOptions,
    ) -> Result<Content, Failure> {
        let missing = &self.arguments.missing;
        if !missing.is_empty() {
            let names: Vec<String> = missing
                .iter()
                .map(|argument| format!("`{}`", argument.name))
                .collect();
            return Err(Failure::new(
                FailureKind::AnswerNeeded,
                format!("the prompt needs {}", names.join(", ")),
            )
            .hint(format!("`{}`", self.command.usage())));
        }
        let Some(host) = conversation.agent().host() else {
            return Err(Failure::failed("there are no MCP servers in safe mode"));
        };
        let turn = self.command.render(host, &self.arguments, options).await;
        turn.map_err(|error| {
            if options.cancel.is_cancelled() {
                Failure::interrupted()
            } else {
                Failure::failed(error.to_string())
            }
        })
    }
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
