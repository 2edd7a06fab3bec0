//! The connection that the writes of this node share. It stays checked out of its pool from one transaction to the next:
//! a pool asks the server whether a connection works each time it is given back.

use std::sync::Arc;

use hermes_config::sync::Mutex;
use sqlx::{PgPool, SqlSafeStr};
use tokio::{runtime::Handle, sync::OwnedSemaphorePermit};
use tokio_util::task::TaskTracker;

use super::{
    server::ServerLink,
    session::{Session, database_error},
};
use crate::storage::state::StateError;

#[derive(Debug)]
pub(super) struct Writer {
    pool: PgPool,
    server: ServerLink,
    idle: Mutex<Option<Session>>,
    /// Transactions that were left are rolled back in the background.
    rollbacks: TaskTracker,
}

impl Writer {
    pub(super) fn new(pool: PgPool, server: ServerLink) -> Arc<Self> {
        Arc::new(Self {
            pool,
            server,
            idle: Mutex::default(),
            rollbacks: TaskTracker::new(),
        })
    }

    pub(super) async fn begin(self: &Arc<Self>) -> Result<WriterTransaction, StateError> {
        let idle = self.idle.lock().take().filter(Session::is_usable);
        if let Some(session) = idle {
            let mut transaction = self.transaction(session);
            // Behind a pooler, every transaction may meet another server.
            transaction.is_same_server = !self.server.is_pooled;
            match transaction.run(self.server.begin_write()).await {
                // The server has closed it meanwhile; a new one may work.
                Err(_) if transaction.is_lost() => drop(transaction),
                begun => return begun.map(|()| transaction),
            }
        }
        let connection = self.pool.acquire().await.map_err(database_error)?;
        let mut transaction = self.transaction(Session::direct(connection, &self.server));
        transaction.run(self.server.begin_write()).await?;
        Ok(transaction)
    }

    fn transaction(self: &Arc<Self>, session: Session) -> WriterTransaction {
        WriterTransaction {
            session: Some(session),
            writer: Arc::clone(self),
            permit: None,
            is_same_server: false,
        }
    }

    fn give_back(&self, session: Session) {
        if session.is_usable() && !self.pool.is_closed() {
            *self.idle.lock() = Some(session);
        }
    }

    pub(super) async fn close(&self) {
        self.rollbacks.close();
        self.rollbacks.wait().await;
        drop(self.idle.lock().take());
        self.pool.close().await;
    }

    /// Open and idle connections.
    pub(super) fn counts(&self) -> (u32, usize) {
        let is_idle = self.idle.lock().is_some();
        (
            self.pool.size(),
            self.pool.num_idle() + usize::from(is_idle),
        )
    }
}

/// A transaction. Dropped without a commit, it is rolled back.
pub(super) struct WriterTransaction {
    /// Absent once it is over.
    session: Option<Session>,
    writer: Arc<Writer>,
    /// Released after the rollback, so that the next writer has the connection again.
    permit: Option<OwnedSemaphorePermit>,
    /// Whether the server is certain to have what was committed before: not if a replica may have taken its place.
    pub(super) is_same_server: bool,
}

impl WriterTransaction {
    pub(super) fn session(&mut self) -> Result<&mut Session, StateError> {
        self.session
            .as_mut()
            .ok_or_else(|| StateError::Unavailable("the transaction is over".into()))
    }

    /// Statements without values.
    pub(super) async fn run(&mut self, sql: impl SqlSafeStr) -> Result<(), StateError> {
        let timeout = self.writer.server.timeout;
        self.session()?.run_script(sql, timeout).await
    }

    pub(super) fn is_lost(&self) -> bool {
        !self.session.as_ref().is_some_and(Session::is_usable)
    }

    pub(super) async fn commit(mut self) -> Result<(), StateError> {
        self.run("COMMIT").await?;
        if let Some(session) = self.session.take() {
            self.writer.give_back(session);
        }
        Ok(())
    }

    /// Rolls back; whoever waits for the permit comes after that.
    pub(super) fn abandon(mut self, permit: Option<OwnedSemaphorePermit>) {
        self.permit = permit;
    }
}

impl Drop for WriterTransaction {
    fn drop(&mut self) {
        let Some(mut session) = self.session.take().filter(Session::is_usable) else {
            return;
        };
        let (writer, permit) = (Arc::clone(&self.writer), self.permit.take());
        // Without a runtime, the server finds out that the connection is closed.
        if let Ok(runtime) = Handle::try_current() {
            let rollback = async move {
                let timeout = writer.server.timeout;
                let rolled_back = session.run_script("ROLLBACK", timeout).await;
                if rolled_back.is_ok() {
                    writer.give_back(session);
                }
                drop(permit);
            };
            self.writer.rollbacks.spawn_on(rollback, &runtime);
        }
    }
}
