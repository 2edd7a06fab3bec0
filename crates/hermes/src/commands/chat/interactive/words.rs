//! The words that can be completed: commands and skills, tools and servers, prompts and resources.

use hermes_agent::conversation::{Conversation, ToolsetKind};
use hermes_config::ServerName;

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
    vocabulary.set_commands(commands);

    let (mut tools, mut servers, mut mentions) = (Vec::new(), Vec::new(), Vec::new());
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
        if is_server {
            mentions.extend(resources(conversation, &toolset.name));
        }
    }
    for verb in ["list", "enable", "disable", "login"] {
        servers.push(Word::new(verb, ""));
    }
    vocabulary.set_tools(tools, servers);
    vocabulary.set_mentions(mentions);
}

/// `@server:uri` of what a server has listed.
fn resources(conversation: &Conversation, server: &str) -> Vec<Word> {
    let host = conversation.agent().host();
    let Some(link) = host.and_then(|host| host.link(&ServerName::new(server))) else {
        return Vec::new();
    };
    let link = link.borrow();
    let Some(catalog) = link.offered() else {
        return Vec::new();
    };
    let resources = catalog.resources.iter().map(|resource| {
        Word::new(
            format!("@{server}:{}", resource.uri),
            strip::one_line(&resource.name, ABOUT),
        )
    });
    let templates = catalog.templates.iter().map(|template| {
        Word::new(
            format!("@{server}:{}", template.uri_template),
            strip::one_line(&template.name, ABOUT),
        )
    });
    resources.chain(templates).collect()
}
