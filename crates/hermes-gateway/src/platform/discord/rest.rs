//! Requests to Discord's REST API, and what their failures mean.

use std::time::Duration;

use hermes_agent::{policy::PolicyHandle, retry_after::parse_retry_after};
use hermes_config::{Platform, PlatformSettings};
use reqwest::{
    Client, Method, RequestBuilder, Response,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue},
    multipart::Form,
};
use serde_json::Value;
use url::Url;

use super::rate_limits::{RateLimits, RestRoute};
use crate::{
    platform::{PostError, clock::PlatformClock, wire_json::parse_wire_json},
    send::{ReachableAddresses, SendError, build_client, root_cause},
};

/// For refusals that do not say how long.
const DEFAULT_WAIT: Duration = Duration::from_secs(1);
const MAX_REPLY_BYTES: usize = 16 << 20;
/// Uploads may take this many times longer than other requests.
const UPLOAD_FACTOR: u32 = 10;

/// Discord's REST API, for one bot.
pub(super) struct DiscordRest {
    client: Client,
    base_url: String,
    addresses: ReachableAddresses,
    authorization: HeaderValue,
    limits: RateLimits,
    timeout: Duration,
    pub(super) clock: PlatformClock,
}

/// Why a request failed.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum DiscordFailure {
    RateLimited {
        wait: Duration,
    },
    /// No connection, or a failing server.
    Temporary {
        reason: String,
    },
    BadToken,
    /// Discord refuses it, with a code of its own.
    Refused {
        status: u16,
        code: u64,
        message: String,
    },
}

pub(super) enum RestBody<'b> {
    Nothing,
    Json(&'b Value),
    Form(Form),
}

impl DiscordRest {
    pub(super) fn new(
        settings: &PlatformSettings,
        policy: &PolicyHandle,
        timeout: Duration,
    ) -> Result<Self, SendError> {
        let platform = Platform::Discord;
        let Some(token) = &settings.token else {
            return Err(SendError::NotConfigured {
                platform: platform.name().into(),
            });
        };
        let authorization = HeaderValue::try_from(format!("Bot {}", token.expose()));
        let mut authorization = authorization.map_err(|_| SendError::BadAddress {
            platform,
            reason: "the token has invalid characters".into(),
        })?;
        authorization.set_sensitive(true);
        Ok(Self {
            client: build_client(platform, settings, policy.policy().egress())?,
            base_url: settings.base_url.trim_end_matches('/').to_owned(),
            addresses: ReachableAddresses::new(settings, policy),
            authorization,
            limits: RateLimits::default(),
            timeout,
            clock: PlatformClock::default(),
        })
    }

    pub(super) fn http_client(&self) -> &Client {
        &self.client
    }

    /// Checks an address that Discord returned.
    pub(super) fn check_address(&self, address: &str) -> Result<Url, String> {
        self.addresses.check(address)
    }

    pub(super) async fn get(&self, path: &str) -> Result<Value, DiscordFailure> {
        self.call(Method::GET, path, RestBody::Nothing).await
    }

    pub(super) async fn post(&self, path: &str, body: &Value) -> Result<Value, DiscordFailure> {
        self.call(Method::POST, path, RestBody::Json(body)).await
    }

    /// Sends one request. It is not sent where it would be refused for being too many.
    pub(super) async fn call(
        &self,
        method: Method,
        path: &str,
        body: RestBody<'_>,
    ) -> Result<Value, DiscordFailure> {
        let route = RestRoute::new(method.as_str(), path);
        self.limits
            .acquire(&route)
            .map_err(|wait| DiscordFailure::RateLimited { wait })?;
        let timeout = match &body {
            RestBody::Form(_) => self.timeout * UPLOAD_FACTOR,
            _ => self.timeout,
        };
        let request = self
            .client
            .request(method, format!("{}{path}", self.base_url))
            .header(AUTHORIZATION, &self.authorization)
            .timeout(timeout);
        let response = add_body(request, body).send().await;
        let response = response.map_err(|error| DiscordFailure::from_request(&error))?;
        let status = response.status().as_u16();
        let headers = response.headers().clone();
        self.clock.learn(&headers);
        self.limits.read_headers(&route, &headers);
        let bytes = read_body(response).await?;
        let reply: Value = parse_wire_json(&bytes).unwrap_or_default();
        match status {
            200..300 => Ok(reply),
            429 => {
                let wait = retry_after(&reply, &headers);
                // A refusal that is not Discord's own comes from what stands before it, and concerns everything.
                let is_global = reply["global"] == true
                    || headers.contains_key("x-ratelimit-global")
                    || reply["retry_after"].is_null();
                self.limits.close(&route, wait, is_global);
                Err(DiscordFailure::RateLimited { wait })
            }
            401 => Err(DiscordFailure::BadToken),
            408 | 500.. => Err(DiscordFailure::Temporary {
                reason: format!("Discord replied with status {status}"),
            }),
            _ => Err(DiscordFailure::Refused {
                status,
                code: reply["code"].as_u64().unwrap_or_default(),
                message: describe_refusal(&reply),
            }),
        }
    }
}

fn add_body(request: RequestBuilder, body: RestBody<'_>) -> RequestBuilder {
    match body {
        RestBody::Nothing => request,
        RestBody::Json(value) => request
            .header(CONTENT_TYPE, "application/json")
            .body(value.to_string()),
        RestBody::Form(form) => request.multipart(form),
    }
}

async fn read_body(mut response: Response) -> Result<Vec<u8>, DiscordFailure> {
    let mut bytes = Vec::new();
    loop {
        let chunk = response.chunk().await;
        match chunk.map_err(|error| DiscordFailure::from_request(&error))? {
            Some(chunk) if bytes.len() + chunk.len() <= MAX_REPLY_BYTES => {
                bytes.extend_from_slice(&chunk);
            }
            _ => return Ok(bytes),
        }
    }
}

fn retry_after(reply: &Value, headers: &HeaderMap) -> Duration {
    let told = reply["retry_after"].as_f64();
    let told = told.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    told.or_else(|| parse_retry_after(headers))
        .unwrap_or(DEFAULT_WAIT)
}

/// The message, and the first thing that is wrong with a field.
fn describe_refusal(reply: &Value) -> String {
    let message = reply["message"].as_str().unwrap_or("no reason given");
    let mut inner = &reply["errors"];
    while let Some(fields) = inner.as_object() {
        if let Some(reason) = inner["_errors"][0]["message"].as_str() {
            return format!("{message}: {reason}");
        }
        match fields.values().next() {
            Some(next) => inner = next,
            None => break,
        }
    }
    message.to_owned()
}

impl DiscordFailure {
    fn from_request(error: &reqwest::Error) -> Self {
        let reason = if error.is_timeout() {
            "Discord did not reply in time".into()
        } else {
            root_cause(error)
        };
        Self::Temporary { reason }
    }

    pub(super) fn has_code(&self, wanted: u64) -> bool {
        matches!(self, Self::Refused { code, .. } if *code == wanted)
    }
}

impl std::fmt::Display for DiscordFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::RateLimited { wait } => write!(f, "rate limited for {} s", wait.as_secs_f32()),
            Self::Temporary { reason } => f.write_str(reason),
            Self::BadToken => f.write_str("Discord does not accept the token"),
            Self::Refused {
                status, message, ..
            } => write!(f, "Discord API error ({status}): {message}"),
        }
    }
}

impl From<DiscordFailure> for PostError {
    fn from(failure: DiscordFailure) -> Self {
        let reason = failure.to_string();
        match failure {
            DiscordFailure::RateLimited { wait } => Self::RateLimited { wait },
            DiscordFailure::Temporary { reason } => Self::Temporary { reason },
            DiscordFailure::BadToken => Self::BadToken { reason },
            DiscordFailure::Refused { .. } => Self::Refused { reason },
        }
    }
}
