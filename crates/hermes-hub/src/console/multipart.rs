//! Forms with files (`multipart/form-data`), read piece by piece: a file is never in memory as a whole.

use axum::body::BodyDataStream;
use bytes::{Buf, Bytes, BytesMut};
use futures::StreamExt;
use http::{HeaderMap, header};
use memchr::memmem;

use crate::Problem;

/// What is before the content of a field.
const MAX_HEAD_BYTES: usize = 16 * 1024;
/// A field that is not a file.
const MAX_TEXT_BYTES: usize = 4 << 20;

/// A form that is being read.
pub(super) struct MultipartForm {
    stream: BodyDataStream,
    buffer: BytesMut,
    /// A line end, two dashes and the boundary.
    delimiter: Vec<u8>,
}

/// A field whose content comes next.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FieldHead {
    pub(super) name: String,
    /// Only files have one; it is empty where none was chosen.
    pub(super) file_name: Option<String>,
}

impl MultipartForm {
    pub(super) fn new(headers: &HeaderMap, stream: BodyDataStream) -> Result<Self, Problem> {
        let kind = headers.get(header::CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let boundary = kind
            .strip_prefix("multipart/form-data")
            .and_then(|rest| rest.split_once("boundary="))
            .map(|(_, boundary)| boundary.split(';').next().unwrap_or_default())
            .map(|boundary| boundary.trim().trim_matches('"'))
            .filter(|boundary| (1..=70).contains(&boundary.len()));
        let boundary = boundary.ok_or_else(|| {
            Problem::invalid("files are sent as `multipart/form-data`")
                .with_reason("unreadable_form")
        })?;
        // The first boundary has no line end before it: here it gets one.
        Ok(Self {
            stream,
            buffer: BytesMut::from("\r\n"),
            delimiter: format!("\r\n--{boundary}").into_bytes(),
        })
    }

    /// Goes to the next field, past what is left of this one.
    pub(super) async fn next_field(&mut self) -> Result<Option<FieldHead>, Problem> {
        while self.next_piece().await?.is_some() {}
        self.fill_to(self.delimiter.len() + 2).await?;
        self.buffer.advance(self.delimiter.len());
        if self.buffer.starts_with(b"--") {
            return Ok(None);
        }
        let end = loop {
            if let Some(end) = memmem::find(&self.buffer, b"\r\n\r\n") {
                break end;
            }
            if self.buffer.len() > MAX_HEAD_BYTES {
                return Err(Problem::invalid("the head of a field is too long")
                    .with_reason("unreadable_form"));
            }
            self.fill_to(self.buffer.len() + 1).await?;
        };
        let head = self.buffer.split_to(end);
        self.buffer.advance(4);
        let head = String::from_utf8_lossy(&head);
        let disposition = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            let is_wanted = name.trim().eq_ignore_ascii_case("content-disposition");
            is_wanted.then_some(value)
        });
        let disposition = disposition.unwrap_or_default();
        Ok(Some(FieldHead {
            name: quoted_value(disposition, "name").unwrap_or_default(),
            file_name: quoted_value(disposition, "filename"),
        }))
    }

    /// More of the content of the field; `None` at its end.
    pub(super) async fn next_piece(&mut self) -> Result<Option<Bytes>, Problem> {
        loop {
            match memmem::find(&self.buffer, &self.delimiter) {
                Some(0) => return Ok(None),
                Some(end) => return Ok(Some(self.buffer.split_to(end).freeze())),
                None => {}
            }
            // What is at the end may be the beginning of a delimiter.
            let sure = self.buffer.len().saturating_sub(self.delimiter.len());
            if sure > 0 {
                return Ok(Some(self.buffer.split_to(sure).freeze()));
            }
            self.fill_to(self.buffer.len() + 1).await?;
        }
    }

    /// All of a field that is not a file.
    pub(super) async fn text(&mut self) -> Result<String, Problem> {
        let mut text = Vec::new();
        while let Some(piece) = self.next_piece().await? {
            text.extend_from_slice(&piece);
            if text.len() > MAX_TEXT_BYTES {
                return Err(Problem::invalid("a field is too long; send it as a file")
                    .with_reason("large_field"));
            }
        }
        String::from_utf8(text).map_err(|_| {
            Problem::invalid("a field is not text in UTF-8").with_reason("unreadable_form")
        })
    }

    /// Reads on without keeping anything, so that a browser that still sends hears the answer.
    pub(super) async fn discard(&mut self, most: usize) {
        let mut seen = 0;
        while let Some(Ok(piece)) = self.stream.next().await {
            seen += piece.len();
            if seen > most {
                return;
            }
        }
    }

    async fn fill_to(&mut self, length: usize) -> Result<(), Problem> {
        let cut = || {
            Problem::invalid("the form ends before it is complete; send it again")
                .with_reason("cut_form")
        };
        while self.buffer.len() < length {
            let piece = self.stream.next().await.ok_or_else(cut)?;
            self.buffer.extend_from_slice(&piece.map_err(|_| cut())?);
        }
        Ok(())
    }
}

/// The value of `name="…"`. Browsers write `%22` for a quote in it.
fn quoted_value(disposition: &str, name: &str) -> Option<String> {
    let start = format!("; {name}=\"");
    let (_, rest) = disposition.split_once(&start)?;
    let (value, _) = rest.split_once('"')?;
    let decoded = value.replace("%22", "\"");
    Some(decoded.replace("%0D", "\r").replace("%0A", "\n"))
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn form(body: &str, size: usize) -> MultipartForm {
        let mut headers = HeaderMap::new();
        let kind = "multipart/form-data; boundary=XX";
        headers.insert(header::CONTENT_TYPE, kind.parse().unwrap());
        let pieces: Vec<Result<Bytes, std::io::Error>> = body
            .as_bytes()
            .chunks(size)
            .map(|piece| Ok(Bytes::copy_from_slice(piece)))
            .collect();
        let stream = Body::from_stream(futures::stream::iter(pieces)).into_data_stream();
        MultipartForm::new(&headers, stream).unwrap()
    }

    const BODY: &str = "--XX\r\nContent-Disposition: form-data; name=\"csrf\"\r\n\r\nabc\r\n--XX\r\n\
        content-disposition: form-data; name=\"file\"; filename=\"a%22b.txt\"\r\nContent-Type: text/html\r\n\r\n\
        one\r\n--X\r\n-two\r\n--XX--\r\n";

    #[tokio::test]
    async fn fields_and_files_are_read_however_they_are_cut() {
        for size in 1..BODY.len() {
            let mut form = form(BODY, size);
            let head = form.next_field().await.unwrap().unwrap();
            assert_eq!((head.name.as_str(), head.file_name), ("csrf", None));
            assert_eq!(form.text().await.unwrap(), "abc");
            let head = form.next_field().await.unwrap().unwrap();
            assert_eq!(head.file_name.as_deref(), Some("a\"b.txt"));
            assert_eq!(form.text().await.unwrap(), "one\r\n--X\r\n-two");
            assert_eq!(form.next_field().await.unwrap(), None, "{size}");
        }
    }

    #[tokio::test]
    async fn a_form_that_is_cut_is_refused() {
        for length in 0..BODY.len() - 4 {
            let mut form = form(&BODY[..length], 7);
            let read = async {
                while form.next_field().await?.is_some() {
                    form.text().await?;
                }
                Ok::<(), Problem>(())
            };
            assert!(read.await.is_err(), "{length}");
        }
    }
}
