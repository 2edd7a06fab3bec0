//! A client that records every request and fails on demand.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    path::Path,
    sync::Arc,
    time::Duration,
};

use futures::future::BoxFuture;
use hermes_config::sync::Mutex;
use hermes_gateway::{
    outbound::DeliveryClock,
    platform::{
        Account, Attachment, ChatAddress, ClientLimits, CommandSpec, FatalError, InboundEvent,
        LivePreview, OutboundMessage, PlatformClient, PlatformHealth, PostError, Posted, TaskState,
        UpdateIntake,
    },
};
use hermes_store::mirror::Channel;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{ManualClock, account};

/// A request, and when it came.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Call {
    pub(super) at: Duration,
    pub(super) chat: String,
    pub(super) kind: CallKind,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum CallKind {
    Post(OutboundMessage),
    Edit(String, String),
    Delete(String),
    Typing,
    Native(&'static str, String),
}

/// The platform's own way to show growing answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NativeMethod {
    None,
    /// It becomes a message.
    Stays,
    /// It vanishes, and the message is posted.
    Vanishes,
}

#[derive(Default)]
struct ClientState {
    calls: Vec<Call>,
    /// What the next posts and edits answer, for all chats.
    faults: VecDeque<PostError>,
    /// What edits answer, once each.
    edit_faults: VecDeque<PostError>,
    /// Everything fails while there is one.
    outage: Option<PostError>,
    /// Posts to these chats hang.
    held: HashMap<String, CancellationToken>,
    /// The messages as people see them.
    messages: BTreeMap<u32, (String, OutboundMessage)>,
    last_id: u32,
    /// So many posts arrive, but their replies do not.
    lost_replies: usize,
    /// Whether the platform tells which message has a nonce.
    tells_nonces: bool,
}

pub(super) struct RecordingClient {
    account: Account,
    clock: Arc<ManualClock>,
    state: Arc<Mutex<ClientState>>,
    native: Mutex<NativeMethod>,
    message_limit: Mutex<usize>,
}

impl RecordingClient {
    pub(super) fn new(clock: Arc<ManualClock>) -> Arc<Self> {
        Arc::new(Self {
            account: account(),
            clock,
            state: Arc::default(),
            native: Mutex::new(NativeMethod::None),
            message_limit: Mutex::new(100),
        })
    }

    pub(super) fn calls(&self) -> Vec<Call> {
        self.state.lock().calls.clone()
    }

    pub(super) fn calls_without_typing(&self) -> Vec<Call> {
        let mut calls = self.calls();
        calls.retain(|call| call.kind != CallKind::Typing);
        calls
    }

    pub(super) fn count(&self, is_meant: impl Fn(&CallKind) -> bool) -> usize {
        let state = self.state.lock();
        state
            .calls
            .iter()
            .filter(|call| is_meant(&call.kind))
            .count()
    }

    /// The texts that people see in a chat, in order.
    pub(super) fn texts(&self, chat: &str) -> Vec<String> {
        let messages = self.messages(chat);
        messages.into_iter().map(|message| message.text).collect()
    }

    pub(super) fn messages(&self, chat: &str) -> Vec<OutboundMessage> {
        let state = self.state.lock();
        let there = state.messages.values().filter(|(there, _)| there == chat);
        there.map(|(_, message)| message.clone()).collect()
    }

    pub(super) fn fail_next(&self, fault: PostError) {
        self.state.lock().faults.push_back(fault);
    }

    pub(super) fn fail_next_edit(&self, fault: PostError) {
        self.state.lock().edit_faults.push_back(fault);
    }

    pub(super) fn set_outage(&self, outage: Option<PostError>) {
        self.state.lock().outage = outage;
    }

    pub(super) fn set_native(&self, way: NativeMethod) {
        *self.native.lock() = way;
    }

    /// The next post arrives, but its reply is lost. The platform tells which message has a nonce.
    pub(super) fn lose_next_reply(&self) {
        let mut state = self.state.lock();
        state.lost_replies += 1;
        state.tells_nonces = true;
    }

    /// Posts to the chat hang until they are released.
    pub(super) fn hold(&self, chat: &str) {
        let release = CancellationToken::new();
        self.state.lock().held.insert(chat.to_owned(), release);
    }

    pub(super) fn release_all(&self) {
        for (_, held) in self.state.lock().held.drain() {
            held.cancel();
        }
    }

    fn record(&self, chat: &ChatAddress, kind: CallKind) {
        record(&self.state, &self.clock, &chat.id, kind);
    }

    fn next_fault(&self) -> Result<(), PostError> {
        let mut state = self.state.lock();
        let fault = state.faults.pop_front().or_else(|| state.outage.clone());
        fault.map_or(Ok(()), Err)
    }
}

fn record(state: &Mutex<ClientState>, clock: &ManualClock, chat: &str, kind: CallKind) {
    state.lock().calls.push(Call {
        at: clock.monotonic(),
        chat: chat.to_owned(),
        kind,
    });
}

fn add_message(state: &Mutex<ClientState>, chat: &str, message: &OutboundMessage) -> Posted {
    let mut state = state.lock();
    state.last_id += 1;
    let id = state.last_id;
    state
        .messages
        .insert(id, (chat.to_owned(), message.clone()));
    Posted {
        message_id: id.to_string(),
        warning: None,
    }
}

impl PlatformClient for RecordingClient {
    fn account(&self) -> &Account {
        &self.account
    }

    fn limits(&self) -> ClientLimits {
        ClientLimits {
            message: *self.message_limit.lock(),
            caption: 40,
            measure: |text| text.chars().count(),
            edit_interval: (Duration::from_secs(1), Duration::from_secs(3)),
            typing_interval: Duration::from_secs(4),
            album: 3,
        }
    }

    fn receive<'a>(
        &'a self,
        _intake: &'a dyn UpdateIntake,
        _health: &'a PlatformHealth,
        _stop: CancellationToken,
    ) -> BoxFuture<'a, Result<(), FatalError>> {
        Box::pin(async { Ok(()) })
    }

    fn decode(&self, _payload: &Value) -> Option<InboundEvent> {
        None
    }

    fn post<'a>(
        &'a self,
        chat: &'a ChatAddress,
        message: &'a OutboundMessage,
    ) -> BoxFuture<'a, Result<Posted, PostError>> {
        Box::pin(async move {
            self.record(chat, CallKind::Post(message.clone()));
            let held = self.state.lock().held.get(&chat.id).cloned();
            if let Some(held) = held {
                held.cancelled().await;
            }
            self.next_fault()?;
            let posted = add_message(&self.state, &chat.id, message);
            let mut state = self.state.lock();
            if state.lost_replies > 0 {
                state.lost_replies -= 1;
                return Err(PostError::Temporary {
                    reason: "no reply".into(),
                });
            }
            Ok(posted)
        })
    }

    fn find_posted<'a>(
        &'a self,
        chat: &'a ChatAddress,
        nonce: &'a str,
        _since: f64,
    ) -> BoxFuture<'a, Result<Option<String>, PostError>> {
        Box::pin(async move {
            let state = self.state.lock();
            let is_meant = |(there, message): &(String, OutboundMessage)| {
                *there == chat.id && message.nonce.as_deref() == Some(nonce)
            };
            let found = state.messages.iter().find(|(_, it)| is_meant(it));
            let found = found.filter(|_| state.tells_nonces);
            Ok(found.map(|(id, _)| id.to_string()))
        })
    }

    fn edit<'a>(
        &'a self,
        chat: &'a ChatAddress,
        message_id: &'a str,
        message: &'a OutboundMessage,
    ) -> BoxFuture<'a, Result<(), PostError>> {
        Box::pin(async move {
            let kind = CallKind::Edit(message_id.to_owned(), message.text.clone());
            self.record(chat, kind);
            let fault = self.state.lock().edit_faults.pop_front();
            fault.map_or(Ok(()), Err)?;
            self.next_fault()?;
            let mut state = self.state.lock();
            match state.messages.get_mut(&message_id.parse().unwrap()) {
                Some((_, shown)) => {
                    shown.text.clone_from(&message.text);
                    Ok(())
                }
                None => Err(PostError::Refused {
                    reason: "message to edit not found".into(),
                }),
            }
        })
    }

    fn delete<'a>(
        &'a self,
        chat: &'a ChatAddress,
        message_id: &'a str,
    ) -> BoxFuture<'a, Result<(), PostError>> {
        Box::pin(async move {
            self.record(chat, CallKind::Delete(message_id.to_owned()));
            let mut state = self.state.lock();
            state.messages.remove(&message_id.parse().unwrap());
            Ok(())
        })
    }

    fn show_typing<'a>(&'a self, chat: &'a ChatAddress) -> BoxFuture<'a, Result<(), PostError>> {
        Box::pin(async move {
            self.record(chat, CallKind::Typing);
            Ok(())
        })
    }

    fn open_preview<'a>(
        &'a self,
        chat: &'a ChatAddress,
        _reply_to: Option<&'a InboundEvent>,
    ) -> BoxFuture<'a, Result<Option<Box<dyn LivePreview>>, PostError>> {
        Box::pin(async move {
            let way = *self.native.lock();
            if way == NativeMethod::None {
                return Ok(None);
            }
            self.record(chat, CallKind::Native("open", String::new()));
            Ok(Some(Box::new(RecordingPreview {
                chat: chat.id.clone(),
                clock: Arc::clone(&self.clock),
                state: Arc::clone(&self.state),
                way,
            }) as Box<dyn LivePreview>))
        })
    }

    fn acknowledge<'a>(
        &'a self,
        _event: &'a InboundEvent,
        _notice: Option<&'a str>,
    ) -> BoxFuture<'a, Result<(), PostError>> {
        Box::pin(async { Ok(()) })
    }

    fn react<'a>(
        &'a self,
        _chat: &'a ChatAddress,
        _message_id: &'a str,
        _reaction: &'a str,
    ) -> BoxFuture<'a, Result<(), PostError>> {
        Box::pin(async { Ok(()) })
    }

    fn download<'a>(
        &'a self,
        _attachment: &'a Attachment,
        _file: &'a Path,
        _max_bytes: u64,
    ) -> BoxFuture<'a, Result<(), PostError>> {
        Box::pin(async { Ok(()) })
    }

    fn register_commands<'a>(
        &'a self,
        _commands: &'a [CommandSpec],
    ) -> BoxFuture<'a, Result<(), PostError>> {
        Box::pin(async { Ok(()) })
    }

    fn list_channels(&self) -> BoxFuture<'_, Result<Vec<Channel>, PostError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn open_thread<'a>(
        &'a self,
        _chat: &'a ChatAddress,
        _message_id: &'a str,
        _name: &'a str,
    ) -> BoxFuture<'a, Result<Option<ChatAddress>, PostError>> {
        Box::pin(async { Ok(None) })
    }
}

struct RecordingPreview {
    chat: String,
    clock: Arc<ManualClock>,
    state: Arc<Mutex<ClientState>>,
    way: NativeMethod,
}

impl RecordingPreview {
    fn record(&self, what: &'static str, text: &str) -> Result<(), PostError> {
        let kind = CallKind::Native(what, text.to_owned());
        record(&self.state, &self.clock, &self.chat, kind);
        let mut state = self.state.lock();
        let fault = state.edit_faults.pop_front();
        fault.map_or(Ok(()), Err)
    }
}

impl LivePreview for RecordingPreview {
    fn update<'a>(&'a mut self, text: &'a str) -> BoxFuture<'a, Result<(), PostError>> {
        Box::pin(async move { self.record("update", text) })
    }

    fn update_task<'a>(
        &'a mut self,
        _id: &'a str,
        title: &'a str,
        state: TaskState,
    ) -> BoxFuture<'a, Result<(), PostError>> {
        let step = format!("{title} {state:?}");
        Box::pin(async move { self.record("step", &step) })
    }

    fn finish<'a>(
        &'a mut self,
        message: &'a OutboundMessage,
    ) -> BoxFuture<'a, Result<Option<Posted>, PostError>> {
        Box::pin(async move {
            self.record("finish", &message.text)?;
            let stays = self.way == NativeMethod::Stays;
            Ok(stays.then(|| add_message(&self.state, &self.chat, message)))
        })
    }

    fn discard(&mut self) -> BoxFuture<'_, ()> {
        let kind = CallKind::Native("discard", String::new());
        record(&self.state, &self.clock, &self.chat, kind);
        Box::pin(async {})
    }
}
