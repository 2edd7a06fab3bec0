//! Carrying a Hub over to other storage while it stands still: from its own data directory to PostgreSQL and object
//! storage, or back. The source stays as it was. The target says that it is incomplete until everything was compared.

mod files;
mod homes;

use std::{path::PathBuf, time::Duration};

use crate::{
    Problem, TenantId,
    settings::Settings,
    storage::{
        checkpoints::CheckpointError,
        data_dir::{DataDir, DataDirError},
        encryption::{EncryptionError, SecretKey},
        objects::{ObjectError, Objects},
        state::{CopiedTable, OpenedState, StateError, StateOpenError},
    },
};

#[derive(Debug, thiserror::Error)]
pub enum MigrationError {
    #[error("source and target are both {0}: name PostgreSQL with object storage, or `sqlite:`")]
    SameKind(&'static str),
    #[error(
        "the node `{node}` has used this database {seconds} seconds ago: stop all nodes, and try again in half a minute"
    )]
    Running { node: String, seconds: u64 },
    #[error(
        "the target has data of a Hub: name an empty database, or one whose migration was interrupted"
    )]
    NotEmpty,
    #[error("`{path}` differs from its copy")]
    Different { path: String },
    #[error(
        "the home of the tenant `{tenant}` was not copied, because another program holds the tenant's lease in the target: stop it, and try again"
    )]
    Leased { tenant: TenantId },
    #[error("`{path}`: {source}")]
    Io {
        path: String,
        source: std::io::Error,
    },
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    #[error(transparent)]
    Open(#[from] StateOpenError),
    #[error(transparent)]
    Key(#[from] EncryptionError),
    #[error(transparent)]
    State(#[from] StateError),
    #[error(transparent)]
    Objects(#[from] ObjectError),
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    #[error(transparent)]
    Files(#[from] Problem),
}

#[derive(Debug, Default, Clone)]
pub struct MigrationReport {
    pub tables: Vec<CopiedTable>,
    pub shares: u64,
    pub share_files: u64,
    pub share_bytes: u64,
    /// Links in shares, which object storage does not have.
    pub skipped_links: u64,
    pub homes: u64,
}

/// Where a Hub is.
struct HubStorage {
    state: OpenedState,
    /// Absent if files are in the data directory.
    objects: Option<Objects>,
    data_dir: PathBuf,
    key: SecretKey,
}

/// Copies everything from where the first settings say to where the second ones do, and compares it. If it is
/// interrupted, the target is refused until it is done again.
pub async fn migrate_hub(
    from: &Settings,
    to: &Settings,
) -> Result<MigrationReport, MigrationError> {
    match (from.database.is_postgres(), to.database.is_postgres()) {
        (true, true) => return Err(MigrationError::SameKind("PostgreSQL")),
        (false, false) => return Err(MigrationError::SameKind("SQLite")),
        _ => {}
    }
    let directory = DataDir::create(&from.data_dir)?;
    let _lock = directory.lock()?;
    let node = match &from.node_id {
        Some(id) => id.clone(),
        None => directory.node_id()?,
    };
    let state = OpenedState::open(&from.database, &node).await?;
    refuse_running_nodes(&state, Duration::from_secs(from.lease_seconds)).await?;
    let key = SecretKey::load(&from.secret_key_file, &*state.shared()).await?;
    let source = HubStorage::new(state, from, key.clone())?;
    let state = OpenedState::open_any(&to.database, &node).await?;
    let target = HubStorage::new(state, to, key)?;
    let migrated = copy_hub(&source, &target).await;
    source.state.shared().close().await;
    target.state.shared().close().await;
    migrated
}

impl HubStorage {
    fn new(state: OpenedState, settings: &Settings, key: SecretKey) -> Result<Self, ObjectError> {
        let objects = if settings.database.is_postgres() {
            Some(Objects::open(&settings.objects)?)
        } else {
            None
        };
        Ok(Self {
            state,
            objects,
            data_dir: settings.data_dir.clone(),
            key,
        })
    }
}

/// The lock of a directory says nothing of nodes on other machines.
async fn refuse_running_nodes(state: &OpenedState, lease: Duration) -> Result<(), MigrationError> {
    let nodes = state.shared().nodes().await?;
    match nodes.into_iter().find(|node| node.unseen_for < lease * 2) {
        Some(node) => Err(MigrationError::Running {
            seconds: node.unseen_for.as_secs(),
            node: node.id,
        }),
        None => Ok(()),
    }
}

async fn copy_hub(from: &HubStorage, to: &HubStorage) -> Result<MigrationReport, MigrationError> {
    if !to.state.begin_migration().await? {
        return Err(MigrationError::NotEmpty);
    }
    // Events that have no number yet get one now.
    from.state.shared().hub_event_range().await?;
    let mut report = MigrationReport {
        tables: to.state.copy_tables_from(&from.state).await?,
        ..MigrationReport::default()
    };
    files::copy_shares(from, to, &mut report).await?;
    homes::copy_homes(from, to, &mut report).await?;
    to.state.finish_migration().await?;
    Ok(report)
}
