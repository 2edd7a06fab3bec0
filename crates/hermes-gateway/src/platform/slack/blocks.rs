//! Slack's blocks: text, and rows of buttons. Slack reads two dialects: standard Markdown in streams and Markdown blocks, its own
//! in the text beside them, which notifications show.

use serde_json::{Value, json};

use crate::{
    platform::{Button, OutboundMessage, TextFormat},
    send::{Dialect, LengthLimit, render_markdown, split_text},
};

/// So many characters in Markdown blocks Slack takes in one message.
const MAX_MARKDOWN_CHARS: usize = 12_000;
/// A text without blocks takes so many characters when a message is edited.
pub(super) const MAX_EDITED_CHARS: usize = 4_000;
/// A section takes 3000 characters.
const SECTION: LengthLimit = LengthLimit {
    max: 2_900,
    measure: count_rendered,
};
/// How a reference begins that notifies many people at once: `<!channel>`, `<!subteam^…>`.
const BROADCAST: &str = "<!";
/// A block takes so many buttons.
const MAX_ROW: usize = 25;
/// A button's label takes so many characters.
const MAX_LABEL: usize = 75;

/// The length in characters as standard Markdown.
pub(super) fn count_markdown(text: &str) -> usize {
    quiet_markdown(text).chars().count()
}

/// The length in characters, with markup or without, whichever is more.
fn count_rendered(text: &str) -> usize {
    let rendered = render_quietly(text);
    text.chars().count().max(rendered.chars().count())
}

/// Standard Markdown for Slack that notifies nobody but single people whom it names. Slack looks for references there, too, and
/// shows escaped ones as they were written.
pub(super) fn quiet_markdown(text: &str) -> String {
    text.replace(BROADCAST, "&lt;!")
}

/// The text of a message in Slack's markup.
pub(super) fn render_text(text: &str, format: TextFormat) -> String {
    match format {
        TextFormat::Markdown => render_quietly(text),
        TextFormat::Plain => escape(text),
    }
}

/// Renders what an agent wrote: it notifies nobody but single people that it names.
fn render_quietly(text: &str) -> String {
    quiet_markdown(&render_markdown(text, Dialect::Slack))
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// Text and buttons as blocks; none where the text alone does.
pub(super) fn message_blocks(message: &OutboundMessage) -> Vec<Value> {
    let mut blocks = markdown_blocks(message);
    let has_buttons = !message.buttons.iter().all(Vec::is_empty);
    let is_long = message.text.chars().nth(SECTION.max).is_some();
    if blocks.is_empty() && (has_buttons || is_long) {
        blocks = text_sections(message);
    }
    blocks.extend(button_blocks(&message.buttons));
    blocks
}

/// The text as a stream shows it; none where it is not Markdown, or too long.
fn markdown_blocks(message: &OutboundMessage) -> Vec<Value> {
    let text = quiet_markdown(message.text.trim());
    let is_markdown = message.format == TextFormat::Markdown && !text.is_empty();
    if is_markdown && text.chars().nth(MAX_MARKDOWN_CHARS).is_none() {
        vec![json!({"type": "markdown", "text": text})]
    } else {
        Vec::new()
    }
}

fn text_sections(message: &OutboundMessage) -> Vec<Value> {
    let parts = match message.text.trim() {
        "" => Vec::new(),
        text => split_text(text, &SECTION),
    };
    let sections = parts.iter().map(|part| {
        let (kind, text) = match message.format {
            TextFormat::Markdown => ("mrkdwn", render_text(part, message.format)),
            TextFormat::Plain => ("plain_text", part.clone()),
        };
        json!({"type": "section", "text": {"type": kind, "text": text}})
    });
    sections.collect()
}

/// Rows of buttons.
pub(super) fn button_blocks(rows: &[Vec<Button>]) -> Vec<Value> {
    let rows = rows.iter().flat_map(|row| row.chunks(MAX_ROW)).enumerate();
    rows.map(|(row, buttons)| {
        let elements: Vec<Value> = buttons
            .iter()
            .enumerate()
            .map(|(column, button)| {
                let label: String = button.label.chars().take(MAX_LABEL).collect();
                // Within a message they have to differ.
                let id = format!("hermes_{row}_{column}");
                let text = json!({"type": "plain_text", "text": label, "emoji": true});
                let (member, value) = if button.is_link {
                    ("url", &button.data)
                } else {
                    ("value", &button.data)
                };
                json!({"type": "button", "action_id": id, "text": text, member: value})
            })
            .collect();
        json!({"type": "actions", "elements": elements})
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn button(label: &str, is_link: bool) -> Button {
        Button {
            label: label.into(),
            data: "d".into(),
            is_link,
        }
    }

    #[test]
    fn a_long_text_with_buttons_is_cut_into_sections() {
        let message = OutboundMessage {
            text: "**word** & ".repeat(1_200),
            buttons: vec![
                vec![button("Once", false), button("Deny", false)],
                vec![button(&"x".repeat(100), true)],
            ],
            ..OutboundMessage::default()
        };
        let blocks = message_blocks(&message);
        let (actions, sections): (Vec<_>, Vec<_>) =
            blocks.iter().partition(|block| block["type"] == "actions");
        assert!(sections.len() > 3, "{}", sections.len());
        for section in sections {
            let text = section["text"]["text"].as_str().unwrap();
            assert!(text.chars().count() <= 3_000);
            assert!(text.contains("*word* &amp;"), "{text}");
        }
        assert_eq!(actions.len(), 2);
        assert_eq!(actions[0]["elements"][1]["value"], "d");
        let link = &actions[1]["elements"][0];
        assert_eq!((&link["url"], &link["value"]), (&json!("d"), &Value::Null));
        assert_eq!(link["text"]["text"].as_str().unwrap().len(), 75);
    }

    #[test]
    fn an_answer_does_not_call_a_whole_channel() {
        let text = "<!channel> and <!here|here> and <!subteam^S1>: ask <@U12345678>";
        assert_eq!(
            render_text(text, TextFormat::Markdown),
            "&lt;!channel> and &lt;!here|here> and &lt;!subteam^S1>: ask <@U12345678>"
        );
    }

    #[test]
    fn markdown_is_a_block_as_it_was_written_and_notifies_nobody() {
        let text =
            "| a | b |\n|---|---|\n| **1** | [x](https://a.b/?c=1&d=2) |\n- <!here|x> <@U12345678>";
        let expected = text.replace("<!here|x>", "&lt;!here|x>");
        assert_eq!(
            message_blocks(&OutboundMessage::text(text)),
            [json!({"type": "markdown", "text": expected})]
        );
    }

    #[test]
    fn plain_text_needs_no_blocks() {
        let plain = |text: &str| OutboundMessage {
            format: TextFormat::Plain,
            ..OutboundMessage::text(text)
        };
        assert!(message_blocks(&plain("**hi**")).is_empty());
        // An edit takes 4,000 characters outside of blocks.
        let long = message_blocks(&plain(&"word ".repeat(1_000)));
        assert_eq!(long[0]["text"]["type"], "plain_text");
        assert!(long.len() > 1, "{long:?}");
        assert_eq!(
            render_text("a <b> & **c**", TextFormat::Plain),
            "a &lt;b&gt; &amp; **c**"
        );
    }
}
