//! Opening a Hub's directory: lock, database, secret key, and on the first start the first token.

use std::{path::PathBuf, sync::Arc};

use hermes_store::StoreError;

use super::{Hub, Parts, StartError};
use crate::{
    auth::{FirstTokenError, make_first_token},
    data_dir::{DataDir, DataDirError, DataDirLock},
    runtime::Runtime,
    seal::{SealError, SecretKey},
    settings::Settings,
    state::{SqliteState, State},
};

/// A Hub on its own directory.
pub struct Opened {
    /// The Hub.
    pub hub: Hub,
    /// Where the first token was written, if this was the first start.
    pub first_token: Option<PathBuf>,
    /// Keeps other Hubs away from the directory.
    pub lock: DataDirLock,
}

/// Why a Hub does not open.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The directory can not be used.
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    /// The database can not be opened.
    #[error("the Hub's database can not be opened: {0}")]
    Database(#[from] StoreError),
    /// The database is of a kind this Hub does not know.
    #[error("`database.url`: `{0}` is no database this Hub can use; write `sqlite:` and a path")]
    DatabaseKind(String),
    /// The secret key is missing or another one.
    #[error(transparent)]
    Key(#[from] SealError),
    /// The first token could not be made.
    #[error(transparent)]
    FirstToken(#[from] FirstTokenError),
    /// The Hub does not start.
    #[error(transparent)]
    Start(#[from] StartError),
}

impl Hub {
    /// Opens the directory that the settings name and starts a Hub on it.
    pub async fn open(
        mut settings: Settings,
        runtime: Arc<dyn Runtime>,
    ) -> Result<Opened, OpenError> {
        let directory = DataDir::create(&settings.data_dir)?;
        directory.path().clone_into(&mut settings.data_dir);
        let lock = directory.lock()?;
        let node = match &settings.node_id {
            Some(id) => id.clone(),
            None => directory.node_id()?,
        };
        let database = settings.database_url.strip_prefix("sqlite:");
        let database = database.ok_or_else(|| {
            let scheme = settings.database_url.split(':').next().unwrap_or_default();
            OpenError::DatabaseKind(format!("{scheme}:"))
        })?;
        let state: Arc<dyn State> = Arc::new(SqliteState::open(database.as_ref(), &node).await?);
        let key = SecretKey::load(&settings.secret_key_file, &*state).await?;
        let token_file = settings.admin_token_file.clone();
        let is_first = make_first_token(&*state, &token_file).await?;
        let hub = Self::start(Parts {
            state,
            key,
            runtime,
            settings,
            node,
        })
        .await?;
        Ok(Opened {
            hub,
            first_token: is_first.then_some(token_file),
            lock,
        })
    }
}
