//! Updates by long poll.
//!
//! The offset of a poll confirms everything before it. So a batch is stored, together with the offset behind it, before
//! the next poll begins.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{
    super::{
        FatalError, IntakeError, PlatformHealth, RawUpdate, UpdateIntake, backoff::ReconnectBackoff,
    },
    TelegramClient,
    api::BotApiError,
    identity::BotIdentity,
};

/// Every type of update: Telegram sends only those that are named.
pub(super) const UPDATE_TYPES: [&str; 27] = [
    "message",
    "edited_message",
    "channel_post",
    "edited_channel_post",
    "business_connection",
    "business_message",
    "edited_business_message",
    "deleted_business_messages",
    "guest_message",
    "message_reaction",
    "message_reaction_count",
    "inline_query",
    "chosen_inline_result",
    "callback_query",
    "shipping_query",
    "pre_checkout_query",
    "purchased_paid_media",
    "poll",
    "poll_answer",
    "my_chat_member",
    "chat_member",
    "chat_join_request",
    "chat_boost",
    "removed_chat_boost",
    "managed_bot",
    "subscription",
    "stopped_message_generation",
];

/// After a week without updates, Telegram begins with another number.
const MAX_OFFSET_AGE: Duration = Duration::from_hours(6 * 24);

/// How long the client waits for what.
#[derive(Debug, Clone, Copy)]
pub struct TelegramTiming {
    /// How long Telegram keeps a poll open.
    pub poll: Duration,
    /// How much longer a poll may take before the connection counts as dead.
    pub poll_grace: Duration,
    /// The first pause after a failure; it doubles.
    pub first_pause: Duration,
    pub max_pause: Duration,
    /// The pause after another program has polled.
    pub conflict_pause: Duration,
    /// How often Telegram is asked whether it still knows the webhook, and reaches it.
    pub webhook_check: Duration,
    /// A draft that does not change is sent again after this: Telegram removes it after 30 s.
    pub draft_repeat: Duration,
}

impl Default for TelegramTiming {
    fn default() -> Self {
        Self {
            poll: Duration::from_secs(30),
            poll_grace: Duration::from_secs(10),
            first_pause: Duration::from_secs(1),
            max_pause: Duration::from_mins(1),
            conflict_pause: Duration::from_secs(30),
            webhook_check: Duration::from_mins(1),
            draft_repeat: Duration::from_secs(20),
        }
    }
}

impl TelegramTiming {
    pub(super) fn backoff(&self) -> ReconnectBackoff {
        ReconnectBackoff::new(self.first_pause, self.max_pause)
    }
}

/// Why a step of receiving did not succeed.
pub(super) enum ReceiveProblem {
    Fatal(FatalError),
    /// It is tried again, after this pause or after the usual one.
    Again {
        code: &'static str,
        message: String,
        pause: Option<Duration>,
    },
}

/// The position behind the updates that are stored.
#[derive(Debug, Clone, Copy, Default)]
struct PollPosition {
    offset: i64,
    /// When the last update was stored, in seconds since 1970.
    stored_at: u64,
}

impl PollPosition {
    fn read(cursor: &Value) -> Self {
        Self {
            offset: cursor["offset"].as_i64().unwrap_or_default(),
            stored_at: cursor["stored_at"].as_u64().unwrap_or_default(),
        }
    }

    /// The offset to ask for: none when the numbers may have begun anew.
    fn current(&self) -> i64 {
        let age = unix_now().saturating_sub(self.stored_at);
        if Duration::from_secs(age) > MAX_OFFSET_AGE {
            0
        } else {
            self.offset
        }
    }
}

impl TelegramClient {
    /// Receives until `stop` is cancelled.
    pub(super) async fn receive_updates(
        &self,
        intake: &dyn UpdateIntake,
        health: &PlatformHealth,
        stop: &CancellationToken,
    ) -> Result<(), FatalError> {
        health.set_period(self.timing.poll);
        let mut polling = PollingState::default();
        let mut backoff = self.timing.backoff();
        loop {
            let poll = self.poll_step(intake, &mut polling);
            let outcome = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                outcome = poll => outcome,
            };
            match outcome {
                Ok(()) => {
                    backoff.reset();
                    health.record_bot_name(self.identity().username);
                    health.record_ok();
                }
                Err(problem) => {
                    // The next poll returns at once, so that the state is right again soon.
                    polling.is_settled = false;
                    let pause = self.report(problem, health, &mut backoff)?;
                    tokio::select! {
                        () = stop.cancelled() => break,
                        () = tokio::time::sleep(pause) => {}
                    }
                }
            }
        }
        health.record_stopped();
        Ok(())
    }

    /// Says what went wrong; returns how long to wait.
    pub(super) fn report(
        &self,
        problem: ReceiveProblem,
        health: &PlatformHealth,
        backoff: &mut ReconnectBackoff,
    ) -> Result<Duration, FatalError> {
        match problem {
            ReceiveProblem::Fatal(error) => {
                tracing::error!(account = %self.account, code = error.code, message = %error.message, "Telegram receiving stopped");
                health.record_fatal(&error);
                Err(error)
            }
            ReceiveProblem::Again {
                code,
                message,
                pause,
            } => {
                let pause = pause.unwrap_or_else(|| backoff.next_pause());
                tracing::warn!(account = %self.account, code, %message, ?pause, "Telegram receiving failed, retrying");
                health.record_lost(code, message);
                Ok(pause)
            }
        }
    }

    async fn poll_step(
        &self,
        intake: &dyn UpdateIntake,
        polling: &mut PollingState,
    ) -> Result<(), ReceiveProblem> {
        if polling.position.is_none() {
            let cursor = intake
                .cursor()
                .await
                .map_err(|error| storage_problem(&error))?;
            let cursor = self.own_cursor(cursor.unwrap_or_default());
            self.remember_username(&cursor);
            polling.position = Some(PollPosition::read(&cursor));
        }
        if !polling.is_prepared {
            self.identify().await?;
            let parameters = json!({"drop_pending_updates": false});
            self.api
                .call("deleteWebhook", &parameters)
                .await
                .map_err(|error| self.problem(&error))?;
            polling.is_prepared = true;
        }
        let wait = if polling.is_settled {
            self.timing.poll
        } else {
            Duration::ZERO
        };
        let position = polling.position.unwrap_or_default();
        let parameters = json!({
            "offset": position.current(),
            "timeout": wait.as_secs(),
            "limit": 100,
            "allowed_updates": UPDATE_TYPES,
        });
        let timeout = wait + self.timing.poll_grace;
        let batch = self.api.call_within("getUpdates", &parameters, timeout);
        let batch = match batch.await {
            Ok(batch) => batch,
            Err(error) => {
                if error.status() == Some(409) && error.says("webhook") {
                    polling.is_prepared = false;
                }
                return Err(self.problem(&error));
            }
        };
        polling.is_settled = true;
        self.store_batch(intake, batch, polling).await
    }

    async fn store_batch(
        &self,
        intake: &dyn UpdateIntake,
        batch: Value,
        polling: &mut PollingState,
    ) -> Result<(), ReceiveProblem> {
        let Value::Array(batch) = batch else {
            return Ok(());
        };
        let updates: Vec<RawUpdate> = batch.into_iter().filter_map(read_update).collect();
        let last = updates
            .iter()
            .filter_map(|update| update.payload["update_id"].as_i64())
            .max();
        let Some(last) = last else {
            return Ok(());
        };
        let position = PollPosition {
            offset: last + 1,
            stored_at: unix_now(),
        };
        let cursor = json!({
            "offset": position.offset,
            "stored_at": position.stored_at,
            "bot": self.api.bot_id(),
            "username": self.identity().username,
        });
        intake
            .store(updates, Some(cursor))
            .await
            .map_err(|error| storage_problem(&error))?;
        polling.position = Some(position);
        Ok(())
    }

    /// Asks who the bot is. It is the first request, so a wrong token is found here.
    pub(super) async fn identify(&self) -> Result<(), ReceiveProblem> {
        let account = self
            .api
            .call("getMe", &json!({}))
            .await
            .map_err(|error| self.problem(&error))?;
        let identity = BotIdentity::from_account(&account);
        let username = identity.username.as_deref().unwrap_or_default();
        tracing::info!(account = %self.account, username, "Telegram bot identified");
        if identity.reads_all == Some(false) {
            tracing::info!(
                account = %self.account,
                "Telegram privacy mode is on: in groups the bot sees only commands, mentions and replies; \
                 @BotFather turns it off with /setprivacy"
            );
        }
        self.set_identity(identity);
        for feature in [&self.rich_messages, &self.drafts, &self.rich_drafts] {
            feature.forget();
        }
        Ok(())
    }

    /// What a failed call means for receiving.
    pub(super) fn problem(&self, error: &BotApiError) -> ReceiveProblem {
        let again = |code, message: String, pause| ReceiveProblem::Again {
            code,
            message,
            pause,
        };
        match error {
            // A token that is not one is an unknown path.
            BotApiError::Refused {
                status: 401 | 404, ..
            } => ReceiveProblem::Fatal(FatalError {
                code: "bad_token",
                message: format!(
                    "Telegram does not accept the bot token; check `{}`, or get a new token from @BotFather",
                    self.account.variable("BOT_TOKEN")
                ),
            }),
            BotApiError::Refused { status: 409, .. } if error.says("webhook") => again(
                "webhook",
                "a webhook was set for this bot; it is being removed".into(),
                None,
            ),
            BotApiError::Refused { status: 409, .. } => again(
                "conflict",
                "another program receives this bot's updates with the same token; stop it, or use a bot of its own"
                    .into(),
                Some(self.timing.conflict_pause),
            ),
            BotApiError::Refused {
                status: 429,
                retry_after,
                ..
            } => again("rate_limited", error.to_string(), *retry_after),
            _ => again("unreachable", error.to_string(), None),
        }
    }

    /// A position, if it is this bot's: another one, whose token the account had before, counts its updates by itself.
    fn own_cursor(&self, cursor: Value) -> Value {
        let bot = cursor["bot"].as_i64();
        if bot.is_none() || bot == self.api.bot_id() {
            return cursor;
        }
        tracing::info!(account = %self.account, "account has another Telegram bot; starting with its new updates");
        Value::Null
    }

    /// The name from an earlier run, until Telegram tells it again: updates of then can be read meanwhile.
    fn remember_username(&self, cursor: &Value) {
        let mut identity = self.identity();
        if identity.username.is_none()
            && let Some(username) = cursor["username"].as_str()
        {
            identity.username = Some(username.to_owned());
            self.set_identity(identity);
        }
    }
}

/// Where polling is.
#[derive(Default)]
struct PollingState {
    position: Option<PollPosition>,
    /// Whether the bot is known and no webhook is set.
    is_prepared: bool,
    /// Whether the last poll returned.
    is_settled: bool,
}

/// An update as it is stored. One without a number could not be told apart from others.
pub(super) fn read_update(payload: Value) -> Option<RawUpdate> {
    let id = payload["update_id"].as_i64()?;
    Some(RawUpdate {
        event_id: id.to_string(),
        payload,
    })
}

fn storage_problem(error: &IntakeError) -> ReceiveProblem {
    ReceiveProblem::Again {
        code: "storage",
        message: error.to_string(),
        pause: None,
    }
}

fn unix_now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_secs()
}
