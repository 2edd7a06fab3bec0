//! HTTP requests of a login: metadata, registration, tokens. Bounded in size and time; redirects stay within their origin.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hermes_config::server::HttpSettings;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use serde_json::Value;
use url::{Origin, Url};

use super::{
    OAuthError,
    address::{AddressPolicy, display_url},
};
use crate::http_client;

/// One request, from the name's resolution to the end of the body.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);
/// More than any document here needs.
const MAX_RESPONSE_BYTES: usize = 1 << 20;
/// Redirects followed within one origin.
const MAX_REDIRECTS: usize = 3;
/// How much of another party's words is repeated.
const MAX_EXCERPT_CHARS: usize = 300;

/// The HTTP client of a login.
#[derive(Debug, Clone)]
pub(super) struct OAuthHttpClient {
    client: reqwest::Client,
    address_policy: AddressPolicy,
    /// Where the server itself is: the user chose that address.
    server_origin: Origin,
}

/// An answer, whatever its status.
#[derive(Debug)]
pub(super) struct OAuthResponse {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    body: Bytes,
}

impl OAuthResponse {
    /// The body, if it is JSON.
    pub(super) fn json(&self) -> Option<Value> {
        serde_json::from_slice(&self.body).ok()
    }

    /// `error` and `error_description`, if that is what the body holds.
    pub(super) fn oauth_error(&self) -> Option<OAuthError> {
        let body = self.json()?;
        let text = |key: &str| body.get(key).and_then(Value::as_str).map(one_line);
        Some(OAuthError::Refused {
            error: text("error")?,
            description: text("error_description"),
        })
    }

    pub(super) fn header(&self, name: &str) -> Option<String> {
        let value = self.headers.get(name)?.to_str().ok()?;
        Some(value.to_owned())
    }
}

impl OAuthHttpClient {
    /// Makes the client. It trusts the certificates that the server's settings name.
    pub(super) async fn new(settings: &HttpSettings) -> Result<Self, OAuthError> {
        let url = Url::parse(&settings.url).map_err(|error| OAuthError::Setting {
            key: "url",
            reason: error.to_string(),
        })?;
        let reach = AddressPolicy::for_server(&url).await;
        let client =
            http_client::authorization_client(settings, REQUEST_TIMEOUT, reach.resolver().as_ref())
                .map_err(|error| OAuthError::Setting {
                    key: "ssl_verify",
                    reason: error.to_string(),
                })?;
        Ok(Self {
            client,
            address_policy: reach,
            server_origin: url.origin(),
        })
    }

    /// Whether an address may be asked, or a person be sent there.
    pub(super) fn check(&self, url: &Url) -> Result<(), OAuthError> {
        if url.origin() == self.server_origin {
            return Ok(());
        }
        self.address_policy.check(url)
    }

    /// Fetches a document. A redirect is followed within its origin.
    pub(super) async fn get(&self, url: &Url) -> Result<OAuthResponse, OAuthError> {
        let mut url = url.clone();
        for _ in 0..=MAX_REDIRECTS {
            let reply = self
                .send(Method::GET, &url, HeaderMap::new(), Bytes::new())
                .await?;
            if !reply.status.is_redirection() {
                return Ok(reply);
            }
            url = redirect_target(&url, &reply)?;
        }
        Err(OAuthError::Unavailable {
            what: display_url(&url),
            reason: "it redirects too often".into(),
        })
    }

    /// Posts a form. What it holds is secret, so it goes to that address and nowhere else.
    pub(super) async fn post_form(
        &self,
        url: &Url,
        form: &[(&str, String)],
        mut headers: HeaderMap,
    ) -> Result<OAuthResponse, OAuthError> {
        let body = url::form_urlencoded::Serializer::new(String::new())
            .extend_pairs(form)
            .finish();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/x-www-form-urlencoded"),
        );
        self.post(url, headers, body.into()).await
    }

    pub(super) async fn post_json(
        &self,
        url: &Url,
        body: &Value,
    ) -> Result<OAuthResponse, OAuthError> {
        let mut headers = HeaderMap::new();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/json"),
        );
        self.post(url, headers, body.to_string().into()).await
    }

    async fn post(
        &self,
        url: &Url,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<OAuthResponse, OAuthError> {
        let reply = self.send(Method::POST, url, headers, body).await?;
        if reply.status.is_redirection() {
            let target = reply.header("location").unwrap_or_default();
            return Err(redirect_error(url, &target));
        }
        Ok(reply)
    }

    async fn send(
        &self,
        method: Method,
        url: &Url,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<OAuthResponse, OAuthError> {
        self.check(url)?;
        let unavailable = |reason: String| OAuthError::Unavailable {
            what: display_url(url),
            reason,
        };
        let request = self
            .client
            .request(method, url.clone())
            .header(header::ACCEPT, "application/json")
            .headers(headers)
            .body(body);
        let mut response = request
            .send()
            .await
            .map_err(|error| unavailable(root_cause(&error)))?;
        let mut body = BytesMut::new();
        while let Some(chunk) = response
            .chunk()
            .await
            .map_err(|error| unavailable(root_cause(&error)))?
        {
            if body.len() + chunk.len() > MAX_RESPONSE_BYTES {
                return Err(unavailable("the answer is too large".into()));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(OAuthResponse {
            status: response.status(),
            headers: std::mem::take(response.headers_mut()),
            body: body.freeze(),
        })
    }
}

fn redirect_target(url: &Url, reply: &OAuthResponse) -> Result<Url, OAuthError> {
    let target = reply.header("location").unwrap_or_default();
    let next = url
        .join(&target)
        .map_err(|_| redirect_error(url, &target))?;
    if next.origin() == url.origin() {
        Ok(next)
    } else {
        Err(redirect_error(url, next.as_str()))
    }
}

fn redirect_error(url: &Url, target: &str) -> OAuthError {
    let target = match url.join(target) {
        Ok(target) => display_url(&target),
        Err(_) => "nowhere".into(),
    };
    OAuthError::Redirected {
        url: display_url(url),
        target,
    }
}

/// Somebody else's words, short and on one line.
pub(super) fn one_line(text: &str) -> String {
    let words: Vec<&str> = text
        .split(|character: char| character.is_whitespace() || character.is_control())
        .filter(|word| !word.is_empty())
        .collect();
    words.join(" ").chars().take(MAX_EXCERPT_CHARS).collect()
}

fn root_cause(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return format!("there was no answer within {} s", REQUEST_TIMEOUT.as_secs());
    }
    let mut cause: &(dyn std::error::Error + 'static) = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
