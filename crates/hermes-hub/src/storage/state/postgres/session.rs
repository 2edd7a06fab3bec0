//! One connection of a pool: statements with a timeout, and the meaning of their errors.

use std::{
    fmt,
    ops::{Deref, DerefMut},
    time::{Duration, Instant},
};

use sqlx::{
    Execute as _, PgConnection, PgPool, Postgres, SqlSafeStr, SqlStr, Transaction,
    pool::PoolConnection,
    postgres::{PgArguments, PgDatabaseError, PgRow},
    query::Query,
};
use tokio::time::timeout;

use super::server::ServerLink;
use crate::storage::state::StateError;

pub(super) type Sql<'q> = Query<'q, Postgres, PgArguments>;

/// A connection, alone or in a transaction. Dropped in a transaction that was not committed, that is rolled back.
pub(super) struct Session {
    connection: SessionConnection,
    server: ServerLink,
    acquired_at: Instant,
    is_lost: bool,
    /// Where another connection is, for what only reads: it is asked once more there.
    others: Option<PgPool>,
}

/// A statement that can be sent twice.
struct RepeatableQuery {
    sql: SqlStr,
    arguments: PgArguments,
}

impl RepeatableQuery {
    fn new(mut query: Sql<'_>) -> Result<Self, StateError> {
        let arguments = query.take_arguments();
        let arguments = arguments.map_err(|error| StateError::Broken(error.to_string()))?;
        Ok(Self {
            arguments: arguments.unwrap_or_default(),
            sql: query.sql(),
        })
    }

    fn query(&self) -> Sql<'static> {
        sqlx::query_with(self.sql.clone(), self.arguments.clone())
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("is_lost", &self.is_lost)
            .finish_non_exhaustive()
    }
}

enum SessionConnection {
    Direct(PoolConnection<Postgres>),
    InTransaction(Transaction<'static, Postgres>),
}

impl Deref for SessionConnection {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        match self {
            Self::Direct(connection) => connection,
            Self::InTransaction(transaction) => transaction,
        }
    }
}

impl DerefMut for SessionConnection {
    fn deref_mut(&mut self) -> &mut PgConnection {
        match self {
            Self::Direct(connection) => connection,
            Self::InTransaction(transaction) => transaction,
        }
    }
}

impl Session {
    pub(super) fn direct(connection: PoolConnection<Postgres>, server: &ServerLink) -> Self {
        Self::new(SessionConnection::Direct(connection), server)
    }

    /// A connection of a pool for statements that only read, each by itself. One whose connection turns out to be lost is
    /// sent once more over another.
    pub(super) async fn reading(pool: &PgPool, server: &ServerLink) -> Result<Self, StateError> {
        let connection = pool.acquire().await.map_err(database_error)?;
        let mut session = Self::direct(connection, server);
        session.others = Some(pool.clone());
        Ok(session)
    }

    /// Goes on with another connection, if this one is lost and there may be one.
    async fn replace_lost(&mut self) -> bool {
        let Some(others) = self.others.as_ref().filter(|_| self.is_lost) else {
            return false;
        };
        let Ok(connection) = others.acquire().await else {
            return false;
        };
        self.connection = SessionConnection::Direct(connection);
        self.acquired_at = Instant::now();
        self.is_lost = false;
        true
    }

    pub(super) fn in_transaction(
        transaction: Transaction<'static, Postgres>,
        server: &ServerLink,
    ) -> Self {
        Self::new(SessionConnection::InTransaction(transaction), server)
    }

    fn new(connection: SessionConnection, server: &ServerLink) -> Self {
        Self {
            connection,
            server: server.clone(),
            acquired_at: Instant::now(),
            is_lost: false,
            others: None,
        }
    }

    /// Whether another transaction may be tried on it.
    pub(super) fn is_usable(&self) -> bool {
        !self.is_lost && self.server.may_use(self.acquired_at.elapsed())
    }

    /// Statements are kept on the server, unless another server may answer the next transaction.
    fn keeps_statements(&self) -> bool {
        !self.server.is_pooled
    }

    pub(super) async fn rows(&mut self, query: Sql<'_>) -> Result<Vec<PgRow>, StateError> {
        if self.others.is_none() {
            return self.rows_once(query).await;
        }
        let query = RepeatableQuery::new(query)?;
        let read = self.rows_once(query.query()).await;
        if read.is_err() && self.replace_lost().await {
            return self.rows_once(query.query()).await;
        }
        read
    }

    async fn rows_once(&mut self, query: Sql<'_>) -> Result<Vec<PgRow>, StateError> {
        let query = query.persistent(self.keeps_statements());
        let rows = query.fetch_all(&mut *self.connection);
        let answered = timeout(self.server.timeout, rows).await;
        self.judge(answered)
    }

    pub(super) async fn optional(&mut self, query: Sql<'_>) -> Result<Option<PgRow>, StateError> {
        if self.others.is_none() {
            return self.optional_once(query).await;
        }
        let query = RepeatableQuery::new(query)?;
        let read = self.optional_once(query.query()).await;
        if read.is_err() && self.replace_lost().await {
            return self.optional_once(query.query()).await;
        }
        read
    }

    async fn optional_once(&mut self, query: Sql<'_>) -> Result<Option<PgRow>, StateError> {
        let query = query.persistent(self.keeps_statements());
        let row = query.fetch_optional(&mut *self.connection);
        let answered = timeout(self.server.timeout, row).await;
        self.judge(answered)
    }

    pub(super) async fn one(&mut self, query: Sql<'_>) -> Result<PgRow, StateError> {
        let row = self.optional(query).await?;
        row.ok_or_else(|| StateError::Broken("a statement returned no row".into()))
    }

    /// Returns how many rows it affected.
    pub(super) async fn execute(&mut self, query: Sql<'_>) -> Result<u64, StateError> {
        let query = query.persistent(self.keeps_statements());
        let done = query.execute(&mut *self.connection);
        let answered = timeout(self.server.timeout, done).await;
        Ok(self.judge(answered)?.rows_affected())
    }

    /// Several statements at once, without values.
    pub(super) async fn run_script(
        &mut self,
        sql: impl SqlSafeStr,
        most: Duration,
    ) -> Result<(), StateError> {
        let done = sqlx::raw_sql(sql).execute(&mut *self.connection);
        let answered = timeout(most, done).await;
        self.judge(answered).map(drop)
    }

    /// Commits the transaction that it was made for.
    pub(super) async fn commit(self) -> Result<(), StateError> {
        let SessionConnection::InTransaction(transaction) = self.connection else {
            return Ok(());
        };
        match timeout(self.server.timeout, transaction.commit()).await {
            Ok(committed) => committed.map_err(database_error),
            Err(_) => Err(no_answer()),
        }
    }

    fn judge<T>(
        &mut self,
        answered: Result<Result<T, sqlx::Error>, tokio::time::error::Elapsed>,
    ) -> Result<T, StateError> {
        let error = match answered {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) => {
                if !is_session_lost(&error) {
                    return Err(database_error(error));
                }
                database_error(error)
            }
            Err(_) => no_answer(),
        };
        self.is_lost = true;
        self.server.mark_replaced();
        // In a transaction, the pool closes it before the next use.
        if let SessionConnection::Direct(connection) = &mut self.connection {
            connection.close_on_drop();
        }
        Err(error)
    }
}

fn no_answer() -> StateError {
    StateError::Unavailable("a statement was not answered in time".into())
}

fn sqlstate(error: &sqlx::Error) -> Option<&str> {
    let database = error.as_database_error()?;
    Some(database.try_downcast_ref::<PgDatabaseError>()?.code())
}

/// Whether the connection is of no more use: gone, to a server that only reads, or to one that lost its statements.
fn is_session_lost(error: &sqlx::Error) -> bool {
    match sqlstate(error) {
        Some(code) => {
            code.starts_with("08")
                || code.starts_with("57P")
                || matches!(code, "25006" | "25P03" | "26000" | "42P05")
        }
        None => matches!(
            error,
            sqlx::Error::Io(_) | sqlx::Error::Protocol(_) | sqlx::Error::Tls(_)
        ),
    }
}

/// What a caller may do about it. A class of codes is named by its first two characters.
pub(super) fn database_error(error: sqlx::Error) -> StateError {
    let Some(code) = sqlstate(&error) else {
        return match error {
            sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::Protocol(_)
            | sqlx::Error::WorkerCrashed
            | sqlx::Error::BeginFailed => StateError::Unavailable(error.to_string()),
            error => StateError::Broken(error.to_string()),
        };
    };
    let text = format!("{error} ({code})");
    match code {
        // The disk, and the limit of a table space.
        "53100" => StateError::DiskFull(text),
        // Connections, memory; serialization, deadlocks; shutdown, start; cancelled by a timeout; locks; statements that
        // a pooler lost; read-only; a transaction that the server ended.
        "57014" | "55P03" | "26000" | "42P05" | "25006" | "25P03" | "40001" | "40P01" | "55006" => {
            StateError::Unavailable(text)
        }
        code if ["08", "53", "57", "58"].contains(&code.get(..2).unwrap_or_default()) => {
            StateError::Unavailable(text)
        }
        _ => StateError::Broken(text),
    }
}

/// Whether a statement would have made a second row with the same key.
pub(super) fn is_duplicate(error: &StateError) -> bool {
    matches!(error, StateError::Broken(text) if text.ends_with("(23505)"))
}

/// Transactions of their own, for what locks rows for longer than the writes that share one.
#[derive(Debug, Clone)]
pub(super) struct OwnSessions {
    pub(super) pool: PgPool,
    pub(super) server: ServerLink,
}

impl OwnSessions {
    pub(super) async fn read(&self) -> Result<Session, StateError> {
        if self.server.is_pooled {
            return self.begin(self.server.begin_read()).await;
        }
        Session::reading(&self.pool, &self.server).await
    }

    pub(super) async fn write(&self) -> Result<Session, StateError> {
        self.begin(self.server.begin_write()).await
    }

    async fn begin(&self, how: SqlStr) -> Result<Session, StateError> {
        let begun = self.pool.begin_with(how).await.map_err(database_error)?;
        Ok(Session::in_transaction(begun, &self.server))
    }
}
