//! Opening the database that the settings name.

use std::{fmt, sync::Arc};

use hermes_store::StoreError;

use super::{
    CopiedTable, Page, PostgresOpenError, PostgresOptions, PostgresState, SqliteState, State,
    StateError,
    tables::{INCOMPLETE, TableStore, clear_tables, copy_tables},
};
use crate::settings::DatabaseSettings;

/// The state, in the database that the settings name.
#[derive(Clone)]
pub enum OpenedState {
    Sqlite(Arc<SqliteState>),
    Postgres(Arc<PostgresState>),
}

/// Why the database does not open. Addresses are not part of it: they may have passwords.
#[derive(Debug, thiserror::Error)]
pub enum StateOpenError {
    #[error("the Hub's database cannot be opened: {0}")]
    Sqlite(#[from] StoreError),
    #[error("the Hub's database at `database.url` cannot be opened: {0}")]
    Postgres(#[from] PostgresOpenError),
    #[error(
        "a migration into the Hub's database was not finished: run `hermes hub migrate --to` again, or use the database it came from"
    )]
    Incomplete,
    #[error(transparent)]
    State(#[from] StateError),
}

impl OpenedState {
    /// Opens a database. The target of a migration that was not finished is refused.
    pub async fn open(settings: &DatabaseSettings, node: &str) -> Result<Self, StateOpenError> {
        let opened = Self::open_any(settings, node).await?;
        if opened.is_incomplete().await? {
            opened.shared().close().await;
            return Err(StateOpenError::Incomplete);
        }
        Ok(opened)
    }

    /// Opens a database, also the target of a migration that was not finished.
    pub async fn open_any(settings: &DatabaseSettings, node: &str) -> Result<Self, StateOpenError> {
        if let Some(path) = settings.sqlite_path() {
            let state = SqliteState::open(&path, node).await?;
            return Ok(Self::Sqlite(Arc::new(state)));
        }
        let state = PostgresState::open(&PostgresOptions::from(settings), node).await?;
        Ok(Self::Postgres(Arc::new(state)))
    }

    pub fn shared(&self) -> Arc<dyn State> {
        match self {
            Self::Sqlite(state) => Arc::clone(state) as Arc<dyn State>,
            Self::Postgres(state) => Arc::clone(state) as Arc<dyn State>,
        }
    }

    async fn is_incomplete(&self) -> Result<bool, StateError> {
        let marker = self.shared().meta(INCOMPLETE).await?;
        Ok(marker.is_some_and(|marker| !marker.is_empty()))
    }

    fn tables(&self) -> &dyn TableStore {
        match self {
            Self::Sqlite(state) => &**state,
            Self::Postgres(state) => &**state,
        }
    }

    /// Says that this database is the target of a migration, until [`Self::finish_migration`]. False if it has data.
    pub(crate) async fn begin_migration(&self) -> Result<bool, StateError> {
        let state = self.shared();
        if !self.is_incomplete().await? {
            let page = Page::first(1);
            let has_tenants = !state.count_tenants().await?.is_empty();
            if has_tenants
                || !state.groups(&page).await?.items.is_empty()
                || !state.tokens(&page).await?.items.is_empty()
            {
                return Ok(false);
            }
        }
        state.set_meta(INCOMPLETE, b"1").await?;
        Ok(true)
    }

    pub(crate) async fn finish_migration(&self) -> Result<(), StateError> {
        self.shared().set_meta(INCOMPLETE, b"").await
    }

    /// Replaces all tables by those of another database, and compares them.
    pub(crate) async fn copy_tables_from(
        &self,
        from: &Self,
    ) -> Result<Vec<CopiedTable>, StateError> {
        clear_tables(from.tables(), self.tables()).await?;
        copy_tables(from.tables(), self.tables()).await
    }

    /// The SQLite database, which backups copy.
    pub fn sqlite(&self) -> Option<&Arc<SqliteState>> {
        match self {
            Self::Sqlite(state) => Some(state),
            Self::Postgres(_) => None,
        }
    }
}

impl From<&DatabaseSettings> for PostgresOptions {
    fn from(settings: &DatabaseSettings) -> Self {
        Self {
            url: settings.url.clone(),
            listen_url: settings.listen_url.clone(),
            max_connections: settings.max_connections,
            timeout: settings.timeout,
        }
    }
}

impl fmt::Debug for OpenedState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sqlite(_) => "OpenedState::Sqlite",
            Self::Postgres(_) => "OpenedState::Postgres",
        })
    }
}
