//! Files in messages: `MEDIA:/path/to/file.png` in the text becomes an upload, if the file may be sent.

use std::{
    ops::Range,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use bytes::Bytes;
use regex::Regex;

mod gate;

pub(crate) use gate::MediaGate;

/// How `MEDIA:` tags and directives in double brackets are handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MediaPolicy {
    /// Sent literally.
    Literal,
    Upload,
}

/// How a platform should show a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MediaKind {
    Image,
    Video,
    Audio,
    Voice,
    Document,
}

impl MediaKind {
    /// Files of the same number share albums; `None` for those that stand alone.
    fn album(self) -> Option<u8> {
        match self {
            Self::Image | Self::Video => Some(0),
            Self::Audio => Some(1),
            Self::Document => Some(2),
            Self::Voice => None,
        }
    }
}

/// A file, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MediaFile {
    pub(super) path: PathBuf,
    pub(super) name: String,
    pub(super) kind: MediaKind,
    pub(super) content: Bytes,
}

/// Puts neighbouring files together that platforms show as one album.
pub(crate) fn join_albums<F>(
    files: impl IntoIterator<Item = F>,
    kind_of: impl Fn(&F) -> MediaKind,
    most: usize,
) -> Vec<Vec<F>> {
    let mut albums: Vec<Vec<F>> = Vec::new();
    for file in files {
        let kind = kind_of(&file).album();
        match albums.last_mut() {
            Some(album)
                if album.len() < most
                    && kind.is_some()
                    && album.first().map(|first| kind_of(first).album()) == Some(kind) =>
            {
                album.push(file);
            }
            _ => albums.push(vec![file]),
        }
    }
    albums
}

/// Larger files are not sent. No platform accepts more from a bot.
const MAX_FILE_BYTES: u64 = 128 << 20;

const AS_DOCUMENT: &str = "[[as_document]]";
const AS_VOICE: &str = "[[audio_as_voice]]";

/// The extensions that end a path.
const EXTENSIONS: &str = "png|jpe?g|gif|webp|bmp|tiff|svg|mp4|mov|avi|mkv|webm|mp3|wav|ogg|opus|m4a|flac|pdf|docx?|odt|\
    rtf|txt|md|epub|xlsx?|ods|csv|tsv|json|xml|ya?ml|pptx?|odp|key|zip|tar|gz|tgz|bz2|xz|7z|rar|apk|ipa|html?";

static MEDIA_TAG: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = format!(
        r#"MEDIA:[ \t]*(?<path>(?:~/|/|[A-Za-z]:[/\\])[^\n`"]*?\.(?i:{EXTENSIONS}))(?:[\s`"',;:)\]}}!?]|\.\s|\.?$)"#
    );
    Regex::new(&pattern).unwrap_or_else(|error| unreachable!("the pattern is a constant: {error}"))
});

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ExtractedMedia {
    pub(crate) text: String,
    /// The files, as they are written.
    pub(crate) paths: Vec<String>,
    images_as_documents: bool,
    audio_as_voice: bool,
}

pub(crate) fn extract_media(message: &str) -> ExtractedMedia {
    let mut taken: Vec<Range<usize>> = Vec::new();
    let mut paths = Vec::new();
    let mut from = 0;
    while let Some(positions) = MEDIA_TAG.captures_at(message, from) {
        let (Some(whole), Some(path)) = (positions.get(0), positions.name("path")) else {
            break;
        };
        // A path ends before the next tag.
        from = path.end();
        if let Some(next) = path.as_str().find("MEDIA:") {
            from = path.start() + next;
        } else if !is_protected(message, whole.start()) {
            taken.push(whole.start()..path.end());
            paths.push(path.as_str().to_owned());
        }
    }
    let mut has = |word: &str| {
        let places = message.match_indices(word).map(|(at, _)| at);
        let positions: Vec<usize> = places.filter(|at| !is_protected(message, *at)).collect();
        taken.extend(positions.iter().map(|at| *at..at + word.len()));
        !positions.is_empty()
    };
    let images_as_documents = has(AS_DOCUMENT);
    let audio_as_voice = has(AS_VOICE);
    taken.sort_by_key(|range| range.start);
    ExtractedMedia {
        text: remove_ranges(message, &taken),
        paths,
        images_as_documents,
        audio_as_voice,
    }
}

/// Whether a position is inside code, a quotation or a string, where a tag is an example.
fn is_protected(message: &str, place: usize) -> bool {
    let start = message[..place].rfind('\n').map_or(0, |at| at + 1);
    let before = &message[start..place];
    let fences = message[..start]
        .lines()
        .filter(|line| line.trim_start().starts_with("```"));
    let is_odd = |sign: char| before.matches(sign).count() % 2 == 1;
    fences.count() % 2 == 1
        || before.trim_start().starts_with('>')
        || is_odd('`')
        || is_odd('"')
        || before.ends_with('\'')
}

/// The text without these ranges, and without the empty lines they leave.
fn remove_ranges(text: &str, places: &[Range<usize>]) -> String {
    if places.is_empty() {
        return text.to_owned();
    }
    let mut left = String::new();
    let mut from = 0;
    for place in places {
        left.push_str(&text[from..place.start.max(from)]);
        from = place.end.max(from);
    }
    left.push_str(&text[from..]);
    while left.contains("\n\n\n") {
        left = left.replace("\n\n\n", "\n\n");
    }
    left.trim().to_owned()
}

impl ExtractedMedia {
    pub(super) fn literal(message: &str) -> Self {
        Self {
            text: message.to_owned(),
            paths: Vec::new(),
            images_as_documents: false,
            audio_as_voice: false,
        }
    }

    /// Reads the files. One that may not be sent, or cannot be read, becomes a warning.
    pub(super) async fn read_files(&self, gate: &MediaGate) -> (Vec<MediaFile>, Vec<String>) {
        let mut files = Vec::new();
        let mut warnings = Vec::new();
        for path in &self.paths {
            match self.read_file(path, gate).await {
                Ok(file) => files.push(file),
                Err(reason) => warnings.push(format!("`{path}` was not sent: {reason}")),
            }
        }
        (files, warnings)
    }

    /// The files that may be sent, with their kinds, and why others may not.
    pub(crate) async fn check_files(
        &self,
        gate: &MediaGate,
    ) -> (Vec<(PathBuf, MediaKind)>, Vec<String>) {
        let mut files = Vec::new();
        let mut warnings = Vec::new();
        for path in &self.paths {
            match check_file(path, gate).await {
                Ok(path) => {
                    let kind = self.kind(&path);
                    files.push((path, kind));
                }
                Err(reason) => warnings.push(format!("`{path}` was not sent: {reason}")),
            }
        }
        (files, warnings)
    }

    async fn read_file(&self, path: &str, gate: &MediaGate) -> Result<MediaFile, String> {
        let path = check_file(path, gate).await?;
        let no_file = |error: std::io::Error| error.to_string();
        let content = tokio::fs::read(&path).await.map_err(no_file)?;
        Ok(MediaFile {
            name: path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned(),
            kind: self.kind(&path),
            content: content.into(),
            path,
        })
    }

    fn kind(&self, path: &Path) -> MediaKind {
        let extension = path.extension().unwrap_or_default().to_string_lossy();
        match extension.to_ascii_lowercase().as_str() {
            "png" | "jpg" | "jpeg" | "webp" if !self.images_as_documents => MediaKind::Image,
            "mp4" | "mov" => MediaKind::Video,
            "ogg" | "opus" if self.audio_as_voice => MediaKind::Voice,
            "mp3" | "m4a" => MediaKind::Audio,
            _ => MediaKind::Document,
        }
    }
}

/// The resolved path of a file that may be sent, or why it may not.
pub(crate) async fn check_file(path: &str, gate: &MediaGate) -> Result<PathBuf, String> {
    let path = gate.check_path(path)?;
    let metadata = tokio::fs::metadata(&path)
        .await
        .map_err(|error| error.to_string())?;
    if !metadata.is_file() {
        return Err("it is not a file".into());
    }
    if metadata.len() > MAX_FILE_BYTES {
        return Err(format!("it is larger than {} MiB", MAX_FILE_BYTES >> 20));
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extracted(message: &str) -> (String, Vec<String>) {
        let extracted = extract_media(message);
        (extracted.text, extracted.paths)
    }

    #[test]
    fn tags_are_taken_out_of_the_text() {
        for (message, text, paths) in [
            ("Look: MEDIA:/tmp/a.png", "Look:", &["/tmp/a.png"][..]),
            ("MEDIA: ~/b c.PDF\nA report.", "A report.", &["~/b c.PDF"]),
            ("a\n\nMEDIA:/x.jpg\n\nb", "a\n\nb", &["/x.jpg"]),
            ("MEDIA:/a.png MEDIA:/b.ogg.", ".", &["/a.png", "/b.ogg"]),
            (
                "MEDIA:/a.unknown MEDIA:/b.png",
                "MEDIA:/a.unknown",
                &["/b.png"],
            ),
            (r"MEDIA:C:\x\y.zip", "", &[r"C:\x\y.zip"]),
            ("(MEDIA:/a.tar.gz)", "()", &["/a.tar.gz"]),
        ] {
            let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
            assert_eq!(extracted(message), (text.to_owned(), paths), "{message}");
        }
    }

    #[test]
    fn examples_stay_where_they_are() {
        for message in [
            "`MEDIA:/a.png`",
            "```\nMEDIA:/a.png\n```",
            "> MEDIA:/a.png",
            r#"{"path": "MEDIA:/a.png"}"#,
            "say 'MEDIA:/a.png'",
            "MEDIA:relative.png",
            "MEDIA:/no/extension",
            "MEDIA:/a.exe",
            "no media at all \n\n\n ",
            "`[[as_document]]`",
        ] {
            assert_eq!(
                extracted(message),
                (message.to_owned(), vec![]),
                "{message}"
            );
        }
    }

    #[test]
    fn words_in_brackets_change_how_files_are_shown() {
        use MediaKind::{Audio, Document, Image, Video, Voice};
        let kinds = |message: &str| {
            let extracted = extract_media(message);
            let paths = extracted.paths.iter();
            paths
                .map(|path| extracted.kind(Path::new(path)))
                .collect::<Vec<_>>()
        };
        let files = "MEDIA:/a.png MEDIA:/b.ogg MEDIA:/c.mp3 MEDIA:/d.mp4 MEDIA:/e.csv";
        assert_eq!(kinds(files), [Image, Document, Audio, Video, Document]);
        assert_eq!(kinds(&format!("[[as_document]] {files}"))[0], Document);
        assert_eq!(kinds(&format!("{files} [[audio_as_voice]]"))[1], Voice);
        assert_eq!(
            extract_media("[[as_document]] [[audio_as_voice]] x").text,
            "x"
        );
    }
}
