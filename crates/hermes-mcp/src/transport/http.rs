//! Streamable HTTP: the peer that rmcp's client transport sends through.
//!
//! rmcp keeps the MCP session, the protocol headers, resumption and the order of requests. [`HttpPeer`] puts each
//! request on the wire: the user's headers, redirects, size limits, and errors that say what happened. Opening event
//! streams and deleting sessions is left to rmcp's own reqwest client; posting is done here, because rmcp reads a
//! reply of any size and forgets the status of a refusal.

mod error;
mod failure;
mod headers;
mod observer;
mod preflight;
mod redirect;
mod reply;
mod size;

use std::{collections::HashMap, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::stream::BoxStream;
use hermes_config::server::HttpSettings;
use http::{HeaderName, HeaderValue, Method, header};
use rmcp::{
    model::ClientJsonRpcMessage,
    transport::{
        StreamableHttpClientTransport,
        common::{
            client_side_sse::ExponentialBackoff,
            http_header::{EVENT_STREAM_MIME_TYPE, HEADER_SESSION_ID, JSON_MIME_TYPE},
        },
        streamable_http_client::{
            SseError, StreamableHttpClient, StreamableHttpClientTransportConfig,
            StreamableHttpError, StreamableHttpPostResponse,
        },
    },
};
use sse_stream::Sse;

pub(crate) use self::reply::{
    discard_body, expect_events, expect_success, too_large, too_large_error,
};
pub use self::{
    error::{AuthChallenge, HttpError},
    failure::{HttpFailure, classify},
    headers::HttpSettingsError,
    preflight::{PreflightError, preflight},
};
use self::{
    headers::HttpTarget,
    redirect::{Hop, Route},
};
use crate::{
    oauth::{Authorizer, RefusalAction},
    transport::{health::ConnectionHealth, http::observer::RequestObserver},
};
use error::AuthorizedReply;

/// The largest JSON body or single event taken from a server.
pub const MAX_MESSAGE_BYTES: usize = 64 * 1024 * 1024;

/// POSTs in flight to one server; a POST that turned into an event stream no longer counts.
const MAX_CONCURRENT_POSTS: usize = 16;

/// The longest pause between attempts to reopen an event stream, where the server names none.
const MAX_STREAM_RETRY_DELAY: Duration = Duration::from_secs(30);

const ACCEPTED_TYPES: HeaderValue = HeaderValue::from_static("text/event-stream, application/json");

/// How often one request is repeated with other credentials: a nonce, a new token, more scopes.
const MAX_REPEATS: usize = 3;

/// What rmcp's transport reports over this peer.
pub type PeerError = StreamableHttpError<HttpError>;

/// One configured server, reached over HTTP.
#[derive(Debug, Clone)]
pub struct HttpPeer {
    client: reqwest::Client,
    target: Arc<HttpTarget>,
    authorizer: Option<Arc<Authorizer>>,
    observer: Arc<RequestObserver>,
}

impl HttpPeer {
    /// Joins a client from [`http_client::client`](crate::http_client::client) with the server's address and headers.
    pub fn new(
        client: reqwest::Client,
        settings: &HttpSettings,
    ) -> Result<Self, HttpSettingsError> {
        Ok(Self {
            client,
            target: Arc::new(HttpTarget::new(settings)?),
            authorizer: None,
            observer: Arc::default(),
        })
    }

    /// The same with tokens from a login.
    pub(crate) fn with_authorizer(self, authorizer: Arc<Authorizer>) -> Self {
        Self {
            authorizer: Some(authorizer),
            ..self
        }
    }

    /// The same, telling where requests make the server look gone.
    pub(crate) fn with_health(self, doubt: Arc<ConnectionHealth>) -> Self {
        Self {
            observer: Arc::new(RequestObserver::reporting_to(doubt)),
            ..self
        }
    }

    /// The configured address.
    pub(crate) fn url(&self) -> Arc<str> {
        self.target.url()
    }

    /// Sends a request by asking `send` for each hop of its way, and again with other credentials where the server does
    /// not take the first ones.
    pub(crate) async fn send_following_redirects<T, S, F>(
        &self,
        url: Arc<str>,
        method: Method,
        mut send: S,
    ) -> Result<T, PeerError>
    where
        T: AuthorizedReply,
        S: FnMut(Hop) -> F + Send,
        F: Future<Output = Result<T, StreamableHttpError<reqwest::Error>>> + Send,
    {
        let failed = |error| StreamableHttpError::Client(HttpError::OAuth(error));
        let mut repeats = 0;
        loop {
            let credentials = match &self.authorizer {
                Some(authorizer) => authorizer.credentials().await.map_err(failed)?,
                None => None,
            };
            let mut route = Route::new(&self.target, url.clone(), method.clone());
            let outcome = loop {
                let hop = route.hop(credentials.as_deref()).map_err(failed)?;
                match send(hop).await {
                    Ok(reply) => break Ok(reply),
                    Err(error) => match route.follow_redirect(error) {
                        Ok(()) => {}
                        Err(error) => break Err(error),
                    },
                }
            };
            // What another origin says about tokens is of no interest: it has seen none.
            let Some(authorizer) = self
                .authorizer
                .as_ref()
                .filter(|_| route.is_at_configured_origin())
            else {
                return outcome;
            };
            if let (Ok(reply), Some(url)) = (&outcome, route.url())
                && let Some(nonce) = reply.nonce()
            {
                authorizer.store_nonce(&url, &nonce);
            }
            let refusal = match &outcome {
                Ok(reply) => reply.refusal(),
                Err(error) => error::refusal_in(error),
            };
            let Some(refusal) = refusal.filter(|_| repeats < MAX_REPEATS) else {
                return outcome;
            };
            repeats += 1;
            match authorizer
                .handle_refusal(credentials.as_ref(), &refusal)
                .await
            {
                Ok(RefusalAction::Retry) => {}
                Ok(RefusalAction::GiveUp) => return outcome,
                Err(error) => return Err(failed(error)),
            }
        }
    }

    /// A request with every header that may go to this hop.
    pub(crate) fn build_request(
        &self,
        method: Method,
        hop: &Hop,
        protocol_headers: &HashMap<HeaderName, HeaderValue>,
        token: Option<&str>,
    ) -> reqwest::RequestBuilder {
        let mut request = self.client.request(method, hop.url.as_ref());
        if let Some(token) = hop.allow_secret(token) {
            request = request.bearer_auth(token);
        }
        for (name, value) in self.target.headers_for(hop, protocol_headers, token) {
            request = request.header(name, value);
        }
        request
    }
}

impl StreamableHttpClient for HttpPeer {
    type Error = HttpError;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, PeerError> {
        self.post_message_with_max_sse_event_size(
            uri,
            message,
            session_id,
            auth_header,
            custom_headers,
            MAX_MESSAGE_BYTES,
        )
        .await
    }

    async fn post_message_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
        max_sse_event_size: usize,
    ) -> Result<StreamableHttpPostResponse, PeerError> {
        let body = Bytes::from(serde_json::to_vec(&message)?);
        let trace = headers::trace_headers(&message);
        let sent = self
            .send_following_redirects(uri, Method::POST, |hop| {
                let mut request = self
                    .build_request(Method::POST, &hop, &custom_headers, auth_header.as_deref())
                    .header(header::ACCEPT, ACCEPTED_TYPES)
                    .header(header::CONTENT_TYPE, JSON_MIME_TYPE)
                    .body(body.clone());
                if let Some(session_id) = hop.allow_secret(session_id.as_deref()) {
                    request = request.header(HEADER_SESSION_ID, session_id);
                }
                for (name, value) in &trace {
                    request = request.header(*name, value);
                }
                async move { Ok(request.send().await?) }
            })
            .await;
        let session = self.observer.session_trust(session_id.as_deref());
        let outcome = match sent {
            Ok(response) => {
                reply::read_post_reply(response, &message, session, max_sse_event_size).await
            }
            Err(error) => Err(error),
        };
        self.observer
            .observe_reply(&message, session_id.as_ref(), outcome)
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), PeerError> {
        self.send_following_redirects(uri, Method::DELETE, |hop| {
            let headers = self
                .target
                .headers_for(&hop, &custom_headers, auth_header.as_deref());
            let token = hop.allow_secret(auth_header.clone());
            let session_id = hop.allow_secret(Some(session_id.clone()));
            async move {
                match session_id {
                    Some(session_id) => {
                        self.client
                            .delete_session(hop.url, session_id, token, headers)
                            .await
                    }
                    // Another origin has no business with the session, so there is nothing to delete there.
                    None => Ok(()),
                }
            }
        })
        .await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, PeerError> {
        self.get_stream_with_max_sse_event_size(
            uri,
            session_id,
            last_event_id,
            auth_header,
            custom_headers,
            MAX_MESSAGE_BYTES,
        )
        .await
    }

    // rmcp's own stream is used here: it alone can tell rmcp's reconnect loop that an event was too large, which
    // would otherwise be asked for again and again.
    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
        max_sse_event_size: usize,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, PeerError> {
        let opened = self.send_following_redirects(uri, Method::GET, |hop| {
            let headers = self
                .target
                .headers_for(&hop, &custom_headers, auth_header.as_deref());
            let token = hop.allow_secret(auth_header.clone());
            let session_id = hop.allow_secret(session_id.clone());
            let last_event_id = last_event_id.clone();
            async move {
                self.client
                    .get_stream_with_max_sse_event_size(
                        hop.url,
                        session_id,
                        last_event_id,
                        token,
                        headers,
                        max_sse_event_size,
                    )
                    .await
            }
        });
        let opened = opened.await;
        self.observer.observe_stream(&opened);
        opened
    }
}

/// How rmcp's transport works for this server. The peer adds the configured headers, so they are not repeated here.
pub fn transport_config(settings: &HttpSettings) -> StreamableHttpClientTransportConfig {
    let mut retry = ExponentialBackoff::default();
    retry.max_delay = Some(MAX_STREAM_RETRY_DELAY);
    let mut config = StreamableHttpClientTransportConfig::with_uri(settings.url.as_str())
        .max_concurrent_requests(MAX_CONCURRENT_POSTS)
        .max_sse_event_size(MAX_MESSAGE_BYTES)
        .reinit_on_expired_session(true);
    config.retry_config = Arc::new(retry);
    config
}

/// The transport to serve an MCP client on. It starts rmcp's worker task, which ends when the transport is closed or
/// dropped.
pub fn transport(
    settings: &HttpSettings,
    peer: HttpPeer,
) -> StreamableHttpClientTransport<HttpPeer> {
    StreamableHttpClientTransport::with_client(peer, transport_config(settings))
}

/// Whether a `Content-Type` is one that MCP speaks.
fn is_mcp_type(content_type: &str) -> bool {
    [JSON_MIME_TYPE, EVENT_STREAM_MIME_TYPE]
        .iter()
        .any(|known| has_type(content_type, known))
}

/// Compares a `Content-Type` with a media type, leaving parameters such as `charset` aside.
fn has_type(content_type: &str, media_type: &str) -> bool {
    content_type
        .split(';')
        .next()
        .is_some_and(|essence| essence.trim().eq_ignore_ascii_case(media_type))
}

/// The `Content-Type` of a reply, empty where there is none.
fn content_type(response: &reqwest::Response) -> &str {
    response
        .headers()
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
}
