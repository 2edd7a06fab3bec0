//! Writes that wait at the same time are committed together: each commit waits for the server's disk, and one wait is
//! enough for all of them.
//!
//! Writers hold a fair permit. One that is done lets waiting writers in and queues behind them; the first whose turn
//! comes again commits for all. So a lone writer commits at once. A write that fails is rolled back alone, by a
//! savepoint. No writer returns success before the commit.

use std::{
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU32, Ordering},
    },
};

use hermes_config::sync::{Mutex, MutexGuard};
use sqlx::postgres::PgRow;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{
    session::{Session, Sql},
    writer::{Writer, WriterTransaction},
};
use crate::storage::{
    audit::ChainPosition,
    state::{StateError, batch_queue::trace_commit},
};

/// Beyond 64 savepoints, every reader of the server has to look up which transaction they belong to.
const MAX_MEMBERS: u32 = 48;

/// Writes of this node that share transactions.
pub(super) struct WriteGroup {
    /// Held by the writer that uses the shared transaction. Fair.
    write_permit: Arc<Semaphore>,
    shared: Mutex<Option<SharedWrite>>,
    /// The end of this node's audit chain, as the last commit left it.
    chain_end: Mutex<Option<ChainPosition>>,
    writer: Arc<Writer>,
}

impl WriteGroup {
    pub(super) fn new(writer: Arc<Writer>) -> Arc<Self> {
        Arc::new(Self {
            writer,
            write_permit: Arc::new(Semaphore::new(1)),
            shared: Mutex::default(),
            chain_end: Mutex::default(),
        })
    }

    /// Rolls back what nobody will commit, and closes the connection.
    pub(super) async fn close(&self) {
        drop(self.lock_shared().take());
        self.writer.close().await;
    }

    /// Open and idle connections.
    pub(super) fn connections(&self) -> (u32, usize) {
        self.writer.counts()
    }

    fn lock_shared(&self) -> MutexGuard<'_, Option<SharedWrite>> {
        self.shared.lock()
    }

    async fn acquire_permit(&self) -> Result<OwnedSemaphorePermit, StateError> {
        let turn = Arc::clone(&self.write_permit).acquire_owned().await;
        turn.map_err(StateError::broken)
    }
}

impl fmt::Debug for WriteGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteGroup").finish_non_exhaustive()
    }
}

/// A transaction that several writes share. Dropped before the commit, all of them are rolled back.
struct SharedWrite {
    transaction: WriterTransaction,
    batch: Arc<CommitBatch>,
    /// Writes that are complete and wait for the commit.
    members: u32,
    savepoint: Savepoint,
    /// Where the next audit entry follows; forgotten when a write is rolled back.
    chain_end: Option<ChainPosition>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Savepoint {
    None,
    /// The last member's.
    Set,
    /// The last member failed: it has to be rolled back to its savepoint.
    Failed,
}

impl SharedWrite {
    /// Makes room for one more member, which can fail alone.
    async fn admit_member(&mut self) -> Result<(), StateError> {
        let sql = match self.savepoint {
            Savepoint::None => "SAVEPOINT member",
            Savepoint::Set => "RELEASE SAVEPOINT member; SAVEPOINT member",
            Savepoint::Failed => "ROLLBACK TO SAVEPOINT member",
        };
        self.transaction.run(sql).await?;
        self.savepoint = Savepoint::Set;
        Ok(())
    }

    /// Commits, and sets the outcome for all members.
    async fn commit(mut self, group: &WriteGroup) {
        let (batch, chain_end) = (Arc::clone(&self.batch), self.chain_end.take());
        let writes = self.members;
        // Until it is known, nobody builds on it.
        *group.chain_end.lock() = None;
        let committed = async move {
            // The server ends a failed transaction without an error when it is told to commit.
            if self.savepoint == Savepoint::Failed {
                self.transaction.run("ROLLBACK TO SAVEPOINT member").await?;
            }
            self.transaction.commit().await
        };
        let outcome = match committed.await {
            Ok(()) => {
                *group.chain_end.lock() = chain_end;
                CommitOutcome::Committed { writes }
            }
            Err(StateError::DiskFull(reason)) => CommitOutcome::DiskFull(reason),
            Err(error) => CommitOutcome::Failed(error.to_string()),
        };
        batch.set_outcome(outcome);
    }
}

/// The outcome of writes that share a transaction.
#[derive(Default)]
struct CommitBatch {
    outcome: OnceLock<CommitOutcome>,
    /// Writers that wait for the commit; one of them makes it.
    waiting: AtomicU32,
}

impl CommitBatch {
    fn set_outcome(&self, outcome: CommitOutcome) {
        // Set once; the first outcome counts.
        let _ = self.outcome.set(outcome);
    }
}

enum CommitOutcome {
    Committed { writes: u32 },
    DiskFull(String),
    Failed(String),
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
        let is_ours = |open: &SharedWrite| Arc::ptr_eq(&open.batch, &self.batch);
        if was_last && open.as_ref().is_some_and(is_ours) {
            let abandoned = open.take();
            drop(open);
            drop(abandoned);
        }
    }
}

/// A write that may share its commit with others. Dropped without a commit, it is rolled back.
pub(super) struct GroupedWrite {
    group: Arc<WriteGroup>,
    /// Absent once the write is over.
    shared: Option<SharedWrite>,
    /// Whether it may have changed something.
    is_admitted: bool,
    /// Released after the shared transaction was put back.
    permit: Option<OwnedSemaphorePermit>,
}

/// Begins a write that may share its commit with others that wait at the same time.
pub(super) async fn begin(group: &Arc<WriteGroup>) -> Result<GroupedWrite, StateError> {
    let mut write = GroupedWrite {
        group: Arc::clone(group),
        shared: None,
        is_admitted: false,
        permit: Some(group.acquire_permit().await?),
    };
    write.shared = group.lock_shared().take();
    if let Some(full) = write.shared.take_if(|open| open.members >= MAX_MEMBERS) {
        full.commit(group).await;
    }
    if let Some(open) = &mut write.shared {
        open.admit_member().await?;
    } else {
        let transaction = group.writer.begin().await?;
        let known_end = group.chain_end.lock().take();
        write.shared = Some(SharedWrite {
            chain_end: known_end.filter(|_| transaction.is_same_server),
            transaction,
            batch: Arc::default(),
            members: 0,
            savepoint: Savepoint::None,
        });
    }
    write.is_admitted = true;
    Ok(write)
}

impl GroupedWrite {
    /// Commits together with all waiting writes.
    pub(super) async fn commit(self) -> Result<(), StateError> {
        trace_commit("postgresql", self.commit_together()).await
    }

    /// The same. Returns how many writes shared the commit.
    async fn commit_together(mut self) -> Result<u32, StateError> {
        let Some(mut open) = self.shared.take() else {
            return Err(commit_lost("the write was over"));
        };
        open.members += 1;
        let (group, batch) = (Arc::clone(&self.group), Arc::clone(&open.batch));
        let waiter = CommitWaiter::new(&group, &batch);
        *group.lock_shared() = Some(open);
        drop(self);
        let turn = group.acquire_permit().await;
        if batch.outcome.get().is_none() {
            let open = group.lock_shared().take();
            if let Some(open) = open {
                open.commit(&group).await;
            }
        }
        drop(turn);
        drop(waiter);
        match batch.outcome.get() {
            Some(CommitOutcome::Committed { writes }) => Ok(*writes),
            Some(CommitOutcome::DiskFull(reason)) => Err(StateError::DiskFull(reason.clone())),
            Some(CommitOutcome::Failed(reason)) => Err(commit_lost(reason)),
            None => Err(commit_lost("the transaction was abandoned")),
        }
    }

    /// The end of this node's audit chain, if a writer before has left it.
    pub(super) fn take_chain_end(&mut self) -> Option<ChainPosition> {
        self.shared.as_mut()?.chain_end.take()
    }

    /// Leaves it to whoever writes next.
    pub(super) fn leave_chain_end(&mut self, end: ChainPosition) {
        if let Some(shared) = &mut self.shared {
            shared.chain_end = Some(end);
        }
    }

    /// Whether the connection is of no more use.
    pub(super) fn is_lost(&self) -> bool {
        let shared = self.shared.as_ref();
        shared.is_none_or(|shared| shared.transaction.is_lost())
    }

    pub(super) fn session(&mut self) -> Result<&mut Session, StateError> {
        match &mut self.shared {
            Some(shared) => shared.transaction.session(),
            None => Err(commit_lost("the write was over")),
        }
    }

    pub(super) async fn rows(&mut self, query: Sql<'_>) -> Result<Vec<PgRow>, StateError> {
        self.session()?.rows(query).await
    }

    pub(super) async fn optional(&mut self, query: Sql<'_>) -> Result<Option<PgRow>, StateError> {
        self.session()?.optional(query).await
    }

    pub(super) async fn one(&mut self, query: Sql<'_>) -> Result<PgRow, StateError> {
        self.session()?.one(query).await
    }

    /// Returns how many rows it affected.
    pub(super) async fn execute(&mut self, query: Sql<'_>) -> Result<u64, StateError> {
        self.session()?.execute(query).await
    }
}

impl Drop for GroupedWrite {
    /// Rolls back a write that was not committed; those before it stay.
    fn drop(&mut self) {
        if let Some(mut open) = self.shared.take() {
            let mut slot = self.group.lock_shared();
            // Without members, or with nobody who waits for them, the transaction takes itself back.
            if open.members > 0 && open.batch.waiting.load(Ordering::Acquire) > 0 {
                if self.is_admitted {
                    open.savepoint = Savepoint::Failed;
                    open.chain_end = None;
                } else if open.savepoint == Savepoint::Set {
                    // It may have been released, or not: the next one sets another.
                    open.savepoint = Savepoint::None;
                }
                *slot = Some(open);
            } else {
                drop(slot);
                open.transaction.abandon(self.permit.take());
            }
        }
        drop(self.permit.take());
    }
}

fn commit_lost(reason: impl Into<String>) -> StateError {
    StateError::Unavailable(reason.into())
}
