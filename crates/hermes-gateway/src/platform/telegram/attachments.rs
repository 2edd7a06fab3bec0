//! What a message has besides words: files, and things that are told in words.

use serde_json::Value;

use super::super::{Attachment, AttachmentKind};

pub(super) fn read_attachments(message: &Value) -> Vec<Attachment> {
    let mut attachments = Vec::new();
    // The largest size comes last.
    if let Some(photo) = message["photo"].as_array().and_then(|sizes| sizes.last()) {
        let mut image = read_file(photo, AttachmentKind::Image);
        if let Some(image) = &mut image {
            image.mime_type = Some("image/jpeg".to_owned());
        }
        attachments.extend(image);
    }
    let fields = [
        ("voice", AttachmentKind::Voice),
        ("audio", AttachmentKind::Audio),
        ("video", AttachmentKind::Video),
        ("video_note", AttachmentKind::Video),
        ("animation", AttachmentKind::Video),
    ];
    for (field, kind) in fields {
        attachments.extend(read_file(&message[field], kind));
    }
    // An animation is described as a document, too.
    if message["animation"].is_null() {
        let document = &message["document"];
        let is_image = document["mime_type"]
            .as_str()
            .is_some_and(|mime| mime.starts_with("image/"));
        let kind = if is_image {
            AttachmentKind::Image
        } else {
            AttachmentKind::Document
        };
        attachments.extend(read_file(document, kind));
    }
    attachments
}

fn read_file(file: &Value, kind: AttachmentKind) -> Option<Attachment> {
    Some(Attachment {
        kind,
        reference: file["file_id"].as_str()?.to_owned(),
        name: file["file_name"].as_str().map(str::to_owned),
        mime_type: file["mime_type"].as_str().map(str::to_owned),
        size: file["file_size"].as_u64(),
    })
}

/// What is neither text nor a file, in words.
pub(super) fn describe_other(message: &Value) -> Option<String> {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if let Some(rich) = rich_plain_text(&message["rich_message"]) {
        return Some(rich);
    }
    if let Some(emoji) = message["sticker"]["emoji"].as_str() {
        return Some(format!("[sticker {emoji}]"));
    }
    // A venue has a location, too.
    let venue = &message["venue"];
    if venue.is_object() {
        return Some(format!(
            "[place: {}, {}]",
            word(&venue["title"]),
            word(&venue["address"])
        ));
    }
    let location = &message["location"];
    if let (Some(latitude), Some(longitude)) = (
        location["latitude"].as_f64(),
        location["longitude"].as_f64(),
    ) {
        return Some(format!("[location: {latitude}, {longitude}]"));
    }
    let contact = &message["contact"];
    if let Some(phone) = contact["phone_number"].as_str() {
        return Some(format!(
            "[contact: {}, {phone}]",
            word(&contact["first_name"])
        ));
    }
    let question = message["poll"]["question"].as_str()?;
    Some(format!("[poll: {question}]"))
}

/// The words of a rich message.
pub(super) fn rich_plain_text(rich: &Value) -> Option<String> {
    let blocks = rich["blocks"].as_array()?;
    let mut lines = Vec::new();
    for block in blocks {
        let mut line = String::new();
        collect_text(block, &mut line);
        if !line.is_empty() {
            lines.push(line);
        }
    }
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// The texts in a block, in their order. Its nesting is limited by the parser of JSON.
fn collect_text(value: &Value, out: &mut String) {
    match value {
        Value::String(text) => out.push_str(text),
        Value::Array(parts) => parts.iter().for_each(|part| collect_text(part, out)),
        Value::Object(fields) => {
            for name in ["text", "blocks", "items", "cells", "caption", "summary"] {
                if let Some(inner) = fields.get(name) {
                    collect_text(inner, out);
                }
            }
        }
        _ => {}
    }
}
