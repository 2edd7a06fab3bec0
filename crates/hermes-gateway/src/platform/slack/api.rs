//! Slack's Web API: one request each, and its errors by name.

use std::{collections::BTreeSet, time::Duration};

use hermes_agent::{policy::PolicyHandle, retry_after::parse_retry_after};
use hermes_config::{Platform, PlatformSettings, Secret, sync::Mutex};
use reqwest::{
    Client, Response,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue},
};
use serde_json::Value;
use url::Url;

use crate::{
    platform::{PostError, clock::PlatformClock, wire_json::parse_wire_json},
    send::{ReachableAddresses, SendError, build_client, root_cause},
};

/// A reply with more bytes is not one of Slack's.
const MAX_REPLY_BYTES: usize = 16 << 20;
/// Where Slack does not say how long to wait.
const DEFAULT_WAIT: Duration = Duration::from_secs(5);

pub(super) struct SlackApi {
    client: Client,
    base_url: String,
    addresses: ReachableAddresses,
    token: Secret<String>,
    timeout: Duration,
    pub(super) clock: PlatformClock,
    /// Methods that this Slack does not know, or this app may not use.
    unsupported: Mutex<BTreeSet<&'static str>>,
}

/// Why a request failed.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum SlackFailure {
    /// Slack's name of the error, and the scope that is missing.
    Named {
        error: String,
        needed: Option<String>,
    },
    RateLimited {
        wait: Duration,
    },
    /// There was no connection, or a server failed.
    Temporary {
        reason: String,
    },
}

pub(super) enum SlackBody<'b> {
    Json(&'b Value),
    /// Methods that read take forms only.
    Form(&'b [(&'b str, &'b str)]),
}

impl SlackApi {
    pub(super) fn new(
        settings: &PlatformSettings,
        policy: &PolicyHandle,
        timeout: Duration,
    ) -> Result<Self, SendError> {
        let Some(token) = settings.token.clone() else {
            return Err(SendError::NotConfigured {
                platform: Platform::Slack.name().into(),
            });
        };
        Ok(Self {
            client: build_client(Platform::Slack, settings, policy.policy().egress())?,
            base_url: settings.base_url.trim_end_matches('/').to_owned(),
            addresses: ReachableAddresses::new(settings, policy),
            token,
            timeout,
            clock: PlatformClock::default(),
            unsupported: Mutex::default(),
        })
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    pub(super) fn token(&self) -> &Secret<String> {
        &self.token
    }

    /// A URL that Slack returned, if it can be used.
    pub(super) fn check_url(&self, address: &str) -> Result<Url, String> {
        self.addresses.check(address)
    }

    /// Whether the bot's token may be sent there: to Slack, or to where its API is said to be.
    pub(super) fn may_see_token(&self, url: &Url) -> bool {
        let Ok(base) = Url::parse(&self.base_url) else {
            return false;
        };
        let is_slack = |host: &str| host == "slack.com" || host.ends_with(".slack.com");
        match (base.host_str(), url.host_str()) {
            (Some(own), Some(host)) if own == host => {
                url.scheme() == base.scheme()
                    && url.port_or_known_default() == base.port_or_known_default()
            }
            (Some(own), Some(host)) => url.scheme() == "https" && is_slack(own) && is_slack(host),
            _ => false,
        }
    }

    /// Calls a method with the bot's token.
    pub(super) async fn call(
        &self,
        method: &'static str,
        body: &Value,
    ) -> Result<Value, SlackFailure> {
        let (reply, _) = self
            .call_as(&self.token, method, &SlackBody::Json(body))
            .await?;
        Ok(reply)
    }

    /// Calls a method that reads.
    pub(super) async fn read(
        &self,
        method: &'static str,
        fields: &[(&str, &str)],
    ) -> Result<Value, SlackFailure> {
        let (reply, _) = self
            .call_as(&self.token, method, &SlackBody::Form(fields))
            .await?;
        Ok(reply)
    }

    /// Calls a method with a token; returns the headers of the reply, too.
    pub(super) async fn call_as(
        &self,
        token: &Secret<String>,
        method: &'static str,
        body: &SlackBody<'_>,
    ) -> Result<(Value, HeaderMap), SlackFailure> {
        let url = format!("{}/{method}", self.base_url);
        let request = self.client.post(url).timeout(self.timeout);
        let request = request.header(AUTHORIZATION, bearer(token)?);
        let request = match body {
            SlackBody::Json(value) => request
                .header(CONTENT_TYPE, "application/json; charset=utf-8")
                .body(value.to_string()),
            SlackBody::Form(fields) => {
                let mut encoded = url::form_urlencoded::Serializer::new(String::new());
                encoded.extend_pairs(fields.iter());
                request
                    .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
                    .body(encoded.finish())
            }
        };
        let response = request.send().await.map_err(SlackFailure::from_request)?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        self.clock.learn(&headers);
        let bytes = read_body(response).await?;
        let reply = parse_wire_json(&bytes).unwrap_or_default();
        let error = reply["error"].as_str().unwrap_or_default();
        if status == 429 || error == "ratelimited" {
            return Err(SlackFailure::RateLimited {
                wait: parse_retry_after(&headers).unwrap_or(DEFAULT_WAIT),
            });
        }
        match reply["ok"].as_bool() {
            Some(true) => Ok((reply, headers)),
            Some(false) if is_passing(error) => Err(SlackFailure::Temporary {
                reason: format!("Slack API error: {error}"),
            }),
            Some(false) => Err(SlackFailure::Named {
                error: error.to_owned(),
                needed: reply["needed"].as_str().map(str::to_owned),
            }),
            None if status == 404 => Err(SlackFailure::Named {
                error: "unknown_method".into(),
                needed: None,
            }),
            None => Err(SlackFailure::Temporary {
                reason: format!("Slack replied with status {status} and no result"),
            }),
        }
    }

    /// Whether a method is worth a request.
    pub(super) fn supports(&self, method: &'static str) -> bool {
        !self.unsupported.lock().contains(method)
    }

    /// Remembers that a method does not work here.
    pub(super) fn remember_unsupported(&self, method: &'static str, failure: &SlackFailure) {
        if self.unsupported.lock().insert(method) {
            tracing::info!(method, %failure, "Slack method is not available, falling back");
        }
    }
}

/// The header that shows a token.
pub(super) fn bearer(token: &Secret<String>) -> Result<HeaderValue, SlackFailure> {
    let header = HeaderValue::try_from(format!("Bearer {}", token.expose()));
    let mut header = header.map_err(|_| SlackFailure::named("invalid_auth"))?;
    header.set_sensitive(true);
    Ok(header)
}

async fn read_body(mut response: Response) -> Result<Vec<u8>, SlackFailure> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(SlackFailure::from_request)? {
        if bytes.len() + chunk.len() > MAX_REPLY_BYTES {
            break;
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

/// Errors on Slack's side that pass.
fn is_passing(error: &str) -> bool {
    matches!(
        error,
        "internal_error"
            | "fatal_error"
            | "service_unavailable"
            | "request_timeout"
            | "team_added_to_org"
            | "rollup_error"
    )
}

impl SlackFailure {
    pub(super) fn named(error: &str) -> Self {
        Self::Named {
            error: error.to_owned(),
            needed: None,
        }
    }

    fn from_request(error: reqwest::Error) -> Self {
        let error = error.without_url();
        let reason = if error.is_timeout() {
            "Slack did not reply in time".into()
        } else {
            root_cause(&error)
        };
        Self::Temporary { reason }
    }

    pub(super) fn is(&self, name: &str) -> bool {
        matches!(self, Self::Named { error, .. } if error == name)
    }

    /// Whether the token is not accepted.
    pub(super) fn is_bad_token(&self) -> bool {
        let names = [
            "invalid_auth",
            "not_authed",
            "account_inactive",
            "token_revoked",
            "token_expired",
            "org_login_required",
        ];
        names.into_iter().any(|name| self.is(name))
    }
}

impl std::fmt::Display for SlackFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Named {
                error,
                needed: Some(scope),
            } if error == "missing_scope" => write!(
                f,
                "the Slack app lacks the scope `{scope}`: add it under OAuth & Permissions and reinstall the app"
            ),
            Self::Named { error, .. } => write!(f, "Slack API error: {error}"),
            Self::RateLimited { wait } => write!(f, "rate limited for {} s", wait.as_secs_f32()),
            Self::Temporary { reason } => f.write_str(reason),
        }
    }
}

impl From<SlackFailure> for PostError {
    fn from(failure: SlackFailure) -> Self {
        let reason = failure.to_string();
        let is_bad_token = failure.is_bad_token();
        match failure {
            SlackFailure::RateLimited { wait } => Self::RateLimited { wait },
            SlackFailure::Temporary { reason } => Self::Temporary { reason },
            SlackFailure::Named { .. } if is_bad_token => Self::BadToken { reason },
            SlackFailure::Named { error, .. } => match error.as_str() {
                "unknown_method" | "method_deprecated" => Self::Unsupported,
                "invalid_blocks" | "invalid_blocks_format" | "cannot_parse_attachment" => {
                    Self::Markup { reason }
                }
                _ => Self::Refused { reason },
            },
        }
    }
}
