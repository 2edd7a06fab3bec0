//! Pictures and sounds of a result. The host has saved them in the home's cache, and the text of the result names the files.

use std::{
    fs,
    path::{Path, PathBuf},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hermes_protocol::ResultMedia;

/// How the text of a result names a file.
const MARK: &str = "MEDIA:";
const MAX_FILES: usize = 20;
/// The most that all of them have, in bytes: a reply of an agent has 8 MiB at most, and base64 takes a third more.
const MAX_TOTAL_BYTES: u64 = 4 * 1024 * 1024;

/// The files that a text names, and whether one of them was left out.
pub(super) fn read_media(cache: &Path, text: &str) -> (Vec<ResultMedia>, bool) {
    let mut found = Vec::new();
    let mut rest = MAX_TOTAL_BYTES;
    let mut is_cut = false;
    let names = text.lines().filter_map(|line| line.strip_prefix(MARK));
    for path in names.filter_map(|name| cached_file(cache, name)) {
        // The server's text may name what is not a file of the cache, or not any more.
        let Ok(entry) = fs::symlink_metadata(&path) else {
            continue;
        };
        if !entry.is_file() {
            continue;
        }
        if entry.len() > rest || found.len() == MAX_FILES {
            is_cut = true;
            continue;
        }
        let Ok(content) = fs::read(&path) else {
            continue;
        };
        let Some(mime_type) = media_type(&path, &content) else {
            continue;
        };
        rest = rest.saturating_sub(content.len() as u64);
        found.push(ResultMedia {
            mime_type: mime_type.to_owned(),
            data: STANDARD.encode(content),
        });
    }
    (found, is_cut)
}

/// The path of a picture or sound in the cache. Other paths are not read, whatever the text says.
fn cached_file(cache: &Path, named: &str) -> Option<PathBuf> {
    let below = Path::new(named.trim()).strip_prefix(cache).ok()?;
    let (directory, name) = below.to_str()?.split_once('/')?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    let is_own = matches!(directory, "images" | "audio")
        && !name.starts_with('.')
        && name.bytes().all(is_plain);
    is_own.then(|| cache.join(directory).join(name))
}

/// What a browser may be told that it is: a picture by its content, a sound by the name that the host gave it.
fn media_type(path: &Path, content: &[u8]) -> Option<&'static str> {
    if path.parent()?.file_name()? == "images" {
        let is_bitmap = content.starts_with(b"BM");
        return hermes_config::detect_image_type(content)
            .or_else(|| is_bitmap.then_some("image/bmp"));
    }
    match path.extension()?.to_str()? {
        "wav" => Some("audio/wav"),
        "mp3" => Some("audio/mpeg"),
        "ogg" | "opus" => Some("audio/ogg"),
        "flac" => Some("audio/flac"),
        "m4a" | "mp4" => Some("audio/mp4"),
        "aac" => Some("audio/aac"),
        "webm" => Some("audio/webm"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_and_sounds_of_the_cache_are_read_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let cache = directory.path().join("cache");
        for (name, content) in [
            ("images/img_1.png", b"\x89PNG\r\n\x1a\n".as_slice()),
            ("images/img_2.png", b"<svg/>"),
            ("audio/audio_3.wav", b"RIFF"),
            ("documents/doc_4.png", b"\x89PNG"),
        ] {
            fs::create_dir_all(cache.join(name).parent().unwrap()).unwrap();
            fs::write(cache.join(name), content).unwrap();
        }
        let secret = directory.path().join("secret.png");
        fs::write(&secret, b"\x89PNG secret").unwrap();
        std::os::unix::fs::symlink(&secret, cache.join("images/link.png")).unwrap();
        let root = cache.display();
        let text = format!(
            "MEDIA:{root}/images/img_1.png\nMEDIA:{root}/images/img_2.png\nMEDIA:{root}/images/link.png\n\
             MEDIA:{root}/images/../../secret.png\nMEDIA:{}\nMEDIA:{root}/documents/doc_4.png\n\
             MEDIA:{root}/audio/audio_3.wav\nMEDIA:{root}/images/none.png\nno MEDIA:{root}/images/img_1.png",
            secret.display()
        );
        let (media, is_cut) = read_media(&cache, &text);
        let types: Vec<&str> = media.iter().map(|file| file.mime_type.as_str()).collect();
        assert_eq!(types, ["image/png", "audio/wav"]);
        assert!(!is_cut);
    }

    #[test]
    fn what_is_too_large_is_left_out_and_said() {
        let directory = tempfile::tempdir().unwrap();
        let images = directory.path().join("images");
        fs::create_dir_all(&images).unwrap();
        let file = fs::File::create(images.join("img_1.png")).unwrap();
        file.set_len(MAX_TOTAL_BYTES + 1).unwrap();
        let text = format!("MEDIA:{}/img_1.png", images.display());
        let (media, is_cut) = read_media(directory.path(), &text);
        assert!(media.is_empty() && is_cut);
    }
}
