//! Updates: the queue, long polls, and webhooks.

use std::{collections::VecDeque, time::Duration};

use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use super::{
    call::{BotCall, BotError, BotResult},
    world::TelegramWorld,
};

/// Not sent to bots that do not ask for them.
const ONLY_ON_REQUEST: [&str; 3] = ["chat_member", "message_reaction", "message_reaction_count"];
/// The longest that a poll is kept open.
const MAX_POLL_SECONDS: i64 = 50;

pub(super) struct UpdateQueue {
    waiting: VecDeque<Value>,
    last_id: i64,
    /// The types that the bot wants; `None` before it said so.
    allowed: Option<Vec<String>>,
    /// Counts polls: a new one ends the one before.
    polls: u64,
    pub(super) webhook: Option<WebhookRecord>,
    /// Why the last delivery to the webhook failed. Kept, as Telegram does, when later ones do not.
    pub(super) webhook_error: Option<&'static str>,
}

#[derive(Clone)]
pub(super) struct WebhookRecord {
    pub(super) url: String,
    pub(super) secret: Option<String>,
}

impl Default for UpdateQueue {
    fn default() -> Self {
        Self {
            waiting: VecDeque::new(),
            last_id: 870_000_000,
            allowed: None,
            polls: 0,
            webhook: None,
            webhook_error: None,
        }
    }
}

impl UpdateQueue {
    /// Adds an update of a type, unless the bot does not want it. Returns its number.
    pub(super) fn add(&mut self, kind: &str, content: &Value) -> Option<i64> {
        let is_wanted = match self.allowed.as_deref() {
            None | Some([]) => !ONLY_ON_REQUEST.contains(&kind),
            Some(allowed) => allowed.iter().any(|wanted| wanted == kind),
        };
        if !is_wanted {
            return None;
        }
        self.last_id += 1;
        self.add_raw(json!({"update_id": self.last_id, kind: content}));
        Some(self.last_id)
    }

    pub(super) fn add_raw(&mut self, update: Value) {
        let id = update["update_id"].as_i64().unwrap_or_default();
        self.last_id = self.last_id.max(id);
        self.waiting.push_back(update);
    }

    pub(super) fn next_id(&mut self) -> i64 {
        self.last_id += 1;
        self.last_id
    }

    /// Those that were not confirmed.
    pub(super) fn waiting(&self) -> Vec<Value> {
        self.waiting.iter().cloned().collect()
    }

    pub(super) fn take_first(&mut self) -> Option<Value> {
        self.waiting.pop_front()
    }

    pub(super) fn polls(&self) -> u64 {
        self.polls
    }

    /// Forgets what comes before the offset; a negative one counts from the end.
    fn confirm(&mut self, offset: i64) {
        if offset < 0 {
            let kept = usize::try_from(-offset).unwrap_or(usize::MAX);
            let dropped = self.waiting.len().saturating_sub(kept);
            self.waiting.drain(..dropped);
        } else if offset > 0 {
            self.waiting
                .retain(|update| update["update_id"].as_i64().is_some_and(|id| id >= offset));
        }
    }
}

/// getUpdates.
pub(super) async fn get_updates(world: &TelegramWorld, call: &BotCall<'_>) -> BotResult {
    let limit = call.integer("limit").unwrap_or(100).clamp(1, 100);
    let limit = usize::try_from(limit).unwrap_or(100);
    let seconds = call
        .integer("timeout")
        .unwrap_or(0)
        .clamp(0, MAX_POLL_SECONDS);
    let wait = Duration::from_secs(seconds.unsigned_abs());
    let allowed = call.structure("allowed_updates")?;
    let own = {
        let mut state = world.lock();
        let queue = &mut state.updates;
        if queue.webhook.is_some() {
            return Err(BotError::conflict(
                "can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first",
            ));
        }
        set_allowed(queue, &allowed);
        queue.confirm(call.integer("offset").unwrap_or(0));
        queue.polls += 1;
        queue.polls
    };
    world.changed.notify_waiters();
    let deadline = Instant::now() + wait;
    loop {
        let changed = world.changed.notified();
        tokio::pin!(changed);
        changed.as_mut().enable();
        {
            let state = world.lock();
            if state.updates.polls != own {
                return Err(BotError::conflict(
                    "terminated by other getUpdates request; make sure that only one bot instance is running",
                ));
            }
            let batch: Vec<Value> = state.updates.waiting.iter().take(limit).cloned().collect();
            if !batch.is_empty() || Instant::now() >= deadline {
                return Ok(batch.into());
            }
        }
        // Whatever ended the wait, the queue is looked at again.
        let _ = timeout_at(deadline, changed).await;
    }
}

fn set_allowed(queue: &mut UpdateQueue, allowed: &Value) {
    if let Some(kinds) = allowed.as_array() {
        let kinds = kinds.iter().filter_map(|kind| kind.as_str());
        queue.allowed = Some(kinds.map(str::to_owned).collect());
    }
}

pub(super) fn set_webhook(world: &TelegramWorld, call: &BotCall) -> BotResult {
    let url = call.text("url");
    let allowed = call.structure("allowed_updates")?;
    let mut state = world.lock();
    if call.flag("drop_pending_updates") {
        state.updates.waiting.clear();
    }
    if url.is_empty() {
        state.updates.webhook = None;
        return Ok(json!(true));
    }
    if !url.starts_with("https://") {
        return Err(BotError::bad(
            "bad webhook: An HTTPS URL must be provided for webhook",
        ));
    }
    let secret = Some(call.text("secret_token")).filter(|secret| !secret.is_empty());
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    if secret
        .as_ref()
        .is_some_and(|secret| secret.len() > 256 || !secret.chars().all(is_plain))
    {
        return Err(BotError::bad("secret token contains unallowed characters"));
    }
    set_allowed(&mut state.updates, &allowed);
    state.updates.webhook = Some(WebhookRecord { url, secret });
    // A poll that is open ends.
    state.updates.polls += 1;
    drop(state);
    world.changed.notify_waiters();
    Ok(json!(true))
}

pub(super) fn delete_webhook(world: &TelegramWorld, call: &BotCall) -> Value {
    let mut state = world.lock();
    state.updates.webhook = None;
    if call.flag("drop_pending_updates") {
        state.updates.waiting.clear();
    }
    json!(true)
}

pub(super) fn get_webhook_info(world: &TelegramWorld) -> Value {
    let state = world.lock();
    let queue = &state.updates;
    let mut info = json!({
        "url": queue.webhook.as_ref().map_or("", |webhook| webhook.url.as_str()),
        "has_custom_certificate": false,
        "pending_update_count": queue.waiting.len(),
    });
    if let Some(allowed) = &queue.allowed {
        info["allowed_updates"] = json!(allowed);
    }
    if let Some(error) = queue.webhook_error {
        info["last_error_date"] = json!(jiff::Timestamp::now().as_second());
        info["last_error_message"] = json!(error);
    }
    info
}
