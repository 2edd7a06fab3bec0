//! A home's `state.db`, opened, and cached counts of its messages. Its operations are in `sessions`, `messages` and
//! `search`.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
    path::Path,
    sync::Arc,
};

use hermes_config::{
    Home,
    sync::{Mutex, MutexGuard},
};
use sqlx::{
    AssertSqlSafe, SqlSafeStr, SqlStr, Sqlite, SqlitePool, query::Query, sqlite::SqliteArguments,
};

use crate::{
    SessionId, StoreError,
    db::{
        self, Database, DatabaseWrite,
        state::{self, Layout},
    },
};

/// Maximum number of cached sessions; each takes a hundred bytes.
const MAX_SESSIONS: usize = 20_000;

/// What a store is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Creates and changes nothing.
    ReadOnly,
    /// Makes the database where there is none.
    ReadWrite,
}

/// A home's conversations. Clones share the connections.
#[derive(Debug, Clone)]
pub struct Store {
    inner: Arc<StoreInner>,
}

#[derive(Debug)]
struct StoreInner {
    database: Database,
    layout: Layout,
    text_counts: TextCounts,
}

impl StoreInner {
    fn new((database, layout): (Database, Layout)) -> Arc<Self> {
        Arc::new(Self {
            database,
            layout,
            text_counts: TextCounts::default(),
        })
    }
}

impl Store {
    pub async fn open(home: &Home, access: Access) -> Result<Self, StoreError> {
        let opened = match access {
            Access::ReadOnly => state::open_for_reading(home).await?,
            Access::ReadWrite => state::open_for_writing(home).await?,
        };
        Ok(Self {
            inner: StoreInner::new(opened),
        })
    }

    /// Opens the database of a home on one connection, which stays open.
    pub(crate) async fn open_held(home: &Home) -> Result<Self, StoreError> {
        Ok(Self {
            inner: StoreInner::new(state::open_held(home).await?),
        })
    }

    /// What changes with the file, on a store with one connection.
    pub(crate) async fn data_version(&self) -> Result<i64, StoreError> {
        let version = async {
            let mut connection = self.readers().acquire().await?;
            db::data_version(&mut connection).await
        };
        version.await.map_err(|error| self.error(error))
    }

    /// Whether everything is in plain tables: no views, and no columns that are computed when they are read. Whoever
    /// reads the database of somebody else asks this first, since reading others could take forever.
    pub async fn has_plain_tables(&self) -> Result<bool, StoreError> {
        const SQL: &str = "SELECT NOT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'view') \
             AND NOT EXISTS (SELECT 1 FROM sqlite_schema AS t, pragma_table_xinfo(t.name) AS c \
             WHERE t.name IN ('sessions', 'messages') AND c.hidden IN (2, 3))";
        sqlx::query_scalar(SQL)
            .fetch_one(self.readers())
            .await
            .map_err(|error| self.error(error))
    }

    /// Copies the log back into the database if enough was written since. Called when nobody waits for the next write:
    /// messages are stored without it.
    pub async fn checkpoint_if_due(&self) {
        self.inner.database.run_deferred_checkpoint().await;
    }

    /// The same after fewer writes, for a moment in which the next write is not near: while a model answers.
    pub async fn checkpoint_in_pause(&self) {
        self.inner.database.checkpoint_in_pause().await;
    }

    /// Writes everything back into the one file and closes the connections, those of clones too.
    pub async fn close(&self) {
        self.inner.database.close().await;
    }

    /// The database file.
    pub fn path(&self) -> &Path {
        self.inner.database.path()
    }

    pub(crate) fn readers(&self) -> &SqlitePool {
        self.inner.database.readers()
    }

    pub(crate) fn text_counts(&self) -> &TextCounts {
        &self.inner.text_counts
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.inner.layout
    }

    pub(crate) async fn begin(&self) -> Result<DatabaseWrite<'_>, StoreError> {
        self.inner.database.begin().await
    }

    /// Runs one statement as a write of its own. Returns how many rows it changed.
    pub(crate) async fn execute<'q>(
        &self,
        statement: impl Fn() -> Query<'q, Sqlite, SqliteArguments>,
    ) -> Result<u64, StoreError> {
        self.inner.database.execute(statement).await
    }

    pub(crate) fn error(&self, error: sqlx::Error) -> StoreError {
        self.inner.database.error(error)
    }

    /// A reading statement: `{sessions}` and `{messages}` stand for the tables, or for what fills in an older one.
    /// The text is one of this crate's constants; values are bound.
    pub(crate) fn sql(&self, statement: &'static str) -> SqlStr {
        let layout = self.layout();
        if layout.sessions == "sessions" && layout.messages == "messages" {
            let text = statement.replace(['{', '}'], "");
            return AssertSqlSafe(text).into_sql_str();
        }
        let text = statement
            .replace("{sessions}", &layout.sessions)
            .replace("{messages}", &layout.messages);
        AssertSqlSafe(text).into_sql_str()
    }
}

/// Cached counts of text messages, by session. A session's messages lie strewn over the whole database, so that counting
/// them reads a page for each. Which rows are live stands together in an index, and a row's role and content never
/// change: so it is enough to look at rows that were not there the last time.
#[derive(Debug, Default)]
pub(crate) struct TextCounts {
    sessions: Mutex<HashMap<SessionId, TextCount>>,
}

/// What was counted of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TextCount {
    /// So many live rows, the oldest ones.
    pub(crate) rows: usize,
    /// So many of them say something.
    pub(crate) texts: usize,
    /// Of the ids of these rows.
    hash: u64,
}

impl TextCount {
    fn from_ids(ids: &[i64], said: usize) -> Self {
        Self {
            rows: ids.len(),
            texts: said,
            hash: hash_ids(ids),
        }
    }
}

impl TextCounts {
    /// What is known of a session with these live rows; nothing, if some that were counted are gone.
    pub(crate) fn get(&self, session: &SessionId, ids: &[i64]) -> Option<TextCount> {
        let counted = self.lock().get(session).copied()?;
        let same = ids.get(..counted.rows)?;
        (hash_ids(same) == counted.hash).then_some(counted)
    }

    /// Remembers how many of these rows, which are all live ones of the session, say something.
    pub(crate) fn insert(&self, session: &SessionId, ids: &[i64], said: usize) {
        let mut sessions = self.lock();
        if sessions.len() >= MAX_SESSIONS && !sessions.contains_key(session) {
            sessions.clear();
        }
        sessions.insert(session.clone(), TextCount::from_ids(ids, said));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, TextCount>> {
        self.sessions.lock()
    }
}

fn hash_ids(ids: &[i64]) -> u64 {
    let mut hasher = DefaultHasher::new();
    ids.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_were_counted_are_not_looked_at_again() {
        let counts = TextCounts::default();
        let session = SessionId::from_stored("one".into());
        assert_eq!(counts.get(&session, &[3, 5, 9]), None);
        counts.insert(&session, &[3, 5, 9], 2);
        let known = |ids: &[i64]| {
            let counted = counts.get(&session, ids);
            counted.map(|counted| (counted.rows, counted.texts))
        };
        assert_eq!(known(&[3, 5, 9]), Some((3, 2)));
        assert_eq!(known(&[3, 5, 9, 12]), Some((3, 2)));
        // Taken back, summed up, written anew.
        assert_eq!(known(&[3, 5]), None);
        assert_eq!(known(&[3, 9, 12, 13]), None);
        assert_eq!(known(&[]), None);
        assert_eq!(
            counts.get(&SessionId::from_stored("other".into()), &[3, 5, 9]),
            None
        );
    }
}
