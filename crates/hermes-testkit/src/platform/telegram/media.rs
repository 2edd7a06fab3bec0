//! Files: uploads of the bot, albums, and downloads.

use axum::{
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde_json::{Map, Value, json};

use super::{
    call::{BotCall, BotError, BotResult},
    formatting,
    messages::MessageFrame,
    world::{TelegramWorld, WorldState},
};

const MAX_UPLOAD: usize = 50 << 20;
const MAX_PHOTO: usize = 10 << 20;
const MAX_DOWNLOAD: u64 = 20 << 20;

/// The kinds of files that a message may have; also the names of their fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TelegramFile {
    Photo,
    Video,
    Audio,
    Voice,
    Document,
    Animation,
}

impl TelegramFile {
    const ALL: [Self; 6] = [
        Self::Photo,
        Self::Video,
        Self::Audio,
        Self::Voice,
        Self::Document,
        Self::Animation,
    ];

    pub(super) fn field(self) -> &'static str {
        match self {
            Self::Photo => "photo",
            Self::Video => "video",
            Self::Audio => "audio",
            Self::Voice => "voice",
            Self::Document => "document",
            Self::Animation => "animation",
        }
    }

    pub(super) fn from_field(field: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.field() == field)
    }

    /// What a message says of a file of this kind.
    pub(super) fn describe(self, id: &str, name: &str, size: u64) -> Value {
        let unique = format!("u{id}");
        match self {
            Self::Photo => json!([
                {"file_id": format!("{id}s"), "file_unique_id": format!("{unique}s"), "width": 90, "height": 60,
                 "file_size": size.min(900)},
                {"file_id": id, "file_unique_id": unique, "width": 1280, "height": 853, "file_size": size},
            ]),
            Self::Video | Self::Animation => json!({
                "file_id": id, "file_unique_id": unique, "width": 640, "height": 480, "duration": 3,
                "file_name": name, "mime_type": "video/mp4", "file_size": size,
            }),
            Self::Audio => json!({
                "file_id": id, "file_unique_id": unique, "duration": 180, "file_name": name,
                "mime_type": "audio/mpeg", "file_size": size,
            }),
            Self::Voice => json!({
                "file_id": id, "file_unique_id": unique, "duration": 4, "mime_type": "audio/ogg", "file_size": size,
            }),
            Self::Document => json!({
                "file_id": id, "file_unique_id": unique, "file_name": name, "mime_type": mime_type(name),
                "file_size": size,
            }),
        }
    }
}

fn mime_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, extension)| extension) {
        Some("pdf") => "application/pdf",
        Some("png") => "image/png",
        Some("jpg" | "jpeg") => "image/jpeg",
        Some("txt" | "md") => "text/plain",
        Some("zip") => "application/zip",
        _ => "application/octet-stream",
    }
}

pub(super) fn send_file(world: &TelegramWorld, call: &BotCall, kind: TelegramFile) -> BotResult {
    let caption = formatting::caption(call)?;
    let mut state = world.lock();
    let described = take_file(&mut state, call, kind, &call.text(kind.field()))?;
    let frame = MessageFrame::read(&mut state, call)?;
    let mut content = Map::from_iter([(kind.field().into(), described)]);
    if !caption.plain.is_empty() {
        content.insert("caption".into(), json!(caption.plain));
    }
    frame.post(&mut state, &content)
}

/// Stores an upload, or finds the file of an id.
fn take_file(state: &mut WorldState, call: &BotCall, kind: TelegramFile, value: &str) -> BotResult {
    if let Some(part) = call.file(kind.field(), value) {
        if part.content.is_empty() {
            return Err(BotError::bad("file must be non-empty"));
        }
        let max = match kind {
            TelegramFile::Photo => MAX_PHOTO,
            _ => MAX_UPLOAD,
        };
        if part.content.len() > max {
            return Err(BotError::new(413, "Request Entity Too Large"));
        }
        let id = state.add_file(kind.field(), &part.file_name, &part.content);
        return Ok(kind.describe(&id, &part.file_name, part.content.len() as u64));
    }
    match state.files.get(value) {
        Some(file) => Ok(kind.describe(value, "file", file.content.len() as u64)),
        None if value.is_empty() => Err(BotError::bad("there is no file in the request")),
        None => Err(BotError::bad("wrong file identifier/HTTP URL specified")),
    }
}

pub(super) fn send_media_group(world: &TelegramWorld, call: &BotCall) -> BotResult {
    let media = call.structure("media")?;
    let items = media.as_array().cloned().unwrap_or_default();
    if !(2..=10).contains(&items.len()) {
        return Err(BotError::bad("media group must include 2-10 items"));
    }
    let mut kinds = Vec::new();
    for item in &items {
        match TelegramFile::from_field(item["type"].as_str().unwrap_or_default()) {
            Some(TelegramFile::Voice | TelegramFile::Animation) | None => {
                return Err(BotError::bad(
                    "can't use the media of the specified type in the album",
                ));
            }
            Some(kind) => kinds.push(kind),
        }
    }
    let is_alone =
        |kind: TelegramFile| matches!(kind, TelegramFile::Document | TelegramFile::Audio);
    if kinds
        .iter()
        .any(|kind| is_alone(*kind) && *kind != kinds[0])
        || (is_alone(kinds[0]) && kinds.iter().any(|kind| *kind != kinds[0]))
    {
        let reason = format!("{} can't be mixed with other media types", kinds[0].field());
        return Err(BotError::bad(&reason));
    }
    let mut state = world.lock();
    let group = format!("album{}", state.next_file_id());
    let frame = MessageFrame::read(&mut state, call)?;
    let mut messages = Vec::new();
    for (item, kind) in items.iter().zip(kinds) {
        let value = item["media"].as_str().unwrap_or_default();
        let described = take_file(&mut state, call, kind, value)?;
        let mut content = Map::from_iter([
            (kind.field().into(), described),
            ("media_group_id".into(), json!(group)),
        ]);
        let caption = formatting::item_caption(item)?;
        if !caption.is_empty() {
            content.insert("caption".into(), json!(caption));
        }
        messages.push(frame.post(&mut state, &content)?);
    }
    Ok(messages.into())
}

pub(super) fn get_file(world: &TelegramWorld, call: &BotCall) -> BotResult {
    let id = call.text("file_id");
    let state = world.lock();
    // The smaller size of a photo is the same file here.
    let file = state
        .files
        .get(&id)
        .or_else(|| state.files.get(id.trim_end_matches('s')));
    let Some(file) = file else {
        return Err(BotError::bad("invalid file_id"));
    };
    let size = file.claimed_size.unwrap_or(file.content.len() as u64);
    if size > MAX_DOWNLOAD {
        return Err(BotError::bad("file is too big"));
    }
    Ok(json!({
        "file_id": id,
        "file_unique_id": format!("u{id}"),
        "file_size": size,
        "file_path": file.path,
    }))
}

/// A download, below `/file/bot<token>/`.
pub(super) fn download(world: &TelegramWorld, path: &str) -> Response {
    let state = world.lock();
    let file = state.files.values().find(|file| file.path == path);
    match file {
        Some(file) => file.content.clone().into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}
