//! Slack's blocks: text as sections, and rows of buttons.

use serde_json::{Value, json};

use crate::{
    platform::{Button, OutboundMessage, TextFormat},
    send::{Dialect, LengthLimit, render_markdown, split_text},
};

/// A section takes 3000 characters.
const SECTION: LengthLimit = LengthLimit {
    max: 2_900,
    measure: count_rendered,
};
/// A block takes so many buttons.
const MAX_ROW: usize = 25;
/// A button's label takes so many characters.
const MAX_LABEL: usize = 75;
/// How references begin that notify many people at once.
const BROADCASTS: [&str; 4] = ["<!channel", "<!everyone", "<!here", "<!subteam"];

/// The length in characters, with markup or without, whichever is more.
pub(super) fn count_rendered(text: &str) -> usize {
    let rendered = render_quietly(text);
    text.chars().count().max(rendered.chars().count())
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
    let mut rendered = render_markdown(text, Dialect::Slack);
    for begin in BROADCASTS {
        if rendered.contains(begin) {
            rendered = rendered.replace(begin, &begin.replacen('<', "&lt;", 1));
        }
    }
    rendered
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// Text and buttons as blocks; none without buttons, where plain text does.
pub(super) fn message_blocks(message: &OutboundMessage) -> Vec<Value> {
    if message.buttons.iter().all(Vec::is_empty) {
        return Vec::new();
    }
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
    sections.chain(button_blocks(&message.buttons)).collect()
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
            text: "**word** & ".repeat(1_000),
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
    fn text_alone_needs_no_blocks() {
        assert!(message_blocks(&OutboundMessage::text("hi")).is_empty());
        assert_eq!(
            render_text("a <b> & **c**", TextFormat::Plain),
            "a &lt;b&gt; &amp; **c**"
        );
    }
}
