//! A write of one statement. It commits by itself: the connection's thread is asked once, instead of once for each of
//! begin, statement and commit. Nothing is gained by sharing the commit, because a home's database does not wait for the
//! disk there.

use std::sync::atomic::Ordering;

use sqlx::{
    Sqlite,
    query::Query,
    sqlite::{SqliteArguments, SqliteQueryResult},
};

use super::{Database, SqliteErrorKind, random_delay, sqlite_error_kind};
use crate::StoreError;

impl Database {
    /// Runs one statement as a write of its own, waiting for others of this process and then for other processes. The
    /// checkpoint is deferred. Returns how many rows it changed.
    pub(crate) async fn execute<'q>(
        &self,
        statement: impl Fn() -> Query<'q, Sqlite, SqliteArguments>,
    ) -> Result<u64, StoreError> {
        let locked = || StoreError::Locked {
            path: self.path.clone(),
        };
        let attempts = async {
            let mut writer = self.writer().await?;
            loop {
                match statement().execute(&mut *writer).await {
                    Err(error) if sqlite_error_kind(&error) == Some(SqliteErrorKind::Busy) => {
                        tokio::time::sleep(random_delay()).await;
                    }
                    executed => return executed.map_err(|error| self.error(error)),
                }
            }
        };
        let executed = tokio::time::timeout(self.write_timeout, attempts).await;
        let executed: SqliteQueryResult = executed.unwrap_or_else(|_| Err(locked()))?;
        self.deferred_checkpoints.fetch_add(1, Ordering::Relaxed);
        Ok(executed.rows_affected())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::db::{DatabaseOptions, Durability};

    const INSERT: &str = "INSERT INTO t (n) VALUES (?1)";

    async fn open(directory: &std::path::Path) -> Database {
        let opening = DatabaseOptions {
            steps: &["CREATE TABLE t (n INTEGER PRIMARY KEY) STRICT"],
            durability: Durability::Process,
            write_timeout: Duration::from_secs(10),
        };
        let path = directory.join("statements.db");
        Database::open(&path, opening).await.unwrap()
    }

    async fn count(database: &Database) -> i64 {
        let counted = sqlx::query_scalar("SELECT COUNT(*) FROM t").fetch_one(database.readers());
        counted.await.unwrap()
    }

    #[tokio::test]
    async fn a_statement_is_committed_and_tells_how_many_rows_it_changed() {
        let directory = tempfile::tempdir().unwrap();
        let database = open(directory.path()).await;
        let changed = database.execute(|| sqlx::query(INSERT).bind(1_i64)).await;
        assert_eq!(changed.unwrap(), 1);
        assert_eq!(count(&database).await, 1);
        let changed = database.execute(|| sqlx::query("DELETE FROM t WHERE n = 2"));
        assert_eq!(changed.await.unwrap(), 0);
    }

    #[tokio::test]
    async fn a_statement_that_fails_changes_nothing_and_the_next_one_succeeds() {
        let directory = tempfile::tempdir().unwrap();
        let database = open(directory.path()).await;
        let twice = "INSERT INTO t (n) VALUES (1), (1)";
        assert!(database.execute(|| sqlx::query(twice)).await.is_err());
        assert_eq!(count(&database).await, 0);
        let changed = database.execute(|| sqlx::query(INSERT).bind(1_i64)).await;
        assert_eq!(changed.unwrap(), 1);
    }

    #[tokio::test]
    async fn a_statement_waits_for_the_lock_of_another_process() {
        let directory = tempfile::tempdir().unwrap();
        let database = open(directory.path()).await;
        let other = open(directory.path()).await;
        let held = other.begin().await.unwrap();
        let waiting = database.execute(|| sqlx::query(INSERT).bind(1_i64));
        tokio::pin!(waiting);
        let early = tokio::time::timeout(Duration::from_millis(100), &mut waiting).await;
        assert!(early.is_err(), "{early:?}");
        held.commit().await.unwrap();
        assert_eq!(waiting.await.unwrap(), 1);
    }

    #[tokio::test]
    async fn a_statement_waits_for_a_transaction_of_its_own_process() {
        let directory = tempfile::tempdir().unwrap();
        let database = open(directory.path()).await;
        let mut first = database.begin_in_group().await.unwrap();
        sqlx::query(INSERT)
            .bind(1_i64)
            .execute(&mut *first)
            .await
            .unwrap();
        let (committed, changed) = tokio::join!(
            first.commit(),
            database.execute(|| sqlx::query(INSERT).bind(2_i64)),
        );
        committed.unwrap();
        assert_eq!(changed.unwrap(), 1);
        assert_eq!(count(&database).await, 2);
    }
}
