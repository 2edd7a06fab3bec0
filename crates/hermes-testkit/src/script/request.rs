//! One request on its way to its answer, and the client it came from.

use std::{
    collections::HashSet,
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{Outlet, ServerScript, lock};
use crate::{
    behaviour::{DiscoverBehaviour, Era, OnCancel, WrongId},
    wire,
};

/// One client as the server knows it: a connection, an MCP session, or a single stateless POST.
#[derive(Debug, Default)]
pub struct ScriptSession {
    key: String,
    pub(super) initialize: Mutex<Option<Value>>,
    pub(super) version: Mutex<Option<String>>,
    pub(super) discovered: AtomicBool,
    pub(super) log_level: Mutex<Option<String>>,
    pub(super) subscribed: Mutex<HashSet<String>>,
}

impl ScriptSession {
    /// A client that has said nothing yet.
    pub fn new(key: impl Into<String>) -> Arc<Self> {
        Arc::new(Self {
            key: key.into(),
            ..Self::default()
        })
    }

    /// What tells this client from others.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Whether `initialize` was answered.
    pub fn is_initialized(&self) -> bool {
        lock(&self.initialize).is_some()
    }
}

/// What a request comes to.
pub(super) enum RequestOutcome {
    Result(Value),
    Error(wire::RpcError),
    /// No answer; the stream stays open.
    Silence,
    /// A line far too long.
    Oversized(usize),
    /// More will follow on the stream.
    Open,
    /// All is said: the stream may close.
    Done,
}

/// Tells a running request that it was cancelled.
#[derive(Debug, Default)]
pub(super) struct Cancellation {
    cancelled: Mutex<bool>,
    changed: Condvar,
}

impl Cancellation {
    pub(super) fn cancel(&self) {
        *lock(&self.cancelled) = true;
        self.changed.notify_all();
    }

    /// Waits, and says whether the wait was cut short by a cancellation.
    pub(super) fn wait(&self, time: Duration) -> bool {
        let deadline = Instant::now() + time;
        let mut cancelled = lock(&self.cancelled);
        while !*cancelled {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            cancelled = self
                .changed
                .wait_timeout(cancelled, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        true
    }
}

/// A request in progress.
pub(super) struct ScriptRequest {
    pub(super) script: Arc<ServerScript>,
    pub(super) session: Arc<ScriptSession>,
    pub(super) outlet: Arc<dyn Outlet>,
    pub(super) id: Value,
    pub(super) method: String,
    pub(super) params: Value,
    cancellation: Arc<Cancellation>,
}

impl ScriptRequest {
    pub(super) fn new(
        script: &Arc<ServerScript>,
        session: &Arc<ScriptSession>,
        outlet: Arc<dyn Outlet>,
        id: Value,
        method: &str,
        params: Value,
        cancellation: Arc<Cancellation>,
    ) -> Self {
        Self {
            script: Arc::clone(script),
            session: Arc::clone(session),
            outlet,
            id,
            method: method.to_owned(),
            params,
            cancellation,
        }
    }

    /// Whether the request is of the stateless era. A legacy server does not know the difference.
    pub(super) fn is_stateless(&self) -> bool {
        self.script.behaviour.era != Era::Legacy
            && self.method != "initialize"
            && wire::stateless_version(&self.params).is_some()
    }

    pub(super) fn meta(&self, key: &str) -> Option<&Value> {
        self.params.get("_meta")?.get(key)
    }

    /// An argument of a tool call, `null` if absent.
    pub(super) fn argument(&self, name: &str) -> &Value {
        &self.params["arguments"][name]
    }

    /// The name of the called tool.
    pub(super) fn tool_name(&self) -> &str {
        self.params["name"].as_str().unwrap_or_default()
    }

    /// The built-in tool that answers this call.
    pub(super) fn acting_tool(&self) -> String {
        let name = self.tool_name();
        match self.script.tool(name).and_then(|tool| tool.acts_as) {
            Some(built_in) => built_in,
            None => name.to_owned(),
        }
    }

    pub(super) fn client_capabilities(&self) -> Value {
        if self.is_stateless() {
            self.meta(wire::META_CLIENT_CAPABILITIES)
                .cloned()
                .unwrap_or_default()
        } else {
            lock(&self.session.initialize)
                .as_ref()
                .map_or(Value::Null, |params| params["capabilities"].clone())
        }
    }

    /// Waits; `true` says that the call is to stop.
    pub(super) fn wait(&self, time: Duration) -> bool {
        match self.script.behaviour.calls.on_cancel {
            OnCancel::Ignore => {
                std::thread::sleep(time);
                false
            }
            OnCancel::Stop | OnCancel::LateReply => self.cancellation.wait(time),
        }
    }

    /// What a stopped call comes to.
    pub(super) fn cancelled_outcome(&self) -> RequestOutcome {
        if self.script.behaviour.calls.on_cancel == OnCancel::LateReply {
            std::thread::sleep(Duration::from_millis(100));
            RequestOutcome::Result(super::content::text("late reply"))
        } else {
            RequestOutcome::Done
        }
    }

    pub(super) fn notify(&self, method: &str, params: &Value) -> bool {
        self.outlet.send(&wire::notification(method, params))
    }

    pub(super) fn set_level(&self) -> RequestOutcome {
        *lock(&self.session.log_level) = self.params["level"].as_str().map(str::to_owned);
        RequestOutcome::Result(json!({}))
    }

    pub(super) fn subscribe_resource(&self) -> RequestOutcome {
        let uri = self.params["uri"].as_str().unwrap_or_default().to_owned();
        let mut subscribed = lock(&self.session.subscribed);
        if self.method == "resources/subscribe" {
            subscribed.insert(uri);
        } else {
            subscribed.remove(&uri);
        }
        RequestOutcome::Result(json!({}))
    }

    /// Finds the answer and sends it.
    pub(super) fn run(self) {
        let is_mute = match self.script.behaviour.discover {
            DiscoverBehaviour::Mute => self.session.discovered.load(Ordering::SeqCst),
            discover => discover == DiscoverBehaviour::Deaf,
        };
        if is_mute {
            lock(&self.script.held_outlets).push(Arc::clone(&self.outlet));
            return;
        }
        let answer = self
            .oversized()
            .unwrap_or_else(|| self.script.handle_request(&self));
        let is_call = self.method == "tools/call";
        match answer {
            RequestOutcome::Result(result) => {
                let result = self.complete_result(result);
                self.outlet
                    .send(&wire::response(&self.answer_id(), &result));
            }
            RequestOutcome::Error(error) => {
                self.outlet.send(&error.response(&self.answer_id()));
            }
            RequestOutcome::Oversized(bytes) => {
                self.outlet.send_oversized(bytes);
            }
            RequestOutcome::Silence => {
                lock(&self.script.held_outlets).push(Arc::clone(&self.outlet));
                return;
            }
            RequestOutcome::Open => return,
            RequestOutcome::Done => {}
        }
        self.script.forget_running(&self);
        if is_call {
            self.script.count_answered();
        }
    }

    fn oversized(&self) -> Option<RequestOutcome> {
        let line = self.script.behaviour.process.oversized_line.as_ref()?;
        let fits = line.instead_of == self.method
            || self.method == "tools/call" && line.instead_of == self.tool_name();
        fits.then_some(RequestOutcome::Oversized(line.bytes))
    }

    fn answer_id(&self) -> Value {
        match self.script.behaviour.calls.wrong_id {
            Some(wrong) if self.method == "tools/call" => match wrong {
                WrongId::Unknown => json!(987_654_321),
                WrongId::Text => json!(self.id.to_string()),
                WrongId::Null => Value::Null,
            },
            _ => self.id.clone(),
        }
    }

    /// Adds what every result of the stateless era carries.
    fn complete_result(&self, mut result: Value) -> Value {
        let Some(object) = result.as_object_mut() else {
            return result;
        };
        if self.method == "tools/call"
            && let Some(kind) = &self.script.behaviour.calls.result_type
        {
            object.insert("resultType".to_owned(), json!(kind));
        }
        if self.method == "tools/call"
            && let Some(levels) = self.script.behaviour.calls.nested_levels
        {
            let deep = json!({ "deep": wire::nested_marker(levels) });
            object.insert("structuredContent".to_owned(), deep);
        }
        // An empty discover result is a misbehaviour: leave it empty.
        let discover_is_odd = self.method == "server/discover" && object.is_empty();
        if !self.is_stateless() || discover_is_odd {
            return result;
        }
        object
            .entry("resultType")
            .or_insert_with(|| json!("complete"));
        let cacheable = matches!(self.method.as_str(), "server/discover" | "resources/read")
            || self.method.ends_with("/list");
        if cacheable {
            let lists = &self.script.behaviour.lists;
            let scope = if lists.public_cache {
                "public"
            } else {
                "private"
            };
            object.insert("ttlMs".to_owned(), json!(lists.ttl_ms));
            object.insert("cacheScope".to_owned(), json!(scope));
        }
        let meta = object.entry("_meta").or_insert_with(|| json!({}));
        meta[wire::META_SERVER_INFO] = self.script.server_info();
        result
    }

    /// Remembers that this client has used `server/discover`.
    pub(super) fn mark_discovered(&self) {
        self.session.discovered.store(true, Ordering::SeqCst);
    }
}
