//! The way to a collector: its address and headers, or the Hub's private route, and the requests to it.

use std::{
    env,
    sync::{Arc, OnceLock},
    time::Duration,
};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use hermes_config::Secret;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, header};
use opentelemetry_http::{HttpClient, HttpError};
use percent_encoding::percent_decode_str;
use reqwest::{Method, RequestBuilder, Url};
use tokio::runtime::Runtime;

use crate::private_routes::PrivateRoutes;

const TRACES_PATH: &str = "/v1/traces";
const HUB_URL: &str = "http://hub/internal/v1/traces";
const REQUEST_TIMEOUT: Duration = Duration::from_secs(4);
/// More of an answer is not read.
const MAX_REPLY_BYTES: usize = 64 * 1024;

/// Where spans go.
#[derive(Debug, Clone)]
pub(super) enum Destination {
    Collector {
        url: Url,
        headers: Arc<HeaderMap>,
    },
    /// The Hub of this tenant's agent, as soon as its key is known.
    Hub(&'static OnceLock<PrivateRoutes>),
}

impl Destination {
    /// A collector by its address, with or without the path for traces.
    pub(super) fn collector(endpoint: &str) -> Result<Self, String> {
        let mut url = parse_endpoint(endpoint)?;
        if !url.path().ends_with(TRACES_PATH) {
            let path = format!("{}{TRACES_PATH}", url.path().trim_end_matches('/'));
            url.set_path(&path);
        }
        Ok(Self::at(url))
    }

    /// The one that the standard variables name, if they do.
    pub(super) fn from_variables() -> Result<Option<Self>, String> {
        let of_variable = |name: &str| env::var(name).ok().filter(|value| !value.trim().is_empty());
        let wrong = |name: &str, reason: String| format!("variable `{name}`: {reason}");
        let name = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
        if let Some(endpoint) = of_variable(name) {
            let url = parse_endpoint(&endpoint).map_err(|reason| wrong(name, reason))?;
            return Ok(Some(Self::at(url)));
        }
        let name = "OTEL_EXPORTER_OTLP_ENDPOINT";
        let Some(endpoint) = of_variable(name) else {
            return Ok(None);
        };
        let mut url = parse_endpoint(&endpoint).map_err(|reason| wrong(name, reason))?;
        let path = format!("{}{TRACES_PATH}", url.path().trim_end_matches('/'));
        url.set_path(&path);
        Ok(Some(Self::at(url)))
    }

    fn at(url: Url) -> Self {
        Self::Collector {
            url,
            headers: Arc::default(),
        }
    }

    /// The same with the headers of the settings, or else of the standard variables.
    pub(super) fn with_headers(self, setting: Option<&Secret<String>>) -> Result<Self, String> {
        let Self::Collector { url, .. } = self else {
            return Ok(self);
        };
        let variables = [
            "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
            "OTEL_EXPORTER_OTLP_HEADERS",
        ];
        let headers = match setting {
            Some(text) => parse_headers(text.expose(), str::to_owned)
                .map_err(|reason| format!("setting `telemetry.headers`: {reason}"))?,
            None => match variables.iter().find_map(|name| env::var(name).ok()) {
                Some(text) => parse_headers(&text, |value| {
                    percent_decode_str(value).decode_utf8_lossy().into_owned()
                })
                .map_err(|reason| format!("variable `OTEL_EXPORTER_OTLP_HEADERS`: {reason}"))?,
                None => HeaderMap::new(),
            },
        };
        Ok(Self::Collector {
            url,
            headers: Arc::new(headers),
        })
    }

    pub(super) fn url(&self) -> &str {
        match self {
            Self::Collector { url, .. } => url.as_str(),
            Self::Hub(_) => HUB_URL,
        }
    }
}

fn parse_endpoint(text: &str) -> Result<Url, String> {
    let hint = "must be an address such as `http://localhost:4318`";
    let url = Url::parse(text.trim()).map_err(|error| format!("{hint}: {error}"))?;
    if matches!(url.scheme(), "http" | "https") && url.has_host() {
        Ok(url)
    } else {
        Err(hint.to_owned())
    }
}

/// Headers as `name=value`, with commas between them. Errors do not show values.
fn parse_headers(text: &str, decode: impl Fn(&str) -> String) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    let pairs = text.split(',').map(str::trim).filter(|it| !it.is_empty());
    for (index, pair) in pairs.enumerate() {
        let place = index + 1;
        let (name, value) = pair
            .split_once('=')
            .ok_or_else(|| format!("entry {place} must be `name=value`"))?;
        let name = HeaderName::from_bytes(name.trim().as_bytes())
            .map_err(|_| format!("entry {place} has a name that is not one of a header"))?;
        let mut value = HeaderValue::from_str(&decode(value.trim()))
            .map_err(|_| format!("entry {place} has a value that cannot be sent"))?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

/// Sends requests from threads without a runtime of their own: it brings one, which works only while it sends.
#[derive(Debug)]
pub(super) struct CollectorClient {
    destination: Destination,
    /// Made at the first request: certificates take time to read.
    tools: OnceLock<Option<RequestTools>>,
}

#[derive(Debug)]
struct RequestTools {
    runtime: Runtime,
    client: reqwest::Client,
}

impl CollectorClient {
    pub(super) fn new(destination: Destination) -> Self {
        Self {
            destination,
            tools: OnceLock::new(),
        }
    }

    /// Posts a batch and waits for the reply. Only for threads of the export.
    pub(super) fn post(&self, body: Bytes) -> Result<http::StatusCode, HttpError> {
        let mut headers = HeaderMap::new();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/x-protobuf"),
        );
        self.send(&headers, body).map(|reply| reply.status())
    }

    fn send(&self, headers: &HeaderMap, body: Bytes) -> Result<Response<Bytes>, HttpError> {
        let tools = self.tools.get_or_init(RequestTools::new).as_ref();
        let tools = tools.ok_or("there is no runtime to send with")?;
        let mut request = self.request(&tools.client)?;
        for (name, value) in headers {
            request = request.header(name, value);
        }
        if let Destination::Collector { headers, .. } = &self.destination {
            request = request.headers((**headers).clone());
        }
        // The runtime sleeps between batches, so a connection would not notice that it was closed.
        let request = request.header(header::CONNECTION, "close").body(body);
        tools
            .runtime
            .block_on(async { tokio::time::timeout(REQUEST_TIMEOUT, read_reply(request)).await? })
    }

    fn request(&self, client: &reqwest::Client) -> Result<RequestBuilder, HttpError> {
        match &self.destination {
            Destination::Collector { url, .. } => Ok(client.post(url.clone())),
            Destination::Hub(routes) => {
                let routes = routes.get().ok_or("the Hub is not connected yet")?;
                Ok(routes.request(Method::POST, Url::parse(HUB_URL)?))
            }
        }
    }
}

impl RequestTools {
    fn new() -> Option<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .ok()?;
        let client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .pool_max_idle_per_host(0)
            .user_agent(concat!("hermes/", env!("CARGO_PKG_VERSION")))
            .build()
            .ok()?;
        Some(Self { runtime, client })
    }
}

async fn read_reply(request: RequestBuilder) -> Result<Response<Bytes>, HttpError> {
    let mut reply = request.send().await?;
    let mut body = BytesMut::new();
    while let Some(chunk) = reply.chunk().await? {
        body.extend_from_slice(&chunk);
        if body.len() > MAX_REPLY_BYTES {
            return Err("the answer is too long".into());
        }
    }
    let mut response = Response::new(body.freeze());
    *response.status_mut() = reply.status();
    *response.headers_mut() = std::mem::take(reply.headers_mut());
    Ok(response)
}

#[async_trait]
impl HttpClient for CollectorClient {
    /// Blocks: the exporter calls it on its own thread, where nothing else waits.
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (parts, body) = request.into_parts();
        self.send(&parts.headers, body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url_of(endpoint: &str) -> String {
        Destination::collector(endpoint).unwrap().url().to_owned()
    }

    #[test]
    fn an_endpoint_gets_the_path_for_traces_unless_it_has_it() {
        let full = "http://localhost:4318/v1/traces";
        assert_eq!(url_of("http://localhost:4318"), full);
        assert_eq!(url_of("http://localhost:4318/"), full);
        assert_eq!(url_of(full), full);
        assert_eq!(
            url_of("https://otlp.example.com/tenant/7"),
            "https://otlp.example.com/tenant/7/v1/traces"
        );
    }

    #[test]
    fn an_endpoint_that_is_no_web_address_is_refused() {
        for wrong in ["localhost:4318", "grpc://localhost:4317", "", "http://"] {
            let error = Destination::collector(wrong).unwrap_err();
            assert!(error.contains("such as"), "{wrong}: {error}");
        }
    }

    #[test]
    fn headers_are_pairs_and_their_errors_keep_values_secret() {
        let headers = parse_headers("authorization=Bearer a=b, x-team = 7 ,", str::to_owned);
        let headers = headers.unwrap();
        assert_eq!(headers["authorization"], "Bearer a=b");
        assert_eq!(headers["x-team"], "7");
        assert!(headers["authorization"].is_sensitive());
        for wrong in ["hunter2", "a b=hunter2", "a=hunter2\u{1}"] {
            let error = parse_headers(wrong, str::to_owned).unwrap_err();
            assert!(error.contains("entry 1"), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
