//! Texts of messages: parse modes, entities, rich messages, keyboards, and their limits.

use serde_json::{Value, json};

use super::{
    super::markdown_v2,
    call::{BotCall, BotError},
};

const MAX_TEXT: usize = 4096;
const MAX_CAPTION: usize = 1024;
const MAX_RICH_TEXT: usize = 32_768;
/// The bytes that a button may carry.
const MAX_BUTTON_DATA: usize = 64;

/// A text after its markup was read.
pub(super) struct ReadText {
    pub(super) plain: String,
    pub(super) entities: Value,
}

/// The text of a message, which must not be empty.
pub(super) fn message_text(call: &BotCall) -> Result<ReadText, BotError> {
    let text = read_text(call, "text", "entities")?;
    check_length(&text.plain, MAX_TEXT, "message is too long")?;
    if text.plain.trim().is_empty() {
        return Err(BotError::bad("message text is empty"));
    }
    Ok(text)
}

/// The text of a draft, which may be empty.
pub(super) fn draft_text(call: &BotCall) -> Result<ReadText, BotError> {
    let text = read_text(call, "text", "entities")?;
    check_length(&text.plain, MAX_TEXT, "message is too long")?;
    Ok(text)
}

pub(super) fn caption(call: &BotCall) -> Result<ReadText, BotError> {
    let text = read_text(call, "caption", "caption_entities")?;
    check_length(&text.plain, MAX_CAPTION, "message caption is too long")?;
    Ok(text)
}

/// The caption of one file in an album.
pub(super) fn item_caption(item: &Value) -> Result<String, BotError> {
    let source = item["caption"].as_str().unwrap_or_default();
    let mode = item["parse_mode"].as_str().unwrap_or_default();
    let plain = strip_markup(source, mode)?;
    check_length(&plain, MAX_CAPTION, "message caption is too long")?;
    Ok(plain)
}

fn read_text(call: &BotCall, name: &str, entities: &str) -> Result<ReadText, BotError> {
    let plain = strip_markup(&call.text(name), &call.text("parse_mode"))?;
    let entities = call.structure(entities)?;
    let end = plain.encode_utf16().count() as u64;
    for entity in entities.as_array().into_iter().flatten() {
        let (offset, length) = (entity["offset"].as_u64(), entity["length"].as_u64());
        let is_inside = offset
            .zip(length)
            .is_some_and(|(offset, length)| offset + length <= end);
        if !is_inside {
            return Err(BotError::bad("ENTITY_BOUNDS_INVALID"));
        }
    }
    Ok(ReadText { plain, entities })
}

fn strip_markup(text: &str, mode: &str) -> Result<String, BotError> {
    let unreadable = |reason: &str| BotError::bad(&format!("can't parse entities: {reason}"));
    match mode.to_ascii_lowercase().as_str() {
        "" => Ok(text.to_owned()),
        "markdownv2" => markdown_v2::parse(text).map_err(|reason| unreadable(&reason)),
        "html" => strip_tags(text).map_err(|reason| unreadable(&reason)),
        _ => Err(BotError::bad("unsupported parse_mode")),
    }
}

/// HTML without its tags, each of which must be closed.
fn strip_tags(text: &str) -> Result<String, String> {
    let mut plain = String::new();
    let mut open: Vec<&str> = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        plain.push_str(&rest[..at]);
        let Some(end) = rest[at..].find('>') else {
            return Err("unclosed start tag".into());
        };
        let tag = &rest[at + 1..at + end];
        let name = tag.trim_start_matches('/');
        let name = name.split_whitespace().next().unwrap_or_default();
        if !tag.starts_with('/') {
            open.push(name);
        } else if open.pop() != Some(name) {
            return Err(format!("unmatched end tag \"{name}\""));
        }
        rest = &rest[at + end + 1..];
    }
    plain.push_str(rest);
    match open.pop() {
        Some(name) => Err(format!(
            "can't find end tag corresponding to start tag \"{name}\""
        )),
        None => Ok(plain
            .replace("&lt;", "<")
            .replace("&gt;", ">")
            .replace("&amp;", "&")),
    }
}

/// How many UTF-16 units a text may have.
fn check_length(text: &str, max: usize, reason: &str) -> Result<(), BotError> {
    if text.encode_utf16().count() > max {
        return Err(BotError::bad(reason));
    }
    Ok(())
}

/// A rich message: its source, and the blocks it becomes.
pub(super) struct RichText {
    pub(super) source: String,
    pub(super) blocks: Value,
}

pub(super) fn rich_text(call: &BotCall) -> Result<RichText, BotError> {
    let input = call.structure("rich_message")?;
    let forms = ["markdown", "html", "blocks"];
    let given: Vec<&str> = forms
        .into_iter()
        .filter(|form| !input[*form].is_null())
        .collect();
    let [form] = given.as_slice() else {
        let reason = "exactly one of the fields html, markdown, or blocks must be specified";
        return Err(BotError::bad(reason));
    };
    if *form == "blocks" {
        let blocks = input["blocks"].clone();
        return Ok(RichText {
            source: blocks.to_string(),
            blocks,
        });
    }
    let source = input[*form].as_str().unwrap_or_default().to_owned();
    if source.trim().is_empty() {
        return Err(BotError::bad("message text is empty"));
    }
    check_length(&source, MAX_RICH_TEXT, "message is too long")?;
    Ok(RichText {
        blocks: paragraphs(&source),
        source,
    })
}

/// Blocks as far as tests look at them: paragraphs and code.
fn paragraphs(source: &str) -> Value {
    let mut blocks = Vec::new();
    let mut code: Option<Vec<&str>> = None;
    let mut prose: Vec<&str> = Vec::new();
    let flush = |prose: &mut Vec<&str>, blocks: &mut Vec<Value>| {
        if !prose.is_empty() {
            let text = prose.join("\n");
            blocks.push(json!({"type": "paragraph", "text": text}));
            prose.clear();
        }
    };
    for line in source.lines() {
        if line.trim_start().starts_with("```") {
            if let Some(lines) = code.take() {
                blocks.push(json!({"type": "pre", "text": lines.join("\n")}));
            } else {
                flush(&mut prose, &mut blocks);
                code = Some(Vec::new());
            }
        } else if let Some(lines) = &mut code {
            lines.push(line);
        } else if line.trim().is_empty() {
            flush(&mut prose, &mut blocks);
        } else {
            prose.push(line.trim_end());
        }
    }
    flush(&mut prose, &mut blocks);
    blocks.into()
}

/// The keyboard below a message.
pub(super) fn keyboard(call: &BotCall) -> Result<Value, BotError> {
    let markup = call.structure("reply_markup")?;
    let rows = markup["inline_keyboard"].as_array();
    for button in rows
        .into_iter()
        .flatten()
        .filter_map(|row| row.as_array())
        .flatten()
    {
        if button["text"].as_str().unwrap_or_default().is_empty() {
            return Err(BotError::bad(
                "inline keyboard button text must be non-empty",
            ));
        }
        if let Some(data) = button["callback_data"].as_str() {
            if !(1..=MAX_BUTTON_DATA).contains(&data.len()) {
                return Err(BotError::bad("BUTTON_DATA_INVALID"));
            }
        } else if let Some(address) = button["url"].as_str() {
            if url::Url::parse(address).is_err() {
                return Err(BotError::bad("BUTTON_URL_INVALID"));
            }
        } else {
            return Err(BotError::bad("BUTTON_TYPE_INVALID"));
        }
    }
    Ok(markup)
}
