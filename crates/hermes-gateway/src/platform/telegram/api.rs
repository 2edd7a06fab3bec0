//! Requests to Telegram's bot API, and what its refusals mean.

use std::time::Duration;

use futures::TryStreamExt as _;
use hermes_agent::policy::PolicyHandle;
use hermes_config::{Platform, PlatformSettings, Redactor, Secret};
use reqwest::{
    Body, Client, RequestBuilder, Response,
    header::CONTENT_TYPE,
    multipart::{Form, Part},
};
use serde_json::{Map, Value};
use tokio_util::codec::{BytesCodec, FramedRead};

use super::super::{OutboundFile, PostError, clock::PlatformClock, wire_json::parse_wire_json};
use crate::send::{ReachableAddresses, SendError, build_client, encode_file_name, root_cause};

/// How long a reply may take.
pub(super) const REPLY_TIMEOUT: Duration = Duration::from_secs(30);
/// How long an upload or a download may take.
const TRANSFER_TIMEOUT: Duration = Duration::from_mins(5);
/// A batch of updates with long texts is far below this.
const MAX_REPLY_BYTES: usize = 16 << 20;
/// Where the bot API of the service is, and its files.
const SERVICE_BASE: &str = "https://api.telegram.org/bot";
const SERVICE_FILES: &str = "https://api.telegram.org/file/bot";

pub(super) struct BotApi {
    client: Client,
    /// Ends with `/bot`.
    base: String,
    file_base: String,
    addresses: ReachableAddresses,
    token: Secret<String>,
    redactor: Redactor,
    pub(super) clock: PlatformClock,
}

/// Why a call did not succeed. The texts contain no token.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(super) enum BotApiError {
    #[error("Telegram could not be reached: {reason}")]
    Unreachable { reason: String },
    #[error("Telegram did not answer within {} s", waited.as_secs())]
    TimedOut { waited: Duration },
    #[error("Telegram API error ({status}): {description}")]
    Refused {
        status: u16,
        description: String,
        retry_after: Option<Duration>,
        migrated_to: Option<i64>,
    },
    #[error("Telegram returned an unexpected reply (HTTP {status}); is a proxy in between?")]
    InvalidReply { status: u16 },
    #[error("the file cannot be read: {reason}")]
    File { reason: String },
    /// The settings or the operator's policy do not allow the address.
    #[error("{reason}")]
    OutOfReach { reason: String },
}

impl BotApi {
    pub(super) fn new(
        settings: &PlatformSettings,
        policy: &PolicyHandle,
    ) -> Result<Self, SendError> {
        let Some(token) = settings.token.clone() else {
            return Err(SendError::NotConfigured {
                platform: Platform::Telegram.name().into(),
            });
        };
        let client = build_client(Platform::Telegram, settings, policy.policy().egress())?;
        let base = end_with_bot(&settings.base_url);
        let file_base = match &settings.base_file_url {
            Some(url) => end_with_bot(url),
            None if base == SERVICE_BASE => SERVICE_FILES.to_owned(),
            // A server of one's own has its files beside its API.
            None => format!("{}/file/bot", base.trim_end_matches("/bot")),
        };
        Ok(Self {
            client,
            base,
            file_base,
            addresses: ReachableAddresses::new(settings, policy),
            redactor: Redactor::new([token.clone()]),
            token,
            clock: PlatformClock::default(),
        })
    }

    /// The bot's number, which its token begins with.
    pub(super) fn bot_id(&self) -> Option<i64> {
        let (id, _) = self.token.expose().split_once(':')?;
        id.parse().ok()
    }

    /// Calls a method with these parameters.
    pub(super) async fn call(
        &self,
        method: &str,
        parameters: &Value,
    ) -> Result<Value, BotApiError> {
        self.call_within(method, parameters, REPLY_TIMEOUT).await
    }

    pub(super) async fn call_within(
        &self,
        method: &str,
        parameters: &Value,
        timeout: Duration,
    ) -> Result<Value, BotApiError> {
        let request = self
            .client
            .post(self.method_url(method))
            .header(CONTENT_TYPE, "application/json")
            .body(parameters.to_string());
        self.send(request, timeout).await
    }

    /// Calls a method with files, each in the field of this name.
    pub(super) async fn upload(
        &self,
        method: &str,
        parameters: &Map<String, Value>,
        files: &[(String, &OutboundFile)],
    ) -> Result<Value, BotApiError> {
        let mut form = Form::new();
        for (name, value) in parameters {
            let text = match value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            form = form.text(name.clone(), text);
        }
        for (field, file) in files {
            form = form.part(field.clone(), file_part(file).await?);
        }
        let request = self.client.post(self.method_url(method)).multipart(form);
        self.send(request, TRANSFER_TIMEOUT).await
    }

    /// Opens the download of a file.
    pub(super) async fn open_file(&self, path: &str) -> Result<Response, BotApiError> {
        // Files may be elsewhere than the API.
        let reached = self.addresses.check(&self.file_base);
        reached.map_err(|reason| BotApiError::OutOfReach { reason })?;
        let url = format!("{}{}/{path}", self.file_base, self.token.expose());
        let request = self.client.get(url).timeout(TRANSFER_TIMEOUT);
        let response = request
            .send()
            .await
            .map_err(|error| self.failure(error, TRANSFER_TIMEOUT))?;
        let status = response.status().as_u16();
        if status == 200 {
            return Ok(response);
        }
        Err(BotApiError::Refused {
            status,
            description: "the file cannot be downloaded".into(),
            retry_after: None,
            migrated_to: None,
        })
    }

    pub(super) fn failure(&self, error: reqwest::Error, timeout: Duration) -> BotApiError {
        // The URL contains the token.
        let error = error.without_url();
        if error.is_timeout() && !error.is_connect() {
            return BotApiError::TimedOut { waited: timeout };
        }
        let reason = self.redactor.redact(&root_cause(&error)).into_owned();
        BotApiError::Unreachable { reason }
    }

    fn method_url(&self, method: &str) -> String {
        format!("{}{}/{method}", self.base, self.token.expose())
    }

    async fn send(&self, request: RequestBuilder, timeout: Duration) -> Result<Value, BotApiError> {
        let read = async {
            let mut response = request.timeout(timeout).send().await?;
            self.clock.learn(response.headers());
            let status = response.status().as_u16();
            let mut bytes = Vec::new();
            while let Some(chunk) = response.chunk().await? {
                if bytes.len() + chunk.len() > MAX_REPLY_BYTES {
                    break;
                }
                bytes.extend_from_slice(&chunk);
            }
            Ok((status, bytes))
        };
        let (status, bytes): (u16, Vec<u8>) =
            read.await.map_err(|error| self.failure(error, timeout))?;
        self.read_reply(status, &bytes)
    }

    fn read_reply(&self, status: u16, bytes: &[u8]) -> Result<Value, BotApiError> {
        let mut body: Value = parse_wire_json(bytes).unwrap_or_default();
        if body["ok"] == true {
            return Ok(body["result"].take());
        }
        let Some(description) = body["description"].as_str() else {
            return Err(BotApiError::InvalidReply { status });
        };
        let parameters = &body["parameters"];
        Err(BotApiError::Refused {
            // A server of one's own may answer 200 and say so in the body.
            status: body["error_code"]
                .as_u64()
                .and_then(|code| u16::try_from(code).ok())
                .unwrap_or(status),
            description: self.redactor.redact(description).into_owned(),
            retry_after: parameters["retry_after"].as_u64().map(Duration::from_secs),
            migrated_to: parameters["migrate_to_chat_id"].as_i64(),
        })
    }
}

/// The bot API is below `/bot`, whatever the configuration says.
fn end_with_bot(url: &str) -> String {
    let url = url.trim_end_matches('/');
    if url.ends_with("/bot") {
        url.to_owned()
    } else {
        format!("{url}/bot")
    }
}

/// A file as a part of a form, read while it is sent.
async fn file_part(file: &OutboundFile) -> Result<Part, BotApiError> {
    let unreadable = |error: &dyn std::fmt::Display| BotApiError::File {
        reason: error.to_string(),
    };
    let opened = tokio::fs::File::open(&file.path)
        .await
        .map_err(|error| unreadable(&error))?;
    let size = opened
        .metadata()
        .await
        .map_err(|error| unreadable(&error))?
        .len();
    let chunks = FramedRead::new(opened, BytesCodec::new()).map_ok(bytes::BytesMut::freeze);
    Part::stream_with_length(Body::wrap_stream(chunks), size)
        .file_name(encode_file_name(&file.name))
        .mime_str("application/octet-stream")
        .map_err(|error| unreadable(&error))
}

impl BotApiError {
    /// Whether the description contains this, in any case.
    pub(super) fn says(&self, words: &str) -> bool {
        let Self::Refused { description, .. } = self else {
            return false;
        };
        description.to_ascii_lowercase().contains(words)
    }

    pub(super) fn status(&self) -> Option<u16> {
        match self {
            Self::Refused { status, .. } | Self::InvalidReply { status } => Some(*status),
            _ => None,
        }
    }

    /// Whether the server does not know the method. A token that is not one gives the same reply.
    pub(super) fn is_unknown_method(&self) -> bool {
        matches!(self, Self::Refused { status: 404, .. })
    }

    pub(super) fn into_post_error(self) -> PostError {
        let reason = self.to_string();
        match self {
            Self::Unreachable { .. } | Self::TimedOut { .. } => PostError::Temporary { reason },
            Self::InvalidReply { status } if status >= 500 => PostError::Temporary { reason },
            Self::Refused {
                migrated_to: Some(id),
                ..
            } => PostError::Migrated {
                new_id: id.to_string(),
            },
            Self::Refused {
                status: 429,
                retry_after,
                ..
            } => PostError::RateLimited {
                wait: retry_after.unwrap_or(Duration::from_secs(1)),
            },
            Self::Refused { status: 401, .. } => PostError::BadToken { reason },
            Self::Refused { status: 404, .. } => PostError::Unsupported,
            Self::Refused { status, .. } if status >= 500 => PostError::Temporary { reason },
            Self::Refused {
                status: 400,
                ref description,
                ..
            } if description.contains("can't parse entities") => PostError::Markup {
                reason: description.clone(),
            },
            Self::Refused { .. }
            | Self::InvalidReply { .. }
            | Self::File { .. }
            | Self::OutOfReach { .. } => PostError::Refused { reason },
        }
    }
}
