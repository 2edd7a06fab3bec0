//! A conversation that is stored: what command line and gateway share.
//!
//! An [`Agent`] is what all conversations of a home have in common. A [`Conversation`] is one session in it: it begins
//! or is resumed, runs a turn for everything that is said, and writes each message to the store before the turn goes
//! on. Showing is left to the surface, which passes a [`Display`].

mod agent;
mod compaction;
mod consent;
mod direct;
mod error;
mod hosted;
mod keeper;
#[cfg(unix)]
mod news;
mod offer;
mod project_rules;
mod prompt;
mod record;
mod repository;
mod resume;
mod row;
mod setup;
mod side_model;
mod steering;
mod title;

use std::{
    collections::BTreeMap,
    mem,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use hermes_config::LoopGuard;
use hermes_store::{EndReason, NewSession, Session, SessionId};
use jiff::Zoned;
use tokio_util::sync::CancellationToken;

pub use self::{
    agent::{Agent, AgentParts, MissingServer},
    direct::{Called, NotCallable},
    error::ConversationError,
    hosted::tenant,
    keeper::{CallReport, Display, Tally},
    offer::{Switch, ToolEntry, ToolsetEntry, ToolsetKind, needs_server, unknown_toolsets},
    project_rules::{RulesFile, find_project_rules},
    resume::Which,
    setup::{Consent, CwdOnResume, ProjectRules, Rules, SessionIdInPrompt, Setup, Titles},
    steering::Undone,
};
use self::{consent::approvals, keeper::Keeper, title::TitleWriter};
#[cfg(unix)]
use crate::tools::process::ProcessTable;
use crate::{
    approval::Approvals,
    message::{Content, Message, ToolCall},
    model::{Selection, StoredModel},
    tool::ToolContext,
    tools::todo::TodoList,
    turn::{Limits, OnRepetition, SizeLimits, Turn, TurnEnd},
};

/// One session and its surroundings.
pub struct Conversation {
    agent: Agent,
    setup: Setup,
    id: SessionId,
    stored: Stored,
    cwd: PathBuf,
    /// What a resumed session remembers of its model.
    remembered_model: Option<StoredModel>,
    model: ModelCell,
    /// Lines about the choice of the model that the user has not seen yet.
    notes: Vec<String>,
    prompt: Option<String>,
    /// Told to the model in this run only.
    missing: Option<String>,
    /// All but the system prompt.
    messages: Vec<Message>,
    /// What was said elsewhere before; stored with the first message.
    history: Vec<Message>,
    /// Whether the store knows better than `messages`.
    must_reload: bool,
    approvals: Arc<Approvals>,
    todo: Arc<TodoList>,
    #[cfg(unix)]
    processes: Arc<ProcessTable>,
    #[cfg(unix)]
    news: news::News,
    /// Toolsets and servers that the user turned on or off in this conversation.
    switches: BTreeMap<String, Switch>,
    titles: TitleWriter,
    /// Made for a model and its context.
    compactor: Option<compaction::Made>,
    /// What the last turn took, whatever came of it.
    last_tally: Option<Tally>,
}

/// Whether the session has a row.
enum Stored {
    /// It gets one when something is said.
    Not(Box<NewSession>),
    Is,
}

/// The conversation's model, also for those who judge in its name.
#[derive(Clone, Default)]
struct ModelCell(Arc<Mutex<Option<Selection>>>);

impl ModelCell {
    fn get(&self) -> Option<Selection> {
        let cell = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cell.clone()
    }

    fn set(&self, selection: Option<Selection>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = selection;
    }
}

/// What came of something that was said.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The last text of the model.
    pub text: String,
    /// How the turn ended.
    pub end: TurnEnd,
    /// What it took.
    pub tally: Tally,
    /// The calls that the client has to make, where the turn ended with some.
    pub client_calls: Vec<ToolCall>,
}

impl Conversation {
    /// Begins a session. `row` says what the surface knows of it; it is stored when something is said.
    pub fn begin(agent: Agent, row: NewSession, setup: Setup) -> Self {
        let model = ModelCell::default();
        let approvals = Arc::new(approvals(&agent, &setup, &row.id, &model));
        #[cfg(unix)]
        let news = news::News::default();
        Self {
            titles: TitleWriter::default(),
            cwd: setup.cwd.clone(),
            id: row.id.clone(),
            stored: Stored::Not(Box::new(row)),
            remembered_model: None,
            model,
            notes: Vec::new(),
            prompt: None,
            missing: None,
            messages: Vec::new(),
            history: Vec::new(),
            must_reload: false,
            approvals,
            todo: Arc::default(),
            #[cfg(unix)]
            processes: news.table(),
            #[cfg(unix)]
            news,
            switches: BTreeMap::new(),
            compactor: None,
            last_tally: None,
            setup,
            agent,
        }
    }

    /// Begins with what was said before, in a place we know nothing of. Only for a session that is new.
    #[must_use]
    pub fn with_history(mut self, history: Vec<Message>) -> Self {
        self.history = history;
        self
    }

    /// Goes on under other terms. What was allowed in this session stays so, and what others added to it is read.
    pub fn change_terms(&mut self, setup: Setup) {
        if let Consent::Ask(approver) = &setup.consent {
            self.approvals = Arc::new(self.approvals.asking(approver.clone()));
        }
        if self.setup.wanted != setup.wanted {
            self.model.set(None);
        }
        self.must_reload = self.is_stored();
        self.setup = setup;
    }

    /// A new session of the command line.
    pub fn begin_cli(agent: Agent, setup: Setup) -> Self {
        let id = SessionId::for_cli(&Zoned::now());
        Self::begin(agent, NewSession::new(id, "cli"), setup)
    }

    /// What all conversations of the home share.
    pub fn agent(&self) -> &Agent {
        &self.agent
    }

    /// The session.
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// Whether anything of it is in the store.
    pub fn is_stored(&self) -> bool {
        matches!(self.stored, Stored::Is)
    }

    /// Where it works.
    pub fn cwd(&self) -> &Path {
        &self.cwd
    }

    /// What was said so far, without the system prompt.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// The list of things to do.
    pub fn todo(&self) -> &Arc<TodoList> {
        &self.todo
    }

    /// The model, if it has been found.
    pub fn model(&self) -> Option<Selection> {
        self.model.get()
    }

    /// What the last turn took, also if it failed; none before the first.
    pub fn last_tally(&self) -> Option<&Tally> {
        self.last_tally.as_ref()
    }

    /// Its row in the store; none before anything was said.
    pub async fn session(&self) -> Result<Option<Session>, ConversationError> {
        Ok(self.agent.store().session(&self.id).await?)
    }

    /// Lines about the choice of the model, once.
    pub fn take_notes(&mut self) -> Vec<String> {
        mem::take(&mut self.notes)
    }

    /// Tells the model, in this run, which servers are away.
    pub fn tell_missing(&mut self, servers: &[MissingServer]) {
        self.missing = prompt::missing(servers);
    }

    /// The model, looked for if there is none yet. What the user should know of the choice is in
    /// [`Conversation::take_notes`].
    pub async fn find_model(&mut self) -> Result<Selection, ConversationError> {
        if let Some(selection) = self.model.get() {
            return Ok(selection);
        }
        let mut wanted = self.setup.wanted.clone();
        wanted.stored.clone_from(&self.remembered_model);
        let selection = match self.agent.find_model(&wanted).await {
            Err(error) if wanted.stored.is_some() => {
                // The session's own model may be gone for good; the conversation need not be.
                let stored = wanted.stored.take().map(|stored| stored.model);
                let selection = self.agent.find_model(&wanted).await?;
                self.notes.push(format!(
                    "the session's model `{}` is not to be had ({error}); `{}` goes on",
                    stored.unwrap_or_default(),
                    selection.endpoint.model
                ));
                selection
            }
            found => found?,
        };
        self.notes.extend(selection.notes.iter().cloned());
        self.model.set(Some(selection.clone()));
        Ok(selection)
    }

    /// Says something and runs the turn that follows. The message is stored before the model is asked.
    pub async fn say(
        &mut self,
        content: impl Into<Content>,
        display: &mut dyn Display,
        cancel: CancellationToken,
    ) -> Result<Answer, ConversationError> {
        let content = content.into();
        let selection = self.prepare().await?;
        let sent = self.store_user_message(&content).await?;
        let is_answer = |message: &Message| matches!(message, Message::Assistant(_));
        let is_first = !self.messages.iter().any(is_answer);
        self.messages.push(Message::User { content: sent });
        // Boxed, since it is large and its callers are futures, too.
        let answer = Box::pin(self.run_turn(&selection, display, cancel)).await?;
        if is_first && answer.end == TurnEnd::Answered && self.setup.titles == Titles::Generated {
            let exchange = (content.text().into_owned(), answer.text.clone());
            self.titles
                .write(self.agent.clone(), selection, self.id.clone(), exchange);
        }
        Ok(answer)
    }

    /// Lets the model go on with the results of calls that the client made. They are part of the history, or were stored
    /// by [`Conversation::store_results`].
    pub async fn go_on(
        &mut self,
        display: &mut dyn Display,
        cancel: CancellationToken,
    ) -> Result<Answer, ConversationError> {
        let selection = self.prepare().await?;
        Box::pin(self.run_turn(&selection, display, cancel)).await
    }

    /// Finds the model, and makes sure that the store has all that was said before.
    async fn prepare(&mut self) -> Result<Selection, ConversationError> {
        let selection = self.find_model().await?;
        if self.must_reload {
            self.reload_messages().await?;
        }
        self.make_row(Some(&selection)).await?;
        self.store_history().await?;
        Ok(selection)
    }

    async fn run_turn(
        &mut self,
        selection: &Selection,
        display: &mut dyn Display,
        cancel: CancellationToken,
    ) -> Result<Answer, ConversationError> {
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
        let mut keeper = Keeper::new(display, self.agent.store(), &self.id, selection);
        // Should this future be dropped, the store knows how far the turn came.
        self.must_reload = true;
        let mut messages = mem::take(&mut self.messages);
        messages.insert(0, Message::system(self.system_text()));
        let end = turn.run(&mut messages, &mut keeper).await;
        let (text, tally) = keeper.finish();
        self.last_tally = Some(tally.clone());
        messages.remove(0);
        self.messages = messages;
        // What could not be stored is not part of the conversation.
        self.must_reload = matches!(&end, Err(crate::turn::TurnError::Keep(_)));
        let end = end?;
        Ok(Answer {
            client_calls: self.client_calls(&end),
            end,
            text,
            tally,
        })
    }

    /// The calls that wait for the client.
    fn client_calls(&self, end: &TurnEnd) -> Vec<ToolCall> {
        let Some(tools) = self
            .setup
            .client_tools
            .as_ref()
            .filter(|_| *end == TurnEnd::ClientCalls)
        else {
            return Vec::new();
        };
        let mut messages = self.messages.iter().rev();
        let answer = messages.find(|message| matches!(message, Message::Assistant(_)));
        let calls = answer.map(Message::tool_calls).unwrap_or_default();
        calls
            .iter()
            .filter(|call| tools.has(call))
            .cloned()
            .collect()
    }

    fn system_text(&self) -> String {
        let directives = self.agent.in_force().directives();
        let special = Some(directives.specialization.trim()).filter(|text| !text.is_empty());
        let written = [
            special,
            self.prompt.as_deref(),
            self.missing.as_deref(),
            self.setup.instructions.as_deref(),
        ];
        let written: Vec<&str> = written.into_iter().flatten().collect();
        written.join("\n\n")
    }

    fn limits(&self, selection: &Selection) -> Limits {
        let settings = self.agent.settings();
        Limits {
            max_model_calls: self
                .setup
                .max_model_calls
                .unwrap_or(settings.agent.max_turns),
            sizes: SizeLimits::for_context(selection.endpoint.context_length),
            on_repetition: match settings.agent.loop_guard {
                LoopGuard::Note => OnRepetition::Note,
                LoopGuard::Stop => OnRepetition::Stop,
            },
        }
    }

    fn tool_context(&self, cancel: CancellationToken) -> ToolContext {
        // The configuration may have changed since.
        let settings = consent::settings(&self.agent, &self.setup);
        let approvals = self.approvals.renewed(settings, self.agent.redactor());
        ToolContext {
            home: self.agent.home().clone(),
            cwd: self.cwd.clone(),
            session: self.id.as_str().into(),
            call_id: "".into(),
            cancel,
            approvals: Arc::new(approvals),
            progress: Arc::new(|_| {}),
        }
    }

    /// Leaves the conversation without ending its session: background processes are ended, a title under way is
    /// waited for.
    pub async fn leave(self) {
        #[cfg(unix)]
        self.processes.close().await;
        self.titles.close().await;
    }

    /// Ends the conversation: background processes are ended, a title under way is waited for, the row says why.
    pub async fn close(self, reason: EndReason) -> Result<(), ConversationError> {
        #[cfg(unix)]
        self.processes.close().await;
        self.titles.close().await;
        if self.is_stored() {
            self.agent.store().end_session(&self.id, reason).await?;
        }
        Ok(())
    }
}
