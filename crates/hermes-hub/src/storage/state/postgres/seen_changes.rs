//! What this node has seen to be changed by anybody, so that it may keep what it knows until then.
//!
//! Every change of a tenant, a token, a document or a skill notes itself in the table `changes`, in its own transaction (for
//! all but skills a trigger does it). [`ChangeWatch::catch_up`] asks for the notes that have become visible since the last question. Requests that
//! wait at the same time share a question: those that come while one is under way wait for the next. So each request knows
//! of everything that was acknowledged before it came, by whichever node, and yet many requests cost one small question.
//! Nothing depends on notices, which come late or never; without the database there is no answer, and no old one either.
//!
//! A task asks, and not one of those who wait, as in `batch_queue`: a client that goes away ends its read, and must not end
//! the question of others. The task also keeps its connection and what it saw last.
//!
//! Numbers of transactions are not in the order of their commits. What is visible is a snapshot of the server, and the
//! next question asks for what is not in it. After a crash or a fail-over, notes may be lost and numbers be used again: the
//! time at which the server was started tells, and then nothing that was known is good.

use std::{
    collections::VecDeque,
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use hermes_config::sync::{Mutex, stripe_index};
use sqlx::{Row, postgres::PgRow};
use tokio::sync::{Notify, oneshot};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    session::{OwnSessions, Session},
    write_group::GroupedWrite,
};
use crate::storage::state::{ChangeCount, StateError};

/// Tenants share counters; who shares one is looked up once too often.
const COUNTERS: usize = 4096;
/// More notes than that count as a change of everything.
const MAX_NOTES: usize = 1_000;
/// A node that has not asked for this long knows nothing any more, because notes may have been deleted.
const MAX_SILENCE: Duration = Duration::from_secs(30);
/// Notes are deleted when they have been visible for this long, so that every node has seen them or is silent.
const NOTES_KEPT: Duration = Duration::from_secs(90);
/// How often that is done.
const DELETION_INTERVAL: Duration = Duration::from_secs(30);

/// How long a connection is kept for questions. Then the pool decides whether it is still good.
const CONNECTION_KEPT: Duration = Duration::from_mins(1);
/// With fewer connections none is kept.
const ENOUGH_CONNECTIONS: u32 = 6;
/// How often it is waited for more requests that are ready to run, as long as more come.
const MAX_GATHERINGS: usize = 4;

/// The subject of skills of the library and of groups. No trigger notes it: whoever changes them does.
const SKILLS: &str = "skills";
const NOTE: &str = "INSERT INTO changes (subject) VALUES ($1)";

/// Where nothing was committed in between, this is all that is asked.
const POSITION: &str = "SELECT pg_current_snapshot()::text AS snapshot, pg_postmaster_start_time()::text AS server_start";

/// The limit makes it a walk along the index, whatever the server believes of the table's size.
const NOTES: &str = "SELECT pg_current_snapshot()::text AS snapshot, pg_postmaster_start_time()::text AS server_start,
     ARRAY(SELECT subject FROM changes
         WHERE writer >= pg_snapshot_xmin($1::text::pg_snapshot)
             AND NOT pg_visible_in_snapshot(writer, $1::text::pg_snapshot)
         ORDER BY writer LIMIT 1001) AS subjects";

/// How often what was seen to be changed.
#[derive(Debug)]
pub(super) struct SeenChanges {
    everything: AtomicU64,
    tenants: Box<[AtomicU64]>,
    tokens: AtomicU64,
    documents: AtomicU64,
    skills: AtomicU64,
}

impl Default for SeenChanges {
    fn default() -> Self {
        Self {
            everything: AtomicU64::new(0),
            tenants: (0..COUNTERS).map(|_| AtomicU64::new(0)).collect(),
            tokens: AtomicU64::new(0),
            documents: AtomicU64::new(0),
            skills: AtomicU64::new(0),
        }
    }
}

impl SeenChanges {
    pub(super) fn of_tenant(&self, id: &str) -> ChangeCount {
        let count = self.with_everything(self.tenant_counter(id));
        ChangeCount {
            begun: count,
            ended: count,
        }
    }

    pub(super) fn of_tokens(&self) -> u64 {
        self.with_everything(&self.tokens)
    }

    pub(super) fn of_documents(&self) -> u64 {
        self.with_everything(&self.documents)
    }

    pub(super) fn of_skills(&self) -> u64 {
        self.with_everything(&self.skills)
    }

    fn with_everything(&self, counter: &AtomicU64) -> u64 {
        self.everything.load(Ordering::SeqCst) + counter.load(Ordering::SeqCst)
    }

    fn tenant_counter(&self, id: &str) -> &AtomicU64 {
        &self.tenants[stripe_index(id, COUNTERS)]
    }

    fn note(&self, subject: &str) {
        let counter = match subject.split_once(':') {
            Some(("tenant", id)) => self.tenant_counter(id),
            None if subject == "tokens" => &self.tokens,
            None if subject == "documents" => &self.documents,
            None if subject == SKILLS => &self.skills,
            // Of a newer version.
            _ => &self.everything,
        };
        counter.fetch_add(1, Ordering::SeqCst);
    }

    fn note_everything(&self) {
        self.everything.fetch_add(1, Ordering::SeqCst);
    }
}

/// Notes in a transaction that it changes skills which tenants are given.
pub(super) async fn note_skills(write: &mut GroupedWrite) -> Result<(), StateError> {
    write.execute(sqlx::query(NOTE).bind(SKILLS)).await?;
    Ok(())
}

/// Asks what was changed, for all who want to know.
pub(super) struct ChangeWatch {
    shared: Arc<ChangePoll>,
    is_started: OnceLock<()>,
    tasks: TaskTracker,
    closing: CancellationToken,
}

struct ChangePoll {
    sessions: OwnSessions,
    /// Whether a connection may be kept from one question to the next. A pool asks the server whether a connection works
    /// each time it is given back, which would be as much as the question.
    keeps_connection: bool,
    seen: SeenChanges,
    /// Those who have come since the last question began; `None` when nobody asks any more.
    waiting: Mutex<Option<Vec<oneshot::Sender<QuestionResult>>>>,
    is_wanted: Notify,
}

/// Those who share a question share its failure.
type QuestionResult = Result<(), QuestionFailure>;

#[derive(Debug, Clone)]
enum QuestionFailure {
    Unavailable(String),
    Broken(String),
}

impl fmt::Debug for ChangeWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChangeWatch").finish_non_exhaustive()
    }
}

impl ChangeWatch {
    pub(super) fn new(sessions: OwnSessions, connections: u32) -> Self {
        Self {
            shared: Arc::new(ChangePoll {
                // Behind a pooler, a connection is lent for a transaction.
                keeps_connection: !sessions.server.is_pooled && connections >= ENOUGH_CONNECTIONS,
                sessions,
                seen: SeenChanges::default(),
                waiting: Mutex::new(Some(Vec::new())),
                is_wanted: Notify::new(),
            }),
            is_started: OnceLock::new(),
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
        }
    }

    pub(super) fn seen(&self) -> &SeenChanges {
        &self.shared.seen
    }

    /// Sees all changes that were committed before this call.
    pub(super) async fn catch_up(&self) -> Result<(), StateError> {
        self.is_started.get_or_init(|| self.start());
        let (answer, answered) = oneshot::channel();
        match &mut *self.shared.waiting.lock() {
            Some(waiting) => waiting.push(answer),
            None => drop(answer),
        }
        self.shared.is_wanted.notify_one();
        match answered.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(QuestionFailure::Unavailable(cause))) => Err(StateError::Unavailable(cause)),
            Ok(Err(QuestionFailure::Broken(cause))) => Err(StateError::Broken(cause)),
            Err(_) => Err(StateError::Unavailable("the database was closed".into())),
        }
    }

    fn start(&self) {
        let (shared, closing, tasks) = (
            Arc::clone(&self.shared),
            self.closing.clone(),
            self.tasks.clone(),
        );
        self.tasks.spawn(async move {
            closing
                .run_until_cancelled(ask_for_all(&shared, &tasks, &closing))
                .await;
        });
    }

    pub(super) async fn close(&self) {
        self.closing.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        *self.shared.waiting.lock() = None;
    }
}

async fn ask_for_all(shared: &Arc<ChangePoll>, tasks: &TaskTracker, closing: &CancellationToken) {
    let mut last: Option<DatabaseSnapshot> = None;
    let mut connection = IdleConnection::default();
    let mut moments = OldSnapshots::default();
    loop {
        shared.is_wanted.notified().await;
        shared.gather_requests().await;
        let waiting = shared.waiting.lock().as_mut().map(std::mem::take);
        let Some(waiting) = waiting.filter(|waiting| !waiting.is_empty()) else {
            continue;
        };
        let answer = ask(shared, &mut connection, &mut last).await;
        for waiting in waiting {
            // One that does not wait any more does not need it.
            let _ = waiting.send(answer.clone());
        }
        if let Some(moment) = last.as_ref().and_then(|last| moments.next(last)) {
            let (shared, closing) = (Arc::clone(shared), closing.clone());
            // Nobody waits for it.
            tasks.spawn(async move {
                let deleted = delete_notes(&shared.sessions, &moment);
                if let Some(Err(error)) = closing.run_until_cancelled(deleted).await {
                    tracing::debug!(%error, "failed to delete notes of changes");
                }
            });
        }
    }
}

/// What was visible when.
#[derive(Debug, Clone)]
struct DatabaseSnapshot {
    asked_at: Instant,
    /// A snapshot of the server.
    snapshot: String,
    server_start: String,
    /// Whether anything was committed since the moment before. Then it is likely next time, and notes are asked for at once.
    is_new: bool,
}

impl ChangePoll {
    /// Requests that are ready to run come first, and share the next question.
    async fn gather_requests(&self) {
        let mut known = 0;
        for _ in 0..MAX_GATHERINGS {
            tokio::task::yield_now().await;
            let count = self.waiting.lock().as_ref().map_or(0, Vec::len);
            if count == known {
                return;
            }
            known = count;
        }
    }
}

/// The connection of the last question, and when it was taken from the pool.
#[derive(Default)]
struct IdleConnection(Option<(Session, Instant)>);

impl IdleConnection {
    fn take(&mut self) -> Option<(Session, Instant)> {
        let is_good = |(session, since): &(Session, Instant)| {
            session.is_usable() && since.elapsed() < CONNECTION_KEPT
        };
        self.0.take().filter(is_good)
    }
}

async fn ask(
    shared: &ChangePoll,
    connection: &mut IdleConnection,
    last: &mut Option<DatabaseSnapshot>,
) -> QuestionResult {
    let asked = read_changes(shared, connection, last.as_ref()).await;
    let (moment, changes) = asked.map_err(|error| match error {
        StateError::Broken(cause) => QuestionFailure::Broken(cause),
        error => QuestionFailure::Unavailable(error.to_string()),
    })?;
    match changes {
        NotedChanges::Subjects(subjects) => {
            for subject in &subjects {
                shared.seen.note(subject);
            }
        }
        NotedChanges::Unknown => shared.seen.note_everything(),
    }
    *last = Some(moment);
    Ok(())
}

/// What has been changed since a moment.
enum NotedChanges {
    Subjects(Vec<String>),
    /// Anything.
    Unknown,
}

async fn read_changes(
    shared: &ChangePoll,
    connection: &mut IdleConnection,
    last: Option<&DatabaseSnapshot>,
) -> Result<(DatabaseSnapshot, NotedChanges), StateError> {
    let asked_at = Instant::now();
    if let Some((mut session, since)) = connection.take() {
        let read = read_from(&mut session, asked_at, last).await;
        if session.is_usable() {
            connection.0 = Some((session, since));
            return read;
        }
    }
    let mut session = shared.sessions.read().await?;
    let read = read_from(&mut session, asked_at, last).await;
    if shared.keeps_connection && session.is_usable() {
        connection.0 = Some((session, Instant::now()));
    }
    read
}

async fn read_from(
    session: &mut Session,
    asked_at: Instant,
    last: Option<&DatabaseSnapshot>,
) -> Result<(DatabaseSnapshot, NotedChanges), StateError> {
    let last = last.filter(|last| last.asked_at.elapsed() < MAX_SILENCE);
    let last = if let Some(last) = last.filter(|last| last.is_new) {
        last
    } else {
        let now = moment_of(&session.one(sqlx::query(POSITION)).await?, asked_at)?;
        let Some(last) = last.filter(|last| last.server_start == now.server_start) else {
            return Ok((now, NotedChanges::Unknown));
        };
        if last.snapshot == now.snapshot {
            return Ok((now, NotedChanges::Subjects(Vec::new())));
        }
        last
    };
    let row = session.one(sqlx::query(NOTES).bind(&last.snapshot)).await?;
    let mut now = moment_of(&row, asked_at)?;
    now.is_new = last.snapshot != now.snapshot;
    let subjects: Vec<String> = row.try_get("subjects")?;
    if subjects.len() > MAX_NOTES || last.server_start != now.server_start {
        return Ok((now, NotedChanges::Unknown));
    }
    Ok((now, NotedChanges::Subjects(subjects)))
}

fn moment_of(row: &PgRow, asked_at: Instant) -> Result<DatabaseSnapshot, StateError> {
    Ok(DatabaseSnapshot {
        asked_at,
        snapshot: row.try_get("snapshot")?,
        server_start: row.try_get("server_start")?,
        is_new: false,
    })
}

/// Snapshots that are kept until what was visible in them may be deleted.
#[derive(Debug, Default)]
struct OldSnapshots(VecDeque<DatabaseSnapshot>);

impl OldSnapshots {
    /// Takes note of a moment; returns one that is old enough.
    fn next(&mut self, now: &DatabaseSnapshot) -> Option<DatabaseSnapshot> {
        let since =
            |moment: &DatabaseSnapshot| now.asked_at.saturating_duration_since(moment.asked_at);
        self.0
            .retain(|moment| moment.server_start == now.server_start);
        if self
            .0
            .back()
            .is_none_or(|newest| since(newest) >= DELETION_INTERVAL)
        {
            self.0.push_back(now.clone());
        }
        let is_old = |moment: &DatabaseSnapshot| since(moment) >= NOTES_KEPT;
        if self.0.front().is_some_and(is_old) {
            self.0.pop_front()
        } else {
            None
        }
    }
}

/// Deletes the notes of all that was over at that moment.
async fn delete_notes(sessions: &OwnSessions, moment: &DatabaseSnapshot) -> Result<(), StateError> {
    let mut session = sessions.write().await?;
    let delete =
        sqlx::query("DELETE FROM changes WHERE writer < pg_snapshot_xmin($1::text::pg_snapshot)");
    session.execute(delete.bind(&moment.snapshot)).await?;
    session.commit().await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(asked_at: Instant, server_start: &str) -> DatabaseSnapshot {
        DatabaseSnapshot {
            asked_at,
            snapshot: "5:5:".into(),
            server_start: server_start.into(),
            is_new: false,
        }
    }

    #[test]
    fn a_note_counts_for_its_subject_and_an_unknown_one_for_everything() {
        let seen = SeenChanges::default();
        let counts = || {
            (
                seen.of_tenant("acme"),
                seen.of_tokens(),
                seen.of_documents(),
            )
        };
        let (tenant, tokens, documents) = counts();
        seen.note("tenant:acme");
        assert!(!counts().0.vouches_for(tenant));
        assert_eq!((counts().1, counts().2), (tokens, documents));
        seen.note("tokens");
        assert_ne!(counts().1, tokens);
        seen.note("documents");
        assert_ne!(counts().2, documents);
        let skills = seen.of_skills();
        let others = counts();
        seen.note("skills");
        assert_ne!(seen.of_skills(), skills);
        assert_eq!((counts().1, counts().2), (others.1, others.2));
        let before = counts();
        for unknown in ["webhook:1", "all"] {
            seen.note(unknown);
        }
        let after = counts();
        assert!(!after.0.vouches_for(before.0));
        assert_ne!((after.1, after.2), (before.1, before.2));
    }

    #[test]
    fn notes_are_deleted_long_after_every_node_has_seen_them() {
        assert!(NOTES_KEPT > MAX_SILENCE + DELETION_INTERVAL);
        let start = Instant::now();
        let at = |seconds| moment(start + Duration::from_secs(seconds), "one");
        let mut moments = OldSnapshots::default();
        let kept = NOTES_KEPT.as_secs();
        for second in 0..kept {
            assert!(moments.next(&at(second)).is_none(), "{second}");
        }
        let deleted = moments.next(&at(kept)).unwrap();
        assert_eq!(deleted.asked_at, start);
        assert!(moments.next(&at(kept + 1)).is_none());
        // Numbers of another server mean other transactions.
        let other = moment(start + NOTES_KEPT * 2, "two");
        assert!(moments.next(&other).is_none());
    }
}
