//! The words that can be completed: commands and skills, tools and servers, prompts and resources.

use hermes_agent::{
    conversation::{Conversation, ToolsetKind},
    mention::{self, MentionCandidate},
    prompt_command::PromptCommand,
};

use hermes_mcp::Host;

use crate::commands::chat::{
    commands::COMMANDS,
    editor::{CompletionWord, CompletionWords},
    rendering::wrap,
};

/// As much of a description as a menu shows.
const MAX_DESCRIPTION: usize = 60;

/// Updates the completion words.
pub(super) fn refresh_words(vocabulary: &CompletionWords, conversation: &Conversation) {
    let about = |text: &str| wrap::first_line(text, MAX_DESCRIPTION);
    let mut commands: Vec<CompletionWord> = COMMANDS
        .iter()
        .map(|command| CompletionWord::new(format!("/{}", command.name), command.about))
        .collect();
    let host = conversation.agent().host();
    let prompts = host.map(PromptCommand::list).unwrap_or_default();
    commands.extend(prompts.into_iter().map(|command| {
        let description = command.prompt.description.as_deref();
        CompletionWord::new(
            format!("/{}", command.name),
            about(description.unwrap_or_default()),
        )
    }));
    let skills = conversation.agent().skills().list();
    commands.extend(
        skills.into_iter().map(|skill| {
            CompletionWord::new(format!("/{}", skill.name), about(&skill.description))
        }),
    );
    vocabulary.set_commands(commands);

    let (mut tools, mut servers) = (Vec::new(), Vec::new());
    for toolset in conversation.toolsets() {
        let server = match &toolset.kind {
            ToolsetKind::Server(status) => Some(&status.name),
            ToolsetKind::BuiltIn => None,
        };
        for tool in &toolset.tools {
            let words = about(&tool.description);
            if let Some(server) = server {
                tools.push(CompletionWord::new(
                    format!("{server}.{}", tool.original),
                    words.clone(),
                ));
            }
            tools.push(CompletionWord::new(&tool.name, words));
        }
        servers.push(CompletionWord::new(toolset.name.clone(), "toolset"));
    }
    let names = host.into_iter().flat_map(Host::servers);
    servers.extend(names.map(|name| CompletionWord::new(name.to_string(), "server")));
    for verb in ["list", "enable", "disable", "login"] {
        servers.push(CompletionWord::new(verb, ""));
    }
    vocabulary.set_tools(tools, servers);
    let mentions = host.map(|host| mention::complete_mention(host, "@"));
    let mentions = mentions.unwrap_or_default().into_iter();
    let word = |candidate: MentionCandidate| {
        CompletionWord::new(candidate.text, about(&candidate.description))
    };
    vocabulary.set_mentions(mentions.map(word).collect());
}
