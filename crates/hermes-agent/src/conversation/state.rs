//! The parts of a conversation, one struct for each subject: session, model, prompt, messages, tools; and the auxiliary
//! model of a task.

#[cfg(unix)]
use std::sync::Weak;
use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use futures::future::BoxFuture;
use hermes_config::{AuxiliaryTask, sync::Mutex};
use hermes_store::{ActiveRows, NewSession, SessionId};

use super::{Agent, ToolsetSwitch, storage::compaction::CachedCompactor};
use crate::{
    approval::Approvals,
    message::Message,
    model::{
        Model, ModelError, ModelEventSink, ModelProblem, ModelReply, ModelRequest, Selection,
        StoredModel,
    },
    tools::todo::TodoList,
};

#[cfg(unix)]
use crate::tools::terminal::process::{ProcessNotice, ProcessTable};

/// The stored session.
pub(super) struct SessionState {
    pub(super) id: SessionId,
    pub(super) row: SessionRow,
    /// The working directory.
    pub(super) cwd: PathBuf,
}

impl SessionState {
    pub(super) fn new(row: NewSession, cwd: PathBuf) -> Self {
        Self {
            id: row.id.clone(),
            row: SessionRow::Pending(Box::new(row)),
            cwd,
        }
    }
}

pub(super) enum SessionRow {
    /// The row is written with the first message.
    Pending(Box<NewSession>),
    Stored,
}

#[derive(Default)]
pub(super) struct ModelState {
    pub(super) selection: ModelCell,
    /// The model that a resumed session was using.
    pub(super) remembered: Option<StoredModel>,
    /// Notes about the choice of the model that were not shown yet.
    pub(super) notes: Vec<String>,
    /// Depends on the model and its context size.
    pub(super) compactor: Option<CachedCompactor>,
}

/// The conversation's model, shared with its approval judge.
#[derive(Clone, Default)]
pub(super) struct ModelCell(Arc<Mutex<Option<Selection>>>);

impl ModelCell {
    pub(super) fn get(&self) -> Option<Selection> {
        let cell = self.0.lock();
        cell.clone()
    }

    pub(super) fn set(&self, selection: Option<Selection>) {
        *self.0.lock() = selection;
    }
}

#[derive(Default)]
pub(super) struct SystemPrompt {
    /// As it is stored; none if it has to be built.
    pub(super) text: Option<String>,
    /// Added in this run only.
    pub(super) missing_servers: Option<String>,
}

pub(super) struct MessageHistory {
    /// All but the system prompt.
    pub(super) messages: Vec<Message>,
    /// Imported ones; stored with the first message.
    pub(super) imported: Vec<Message>,
    /// The rows that `messages` is stored in; `None` where they say something else.
    pub(super) rows: Option<ActiveRows>,
    /// Whether others may have changed the rows since.
    pub(super) must_check: bool,
    /// Whether `messages` has to be reloaded from the store.
    pub(super) must_reload: bool,
}

impl Default for MessageHistory {
    fn default() -> Self {
        Self {
            messages: Vec::new(),
            imported: Vec::new(),
            rows: Some(ActiveRows::default()),
            must_check: false,
            must_reload: false,
        }
    }
}

/// What the tools of this conversation share.
pub(super) struct ToolState {
    pub(super) approvals: Arc<Approvals>,
    pub(super) todo: Arc<TodoList>,
    #[cfg(unix)]
    pub(super) processes: Arc<ProcessTable>,
    #[cfg(unix)]
    pub(super) process_notices: ProcessNotices,
    /// Toolsets and servers that the user turned on or off.
    pub(super) switches: BTreeMap<String, ToolsetSwitch>,
}

impl ToolState {
    pub(super) fn new(approvals: Approvals) -> Self {
        #[cfg(unix)]
        let process_notices = ProcessNotices::default();
        Self {
            approvals: Arc::new(approvals),
            todo: Arc::default(),
            #[cfg(unix)]
            processes: process_notices.process_table(),
            #[cfg(unix)]
            process_notices,
            switches: BTreeMap::new(),
        }
    }

    pub(super) fn background_commands(&self) -> BackgroundCommands {
        BackgroundCommands {
            #[cfg(unix)]
            table: Arc::downgrade(&self.processes),
        }
    }
}

/// A command that runs in the background.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackgroundCommand {
    /// As the agent knows it: `proc_123`.
    pub id: String,
    pub command: String,
}

/// The background commands of a conversation, as others see them. None when it is closed.
#[derive(Clone, Default)]
pub struct BackgroundCommands {
    #[cfg(unix)]
    table: Weak<ProcessTable>,
}

#[cfg(unix)]
impl BackgroundCommands {
    /// Those that run, in the order in which they were begun.
    pub fn running(&self) -> Vec<BackgroundCommand> {
        let table = self.table.upgrade();
        let running = table.map_or_else(Vec::new, |table| table.running());
        let commands = running
            .into_iter()
            .map(|(id, command)| BackgroundCommand { id, command });
        commands.collect()
    }

    /// Ends one and waits until it is gone. Returns whether it ran.
    pub async fn end(&self, id: &str) -> bool {
        match self.table.upgrade() {
            Some(table) => table.end(id).await,
            None => false,
        }
    }
}

#[cfg(not(unix))]
impl BackgroundCommands {
    pub fn running(&self) -> Vec<BackgroundCommand> {
        Vec::new()
    }

    pub async fn end(&self, _id: &str) -> bool {
        false
    }
}

/// Notices that the model has not received yet.
#[cfg(unix)]
#[derive(Clone, Default)]
pub(super) struct ProcessNotices(Arc<Mutex<Vec<ProcessNotice>>>);

#[cfg(unix)]
impl ProcessNotices {
    pub(super) fn process_table(&self) -> Arc<ProcessTable> {
        let pending = self.clone();
        Arc::new(ProcessTable::with_listener(move |notice| {
            let mut notices = pending.0.lock();
            notices.push(notice);
        }))
    }

    /// Takes all notices as text; empty if there are none.
    pub(super) fn take_text(&self) -> String {
        let mut notices = self.0.lock();
        let texts: Vec<String> = notices
            .drain(..)
            .map(|notice| format_notice(&notice))
            .collect();
        texts.join("\n")
    }
}

#[cfg(unix)]
fn format_notice(notice: &ProcessNotice) -> String {
    match notice {
        ProcessNotice::Ended {
            session_id,
            command,
            exit_code,
            output,
        } => {
            let code =
                exit_code.map_or_else(|| "a signal".to_owned(), |code| format!("code {code}"));
            format!(
                "[The background process {session_id} (`{command}`) has ended with {code}. The end of its output:\n{output}]"
            )
        }
        ProcessNotice::Matched {
            session_id,
            pattern,
            line,
        } => {
            format!("[The background process {session_id} printed a line with `{pattern}`: {line}]")
        }
    }
}

/// The auxiliary model for one task.
pub(super) struct LazyAuxiliaryModel {
    pub(super) agent: Agent,
    /// The conversation's own model, used where the settings name no other.
    pub(super) main: ModelCell,
    pub(super) task: AuxiliaryTask,
}

impl Model for LazyAuxiliaryModel {
    fn name(&self) -> &'static str {
        "auxiliary"
    }

    fn provider(&self) -> &'static str {
        "auxiliary"
    }

    fn context_length(&self) -> Option<u32> {
        None
    }

    fn complete<'a>(
        &'a self,
        request: &'a ModelRequest<'a>,
        _sink: ModelEventSink<'a>,
    ) -> BoxFuture<'a, Result<ModelReply, ModelError>> {
        Box::pin(async move {
            let main = self.main.get();
            let model = self.agent.auxiliary(main.as_ref(), self.task).await;
            let model = model.map_err(|error| ModelError {
                provider: self.provider().into(),
                problem: ModelProblem::InvalidRequest {
                    reason: error.to_string(),
                },
            })?;
            model.complete(request).await
        })
    }
}
