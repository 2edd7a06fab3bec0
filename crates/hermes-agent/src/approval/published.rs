//! Approvals that other processes of the home can answer, too.
//!
//! While an approver asks its person, the question is a row in `runtime.db`. Whoever answers first decides: the
//! person, or somebody who writes an answer into the row. The row then says what became of the question.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use futures::future::BoxFuture;
use hermes_config::Home;
use hermes_mcp::process;
use hermes_store::{
    SessionKey, StoreError,
    runtime::{
        Answer, Answered, Approval, ApprovalState, NewApproval, Outcome, RuntimeStore,
        new_approval_id,
    },
};
use tokio::sync::OnceCell;
use tokio_util::task::TaskTracker;

use super::{ApprovalKind, ApprovalRequest, Approver, Decision};
use crate::printable::printable;

/// How often the row is looked at. An answer is to be seen within a quarter of a second.
const LOOK: Duration = Duration::from_millis(100);
/// How long a person's answer may wait for the database.
const SETTLING: Duration = Duration::from_secs(2);
/// How long closed questions are remembered.
const MEMORY: Duration = Duration::from_hours(24 * 7);
/// Who answered, if the approver did.
const OWNER: &str = "owner";
/// Longest name of somebody else who answered.
const LONGEST_NAME: usize = 60;

/// Told to the person: who else answered, or that nobody else can.
type Tell = Box<dyn Fn(&str) + Send + Sync>;

/// Told what happens to a question's row.
type Follow = Box<dyn Fn(Change<'_>) + Send + Sync>;

/// What happened to a question that is published.
#[derive(Debug, Clone, Copy)]
pub enum Change<'a> {
    /// It can be answered now.
    Asked(&'a NewApproval),
    /// It can not be answered any more.
    Closed {
        /// Its id.
        id: &'a str,
        /// What became of it.
        outcome: Outcome,
    },
}

/// An approver whose questions are in the home's database while they are open.
pub struct Published {
    home: Home,
    approver: Arc<dyn Approver>,
    session_key: Option<SessionKey>,
    run: Option<String>,
    tell: Option<Tell>,
    follow: Option<Follow>,
    /// Opened by the first question. `None` if that did not work.
    store: OnceCell<Option<RuntimeStore>>,
    /// Whether others use the store, too.
    is_shared: bool,
    /// Closes the rows of questions that were given up.
    tasks: TaskTracker,
}

impl Published {
    /// Publishes what this approver is asked. Nothing is opened before the first question.
    pub fn new(home: Home, approver: Arc<dyn Approver>) -> Self {
        Self {
            home,
            approver,
            session_key: None,
            run: None,
            tell: None,
            follow: None,
            store: OnceCell::new(),
            is_shared: false,
            tasks: TaskTracker::new(),
        }
    }

    /// Uses a database that is open already, and stays so.
    #[must_use]
    pub fn in_store(mut self, store: RuntimeStore) -> Self {
        self.store = OnceCell::new_with(Some(Some(store)));
        self.is_shared = true;
        self
    }

    /// Names the run that the questions are asked in.
    #[must_use]
    pub fn in_run(mut self, run: impl Into<String>) -> Self {
        self.run = Some(run.into());
        self
    }

    /// Is told when a question can be answered, and when it can not any more.
    #[must_use]
    pub fn on_change(mut self, follow: impl Fn(Change<'_>) + Send + Sync + 'static) -> Self {
        self.follow = Some(Box::new(follow));
        self
    }

    /// Names the chat that the questions are about.
    #[must_use]
    pub fn in_chat(mut self, key: SessionKey) -> Self {
        self.session_key = Some(key);
        self
    }

    /// Is told, for the person, who else answered, and once if nobody else can.
    #[must_use]
    pub fn on_news(mut self, tell: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.tell = Some(Box::new(tell));
        self
    }

    /// Waits, a moment, until every row is closed.
    pub async fn close(&self) {
        self.tasks.close();
        // What is left over is found by the next one who asks.
        let _ = tokio::time::timeout(SETTLING, self.tasks.wait()).await;
        if let (Some(Some(store)), false) = (self.store.get(), self.is_shared) {
            store.close().await;
        }
    }

    fn follow(&self, change: Change<'_>) {
        if let Some(follow) = &self.follow {
            follow(change);
        }
    }

    fn tell(&self, line: &str) {
        if let Some(tell) = &self.tell {
            tell(line);
        }
    }

    /// The database, cleared of what other processes left behind.
    async fn store(&self) -> Option<&RuntimeStore> {
        let opened = self.store.get_or_init(async || match self.open().await {
            Ok(store) => Some(store),
            Err(error) => {
                tracing::warn!(%error, "approvals are not published");
                self.tell(&format!("Only you can answer this, here: {error}"));
                None
            }
        });
        opened.await.as_ref()
    }

    async fn open(&self) -> Result<RuntimeStore, StoreError> {
        let store = RuntimeStore::open(&self.home).await?;
        store.expire_approvals(is_owner_gone).await?;
        store.prune_approvals(MEMORY).await?;
        Ok(store)
    }

    /// Publishes the question and waits for somebody else's answer. Without one it never ends.
    async fn elsewhere(&self, row: &Row<'_>) -> Approval {
        if let Some(store) = self.store().await {
            let store = row.store.get_or_init(|| store.clone());
            match row.publish_and_wait(store).await {
                Ok(Some(answered)) => return answered,
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!(%error, "an approval can not be answered elsewhere");
                }
            }
        }
        std::future::pending().await
    }
}

impl Approver for Published {
    fn ask(&self, request: ApprovalRequest) -> BoxFuture<'_, Decision> {
        let mut row = Row::new(self, &request);
        Box::pin(async move {
            let answered = tokio::select! {
                decision = self.approver.ask(request) => return row.settle(decision).await,
                answered = self.elsewhere(&row) => answered,
            };
            let (answer, decision) = decision(&answered);
            self.tell(&line(&answered, answer));
            row.close(Outcome::Answered(answer)).await;
            decision
        })
    }
}

/// A question on its way through the database.
struct Row<'a> {
    published: &'a Published,
    new: NewApproval,
    began: Instant,
    /// Where it is, once it may be there.
    store: OnceLock<RuntimeStore>,
    /// Whether anybody was told of it.
    is_asked: AtomicBool,
    /// What became of it, as far as known.
    outcome: Option<Outcome>,
    is_closed: bool,
}

impl<'a> Row<'a> {
    fn new(published: &'a Published, request: &ApprovalRequest) -> Self {
        let pid = std::process::id();
        let started = process::start_time(pid).and_then(|start| i64::try_from(start).ok());
        let kind = match request.kind {
            ApprovalKind::BuiltIn => "exec",
            ApprovalKind::Mcp => "mcp",
        };
        let new = NewApproval {
            id: new_approval_id(),
            kind: kind.into(),
            session_key: published.session_key.clone(),
            session: request.session.clone(),
            run_id: published.run.clone(),
            command: request.subject.clone(),
            description: request.reason.clone(),
            pattern_keys: request.rules.clone(),
            allow_permanent: request.may_be_permanent,
            patience: request.patience,
            owner_pid: pid,
            owner_start: started,
        };
        Self {
            published,
            new,
            began: Instant::now(),
            store: OnceLock::new(),
            is_asked: AtomicBool::new(false),
            outcome: None,
            is_closed: false,
        }
    }

    /// Somebody's answer, or `None` when there can be none any more.
    async fn publish_and_wait(&self, store: &RuntimeStore) -> Result<Option<Approval>, StoreError> {
        store.publish_approval(&self.new).await?;
        self.is_asked.store(true, Ordering::Relaxed);
        self.published.follow(Change::Asked(&self.new));
        loop {
            tokio::time::sleep(LOOK).await;
            match store.approval(&self.new.id).await? {
                Some(row) if is_answered(&row) => return Ok(Some(row)),
                Some(row) if row.state != ApprovalState::Resolved => {}
                _ => return Ok(None),
            }
        }
    }

    /// The approver has decided. That counts unless somebody else was quicker.
    async fn settle(mut self, decided: Decision) -> Decision {
        let (answer, reason) = match &decided {
            Decision::Once => (Answer::Once, None),
            Decision::Always if self.new.allow_permanent => (Answer::Always, None),
            Decision::Session | Decision::Always => (Answer::Session, None),
            Decision::Denied { reason } => (Answer::Deny, reason.clone()),
        };
        self.outcome = Some(Outcome::Answered(answer));
        let Some(store) = self.store.get().cloned() else {
            return decided;
        };
        let id = &self.new.id;
        let first = async {
            let answered = store.answer_approval(id, answer, OWNER, reason.as_deref());
            if answered.await? == Answered::TooLate {
                return store.approval(id).await;
            }
            Ok(None)
        };
        let first = match tokio::time::timeout(SETTLING, first).await {
            Ok(Ok(first)) => first,
            Ok(Err(error)) => {
                tracing::warn!(%error, "an approval's row could not be answered");
                None
            }
            Err(_) => return decided,
        };
        let Some(first) = first.filter(is_answered) else {
            self.close(Outcome::Answered(answer)).await;
            return decided;
        };
        let (answer, decision) = decision(&first);
        self.published.tell(&line(&first, answer));
        self.close(Outcome::Answered(answer)).await;
        decision
    }

    /// Says what became of the question.
    async fn close(&mut self, outcome: Outcome) {
        self.outcome = Some(outcome);
        let Some(store) = self.store.get() else {
            return;
        };
        let closed = store.resolve_approval(&self.new.id, outcome);
        match tokio::time::timeout(SETTLING, closed).await {
            Ok(Ok(_)) => self.is_closed = true,
            Ok(Err(error)) => tracing::warn!(%error, "an approval's row could not be closed"),
            Err(_) => {}
        }
    }
}

impl Drop for Row<'_> {
    /// Nobody waits any more: the time is over, or the turn was interrupted.
    fn drop(&mut self) {
        let patience = self.new.patience;
        let is_late = patience.is_some_and(|patience| self.began.elapsed() >= patience);
        let outcome = self.outcome.unwrap_or(if is_late {
            Outcome::Expired
        } else {
            Outcome::Cancelled
        });
        if self.is_asked.load(Ordering::Relaxed) {
            let id = &self.new.id;
            self.published.follow(Change::Closed { id, outcome });
        }
        let (Some(store), false) = (self.store.take(), self.is_closed) else {
            return;
        };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let id = std::mem::take(&mut self.new.id);
        let close = async move {
            if let Err(error) = store.resolve_approval(&id, outcome).await {
                tracing::warn!(%error, "an approval's row could not be closed");
            }
        };
        self.published.tasks.spawn_on(close, &runtime);
    }
}

fn is_answered(row: &Approval) -> bool {
    row.state == ApprovalState::Answered && row.answer.is_some()
}

/// What an answer in the row means.
fn decision(row: &Approval) -> (Answer, Decision) {
    let answer = match row.answer {
        Some(Answer::Always) if !row.allow_permanent => Answer::Once,
        answer => answer.unwrap_or(Answer::Deny),
    };
    let decision = match answer {
        Answer::Once => Decision::Once,
        Answer::Session => Decision::Session,
        Answer::Always => Decision::Always,
        Answer::Deny => Decision::Denied {
            reason: row.reason.clone(),
        },
    };
    (answer, decision)
}

/// What the person is told of somebody else's answer.
fn line(row: &Approval, answer: Answer) -> String {
    let by = printable(row.answered_by.as_deref().unwrap_or_default());
    let by: String = by.split_whitespace().collect::<Vec<_>>().join(" ");
    let by: String = by.chars().take(LONGEST_NAME).collect();
    let what = match answer {
        Answer::Once => "allowed once",
        Answer::Session => "allowed for this session",
        Answer::Always => "allowed from now on",
        Answer::Deny => "denied",
    };
    if by.is_empty() {
        return format!("Answered elsewhere: {what}.");
    }
    format!("Answered by {by}: {what}.")
}

/// Whether the process that waits for the answer has ended.
pub fn is_owner_gone(approval: &Approval) -> bool {
    process::is_gone(approval.owner_pid, approval.owner_start)
}
