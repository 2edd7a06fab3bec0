//! Turns with a scripted model and real tools.

mod batches;
mod calls;
mod compaction;
mod interrupts;
mod mcp;
mod result_budget;
mod tool_search;

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use futures::future::BoxFuture;
use hermes_agent::{
    compact::{Compacted, Compactor, SummaryFailure},
    message::{Message, ToolCall},
    model::{
        FinishReason, Model, ModelError, ModelEvent, ModelEventSink, ModelProblem, ModelReply,
        ModelRequest, TokenUsage,
    },
    tools::{
        tool::{Concurrency, Tool, ToolContext, ToolOutput},
        toolbox::Toolbox,
    },
    turn::{
        ClientTools, MessageDetail, PersistError, Surface, Turn, TurnEnd, TurnError, TurnEvent,
        TurnLimits,
    },
};
use serde_json::{Map, Value, json};

use crate::tool_session::ToolSession;

/// What a scripted model does when it is asked.
pub(crate) enum Step {
    Say(&'static str),
    Call(Vec<ToolCall>),
    Fail(ModelProblem),
    /// Says something and never ends.
    Hang(&'static str),
    /// Says this and reports so many tokens.
    Counted(Vec<ToolCall>, u64),
}

#[derive(Debug, Clone)]
pub(crate) struct RecordedRequest {
    pub(crate) messages: Vec<Message>,
    pub(crate) tools: Vec<String>,
    pub(crate) may_call: bool,
}

pub(crate) struct ScriptedModel {
    steps: Mutex<VecDeque<Step>>,
    asked: Mutex<Vec<RecordedRequest>>,
    pub(crate) context_length: Option<u32>,
    pub(crate) sees_images: bool,
}

impl ScriptedModel {
    pub(crate) fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        Self {
            steps: Mutex::new(steps.into_iter().collect()),
            asked: Mutex::default(),
            context_length: None,
            sees_images: false,
        }
    }

    pub(crate) fn asked(&self) -> Vec<RecordedRequest> {
        self.asked.lock().unwrap().clone()
    }

    async fn answer(&self, sink: ModelEventSink<'_>) -> Result<ModelReply, ModelError> {
        let step = self.steps.lock().unwrap().pop_front();
        let reply = |text: &str, tool_calls: Vec<ToolCall>, usage| ModelReply {
            text: text.to_owned(),
            finish: if tool_calls.is_empty() {
                FinishReason::Stop
            } else {
                FinishReason::ToolCalls
            },
            tool_calls,
            model: "scripted".into(),
            usage,
            ..ModelReply::default()
        };
        match step.expect("the script is at its end") {
            Step::Say(text) => {
                sink(ModelEvent::TextDelta(text.into()));
                Ok(reply(text, Vec::new(), None))
            }
            Step::Call(calls) => Ok(reply("", calls, None)),
            Step::Counted(calls, tokens) => {
                let usage = TokenUsage {
                    input_tokens: tokens,
                    ..TokenUsage::default()
                };
                Ok(reply("", calls, Some(usage)))
            }
            Step::Fail(problem) => Err(ModelError {
                provider: "scripted".into(),
                problem,
            }),
            Step::Hang(text) => {
                sink(ModelEvent::TextDelta(text.into()));
                std::future::pending().await
            }
        }
    }
}

impl Model for ScriptedModel {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn provider(&self) -> &'static str {
        "test"
    }

    fn context_length(&self) -> Option<u32> {
        self.context_length
    }

    fn supports_images(&self) -> bool {
        self.sees_images
    }

    fn complete<'a>(
        &'a self,
        request: &'a ModelRequest<'a>,
        sink: ModelEventSink<'a>,
    ) -> BoxFuture<'a, Result<ModelReply, ModelError>> {
        self.asked.lock().unwrap().push(RecordedRequest {
            messages: request.messages.to_vec(),
            tools: request.tools.iter().map(|tool| tool.name.clone()).collect(),
            may_call: request.tool_choice != hermes_agent::model::ToolChoice::None,
        });
        Box::pin(self.answer(sink))
    }
}

/// Records everything; storing fails after this many messages.
#[derive(Default)]
pub(crate) struct RecordingSurface {
    pub(crate) events: Vec<TurnEvent>,
    pub(crate) kept: Vec<(Message, MessageDetail)>,
    pub(crate) replaced: Vec<Compacted>,
    pub(crate) failures: Vec<SummaryFailure>,
    pub(crate) message_limit: Option<usize>,
    pub(crate) is_locked: bool,
    /// What the user says while a call runs.
    pub(crate) said_during_calls: Vec<Message>,
    /// Is told about every event.
    pub(crate) watch: Option<Watcher>,
}

type Watcher = Box<dyn FnMut(&TurnEvent) + Send>;

impl Surface for RecordingSurface {
    fn show(&mut self, event: TurnEvent) {
        if let Some(watch) = &mut self.watch {
            watch(&event);
        }
        self.events.push(event);
    }

    fn store_message<'a>(
        &'a mut self,
        message: &'a Message,
        detail: MessageDetail,
    ) -> BoxFuture<'a, Result<(), PersistError>> {
        let is_full = self.message_limit == Some(self.kept.len());
        if !is_full {
            self.kept.push((message.clone(), detail));
        }
        let result = if is_full {
            Err(PersistError("the disk is full".into()))
        } else {
            Ok(())
        };
        Box::pin(std::future::ready(result))
    }

    fn take_user_messages(&mut self) -> BoxFuture<'_, Result<Vec<Message>, PersistError>> {
        let is_call = |event: &TurnEvent| matches!(event, TurnEvent::CallStarted(_));
        let said = if self.events.iter().any(is_call) {
            std::mem::take(&mut self.said_during_calls)
        } else {
            Vec::new()
        };
        Box::pin(std::future::ready(Ok(said)))
    }

    fn begin_replacement(&mut self) -> BoxFuture<'_, Result<bool, PersistError>> {
        Box::pin(std::future::ready(Ok(!self.is_locked)))
    }

    fn replace_messages<'a>(
        &'a mut self,
        old: &'a [Message],
        new: &'a Compacted,
    ) -> BoxFuture<'a, Result<(), PersistError>> {
        for (message, origin) in new.messages.iter().zip(&new.origins) {
            if let Some(origin) = origin {
                // Only the results of tools change on the way.
                let is_same = old[*origin] == *message;
                assert!(
                    is_same || matches!(message, Message::Tool(_)),
                    "{message:?}"
                );
            }
        }
        self.replaced.push(new.clone());
        Box::pin(std::future::ready(Ok(())))
    }

    fn record_summary_failure<'a>(
        &'a mut self,
        failure: &'a SummaryFailure,
    ) -> BoxFuture<'a, Result<(), PersistError>> {
        self.failures.push(failure.clone());
        Box::pin(std::future::ready(Ok(())))
    }
}

impl RecordingSurface {
    /// The texts of the results that were kept, in order.
    pub(crate) fn results(&self) -> Vec<String> {
        let results = self.kept.iter().filter_map(|(message, _)| match message {
            Message::Tool(result) => Some(result.content.text().into_owned()),
            _ => None,
        });
        results.collect()
    }

    /// How calls were shown: `>name` where one began, `<name` where it ended.
    pub(crate) fn shown_calls(&self) -> Vec<String> {
        let shown = self.events.iter().filter_map(|event| match event {
            TurnEvent::CallStarted(call) => Some(format!(">{}", call.name)),
            TurnEvent::CallEnded { call, .. } => Some(format!("<{}", call.name)),
            _ => None,
        });
        shown.collect()
    }
}

pub(crate) struct TurnFixture {
    pub(crate) session: ToolSession,
    pub(crate) toolbox: Toolbox,
    pub(crate) limits: TurnLimits,
    pub(crate) compactor: Option<Compactor>,
    pub(crate) messages: Vec<Message>,
    pub(crate) client_tools: Option<ClientTools>,
    pub(crate) surface: RecordingSurface,
}

impl TurnFixture {
    pub(crate) fn new(tools: Vec<Arc<dyn Tool>>) -> Self {
        Self {
            session: ToolSession::new(),
            toolbox: Toolbox::new(tools),
            limits: TurnLimits::default(),
            compactor: None,
            client_tools: None,
            messages: vec![Message::system("be brief"), Message::user("go")],
            surface: RecordingSurface::default(),
        }
    }

    pub(crate) async fn run(&mut self, model: &ScriptedModel) -> Result<TurnEnd, TurnError> {
        let turn = Turn {
            model,
            toolbox: &self.toolbox,
            limits: &self.limits,
            context: &self.session.context,
            reasoning_effort: None,
            client_tools: self.client_tools.as_ref(),
            compactor: self.compactor.as_ref(),
        };
        let result = turn.run(&mut self.messages, &mut self.surface).await;
        // A store that failed leaves open calls; nothing else does.
        if !matches!(result, Err(TurnError::Persist(_))) {
            assert_valid(&self.messages);
        }
        result
    }
}

/// Every call has exactly one result, right after its message and in order.
pub(crate) fn assert_valid(messages: &[Message]) {
    let mut open: VecDeque<String> = VecDeque::new();
    for message in messages {
        match message {
            Message::Tool(result) => {
                assert_eq!(open.pop_front().as_ref(), Some(&result.tool_call_id));
            }
            other => {
                assert!(open.is_empty(), "{open:?} have no result");
                open.extend(other.tool_calls().iter().map(|call| call.id.clone()));
            }
        }
    }
    assert!(open.is_empty(), "{open:?} have no result");
}

pub(crate) fn call(id: &str, name: &str, arguments: &Value) -> ToolCall {
    ToolCall::new(id, name, arguments.to_string())
}

pub(crate) struct FunctionTool<F> {
    pub(crate) name: &'static str,
    pub(crate) concurrency: Concurrency,
    pub(crate) run: F,
}

impl<F> Tool for FunctionTool<F>
where
    F: Fn(Map<String, Value>, &ToolContext) -> BoxFuture<'static, ToolOutput> + Send + Sync,
{
    fn definition(&self) -> hermes_agent::model::ToolDefinition {
        hermes_agent::model::ToolDefinition {
            name: self.name.into(),
            description: "for tests".into(),
            parameters: json!({"type": "object"}).into(),
        }
    }

    fn toolset(&self) -> &'static str {
        "test"
    }

    fn concurrency(&self, _arguments: &Map<String, Value>, _context: &ToolContext) -> Concurrency {
        self.concurrency.clone()
    }

    fn call<'a>(
        &'a self,
        arguments: Map<String, Value>,
        context: &'a ToolContext,
    ) -> BoxFuture<'a, ToolOutput> {
        (self.run)(arguments, context)
    }
}

/// A tool that returns the `text` it is given, or that many letters.
pub(crate) fn echo(company: Concurrency) -> Arc<dyn Tool> {
    Arc::new(FunctionTool {
        name: "echo",
        concurrency: company,
        run: |arguments: Map<String, Value>, _: &ToolContext| {
            let text = match (&arguments.get("text"), &arguments.get("length")) {
                (Some(text), _) => text.as_str().unwrap().to_owned(),
                (None, length) => {
                    let length = length.unwrap().as_u64().unwrap();
                    "x".repeat(usize::try_from(length).unwrap())
                }
            };
            Box::pin(std::future::ready(ToolOutput::text(text))) as BoxFuture<'static, _>
        },
    })
}

/// A tool that always fails.
pub(crate) fn failing() -> Arc<dyn Tool> {
    Arc::new(FunctionTool {
        name: "failing",
        concurrency: Concurrency::Exclusive,
        run: |_: Map<String, Value>, _: &ToolContext| {
            Box::pin(std::future::ready(ToolOutput::error("it is broken"))) as BoxFuture<'static, _>
        },
    })
}
