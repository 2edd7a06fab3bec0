//! Sending the deliveries of one webhook.

use std::time::Duration;

use futures::{StreamExt, stream};
use hermes_config::traced_span;
use reqwest::{StatusCode, header};
use tracing::{Instrument as _, Span, field::Empty};

use super::{
    WebhookSender, signature,
    target::{ATTEMPT_TIMEOUT, PRIVATE_TARGET, check_target},
};
use crate::{
    api_types::ids::WebhookId,
    storage::{
        audit::NewAuditEntry,
        encryption::EncryptionContext,
        state::{AttemptResult, ClaimedDelivery, NextAttempt, StateError, WebhookRecord},
    },
};

/// Waits between attempts, a day in all; after the last one a delivery is given up.
const BACKOFF_SECONDS: [u64; 10] = [5, 30, 120, 600, 1800, 3600, 7200, 14_400, 28_800, 28_800];
/// Deliveries that are claimed at once, and those of them that are sent at the same time.
const MAX_CLAIMED: u32 = 16;
const PARALLEL: usize = 4;
/// Longer than the attempts of one claim take.
const CLAIM: Duration = Duration::from_mins(2);
const MAX_ERROR_CHARS: usize = 200;

/// How a target answered.
enum TargetResponse {
    Accepted(u16),
    /// The target does not exist any more.
    Gone,
    Refused(u16),
    Failed(String),
}

impl TargetResponse {
    fn record_on(&self, span: &Span) {
        let status = match self {
            Self::Accepted(status) | Self::Refused(status) => *status,
            Self::Gone => StatusCode::GONE.as_u16(),
            Self::Failed(_) => {
                span.record("error.type", "request_failed");
                span.record("otel.status_code", "ERROR");
                return;
            }
        };
        span.record("http.response.status_code", i64::from(status));
        if !matches!(self, Self::Accepted(_)) {
            span.record("error.type", status.to_string());
            span.record("otel.status_code", "ERROR");
        }
    }
}

/// The exported span of an attempt. The target's address may contain a key, so it is not part of it.
fn delivery_span(record: &WebhookRecord, delivery: &ClaimedDelivery) -> Span {
    traced_span!(
        "webhook",
        otel.name = "POST webhook",
        otel.kind = "client",
        otel.status_code = Empty,
        http.request.method = "POST",
        http.request.body.size = i64::try_from(delivery.body.len()).unwrap_or(i64::MAX),
        http.request.resend_count = i64::from(delivery.attempts),
        http.response.status_code = Empty,
        "error.type" = Empty,
        hermes.webhook.id = record.webhook.id.as_str(),
        hermes.delivery.id = delivery.id.as_str()
    )
}

impl WebhookSender {
    /// Sends what is due for a webhook, until nothing is.
    pub(super) async fn send_all(&self, webhook: &WebhookId) -> Result<(), StateError> {
        loop {
            let record = self.state.webhook(webhook).await?;
            let Some(record) = record.filter(|record| record.webhook.enabled) else {
                return Ok(());
            };
            let now = (self.now)();
            let claimed = self
                .state
                .claim_deliveries(webhook, now, now.after(CLAIM), MAX_CLAIMED)
                .await?;
            if claimed.is_empty() {
                return Ok(());
            }
            let sent = stream::iter(claimed)
                .map(|delivery| self.send(&record, delivery))
                .buffer_unordered(PARALLEL);
            for sent in sent.collect::<Vec<_>>().await {
                sent?;
            }
        }
    }

    async fn send(
        &self,
        record: &WebhookRecord,
        delivery: ClaimedDelivery,
    ) -> Result<(), StateError> {
        let span = delivery_span(record, &delivery);
        let answer = self.post(record, &delivery).instrument(span.clone()).await;
        answer.record_on(&span);
        let now = (self.now)();
        let wait = BACKOFF_SECONDS.get(delivery.attempts as usize);
        let later = match wait {
            Some(seconds) => NextAttempt::At(now.after(Duration::from_secs(*seconds))),
            None => NextAttempt::GivenUp,
        };
        let webhook = &record.webhook.id;
        let result = match answer {
            TargetResponse::Accepted(status) => AttemptResult {
                status: Some(status),
                error: None,
                next: NextAttempt::Delivered,
            },
            TargetResponse::Gone => {
                tracing::warn!(%webhook, "webhook turned off: its target answered that it is gone");
                let entry = NewAuditEntry::by_hub("disable_webhook").with_target(webhook.as_str());
                self.state.disable_webhook(webhook, entry).await?;
                AttemptResult {
                    status: Some(StatusCode::GONE.as_u16()),
                    error: Some("the target is gone; the webhook was turned off".into()),
                    next: NextAttempt::GivenUp,
                }
            }
            TargetResponse::Refused(status) => AttemptResult {
                status: Some(status),
                error: Some(describe_refusal(status)),
                next: later,
            },
            TargetResponse::Failed(reason) => AttemptResult {
                status: None,
                error: Some(reason),
                next: later,
            },
        };
        if result.next == NextAttempt::GivenUp {
            tracing::warn!(%webhook, delivery = %delivery.id, "webhook delivery given up");
        }
        self.state.finish_attempt(&delivery.id, result, now).await
    }

    async fn post(&self, record: &WebhookRecord, delivery: &ClaimedDelivery) -> TargetResponse {
        let webhook = &record.webhook;
        let context = EncryptionContext::webhook(webhook.id.as_str());
        let secret = record.secret.as_ref();
        let secret = secret.and_then(|sealed| self.key.decrypt(&context, sealed).ok());
        let key = secret.and_then(|secret| signature::parse_secret(secret.expose()));
        let Some(key) = key else {
            return TargetResponse::Failed("it has no secret to sign with; set one".into());
        };
        // The setting may have changed since it was created, and a literal address is not resolved.
        let url = match check_target(&webhook.url, self.client.scope) {
            Ok(url) => url,
            Err(error) => return TargetResponse::Failed(error.to_string()),
        };
        let timestamp = (self.now)().timestamp().as_second();
        let id = delivery.id.as_str();
        let request = self
            .client
            .http
            .post(url)
            .header(header::CONTENT_TYPE, "application/json")
            .header("webhook-id", id)
            .header("webhook-timestamp", timestamp)
            .header(
                "webhook-signature",
                signature::sign(&key, id, timestamp, &delivery.body),
            )
            .body(delivery.body.clone());
        match request.send().await {
            Ok(response) => match response.status() {
                status if status.is_success() => TargetResponse::Accepted(status.as_u16()),
                StatusCode::GONE => TargetResponse::Gone,
                status => TargetResponse::Refused(status.as_u16()),
            },
            Err(error) => TargetResponse::Failed(describe_error(error)),
        }
    }
}

fn describe_refusal(status: u16) -> String {
    match status {
        300..=399 => format!("the target answered {status}; redirects are not followed"),
        _ => format!("the target answered {status}"),
    }
}

/// The reason without the address, which may contain a key.
fn describe_error(error: reqwest::Error) -> String {
    let error = error.without_url();
    if error.is_timeout() {
        let seconds = ATTEMPT_TIMEOUT.as_secs();
        return format!("the target did not answer within {seconds} s");
    }
    let mut innermost: &dyn std::error::Error = &error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    let reason = innermost.to_string();
    if reason == PRIVATE_TARGET {
        return reason;
    }
    let reason: String = reason.chars().take(MAX_ERROR_CHARS).collect();
    format!("the target cannot be reached: {reason}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_go_on_for_a_day() {
        let seconds: u64 = BACKOFF_SECONDS.iter().sum();
        let day = 24 * 60 * 60;
        assert!((day * 9 / 10..=day).contains(&seconds), "{seconds}");
        assert!(BACKOFF_SECONDS.is_sorted());
    }
}
