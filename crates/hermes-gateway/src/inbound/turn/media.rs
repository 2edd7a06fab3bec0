//! Files that people send: downloaded into the home's cache under names of our own, and shown to the model. What was
//! spoken becomes text.

use std::path::{Path, PathBuf};

use futures::future;
use hermes_agent::{conversation::Agent, message::Part, speech::TranscriptionError};
use hermes_config::random::random_digits;
use tokio::sync::Semaphore;

use crate::platform::{Attachment, AttachmentKind, PlatformClient};

/// Larger files are not downloaded.
pub(in crate::inbound) const MAX_FILE_BYTES: u64 = 128 * 1024 * 1024;
/// Larger images are files for the model: no provider accepts them.
const MAX_IMAGE_BYTES: u64 = 20 * 1024 * 1024;
/// The longest part of a sender's file name that is kept, in characters.
const MAX_NAME_CHARS: usize = 80;

/// What became of an attachment.
#[derive(Debug, PartialEq)]
pub(in crate::inbound) enum ReceivedFile {
    Image {
        path: PathBuf,
        part: Part,
    },
    File {
        path: PathBuf,
        kind: AttachmentKind,
    },
    /// Something spoken.
    Voice {
        path: PathBuf,
        heard: TranscriptionResult,
    },
    Refused {
        name: String,
        reason: String,
    },
}

/// What is said in a voice message, or why that is not known.
pub(in crate::inbound) type TranscriptionResult = Result<String, TranscriptionError>;

/// What receives files.
pub(in crate::inbound) struct FileReceiver<'a> {
    pub(in crate::inbound) client: &'a dyn PlatformClient,
    pub(in crate::inbound) agent: &'a Agent,
    /// Bounds the transcriptions that go on at the same time.
    pub(in crate::inbound) transcriptions: &'a Semaphore,
}

impl FileReceiver<'_> {
    /// Downloads attachments side by side, in their order.
    pub(in crate::inbound) async fn receive_files(
        &self,
        attachments: &[Attachment],
    ) -> Vec<ReceivedFile> {
        let all = attachments
            .iter()
            .map(|attachment| self.receive_file(attachment));
        future::join_all(all).await
    }

    async fn receive_file(&self, attachment: &Attachment) -> ReceivedFile {
        let received = download_file(self, attachment).await;
        match received {
            ReceivedFile::File {
                path,
                kind: AttachmentKind::Voice,
            } => ReceivedFile::Voice {
                heard: self.transcribe(&path).await,
                path,
            },
            received => received,
        }
    }

    async fn transcribe(&self, path: &Path) -> TranscriptionResult {
        // It is never closed.
        let _permit = self.transcriptions.acquire().await.ok();
        let heard = self.agent.transcribe(path).await;
        if let Err(error) = &heard {
            tracing::warn!(%error, "voice message was not transcribed");
        }
        heard
    }
}

async fn download_file(receiver: &FileReceiver<'_>, attachment: &Attachment) -> ReceivedFile {
    let refused = |reason: String| ReceivedFile::Refused {
        name: shown_name(attachment),
        reason,
    };
    if let Some(size) = attachment.size.filter(|size| *size > MAX_FILE_BYTES) {
        let reason = format!(
            "it has {} MB, and {} MB is the limit",
            size >> 20,
            MAX_FILE_BYTES >> 20
        );
        return refused(reason);
    }
    let directory = receiver
        .agent
        .home()
        .path()
        .join("cache")
        .join(cache_folder(attachment.kind));
    if let Err(error) = tokio::fs::create_dir_all(&directory).await {
        return refused(format!("it could not be stored: {error}"));
    }
    let path = directory.join(cache_name(attachment));
    let downloaded = receiver.client.download(attachment, &path, MAX_FILE_BYTES);
    if let Err(error) = downloaded.await {
        let _ = tokio::fs::remove_file(&path).await;
        return refused(format!("it could not be downloaded: {error}"));
    }
    if attachment.kind == AttachmentKind::Image
        && let Some(part) = read_image(&path).await
    {
        return ReceivedFile::Image { path, part };
    }
    ReceivedFile::File {
        path,
        kind: attachment.kind,
    }
}

/// The image in a file, if it is one that models accept.
async fn read_image(path: &Path) -> Option<Part> {
    let size = tokio::fs::metadata(path).await.ok()?.len();
    if size > MAX_IMAGE_BYTES {
        return None;
    }
    let bytes = tokio::fs::read(path).await.ok()?;
    let media_type = hermes_config::detect_image_type(&bytes)?;
    Some(Part::from_image_bytes(media_type, &bytes))
}

fn cache_folder(kind: AttachmentKind) -> &'static str {
    match kind {
        AttachmentKind::Image => "images",
        AttachmentKind::Audio | AttachmentKind::Voice => "audio",
        AttachmentKind::Video => "videos",
        AttachmentKind::Document => "documents",
    }
}

/// A name that nobody else chose, with as much of the sender's as is harmless.
fn cache_name(attachment: &Attachment) -> String {
    let id = random_digits(12);
    match attachment.name.as_deref().map(clean_name) {
        Some(name) if !name.is_empty() => format!("{id}_{name}"),
        _ => format!("{id}.{}", default_extension(attachment)),
    }
}

/// The last part of a name, without what means something to a file system or a shell.
fn clean_name(name: &str) -> String {
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let kept: String = last
        .chars()
        .map(|letter| match letter {
            letter if letter.is_alphanumeric() => letter,
            '.' | '-' | '_' => letter,
            _ => '_',
        })
        .collect();
    let kept = kept.trim_start_matches(['.', '-', '_']);
    let length = kept.chars().count();
    // The end has the extension.
    kept.chars()
        .skip(length.saturating_sub(MAX_NAME_CHARS))
        .collect()
}

fn default_extension(attachment: &Attachment) -> &'static str {
    match attachment.mime_type.as_deref() {
        Some("image/png") => "png",
        Some("image/gif") => "gif",
        Some("image/webp") => "webp",
        Some("audio/mpeg") => "mp3",
        Some("audio/mp4") => "m4a",
        Some("application/pdf") => "pdf",
        _ => match attachment.kind {
            AttachmentKind::Image => "jpg",
            AttachmentKind::Video => "mp4",
            AttachmentKind::Audio => "mp3",
            AttachmentKind::Voice => "ogg",
            AttachmentKind::Document => "bin",
        },
    }
}

/// The sender's name of a file, for sentences.
fn shown_name(attachment: &Attachment) -> String {
    let name = attachment.name.as_deref().map(clean_name);
    name.filter(|name| !name.is_empty()).unwrap_or_else(|| {
        match attachment.kind {
            AttachmentKind::Image => "a picture",
            AttachmentKind::Video => "a video",
            AttachmentKind::Audio => "a sound file",
            AttachmentKind::Voice => "a voice message",
            AttachmentKind::Document => "a file",
        }
        .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attachment(name: Option<&str>) -> Attachment {
        Attachment {
            kind: AttachmentKind::Document,
            reference: "r".into(),
            name: name.map(str::to_owned),
            mime_type: None,
            size: None,
        }
    }

    #[test]
    fn a_name_cannot_lead_out_of_the_cache() {
        for (name, kept) in [
            ("../../x", "x"),
            ("/etc/passwd", "passwd"),
            ("..\\..\\boot.ini", "boot.ini"),
            (".ssh", "ssh"),
            ("-rf", "rf"),
            ("a b;c\n.txt", "a_b_c_.txt"),
            ("Überblick.pdf", "Überblick.pdf"),
            ("..", ""),
        ] {
            assert_eq!(clean_name(name), kept, "{name}");
            let stored = cache_name(&attachment(Some(name)));
            assert!(!stored.contains(['/', '\\']), "{stored}");
            assert!(!stored.starts_with('.'), "{stored}");
        }
        let long = format!("{}.txt", "x".repeat(500));
        assert!(clean_name(&long).ends_with("x.txt"));
        assert_eq!(clean_name(&long).chars().count(), MAX_NAME_CHARS);
        let named = cache_name(&attachment(None));
        assert_eq!(std::path::Path::new(&named).extension().unwrap(), "bin");
    }
}
