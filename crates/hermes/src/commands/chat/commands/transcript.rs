//! What was said so far: `/history` on the screen, `/save` in a file.

use std::fmt::Write as _;

use hermes_agent::{message::Message, printable::printable};
use hermes_config::private_file::{ExistingFile, WriteOptions, write_file};

use super::{ChatContext, CommandOutcome};
use crate::{
    commands::chat::rendering::{
        calls,
        style::{Colour, ColourMode, Style},
        wrap,
    },
    failure::Failure,
};

/// How many messages are shown if no number is given.
const DEFAULT_MESSAGES: usize = 20;
/// The longest a message is shown.
const MAX_MESSAGE_LENGTH: usize = 4000;

pub(super) fn history(chat: &ChatContext<'_>, number: &str) -> Result<CommandOutcome, Failure> {
    let number = match number {
        "" => DEFAULT_MESSAGES,
        text => text.parse().map_err(|_| {
            Failure::usage(format!("`{text}` is not a number")).hint("`/history 50`")
        })?,
    };
    let messages = chat.conversation.messages();
    if messages.is_empty() {
        return Ok(CommandOutcome::text("There are no messages yet."));
    }
    let text = render_last(messages, number, chat.screen.paint(), chat.screen.width());
    Ok(CommandOutcome::text(text.trim_end()))
}

/// The last messages, one below the other.
pub(super) fn render_last(
    messages: &[Message],
    number: usize,
    paint: ColourMode,
    width: usize,
) -> String {
    let mut text = String::new();
    for message in &messages[messages.len().saturating_sub(number)..] {
        let content = message.content().text();
        let content = printable(content.trim());
        match message {
            Message::System { .. } => {}
            Message::User { .. } => {
                let shown = shorten(&content).replace('\n', "\n  ");
                let mark = paint.paint(Style::PLAIN.coloured(Colour::Cyan), ">");
                let _ = writeln!(text, "{mark} {}", paint.paint(Style::bold(), &shown));
            }
            Message::Assistant(answer) => {
                if !content.is_empty() {
                    let _ = writeln!(text, "{}", shorten(&content));
                }
                for call in &answer.tool_calls {
                    let arguments = calls::render_arguments(&call.arguments);
                    let line = format!("  {} {arguments}", wrap::first_line(&call.name, 60));
                    let _ = writeln!(
                        text,
                        "{}",
                        paint.paint(Style::faint(), &wrap::truncate_line(&line, width))
                    );
                }
            }
            Message::Tool(_) => {
                let line = format!("  → {}", wrap::first_line(&content, 200));
                let _ = writeln!(
                    text,
                    "{}",
                    paint.paint(Style::faint(), &wrap::truncate_line(&line, width))
                );
            }
        }
    }
    text
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(MAX_MESSAGE_LENGTH) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

pub(super) fn save(chat: &ChatContext<'_>, path: &str) -> Result<CommandOutcome, Failure> {
    let messages = chat.conversation.messages();
    if messages.is_empty() {
        return Err(Failure::failed("there are no messages yet"));
    }
    let id = chat.conversation.id();
    let name = if path.is_empty() {
        format!("hermes-{id}.md")
    } else {
        path.to_owned()
    };
    let path = chat.conversation.cwd().join(name);
    let options = WriteOptions {
        existing: ExistingFile::Refuse,
        ..WriteOptions::default()
    };
    let written = write_file(
        &path,
        render_document(id.as_str(), messages).as_bytes(),
        options,
    );
    match written {
        Ok(()) => Ok(CommandOutcome::text(format!(
            "Written to {}.",
            path.display()
        ))),
        Err(error) => Err(Failure::failed(format!(
            "`{}` cannot be written: {error}",
            path.display()
        ))),
    }
}

/// The conversation in Markdown.
fn render_document(id: &str, messages: &[Message]) -> String {
    let mut text = format!("# Session {id}\n");
    for message in messages {
        let content = message.content().text();
        let content = content.trim();
        let head = match message {
            Message::System { .. } => continue,
            Message::User { .. } => "You",
            Message::Assistant(_) => "Hermes",
            Message::Tool(_) => {
                let _ = write!(text, "\n```\n{}\n```\n", content.replace("```", "'''"));
                continue;
            }
        };
        let _ = write!(text, "\n## {head}\n");
        if !content.is_empty() {
            let _ = write!(text, "\n{content}\n");
        }
        for call in message.tool_calls() {
            let _ = write!(text, "\nCalls `{}` with `{}`\n", call.name, call.arguments);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use hermes_agent::message::{AssistantMessage, ToolCall};

    use super::*;

    fn messages() -> Vec<Message> {
        let call = ToolCall::new("1", "read_file", "{\"path\": \"a\"}");
        vec![
            Message::user("first"),
            Message::Assistant(AssistantMessage {
                tool_calls: vec![call.clone()],
                ..AssistantMessage::default()
            }),
            Message::tool(&call, "content\x1b[2J of a"),
            Message::assistant("It says **content**."),
        ]
    }

    #[test]
    fn the_last_messages_are_shown_in_order() {
        assert_eq!(
            render_last(&messages(), 10, ColourMode::Plain, 80),
            "> first\n  read_file path=a\n  → content of a\nIt says **content**.\n"
        );
        assert_eq!(
            render_last(&messages(), 1, ColourMode::Plain, 80),
            "It says **content**.\n"
        );
    }

    #[test]
    fn a_document_holds_everything_that_was_said() {
        let text = render_document("abc", &messages());
        for part in [
            "# Session abc",
            "## You\n\nfirst",
            "Calls `read_file`",
            "```\ncontent",
            "## Hermes\n\nIt says",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }
}
