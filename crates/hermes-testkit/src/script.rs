//! The server itself, without a wire: it takes messages and says what is sent back. Front ends own the
//! streams, give each message the [`Outlet`] its answers go to, and decide what the end of the process is.

mod built_in;
mod change;
mod content;
mod lifecycle;
mod list;
mod prompts;
mod request;
mod resources;
mod sandbox_probe;
mod server_request;
mod tools;

use std::{
    collections::HashMap,
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, AtomicU64, Ordering},
        mpsc,
    },
};

use serde_json::Value;

use crate::{
    behaviour::{Behaviour, DiscoverBehaviour, Tool},
    record::MessageRecorder,
};
use change::ChangeListener;
use list::{ListCount, Offer};
pub use request::ScriptSession;
use request::{Cancellation, RequestOutcome, ScriptRequest};

/// A text with one secret of each common kind.
pub const SECRETS: &str = "cannot log in: ghp_abcdefghijklmnopqrstuvwxyz0123456789 \
    sk-proj-abcdefghijklmnopqrstuvwxyz012345 xoxb-1234567890-abcdefghij AKIAABCDEFGHIJKLMNOP \
    eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl Authorization: Bearer abcdef0123456789 \
    password=hunter2hunter2 https://user:letmein@example.com/ {\"token\": \"t0psecrett0psecret\"}";

/// Where messages for a client go.
pub trait Outlet: Send + Sync {
    /// Sends one message; `false` says that nobody is there any more.
    fn send(&self, message: &Value) -> bool;

    /// Sends a line of this many bytes that is not a message.
    fn send_oversized(&self, bytes: usize) -> bool;
}

/// A server that follows a [`Behaviour`].
pub struct ServerScript {
    behaviour: Behaviour,
    recorder: Option<MessageRecorder>,
    offer: Mutex<Offer>,
    list_count: Mutex<ListCount>,
    listeners: Mutex<Vec<ChangeListener>>,
    running: Mutex<HashMap<(String, String), Arc<Cancellation>>>,
    pending_requests: Mutex<HashMap<String, mpsc::Sender<Value>>>,
    /// Outlets of requests that are never answered: dropping one would close an HTTP response.
    held_outlets: Mutex<Vec<Arc<dyn Outlet>>>,
    next_request_id: AtomicU64,
    calls: AtomicU32,
    answered: AtomicU32,
    exit: Box<dyn Fn(i32) + Send + Sync>,
}

impl ServerScript {
    /// Prepares a server. `exit` ends the process, or whatever stands for it.
    pub fn new(
        mut behaviour: Behaviour,
        exit: impl Fn(i32) + Send + Sync + 'static,
    ) -> io::Result<Arc<Self>> {
        if let Some(change) = &behaviour.era_change {
            behaviour.era = change.count_start(behaviour.era)?;
        }
        let recorder = match &behaviour.record {
            Some(path) => Some(MessageRecorder::open(path)?),
            None => None,
        };
        Ok(Arc::new(Self {
            offer: Mutex::new(Offer::new(&behaviour)),
            recorder,
            behaviour,
            list_count: Mutex::default(),
            listeners: Mutex::default(),
            running: Mutex::default(),
            pending_requests: Mutex::default(),
            held_outlets: Mutex::default(),
            next_request_id: AtomicU64::new(1),
            calls: AtomicU32::new(0),
            answered: AtomicU32::new(0),
            exit: Box::new(exit),
        }))
    }

    /// What this server was told to do.
    pub fn behaviour(&self) -> &Behaviour {
        &self.behaviour
    }

    /// Takes one message from a client. Returns at once: what may take time runs in a thread.
    pub fn receive(
        self: &Arc<Self>,
        session: &Arc<ScriptSession>,
        outlet: Arc<dyn Outlet>,
        message: Value,
    ) {
        if let Some(recorder) = &self.recorder {
            recorder.write(&message);
        }
        let Some(method) = message.get("method").and_then(Value::as_str) else {
            self.receive_reply(message);
            return;
        };
        let params = message.get("params").cloned().unwrap_or(Value::Null);
        let Some(id) = message.get("id").cloned() else {
            if method == "notifications/cancelled" {
                self.cancel(session.key(), &params["requestId"]);
            }
            return;
        };
        let cancellation = Arc::new(Cancellation::default());
        lock(&self.running).insert(
            (session.key().to_owned(), id.to_string()),
            Arc::clone(&cancellation),
        );
        let request = ScriptRequest::new(self, session, outlet, id, method, params, cancellation);
        if self.is_slow(&request) {
            std::thread::spawn(move || request.run());
        } else {
            request.run();
        }
    }

    /// Takes a line that is not JSON.
    pub fn receive_junk(&self, text: &str) {
        if let Some(recorder) = &self.recorder {
            recorder.write(&serde_json::json!({ "unparsable": text }));
        }
    }

    /// Cancels a request of a session, if it still runs.
    pub fn cancel(&self, session: &str, id: &Value) {
        let running = lock(&self.running).remove(&(session.to_owned(), id.to_string()));
        if let Some(cancellation) = running {
            cancellation.cancel();
        }
        self.end_subscription(session, id);
    }

    fn is_slow(&self, request: &ScriptRequest) -> bool {
        match request.method.as_str() {
            "tools/call" => tools::is_slow(&request.acting_tool()),
            "tools/list" => self.behaviour.lists.delay_ms > 0,
            "subscriptions/listen" => self.behaviour.lists.end_listen_after_ms.is_some(),
            _ => false,
        }
    }

    /// Decides on the answer to a request.
    fn handle_request(&self, request: &ScriptRequest) -> RequestOutcome {
        if request.method == "server/discover" && self.behaviour.discover == DiscoverBehaviour::Exit
        {
            self.exit(1);
            return RequestOutcome::Silence;
        }
        let checked = self.check_era(request);
        match checked.and_then(|()| self.dispatch(request)) {
            Ok(answer) => answer,
            Err(error) => RequestOutcome::Error(error),
        }
    }

    fn dispatch(&self, request: &ScriptRequest) -> Result<RequestOutcome, crate::wire::RpcError> {
        match request.method.as_str() {
            "server/discover" => Ok(self.discover(request)),
            "initialize" => self.initialize(request),
            "ping" if !request.is_stateless() => Ok(RequestOutcome::Result(serde_json::json!({}))),
            "logging/setLevel" if !request.is_stateless() => Ok(request.set_level()),
            "tools/list" => Ok(self.list_tools(request)),
            "tools/call" => self.call_tool(request),
            "resources/list" if self.behaviour.resources => Ok(self.list_resources(request)),
            "resources/templates/list" if self.behaviour.resources => {
                Ok(self.list_templates(request))
            }
            "resources/read" if self.behaviour.resources => self.read_resource(request),
            "resources/subscribe" | "resources/unsubscribe"
                if self.behaviour.resources && !request.is_stateless() =>
            {
                Ok(request.subscribe_resource())
            }
            "prompts/list" if self.behaviour.prompts => Ok(self.list_prompts(request)),
            "prompts/get" if self.behaviour.prompts => self.get_prompt(request),
            "subscriptions/listen"
                if request.is_stateless() && !self.behaviour.lists.refuse_listen =>
            {
                Ok(self.listen(request))
            }
            unknown => Err(crate::wire::RpcError::new(
                crate::wire::METHOD_NOT_FOUND,
                format!("unknown method {unknown}"),
            )),
        }
    }

    /// Ends the process, or whatever stands for it.
    fn exit(&self, code: i32) {
        (self.exit)(code);
    }

    fn forget_running(&self, request: &ScriptRequest) {
        lock(&self.running).remove(&(request.session.key().to_owned(), request.id.to_string()));
    }

    fn tool(&self, name: &str) -> Option<Tool> {
        lock(&self.offer)
            .tools
            .iter()
            .find(|tool| tool.name() == name)
            .cloned()
    }

    fn count_call(&self) -> u32 {
        self.calls.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Counts an answered call and dies if that was the last one.
    fn count_answered(&self) {
        let answered = self.answered.fetch_add(1, Ordering::SeqCst) + 1;
        if self
            .behaviour
            .calls
            .die_after
            .is_some_and(|last| answered >= last)
        {
            self.exit(3);
        }
    }
}

/// Locks, even after a panic elsewhere: a test should fail by its own assertion.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
