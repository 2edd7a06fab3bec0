//! A bot API and a model in this process, as small as they can be, which take the time of what arrives.
//!
//! The testkit's platforms check every request as the real ones do; here that would be measured, too.

use std::{
    collections::{HashMap, VecDeque},
    net::TcpListener as StdTcpListener,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use axum::{
    Json, Router,
    body::{Body, Bytes},
    extract::{Path, State},
    http::{HeaderMap, StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
    routing::post,
};
use futures::stream;
use serde_json::{Value, json};
use tokio::sync::Notify;

pub(super) const TOKEN: &str = "1234567:bench-bot";

/// What people write, before the number.
const QUESTION: &str = "What is it? #";
/// What the model ends with, before the number.
const ENDING: &str = "done #";

/// How long a poll waits for updates.
const POLL: Duration = Duration::from_secs(20);

/// What the model does with a question.
#[derive(Debug, Clone, Copy)]
pub(super) struct ModelPace {
    pub(super) pieces: u32,
    pub(super) pause: Duration,
}

/// The way of one message, by its number in the text.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct MessageTimes {
    /// When the update was given out.
    pub(super) given: Option<Instant>,
    /// When the model was asked.
    pub(super) asked: Option<Instant>,
    /// When the model's last piece was written.
    pub(super) last_piece: Option<Instant>,
    /// When the final message came.
    pub(super) answered: Option<Instant>,
    /// How often it came.
    pub(super) answers: u32,
}

struct StubState {
    pace: ModelPace,
    updates: Mutex<UpdateQueue>,
    came: Notify,
    /// How often updates were asked for.
    polls: AtomicU64,
    times: Mutex<HashMap<u64, MessageTimes>>,
}

#[derive(Default)]
struct UpdateQueue {
    last_id: u64,
    waiting: VecDeque<Value>,
}

/// Both servers on one port. They end with this process.
pub(super) struct PlatformStub {
    pub(super) port: u16,
    state: Arc<StubState>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PlatformStub {
    pub(super) fn start(pace: ModelPace) -> Result<Self> {
        let listener = StdTcpListener::bind(("127.0.0.1", 0))?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let state = Arc::new(StubState {
            pace,
            updates: Mutex::default(),
            came: Notify::new(),
            polls: AtomicU64::new(0),
            times: Mutex::default(),
        });
        let router = Router::new()
            .route("/v1/chat/completions", post(answer_question))
            .route("/{bot}/{method}", post(handle_method).get(handle_method))
            .with_state(state.clone());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        thread::spawn(move || {
            runtime.block_on(async move {
                let listener = tokio::net::TcpListener::from_std(listener)?;
                axum::serve(listener, router).await
            })
        });
        Ok(Self { port, state })
    }

    /// Somebody writes. The text ends with the number of the message.
    pub(super) fn write(&self, user: u64, number: u64) {
        self.say(user, &format!("{QUESTION}{number}"));
    }

    /// Somebody writes something of which no time is taken, such as a command.
    pub(super) fn say(&self, user: u64, text: &str) {
        let mut queue = lock(&self.state.updates);
        queue.last_id += 1;
        let id = queue.last_id;
        queue.waiting.push_back(json!({
            "update_id": id,
            "message": {
                "message_id": id,
                "date": jiff::Timestamp::now().as_second(),
                "from": {"id": user, "is_bot": false, "first_name": "Ada"},
                "chat": {"id": user, "type": "private", "first_name": "Ada"},
                "text": text,
            },
        }));
        drop(queue);
        self.state.came.notify_waiters();
    }

    pub(super) fn times(&self, number: u64) -> MessageTimes {
        lock(&self.state.times)
            .get(&number)
            .copied()
            .unwrap_or_default()
    }

    /// Whether somebody has asked for updates.
    pub(super) fn is_polled(&self) -> bool {
        self.state.polls.load(Ordering::Relaxed) > 0
    }

    /// How many messages have their answer.
    pub(super) fn answered(&self) -> usize {
        let times = lock(&self.state.times);
        times.values().filter(|times| times.answers > 0).count()
    }

    /// Forgets what is over, for runs that are long.
    pub(super) fn forget(&self, until: u64) {
        lock(&self.state.times).retain(|number, _| *number >= until);
    }

    pub(super) fn wait_until(
        &self,
        limit: Duration,
        what: &str,
        holds: impl Fn(&Self) -> bool,
    ) -> Result<()> {
        let deadline = Instant::now() + limit;
        while !holds(self) {
            (Instant::now() < deadline).then_some(()).with_context(|| {
                format!("timed out: {what} ({} answers so far)", self.answered())
            })?;
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}

impl StubState {
    fn note(&self, number: Option<u64>, change: impl FnOnce(&mut MessageTimes)) {
        if let Some(number) = number {
            change(lock(&self.times).entry(number).or_default());
        }
    }
}

/// The number behind the last of these words. Signs that Markdown would take for its own may be escaped.
fn number_after(words: &str, text: &str) -> Option<u64> {
    let text = text.replace('\\', "");
    let (_, rest) = text.rsplit_once(words)?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

/// The fields of a request, as JSON or as a form.
fn read_fields(headers: &HeaderMap, body: &[u8]) -> Value {
    let kind = headers.get(CONTENT_TYPE).and_then(|it| it.to_str().ok());
    if kind.is_some_and(|kind| kind.starts_with("application/x-www-form-urlencoded")) {
        let fields = url::form_urlencoded::parse(body);
        return fields
            .map(|(name, value)| (name.into_owned(), Value::from(value.into_owned())))
            .collect();
    }
    serde_json::from_slice(body).unwrap_or_default()
}

/// A number, which a form has as text.
fn read_number(field: &Value) -> Option<u64> {
    field.as_u64().or_else(|| field.as_str()?.parse().ok())
}

async fn handle_method(
    State(state): State<Arc<StubState>>,
    Path((_, method)): Path<(String, String)>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let came = Instant::now();
    let fields = read_fields(&headers, &body);
    let result = match method.as_str() {
        "getMe" => json!({
            "id": 1_234_567, "is_bot": true, "first_name": "Bench", "username": "bench_bot",
            "can_read_all_group_messages": true,
        }),
        "getUpdates" => return give_updates(&state, &fields).await,
        "sendMessage" | "editMessageText" => {
            let text = fields["text"].as_str().unwrap_or_default();
            record_answer(&state, text, came);
            message(&fields)
        }
        // An older server, which has neither drafts nor rich messages.
        "sendRichMessage" | "sendMessageDraft" | "sendRichMessageDraft" => {
            let body = json!({"ok": false, "error_code": 404, "description": "Not Found"});
            return (StatusCode::NOT_FOUND, Json(body)).into_response();
        }
        _ => json!(true),
    };
    Json(json!({"ok": true, "result": result})).into_response()
}

/// The final text has the word that the model ends with.
fn record_answer(state: &StubState, text: &str, came: Instant) {
    state.note(number_after(ENDING, text), |times| {
        times.answered.get_or_insert(came);
        times.answers += 1;
    });
}

fn message(fields: &Value) -> Value {
    json!({
        "message_id": 1, "date": 0,
        "chat": {"id": read_number(&fields["chat_id"]), "type": "private"},
        "text": fields["text"],
    })
}

async fn give_updates(state: &StubState, fields: &Value) -> Response {
    state.polls.fetch_add(1, Ordering::Relaxed);
    let offset = read_number(&fields["offset"]).unwrap_or_default();
    let asked = read_number(&fields["timeout"]).map(Duration::from_secs);
    let deadline = tokio::time::Instant::now() + asked.unwrap_or(POLL).min(POLL);
    loop {
        let came = state.came.notified();
        tokio::pin!(came);
        came.as_mut().enable();
        let updates: Vec<Value> = {
            let mut queue = lock(&state.updates);
            queue
                .waiting
                .retain(|update| update["update_id"].as_u64() >= Some(offset));
            queue.waiting.iter().take(100).cloned().collect()
        };
        let is_late = tokio::time::Instant::now() >= deadline;
        if !updates.is_empty() || is_late {
            let body = json!({"ok": true, "result": updates}).to_string();
            let given = Instant::now();
            for update in &updates {
                let text = update["message"]["text"].as_str().unwrap_or_default();
                state.note(number_after(QUESTION, text), |times| {
                    times.given.get_or_insert(given);
                });
            }
            return ([("content-type", "application/json")], body).into_response();
        }
        let _ = tokio::time::timeout_at(deadline, came).await;
    }
}

async fn answer_question(State(state): State<Arc<StubState>>, body: Bytes) -> Response {
    let came = Instant::now();
    let request: Value = serde_json::from_slice(&body).unwrap_or_default();
    let messages = request["messages"].as_array();
    let question = messages.and_then(|messages| messages.last());
    let question = question.map(|message| match &message["content"] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    });
    let number = number_after(QUESTION, &question.unwrap_or_default());
    state.note(number, |times| {
        times.asked.get_or_insert(came);
    });
    let ending = format!("{ENDING}{}", number.unwrap_or_default());
    let pieces = state.pace.pieces;
    let events = stream::unfold(0, move |at| {
        let (state, ending) = (state.clone(), ending.clone());
        async move {
            if at > pieces {
                return None;
            }
            if at > 0 {
                tokio::time::sleep(state.pace.pause).await;
            }
            let is_last = at == pieces;
            let text = if is_last { ending } else { "word ".to_owned() };
            let delta = json!({"role": "assistant", "content": text});
            let finish = is_last.then_some("stop");
            let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
            let chunk = json!({
                "id": "x", "object": "chat.completion.chunk", "model": "bench", "choices": [choice],
            });
            let mut bytes = format!("data: {chunk}\n\n");
            if is_last {
                bytes.push_str("data: [DONE]\n\n");
                let now = Instant::now();
                state.note(number, |times| times.last_piece = Some(now));
            }
            Some((Ok::<_, std::convert::Infallible>(bytes), at + 1))
        }
    });
    let body = Body::from_stream(events);
    ([("content-type", "text/event-stream")], body).into_response()
}
