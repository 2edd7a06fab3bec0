//! Files for content that is not text.
//!
//! A file is named by a hash of its content: what a server sends twice is kept once.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use base64::{
    Engine, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use hermes_config::{
    detect_image_type,
    private_file::{FileDurability, FileOwner, WriteOptions, create_private_dirs, write_file},
};
use percent_encoding::percent_decode_str;
use sha2::{Digest, Sha256};

/// The longest base64 text that is decoded.
const MAX_BASE64_LENGTH: usize = 50 * 1024 * 1024;

/// The longest part of a document's file name that comes from the server.
const MAX_NAME_LENGTH: usize = 150;

/// The longest file extension (with its dot) that survives the cutting of a name.
const MAX_EXTENSION_LENGTH: usize = 12;

/// Servers leave out the padding or not; both are clear.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// What kind of content a file holds; decides directory and name.
#[derive(Debug, Clone)]
pub(super) enum MediaKind {
    Image,
    Audio,
    Document { uri: String },
}

impl MediaKind {
    pub(super) fn label(&self) -> &'static str {
        match self {
            Self::Image => "image",
            Self::Audio => "audio",
            Self::Document { .. } => "resource",
        }
    }

    fn directory(&self) -> &'static str {
        match self {
            Self::Image => "images",
            Self::Audio => "audio",
            Self::Document { .. } => "documents",
        }
    }

    fn file_name(&self, content: &[u8], mime_type: &str) -> Result<String, MediaError> {
        let mut start_of_hash = [0; 8];
        start_of_hash[2..].copy_from_slice(&Sha256::digest(content)[..6]);
        let digits = format!("{:012x}", u64::from_be_bytes(start_of_hash));
        Ok(match self {
            Self::Image => {
                let extension = image_extension(content).ok_or(MediaError::UnknownImage)?;
                format!("img_{digits}{extension}")
            }
            Self::Audio => format!("audio_{digits}{}", audio_extension(mime_type)),
            Self::Document { uri } => format!("doc_{digits}_{}", safe_name(uri)),
        })
    }
}

/// A file that is there now.
#[derive(Debug)]
pub(super) struct SavedMedia {
    pub(super) path: PathBuf,
    pub(super) size: usize,
}

/// Why there is no file.
#[derive(Debug, thiserror::Error)]
pub(super) enum MediaError {
    #[error("it is over 50 MiB")]
    TooLarge,
    #[error("its data is not valid base64")]
    NotBase64,
    #[error("its data is not a PNG, JPEG, GIF, BMP or WEBP picture")]
    UnknownImage,
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// Decodes the content and writes it to its file, off the async threads.
pub(super) async fn save_media_file(
    cache_dir: &Path,
    kind: MediaKind,
    base64: &str,
    mime_type: &str,
) -> Result<SavedMedia, MediaError> {
    if base64.len() > MAX_BASE64_LENGTH {
        return Err(MediaError::TooLarge);
    }
    let cache_dir = cache_dir.to_owned();
    let base64 = base64.to_owned();
    let mime_type = mime_type.to_owned();
    let task = tokio::task::spawn_blocking(move || {
        let content = decode(base64)?;
        let name = kind.file_name(&content, &mime_type)?;
        let directory = cache_dir.join(kind.directory());
        let path = directory.join(name);
        let is_there = fs::metadata(&path).is_ok_and(|file| file.len() == content.len() as u64);
        if !is_there {
            create_private_dirs(&directory, FileOwner::Writer)?;
            let options = WriteOptions {
                durability: FileDurability::Unsynced,
                ..WriteOptions::default()
            };
            write_file(&path, &content, options)?;
        }
        Ok(SavedMedia {
            path,
            size: content.len(),
        })
    });
    task.await.map_err(io::Error::other)?
}

fn decode(mut base64: String) -> Result<Vec<u8>, MediaError> {
    // Some encoders break lines.
    if base64.contains(|c: char| c.is_ascii_whitespace()) {
        base64.retain(|c| !c.is_ascii_whitespace());
    }
    BASE64.decode(base64).map_err(|_| MediaError::NotBase64)
}

/// The usual extension of a picture, told from its first bytes: servers often name the wrong type.
fn image_extension(content: &[u8]) -> Option<&'static str> {
    match detect_image_type(content) {
        Some("image/png") => Some(".png"),
        Some("image/jpeg") => Some(".jpg"),
        Some("image/gif") => Some(".gif"),
        Some("image/webp") => Some(".webp"),
        // People can open it, though models cannot.
        _ => content.starts_with(b"BM").then_some(".bmp"),
    }
}

fn audio_extension(mime_type: &str) -> String {
    let essence = mime_type.split(';').next().unwrap_or_default().trim();
    let subtype = essence.rsplit('/').next().unwrap_or_default();
    let subtype = subtype.to_ascii_lowercase();
    let subtype = subtype.strip_prefix("x-").unwrap_or(&subtype);
    let is_word = !subtype.is_empty() && subtype.bytes().all(|b| b.is_ascii_alphanumeric());
    let extension = match subtype {
        "mpeg" | "mpeg3" => "mp3",
        "wave" | "vnd.wave" => "wav",
        "mp4" => "m4a",
        _ if is_word && subtype.len() <= 8 => subtype,
        _ => "bin",
    };
    format!(".{extension}")
}

/// The last segment of a URI, fit to be part of a file name.
fn safe_name(uri: &str) -> String {
    let path = uri.split(['?', '#']).next().unwrap_or_default();
    let segment = path
        .trim_end_matches('/')
        .rsplit('/')
        .next()
        .unwrap_or_default();
    let decoded = percent_decode_str(segment).decode_utf8_lossy();
    let mut name: String = decoded
        .chars()
        .filter(|c| !c.is_control() && !matches!(c, '/' | '\\' | ':'))
        .collect();
    if name.len() > MAX_NAME_LENGTH {
        let extension = name.rfind('.').map_or("", |dot| &name[dot..]);
        let extension = if extension.len() <= MAX_EXTENSION_LENGTH {
            extension
        } else {
            ""
        };
        let stem = name.floor_char_boundary(MAX_NAME_LENGTH - extension.len());
        name = format!("{}{extension}", &name[..stem]);
    }
    if name.is_empty() {
        "resource".into()
    } else {
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_are_told_by_their_first_bytes() {
        assert_eq!(image_extension(b"\x89PNG\r\n\x1a\n...."), Some(".png"));
        assert_eq!(image_extension(b"\xff\xd8\xff\xe0"), Some(".jpg"));
        assert_eq!(image_extension(b"GIF87a"), Some(".gif"));
        assert_eq!(image_extension(b"GIF89a"), Some(".gif"));
        assert_eq!(image_extension(b"BM...."), Some(".bmp"));
        assert_eq!(image_extension(b"RIFF\0\0\0\0WEBPVP8 "), Some(".webp"));
        assert_eq!(image_extension(b"RIFF\0\0\0\0WAVEfmt "), None);
        assert_eq!(image_extension(b"<svg/>"), None);
        assert_eq!(image_extension(b""), None);
    }

    #[test]
    fn audio_extensions_come_from_the_type() {
        for (mime_type, extension) in [
            ("audio/mpeg", ".mp3"),
            ("audio/wav", ".wav"),
            ("audio/x-wav", ".wav"),
            ("audio/vnd.wave", ".wav"),
            ("audio/ogg; codecs=opus", ".ogg"),
            ("audio/mp4", ".m4a"),
            ("AUDIO/FLAC", ".flac"),
            ("audio/../../etc", ".etc"),
            ("audio/../..", ".bin"),
            ("", ".bin"),
        ] {
            assert_eq!(audio_extension(mime_type), extension, "{mime_type}");
        }
    }

    #[test]
    fn names_keep_nothing_that_leads_elsewhere() {
        for (uri, name) in [
            ("file:///reports/q3.pdf", "q3.pdf"),
            ("https://host/a/b.csv?x=1/2#frag/ment", "b.csv"),
            ("file:///reports/", "reports"),
            (
                "demo://data/%2e%2e%2F%2e%2e%2Fetc%2Fpasswd",
                "....etcpasswd",
            ),
            ("file:///a%5Cb%00c%0Ad", "abcd"),
            ("file:///größe%20neu.txt", "größe neu.txt"),
            ("C:\\x\\y.txt", "Cxy.txt"),
            ("", "resource"),
            ("file:///", "file"),
        ] {
            assert_eq!(safe_name(uri), name, "{uri}");
        }
    }

    #[test]
    fn long_names_are_cut_before_a_short_extension() {
        let name = safe_name(&format!("file:///{}.tar", "a".repeat(300)));
        assert_eq!(name, format!("{}.tar", "a".repeat(146)));
        let name = safe_name(&format!("file:///{}.{}", "a".repeat(300), "b".repeat(12)));
        assert_eq!(name, "a".repeat(150));
        let name = safe_name(&format!("file:///{}.pdf", "ü".repeat(300)));
        assert_eq!(name, format!("{}.pdf", "ü".repeat(73)));
    }
}
