//! Prompts of MCP servers as slash commands: `/mcp_<server>_<prompt>`, in both spellings.
//!
//! The rendered prompt is sent as a user message, since the user chose it.

use std::{collections::HashSet, fmt::Write as _, time::Duration};

use hermes_config::{ServerName, is_image_type};
use hermes_mcp::{
    CallError, CallOptions, Host, RegisteredName, UtilityTool,
    protocol::{ContentBlock, Prompt, PromptArgument, PromptMessage, ResourceContents, Role},
    tools::names::{self, Naming},
};

use crate::{
    mention::format_attachment,
    message::{Content, Part},
};

mod arguments;

pub use arguments::{PromptArgumentError, PromptArguments};

/// The largest inline image, in base64: more than any provider accepts.
const MAX_IMAGE_BYTES: usize = 28 * 1024 * 1024;

/// A prompt under its command name, without the slash.
#[derive(Debug, Clone)]
pub struct PromptCommand {
    /// Its name, as `mcp.tool_naming` spells it.
    pub name: RegisteredName,
    pub alias: RegisteredName,
    pub server: ServerName,
    pub prompt: Prompt,
}

/// Why a prompt could not be rendered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PromptError {
    /// The server failed. The reason is redacted.
    #[error("the prompt `{name}` is not available: {reason}")]
    Failed { name: String, reason: String },
    #[error("the prompt `{0}` is empty")]
    Empty(String),
}

impl PromptCommand {
    /// The prompts that the servers of a host offer now.
    pub fn list(host: &Host) -> Vec<Self> {
        Self::assign_names(host.naming(), host.offered_prompts())
    }

    /// Assigns command names: first come, first served.
    fn assign_names(naming: Naming, prompts: Vec<(ServerName, Prompt)>) -> Vec<Self> {
        let mut taken = HashSet::new();
        let command = |(server, prompt): (ServerName, Prompt)| {
            let register = |naming| names::registered_name(naming, server.as_str(), &prompt.name);
            let wanted = register(naming);
            let numbered = (2..).map(|number| names::with_suffix(&wanted, number));
            let mut free = std::iter::once(wanted.clone()).chain(numbered);
            let name = free.find(|name| taken.insert(name.clone()));
            Self {
                name: name.unwrap_or(wanted),
                alias: register(naming.alternate()),
                server,
                prompt,
            }
        };
        prompts.into_iter().map(command).collect()
    }

    /// Finds a command by its typed name, with or without the slash. Waits for servers that have not listed
    /// their prompts yet, if the name looks like a prompt.
    pub async fn find(host: &Host, typed: &str, limit: Duration) -> Option<Self> {
        let typed = typed.strip_prefix('/').unwrap_or(typed);
        if !typed.starts_with("mcp_") {
            return None;
        }
        let look = || Self::find_among(Self::list(host), typed);
        if let Some(command) = look() {
            return Some(command);
        }
        host.wait_until_listed(limit).await;
        look()
    }

    /// By name, else by alias.
    fn find_among(commands: Vec<Self>, typed: &str) -> Option<Self> {
        let position = |spelling: fn(&Self) -> &RegisteredName| {
            let mut names = commands.iter().map(spelling);
            names.position(|name| name.as_str() == typed)
        };
        let index =
            position(|command| &command.name).or_else(|| position(|command| &command.alias))?;
        commands.into_iter().nth(index)
    }

    pub fn parameters(&self) -> &[PromptArgument] {
        self.prompt.arguments.as_deref().unwrap_or_default()
    }

    /// How it is called, on one line: `/mcp_s_greet name=… [style=…]`.
    pub fn usage(&self) -> String {
        let mut usage = format!("/{}", self.name);
        for parameter in self.parameters() {
            let _ = match parameter.required {
                Some(true) => write!(usage, " {}=…", parameter.name),
                _ => write!(usage, " [{}=…]", parameter.name),
            };
        }
        usage
    }

    pub fn parse_arguments(&self, text: &str) -> Result<PromptArguments, PromptArgumentError> {
        arguments::parse_arguments(text, self.parameters())
    }

    /// Renders the prompt as a user message.
    pub async fn render(
        &self,
        host: &Host,
        arguments: &PromptArguments,
        options: &CallOptions,
    ) -> Result<Content, PromptError> {
        let filled = host
            .get_prompt(
                &self.server,
                &self.prompt.name,
                arguments.given.clone(),
                options,
            )
            .await
            .map_err(|error| self.prompt_failed(host, &error))?;
        let content = render_content(host, &self.server, filled.messages).await;
        content.ok_or_else(|| PromptError::Empty(self.name.to_string()))
    }

    fn prompt_failed(&self, host: &Host, error: &CallError) -> PromptError {
        PromptError::Failed {
            name: self.name.to_string(),
            reason: host.describe_error(&self.server, error),
        }
    }
}

/// The messages as one user message. If the prompt has both roles, they are named.
async fn render_content(
    host: &Host,
    server: &ServerName,
    messages: Vec<PromptMessage>,
) -> Option<Content> {
    let is_dialogue = messages.iter().any(|message| message.role != Role::User);
    let mut parts = Vec::new();
    let mut speaker = None;
    for message in messages {
        if is_dialogue && speaker.as_ref() != Some(&message.role) {
            parts.push(Part::from_text(match message.role {
                Role::Assistant => "Assistant:",
                Role::User => "User:",
            }));
            speaker = Some(message.role);
        }
        parts.push(render_part(host, server, message.content).await);
    }
    if parts.is_empty() {
        return None;
    }
    let texts: Option<Vec<&str>> = parts.iter().map(Part::text).collect();
    Some(match texts {
        Some(texts) => Content::Text(texts.join("\n\n")),
        None => Content::Parts(parts),
    })
}

async fn render_part(host: &Host, server: &ServerName, block: ContentBlock) -> Part {
    match block {
        ContentBlock::Text(text) => Part::from_text(text.text),
        ContentBlock::Image(image)
            if is_image_type(&image.mime_type) && image.data.len() <= MAX_IMAGE_BYTES =>
        {
            Part::from_image_url(format!("data:{};base64,{}", image.mime_type, image.data))
        }
        ContentBlock::Resource(embedded) => match embedded.resource {
            // The user chose the prompt, but not the content of embedded documents.
            ResourceContents::TextResourceContents { uri, text, .. } => {
                Part::from_text(format_attachment(server, &uri, text))
            }
            other => {
                let blocks = vec![other];
                Part::from_text(host.media().render_resource(blocks).await)
            }
        },
        other => {
            let registry = host.registry();
            let link_tool = registry
                .find_original(server, UtilityTool::ReadResource.as_str())
                .map(|tool| &tool.name);
            Part::from_text(host.media().render(&[other], link_tool).await)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn prompt(name: &str, arguments: &[(&str, bool)]) -> Prompt {
        let arguments = arguments
            .iter()
            .map(|(name, required)| PromptArgument::new(*name).with_required(*required))
            .collect();
        Prompt::new(name, None::<String>, Some(arguments))
    }

    fn commands(naming: Naming, prompts: &[(&str, &str)]) -> Vec<PromptCommand> {
        let prompts = prompts
            .iter()
            .map(|(server, name)| (ServerName::new(*server), prompt(name, &[])))
            .collect();
        PromptCommand::assign_names(naming, prompts)
    }

    fn names(commands: &[PromptCommand]) -> Vec<&str> {
        commands
            .iter()
            .map(|command| command.name.as_str())
            .collect()
    }

    #[test]
    fn a_prompt_is_found_in_both_spellings() {
        for naming in [Naming::Single, Naming::Double] {
            let commands = commands(naming, &[("my-api", "code-review")]);
            for typed in ["mcp_my_api_code_review", "mcp__my_api__code_review"] {
                let command = PromptCommand::find_among(commands.clone(), typed).unwrap();
                assert_eq!(command.prompt.name, "code-review");
            }
            assert!(PromptCommand::find_among(commands, "mcp_my_api").is_none());
        }
    }

    #[test]
    fn names_that_would_be_the_same_are_numbered() {
        let commands = commands(Naming::Single, &[("a", "x-y"), ("a", "x.y"), ("a_x", "y")]);
        assert_eq!(
            names(&commands),
            ["mcp_a_x_y", "mcp_a_x_y_2", "mcp_a_x_y_3"]
        );
    }

    #[test]
    fn the_usage_shows_what_is_required() {
        let command = PromptCommand::assign_names(
            Naming::Single,
            vec![(
                ServerName::new("s"),
                prompt("greet", &[("name", true), ("style", false)]),
            )],
        );
        assert_eq!(command[0].usage(), "/mcp_s_greet name=… [style=…]");
    }

    fn read(text: &str) -> Result<(Value, Vec<String>), String> {
        let prompt = prompt("greet", &[("name", true), ("style", false), ("tone", true)]);
        let arguments = arguments::parse_arguments(text, prompt.arguments.as_deref().unwrap());
        let arguments = arguments.map_err(|error| error.to_string())?;
        let missing = arguments.missing.into_iter().map(|argument| argument.name);
        Ok((Value::Object(arguments.given), missing.collect()))
    }

    #[test]
    fn arguments_are_given_by_name_by_position_or_both() {
        let whole = json!({"name": "Ada", "style": "kindly", "tone": "low"});
        for text in [
            "Ada kindly low",
            "name=Ada style=kindly tone=low",
            "style=kindly Ada low",
            "  Ada\tkindly   low ",
        ] {
            let (mut given, missing) = read(text).unwrap();
            given.as_object_mut().unwrap().sort_keys();
            assert_eq!((given, missing), (whole.clone(), Vec::new()), "{text}");
        }
    }

    #[test]
    fn quotes_hold_words_together() {
        let name = |text: &str| read(text).unwrap().0["name"].clone();
        assert_eq!(name("\"Ada Lovelace\""), "Ada Lovelace");
        assert_eq!(name("name='Ada Lovelace'"), "Ada Lovelace");
        assert_eq!(name("\"say \\\"hi\\\"\""), "say \"hi\"");
        assert_eq!(name("don't"), "don't");
        assert_eq!(name("''"), "");
        // Only names of arguments end at a `=`; a quoted word never does.
        assert_eq!(name("a=b"), "a=b");
        assert_eq!(name("\"name=Ada\""), "name=Ada");
        assert_eq!(read("\"Ada").unwrap_err(), "a quote is not closed");
    }

    #[test]
    fn required_arguments_that_are_missing_are_named() {
        assert_eq!(
            read("").unwrap(),
            (json!({}), vec!["name".to_owned(), "tone".to_owned()])
        );
        assert_eq!(read("Ada").unwrap().1, ["tone"]);
        let mut arguments =
            arguments::parse_arguments("", &[PromptArgument::new("x").with_required(true)])
                .unwrap();
        arguments.add("x", "1");
        assert_eq!(
            (arguments.missing.len(), &arguments.given["x"]),
            (0, &json!("1"))
        );
    }

    #[test]
    fn too_many_and_doubled_arguments_are_refused() {
        let error = read("a b c d").unwrap_err();
        assert!(
            error.starts_with(
                "there is no argument left for `d`: the prompt takes name, style, tone"
            ),
            "{error}"
        );
        assert_eq!(read("name=a name=b").unwrap_err(), "`name` is given twice");
    }
}
