//! Which messages a reply becomes: its files taken out of the text, the text cut to the platform's limit, the files put
//! together as albums.

use std::{borrow::Cow, path::PathBuf};

use crate::{
    platform::{AttachmentKind, ClientLimits, OutboundFile},
    send::{
        ExtractedMedia, LengthLimit, MediaGate, MediaKind, extract_media, join_albums, part_number,
        split_text,
    },
};

/// What a model answers when it has nothing to say.
const SILENCE_TOKENS: [&str; 2] = ["[SILENT]", "NO_REPLY"];

/// Whether a reply says that nothing is to be sent.
pub fn is_silence(text: &str) -> bool {
    SILENCE_TOKENS.contains(&text.trim())
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct PlannedMessage {
    pub(super) text: String,
    pub(super) files: Vec<OutboundFile>,
}

#[derive(Debug, Default)]
pub(super) struct ReplyPlan {
    pub(super) messages: Vec<PlannedMessage>,
    /// Files that are not sent, and why.
    pub(super) warnings: Vec<String>,
}

/// Whether the text may go with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CaptionUse {
    Allowed,
    /// The text has a message already.
    Never,
}

pub(super) fn message_limit(limits: &ClientLimits) -> LengthLimit {
    LengthLimit {
        max: limits.message,
        measure: limits.measure,
    }
}

/// The text as it is shown while it grows: without files, and without the beginning of one at the end.
pub(super) fn visible_text(growing: &str) -> String {
    let ExtractedMedia { mut text, .. } = extract_media(&remove_controls(growing));
    let line = text.rfind('\n').map_or(0, |at| at + 1);
    if let Some(tag) = text[line..].find("MEDIA:") {
        text.truncate(line + tag);
    }
    text.truncate(text.trim_end().len());
    text
}

/// A text without control characters, which are not part of a message and which platforms refuse or garble.
fn remove_controls(text: &str) -> Cow<'_, str> {
    let is_control = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    if text.contains(is_control) {
        Cow::Owned(text.replace(is_control, ""))
    } else {
        Cow::Borrowed(text)
    }
}

pub(super) async fn plan_reply(
    text: &str,
    gate: &MediaGate,
    limits: &ClientLimits,
    captions: CaptionUse,
) -> ReplyPlan {
    let extracted = extract_media(&remove_controls(text));
    let (files, warnings) = extracted.check_files(gate).await;
    let albums = join_albums(files, |(_, kind)| *kind, limits.album);
    let albums: Vec<Vec<OutboundFile>> = albums
        .into_iter()
        .map(|album| album.into_iter().map(outbound_file).collect())
        .collect();
    let mut text = extracted.text;
    if text.trim().is_empty() && albums.is_empty() {
        // Better a word about the files than no answer.
        text = warnings.join("\n");
    }
    ReplyPlan {
        messages: plan_messages(&text, albums, limits, captions),
        warnings,
    }
}

fn plan_messages(
    text: &str,
    mut albums: Vec<Vec<OutboundFile>>,
    limits: &ClientLimits,
    captions: CaptionUse,
) -> Vec<PlannedMessage> {
    let caption = LengthLimit {
        max: limits.caption,
        measure: limits.measure,
    };
    if albums.len() == 1 && captions == CaptionUse::Allowed && caption.fits(text) {
        return vec![PlannedMessage {
            text: text.trim().to_owned(),
            files: albums.pop().unwrap_or_default(),
        }];
    }
    let parts = match text.trim() {
        "" => Vec::new(),
        text => split_text(text, &message_limit(limits)),
    };
    let count = parts.len();
    let texts = parts
        .into_iter()
        .enumerate()
        .map(|(index, part)| PlannedMessage {
            text: add_number(part, index + 1, count),
            files: Vec::new(),
        });
    let files = albums.into_iter().map(|files| PlannedMessage {
        text: String::new(),
        files,
    });
    texts.chain(files).collect()
}

/// Adds ` (1/2)`. Behind the end of a code block it gets a line of its own, or the block would not end.
fn add_number(mut part: String, number: usize, count: usize) -> String {
    let number = part_number(number, count);
    let last_line = part.rsplit('\n').next().unwrap_or_default();
    if !number.is_empty() && last_line.trim_start().starts_with("```") {
        part.push('\n');
        part.push_str(number.trim_start());
    } else {
        part.push_str(&number);
    }
    part
}

fn outbound_file((path, kind): (PathBuf, MediaKind)) -> OutboundFile {
    OutboundFile {
        name: path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned(),
        kind: attachment_kind(kind),
        path,
    }
}

fn attachment_kind(kind: MediaKind) -> AttachmentKind {
    match kind {
        MediaKind::Image => AttachmentKind::Image,
        MediaKind::Video => AttachmentKind::Video,
        MediaKind::Audio => AttachmentKind::Audio,
        MediaKind::Voice => AttachmentKind::Voice,
        MediaKind::Document => AttachmentKind::Document,
    }
}

#[cfg(test)]
mod tests;
