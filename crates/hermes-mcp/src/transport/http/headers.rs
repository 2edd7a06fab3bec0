//! What the user configured for a server: its address and the headers sent to that origin and to no other.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Once},
};

use hermes_config::{
    server::HttpSettings,
    trace_context::{TRACEPARENT, TRACESTATE},
};
use http::{HeaderName, HeaderValue, header};
use rmcp::model::{ClientJsonRpcMessage, GetMeta as _, JsonRpcMessage};
use url::{Origin, Url};

use super::redirect::Hop;

/// The one protocol header a user may set.
const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// Headers that belong to the protocol or the connection: a configured one is left out.
const RESERVED: &[&str] = &[
    "accept",
    "connection",
    "content-length",
    "content-type",
    "host",
    "last-event-id",
    "mcp-session-id",
    "transfer-encoding",
];

/// Settings that no request can be made of. Header values are never repeated: they tend to be secrets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HttpSettingsError {
    /// The address is not an http(s) URL with a host.
    #[error("`url` is not usable: {reason}")]
    Url { reason: String },
    /// A header's name has characters that HTTP does not allow.
    #[error("`headers`: `{name}` is not a valid header name")]
    HeaderName { name: String },
    /// A header's value has characters that HTTP does not allow.
    #[error(
        "`headers.{name}`: the value has characters a header cannot carry, such as a line break"
    )]
    HeaderValue { name: String },
}

/// The place of a request in a trace, as headers: proxies and servers that do not read messages know them.
pub(super) fn trace_headers(message: &ClientJsonRpcMessage) -> Vec<(&'static str, HeaderValue)> {
    let JsonRpcMessage::Request(message) = message else {
        return Vec::new();
    };
    let meta = message.request.get_meta();
    let values = [
        (TRACEPARENT, meta.get_traceparent()),
        (TRACESTATE, meta.get_tracestate()),
    ];
    values
        .into_iter()
        .filter_map(|(name, value)| Some((name, HeaderValue::from_str(value?).ok()?)))
        .collect()
}

/// Address and headers of one server.
pub(super) struct HttpTarget {
    url: Arc<str>,
    origin: Origin,
    headers: HashMap<HeaderName, HeaderValue>,
    foreign_redirect: Once,
}

impl HttpTarget {
    pub(super) fn new(settings: &HttpSettings) -> Result<Self, HttpSettingsError> {
        let url = parse_url(&settings.url)?;
        let mut headers = HashMap::with_capacity(settings.headers.len());
        for (name, value) in &settings.headers {
            let (name, value) = parse_header(name, value)?;
            if RESERVED.contains(&name.as_str()) {
                tracing::warn!("`headers.{name}` is ignored: the protocol sets it");
                continue;
            }
            headers.insert(name, value);
        }
        Ok(Self {
            url: settings.url.as_str().into(),
            origin: url.origin(),
            headers,
            foreign_redirect: Once::new(),
        })
    }

    pub(super) fn url(&self) -> Arc<str> {
        self.url.clone()
    }

    /// Whether a URL has the configured scheme, host and port.
    pub(super) fn is_origin_of(&self, url: &str) -> bool {
        *url == *self.url || Url::parse(url).is_ok_and(|url| url.origin() == self.origin)
    }

    /// The headers of a request besides those that every request of its kind has.
    ///
    /// Protocol headers win over configured ones, but for the protocol version. A token takes the place of a
    /// configured `Authorization`.
    pub(super) fn headers_for(
        &self,
        hop: &Hop,
        protocol_headers: &HashMap<HeaderName, HeaderValue>,
        token: Option<&str>,
    ) -> HashMap<HeaderName, HeaderValue> {
        let mut headers = protocol_headers.clone();
        if !hop.is_configured_origin() {
            return headers;
        }
        let has_token = token.is_some() || !hop.authorization().is_empty();
        headers.extend(hop.authorization().iter().cloned());
        for (name, value) in &self.headers {
            if has_token && name == header::AUTHORIZATION {
                continue;
            }
            if name == PROTOCOL_VERSION || !headers.contains_key(name) {
                headers.insert(name.clone(), value.clone());
            }
        }
        headers
    }

    /// Says once that headers stay behind, since a server that needs them will now refuse.
    pub(super) fn warn_of_foreign_redirect(&self, target: &str) {
        self.foreign_redirect.call_once(|| {
            tracing::warn!(
                "{} redirects to {target}: configured headers and tokens are not sent there; set `url` to that \
                 address if you trust it",
                self.origin.ascii_serialization(),
            );
        });
    }
}

impl fmt::Debug for HttpTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Configured")
            .field("origin", &self.origin.ascii_serialization())
            .field("headers", &self.headers.keys())
            .finish_non_exhaustive()
    }
}

fn parse_url(text: &str) -> Result<Url, HttpSettingsError> {
    let bad = |reason: String| HttpSettingsError::Url { reason };
    let url = Url::parse(text).map_err(|error| bad(error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(bad(format!(
            "the scheme is `{}`, not http or https",
            url.scheme()
        )));
    }
    Ok(url)
}

fn parse_header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), HttpSettingsError> {
    let header = HeaderName::try_from(name)
        .map_err(|_| HttpSettingsError::HeaderName { name: name.into() })?;
    let mut value = HeaderValue::try_from(value)
        .map_err(|_| HttpSettingsError::HeaderValue { name: name.into() })?;
    value.set_sensitive(true);
    Ok((header, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(headers: &[(&str, &str)]) -> HttpSettings {
        HttpSettings {
            url: "https://mcp.example/mcp".into(),
            headers: headers
                .iter()
                .map(|(name, value)| ((*name).into(), (*value).into()))
                .collect(),
            ..HttpSettings::default()
        }
    }

    fn sent(configured: &HttpTarget, protocol: &[(&'static str, &'static str)]) -> Vec<String> {
        let protocol = protocol
            .iter()
            .map(|(name, value)| {
                (
                    HeaderName::from_static(name),
                    HeaderValue::from_static(value),
                )
            })
            .collect();
        let hop = Hop::configured(configured.url());
        let mut sent: Vec<_> = configured
            .headers_for(&hop, &protocol, None)
            .into_iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect();
        sent.sort();
        sent
    }

    #[test]
    fn a_configured_protocol_version_wins_and_other_protocol_headers_do_not_give_way() {
        let configured = HttpTarget::new(&settings(&[
            ("MCP-Protocol-Version", "2025-03-26"),
            ("Mcp-Method", "made/up"),
            ("X-Key", "k"),
        ]))
        .unwrap();
        assert_eq!(
            sent(
                &configured,
                &[
                    ("mcp-protocol-version", "2025-11-25"),
                    ("mcp-method", "ping")
                ]
            ),
            [
                "mcp-method: ping",
                "mcp-protocol-version: 2025-03-26",
                "x-key: k"
            ]
        );
    }

    #[test]
    fn headers_of_the_protocol_and_the_connection_are_left_out() {
        let configured = HttpTarget::new(&settings(&[
            ("Accept", "text/html"),
            ("Host", "other"),
            ("Mcp-Session-Id", "stolen"),
            ("X-Key", "k"),
        ]))
        .unwrap();
        assert_eq!(sent(&configured, &[]), ["x-key: k"]);
    }

    #[test]
    fn a_token_replaces_the_configured_authorization() {
        let configured = HttpTarget::new(&settings(&[("Authorization", "Basic abc")])).unwrap();
        let hop = Hop::configured(configured.url());
        let none = HashMap::new();
        assert_eq!(configured.headers_for(&hop, &none, None).len(), 1);
        assert_eq!(configured.headers_for(&hop, &none, Some("token")).len(), 0);
        let sent = configured.headers_for(&hop.with_authorization("Bearer t"), &none, None);
        assert_eq!(sent[&header::AUTHORIZATION], "Bearer t");
    }

    #[test]
    fn errors_name_the_header_and_never_its_value() {
        let error = HttpTarget::new(&settings(&[("X-Key", "se\ncret")])).unwrap_err();
        assert_eq!(
            error,
            HttpSettingsError::HeaderValue {
                name: "X-Key".into()
            }
        );
        assert!(!error.to_string().contains("cret"));
        let error = HttpTarget::new(&settings(&[("X Key", "v")])).unwrap_err();
        assert_eq!(
            error.to_string(),
            "`headers`: `X Key` is not a valid header name"
        );
    }

    #[test]
    fn only_http_urls_are_taken() {
        for url in ["ftp://host/", "mcp.example/mcp", "http://"] {
            let settings = HttpSettings {
                url: url.into(),
                ..HttpSettings::default()
            };
            assert!(matches!(
                HttpTarget::new(&settings),
                Err(HttpSettingsError::Url { .. })
            ));
        }
    }

    #[test]
    fn debug_output_shows_no_header_value() {
        let configured = HttpTarget::new(&settings(&[("X-Key", "hush")])).unwrap();
        assert!(!format!("{configured:?}").contains("hush"));
    }
}
