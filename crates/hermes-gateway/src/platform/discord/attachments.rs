//! Files of messages: what they are, and fetching them.

use std::{path::Path, time::Duration};

use serde_json::Value;
use tokio::io::AsyncWriteExt as _;

use super::{rest::DiscordRest, voice::VOICE_MESSAGE};
use crate::{
    platform::{Attachment, AttachmentKind, PostError},
    send::root_cause,
};

/// A transfer that takes longer is given up.
const TRANSFER_TIMEOUT: Duration = Duration::from_mins(10);

pub(super) fn decode(message: &Value) -> Vec<Attachment> {
    let is_voice = message["flags"].as_u64().unwrap_or_default() & VOICE_MESSAGE != 0;
    let files = message["attachments"].as_array();
    let files = files.into_iter().flatten();
    files
        .filter_map(|file| {
            let mime_type = file["content_type"].as_str().map(str::to_owned);
            Some(Attachment {
                kind: kind_of(mime_type.as_deref(), is_voice),
                reference: file["url"].as_str()?.to_owned(),
                name: file["filename"].as_str().map(str::to_owned),
                mime_type,
                size: file["size"].as_u64(),
            })
        })
        .collect()
}

fn kind_of(mime_type: Option<&str>, is_voice: bool) -> AttachmentKind {
    let family = mime_type.unwrap_or_default();
    match family.split('/').next().unwrap_or_default() {
        "audio" if is_voice => AttachmentKind::Voice,
        "audio" => AttachmentKind::Audio,
        "image" => AttachmentKind::Image,
        "video" => AttachmentKind::Video,
        _ => AttachmentKind::Document,
    }
}

/// Downloads a file, without the token: its address is all that is needed.
pub(super) async fn download(
    rest: &DiscordRest,
    attachment: &Attachment,
    file: &Path,
    max_bytes: u64,
) -> Result<(), PostError> {
    let refused = |reason: String| PostError::Refused { reason };
    let url = rest
        .check_address(&attachment.reference)
        .map_err(|reason| refused(format!("the address of the file is not usable: {reason}")))?;
    let too_large = || refused(format!("the file is larger than {} MiB", max_bytes >> 20));
    let transfer = async {
        let response = rest.http_client().get(url).send().await;
        let mut response = response.map_err(|error| temporary(&error))?;
        let status = response.status().as_u16();
        match status {
            200..300 => {}
            429 | 500.. => {
                return Err(PostError::Temporary {
                    reason: format!("the download failed with status {status}"),
                });
            }
            _ => return Err(refused(format!("the download failed with status {status}"))),
        }
        if response
            .content_length()
            .is_some_and(|length| length > max_bytes)
        {
            return Err(too_large());
        }
        let unwritable =
            |error: std::io::Error| refused(format!("the file cannot be written: {error}"));
        let mut output = tokio::fs::File::create(file).await.map_err(unwritable)?;
        let mut length = 0;
        while let Some(chunk) = response.chunk().await.map_err(|error| temporary(&error))? {
            length += chunk.len() as u64;
            if length > max_bytes {
                return Err(too_large());
            }
            output.write_all(&chunk).await.map_err(unwritable)?;
        }
        output.flush().await.map_err(unwritable)
    };
    match tokio::time::timeout(TRANSFER_TIMEOUT, transfer).await {
        Ok(result) => result,
        Err(_) => Err(PostError::Temporary {
            reason: "the download timed out".into(),
        }),
    }
}

fn temporary(error: &reqwest::Error) -> PostError {
    PostError::Temporary {
        reason: root_cause(error),
    }
}
