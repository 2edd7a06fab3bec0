//! Writes that wait at the same time are committed together: each commit waits for the disk, and one wait is enough for
//! all of them.
//!
//! Writers hold a fair permit. One that is done lets waiting writers in and queues behind them; the first whose turn
//! comes again commits for all. So a lone writer commits at once. A write that fails is rolled back alone, by a
//! savepoint. No writer returns success before the commit.

use std::{
    any::Any,
    fmt,
    ops::{Deref, DerefMut},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU32, Ordering},
    },
};

use hermes_config::sync::{Mutex, MutexGuard};
use scopeguard::ScopeGuard;
use sqlx::{Sqlite, SqliteConnection, Transaction};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Database;
use crate::StoreError;

/// The savepoint of each write after the first of a batch; the innermost of that name is meant.
const SAVEPOINT: &str = "SAVEPOINT member";
const ROLL_BACK: &str = "ROLLBACK TO member";

/// Writes that share a transaction.
pub(super) struct WriteGroup {
    /// Held by the writer that uses the shared transaction. Fair.
    write_permit: Arc<Semaphore>,
    shared: Mutex<Option<SharedTransaction>>,
    /// What the last batch left to the next.
    note: Mutex<Option<Note>>,
}

/// What a writer leaves to the next one.
type Note = Box<dyn Any + Send>;

impl WriteGroup {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            write_permit: Arc::new(Semaphore::new(1)),
            shared: Mutex::default(),
            note: Mutex::default(),
        })
    }

    fn note(&self) -> MutexGuard<'_, Option<Note>> {
        self.note.lock()
    }

    fn lock_shared(&self) -> MutexGuard<'_, Option<SharedTransaction>> {
        self.shared.lock()
    }

    /// Drops a transaction that nobody will commit.
    pub(super) fn abandon(&self) {
        drop(self.lock_shared().take());
    }

    async fn acquire_permit(&self) -> Result<OwnedSemaphorePermit, sqlx::Error> {
        let turn = Arc::clone(&self.write_permit).acquire_owned().await;
        turn.map_err(|_| sqlx::Error::PoolClosed)
    }
}

impl fmt::Debug for WriteGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteGroup").finish_non_exhaustive()
    }
}

/// A transaction that several writes share. Dropped before the commit, all of them are rolled back.
struct SharedTransaction {
    group: Arc<WriteGroup>,
    transaction: Transaction<'static, Sqlite>,
    batch: Arc<CommitBatch>,
    /// Writes that are complete and wait for the commit.
    members: u32,
    /// A write failed. SQLite may have ended the whole transaction with it, as on a full disk; so nothing is added any
    /// more, and the commit tells.
    has_failed_write: bool,
    /// What writers leave to the next; forgotten when one is rolled back.
    note: Option<Note>,
}

impl SharedTransaction {
    /// Commits, and wakes the waiting writers.
    async fn commit(mut self, database: &Database) {
        let (group, batch) = (Arc::clone(&self.group), Arc::clone(&self.batch));
        let note = self.note.take();
        let writes = self.members;
        let committed = async move {
            if self.has_failed_write {
                sqlx::query(ROLL_BACK)
                    .execute(&mut *self.transaction)
                    .await?;
            }
            self.transaction.commit().await
        };
        batch.set_outcome(match committed.await {
            Ok(()) => {
                *group.note() = note;
                database
                    .deferred_checkpoints
                    .fetch_add(1, Ordering::Relaxed);
                CommitOutcome::Committed { writes }
            }
            Err(error) => match database.error(error) {
                StoreError::DiskFull { .. } => CommitOutcome::DiskFull,
                error if error.may_pass() => CommitOutcome::Unwritable(error.to_string()),
                error => CommitOutcome::Failed(error.to_string()),
            },
        });
    }
}

/// The outcome of writes that share a transaction.
#[derive(Default)]
struct CommitBatch {
    outcome: OnceLock<CommitOutcome>,
    /// Writers that wait for the commit; one of them makes it.
    waiting: AtomicU32,
}

/// A writer that waits for the commit. When the last one is dropped before it came, nobody is left to make it, and the
/// transaction must not stay open.
struct CommitWaiter {
    group: Arc<WriteGroup>,
    batch: Arc<CommitBatch>,
}

impl CommitWaiter {
    fn new(group: &Arc<WriteGroup>, batch: &Arc<CommitBatch>) -> Self {
        batch.waiting.fetch_add(1, Ordering::AcqRel);
        Self {
            group: Arc::clone(group),
            batch: Arc::clone(batch),
        }
    }
}

impl Drop for CommitWaiter {
    fn drop(&mut self) {
        let mut open = self.group.lock_shared();
        let was_last = self.batch.waiting.fetch_sub(1, Ordering::AcqRel) == 1;
        let is_ours = |open: &SharedTransaction| Arc::ptr_eq(&open.batch, &self.batch);
        if was_last && open.as_ref().is_some_and(is_ours) {
            let abandoned = open.take();
            drop(open);
            drop(abandoned);
        }
    }
}

#[derive(Clone)]
enum CommitOutcome {
    Committed {
        writes: u32,
    },
    DiskFull,
    /// For now.
    Unwritable(String),
    Failed(String),
}

impl CommitBatch {
    fn set_outcome(&self, outcome: CommitOutcome) {
        // Set once; the first outcome counts.
        let _ = self.outcome.set(outcome);
    }
}

/// Rolls back a write that was dropped without a commit; those before it stay.
fn roll_back_member(mut open: SharedTransaction) {
    let group = Arc::clone(&open.group);
    let mut slot = group.lock_shared();
    // Without members, or with nobody who waits for them, the transaction takes itself back.
    if open.members > 0 && open.batch.waiting.load(Ordering::Acquire) > 0 {
        open.has_failed_write = true;
        open.note = None;
        *slot = Some(open);
    }
}

/// A write that may share its commit with others. Dropped without a commit, it is rolled back.
pub struct GroupWrite<'a> {
    shared: ScopeGuard<SharedTransaction, fn(SharedTransaction)>,
    /// Released after the shared transaction was put back.
    permit: OwnedSemaphorePermit,
    database: &'a Database,
}

impl Database {
    /// Begins a write that may share its commit with others that wait at the same time.
    pub async fn begin_in_group(&self) -> Result<GroupWrite<'_>, StoreError> {
        let attempt = async {
            let turn = self
                .group
                .acquire_permit()
                .await
                .map_err(|error| self.error(error))?;
            let open = self.join_transaction().await?;
            Ok::<_, StoreError>(GroupWrite {
                shared: scopeguard::guard(open, roll_back_member as fn(SharedTransaction)),
                permit: turn,
                database: self,
            })
        };
        match tokio::time::timeout(self.write_timeout, attempt).await {
            Ok(begun) => begun,
            Err(_) => Err(StoreError::Locked {
                path: self.path.clone(),
            }),
        }
    }

    /// The shared transaction, or a new one. The caller holds the permit.
    async fn join_transaction(&self) -> Result<SharedTransaction, StoreError> {
        let before = self.group.lock_shared().take();
        if let Some(open) = before {
            if open.has_failed_write {
                open.commit(self).await;
            } else {
                let mut open = scopeguard::guard(open, roll_back_member as fn(SharedTransaction));
                sqlx::query(SAVEPOINT)
                    .execute(&mut *open.transaction)
                    .await
                    .map_err(|error| self.error(error))?;
                return Ok(ScopeGuard::into_inner(open));
            }
        }
        let transaction = self.begin().await?.transaction;
        Ok(SharedTransaction {
            group: Arc::clone(&self.group),
            transaction,
            batch: Arc::default(),
            members: 0,
            has_failed_write: false,
            note: self.group.note().take(),
        })
    }
}

impl GroupWrite<'_> {
    /// Commits together with all waiting writes.
    pub async fn commit(self) -> Result<(), StoreError> {
        self.commit_together().await.map(drop)
    }

    /// The same. Returns how many writes shared the commit.
    pub async fn commit_together(self) -> Result<u32, StoreError> {
        let Self {
            shared: open,
            permit: turn,
            database,
        } = self;
        let mut open = ScopeGuard::into_inner(open);
        open.members += 1;
        let (group, batch) = (Arc::clone(&open.group), Arc::clone(&open.batch));
        let waiter = CommitWaiter::new(&group, &batch);
        *group.lock_shared() = Some(open);
        drop(turn);
        let turn = group.acquire_permit().await;
        if batch.outcome.get().is_none() {
            let open = group.lock_shared().take();
            if let Some(open) = open {
                open.commit(database).await;
            }
        }
        drop(turn);
        drop(waiter);
        match batch.outcome.get() {
            Some(CommitOutcome::Committed { writes }) => Ok(*writes),
            Some(CommitOutcome::DiskFull) => Err(StoreError::DiskFull {
                path: database.path.clone(),
            }),
            Some(CommitOutcome::Unwritable(reason)) => Err(StoreError::Io {
                path: database.path.clone(),
                source: std::io::Error::other(reason.clone()),
            }),
            Some(CommitOutcome::Failed(reason)) => Err(commit_lost(database, reason.clone())),
            None => Err(commit_lost(
                database,
                "the transaction was abandoned".to_owned(),
            )),
        }
    }

    /// What the writer before left to the next one, in this transaction or after its commit. It is forgotten whenever a
    /// write is rolled back or a commit fails, so what was left describes what is stored.
    pub fn note(&mut self) -> &mut Option<Box<dyn Any + Send>> {
        &mut self.shared.note
    }
}

fn commit_lost(database: &Database, reason: String) -> StoreError {
    database.error(sqlx::Error::Protocol(reason))
}

impl Deref for GroupWrite<'_> {
    type Target = SqliteConnection;

    fn deref(&self) -> &SqliteConnection {
        &self.shared.transaction
    }
}

impl DerefMut for GroupWrite<'_> {
    fn deref_mut(&mut self) -> &mut SqliteConnection {
        &mut self.shared.transaction
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::future::join_all;

    use super::*;
    use crate::db::{DatabaseOptions, Durability};

    async fn open(directory: &std::path::Path) -> Database {
        let opening = DatabaseOptions {
            steps: &["CREATE TABLE t (n INTEGER PRIMARY KEY) STRICT"],
            durability: Durability::Power,
            write_timeout: Duration::from_secs(20),
        };
        Database::open(&directory.join("a.db"), opening)
            .await
            .unwrap()
    }

    async fn add(database: &Database, number: i64) -> Result<(), StoreError> {
        let mut write = database.begin_in_group().await?;
        sqlx::query("INSERT INTO t VALUES (?1)")
            .bind(number)
            .execute(&mut *write)
            .await
            .map_err(|error| database.error(error))?;
        write.commit().await
    }

    async fn numbers(database: &Database) -> Vec<i64> {
        sqlx::query_scalar("SELECT n FROM t ORDER BY n")
            .fetch_all(database.readers())
            .await
            .unwrap()
    }

    #[tokio::test]
    async fn writes_that_wait_together_are_all_there_and_share_commits() {
        let directory = tempfile::tempdir().unwrap();
        let database = open(directory.path()).await;
        let before = database.deferred_checkpoints.load(Ordering::Relaxed);
        let added = join_all((0..100).map(|number| add(&database, number))).await;
        assert!(added.iter().all(Result::is_ok), "{added:?}");
        assert_eq!(numbers(&database).await, (0..100).collect::<Vec<_>>());
        let commits = database.deferred_checkpoints.load(Ordering::Relaxed) - before;
        assert!(commits < 10, "{commits} commits for 100 writes");
        database.close().await;
    }

    #[tokio::test]
    async fn a_write_that_fails_takes_no_other_with_it() {
        let directory = tempfile::tempdir().unwrap();
        let database = open(directory.path()).await;
        // Every third number is there already by then.
        let wanted: Vec<i64> = (0..60).map(|n| if n % 3 == 0 { 0 } else { n }).collect();
        let added = join_all(wanted.iter().map(|number| add(&database, *number))).await;
        let taken: Vec<i64> = wanted
            .iter()
            .zip(&added)
            .filter(|(_, added)| added.is_ok())
            .map(|(number, _)| *number)
            .collect();
        assert_eq!(taken.len(), 41, "{taken:?}");
        let mut expected = taken.clone();
        expected.sort_unstable();
        assert_eq!(numbers(&database).await, expected);
        database.close().await;
    }

    #[tokio::test]
    async fn a_write_whose_writer_stops_waiting_for_the_commit_does_not_lock_the_database() {
        let directory = tempfile::tempdir().unwrap();
        let database = open(directory.path()).await;
        let mut first = database.begin_in_group().await.unwrap();
        sqlx::query("INSERT INTO t VALUES (1)")
            .execute(&mut *first)
            .await
            .unwrap();
        // Somebody else comes for the next turn, so that the first has to wait for its commit.
        let mut second = Box::pin(database.begin_in_group());
        assert!(futures::poll!(&mut second).is_pending());
        let mut commit = Box::pin(first.commit());
        assert!(futures::poll!(&mut commit).is_pending());
        drop(commit);
        drop(second);
        let mut alone = database.begin().await.unwrap();
        sqlx::query("INSERT INTO t VALUES (2)")
            .execute(&mut *alone)
            .await
            .unwrap();
        alone.commit().await.unwrap();
        assert_eq!(numbers(&database).await, [2]);
        database.close().await;
    }

    #[tokio::test]
    async fn a_write_that_is_left_never_happened() {
        let directory = tempfile::tempdir().unwrap();
        let database = open(directory.path()).await;
        let mut left = database.begin_in_group().await.unwrap();
        sqlx::query("INSERT INTO t VALUES (1)")
            .execute(&mut *left)
            .await
            .unwrap();
        drop(left);
        add(&database, 2).await.unwrap();
        assert_eq!(numbers(&database).await, [2]);
        database.close().await;
    }
}
