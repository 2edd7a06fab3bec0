//! Uploads as multipart forms.

use bytes::Bytes;
use reqwest::{
    Body,
    multipart::{Form, Part},
};

use super::media::MediaFile;

/// Text fields and files. Unlike a request's own form it can be sent repeatedly.
#[derive(Default)]
pub(super) struct UploadForm {
    texts: Vec<(String, String)>,
    files: Vec<FormFile>,
}

struct FormFile {
    field: String,
    name: String,
    content: Bytes,
}

impl UploadForm {
    pub(super) fn add_file(&mut self, field: impl Into<String>, file: &MediaFile) {
        self.files.push(FormFile {
            field: field.into(),
            name: encode_file_name(&file.name),
            content: file.content.clone(),
        });
    }

    pub(super) fn add_text(&mut self, name: &str, value: String) {
        self.texts.push((name.to_owned(), value));
    }

    /// The form of one request. Its length is known, so it is not sent in chunks.
    pub(super) fn to_form(&self) -> reqwest::Result<Form> {
        let texts = self.texts.iter().cloned();
        let mut form = texts.fold(Form::new(), |form, (name, value)| form.text(name, value));
        for file in &self.files {
            let part = Part::stream(Body::from(file.content.clone()))
                .file_name(file.name.clone())
                .mime_str("application/octet-stream")?;
            form = form.part(file.field.clone(), part);
        }
        Ok(form)
    }
}

/// Quotes and line breaks as browsers encode them: platforms do not read the backslashes that reqwest writes, and a
/// line break would begin another header.
pub(crate) fn encode_file_name(name: &str) -> String {
    name.replace('"', "%22")
        .replace('\r', "%0D")
        .replace('\n', "%0A")
}

#[cfg(test)]
mod tests {
    use futures::TryStreamExt as _;

    use super::{super::media::MediaKind, *};

    #[tokio::test]
    async fn names_stay_within_their_quotes() {
        let file = MediaFile {
            path: "/f".into(),
            name: "a\"; name=\"b\r\nX: y".into(),
            kind: MediaKind::Document,
            content: Bytes::from_static(b"content"),
        };
        let mut form = UploadForm::default();
        form.add_file("f", &file);
        let form = form.to_form().unwrap();
        let pieces: Vec<Bytes> = form.into_stream().try_collect().await.unwrap();
        let text = String::from_utf8(pieces.concat()).unwrap();
        assert!(
            text.contains("filename=\"a%22; name=%22b%0D%0AX: y\"\r\n"),
            "{text}"
        );
    }
}
