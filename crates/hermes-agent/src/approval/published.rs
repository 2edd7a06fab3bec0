//! Approvals that other processes of the home can answer, too.
//!
//! While an approver asks its person, the question is a row in `runtime.db`, so that others know of it. Whoever answers
//! first decides: the person, or somebody who hands a decision to this process ([`Decisions`]). The row then says what
//! became of the question. It decides nothing itself: whoever can write to the database could answer in somebody's
//! place, commands of the agent among them.

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
        Answer, Approval, ApprovalState, NewApproval, Outcome, RuntimeStore, new_approval_id,
    },
};
use tokio::sync::OnceCell;
use tokio_util::task::TaskTracker;

use super::{
    ApprovalKind, ApprovalRequest, Approver, Decision,
    decisions::{Decisions, Given, Waiting},
};
use crate::printable::printable;

/// How often the row is looked at, for answers that somebody wrote into it.
const LOOK: Duration = Duration::from_millis(250);
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
    decisions: Decisions,
    /// Opened by the first question. `None` if that did not work.
    store: OnceCell<Option<RuntimeStore>>,
    /// Whether others use the store and the decisions, too.
    is_shared: bool,
    /// Closes the rows of questions that were given up.
    tasks: TaskTracker,
}

impl Published {
    /// Publishes what this approver is asked. Nothing is opened before the first question.
    pub fn new(home: Home, approver: Arc<dyn Approver>) -> Self {
        Self {
            decisions: Decisions::new(home.clone()),
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

    /// Uses a database that is open already, and takes decisions where others do. Both stay open.
    #[must_use]
    pub fn sharing(mut self, store: RuntimeStore, decisions: Decisions) -> Self {
        self.store = OnceCell::new_with(Some(Some(store)));
        self.decisions = decisions;
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
        if self.is_shared {
            return;
        }
        self.decisions.close().await;
        if let Some(Some(store)) = self.store.get() {
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

    /// Publishes the question and waits for somebody else's decision. Without one it never ends.
    async fn elsewhere(&self, row: &Row<'_>) -> Given {
        let Some(store) = self.store().await else {
            return std::future::pending().await;
        };
        let store = row.store.get_or_init(|| store.clone());
        let may_be_permanent = row.new.allow_permanent;
        let waiting = self.decisions.wait_for(&row.new.id, may_be_permanent).await;
        let waiting = row.waiting.get_or_init(|| waiting);
        if let Err(error) = row.publish(store).await {
            tracing::warn!(%error, "an approval cannot be answered elsewhere");
            return std::future::pending().await;
        }
        tokio::select! {
            given = waiting.given() => given,
            never = row.watch(store) => match never {},
        }
    }
}

impl Approver for Published {
    fn ask(&self, request: ApprovalRequest) -> BoxFuture<'_, Decision> {
        let row = Row::new(self, &request);
        Box::pin(async move {
            let given = tokio::select! {
                decision = self.approver.ask(request) => return row.settle(decision).await,
                given = self.elsewhere(&row) => given,
            };
            row.accept(&given).await
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
    /// Its place among those that others can decide.
    waiting: OnceLock<Waiting>,
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
            waiting: OnceLock::new(),
            is_asked: AtomicBool::new(false),
            outcome: None,
            is_closed: false,
        }
    }

    async fn publish(&self, store: &RuntimeStore) -> Result<(), StoreError> {
        store.publish_approval(&self.new).await?;
        self.is_asked.store(true, Ordering::Relaxed);
        self.published.follow(Change::Asked(&self.new));
        Ok(())
    }

    /// Looks whether somebody writes an answer into the row. Such a one decides nothing: it is logged and taken out.
    async fn watch(&self, store: &RuntimeStore) -> std::convert::Infallible {
        let id = &self.new.id;
        let mut is_told = false;
        loop {
            tokio::time::sleep(LOOK).await;
            let row = match store.approval(id).await {
                Ok(Some(row)) if row.state != ApprovalState::Open => row,
                _ => continue,
            };
            if is_told || self.is_late() {
                continue;
            }
            is_told = true;
            let by = printable(row.answered_by.as_deref().unwrap_or_default());
            tracing::warn!(
                approval = id,
                by = &*by,
                "somebody wrote an answer into the database; it decides nothing"
            );
            if let Err(error) = store.reopen_approval(id).await {
                tracing::warn!(%error, "an approval's row could not be opened again");
            }
        }
    }

    fn is_late(&self) -> bool {
        let patience = self.new.patience;
        patience.is_some_and(|patience| self.began.elapsed() >= patience)
    }

    /// Somebody else has decided.
    async fn accept(mut self, given: &Given) -> Decision {
        let answer = given.answer;
        self.outcome = Some(Outcome::Answered(answer));
        self.published.tell(&line(given));
        self.record(given).await;
        self.close(Outcome::Answered(answer)).await;
        match answer {
            Answer::Once => Decision::Once,
            Answer::Session => Decision::Session,
            Answer::Always => Decision::Always,
            Answer::Deny => Decision::Denied {
                reason: given.reason.clone(),
            },
        }
    }

    /// The approver has decided. That counts unless somebody else was quicker.
    async fn settle(mut self, decided: Decision) -> Decision {
        if let Some(given) = self.waiting.get().and_then(Waiting::end) {
            return self.accept(&given).await;
        }
        let (answer, reason) = match &decided {
            Decision::Once => (Answer::Once, None),
            Decision::Always if self.new.allow_permanent => (Answer::Always, None),
            Decision::Session | Decision::Always => (Answer::Session, None),
            Decision::Denied { reason } => (Answer::Deny, reason.clone()),
        };
        self.outcome = Some(Outcome::Answered(answer));
        let given = Given {
            answer,
            by: OWNER.to_owned(),
            reason,
        };
        self.record(&given).await;
        self.close(Outcome::Answered(answer)).await;
        decided
    }

    /// Writes down who decided what.
    async fn record(&self, given: &Given) {
        let Some(store) = self.store.get() else {
            return;
        };
        let id = &self.new.id;
        let recorded = async {
            // An answer that somebody else wrote would stand in the way of the real one.
            store.reopen_approval(id).await?;
            store
                .answer_approval(id, given.answer, &given.by, given.reason.as_deref())
                .await
        };
        if let Ok(Err(error)) = tokio::time::timeout(SETTLING, recorded).await {
            tracing::warn!(%error, "an approval's row could not be answered");
        }
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
        let outcome = self.outcome.unwrap_or(if self.is_late() {
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

/// What the person is told of somebody else's answer.
fn line(given: &Given) -> String {
    let by = printable(&given.by);
    let by: String = by.split_whitespace().collect::<Vec<_>>().join(" ");
    let by: String = by.chars().take(LONGEST_NAME).collect();
    let what = match given.answer {
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
