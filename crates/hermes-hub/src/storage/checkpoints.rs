//! Checkpoints of homes in object storage. The node that holds a tenant's lease works on a home on its own disk; what it
//! acknowledges is in a checkpoint before, and the node that takes the lease next restores that.
//!
//! A checkpoint is a manifest, the list of all files, and the chunks of their contents. Chunks have the name of their
//! content, so that a file that grows costs what was added. Chunks and manifests are encrypted with the Hub's secret
//! key, and their names say nothing of the contents either. The row in the database, which is written last and only
//! while the lease is held, is what makes a checkpoint the latest one: a node that was cut off writes chunks that
//! nobody refers to, under names of its own epoch, and nothing else.

mod database;
mod limit;
mod manifest;
mod orphans;
mod prune;
mod restore;
mod save;
mod scan;
mod sparse;

use std::{
    collections::{HashMap, HashSet},
    fmt, io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use hermes_config::sync::Mutex;
use sha2::{Digest, Sha256};

use crate::{
    Problem, ProblemCode, TenantId,
    api_types::ids::hex,
    storage::{
        encryption::{EncryptionContext, EncryptionError, SecretKey},
        objects::{ObjectError, Objects},
        state::{CheckpointId, CheckpointStore, LEASE_LOST, LeaseEpoch, StateError},
    },
};
pub use limit::HomeLimit;
use manifest::{HomeManifest, KnownChunks};
pub use orphans::ORPHAN_AGE;
pub use restore::RestoreOutcome;
use scan::FileCache;

/// Contents are split into chunks of this size.
const CHUNK_BYTES: usize = 1 << 20;

/// The reason of a problem: the home has more than is saved.
pub(crate) const HOME_TOO_LARGE: &str = "home_too_large";

/// A tenant's home.
#[derive(Debug, Clone, Copy)]
pub struct HomeRef<'a> {
    pub tenant: &'a TenantId,
    pub uid: &'a str,
    pub path: &'a Path,
}

/// Why there is no checkpoint, or why it cannot be restored.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    #[error("`{path}`: {source}")]
    Home { path: String, source: io::Error },
    #[error(
        "the home has more than {} bytes or {} files, and is not saved any more: remove files from it, or raise \
         `storage.quotaBytes` or `storage.filesQuota`",
        limit.bytes, limit.files
    )]
    TooLarge { limit: HomeLimit },
    #[error("the checkpoint {id} is damaged: {reason}")]
    Damaged { id: String, reason: String },
    #[error(transparent)]
    Objects(#[from] ObjectError),
    #[error(transparent)]
    State(#[from] StateError),
    #[error(transparent)]
    Encryption(#[from] EncryptionError),
    #[error("the work on a checkpoint was interrupted")]
    Interrupted,
}

impl CheckpointError {
    /// Whether another node has taken the tenant's lease.
    pub fn is_lease_lost(&self) -> bool {
        matches!(self, Self::State(StateError::Conflict { reason, .. }) if *reason == LEASE_LOST)
    }
}

impl From<CheckpointError> for Problem {
    fn from(error: CheckpointError) -> Self {
        match error {
            CheckpointError::TooLarge { .. } => {
                Self::new(ProblemCode::OutOfSpace, error.to_string()).with_reason(HOME_TOO_LARGE)
            }
            CheckpointError::Home { ref source, .. } if is_disk_full(source) => {
                tracing::warn!(%error, "the disk of this node is full");
                Self::new(
                    ProblemCode::OutOfSpace,
                    "the disk of the Hub's node is full; tell its operator",
                )
                .with_reason("disk_full")
            }
            CheckpointError::Objects(error) => error.into(),
            CheckpointError::State(error) => error.into(),
            other => Self::internal(&other),
        }
    }
}

fn is_disk_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

/// A checkpoint that was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SavedCheckpoint {
    pub id: CheckpointId,
    pub files: u64,
    /// Without the holes of files.
    pub bytes: u64,
    /// Chunks that were not there before.
    pub new_chunks: u64,
}

/// The checkpoints of all homes that this node works on.
pub struct Checkpoints {
    objects: Objects,
    rows: Arc<dyn CheckpointStore>,
    key: SecretKey,
    homes: Mutex<HashMap<String, Arc<HomeSlot>>>,
    /// Homes that saves may have left something of that was never recorded, by uid.
    unswept: Mutex<HashSet<String>>,
}

impl fmt::Debug for Checkpoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Checkpoints")
            .field("objects", &self.objects)
            .finish_non_exhaustive()
    }
}

/// One home: its checkpoints are made one after the other.
#[derive(Default)]
struct HomeSlot {
    /// How many were asked for.
    requests: AtomicU64,
    state: tokio::sync::Mutex<HomeState>,
}

#[derive(Default)]
struct HomeState {
    /// The latest checkpoint, once it is known.
    latest: Option<LatestCheckpoint>,
    /// Requests that it covers.
    covered: u64,
    files: FileCache,
    was_too_large: bool,
    /// Since the last time that old ones were removed.
    saves: u32,
}

struct LatestCheckpoint {
    saved: SavedCheckpoint,
    manifest_sha256: String,
    manifest: HomeManifest,
    chunks: KnownChunks,
}

impl Checkpoints {
    pub fn new(objects: Objects, rows: Arc<dyn CheckpointStore>, key: SecretKey) -> Self {
        Self {
            objects,
            rows,
            key,
            homes: Mutex::default(),
            unswept: Mutex::default(),
        }
    }

    /// Makes a checkpoint of everything that is in the home now. It is the latest one when this returns; without the
    /// lease, it never is. Saving what has not changed costs a look at the files. A home that has more than the limit is
    /// refused, and its latest checkpoint stays. Dropped, it stops at the next chunk.
    pub async fn save(
        &self,
        home: HomeRef<'_>,
        epoch: LeaseEpoch,
        limit: HomeLimit,
    ) -> Result<SavedCheckpoint, CheckpointError> {
        let slot = self.slot(home.uid);
        let request = slot.requests.fetch_add(1, Ordering::SeqCst) + 1;
        let mut state = slot.state.lock().await;
        if let Some(latest) = &state.latest
            && state.covered >= request
            && latest.saved.id.epoch == epoch
        {
            // Somebody else has saved since this was asked for.
            return Ok(latest.saved);
        }
        let covered = slot.requests.load(Ordering::SeqCst);
        let saved = self.save_home(home, epoch, limit, &mut state).await?;
        state.covered = covered;
        Ok(saved)
    }

    /// Puts the latest checkpoint in the place of the home. The home is the one or the other, never a mixture. If this
    /// node has made the latest checkpoint itself, the home stays as it is.
    pub async fn restore(&self, home: HomeRef<'_>) -> Result<RestoreOutcome, CheckpointError> {
        let slot = self.slot(home.uid);
        let mut state = slot.state.lock().await;
        *state = HomeState::default();
        self.restore_home(home, &mut state).await
    }

    /// Forgets what is known of a home, when its lease is given up or lost: the next restore trusts nothing on the disk
    /// if `is_lost`.
    pub async fn release(&self, home: HomeRef<'_>, is_lost: bool) {
        self.homes.lock().remove(home.uid);
        if is_lost {
            restore::remove_marker(home.path).await;
        }
    }

    fn slot(&self, uid: &str) -> Arc<HomeSlot> {
        let mut homes = self.homes.lock();
        Arc::clone(homes.entry(uid.to_owned()).or_default())
    }

    /// Reads a manifest that a row names.
    async fn read_manifest(
        &self,
        uid: &str,
        id: CheckpointId,
        sha256: &str,
    ) -> Result<HomeManifest, CheckpointError> {
        let sealed = self.objects.get(&manifest_name(uid, id)).await?;
        let damaged = |reason: &str| CheckpointError::Damaged {
            id: id.to_string(),
            reason: reason.to_owned(),
        };
        if hex(&Sha256::digest(&sealed)) != sha256 {
            return Err(damaged("its manifest is not the one that was recorded"));
        }
        let context = EncryptionContext::manifest(uid, &id.to_string());
        let packed = self
            .key
            .decrypt_bytes(&context, &sealed)
            .map_err(|_| damaged("its manifest cannot be decrypted"))?;
        HomeManifest::unpack(&packed).map_err(|error| damaged(&error.to_string()))
    }

    async fn write_manifest(
        &self,
        uid: &str,
        id: CheckpointId,
        manifest: &HomeManifest,
    ) -> Result<String, CheckpointError> {
        let packed = manifest.pack().map_err(|source| CheckpointError::Home {
            path: "manifest".into(),
            source,
        })?;
        let context = EncryptionContext::manifest(uid, &id.to_string());
        let sealed = self.key.encrypt_bytes(&context, &packed)?;
        let sha256 = hex(&Sha256::digest(&sealed));
        self.objects
            .create(&manifest_name(uid, id), Bytes::from(sealed))
            .await?;
        Ok(sha256)
    }
}

fn home_directory(uid: &str) -> String {
    format!("homes/{uid}")
}

fn manifest_name(uid: &str, id: CheckpointId) -> String {
    format!("{}/ckpt/{id}", home_directory(uid))
}

fn chunk_name(uid: &str, epoch: u64, name: &str) -> String {
    format!("{}/chunks/{epoch}/{name}", home_directory(uid))
}
