//! Delivers what waits for one chat, oldest first, until nothing is left.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use hermes_config::random::random_number;
use hermes_store::{
    MessageId,
    runtime::{OutboundAction, OutboundChat, OutboundRow},
};
use tokio_util::sync::CancellationToken;

use super::{
    ChatMigration, OutboxInner,
    budget::ChatBudget,
    reply_plan::message_limit,
    stored_chunk::{StoredChunk, address_from_json},
};
use crate::{
    platform::{
        Account, ChatAddress, ClientLimits, OutboundMessage, PostError, SharedClient, TextFormat,
    },
    send::{LengthLimit, check_file},
};

const FIRST_RETRY: Duration = Duration::from_secs(1);
const MAX_RETRY: Duration = Duration::from_mins(1);
/// Timeout of a post; clients have shorter ones of their own.
const POST_TIMEOUT: Duration = Duration::from_mins(2);
/// The same with files, which are uploaded.
const UPLOAD_TIMEOUT: Duration = Duration::from_mins(10);
/// A message that may have been posted is looked for from so long before it was queued: its turn may have been repeated, and
/// the platform has a clock of its own.
const POSTED_WITHIN: Duration = Duration::from_hours(1);
/// A message that arrives later than this says so.
const LATE_AFTER: Duration = Duration::from_mins(5);
const LATE_MARK: &str = "(sent late)";

pub(super) struct ChatDelivery {
    pub(super) outbox: Arc<OutboxInner>,
    pub(super) chat: OutboundChat,
    pub(super) stop: CancellationToken,
}

/// What comes after a chunk.
enum NextStep {
    NextChunk,
    /// Stopped, or the chat has another id.
    End,
}

/// What comes after an attempt.
enum AttemptEnd {
    Sent {
        message_id: String,
    },
    /// At once, with what was changed.
    Again,
    /// After so long, or when the account has another client.
    Later {
        wait: Duration,
    },
    Migrated {
        new_id: String,
    },
    Failed {
        reason: String,
    },
}

impl ChatDelivery {
    pub(super) async fn run(self) {
        let mut failures = 0;
        while !self.stop.is_cancelled() {
            match self.outbox.runtime.next_outbound(&self.chat).await {
                // Whoever claimed it sends it now, and wakes us afterwards.
                Ok(Some(row)) if row.is_claimed => return,
                Ok(Some(row)) => {
                    failures = 0;
                    if let NextStep::End = self.deliver(row).await {
                        return;
                    }
                }
                Ok(None) => return,
                Err(error) => {
                    tracing::error!(chat = self.chat.chat, %error, "outbox could not be read");
                    failures += 1;
                    if self.sleep(retry_delay(failures)).await.is_err() {
                        return;
                    }
                }
            }
        }
    }

    async fn deliver(&self, row: OutboundRow) -> NextStep {
        let label = match self.chat.account.as_str() {
            "" => self.chat.platform.clone(),
            account => format!("{}@{account}", self.chat.platform),
        };
        let Some(account) = Account::from_label(&label) else {
            let failed = self
                .outbox
                .runtime
                .fail_outbound(row.id, "unknown platform");
            return self.next_step(failed.await.is_ok());
        };
        let left = row.remaining_wait(self.outbox.clock.wall());
        if !left.is_zero() && self.sleep(left).await.is_err() {
            return NextStep::End;
        }
        let now = self.outbox.clock.monotonic();
        let mut chunk = ChunkDelivery {
            budget: self.outbox.budgets.get(&account, &self.chat.chat, now),
            chat: address_from_json(&row.target),
            content: StoredChunk::from_json(&row.payload),
            format: TextFormat::Markdown,
            action: row.action,
            attempts: row.attempts,
            is_inherited: row.id <= self.outbox.last_inherited.load(Ordering::Relaxed),
            is_mark_sent: false,
            account,
            delivery: self,
            row,
        };
        chunk.deliver().await
    }

    fn next_step(&self, goes_on: bool) -> NextStep {
        if goes_on {
            NextStep::NextChunk
        } else {
            NextStep::End
        }
    }

    /// Waits; an error means that the worker stops.
    async fn sleep(&self, time: Duration) -> Result<(), Stopped> {
        tokio::select! {
            () = self.outbox.clock.sleep(time) => Ok(()),
            () = self.stop.cancelled() => Err(Stopped),
        }
    }
}

struct Stopped;

/// One chunk on its way.
struct ChunkDelivery<'d> {
    delivery: &'d ChatDelivery,
    row: OutboundRow,
    account: Account,
    chat: ChatAddress,
    content: StoredChunk,
    budget: Arc<ChatBudget>,
    format: TextFormat,
    action: OutboundAction,
    attempts: i64,
    /// An earlier process queued it.
    is_inherited: bool,
    /// The mark of a late message that had no room in it was posted before it.
    is_mark_sent: bool,
}

impl ChunkDelivery<'_> {
    fn outbox(&self) -> &OutboxInner {
        &self.delivery.outbox
    }

    async fn deliver(&mut self) -> NextStep {
        loop {
            // Before the client is looked up, so that no change goes unnoticed.
            let mut changes = self.outbox().clients.watch_changes();
            let end = match self.outbox().clients.get(&self.account) {
                Some(client) => {
                    let budget = Arc::clone(&self.budget);
                    // Edits and typing signs hold back from now on.
                    let _waiting = budget.begin_message();
                    while let Some(left) = budget.remaining_block(self.outbox().clock.monotonic()) {
                        if self.delivery.sleep(left).await.is_err() {
                            return NextStep::End;
                        }
                    }
                    self.attempt(&client).await
                }
                None => AttemptEnd::Later { wait: MAX_RETRY },
            };
            match end {
                AttemptEnd::Sent { message_id } => return self.mark_sent(&message_id).await,
                AttemptEnd::Again => {}
                AttemptEnd::Later { wait } => tokio::select! {
                    waited = self.delivery.sleep(wait) => {
                        if waited.is_err() {
                            return NextStep::End;
                        }
                    }
                    _ = changes.changed() => {}
                },
                AttemptEnd::Migrated { new_id } => return self.migrate(new_id).await,
                AttemptEnd::Failed { reason } => return self.fail(&reason).await,
            }
        }
    }

    async fn attempt(&mut self, client: &SharedClient) -> AttemptEnd {
        let outbox = Arc::clone(&self.delivery.outbox);
        let permits = outbox.permits(&self.account).posts;
        let Ok(_permit) = permits.acquire().await else {
            return AttemptEnd::Later { wait: FIRST_RETRY };
        };
        if self.action != OutboundAction::Delete {
            self.drop_missing_files(&outbox).await;
        }
        let timeout = if self.content.files.is_empty() {
            POST_TIMEOUT
        } else {
            UPLOAD_TIMEOUT
        };
        let request = self.request(client);
        let result = match tokio::time::timeout(timeout, request).await {
            Ok(result) => result,
            Err(_) => Err(PostError::Temporary {
                reason: format!("no reply within {} s", timeout.as_secs()),
            }),
        };
        match result {
            Ok(message_id) => {
                self.budget.record_sent(outbox.clock.monotonic());
                AttemptEnd::Sent { message_id }
            }
            Err(error) => self.handle_error(error).await,
        }
    }

    /// One request to the platform. Returns the message's id.
    async fn request(&mut self, client: &SharedClient) -> Result<String, PostError> {
        let known = self.row.message_id.clone().unwrap_or_default();
        if self.action == OutboundAction::Delete {
            client.delete(&self.chat, &known).await?;
            return Ok(known);
        }
        let mut message = self.content.to_message(Some(self.nonce()));
        message.format = self.format;
        if let Some(posted) = self.find_posted(client, &message).await? {
            return Ok(posted);
        }
        if self.is_late() && !self.is_mark_sent {
            let marked = format!("{LATE_MARK}\n{}", message.text);
            if text_limit(&client.limits(), &message).fits(&marked) {
                message.text = marked;
            } else {
                client
                    .post(&self.chat, &OutboundMessage::text(LATE_MARK))
                    .await?;
                self.is_mark_sent = true;
            }
        }
        if self.action == OutboundAction::Replace {
            client.edit(&self.chat, &known, &message).await?;
            return Ok(known);
        }
        let posted = client.post(&self.chat, &message).await?;
        if let Some(warning) = posted.warning {
            tracing::warn!(account = %self.account, chat = self.chat.id, warning, "message was posted elsewhere");
        }
        Ok(posted.message_id)
    }

    /// The message that an earlier attempt posted, if its reply was lost and the platform can tell. It gets this text: an
    /// earlier process may have answered otherwise.
    async fn find_posted(
        &self,
        client: &SharedClient,
        message: &OutboundMessage,
    ) -> Result<Option<String>, PostError> {
        let may_be_posted = self.attempts > 0 || self.is_inherited || self.content.may_be_posted;
        let (OutboundAction::Post, true, Some(nonce)) =
            (self.action, may_be_posted, &message.nonce)
        else {
            return Ok(None);
        };
        let since = self.row.created_at - POSTED_WITHIN.as_secs_f64();
        let found = match client.find_posted(&self.chat, nonce, since).await {
            Ok(found) => found,
            Err(
                error @ (PostError::Temporary { .. }
                | PostError::RateLimited { .. }
                | PostError::BadToken { .. }),
            ) => return Err(error),
            Err(error) => {
                tracing::info!(account = %self.account, %error, "whether it was posted is unknown; posting");
                None
            }
        };
        let Some(message_id) = found else {
            return Ok(None);
        };
        tracing::info!(account = %self.account, chat = self.chat.id, "message was posted before");
        match client.edit(&self.chat, &message_id, message).await {
            Ok(()) => Ok(Some(message_id)),
            // It was deleted meanwhile.
            Err(PostError::Refused { .. } | PostError::Unsupported) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn handle_error(&mut self, error: PostError) -> AttemptEnd {
        let outbox = self.outbox();
        match error {
            PostError::RateLimited { wait } => {
                self.budget.block(outbox.clock.monotonic(), wait);
                self.record_retry(wait, "rate limited").await;
                // The budget waits for all of it.
                AttemptEnd::Again
            }
            PostError::Temporary { reason } => {
                self.attempts += 1;
                let wait = retry_delay(self.attempts);
                tracing::info!(account = %self.account, attempts = self.attempts, reason, "post failed; retrying");
                self.record_retry(wait, &reason).await;
                AttemptEnd::Later { wait }
            }
            PostError::BadToken { reason } => {
                tracing::warn!(account = %self.account, "post failed: the token is not valid");
                self.record_retry(MAX_RETRY, &reason).await;
                AttemptEnd::Later { wait: MAX_RETRY }
            }
            PostError::Markup { reason } if self.format == TextFormat::Markdown => {
                tracing::info!(account = %self.account, reason, "markup was refused; sending plain text");
                self.format = TextFormat::Plain;
                AttemptEnd::Again
            }
            PostError::Migrated { new_id } if new_id != self.chat.id => {
                AttemptEnd::Migrated { new_id }
            }
            error @ (PostError::Markup { .. }
            | PostError::Migrated { .. }
            | PostError::Unsupported
            | PostError::TooLate
            | PostError::Refused { .. }) => self.handle_refusal(&error),
        }
    }

    fn handle_refusal(&mut self, error: &PostError) -> AttemptEnd {
        match self.action {
            // It is gone already, or too old to be deleted.
            OutboundAction::Delete => AttemptEnd::Sent {
                message_id: self.row.message_id.clone().unwrap_or_default(),
            },
            OutboundAction::Replace => {
                tracing::info!(account = %self.account, %error, "preview could not be replaced; posting the answer");
                self.action = OutboundAction::Post;
                self.format = TextFormat::Markdown;
                AttemptEnd::Again
            }
            OutboundAction::Post if !self.content.files.is_empty() => {
                tracing::warn!(account = %self.account, %error, "files were refused; sending the text alone");
                let names: Vec<String> = self.content.files.drain(..).map(|it| it.name).collect();
                self.add_note(&format!("({} was not sent: {error})", names.join(", ")));
                AttemptEnd::Again
            }
            OutboundAction::Post => AttemptEnd::Failed {
                reason: error.to_string(),
            },
        }
    }

    /// Files may have been deleted, or replaced by links, since the message was queued.
    async fn drop_missing_files(&mut self, outbox: &OutboxInner) {
        let gate = Arc::clone(&outbox.gate.read());
        let mut kept = Vec::new();
        for file in std::mem::take(&mut self.content.files) {
            match check_file(&file.path.to_string_lossy(), &gate).await {
                Ok(_) => kept.push(file),
                Err(reason) => {
                    tracing::warn!(account = %self.account, file = file.name, reason, "file was not sent");
                    self.add_note(&format!("({} was not sent: {reason})", file.name));
                }
            }
        }
        self.content.files = kept;
    }

    fn add_note(&mut self, note: &str) {
        if !self.content.text.is_empty() {
            self.content.text.push('\n');
        }
        self.content.text.push_str(note);
    }

    fn is_late(&self) -> bool {
        let age = self.outbox().clock.wall() - self.row.created_at;
        self.row.chunk == 1 && (self.content.is_late || age > LATE_AFTER.as_secs_f64())
    }

    /// The same for the same chunk, after a restart too.
    fn nonce(&self) -> String {
        let mut nonce = match &self.content.nonce {
            Some(nonce) => nonce.clone(),
            None => format!("{:x}-{:x}", self.row.id, self.row.created_at.to_bits()),
        };
        if self.row.action == OutboundAction::Replace {
            // It is posted because the message that it was to replace is gone.
            nonce.push('r');
        }
        nonce
    }

    async fn record_retry(&self, wait: Duration, reason: &str) {
        let outbox = self.outbox();
        let recorded = outbox
            .runtime
            .retry_outbound(self.row.id, outbox.clock.wall(), wait, reason)
            .await;
        if let Err(error) = recorded {
            tracing::error!(%error, "failed post could not be recorded");
        }
    }

    /// The message is there: that is stored whatever it takes, or it would be sent again.
    async fn mark_sent(&self, message_id: &str) -> NextStep {
        let shown_message = self.content.shown_message.map(MessageId);
        self.outbox().record_shown(shown_message, message_id).await;
        let mut failures = 0;
        loop {
            match self
                .outbox()
                .runtime
                .mark_sent(self.row.id, message_id)
                .await
            {
                Ok(()) => {
                    self.outbox().sent.notify_one();
                    return NextStep::NextChunk;
                }
                Err(error) => {
                    tracing::error!(%error, "sent message could not be marked; trying again");
                    failures += 1;
                    if self.delivery.sleep(retry_delay(failures)).await.is_err() {
                        return NextStep::End;
                    }
                }
            }
        }
    }

    async fn migrate(&self, new_id: String) -> NextStep {
        let outbox = self.outbox();
        let old = &self.delivery.chat;
        tracing::info!(account = %self.account, old = old.chat, new = new_id, "chat id changed");
        let label = self.account.label();
        if let Err(error) = outbox.runtime.rewrite_chat_id(old, &label, &new_id).await {
            tracing::error!(%error, "chat id could not be rewritten; trying again");
            let _ = self.delivery.sleep(FIRST_RETRY).await;
            return NextStep::NextChunk;
        }
        let handler = outbox.on_migration.read().clone();
        if let Some(handler) = handler {
            let migration = ChatMigration {
                account: self.account.clone(),
                old_id: old.chat.clone(),
                new_id: new_id.clone(),
            };
            handler(migration).await;
        }
        outbox
            .woken
            .wake(super::outbound_chat(&self.account, &new_id));
        NextStep::End
    }

    async fn fail(&self, reason: &str) -> NextStep {
        tracing::error!(account = %self.account, chat = self.chat.id, reason, "message cannot be delivered");
        let mut failures = 0;
        loop {
            match self
                .outbox()
                .runtime
                .fail_outbound(self.row.id, reason)
                .await
            {
                Ok(()) => return NextStep::NextChunk,
                Err(error) => {
                    tracing::error!(%error, "refused message could not be marked; trying again");
                    failures += 1;
                    if self.delivery.sleep(retry_delay(failures)).await.is_err() {
                        return NextStep::End;
                    }
                }
            }
        }
    }
}

fn text_limit(limits: &ClientLimits, message: &OutboundMessage) -> LengthLimit {
    if message.files.is_empty() {
        message_limit(limits)
    } else {
        LengthLimit {
            max: limits.caption,
            measure: limits.measure,
        }
    }
}

/// 1 s doubling to 60 s, and up to a quarter more, so that chats do not try in step.
fn retry_delay(failures: i64) -> Duration {
    let doublings = u32::try_from(failures.clamp(1, 7) - 1).unwrap_or_default();
    let delay = (FIRST_RETRY * 2_u32.pow(doublings)).min(MAX_RETRY);
    let quarter = u64::try_from(delay.as_millis() / 4).unwrap_or(1).max(1);
    delay + Duration::from_millis(random_number() % quarter)
}
