//! Everything that the gateway says on platforms.
//!
//! An [`Outbox`] stores a reply as chunks before anything is sent, and delivers them until they are there: in order within
//! a chat, chats side by side. What need not survive a crash is posted at once. An [`AnswerStream`] shows an answer while it
//! grows; its messages become the chunks of the final answer in place.

mod answer_stream;
mod budget;
mod chat_delivery;
mod claims;
mod clients;
mod clock;
mod immediate;
mod reply_plan;
mod stored_chunk;
mod typing;
mod worker;

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, atomic::AtomicI64},
    time::Duration,
};

use futures::future::BoxFuture;
use hermes_config::{
    Home, Settings,
    sync::{Mutex, RwLock},
};
use hermes_store::{
    MessageId, StoreError,
    runtime::{
        ChunkStart, NewOutbound, NewOutboundChunk, OutboundChat, OutboundState, RuntimeStore,
    },
};
use tokio::sync::{Notify, Semaphore};
use tokio_util::task::TaskTracker;

use self::{
    budget::ChatBudgets,
    claims::ClaimedReplies,
    reply_plan::{CaptionUse, ReplyPlan, plan_reply},
    stored_chunk::{StoredChunk, address_to_json, message_nonce},
    worker::WokenChats,
};
use crate::{
    platform::{Account, ChatAddress, ClientLimits, OutboundMessage, PostError},
    send::MediaGate,
};

pub use self::{
    answer_stream::{
        AnswerFeed, AnswerPreview, AnswerRequest, AnswerStream, FinishedAnswer, StreamMode,
    },
    clients::ClientRegistry,
    clock::{DeliveryClock, SharedClock, SystemClock},
    reply_plan::is_silence,
    typing::TypingSign,
};

/// Posts of one account that go on side by side. More than any platform accepts in a second.
const PARALLEL_POSTS: usize = 32;
/// Previews of one account that are sent side by side; those that find no place are joined to their next.
const PARALLEL_PREVIEWS: usize = 32;
/// Timeout of turning a preview into a message.
const FINISH_TIMEOUT: Duration = Duration::from_secs(15);
/// Lengths of an account that has no client: the least that any platform has.
const LEAST_LIMITS: ClientLimits = ClientLimits {
    message: 2000,
    caption: 1000,
    measure: |text| text.encode_utf16().count(),
    edit_interval: (Duration::from_secs(1), Duration::from_secs(3)),
    typing_interval: Duration::from_secs(4),
    album: 1,
};

/// A reply to a chat.
pub struct QueuedReply {
    pub account: Account,
    pub chat: ChatAddress,
    /// Markdown; may have `MEDIA:` tags.
    pub text: String,
    /// The message to reply to.
    pub reply_to: Option<String>,
    /// Whether every chunk replies to it, and not the first alone.
    pub replies_with_every_chunk: bool,
    /// The same for the same reply: it is sent once.
    pub dedupe_key: String,
    /// What already shows the answer: from [`AnswerStream::finish`].
    pub first_posted: Option<AnswerPreview>,
    /// Whether it is marked as late however soon it is sent.
    pub sent_late: bool,
    /// The stored message that it shows, which gets the platform's id of the first chunk.
    pub shown_message: Option<MessageId>,
    /// Whether an earlier process may have sent it without recording that.
    pub may_be_posted: bool,
}

impl QueuedReply {
    pub fn new(
        account: Account,
        chat: ChatAddress,
        text: impl Into<String>,
        dedupe_key: impl Into<String>,
    ) -> Self {
        Self {
            account,
            chat,
            text: text.into(),
            reply_to: None,
            replies_with_every_chunk: false,
            dedupe_key: dedupe_key.into(),
            first_posted: None,
            sent_late: false,
            shown_message: None,
            may_be_posted: false,
        }
    }
}

/// What became of a reply when it was queued.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReplyReceipt {
    /// Whether it is sent because of this call: not, if it was queued before or is silence.
    pub is_new: bool,
    /// Files that are not sent, and why.
    pub warnings: Vec<String>,
}

/// A chat that has another id from now on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatMigration {
    pub account: Account,
    pub old_id: String,
    pub new_id: String,
}

/// Rewrites the ids that the outbox does not know of: sessions, allow-lists, targets.
pub type MigrationHandler = Arc<dyn Fn(ChatMigration) -> BoxFuture<'static, ()> + Send + Sync>;

/// Records the platform's id of a stored message that was sent.
pub type SentHandler = Arc<dyn Fn(MessageId, String) -> BoxFuture<'static, ()> + Send + Sync>;

/// The messages of a gateway. Clones share them.
#[derive(Clone)]
pub struct Outbox {
    inner: Arc<OutboxInner>,
}

struct OutboxInner {
    runtime: RuntimeStore,
    clients: ClientRegistry,
    clock: SharedClock,
    /// The last row that an earlier process queued, and may have sent without recording that.
    last_inherited: AtomicI64,
    gate: RwLock<Arc<MediaGate>>,
    home: Home,
    budgets: ChatBudgets,
    permits: Mutex<HashMap<Account, AccountPermits>>,
    woken: WokenChats,
    claims: ClaimedReplies,
    on_migration: RwLock<Option<MigrationHandler>>,
    on_sent: RwLock<Option<SentHandler>>,
    /// Notified when a message was sent and recorded.
    sent: Notify,
    /// Tasks of growing answers and typing signs. The worker waits for them when it stops.
    tasks: TaskTracker,
}

#[derive(Debug, Clone)]
struct AccountPermits {
    posts: Arc<Semaphore>,
    previews: Arc<Semaphore>,
}

impl Outbox {
    pub fn new(
        home: &Home,
        settings: &Settings,
        runtime: RuntimeStore,
        clients: ClientRegistry,
    ) -> Self {
        Self::with_clock(
            home,
            settings,
            runtime,
            clients,
            Arc::new(SystemClock::default()),
        )
    }

    /// An outbox that goes by another clock.
    pub fn with_clock(
        home: &Home,
        settings: &Settings,
        runtime: RuntimeStore,
        clients: ClientRegistry,
        clock: SharedClock,
    ) -> Self {
        Self {
            inner: Arc::new(OutboxInner {
                runtime,
                clients,
                clock,
                last_inherited: AtomicI64::new(0),
                gate: RwLock::new(Arc::new(media_gate(home, settings))),
                home: home.clone(),
                budgets: ChatBudgets::default(),
                permits: Mutex::default(),
                woken: WokenChats::default(),
                claims: ClaimedReplies::default(),
                on_migration: RwLock::default(),
                on_sent: RwLock::default(),
                sent: Notify::new(),
                tasks: TaskTracker::new(),
            }),
        }
    }

    /// Returns when messages were sent and recorded since this was called last.
    pub async fn wait_for_sent(&self) {
        self.inner.sent.notified().await;
    }

    /// Takes over other settings.
    pub fn apply_settings(&self, settings: &Settings) {
        let gate = media_gate(&self.inner.home, settings);
        *self.inner.gate.write() = Arc::new(gate);
    }

    /// Who is told when a platform says that a chat has another id.
    pub fn set_migration_handler(&self, handler: MigrationHandler) {
        *self.inner.on_migration.write() = Some(handler);
    }

    /// Who is told when a stored message is there.
    pub fn set_sent_handler(&self, handler: SentHandler) {
        *self.inner.on_sent.write() = Some(handler);
    }

    pub fn clients(&self) -> &ClientRegistry {
        &self.inner.clients
    }

    /// What became of the reply with this key; `None` if it was never queued.
    pub async fn reply_state(&self, dedupe_key: &str) -> Result<Option<OutboundState>, StoreError> {
        self.inner.runtime.outbound_state(dedupe_key).await
    }

    /// Stores a reply, which is sent at once if possible, and until it is there.
    pub fn queue_reply(
        &self,
        reply: QueuedReply,
    ) -> BoxFuture<'_, Result<ReplyReceipt, StoreError>> {
        Box::pin(self.store_reply(reply))
    }

    async fn store_reply(&self, mut reply: QueuedReply) -> Result<ReplyReceipt, StoreError> {
        let inner = &self.inner;
        let mut preview = reply.first_posted.take().unwrap_or_default();
        if is_silence(&reply.text) {
            self.remove_preview(&reply.account, &reply.chat, &reply.dedupe_key, preview)
                .await;
            return Ok(ReplyReceipt::default());
        }
        let limits = inner.limits(&reply.account);
        let captions = if preview.is_empty() {
            CaptionUse::Allowed
        } else {
            CaptionUse::Never
        };
        let gate = Arc::clone(&inner.gate.read());
        let plan = plan_reply(&reply.text, &gate, &limits, captions).await;
        for warning in &plan.warnings {
            tracing::warn!(account = %reply.account, warning, "file of a reply was not sent");
        }
        let chat = outbound_chat(&reply.account, &reply.chat.id);
        let warnings = plan.warnings.clone();
        let (new, claimed) = build_outbound(&reply, plan, &preview, &chat, inner.clock.wall());
        if new.chunks.is_empty() {
            self.remove_preview(&reply.account, &reply.chat, &reply.dedupe_key, preview)
                .await;
            return Ok(ReplyReceipt {
                is_new: false,
                warnings,
            });
        }
        let _claim = claimed
            .is_some()
            .then(|| inner.claims.hold(&reply.dedupe_key));
        if let Some(ChunkStart::Sent { message_id }) = new.chunks.first().map(|chunk| &chunk.start)
        {
            inner.record_shown(reply.shown_message, message_id).await;
        }
        let Some(ids) = inner.runtime.queue_outbound(&new).await? else {
            // The answer is there or on its way: this preview would be a second copy.
            self.remove_preview(&reply.account, &reply.chat, &reply.dedupe_key, preview)
                .await;
            return Ok(ReplyReceipt {
                is_new: false,
                warnings,
            });
        };
        if let Some((index, message)) = claimed
            && let Some(id) = ids.get(index)
        {
            let shown_message = reply.shown_message.filter(|_| index == 0);
            self.finish_claimed(&reply, &mut preview, *id, &message, shown_message)
                .await?;
        }
        inner.woken.wake(chat);
        Ok(ReplyReceipt {
            is_new: true,
            warnings,
        })
    }

    /// Turns the platform's own preview into the chunk, or leaves the chunk to be posted.
    async fn finish_claimed(
        &self,
        reply: &QueuedReply,
        preview: &mut AnswerPreview,
        id: i64,
        message: &OutboundMessage,
        shown_message: Option<MessageId>,
    ) -> Result<(), StoreError> {
        let inner = &self.inner;
        let now = inner.clock.monotonic();
        let budget = inner.budgets.get(&reply.account, &reply.chat.id, now);
        let posted = match preview.native.take() {
            None => None,
            Some(mut native) if budget.remaining_block(now).is_some() => {
                let _ = tokio::time::timeout(FINISH_TIMEOUT, native.discard()).await;
                None
            }
            Some(mut native) => {
                let finished = tokio::time::timeout(FINISH_TIMEOUT, native.finish(message)).await;
                match finished {
                    Ok(Ok(posted)) => posted,
                    failed => {
                        if let Ok(Err(PostError::RateLimited { wait })) = &failed {
                            budget.block(inner.clock.monotonic(), *wait);
                        }
                        tracing::debug!(account = %reply.account, "preview could not be finished");
                        let _ = tokio::time::timeout(FINISH_TIMEOUT, native.discard()).await;
                        None
                    }
                }
            }
        };
        match posted {
            Some(posted) => {
                budget.record_sent(inner.clock.monotonic());
                inner.record_shown(shown_message, &posted.message_id).await;
                let marked = inner.runtime.mark_sent(id, &posted.message_id).await;
                inner.sent.notify_one();
                marked
            }
            None => inner.runtime.release_outbound(id).await,
        }
    }

    /// Removes what shows an answer that is not to be sent.
    async fn remove_preview(
        &self,
        account: &Account,
        chat: &ChatAddress,
        dedupe_key: &str,
        preview: AnswerPreview,
    ) {
        let client = self.inner.clients.get(account);
        preview.remove(client.as_ref(), chat).await;
        if let Err(error) = self.inner.runtime.forget_preview(dedupe_key).await {
            tracing::warn!(%account, %error, "preview record could not be deleted");
        }
    }

    /// Rewrites the id of a chat in everything that waits for it.
    pub async fn migrate_chat(
        &self,
        account: &Account,
        old_id: &str,
        new_id: &str,
    ) -> Result<(), StoreError> {
        let old = outbound_chat(account, old_id);
        let label = account.label();
        self.inner
            .runtime
            .rewrite_chat_id(&old, &label, new_id)
            .await?;
        self.inner.woken.wake(outbound_chat(account, new_id));
        Ok(())
    }
}

impl OutboxInner {
    /// Tells that a stored message is there, as this message of the platform.
    async fn record_shown(&self, shown_message: Option<MessageId>, message_id: &str) {
        let handler = self.on_sent.read().clone();
        if let (Some(shown), Some(handler)) = (shown_message, handler) {
            handler(shown, message_id.to_owned()).await;
        }
    }

    fn limits(&self, account: &Account) -> ClientLimits {
        let client = self.clients.get(account);
        client.map_or(LEAST_LIMITS, |client| client.limits())
    }

    fn permits(&self, account: &Account) -> AccountPermits {
        let mut permits = self.permits.lock();
        let permits = permits
            .entry(account.clone())
            .or_insert_with(|| AccountPermits {
                posts: Arc::new(Semaphore::new(PARALLEL_POSTS)),
                previews: Arc::new(Semaphore::new(PARALLEL_PREVIEWS)),
            });
        permits.clone()
    }
}

fn outbound_chat(account: &Account, chat: &str) -> OutboundChat {
    OutboundChat {
        platform: account.platform.name().to_owned(),
        account: account.name.clone(),
        chat: chat.to_owned(),
    }
}

fn media_gate(home: &Home, settings: &Settings) -> MediaGate {
    let user = settings.variables.get("HOME").map(PathBuf::from);
    let user = user.or_else(std::env::home_dir);
    MediaGate::new(home, user, &settings.gateway.media_dirs)
}

/// The rows of a reply, and the chunk that the platform's own preview becomes.
fn build_outbound(
    reply: &QueuedReply,
    plan: ReplyPlan,
    preview: &AnswerPreview,
    chat: &OutboundChat,
    now: f64,
) -> (NewOutbound, Option<(usize, OutboundMessage)>) {
    let mut claimed = None;
    let mut chunks = Vec::with_capacity(plan.messages.len());
    for (index, planned) in plan.messages.into_iter().enumerate() {
        let has_files = !planned.files.is_empty();
        let mut chunk = StoredChunk::new(planned);
        if index == 0 || reply.replies_with_every_chunk {
            chunk.reply_to.clone_from(&reply.reply_to);
        }
        chunk.is_late = reply.sent_late && index == 0;
        chunk.may_be_posted = reply.may_be_posted;
        if index == 0 {
            chunk.shown_message = reply.shown_message.map(|message| message.0);
        }
        // A preview has no files: a message with files is another one.
        if !has_files {
            chunk.nonce = Some(message_nonce(&reply.dedupe_key, index + 1));
        }
        let start = match preview.shown.get(index) {
            _ if has_files => ChunkStart::PostAnew,
            Some(shown) if shown.text == chunk.text && !shown.has_stop && !chunk.is_late => {
                ChunkStart::Sent {
                    message_id: shown.message_id.clone(),
                }
            }
            Some(shown) => ChunkStart::Replace {
                message_id: shown.message_id.clone(),
            },
            None if preview.native.is_some() && index == preview.shown.len() => {
                claimed = Some((index, chunk.to_message(None)));
                ChunkStart::Claimed
            }
            None => ChunkStart::Post,
        };
        chunks.push(NewOutboundChunk {
            payload: chunk.to_json(),
            start,
        });
    }
    let new = NewOutbound {
        chat: chat.clone(),
        target: address_to_json(&reply.chat),
        chunks,
        dedupe_key: reply.dedupe_key.clone(),
        created_at: now,
    };
    (new, claimed)
}
