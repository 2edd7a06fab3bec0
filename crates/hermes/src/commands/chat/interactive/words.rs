//! The words that can be completed: commands and skills, tools and servers, prompts and resources.

use hermes_agent::{
    conversation::{Conversation, ToolsetKind},
    mention::{Candidate, candidates},
    prompt_command::PromptCommand,
};

use crate::{
    chat::{
        editor::{Vocabulary, Word},
        strip,
    },
    commands::chat::command::COMMANDS,
};

/// As much of a description as a menu shows.
const ABOUT: usize = 60;

/// Takes stock of what there is now.
pub(super) fn renew(vocabulary: &Vocabulary, conversation: &Conversation) {
    let about = |text: &str| strip::one_line(text, ABOUT);
    let mut commands: Vec<Word> = COMMANDS
        .iter()
        .map(|command| Word::new(format!("/{}", command.name), command.about))
        .collect();
    let skills = conversation.agent().skills().list();
    commands.extend(
        skills
            .into_iter()
            .map(|skill| Word::new(format!("/{}", skill.name), about(&skill.description))),
    );
    if let Some(host) = conversation.agent().host() {
        let prompts = PromptCommand::all(host).into_iter();
        commands.extend(prompts.map(|prompt| {
            let words = prompt.prompt.description.clone().unwrap_or_default();
            Word::new(format!("/{}", prompt.name), about(&words))
        }));
        let mentions = candidates(host, "@").into_iter();
        let word = |candidate: Candidate| Word::new(candidate.text, about(&candidate.description));
        vocabulary.set_mentions(mentions.map(word).collect());
    }
    vocabulary.set_commands(commands);

    let (mut tools, mut servers) = (Vec::new(), Vec::new());
    for toolset in conversation.toolsets() {
        let is_server = matches!(toolset.kind, ToolsetKind::Server(_));
        for tool in &toolset.tools {
            let words = about(&tool.description);
            if is_server {
                tools.push(Word::new(
                    format!("{}.{}", toolset.name, tool.original),
                    words.clone(),
                ));
            }
            tools.push(Word::new(&tool.name, words));
        }
        servers.push(Word::new(
            toolset.name.clone(),
            if is_server { "server" } else { "toolset" },
        ));
    }
    for verb in ["list", "enable", "disable", "login"] {
        servers.push(Word::new(verb, ""));
    }
    vocabulary.set_tools(tools, servers);
}
