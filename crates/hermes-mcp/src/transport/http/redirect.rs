//! Redirects, followed hop by hop so that nothing secret leaves the origin it was configured for.
//!
//! The HTTP client reports every redirect as an error ([`RedirectReported`]); a [`Route`] then decides where the
//! request goes next, and whether secrets may go along.

use std::{error::Error, sync::Arc};

use http::{HeaderName, HeaderValue, Method, StatusCode};
use rmcp::transport::streamable_http_client::StreamableHttpError;
use url::Url;

use super::{HttpError, PeerError, headers::HttpTarget};
use crate::{
    http_client::{RedirectReported, without_query},
    oauth::{Credentials, OAuthError},
};

/// The longest chain of redirects followed for one request.
const MAX_REDIRECTS: usize = 10;

/// One request on its way: where it goes, and what may go along.
#[derive(Debug, Clone)]
pub(crate) struct Hop {
    /// The address of this request.
    pub(crate) url: Arc<str>,
    origin: HopOrigin,
    /// Headers made from a login, for this request alone.
    authorization: Vec<(HeaderName, HeaderValue)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HopOrigin {
    Configured,
    Foreign,
}

impl Hop {
    #[cfg(test)]
    pub(super) fn configured(url: Arc<str>) -> Self {
        Self {
            url,
            origin: HopOrigin::Configured,
            authorization: Vec::new(),
        }
    }

    #[cfg(test)]
    pub(super) fn with_authorization(self, value: &'static str) -> Self {
        let header = (http::header::AUTHORIZATION, HeaderValue::from_static(value));
        Self {
            authorization: vec![header],
            ..self
        }
    }

    /// Headers made from a login.
    pub(super) fn authorization(&self) -> &[(HeaderName, HeaderValue)] {
        &self.authorization
    }

    pub(super) fn is_configured_origin(&self) -> bool {
        self.origin == HopOrigin::Configured
    }

    /// A token or MCP session id, if it may be sent to this hop.
    pub(super) fn allow_secret<T>(&self, secret: Option<T>) -> Option<T> {
        secret.filter(|_| self.is_configured_origin())
    }
}

/// The hops of one request.
pub(super) struct Route<'a> {
    configured: &'a HttpTarget,
    method: Method,
    hop: Hop,
    redirects: usize,
}

impl<'a> Route<'a> {
    pub(super) fn new(configured: &'a HttpTarget, url: Arc<str>, method: Method) -> Self {
        let origin = if configured.is_origin_of(&url) {
            HopOrigin::Configured
        } else {
            HopOrigin::Foreign
        };
        Self {
            configured,
            method,
            hop: Hop {
                url,
                origin,
                authorization: Vec::new(),
            },
            redirects: 0,
        }
    }

    /// The next hop, with what may go along.
    pub(super) fn hop(&self, credentials: Option<&Credentials>) -> Result<Hop, OAuthError> {
        let mut hop = self.hop.clone();
        if let (Some(credentials), Some(url)) = (hop.allow_secret(credentials), self.url()) {
            hop.authorization = credentials.headers(&self.method, &url)?;
        }
        Ok(hop)
    }

    /// Whether the request has not left the configured origin.
    pub(super) fn is_at_configured_origin(&self) -> bool {
        self.hop.is_configured_origin()
    }

    /// Where the request is now.
    pub(super) fn url(&self) -> Option<Url> {
        Url::parse(&self.hop.url).ok()
    }

    /// Takes the redirect that a request failed with; any other failure is returned.
    pub(super) fn follow_redirect(
        &mut self,
        error: StreamableHttpError<reqwest::Error>,
    ) -> Result<(), PeerError> {
        let StreamableHttpError::Client(client_error) = &error else {
            return Err(super::error::from_rmcp(error));
        };
        let Some(redirect) = client_error
            .source()
            .and_then(|source| source.downcast_ref::<RedirectReported>())
        else {
            return Err(super::error::from_rmcp(error));
        };
        self.apply_redirect(redirect)
            .map_err(StreamableHttpError::Client)
    }

    fn apply_redirect(&mut self, redirect: &RedirectReported) -> Result<(), HttpError> {
        if !self.keeps_body(redirect.status) {
            return Err(HttpError::RedirectLosesMessage {
                status: redirect.status.as_u16(),
                target: without_query(&redirect.target),
            });
        }
        self.redirects += 1;
        if self.redirects > MAX_REDIRECTS {
            return Err(HttpError::TooManyRedirects {
                limit: MAX_REDIRECTS,
            });
        }
        let url: Arc<str> = redirect.target.as_str().into();
        // Once a request has left, it stays foreign: the way back was chosen by somebody else.
        if self.hop.is_configured_origin() && !self.configured.is_origin_of(&url) {
            self.configured
                .warn_of_foreign_redirect(&without_query(&redirect.target));
            self.hop.origin = HopOrigin::Foreign;
        }
        self.hop.url = url;
        Ok(())
    }

    /// 301 to 303 may turn any method into GET, so only requests without a body outlive them.
    fn keeps_body(&self, status: StatusCode) -> bool {
        matches!(self.method, Method::GET | Method::HEAD)
            || matches!(
                status,
                StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT
            )
    }
}
