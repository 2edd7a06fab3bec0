//! A home's `state.db`, opened. Its operations are in `sessions`, `messages` and `search`.

mod text_counts;

use std::{path::Path, sync::Arc};

use hermes_config::Home;
use sqlx::{AssertSqlSafe, SqlSafeStr, SqlStr, SqlitePool};

use crate::{
    StoreError,
    db::{
        self, Database, DatabaseWrite,
        state::{self, Layout},
    },
};

pub(crate) use text_counts::TextCounts;

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
