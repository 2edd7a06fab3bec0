//! Updates by webhook: a listener that Telegram calls, usually through a reverse proxy with the certificate.

use std::{io, sync::Arc};

use axum::{
    Router,
    body::{Bytes, to_bytes},
    extract::{Request, State},
    http::{HeaderValue, Method, StatusCode},
};
use hermes_config::{Secret, WebhookSettings};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::{
    net::TcpListener,
    sync::{mpsc, oneshot},
};
use tokio_util::sync::CancellationToken;
use url::Url;

use super::{
    super::{FatalError, PlatformHealth, UpdateIntake, wire_json::parse_wire_json},
    TelegramClient,
    receive::{ReceiveProblem, UPDATE_TYPES, read_update},
};

const SECRET_HEADER: &str = "x-telegram-bot-api-secret-token";
/// An update is far below this.
const MAX_BODY_BYTES: usize = 2 << 20;
const INVALID: &str = "webhook_invalid";
const PORT_IN_USE: &str = "webhook_port_in_use";
const UNREACHABLE: &str = "webhook_unreachable";
/// Updates between the listener and the intake; Telegram sends again what finds no room.
const QUEUE_LENGTH: usize = 64;

/// An update that waits to be stored; whoever sent it waits for the outcome.
struct WebhookDelivery {
    body: Bytes,
    stored: oneshot::Sender<bool>,
}

struct WebhookState {
    /// The path of the address that Telegram calls.
    path: String,
    secret: Secret<String>,
    deliveries: mpsc::Sender<WebhookDelivery>,
}

impl TelegramClient {
    /// Receives by webhook until `stop` is cancelled.
    pub(super) async fn receive_by_webhook(
        &self,
        webhook: &WebhookSettings,
        intake: &dyn UpdateIntake,
        health: &PlatformHealth,
        stop: &CancellationToken,
    ) -> Result<(), FatalError> {
        health.set_period(self.timing.webhook_check);
        let fatal = |message: String| {
            let error = FatalError {
                code: INVALID,
                message,
            };
            health.record_fatal(&error);
            error
        };
        let url = Url::parse(&webhook.url)
            .map_err(|error| fatal(format!("the webhook's address is not a URL: {error}")))?;
        let listener = tokio::select! {
            () = stop.cancelled() => {
                health.record_stopped();
                return Ok(());
            }
            bound = self.bind_webhook(webhook, health) => bound.map_err(&fatal)?,
        };
        let (deliveries, mut received) = mpsc::channel(QUEUE_LENGTH);
        let state = Arc::new(WebhookState {
            path: url.path().to_owned(),
            secret: webhook.secret.clone(),
            deliveries,
        });
        // Not a route: the path is not ours, and may have signs in it that mean something in routes.
        let router = Router::new().fallback(take_update).with_state(state);
        let ended = stop.clone();
        let serve = axum::serve(listener, router)
            .with_graceful_shutdown(async move { ended.cancelled().await });
        let store = async {
            while let Some(delivery) = received.recv().await {
                let is_stored = store_delivery(intake, health, &delivery.body).await;
                // Whoever sent it may be gone.
                let _ = delivery.stored.send(is_stored);
            }
        };
        let outcome = tokio::select! {
            () = stop.cancelled() => Ok(()),
            served = async { serve.await } => match served {
                Ok(()) => Ok(()),
                Err(error) => Err(fatal(format!("the webhook's listener failed: {error}"))),
            },
            () = store => Ok(()),
            kept = self.keep_webhook(webhook, health) => kept,
        };
        if outcome.is_ok() {
            health.record_stopped();
        }
        outcome
    }

    /// Listens for Telegram. A port that another program uses may become free.
    async fn bind_webhook(
        &self,
        webhook: &WebhookSettings,
        health: &PlatformHealth,
    ) -> Result<TcpListener, String> {
        let mut backoff = self.timing.backoff();
        let place = format!("{}:{}", webhook.host, webhook.port);
        loop {
            let error = match TcpListener::bind((webhook.host.as_str(), webhook.port)).await {
                Ok(listener) => return Ok(listener),
                Err(error) => error,
            };
            if error.kind() != io::ErrorKind::AddrInUse {
                return Err(format!("the webhook cannot listen on {place}: {error}"));
            }
            let message = format!(
                "the webhook cannot listen on {place}: another program uses the port; stop it, or set `{}`",
                self.account.variable("WEBHOOK_PORT")
            );
            tracing::warn!(account = %self.account, code = PORT_IN_USE, message);
            health.record_lost(PORT_IN_USE, message);
            tokio::time::sleep(backoff.next_pause()).await;
        }
    }

    /// Sets the webhook, and asks from time to time whether it still works. Ends only with an error.
    async fn keep_webhook(
        &self,
        webhook: &WebhookSettings,
        health: &PlatformHealth,
    ) -> Result<(), FatalError> {
        let mut backoff = self.timing.backoff();
        let mut is_set = false;
        loop {
            let step = async {
                if is_set {
                    return self.check_webhook(webhook).await;
                }
                self.identify().await?;
                let parameters = json!({
                    "url": webhook.url,
                    "secret_token": webhook.secret.expose(),
                    "allowed_updates": UPDATE_TYPES,
                    "drop_pending_updates": false,
                });
                let set = self.api.call("setWebhook", &parameters).await;
                set.map(|_| None).map_err(|error| match error.status() {
                    Some(400) => ReceiveProblem::Fatal(FatalError {
                        code: INVALID,
                        message: format!("Telegram does not accept the webhook: {error}"),
                    }),
                    _ => self.problem(&error),
                })
            };
            let pause = match step.await {
                Ok(unreachable) => {
                    is_set = true;
                    backoff.reset();
                    health.record_bot_name(self.identity().username);
                    match unreachable {
                        None => health.record_ok(),
                        Some(message) => {
                            tracing::warn!(account = %self.account, code = UNREACHABLE, message);
                            health.record_lost(UNREACHABLE, message);
                        }
                    }
                    self.timing.webhook_check
                }
                Err(problem) => {
                    is_set = false;
                    self.report(problem, health, &mut backoff)?
                }
            };
            tokio::time::sleep(pause).await;
        }
    }

    /// Whether the webhook is still ours. Returns why Telegram cannot reach it, if it tries in vain.
    async fn check_webhook(
        &self,
        webhook: &WebhookSettings,
    ) -> Result<Option<String>, ReceiveProblem> {
        let info = self
            .api
            .call("getWebhookInfo", &json!({}))
            .await
            .map_err(|error| self.problem(&error))?;
        if info["url"] == webhook.url.as_str() {
            return Ok(describe_unreachable(&info, webhook));
        }
        Err(ReceiveProblem::Again {
            code: "webhook",
            message: "another program has changed this bot's webhook; it is being set again".into(),
            pause: None,
        })
    }
}

/// What Telegram says about deliveries that fail. The last error stays after it is over: then nothing waits any more.
fn describe_unreachable(info: &Value, webhook: &WebhookSettings) -> Option<String> {
    let reason = info["last_error_message"].as_str()?;
    info["pending_update_count"]
        .as_u64()
        .filter(|count| *count > 0)?;
    let host = Url::parse(&webhook.url).ok();
    let host = host.as_ref().and_then(Url::host_str);
    let host = host.unwrap_or("its address");
    Some(format!(
        "Telegram cannot deliver updates to the webhook at {host}: {reason}"
    ))
}

async fn take_update(State(state): State<Arc<WebhookState>>, request: Request) -> StatusCode {
    if request.uri().path() != state.path {
        return StatusCode::NOT_FOUND;
    }
    if request.method() != Method::POST {
        return StatusCode::METHOD_NOT_ALLOWED;
    }
    let given = request.headers().get(SECRET_HEADER);
    let given = given.map(HeaderValue::as_bytes).unwrap_or_default();
    // Hashes of equal length take the same time to compare, wherever they differ.
    if Sha256::digest(given) != Sha256::digest(state.secret.expose().as_bytes()) {
        return StatusCode::UNAUTHORIZED;
    }
    let Ok(body) = to_bytes(request.into_body(), MAX_BODY_BYTES).await else {
        return StatusCode::PAYLOAD_TOO_LARGE;
    };
    let (stored, outcome) = oneshot::channel();
    let delivery = WebhookDelivery { body, stored };
    if state.deliveries.try_send(delivery).is_err() {
        return StatusCode::SERVICE_UNAVAILABLE;
    }
    match outcome.await {
        Ok(true) => StatusCode::OK,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// Stores an update; whether Telegram may forget it.
async fn store_delivery(intake: &dyn UpdateIntake, health: &PlatformHealth, body: &[u8]) -> bool {
    let parsed = parse_wire_json(body).ok();
    // What is not an update would be sent again for ever.
    let Some(update) = parsed.and_then(read_update) else {
        return true;
    };
    match intake.store(vec![update], None).await {
        Ok(()) => {
            health.record_ok();
            true
        }
        Err(error) => {
            tracing::warn!(%error, "Telegram update not stored, it will be sent again");
            false
        }
    }
}
