//! The HTTP client of object storage is the one that everything else uses, with timeouts of its own: the one that
//! `object_store` brings would turn on HTTP/2 for the whole program.

use std::error::Error as _;

use async_trait::async_trait;
use http_body_util::BodyExt as _;
use object_store::{
    ClientConfigKey, ClientOptions,
    client::{
        HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
        HttpResponseBody, HttpService,
    },
};

use super::ObjectTimeouts;

#[derive(Debug)]
pub(super) struct HubConnector {
    pub(super) timeouts: ObjectTimeouts,
}

impl HttpConnector for HubConnector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let allows_http = options.get_config_value(&ClientConfigKey::AllowHttp);
        let client = reqwest::Client::builder()
            .user_agent(concat!("hermes-hub/", env!("CARGO_PKG_VERSION")))
            .https_only(allows_http.as_deref() != Some("true"))
            .connect_timeout(self.timeouts.connect)
            .read_timeout(self.timeouts.idle)
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|error| object_store::Error::Generic {
                store: "S3",
                source: error.into(),
            })?;
        Ok(HttpClient::new(HubHttpService(client)))
    }
}

#[derive(Debug)]
struct HubHttpService(reqwest::Client);

#[async_trait]
impl HttpService for HubHttpService {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (parts, body) = request.into_parts();
        let url = parts.uri.to_string().parse().map_err(
            |error: <reqwest::Url as std::str::FromStr>::Err| {
                HttpError::new(HttpErrorKind::Unknown, error)
            },
        )?;
        let mut request = reqwest::Request::new(parts.method, url);
        *request.headers_mut() = parts.headers;
        *request.body_mut() = Some(reqwest::Body::wrap(body));
        let response = self.0.execute(request).await.map_err(http_error)?;
        let response: http::Response<reqwest::Body> = response.into();
        let (parts, body) = response.into_parts();
        let body = HttpResponseBody::new(body.map_err(http_error));
        Ok(HttpResponse::from_parts(parts, body))
    }
}

/// Which errors `object_store` may answer with a retry.
fn http_error(error: reqwest::Error) -> HttpError {
    let kind = if error.is_timeout() {
        HttpErrorKind::Timeout
    } else if error.is_connect() {
        HttpErrorKind::Connect
    } else if error.is_decode() {
        HttpErrorKind::Decode
    } else {
        std::iter::successors(error.source(), super::error::source_of)
            .find_map(cause_kind)
            .unwrap_or(HttpErrorKind::Unknown)
    };
    HttpError::new(kind, error.without_url())
}

fn cause_kind(cause: &(dyn std::error::Error + 'static)) -> Option<HttpErrorKind> {
    if let Some(error) = cause.downcast_ref::<hyper::Error>() {
        if error.is_timeout() {
            return Some(HttpErrorKind::Timeout);
        }
        if error.is_closed() || error.is_incomplete_message() || error.is_body_write_aborted() {
            return Some(HttpErrorKind::Request);
        }
    }
    match cause.downcast_ref::<std::io::Error>()?.kind() {
        std::io::ErrorKind::TimedOut => Some(HttpErrorKind::Timeout),
        std::io::ErrorKind::ConnectionAborted
        | std::io::ErrorKind::ConnectionReset
        | std::io::ErrorKind::BrokenPipe
        | std::io::ErrorKind::UnexpectedEof => Some(HttpErrorKind::Interrupted),
        _ => None,
    }
}
