//! Opening a Hub's directory: lock, database, secret key, and on the first start the first token.

use std::{path::PathBuf, sync::Arc};

use hermes_store::StoreError;

use super::{Hub, HubParts, StartError};
use crate::{
    auth::{FirstTokenError, create_first_token},
    settings::Settings,
    storage::{
        data_dir::{DataDir, DataDirError, DataDirLock},
        encryption::{EncryptionError, SecretKey},
        state::{SqliteState, State},
    },
    tenants::runtime::Runtime,
};

pub struct OpenedHub {
    pub hub: Hub,
    /// Where the first token was written, at the first start.
    pub first_token: Option<PathBuf>,
    /// Holds the lock on the directory.
    pub lock: DataDirLock,
}

/// Why a Hub does not open.
#[derive(Debug, thiserror::Error)]
pub enum HubOpenError {
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    /// The database cannot be opened.
    #[error("the Hub's database cannot be opened: {0}")]
    Database(#[from] StoreError),
    #[error("`database.url`: `{0}` is not a supported database; write `sqlite:` and a path")]
    DatabaseKind(String),
    #[error(transparent)]
    Key(#[from] EncryptionError),
    #[error(transparent)]
    FirstToken(#[from] FirstTokenError),
    #[error(transparent)]
    Start(#[from] StartError),
}

impl Hub {
    /// Opens the directory that the settings name and starts a Hub on it.
    pub async fn open(
        mut settings: Settings,
        runtime: Arc<dyn Runtime>,
    ) -> Result<OpenedHub, HubOpenError> {
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
            HubOpenError::DatabaseKind(format!("{scheme}:"))
        })?;
        let state: Arc<dyn State> = Arc::new(SqliteState::open(database.as_ref(), &node).await?);
        let key = SecretKey::load(&settings.secret_key_file, &*state).await?;
        let token_file = settings.admin_token_file.clone();
        let is_first = create_first_token(&*state, &token_file).await?;
        let hub = Self::start(HubParts {
            state,
            key,
            runtime,
            settings,
            node,
        })
        .await?;
        Ok(OpenedHub {
            hub,
            first_token: is_first.then_some(token_file),
            lock,
        })
    }
}
