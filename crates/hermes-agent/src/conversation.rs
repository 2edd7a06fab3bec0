//! Stored conversations, shared by command line and gateway.
//!
//! An [`Agent`] is what all conversations of a home share. A [`Conversation`] is one session: it is started or
//! resumed, runs a turn for each user message, and writes each message to the store before the turn
//! continues. The caller shows events through a [`TurnDisplay`].

mod agent;
mod prompt;
mod setup;
mod state;
mod steering;
mod storage;
mod title;
mod tool_selection;
mod user_calls;

use std::{mem, path::Path, sync::Arc};

use futures::future::BoxFuture;
use hermes_config::LoopGuard;
use hermes_store::{EndReason, NewSession, Session, SessionId, StoreError, skills::SkillError};
use jiff::Zoned;
use tokio_util::sync::CancellationToken;

pub use self::{
    agent::{Agent, AgentParts, MissingServer},
    setup::{
        Consent, ConversationSetup, CwdOnResume, ProjectRules, SessionIdInPrompt, TitleSource,
        UserInstructions,
    },
    state::{BackgroundCommand, BackgroundCommands},
    steering::UndoResult,
};
use self::{
    setup::build_approvals,
    state::{MessageHistory, ModelState, SessionRow, SessionState, SystemPrompt, ToolState},
    title::TitleWriter,
};
pub use crate::conversation::{
    prompt::{
        project_rules::{RulesFile, find_project_rules},
        tenant_advice::hosting_tenant,
    },
    storage::{
        recorder::{CallReport, SteeringMessage, TurnDisplay, TurnUsage},
        resume::SessionReference,
    },
    tool_selection::{
        ToolEntry, ToolsetEntry, ToolsetKind, ToolsetSwitch, needs_server, unknown_toolsets,
    },
    user_calls::{UserCallError, UserCallResult, approve_user_call},
};
use crate::{
    conversation::storage::recorder::TurnRecorder,
    message::{Content, Message, ToolCall},
    model::{ResolveError, Selection},
    tools::{todo::TodoList, tool::ToolContext},
    turn::{OnRepetition, ResultSizeLimits, Turn, TurnEnd, TurnError, TurnLimits},
};

pub struct Conversation {
    agent: Agent,
    setup: ConversationSetup,
    session: SessionState,
    model: ModelState,
    prompt: SystemPrompt,
    history: MessageHistory,
    tools: ToolState,
    titles: TitleWriter,
    /// The usage of the last turn, even if it failed.
    last_usage: Option<TurnUsage>,
}

/// The result of a turn.
#[derive(Debug, Clone)]
pub struct TurnOutcome {
    /// The last text of the model.
    pub text: String,
    pub end: TurnEnd,
    pub usage: TurnUsage,
    /// The calls that the client has to make, if the turn ended with some.
    pub client_calls: Vec<ToolCall>,
}

impl Conversation {
    /// Starts a session. `row` is what the caller knows of it; it is stored with the first message.
    pub fn new(agent: Agent, row: NewSession, setup: ConversationSetup) -> Self {
        let model = ModelState::default();
        let approvals = build_approvals(&agent, &setup, &row.id, &model.selection);
        Self {
            session: SessionState::new(row, setup.cwd.clone()),
            model,
            prompt: SystemPrompt::default(),
            history: MessageHistory::default(),
            tools: ToolState::new(approvals),
            titles: TitleWriter::default(),
            last_usage: None,
            setup,
            agent,
        }
    }

    /// Starts with imported history. Only for a new session.
    #[must_use]
    pub fn with_history(mut self, history: Vec<Message>) -> Self {
        self.history.imported = history;
        self
    }

    /// Continues with another setup. Approvals of this session stay, and messages that others added are loaded with the
    /// next turn.
    pub fn apply_setup(&mut self, setup: ConversationSetup) {
        if let Consent::Ask(approver) = &setup.consent {
            self.tools.approvals = Arc::new(self.tools.approvals.with_approver(approver.clone()));
        }
        if self.setup.model_overrides != setup.model_overrides {
            self.model.selection.set(None);
        }
        self.history.must_check = self.is_stored();
        self.setup = setup;
    }

    /// A new session of the command line.
    pub fn new_cli(agent: Agent, setup: ConversationSetup) -> Self {
        let id = SessionId::for_cli(&Zoned::now());
        Self::new(agent, NewSession::new(id, "cli"), setup)
    }

    pub fn agent(&self) -> &Agent {
        &self.agent
    }

    pub fn id(&self) -> &SessionId {
        &self.session.id
    }

    /// Whether the session is in the store.
    pub fn is_stored(&self) -> bool {
        matches!(self.session.row, SessionRow::Stored)
    }

    pub fn cwd(&self) -> &Path {
        &self.session.cwd
    }

    /// The messages so far, without the system prompt.
    pub fn messages(&self) -> &[Message] {
        &self.history.messages
    }

    /// The memory that the messages take, nearly.
    pub fn message_bytes(&self) -> usize {
        self.history
            .messages
            .iter()
            .map(Message::memory_bytes)
            .sum()
    }

    /// Forgets the messages of a stored session. The next turn loads them.
    pub fn forget_messages(&mut self) {
        if self.is_stored() {
            self.history.messages = Vec::new();
            self.history.must_reload = true;
        }
    }

    pub fn todo(&self) -> &Arc<TodoList> {
        &self.tools.todo
    }

    /// Whether a background process of the conversation runs.
    pub fn has_background_process(&self) -> bool {
        #[cfg(unix)]
        return self.tools.processes.has_running();
        #[cfg(not(unix))]
        false
    }

    /// The background commands of the conversation, which others may list and end while a turn goes on.
    pub fn background_commands(&self) -> BackgroundCommands {
        self.tools.background_commands()
    }

    /// The model, if it has been resolved.
    pub fn model(&self) -> Option<Selection> {
        self.model.selection.get()
    }

    /// The usage of the last turn, also if it failed; none before the first.
    pub fn last_usage(&self) -> Option<&TurnUsage> {
        self.last_usage.as_ref()
    }

    /// Its row in the store; none before the first message.
    pub async fn session(&self) -> Result<Option<Session>, ConversationError> {
        Ok(self.agent.store().session(&self.session.id).await?)
    }

    /// Takes the notes about the choice of the model.
    pub fn take_notes(&mut self) -> Vec<String> {
        mem::take(&mut self.model.notes)
    }

    /// Adds the unavailable servers to the system prompt of this run.
    pub fn set_missing_servers(&mut self, servers: &[MissingServer]) {
        self.prompt.missing_servers = prompt::missing_servers_section(servers);
    }

    /// Resolves the model if there is none yet. Notes for the user are in
    /// [`Conversation::take_notes`].
    pub fn find_model(&mut self) -> BoxFuture<'_, Result<Selection, ConversationError>> {
        Box::pin(async move {
            if let Some(selection) = self.model.selection.get() {
                return Ok(selection);
            }
            let mut overrides = self.setup.model_overrides.clone();
            overrides.stored.clone_from(&self.model.remembered);
            let selection = match self.agent.find_model(&overrides).await {
                Err(error) if overrides.stored.is_some() => {
                    // The conversation can continue without the session's own model.
                    let stored = overrides.stored.take().map(|stored| stored.model);
                    let selection = self.agent.find_model(&overrides).await?;
                    self.model.notes.push(format!(
                        "the session's model `{}` is not available ({error}); using `{}`",
                        stored.unwrap_or_default(),
                        selection.endpoint.model
                    ));
                    selection
                }
                found => found?,
            };
            self.model.notes.extend(selection.notes.iter().cloned());
            self.model.selection.set(Some(selection.clone()));
            Ok(selection)
        })
    }

    /// Stores a user message and runs a turn.
    pub fn send_user_message<'a>(
        &'a mut self,
        content: impl Into<Content>,
        display: &'a mut dyn TurnDisplay,
        cancel: CancellationToken,
    ) -> BoxFuture<'a, Result<TurnOutcome, ConversationError>> {
        self.answer_user_message(content.into(), display, cancel)
    }

    fn answer_user_message<'a>(
        &'a mut self,
        content: Content,
        display: &'a mut dyn TurnDisplay,
        cancel: CancellationToken,
    ) -> BoxFuture<'a, Result<TurnOutcome, ConversationError>> {
        Box::pin(async move {
            let selection = self.prepare_turn().await?;
            let sent = self.store_user_message(&content).await?;
            let is_answer = |message: &Message| matches!(message, Message::Assistant(_));
            let is_first = !self.history.messages.iter().any(is_answer);
            self.history.messages.push(Message::User { content: sent });
            // Boxed, since it is large and its callers are futures, too.
            let answer = Box::pin(self.run_turn(&selection, display, cancel)).await?;
            if is_first
                && answer.end == TurnEnd::Answered
                && self.setup.titles == TitleSource::Generated
            {
                let exchange = (content.text().into_owned(), answer.text.clone());
                self.titles.spawn(
                    self.agent.clone(),
                    selection,
                    self.session.id.clone(),
                    exchange,
                );
            }
            Ok(answer)
        })
    }

    /// Continues with the results of calls that the client made. They are part of the history, or were stored
    /// by [`Conversation::store_results`].
    pub fn continue_turn<'a>(
        &'a mut self,
        display: &'a mut dyn TurnDisplay,
        cancel: CancellationToken,
    ) -> BoxFuture<'a, Result<TurnOutcome, ConversationError>> {
        Box::pin(async move {
            let selection = self.prepare_turn().await?;
            Box::pin(self.run_turn(&selection, display, cancel)).await
        })
    }

    /// Resolves the model and stores the imported history.
    async fn prepare_turn(&mut self) -> Result<Selection, ConversationError> {
        self.last_usage = None;
        let selection = self.find_model().await?;
        self.refresh_messages().await?;
        self.ensure_row(Some(&selection)).await?;
        self.store_history().await?;
        Ok(selection)
    }

    async fn run_turn(
        &mut self,
        selection: &Selection,
        display: &mut dyn TurnDisplay,
        cancel: CancellationToken,
    ) -> Result<TurnOutcome, ConversationError> {
        let settings = self.agent.settings();
        let compactor = self.compactor(selection).await?;
        let toolbox = self.toolbox();
        let limits = self.limits(selection);
        let context = self.tool_context(cancel);
        let turn = Turn {
            model: &*selection.model,
            toolbox: &toolbox,
            limits: &limits,
            context: &context,
            reasoning_effort: settings.agent.reasoning_effort.as_deref(),
            client_tools: self.setup.client_tools.as_deref(),
            compactor: Some(&compactor),
        };
        let mut recorder =
            TurnRecorder::new(display, self.agent.store(), &self.session.id, selection)
                .after_rows(self.history.rows);
        // If this future is dropped, the store has the state of the turn.
        self.history.must_reload = true;
        let mut messages = mem::take(&mut self.history.messages);
        messages.insert(0, Message::system(self.build_system_prompt()));
        let end = turn.run(&mut messages, &mut recorder).await;
        self.history.rows = recorder.rows();
        let (text, usage) = recorder.finish();
        self.last_usage = Some(usage.clone());
        messages.remove(0);
        if messages.iter().any(has_images) {
            self.history.rows = None;
        }
        self.history.messages = messages;
        // A message that could not be stored is not part of the conversation.
        self.history.must_reload = matches!(&end, Err(crate::turn::TurnError::Persist(_)));
        let end = end?;
        Ok(TurnOutcome {
            client_calls: self.client_calls(&end),
            end,
            text,
            usage,
        })
    }

    /// The calls that the client has to make.
    fn client_calls(&self, end: &TurnEnd) -> Vec<ToolCall> {
        let Some(tools) = self
            .setup
            .client_tools
            .as_ref()
            .filter(|_| *end == TurnEnd::ClientCalls)
        else {
            return Vec::new();
        };
        let mut messages = self.history.messages.iter().rev();
        let answer = messages.find(|message| matches!(message, Message::Assistant(_)));
        let calls = answer.map(Message::tool_calls).unwrap_or_default();
        calls
            .iter()
            .filter(|call| tools.owns_call(call))
            .cloned()
            .collect()
    }

    fn build_system_prompt(&self) -> String {
        let policy = self.agent.policy();
        let written = [
            policy.specialization(),
            self.prompt.text.as_deref(),
            self.prompt.missing_servers.as_deref(),
            self.setup.instructions.as_deref(),
        ];
        let written: Vec<&str> = written.into_iter().flatten().collect();
        written.join("\n\n")
    }

    fn limits(&self, selection: &Selection) -> TurnLimits {
        let settings = self.agent.settings();
        TurnLimits {
            max_model_calls: self
                .setup
                .max_model_calls
                .unwrap_or(settings.agent.max_turns),
            sizes: ResultSizeLimits::for_context(selection.endpoint.context_length),
            on_repetition: match settings.agent.loop_guard {
                LoopGuard::Note => OnRepetition::Note,
                LoopGuard::Stop => OnRepetition::Stop,
            },
        }
    }

    fn tool_context(&self, cancel: CancellationToken) -> ToolContext {
        // The configuration may have changed since.
        let settings = setup::approval_settings(&self.agent, &self.setup);
        let approvals = self
            .tools
            .approvals
            .with_settings(settings, self.agent.redactor());
        ToolContext {
            home: self.agent.home().clone(),
            cwd: self.session.cwd.clone(),
            session: self.session.id.as_str().into(),
            call_id: "".into(),
            cancel,
            approvals: Arc::new(approvals),
            progress: Arc::new(|_| {}),
        }
    }

    /// Closes the conversation but not its session: background processes are ended, a title in progress is
    /// awaited.
    pub async fn detach(self) {
        #[cfg(unix)]
        self.tools.processes.close().await;
        self.titles.close().await;
    }

    /// Ends the session: background processes are ended, a title in progress is awaited, the row records the reason.
    pub async fn close(self, reason: EndReason) -> Result<(), ConversationError> {
        #[cfg(unix)]
        self.tools.processes.close().await;
        self.titles.close().await;
        if self.is_stored() {
            self.agent
                .store()
                .end_session(&self.session.id, reason)
                .await?;
        }
        Ok(())
    }
}

/// Whether a message is a result with images, which are not stored with it.
fn has_images(message: &Message) -> bool {
    matches!(message, Message::Tool(result) if matches!(result.content, Content::Parts(_)))
}

/// Why an operation on a conversation failed. Messages stored before stay valid.
#[derive(Debug, thiserror::Error)]
pub enum ConversationError {
    /// There is no model. Nothing was stored.
    #[error(transparent)]
    NoModel(#[from] ResolveError),
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The model failed, or its reply could not be stored.
    #[error(transparent)]
    Turn(#[from] TurnError),
    /// A requested skill is not available.
    #[error(transparent)]
    Skill(#[from] SkillError),
    #[error("there is no session `{reference}`")]
    NoSuchSession {
        /// An id, a prefix of one, or a title.
        reference: String,
    },
    #[error("there is no earlier session to continue")]
    NothingToContinue,
    #[error("this is a bug in hermes: {0}")]
    Internal(String),
}
