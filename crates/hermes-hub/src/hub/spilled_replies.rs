//! Content of any size that one node has and another one sends to its client: it goes through object storage, in parts and
//! encrypted. Parts are deleted when they were read; what nobody has read is deleted later.

use axum::body::Body;
use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::{Bytes, BytesMut};
use futures::{StreamExt as _, stream};

use super::Hub;
use crate::{Problem, ProblemCode, api_types::Time, storage::objects::Objects};

/// Where parts are, by the id of the command.
const DIRECTORY: &str = "replies";
const PART_BYTES: usize = 4 << 20;
/// Content up to this size is in the reply itself.
const INLINE_BYTES: usize = 1 << 20;
/// Parts that are deleted at once when nobody has read them.
const MAX_FORGOTTEN: usize = 1000;

/// The content of a reply.
#[derive(Debug)]
pub(crate) enum ReplyContent {
    /// In base64.
    Inline(String),
    /// In so many parts, under this name.
    Spilled { name: String, parts: u32 },
}

/// Reads content to its end. What is too large for a row of the database becomes parts.
pub(crate) async fn store_content(
    hub: &Hub,
    command: &str,
    body: Body,
) -> Result<ReplyContent, Problem> {
    let mut stream = body.into_data_stream();
    let mut waiting = BytesMut::new();
    let mut parts = 0;
    while let Some(piece) = stream.next().await {
        let piece = piece.map_err(|error| Problem::internal(&error))?;
        waiting.extend_from_slice(&piece);
        while waiting.len() >= PART_BYTES {
            let part = waiting.split_to(PART_BYTES);
            store_part(hub, command, parts, &part).await?;
            parts += 1;
        }
    }
    if parts == 0 && waiting.len() <= INLINE_BYTES {
        return Ok(ReplyContent::Inline(STANDARD.encode(waiting)));
    }
    if !waiting.is_empty() {
        store_part(hub, command, parts, &waiting).await?;
        parts += 1;
    }
    Ok(ReplyContent::Spilled {
        name: command.to_owned(),
        parts,
    })
}

/// The content as the body of a response.
pub(crate) fn read_content(hub: &Hub, content: ReplyContent) -> Result<Body, Problem> {
    match content {
        ReplyContent::Inline(text) => {
            let content = STANDARD.decode(text);
            Ok(content.map_err(|error| Problem::internal(&error))?.into())
        }
        ReplyContent::Spilled { name, parts } => {
            let hub = hub.clone();
            let pieces = stream::iter(0..parts).then(move |part| {
                let (hub, name) = (hub.clone(), name.clone());
                async move { take_part(&hub, &name, part).await }
            });
            Ok(Body::from_stream(pieces))
        }
    }
}

/// Deletes parts that were stored before this time.
pub(super) async fn forget_unread(hub: &Hub, before: Time) {
    let Ok(objects) = objects(hub) else {
        return;
    };
    let listed = match objects.list(DIRECTORY, MAX_FORGOTTEN).await {
        Ok(listed) => listed,
        Err(error) => {
            tracing::warn!(%error, "failed to list unread replies");
            return;
        }
    };
    for part in listed.iter().filter(|part| part.created_at < before) {
        if let Err(error) = objects.delete(&part.name).await {
            tracing::warn!(%error, "failed to delete an unread reply");
        }
    }
}

fn objects(hub: &Hub) -> Result<&Objects, Problem> {
    let shares = hub.files().objects.as_ref();
    let objects = shares.map(|shares| &shares.objects);
    objects.ok_or_else(|| Problem::internal(&"a reply of another node without object storage"))
}

fn part_name(command: &str, part: u32) -> String {
    format!("{DIRECTORY}/{command}/{part}")
}

async fn store_part(hub: &Hub, command: &str, part: u32, content: &[u8]) -> Result<(), Problem> {
    let name = part_name(command, part);
    let sealed = hub.encrypt_reply(&name, STANDARD.encode(content).as_bytes())?;
    let stored = objects(hub)?.create(&name, Bytes::from(sealed)).await;
    stored.map_err(|error| {
        tracing::warn!(%error, "failed to store a part of a reply");
        Problem::new(
            ProblemCode::Unavailable,
            "the node that works for this tenant cannot reach object storage; try again",
        )
        .with_retry_after(1000)
    })
}

async fn take_part(hub: &Hub, command: &str, part: u32) -> Result<Bytes, Problem> {
    let name = part_name(command, part);
    let objects = objects(hub)?;
    let read = objects.get(&name).await;
    let sealed = read.map_err(|error| Problem::internal(&error))?;
    let text = hub.decrypt_reply(&name, &sealed)?;
    let content = STANDARD.decode(text);
    let content = content.map_err(|error| Problem::internal(&error))?;
    if let Err(error) = objects.delete(&name).await {
        tracing::warn!(%error, "failed to delete a part of a reply");
    }
    Ok(content.into())
}
