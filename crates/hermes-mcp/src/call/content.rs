//! Content blocks as text for the model.
//!
//! Text stays as it is. Pictures, sound and other binary content go into files of the home's cache, and the text says
//! where. Whatever cannot be shown leaves a note in square brackets: nothing is dropped silently.

mod media;

use std::path::PathBuf;

use media::{MediaError, MediaKind};
use rmcp::model::{ContentBlock, Resource, ResourceContents};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::tools::names::RegisteredName;

/// Turns content into text, with a directory for the parts that are not text.
#[derive(Debug, Clone)]
pub struct MediaStore {
    cache_dir: PathBuf,
}

impl MediaStore {
    /// Keeps its files under `cache_dir`, in `images`, `audio` and `documents`.
    pub fn new(cache_dir: PathBuf) -> Self {
        Self { cache_dir }
    }

    /// The blocks as text, in order, one below the other. `link_tool` is the tool that reads linked resources.
    pub async fn render(
        &self,
        blocks: &[ContentBlock],
        link_tool: Option<&RegisteredName>,
    ) -> String {
        let mut text = String::with_capacity(text_length(blocks));
        for (index, block) in blocks.iter().enumerate() {
            if index > 0 {
                text.push('\n');
            }
            match block {
                ContentBlock::Text(content) => text.push_str(&content.text),
                ContentBlock::Image(image) => {
                    text += &self
                        .save_media(MediaKind::Image, &image.data, &image.mime_type)
                        .await;
                }
                ContentBlock::Audio(audio) => {
                    text += &self
                        .save_media(MediaKind::Audio, &audio.data, &audio.mime_type)
                        .await;
                }
                ContentBlock::Resource(embedded) => match &embedded.resource {
                    ResourceContents::TextResourceContents { text: content, .. } => {
                        text.push_str(content);
                    }
                    other => text += &self.save_resource(other).await,
                },
                ContentBlock::ResourceLink(link) => text += &link_note(link, link_tool),
                other => text += &unknown_note(serde_json::to_value(other).ok().as_ref()),
            }
        }
        text
    }

    /// The contents of a resource as text, one below the other. A single text is passed on without a copy.
    pub async fn render_resource(&self, mut contents: Vec<ResourceContents>) -> String {
        if let [ResourceContents::TextResourceContents { text, .. }] = contents.as_mut_slice() {
            return std::mem::take(text);
        }
        let mut parts = Vec::with_capacity(contents.len());
        for content in contents {
            parts.push(match content {
                ResourceContents::TextResourceContents { text, .. } => text,
                other => self.save_resource(&other).await,
            });
        }
        parts.join("\n")
    }

    async fn save_media(&self, kind: MediaKind, base64: &str, mime_type: &str) -> String {
        match media::save_media_file(&self.cache_dir, kind.clone(), base64, mime_type).await {
            Ok(saved) => format!("MEDIA:{}", saved.path.display()),
            Err(reason) => not_saved_note(
                &format!("{} ({})", kind.label(), strip_control_characters(mime_type)),
                &reason,
            ),
        }
    }

    async fn save_resource(&self, contents: &ResourceContents) -> String {
        let ResourceContents::BlobResourceContents {
            uri,
            mime_type,
            blob,
            ..
        } = contents
        else {
            return unknown_note(None);
        };
        let kind = MediaKind::Document { uri: uri.clone() };
        let mime_type = mime_type.as_deref().unwrap_or("application/octet-stream");
        match media::save_media_file(&self.cache_dir, kind, blob, mime_type).await {
            Ok(saved) => format!(
                "[resource saved: {} ({}, {} bytes)]",
                saved.path.display(),
                strip_control_characters(mime_type),
                saved.size
            ),
            Err(reason) => not_saved_note(
                &format!(
                    "resource {} ({})",
                    strip_control_characters(uri),
                    strip_control_characters(mime_type)
                ),
                &reason,
            ),
        }
    }
}

/// The text of a result that is one text block and nothing else: the common case, and worth not copying.
pub fn single_text(blocks: &[ContentBlock]) -> Option<&str> {
    match blocks {
        [ContentBlock::Text(content)] => Some(&content.text),
        _ => None,
    }
}

/// Puts a note in the place of every block that [`ContentBlock`] and [`ResourceContents`] cannot hold.
///
/// For the raw result of `tools/call`, `prompts/get` or `resources/read` that did not parse as such: one block of a
/// kind not known here must not cost the others.
pub fn note_unreadable_blocks(result: &mut Value) {
    let blocks = |list: Option<&mut Value>, repair: fn(&mut Value)| {
        for block in list.and_then(Value::as_array_mut).into_iter().flatten() {
            repair(block);
        }
    };
    blocks(result.get_mut("content"), note_unreadable_block);
    blocks(result.get_mut("messages"), |message| {
        if let Some(content) = message.get_mut("content") {
            note_unreadable_block(content);
        }
    });
    blocks(result.get_mut("contents"), |contents| {
        if ResourceContents::deserialize(&*contents).is_err() {
            let uri = contents.get("uri").and_then(Value::as_str);
            *contents = json!({"uri": uri.unwrap_or_default(), "text": unknown_note(None)});
        }
    });
}

fn note_unreadable_block(block: &mut Value) {
    if ContentBlock::deserialize(&*block).is_err() {
        *block = json!({"type": "text", "text": unknown_note(Some(block))});
    }
}

fn unknown_note(block: Option<&Value>) -> String {
    match block.and_then(|block| block.get("type")?.as_str()) {
        Some(kind) => format!(
            "[content of type `{}` cannot be shown]",
            strip_control_characters(kind)
        ),
        None => "[content of an unknown type cannot be shown]".into(),
    }
}

fn not_saved_note(what: &str, reason: &MediaError) -> String {
    format!("[{what} not saved: {reason}]")
}

fn link_note(link: &Resource, link_tool: Option<&RegisteredName>) -> String {
    let uri = strip_control_characters(&link.uri);
    let name = strip_control_characters(&link.name);
    let mime_type = link
        .mime_type
        .as_deref()
        .map_or("unknown".into(), strip_control_characters);
    let advice = link_tool.map_or(String::new(), |tool| format!("; {tool} reads it"));
    format!("[resource link, not fetched: {uri}, name: {name}, type: {mime_type}{advice}]")
}

/// A server's words without control characters, so that they cannot break out of their line.
fn strip_control_characters(words: &str) -> String {
    words.chars().filter(|c| !c.is_control()).collect()
}

fn text_length(blocks: &[ContentBlock]) -> usize {
    let text = |block: &ContentBlock| match block {
        ContentBlock::Text(content) => content.text.len(),
        ContentBlock::Resource(embedded) => match &embedded.resource {
            ResourceContents::TextResourceContents { text, .. } => text.len(),
            _ => 0,
        },
        _ => 0,
    };
    blocks.iter().map(|block| text(block) + 1).sum()
}

#[cfg(test)]
mod tests;
