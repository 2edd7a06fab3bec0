//! A turn of 100 calls in a session of 10,000 messages, and what a message costs the store.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use futures::future::BoxFuture;
use hermes_agent::{
    approval::{ApprovalSettings, Approvals, DenyAllApprover},
    message::{Message, ToolCall},
    model::{
        FinishReason, Model, ModelError, ModelEventSink, ModelReply, ModelRequest, ToolDefinition,
    },
    tools::{
        tool::{Tool, ToolContext, ToolOutput},
        toolbox::Toolbox,
    },
    turn::{MessageDetail, PersistError, Surface, Turn, TurnEnd, TurnEvent, TurnLimits},
};
use hermes_config::Home;
use hermes_store::{Access, NewMessage, NewSession, Role, SessionId, Store};
use hermes_testkit::TemporaryHome;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use crate::{
    environment::{Effort, RuntimeFlavour},
    report::{Quantity, Report, ReportRow, Target},
    samples::Samples,
};

const CALLS: usize = 100;
const MESSAGES: usize = 10_000;
const OVERHEAD: Duration = Duration::from_micros(300);
const APPEND: Duration = Duration::from_millis(1);

pub(crate) fn measure(effort: Effort, report: &mut Report) -> Result<()> {
    let measured = RuntimeFlavour::OneThread.run(measure_turns(effort))?;
    report.add(ReportRow::time(
        format!("{CALLS} calls after {MESSAGES} messages, each"),
        &measured.calls,
        Target::Below(Quantity::Time(OVERHEAD)),
    ));
    report.add(ReportRow::time(
        format!("append after {MESSAGES} messages"),
        &measured.append,
        Target::Below(Quantity::Time(APPEND)),
    ));
    Ok(())
}

#[derive(Default)]
struct TurnSamples {
    /// What the agent takes for a call of its own, the store excluded.
    calls: Samples,
    append: Samples,
}

async fn measure_turns(effort: Effort) -> Result<TurnSamples> {
    let home = TemporaryHome::new();
    let home = Home::at(home.path());
    let store = Store::open(&home, Access::ReadWrite).await?;
    let session = SessionId::parse("bench")?;
    store
        .create_session(&NewSession::new(session.clone(), "cli"))
        .await?;
    let history = fill(&store, &session).await?;

    let mut measured = TurnSamples::default();
    for _ in 0..effort.times(50) {
        let taken = measure_overhead(&home, &store, &session, &history).await?;
        measured.calls.push(taken);
    }
    for number in 0..effort.times(1_000) {
        let message = NewMessage::new(Role::User, format!("Message {number} of the benchmark"));
        let began = Instant::now();
        store.append(&session, &message).await?;
        measured.append.push(began.elapsed());
    }
    store.close().await;
    Ok(measured)
}

async fn fill(store: &Store, session: &SessionId) -> Result<Vec<Message>> {
    let mut history = vec![Message::system("You are a benchmark.")];
    let mut rows = Vec::new();
    for number in 0..MESSAGES / 2 {
        let (question, answer) = (
            format!("Question {number}: what is {number} and {number}?"),
            format!("It is {}.", 2 * number),
        );
        rows.push(NewMessage::new(Role::User, &*question));
        rows.push(NewMessage::new(Role::Assistant, &*answer));
        history.push(Message::user(question));
        history.push(Message::assistant(answer));
    }
    for rows in rows.chunks(1_000) {
        store.append_all(session, rows).await?;
    }
    history.push(Message::user("Begin."));
    Ok(history)
}

/// Runs a turn and says what it took for each call beside the store.
async fn measure_overhead(
    home: &Home,
    store: &Store,
    session: &SessionId,
    history: &[Message],
) -> Result<Duration> {
    let model = CallingModel {
        made: AtomicUsize::new(0),
    };
    let toolbox = Toolbox::new(vec![Arc::new(NoopTool)]);
    let approvals = Approvals::new(ApprovalSettings::default(), Arc::new(DenyAllApprover));
    let context = ToolContext {
        home: home.clone(),
        cwd: home.path().to_owned(),
        session: session.as_str().into(),
        call_id: "".into(),
        cancel: CancellationToken::new(),
        approvals: Arc::new(approvals),
        progress: Arc::new(|_| {}),
    };
    let limits = TurnLimits {
        max_model_calls: 1_000,
        ..TurnLimits::default()
    };
    let turn = Turn {
        model: &model,
        toolbox: &toolbox,
        limits: &limits,
        context: &context,
        compactor: None,
        reasoning_effort: None,
        client_tools: None,
    };
    let mut surface = StoringSurface {
        store,
        session,
        spent: Duration::ZERO,
    };
    let mut messages = history.to_vec();
    let began = Instant::now();
    let end = turn.run(&mut messages, &mut surface).await?;
    let taken = began.elapsed();
    ensure!(end == TurnEnd::Answered, "the turn ended with {end:?}");
    let own = taken.saturating_sub(surface.spent);
    Ok(own / u32::try_from(CALLS)?)
}

/// A model that has thought everything over before: it calls once in each reply, and when it has called enough, it
/// answers.
struct CallingModel {
    made: AtomicUsize,
}

impl Model for CallingModel {
    fn name(&self) -> &'static str {
        "caller"
    }

    fn provider(&self) -> &'static str {
        "bench"
    }

    fn context_length(&self) -> Option<u32> {
        None
    }

    fn complete<'a>(
        &'a self,
        _request: &'a ModelRequest<'a>,
        _sink: ModelEventSink<'a>,
    ) -> BoxFuture<'a, Result<ModelReply, ModelError>> {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let calls = if number < CALLS {
            let arguments = json!({"number": number}).to_string();
            vec![ToolCall::new(
                format!("call_{number}"),
                "nothing",
                arguments,
            )]
        } else {
            Vec::new()
        };
        let reply = ModelReply {
            text: if calls.is_empty() { "Done." } else { "" }.to_owned(),
            finish: if calls.is_empty() {
                FinishReason::Stop
            } else {
                FinishReason::ToolCalls
            },
            tool_calls: calls,
            ..ModelReply::default()
        };
        Box::pin(std::future::ready(Ok(reply)))
    }
}

/// A tool that does nothing.
struct NoopTool;

impl Tool for NoopTool {
    fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            name: "nothing".into(),
            description: "Does nothing".into(),
            parameters: json!({"type": "object", "properties": {"number": {"type": "integer"}}})
                .into(),
        }
    }

    fn toolset(&self) -> &'static str {
        "bench"
    }

    fn call<'a>(
        &'a self,
        arguments: Map<String, Value>,
        _context: &'a ToolContext,
    ) -> BoxFuture<'a, ToolOutput> {
        let output = ToolOutput::json(&Value::Object(arguments));
        Box::pin(std::future::ready(output))
    }
}

/// Stores every message, as a conversation does, and counts the time for it.
struct StoringSurface<'a> {
    store: &'a Store,
    session: &'a SessionId,
    spent: Duration,
}

impl Surface for StoringSurface<'_> {
    fn show(&mut self, _event: TurnEvent) {}

    fn store_message<'a>(
        &'a mut self,
        message: &'a Message,
        _detail: MessageDetail,
    ) -> BoxFuture<'a, Result<(), PersistError>> {
        Box::pin(async move {
            let began = Instant::now();
            let role = match message {
                Message::Tool(_) => Role::Tool,
                _ => Role::Assistant,
            };
            let row = NewMessage::new(role, message.content().text().into_owned());
            let stored = self.store.append(self.session, &row).await;
            self.spent += began.elapsed();
            stored.map_err(|error| PersistError(error.to_string()))?;
            Ok(())
        })
    }
}
