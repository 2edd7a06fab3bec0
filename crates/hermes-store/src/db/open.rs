//! Databases whose tables another crate brings, and the numbered steps from an empty file to the present tables.

use std::{fs, io, path::Path, sync::atomic::AtomicU32, time::Duration};

use sqlx::{
    AssertSqlSafe, ConnectOptions, SqliteConnection,
    sqlite::{SqlitePoolOptions, SqliteSynchronous},
};

use super::{
    CHECKPOINT_INTERVAL, Database, READERS, WRITER_BUSY_TIMEOUT, WriteGroup, create_file,
    open_pool, reader_options, sibling_path, use_write_ahead_log, write_copy, writer_options,
};
use crate::StoreError;

/// What a commit survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// The end of the process; a loss of power may cost the last ones.
    Process,
    /// A loss of power too: each commit waits for the disk.
    Power,
}

#[derive(Debug, Clone, Copy)]
pub struct DatabaseOptions<'a> {
    /// The steps from an empty file to the present tables, in order. A step that was released is never changed.
    pub steps: &'a [&'static str],
    /// What a commit survives.
    pub durability: Durability,
    /// Timeout of a write, for other processes or for its turn.
    pub write_timeout: Duration,
}

impl Database {
    /// Opens a database with one writer and some readers, making or migrating it. Before a migration it is copied to a
    /// file beside it; a schema newer than the steps is refused.
    pub async fn open(path: &Path, opening: DatabaseOptions<'_>) -> Result<Self, StoreError> {
        if create_file(path)? {
            // Left by one that was deleted while somebody had it open, these would be taken for the new one's.
            for suffix in ["-wal", "-shm"] {
                let _ = fs::remove_file(sibling_path(path, suffix));
            }
        }
        let synchronous = match opening.durability {
            Durability::Process => SqliteSynchronous::Normal,
            Durability::Power => SqliteSynchronous::Full,
        };
        let attempt = WRITER_BUSY_TIMEOUT.min(opening.write_timeout / 4);
        let writer = SqlitePoolOptions::new()
            .max_connections(1)
            .min_connections(0)
            .test_before_acquire(false)
            .max_lifetime(None)
            .idle_timeout(Duration::from_mins(2))
            .acquire_timeout(opening.write_timeout)
            .connect_lazy_with(
                writer_options(path)
                    .synchronous(synchronous)
                    .busy_timeout(attempt),
            );
        let database = Self {
            path: path.to_path_buf(),
            readers: open_pool(
                READERS,
                reader_options(path).busy_timeout(opening.write_timeout),
            ),
            writer: Some(writer),
            checkpointer: Some(open_pool(1, writer_options(path))),
            write_timeout: opening.write_timeout,
            deferred_checkpoints: AtomicU32::new(0),
            checkpoint_interval: CHECKPOINT_INTERVAL,
            group: WriteGroup::new(),
        };
        use_write_ahead_log(&mut *database.writer().await?)
            .await
            .map_err(|error| database.error(error))?;
        migrate(&database, opening.steps, MigrationBackup::Copy).await?;
        Ok(database)
    }

    /// Writes a consistent copy to a new file, while others go on reading and writing.
    pub async fn copy_to(&self, copy: &Path) -> Result<(), StoreError> {
        let mut connection = self
            .readers
            .acquire()
            .await
            .map_err(|error| self.error(error))?;
        write_copy(&mut connection, copy)
            .await
            .map_err(|source| StoreError::Backup {
                path: copy.to_path_buf(),
                source,
            })
    }
}

/// Writes a consistent copy of any SQLite database, which others may be using, to a new file.
pub async fn copy_database(path: &Path, copy: &Path) -> Result<(), StoreError> {
    let copied = async {
        let mut connection = reader_options(path)
            .connect()
            .await
            .map_err(io::Error::other)?;
        write_copy(&mut connection, copy).await
    };
    copied.await.map_err(|source| StoreError::Backup {
        path: copy.to_path_buf(),
        source,
    })
}

/// What is done before a database with tables is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MigrationBackup {
    /// Nothing: what is in it can be lost.
    Skip,
    /// It is copied to a file beside it, named after its schema.
    Copy,
}

/// Takes the steps that are missing, each in a transaction of its own. Refuses a database that has taken more.
pub(crate) async fn migrate(
    database: &Database,
    steps: &[&'static str],
    before: MigrationBackup,
) -> Result<(), StoreError> {
    let error = |error| database.error(error);
    let done = schema_version(&mut *database.writer().await?)
        .await
        .map_err(error)?;
    if done > steps.len() {
        return Err(StoreError::NewerSchema {
            path: database.path().to_path_buf(),
            version: done,
            known: steps.len(),
        });
    }
    if before == MigrationBackup::Copy && (1..steps.len()).contains(&done) {
        let copy = sibling_path(database.path(), &format!(".schema-{done}.bak"));
        write_copy(&mut *database.writer().await?, &copy)
            .await
            .map_err(|source| StoreError::Backup { path: copy, source })?;
    }
    for (step, sql) in steps.iter().enumerate().skip(done) {
        let mut write = database.begin().await?;
        // Another process may have been quicker.
        if schema_version(&mut write).await.map_err(error)? > step {
            continue;
        }
        sqlx::raw_sql(*sql)
            .execute(&mut *write)
            .await
            .map_err(error)?;
        // A pragma takes no bound value; this one is a number we counted.
        sqlx::raw_sql(AssertSqlSafe(format!("PRAGMA user_version = {}", step + 1)))
            .execute(&mut *write)
            .await
            .map_err(error)?;
        write.commit().await?;
    }
    Ok(())
}

async fn schema_version(connection: &mut SqliteConnection) -> Result<usize, sqlx::Error> {
    let version: i64 = sqlx::query_scalar("PRAGMA user_version")
        .fetch_one(connection)
        .await?;
    Ok(usize::try_from(version).unwrap_or_default())
}
