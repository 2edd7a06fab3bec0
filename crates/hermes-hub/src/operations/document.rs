//! The operation table as documents: OpenAPI 3.1, an HTML page and Markdown.

mod markdown;
mod openapi;
mod page;

pub use markdown::reference as markdown;
pub use openapi::build_document as openapi;
pub(crate) use page::{CONTENT_SECURITY_POLICY, STYLESHEET, reference_html};

use hermes_config::sync::Mutex;

use http::{HeaderMap, HeaderValue, header};

use crate::{
    Problem,
    service::{
        NoInput,
        call::{Call, Reply, ReplyBody},
    },
};

/// The OpenAPI document as text, cached per URL.
pub(crate) fn openapi_text(public_url: &str) -> bytes::Bytes {
    static MADE: Mutex<Option<(String, bytes::Bytes)>> = Mutex::new(None);
    let mut made = MADE.lock();
    if let Some((url, text)) = &*made
        && url == public_url
    {
        return text.clone();
    }
    let text = bytes::Bytes::from(openapi(public_url).to_string());
    *made = Some((public_url.to_owned(), text.clone()));
    text
}

/// The operation that returns the OpenAPI document.
pub(crate) async fn serve_openapi(call: Call, _: NoInput) -> Result<Reply, Problem> {
    let text = openapi_text(&call.hub.settings().public_url);
    let headers = HeaderMap::from_iter([(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    )]);
    Ok(Reply {
        status: 200,
        etag: None,
        body: ReplyBody::Bytes(headers, axum::body::Body::from(text)),
    })
}
