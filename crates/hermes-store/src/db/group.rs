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
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
};

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
    turn: Arc<Semaphore>,
    open: Mutex<Option<Open>>,
    /// What the last batch left to the next.
    note: Mutex<Option<Note>>,
}

/// What a writer leaves to the next one.
type Note = Box<dyn Any + Send>;

impl WriteGroup {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            turn: Arc::new(Semaphore::new(1)),
            open: Mutex::default(),
            note: Mutex::default(),
        })
    }

    fn note(&self) -> MutexGuard<'_, Option<Note>> {
        self.note.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self) -> MutexGuard<'_, Option<Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops a transaction that nobody will commit.
    pub(super) fn abandon(&self) {
        drop(self.open().take());
    }

    async fn take_turn(&self) -> Result<OwnedSemaphorePermit, sqlx::Error> {
        let turn = Arc::clone(&self.turn).acquire_owned().await;
        turn.map_err(|_| sqlx::Error::PoolClosed)
    }
}

impl fmt::Debug for WriteGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteGroup").finish_non_exhaustive()
    }
}

/// A transaction that several writes share. Dropped before the commit, all of them are rolled back.
struct Open {
    group: Arc<WriteGroup>,
    transaction: Transaction<'static, Sqlite>,
    batch: Arc<Batch>,
    /// Writes that are complete and wait for the commit.
    members: u32,
    /// A write failed. SQLite may have ended the whole transaction with it, as on a full disk; so nothing is added any
    /// more, and the commit tells.
    is_doubtful: bool,
    /// What writers leave to the next; forgotten when one is rolled back.
    note: Option<Note>,
}

impl Open {
    /// Commits, and wakes the waiting writers.
    async fn commit(mut self, database: &Database) {
        let (group, batch) = (Arc::clone(&self.group), Arc::clone(&self.batch));
        let note = self.note.take();
        let committed = async move {
            if self.is_doubtful {
                sqlx::query(ROLL_BACK)
                    .execute(&mut *self.transaction)
                    .await?;
            }
            self.transaction.commit().await
        };
        batch.tell(match committed.await {
            Ok(()) => {
                *group.note() = note;
                database.put_off.fetch_add(1, Ordering::Relaxed);
                Outcome::Committed
            }
            Err(error) => match database.error(error) {
                StoreError::DiskFull { .. } => Outcome::DiskFull,
                error => Outcome::Failed(error.to_string()),
            },
        });
    }
}

/// The outcome of writes that share a transaction.
#[derive(Default)]
struct Batch {
    outcome: OnceLock<Outcome>,
    /// Writers that wait for the commit; one of them makes it.
    waiting: AtomicU32,
}

/// A writer that waits for the commit. When the last one is dropped before it came, nobody is left to make it, and the
/// transaction must not stay open.
struct CommitWaiter {
    group: Arc<WriteGroup>,
    batch: Arc<Batch>,
}

impl CommitWaiter {
    fn new(group: &Arc<WriteGroup>, batch: &Arc<Batch>) -> Self {
        batch.waiting.fetch_add(1, Ordering::AcqRel);
        Self {
            group: Arc::clone(group),
            batch: Arc::clone(batch),
        }
    }
}

impl Drop for CommitWaiter {
    fn drop(&mut self) {
        let mut open = self.group.open();
        let was_last = self.batch.waiting.fetch_sub(1, Ordering::AcqRel) == 1;
        let is_ours = |open: &Open| Arc::ptr_eq(&open.batch, &self.batch);
        if was_last && open.as_ref().is_some_and(is_ours) {
            let abandoned = open.take();
            drop(open);
            drop(abandoned);
        }
    }
}

#[derive(Clone)]
enum Outcome {
    Committed,
    DiskFull,
    Failed(String),
}

impl Batch {
    fn tell(&self, outcome: Outcome) {
        // Set once; the first outcome counts.
        let _ = self.outcome.set(outcome);
    }
}

/// Rolls back a write that was dropped without a commit; those before it stay.
fn leave(mut open: Open) {
    let group = Arc::clone(&open.group);
    let mut slot = group.open();
    // Without members, or with nobody who waits for them, the transaction takes itself back.
    if open.members > 0 && open.batch.waiting.load(Ordering::Acquire) > 0 {
        open.is_doubtful = true;
        open.note = None;
        *slot = Some(open);
    }
}

/// A write that may share its commit with others. Dropped without a commit, it is rolled back.
pub struct GroupWrite<'a> {
    open: ScopeGuard<Open, fn(Open)>,
    /// Released after the shared transaction was put back.
    turn: OwnedSemaphorePermit,
    database: &'a Database,
}

impl Database {
    /// Begins a write that may share its commit with others that wait at the same time.
    pub async fn begin_in_group(&self) -> Result<GroupWrite<'_>, StoreError> {
        let attempt = async {
            let turn = self
                .group
                .take_turn()
                .await
                .map_err(|error| self.error(error))?;
            let open = self.join().await?;
            Ok::<_, StoreError>(GroupWrite {
                open: scopeguard::guard(open, leave as fn(Open)),
                turn,
                database: self,
            })
        };
        match tokio::time::timeout(self.patience, attempt).await {
            Ok(begun) => begun,
            Err(_) => Err(StoreError::Locked {
                path: self.path.clone(),
            }),
        }
    }

    /// The shared transaction, or a new one. The caller holds the permit.
    async fn join(&self) -> Result<Open, StoreError> {
        let before = self.group.open().take();
        if let Some(open) = before {
            if open.is_doubtful {
                open.commit(self).await;
            } else {
                let mut open = scopeguard::guard(open, leave as fn(Open));
                sqlx::query(SAVEPOINT)
                    .execute(&mut *open.transaction)
                    .await
                    .map_err(|error| self.error(error))?;
                return Ok(ScopeGuard::into_inner(open));
            }
        }
        let transaction = self.begin().await?.transaction;
        Ok(Open {
            group: Arc::clone(&self.group),
            transaction,
            batch: Arc::default(),
            members: 0,
            is_doubtful: false,
            note: self.group.note().take(),
        })
    }
}

impl GroupWrite<'_> {
    /// Commits together with all waiting writes.
    pub async fn commit(self) -> Result<(), StoreError> {
        let Self {
            open,
            turn,
            database,
        } = self;
        let mut open = ScopeGuard::into_inner(open);
        open.members += 1;
        let (group, batch) = (Arc::clone(&open.group), Arc::clone(&open.batch));
        let waiter = CommitWaiter::new(&group, &batch);
        *group.open() = Some(open);
        drop(turn);
        let turn = group.take_turn().await;
        if batch.outcome.get().is_none() {
            let open = group.open().take();
            if let Some(open) = open {
                open.commit(database).await;
            }
        }
        drop(turn);
        drop(waiter);
        match batch.outcome.get() {
            Some(Outcome::Committed) => Ok(()),
            Some(Outcome::DiskFull) => Err(StoreError::DiskFull {
                path: database.path.clone(),
            }),
            Some(Outcome::Failed(reason)) => Err(lost(database, reason.clone())),
            None => Err(lost(database, "the transaction was abandoned".to_owned())),
        }
    }

    /// What the writer before left to the next one, in this transaction or after its commit. It is forgotten whenever a
    /// write is rolled back or a commit fails, so what was left describes what is stored.
    pub fn note(&mut self) -> &mut Option<Box<dyn Any + Send>> {
        &mut self.open.note
    }
}

fn lost(database: &Database, reason: String) -> StoreError {
    database.error(sqlx::Error::Protocol(reason))
}

impl Deref for GroupWrite<'_> {
    type Target = SqliteConnection;

    fn deref(&self) -> &SqliteConnection {
        &self.open.transaction
    }
}

impl DerefMut for GroupWrite<'_> {
    fn deref_mut(&mut self) -> &mut SqliteConnection {
        &mut self.open.transaction
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::future::join_all;

    use super::*;
    use crate::db::{Durability, Opening};

    async fn open(directory: &std::path::Path) -> Database {
        let opening = Opening {
            steps: &["CREATE TABLE t (n INTEGER PRIMARY KEY) STRICT"],
            durability: Durability::Power,
            patience: Duration::from_secs(20),
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
        let before = database.put_off.load(Ordering::Relaxed);
        let added = join_all((0..100).map(|number| add(&database, number))).await;
        assert!(added.iter().all(Result::is_ok), "{added:?}");
        assert_eq!(numbers(&database).await, (0..100).collect::<Vec<_>>());
        let commits = database.put_off.load(Ordering::Relaxed) - before;
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
