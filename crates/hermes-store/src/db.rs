//! The one place that opens databases: connections, pools, locking and write transactions.
//!
//! A database has one writer connection behind a fair queue, one for checkpoints and a few readers. Writes begin with
//! `BEGIN IMMEDIATE`, so that a lock held by another process shows at once and is waited for. Other crates bring their own
//! tables and open them by [`Database::open`].

use std::{
    fs, io,
    ops::{Deref, DerefMut},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use hermes_config::{
    private_file::{ExistingFile, FileDurability, WriteOptions, write_file},
    random::random_number,
};
use sqlx::{
    AssertSqlSafe, ConnectOptions, Sqlite, SqliteConnection, SqlitePool, Transaction,
    pool::PoolConnection,
    sqlite::{SqliteConnectOptions, SqlitePoolOptions, SqliteSynchronous},
};

use crate::StoreError;

mod group;
mod open;
pub(crate) mod row;
pub(crate) mod schema;
mod single_statement;
pub(crate) mod state;

pub(crate) use crate::error::sqlite_message;
pub use crate::error::{SqliteErrorKind, sqlite_error_kind};
pub use group::GroupWrite;
use group::WriteGroup;
pub use open::{DatabaseOptions, Durability, copy_database};
pub(crate) use open::{MigrationBackup, migrate};

/// Timeout of a write, for its turn in this process and for other processes.
const WRITE_TIMEOUT: Duration = Duration::from_secs(16);
/// Attempts to switch to a write-ahead log.
const SWITCH_ATTEMPTS: u32 = 15;
/// SQLite's busy timeout of one attempt to begin a write.
const WRITER_BUSY_TIMEOUT: Duration = Duration::from_secs(1);
/// SQLite's busy timeout of a reader.
const READER_BUSY_TIMEOUT: Duration = Duration::from_secs(2);
/// The same for a reader that polls.
const HELD_BUSY_TIMEOUT: Duration = Duration::from_millis(100);
/// In KiB, as SQLite writes it. The default is eight times as much.
const HELD_CACHE_SIZE: &str = "-256";
/// Enough to read while somebody else reads; each costs a thread and a page cache.
const READERS: u32 = 4;
/// In KiB, as SQLite writes it. A quarter of the default: what is read again is in the system's own cache.
const READER_CACHE_SIZE: &str = "-512";
/// Writes after which the log is copied back into the database file.
const CHECKPOINT_INTERVAL: u32 = 50;
/// The same for a home's databases, where it is usually done in a pause: [`Database::checkpoint_in_pause`].
const HOME_CHECKPOINT_INTERVAL: u32 = 400;
/// Pages of the log at which SQLite itself copies it back, within a commit that somebody waits for: some 6 MB. The default
/// may be reached before a pause.
const HOME_AUTO_CHECKPOINT: &str = "1500";

/// An open database file.
#[derive(Debug)]
pub struct Database {
    path: PathBuf,
    readers: SqlitePool,
    /// A pool of one: its queue is fair.
    writer: Option<SqlitePool>,
    /// Copies the log back, on a connection of its own: it waits for the disk, and writers do not wait for it.
    checkpointer: Option<SqlitePool>,
    /// Timeout of a write, for its turn and for other processes.
    write_timeout: Duration,
    /// Writes since the last checkpoint.
    deferred_checkpoints: AtomicU32,
    /// Writes after which a checkpoint is not deferred any more.
    checkpoint_interval: u32,
    /// Writes that share commits.
    group: Arc<WriteGroup>,
}

impl Database {
    /// Readers only, on connections opened as the options say.
    pub(crate) fn for_reading(path: &Path, options: SqliteConnectOptions) -> Self {
        Self {
            path: path.to_path_buf(),
            readers: open_pool(READERS, options.pragma("cache_size", READER_CACHE_SIZE)),
            writer: None,
            checkpointer: None,
            write_timeout: WRITE_TIMEOUT,
            deferred_checkpoints: AtomicU32::new(0),
            checkpoint_interval: CHECKPOINT_INTERVAL,
            group: WriteGroup::new(),
        }
    }

    /// One reader that stays open, so that its `data_version` can be compared.
    pub(crate) fn with_held_reader(path: &Path, options: SqliteConnectOptions) -> Self {
        Self {
            path: path.to_path_buf(),
            readers: permanent_pool(held_options(options)),
            writer: None,
            checkpointer: None,
            write_timeout: WRITE_TIMEOUT,
            deferred_checkpoints: AtomicU32::new(0),
            checkpoint_interval: CHECKPOINT_INTERVAL,
            group: WriteGroup::new(),
        }
    }

    /// A database without a file, gone when it is closed.
    pub(crate) fn in_memory() -> Self {
        let only =
            permanent_pool(without_statement_log(SqliteConnectOptions::new()).in_memory(true));
        Self {
            path: PathBuf::from(":memory:"),
            readers: only.clone(),
            writer: Some(only),
            checkpointer: None,
            write_timeout: WRITE_TIMEOUT,
            deferred_checkpoints: AtomicU32::new(0),
            checkpoint_interval: CHECKPOINT_INTERVAL,
            group: WriteGroup::new(),
        }
    }

    /// One writer and some readers, of a home's database.
    pub(crate) fn for_writing(path: &Path) -> Self {
        let readers = reader_options(path).pragma("cache_size", READER_CACHE_SIZE);
        let writer = writer_options(path).pragma("wal_autocheckpoint", HOME_AUTO_CHECKPOINT);
        Self {
            path: path.to_path_buf(),
            readers: open_pool(READERS, readers),
            writer: Some(open_pool(1, writer)),
            checkpointer: Some(open_pool(1, writer_options(path))),
            write_timeout: WRITE_TIMEOUT,
            deferred_checkpoints: AtomicU32::new(0),
            checkpoint_interval: HOME_CHECKPOINT_INTERVAL,
            group: WriteGroup::new(),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where reading statements run.
    pub fn readers(&self) -> &SqlitePool {
        &self.readers
    }

    /// The writer's connection, outside a transaction.
    pub(crate) async fn writer(&self) -> Result<PoolConnection<Sqlite>, StoreError> {
        let writer = self.writer.as_ref().ok_or_else(|| StoreError::ReadOnly {
            path: self.path.clone(),
        })?;
        writer.acquire().await.map_err(|error| self.error(error))
    }

    /// Begins a write, waiting for others of this process and then for other processes.
    pub async fn begin(&self) -> Result<DatabaseWrite<'_>, StoreError> {
        let writer = self.writer.as_ref().ok_or_else(|| StoreError::ReadOnly {
            path: self.path.clone(),
        })?;
        let attempts = async {
            loop {
                match writer.begin_with("BEGIN IMMEDIATE").await {
                    Err(error) if sqlite_error_kind(&error) == Some(SqliteErrorKind::Busy) => {
                        tokio::time::sleep(random_delay()).await;
                    }
                    // SQLite itself has ended the last write, as on a full disk, and the driver has not noticed.
                    Err(sqlx::Error::InvalidSavePointStatement) => {
                        replace_connection(writer).await?;
                    }
                    begun => return begun,
                }
            }
        };
        match tokio::time::timeout(self.write_timeout, attempts).await {
            Ok(Ok(transaction)) => Ok(DatabaseWrite {
                transaction,
                database: self,
            }),
            Ok(Err(error)) => Err(self.error(error)),
            Err(_) => Err(StoreError::Locked {
                path: self.path.clone(),
            }),
        }
    }

    /// Runs a checkpoint if it was deferred often enough.
    pub(crate) async fn run_deferred_checkpoint(&self) {
        self.checkpoint_after(self.checkpoint_interval).await;
    }

    /// Runs a checkpoint earlier, in a moment in which nobody waits for the next write, and begins the log anew: the first
    /// write after a checkpoint waits for the disk.
    pub(crate) async fn checkpoint_in_pause(&self) {
        if !self.checkpoint_after(CHECKPOINT_INTERVAL).await {
            return;
        }
        if let Err(error) = self.restart_log().await {
            tracing::debug!(%error, "write-ahead log was not restarted");
        }
    }

    /// Runs a checkpoint after so many writes. Returns whether it ran and the whole log is in the database file.
    async fn checkpoint_after(&self, writes: u32) -> bool {
        match &self.checkpointer {
            Some(checkpointer) if self.deferred_checkpoints.load(Ordering::Relaxed) >= writes => {
                self.deferred_checkpoints.store(0, Ordering::Relaxed);
                checkpoint(checkpointer, "PRAGMA wal_checkpoint(PASSIVE)").await
            }
            _ => false,
        }
    }

    /// Writes something that changes nothing.
    async fn restart_log(&self) -> Result<(), StoreError> {
        let mut write = self.begin().await?;
        let written = async {
            let version: i64 = sqlx::query_scalar("PRAGMA user_version")
                .fetch_one(&mut *write)
                .await?;
            // A pragma takes no parameters; this is a number.
            sqlx::query(AssertSqlSafe(format!("PRAGMA user_version = {version}")))
                .execute(&mut *write)
                .await
        };
        written.await.map_err(|error| self.error(error))?;
        write
            .transaction
            .commit()
            .await
            .map_err(|error| self.error(error))
    }

    /// Names the file in a driver's error.
    pub fn error(&self, error: sqlx::Error) -> StoreError {
        StoreError::from_database(&self.path, error)
    }

    /// Copies the log back, empties it, and closes every connection.
    pub async fn close(&self) {
        self.group.abandon();
        self.readers.close().await;
        if let Some(checkpointer) = &self.checkpointer {
            checkpointer.close().await;
        }
        if let Some(writer) = &self.writer {
            if !writer.is_closed() {
                checkpoint(writer, "PRAGMA wal_checkpoint(TRUNCATE)").await;
            }
            writer.close().await;
        }
    }
}

/// A write transaction. Dropped without a commit, it is rolled back.
#[derive(Debug)]
pub struct DatabaseWrite<'a> {
    transaction: Transaction<'static, Sqlite>,
    database: &'a Database,
}

impl DatabaseWrite<'_> {
    /// Commits and defers the checkpoint, which waits for the disk.
    pub async fn commit_without_checkpoint(self) -> Result<(), StoreError> {
        let database = self.database;
        self.transaction
            .commit()
            .await
            .map_err(|error| database.error(error))?;
        database
            .deferred_checkpoints
            .fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Commits, and runs the checkpoint if it is due. Not for a write that somebody waits for.
    pub(crate) async fn commit(self) -> Result<(), StoreError> {
        let database = self.database;
        self.commit_without_checkpoint().await?;
        database.run_deferred_checkpoint().await;
        Ok(())
    }
}

impl Deref for DatabaseWrite<'_> {
    type Target = SqliteConnection;

    fn deref(&self) -> &SqliteConnection {
        &self.transaction
    }
}

impl DerefMut for DatabaseWrite<'_> {
    fn deref_mut(&mut self) -> &mut SqliteConnection {
        &mut self.transaction
    }
}

/// Closes the connection; the next caller gets a new one.
async fn replace_connection(writer: &SqlitePool) -> Result<(), sqlx::Error> {
    writer.acquire().await?.close().await
}

/// Best effort: a later checkpoint copies what this one does not. Returns whether it copied the whole log.
async fn checkpoint(connections: &SqlitePool, statement: &'static str) -> bool {
    let done: Result<(i64, i64, i64), _> = sqlx::query_as(statement).fetch_one(connections).await;
    match done {
        Ok((_, pages, copied)) => pages > 0 && pages == copied,
        Err(error) => {
            tracing::debug!(%error, "WAL checkpoint failed");
            false
        }
    }
}

fn open_pool(connections: u32, options: SqliteConnectOptions) -> SqlitePool {
    SqlitePoolOptions::new()
        .max_connections(connections)
        .min_connections(0)
        .test_before_acquire(false)
        .max_lifetime(None)
        .idle_timeout(Duration::from_mins(2))
        .connect_lazy_with(options)
}

/// Changes when another connection, of any process, has changed the file. Only comparable on the same connection.
pub(crate) async fn data_version(connection: &mut SqliteConnection) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar("PRAGMA data_version")
        .fetch_one(connection)
        .await
}

/// One connection for reading, to be held and asked for its `data_version`.
pub(crate) async fn open_held_connection(path: &Path) -> Result<SqliteConnection, sqlx::Error> {
    held_options(reader_options(path)).connect().await
}

/// Options of a reader that stays open. Its page cache stays, too, while the system's own is given back when needed.
fn held_options(options: SqliteConnectOptions) -> SqliteConnectOptions {
    options
        .busy_timeout(HELD_BUSY_TIMEOUT)
        .pragma("cache_size", HELD_CACHE_SIZE)
}

/// A single connection that is never closed when idle.
fn permanent_pool(options: SqliteConnectOptions) -> SqlitePool {
    SqlitePoolOptions::new()
        .max_connections(1)
        .min_connections(0)
        .test_before_acquire(false)
        .max_lifetime(None)
        .idle_timeout(None)
        .connect_lazy_with(options)
}

/// Options of a connection that writes to an existing file.
pub(crate) fn writer_options(path: &Path) -> SqliteConnectOptions {
    without_statement_log(SqliteConnectOptions::new())
        .filename(path)
        .foreign_keys(true)
        .synchronous(SqliteSynchronous::Normal)
        .busy_timeout(WRITER_BUSY_TIMEOUT)
}

/// Options of a connection that cannot write.
pub(crate) fn reader_options(path: &Path) -> SqliteConnectOptions {
    without_statement_log(SqliteConnectOptions::new())
        .filename(path)
        .read_only(true)
        .busy_timeout(READER_BUSY_TIMEOUT)
}

/// Statements contain what users said and must not be logged.
fn without_statement_log(options: SqliteConnectOptions) -> SqliteConnectOptions {
    options.disable_statement_logging()
}

/// Makes an empty file that only its owner can read, unless it is there. SQLite gives its other files that mode.
/// Returns whether it was made.
pub(crate) fn create_file(path: &Path) -> Result<bool, StoreError> {
    let options = WriteOptions {
        existing: ExistingFile::Refuse,
        durability: FileDurability::Unsynced,
        ..WriteOptions::default()
    };
    match write_file(path, b"", options) {
        Ok(()) => Ok(true),
        Err(source) if source.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(source) => Err(StoreError::Io {
            path: path.to_path_buf(),
            source,
        }),
    }
}

/// A file of the same name with something appended.
pub(crate) fn sibling_path(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Copies a database. SQLite itself writes the copy: reading the file past it would drop the locks this process holds.
pub(crate) async fn write_copy(connection: &mut SqliteConnection, copy: &Path) -> io::Result<()> {
    let part = sibling_path(copy, ".part");
    write_file(&part, b"", WriteOptions::default())?;
    let written = sqlx::query("VACUUM INTO ?1")
        .bind(part.to_string_lossy().into_owned())
        .execute(connection)
        .await
        .map_err(io::Error::other)
        .and_then(|_| fs::rename(&part, copy));
    if written.is_err() {
        // The original error matters; a leftover file does not.
        let _ = fs::remove_file(&part);
    }
    written
}

/// Switches an open database to write-ahead logging. Where the file system has no shared memory it stays as it is.
pub(crate) async fn use_write_ahead_log(
    connection: &mut SqliteConnection,
) -> Result<(), sqlx::Error> {
    let mode: String = sqlx::query_scalar("PRAGMA journal_mode")
        .fetch_one(&mut *connection)
        .await?;
    if mode.eq_ignore_ascii_case("wal") {
        return Ok(());
    }
    for _ in 1..SWITCH_ATTEMPTS {
        // The switch needs the file for itself, and SQLite's own waiting does not cover it.
        let switched: Result<String, _> = sqlx::query_scalar("PRAGMA journal_mode = WAL")
            .fetch_one(&mut *connection)
            .await;
        match switched {
            Err(error) if sqlite_error_kind(&error) == Some(SqliteErrorKind::Busy) => {
                tokio::time::sleep(random_delay()).await;
            }
            Err(error) if sqlite_error_kind(&error) == Some(SqliteErrorKind::Corrupt) => {
                return Err(error);
            }
            Ok(mode) if mode.eq_ignore_ascii_case("wal") => return Ok(()),
            Ok(_) | Err(_) => {
                tracing::warn!(
                    "write-ahead log not supported on this file system; using a rollback journal"
                );
                return Ok(());
            }
        }
    }
    Ok(())
}

/// A random delay of 20 to 150 ms, so that waiting processes do not collide again.
pub(crate) fn random_delay() -> Duration {
    Duration::from_millis(20 + random_number() % 131)
}
