//! Resources: conversations and attachments, under `hermes://` URIs.

use std::{
    borrow::Cow,
    path::{Path, PathBuf},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use hermes_store::SessionId;
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use rmcp::{
    ErrorData,
    model::{ErrorCode, ReadResourceResult, Resource, ResourceContents, ResourceTemplate},
};
use serde_json::json;

use super::{
    Bridge,
    envelope::{JsonDocument, ToolRefusal},
    tools::{self, ConversationFilter, StoredAttachment},
};

pub(super) const CONVERSATIONS: &str = "hermes://conversations";
const CONVERSATION_PREFIX: &str = "hermes://conversations/";
const MESSAGE_PREFIX: &str = "hermes://messages/";
const JSON: &str = "application/json";
/// How many conversations are listed, and how many messages of one are shown.
const MAX_CONVERSATIONS: usize = 200;
const MAX_MESSAGES: usize = 50;
const MAX_FILE_BYTES: u64 = 32 * 1024 * 1024;

/// Characters that are escaped in a segment of a URI.
const RESERVED: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'/')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b']')
    .add(b'{')
    .add(b'}');

#[derive(Debug, PartialEq, Eq)]
pub(super) enum ResourceAddress<'a> {
    Conversations,
    /// One, by its key.
    Conversation(Cow<'a, str>),
    Attachment {
        session: Cow<'a, str>,
        message: Cow<'a, str>,
        position: usize,
    },
}

impl<'a> ResourceAddress<'a> {
    pub(super) fn parse(uri: &'a str) -> Option<Self> {
        if uri == CONVERSATIONS {
            return Some(Self::Conversations);
        }
        if let Some(key) = uri.strip_prefix(CONVERSATION_PREFIX) {
            let key = decode_segment(key)?;
            return (!key.is_empty()).then_some(Self::Conversation(key));
        }
        let mut segments = uri.strip_prefix(MESSAGE_PREFIX)?.split('/');
        let (session, message) = (segments.next()?, segments.next()?);
        let is_attachment = segments.next() == Some("attachments");
        let position = segments.next()?.parse().ok()?;
        (is_attachment && segments.next().is_none()).then_some(Self::Attachment {
            session: decode_segment(session)?,
            message: decode_segment(message)?,
            position,
        })
    }
}

fn decode_segment(segment: &str) -> Option<Cow<'_, str>> {
    percent_decode_str(segment).decode_utf8().ok()
}

pub(super) fn conversation_uri(key: &str) -> String {
    format!(
        "{CONVERSATION_PREFIX}{}",
        utf8_percent_encode(key, RESERVED)
    )
}

/// The URI of an attachment of a message, counted from 0.
pub(super) fn attachment_uri(session: &str, message: &str, position: usize) -> String {
    let session = utf8_percent_encode(session, RESERVED);
    let message = utf8_percent_encode(message, RESERVED);
    format!("{MESSAGE_PREFIX}{session}/{message}/attachments/{position}")
}

/// The resources there are: the list, and each conversation.
pub(super) async fn list_resources(bridge: &Bridge) -> Result<Vec<Resource>, ErrorData> {
    let all = Resource::new(CONVERSATIONS, "conversations")
        .with_title("Conversations")
        .with_description("The open conversations, most recently active first")
        .with_mime_type(JSON);
    let mut resources = vec![all];
    let entries = bridge.conversations().await.map_err(refusal_error)?;
    for entry in entries.iter().take(MAX_CONVERSATIONS) {
        let names = [&entry.display_name, &entry.chat_name, &entry.session_key];
        let title = names.into_iter().find(|name| !name.is_empty());
        let resource = Resource::new(conversation_uri(&entry.session_key), &*entry.session_key)
            .with_title(title.map_or("", String::as_str))
            .with_description(format!(
                "The latest messages of a {} conversation",
                entry.platform
            ))
            .with_mime_type(JSON);
        resources.push(resource);
    }
    Ok(resources)
}

pub(super) fn list_templates() -> Vec<ResourceTemplate> {
    vec![
        ResourceTemplate::new("hermes://conversations/{session_key}", "conversation")
            .with_title("Conversation")
            .with_description("The latest messages of a conversation")
            .with_mime_type(JSON),
        ResourceTemplate::new(
            "hermes://messages/{session_id}/{message_id}/attachments/{n}",
            "attachment",
        )
        .with_title("Attachment")
        .with_description("What a message carries, as attachments_fetch lists it; n counts from 0"),
    ]
}

pub(super) fn not_found(uri: &str) -> ErrorData {
    let problem = format!("Resource not found: {uri}");
    ErrorData::resource_not_found(problem, Some(json!({"uri": uri})))
}

pub(super) async fn read_resource(
    bridge: &Bridge,
    uri: &str,
) -> Result<ReadResourceResult, ErrorData> {
    let not_found = || not_found(uri);
    let contents = match ResourceAddress::parse(uri).ok_or_else(not_found)? {
        ResourceAddress::Conversations => {
            let list =
                tools::list_conversations(bridge, ConversationFilter::default(), MAX_CONVERSATIONS);
            document_contents(uri, list.await.map_err(refusal_error)?)
        }
        ResourceAddress::Conversation(key) => {
            let transcript = tools::read_transcript(bridge, &key, MAX_MESSAGES).await;
            let transcript = transcript.map_err(refusal_error)?;
            document_contents(uri, transcript.document())
        }
        ResourceAddress::Attachment {
            session,
            message,
            position,
        } => {
            let session = SessionId::parse(&session).map_err(|_| not_found())?;
            let store = bridge.databases().conversations().await;
            let store = store.map_err(|error| refusal_error(ToolRefusal::unavailable(&error)))?;
            let store = store.ok_or_else(not_found)?;
            let message = tools::find_message(&store, &session, &message).await;
            let message = message.map_err(refusal_error)?;
            let mut attachments = tools::attachments_of(&message);
            if position >= attachments.len() {
                return Err(not_found());
            }
            let (kind, bytes) = attachment_bytes(bridge, attachments.swap_remove(position)).await?;
            ResourceContents::blob(BASE64_STANDARD.encode(bytes), uri).with_mime_type(kind)
        }
    };
    Ok(ReadResourceResult::new(vec![contents]))
}

fn document_contents(uri: &str, document: JsonDocument) -> ResourceContents {
    ResourceContents::text(document.into_text(), uri).with_mime_type(JSON)
}

/// The error with a tool's reason.
fn refusal_error(refusal: ToolRefusal) -> ErrorData {
    refusal.into_error(ErrorCode::RESOURCE_NOT_FOUND)
}

/// The bytes of a local attachment, and their media type.
async fn attachment_bytes(
    bridge: &Bridge,
    attachment: StoredAttachment,
) -> Result<(String, Vec<u8>), ErrorData> {
    let elsewhere =
        |what: &str| ErrorData::invalid_params(format!("This attachment is {what}"), None);
    match attachment {
        StoredAttachment::Image { url } => decode_data_url(&url)
            .ok_or_else(|| elsewhere("on the web; attachments_fetch returns its URL")),
        StoredAttachment::Part { .. } => Err(elsewhere("not a file; attachments_fetch returns it")),
        StoredAttachment::Media { path } => {
            let cache = bridge.home().cache_dir();
            let read =
                tokio::task::spawn_blocking(move || read_cached_file(&cache, Path::new(&path)));
            let read = read.await.ok().flatten();
            read.ok_or_else(|| elsewhere("not in the cache of this home, or too large"))
        }
    }
}

/// What a `data:` address holds.
fn decode_data_url(url: &str) -> Option<(String, Vec<u8>)> {
    let (head, data) = url.strip_prefix("data:")?.split_once(',')?;
    let kind = head.split(';').next().filter(|kind| !kind.is_empty());
    let kind = kind.unwrap_or("text/plain").to_owned();
    let bytes = match head.strip_suffix(";base64") {
        Some(_) => BASE64_STANDARD.decode(data.trim()).ok()?,
        None => percent_decode_str(data).collect(),
    };
    Some((kind, bytes))
}

/// Reads a file below the cache, without following links out of it.
fn read_cached_file(cache: &Path, path: &Path) -> Option<(String, Vec<u8>)> {
    let cache = cache.canonicalize().ok()?;
    let path: PathBuf = path.canonicalize().ok()?;
    let metadata = path.metadata().ok()?;
    if !path.starts_with(&cache) || !metadata.is_file() || metadata.len() > MAX_FILE_BYTES {
        return None;
    }
    let kind = media_type(path.extension().and_then(|extension| extension.to_str()));
    Some((kind.to_owned(), std::fs::read(&path).ok()?))
}

fn media_type(extension: Option<&str>) -> &'static str {
    match extension.unwrap_or_default().to_ascii_lowercase().as_str() {
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "ogg" | "oga" | "opus" => "audio/ogg",
        "mp3" => "audio/mpeg",
        "wav" => "audio/wav",
        "m4a" => "audio/mp4",
        "mp4" => "video/mp4",
        "webm" => "video/webm",
        "pdf" => "application/pdf",
        "txt" | "md" | "log" => "text/plain",
        "json" => JSON,
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_are_written() {
        for key in ["agent:main:telegram:dm:123456", "a/b c%?#ä", "x"] {
            let uri = conversation_uri(key);
            assert_eq!(
                ResourceAddress::parse(&uri),
                Some(ResourceAddress::Conversation(key.into())),
                "{uri}"
            );
        }
        let uri = attachment_uri("2026_a b", "7", 3);
        let address = ResourceAddress::Attachment {
            session: "2026_a b".into(),
            message: "7".into(),
            position: 3,
        };
        assert_eq!(ResourceAddress::parse(&uri), Some(address));
        assert_eq!(conversation_uri("a:b"), "hermes://conversations/a:b");
        for strange in [
            "hermes://conversations/",
            "hermes://messages/a/b/attachments/x",
            "hermes://messages/a/b/attachments/1/2",
            "hermes://messages/a/b/parts/1",
            "https://conversations",
            "",
        ] {
            assert_eq!(ResourceAddress::parse(strange), None, "{strange}");
        }
    }

    #[test]
    fn a_data_url_holds_its_bytes() {
        let png = decode_data_url("data:image/png;base64,AQID").unwrap();
        assert_eq!(png, ("image/png".into(), vec![1, 2, 3]));
        assert_eq!(decode_data_url("data:,a%20b").unwrap().1, b"a b");
        assert!(decode_data_url("https://x").is_none());
        assert!(decode_data_url("data:image/png;base64,%%").is_none());
    }

    #[test]
    #[cfg(unix)]
    fn only_files_of_the_cache_are_read() {
        let directory = tempfile::tempdir().unwrap();
        let cache = directory.path().join("cache");
        std::fs::create_dir_all(cache.join("images")).unwrap();
        let inside = cache.join("images/a.png");
        std::fs::write(&inside, "x").unwrap();
        let outside = directory.path().join(".env");
        std::fs::write(&outside, "secret").unwrap();
        let link = cache.join("link.png");
        std::os::unix::fs::symlink(&outside, &link).unwrap();
        assert_eq!(read_cached_file(&cache, &inside).unwrap().0, "image/png");
        for refused in [
            &outside,
            &link,
            &cache.join("../.env"),
            &cache,
            &cache.join("none"),
        ] {
            assert!(
                read_cached_file(&cache, refused).is_none(),
                "{}",
                refused.display()
            );
        }
    }
}
