//! What an image is: by its first bytes, and by the media type that somebody gives it.

/// The media types of images that models and browsers know.
const IMAGE_TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// Whether this is the media type of an image that models and browsers know.
pub fn is_image_type(media_type: &str) -> bool {
    IMAGE_TYPES.contains(&media_type)
}

/// The media type of an image that models and browsers know; `None` for anything else.
pub fn detect_image_type(bytes: &[u8]) -> Option<&'static str> {
    let is_webp = bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP");
    match bytes {
        [0x89, b'P', b'N', b'G', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
        _ if is_webp => Some("image/webp"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_known_by_their_first_bytes() {
        for (bytes, kind) in [
            (&b"\x89PNG\r\n\x1a\n"[..], Some("image/png")),
            (b"\xff\xd8\xff\xe0", Some("image/jpeg")),
            (b"GIF89a", Some("image/gif")),
            (b"RIFF0000WEBPVP8 ", Some("image/webp")),
            (b"RIFF0000WAVE", None),
            (b"<svg>", None),
            (b"", None),
        ] {
            assert_eq!(detect_image_type(bytes), kind);
            assert!(kind.is_none_or(is_image_type), "{kind:?}");
        }
        for other in ["image/svg+xml", "text/html", ""] {
            assert!(!is_image_type(other), "{other}");
        }
    }
}
