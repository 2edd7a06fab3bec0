//! Files as they are: for download, and images for a preview. Nothing that a browser would run is ever a page of this
//! origin.

use axum::{
    body::{self, Body},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, header};

use hermes_config::detect_image_type;

use super::{FileTree, last_segment};
use crate::{
    Problem,
    console::{
        pages::full_problem_page,
        request::{CallOptions, PageRequest},
    },
    service::call::{Reply, ReplyBody},
};

/// Even a type that a browser guesses wrong can do nothing.
const FILE_POLICY: &str = "default-src 'none'; sandbox; frame-ancestors 'none'";
/// What decides about the type of an image.
const MAGIC_BYTES: u64 = 16;

/// The first bytes of a file.
pub(super) struct FileStart {
    pub(super) bytes: Bytes,
    pub(super) size: u64,
    pub(super) etag: String,
}

/// Reads no more than so much of a file, however large it is.
pub(super) async fn read_start(
    request: &PageRequest,
    tree: &FileTree,
    path: &str,
    most: u64,
) -> Result<FileStart, Problem> {
    let range = format!("bytes=0-{}", most.saturating_sub(1));
    let reply = match open_file(request, tree, path, Some(range)).await {
        // An empty file has no first byte.
        Err(problem) if problem.reason == Some("range") => {
            open_file(request, tree, path, None).await?
        }
        reply => reply?,
    };
    let etag = reply.etag.clone().unwrap_or_default();
    let ReplyBody::Bytes(headers, content) = reply.body else {
        return Err(Problem::internal(&"the reply is not a file"));
    };
    let length = usize::try_from(most).unwrap_or(usize::MAX);
    let bytes = body::to_bytes(content, length).await;
    let bytes = bytes.map_err(|error| Problem::internal(&error))?;
    let whole = headers.get(header::CONTENT_RANGE);
    let whole = whole.and_then(|range| range.to_str().ok()?.rsplit('/').next()?.parse().ok());
    Ok(FileStart {
        size: whole.unwrap_or(bytes.len() as u64),
        bytes,
        etag,
    })
}

async fn open_file(
    request: &PageRequest,
    tree: &FileTree,
    path: &str,
    range: Option<String>,
) -> Result<Reply, Problem> {
    let options = CallOptions {
        range,
        ..CallOptions::default()
    };
    let arguments = tree.arguments_with("path", path);
    request
        .call(tree.operations.download, arguments, options)
        .await
}

/// Sends a file, or a directory as an archive.
pub(in crate::console) async fn send_file(request: PageRequest) -> Response {
    match send(&request).await {
        Ok(response) => response,
        Err(problem) => full_problem_page(&request, &problem),
    }
}

async fn send(request: &PageRequest) -> Result<Response, Problem> {
    let tree = FileTree::of_request(request)?;
    if !request.may(tree.operations.download) {
        return Err(Problem::not_found("there is no such page").with_reason("no_page"));
    }
    let path = request.query("path").unwrap_or_default();
    let mut name = last_segment(path).to_owned();
    let mut kind = "application/octet-stream";
    let mut place = "attachment";
    let reply = if request.query("pack").is_some() && tree.group.is_none() {
        name = format!(
            "{}.tar.zst",
            if name.is_empty() { &tree.tenant } else { &name }
        );
        kind = "application/zstd";
        let mut arguments = tree.arguments_with("path", path);
        arguments["format"] = "tar.zst".into();
        let options = CallOptions::default();
        request
            .call(tree.operations.download, arguments, options)
            .await?
    } else if request.query("show").is_some() {
        let start = read_start(request, &tree, path, MAGIC_BYTES).await?;
        if let Some(image) = detect_image_type(&start.bytes) {
            (kind, place) = (image, "inline");
        }
        open_file(request, &tree, path, None).await?
    } else {
        let range = request.headers.get(header::RANGE);
        let range = range
            .and_then(|range| range.to_str().ok())
            .map(str::to_owned);
        open_file(request, &tree, path, range).await?
    };
    let status = reply.status;
    let ReplyBody::Bytes(given, content) = reply.body else {
        return Err(Problem::internal(&"the reply is not a file"));
    };
    let headers = file_headers(&given, kind, &format!("{place}; {}", file_name(&name)))?;
    Ok(finish(status, headers, content))
}

fn finish(status: u16, headers: HeaderMap, content: Body) -> Response {
    let mut response = (headers, content).into_response();
    *response.status_mut() = http::StatusCode::from_u16(status).unwrap_or_default();
    response
}

fn file_headers(given: &HeaderMap, kind: &'static str, place: &str) -> Result<HeaderMap, Problem> {
    let mut headers = HeaderMap::new();
    for name in [
        header::CONTENT_LENGTH,
        header::CONTENT_RANGE,
        header::ACCEPT_RANGES,
    ] {
        if let Some(value) = given.get(&name) {
            headers.insert(name, value.clone());
        }
    }
    let place = HeaderValue::from_str(place).map_err(|error| Problem::internal(&error))?;
    headers.insert(header::CONTENT_DISPOSITION, place);
    for (name, value) in [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_SECURITY_POLICY, FILE_POLICY),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    Ok(headers)
}

/// A name in any script, as headers have it.
fn file_name(name: &str) -> String {
    let mut encoded = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push('%');
            encoded.push_str(&hermes_config::to_hex(&[byte]).to_uppercase());
        }
    }
    format!("filename*=UTF-8''{encoded}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pictures_without_scripts_are_shown() {
        assert_eq!(
            detect_image_type(b"\x89PNG\r\n\x1a\n0000"),
            Some("image/png")
        );
        assert_eq!(detect_image_type(b"GIF89a"), Some("image/gif"));
        assert_eq!(detect_image_type(b"RIFF0000WEBPVP8 "), Some("image/webp"));
        for other in [
            &b"<svg xmlns="[..],
            b"<html>",
            b"%PDF-1.7",
            b"RIFF0000WAVE",
            b"",
        ] {
            assert_eq!(detect_image_type(other), None);
        }
    }

    #[test]
    fn a_name_cannot_end_its_header() {
        assert_eq!(
            file_name("a\r\n\"\u{202e}.txt"),
            "filename*=UTF-8''a%0D%0A%22%E2%80%AE.txt"
        );
    }
}
