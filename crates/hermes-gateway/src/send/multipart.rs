//! Multipart request bodies, for uploads.

use std::fmt::Write as _;

use bytes::Bytes;

/// A complete body, which can be sent repeatedly.
pub(super) struct Multipart {
    /// With the boundary.
    pub(super) content_type: String,
    pub(super) content: Bytes,
}

/// Builds a multipart body.
pub(super) struct MultipartForm {
    boundary: String,
    content: Vec<u8>,
}

impl MultipartForm {
    pub(super) fn new() -> Self {
        let random = || std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0);
        Self {
            // 128 random bits, which no file contains by chance.
            boundary: format!("hermes-{:016x}{:016x}", random(), random()),
            content: Vec::new(),
        }
    }

    pub(super) fn add_text(&mut self, name: &str, value: &str) {
        self.add_part(
            &format!("name=\"{}\"", quoted(name)),
            None,
            value.as_bytes(),
        );
    }

    pub(super) fn add_file(&mut self, name: &str, file_name: &str, content: &[u8]) {
        let disposition = format!(
            "name=\"{}\"; filename=\"{}\"",
            quoted(name),
            quoted(file_name)
        );
        self.add_part(&disposition, Some("application/octet-stream"), content);
    }

    fn add_part(&mut self, disposition: &str, content_type: Option<&str>, content: &[u8]) {
        let mut head = format!(
            "--{}\r\nContent-Disposition: form-data; {disposition}\r\n",
            self.boundary
        );
        if let Some(content_type) = content_type {
            let _ = write!(head, "Content-Type: {content_type}\r\n");
        }
        head.push_str("\r\n");
        self.content.extend_from_slice(head.as_bytes());
        self.content.extend_from_slice(content);
        self.content.extend_from_slice(b"\r\n");
    }

    pub(super) fn finish(mut self) -> Multipart {
        let end = format!("--{}--\r\n", self.boundary);
        self.content.extend_from_slice(end.as_bytes());
        Multipart {
            content_type: format!("multipart/form-data; boundary={}", self.boundary),
            content: self.content.into(),
        }
    }
}

/// Escapes quotes and line breaks in a name.
fn quoted(name: &str) -> String {
    name.replace('"', "%22")
        .replace('\r', "%0D")
        .replace('\n', "%0A")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_within_their_quotes() {
        let mut form = MultipartForm::new();
        form.add_file("f", "a\"; name=\"b\r\nX: y", b"content");
        let text = String::from_utf8(form.finish().content.to_vec()).unwrap();
        assert!(
            text.contains("filename=\"a%22; name=%22b%0D%0AX: y\"\r\n"),
            "{text}"
        );
    }

    #[test]
    fn no_two_forms_have_the_same_boundary() {
        assert_ne!(MultipartForm::new().boundary, MultipartForm::new().boundary);
    }
}
