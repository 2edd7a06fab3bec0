//! Contents of files in object storage, each under the hash of what it contains.

use std::{fs::File, io, path::Path, sync::Arc, time::Duration};

use bytes::Bytes;
use sha2::{Digest, Sha256};

use super::blob_cache::BlobCache;
use crate::{
    Problem,
    api_types::ids::hex,
    storage::{
        files::directory::run_blocking,
        objects::{ObjectError, Objects},
        state::{BlobRef, ShareIndexStore, StateError},
    },
};

/// On the local disk.
const CACHE_BYTES: u64 = 1 << 30;
/// A blob that nothing refers to stays this long: whoever has written it may be about to refer to it.
const UNUSED_GRACE: Duration = Duration::from_hours(24);
const REMOVAL_PORTION: usize = 500;

/// The blobs of all shares.
pub struct BlobStore {
    objects: Objects,
    index: Arc<dyn ShareIndexStore>,
    cache: Arc<BlobCache>,
}

impl BlobStore {
    /// Blobs are cached in this directory. Blocking.
    pub fn open(
        objects: Objects,
        index: Arc<dyn ShareIndexStore>,
        cache: &Path,
    ) -> io::Result<Self> {
        Ok(Self {
            objects,
            index,
            cache: Arc::new(BlobCache::open(cache, CACHE_BYTES)?),
        })
    }

    /// Writes a blob, to be referred to soon.
    pub async fn put(&self, content: Bytes) -> Result<BlobRef, Problem> {
        let hashed = content.clone();
        let hash = run_blocking(move || Ok(hex(&Sha256::digest(&hashed)))).await?;
        let names = self.index.touch_blobs(&[hash]).await?;
        let name = names.into_iter().next().unwrap_or_default();
        let blob = BlobRef {
            name,
            size: content.len() as u64,
        };
        self.objects
            .create_blob(&object_name(&blob.name), content)
            .await?;
        Ok(blob)
    }

    /// The content of a blob, checked against its hash.
    pub async fn read(&self, blob: &BlobRef) -> Result<Bytes, ObjectError> {
        let name = object_name(&blob.name);
        let content = self.objects.get(&name).await?;
        let hashed = content.clone();
        let hash = run_blocking(move || Ok(hex(&Sha256::digest(&hashed)))).await;
        if hash.is_ok_and(|hash| hash == blob.hash()) {
            return Ok(content);
        }
        Err(ObjectError::Damaged { name })
    }

    /// Opens a blob as a local file.
    pub async fn open_file(&self, blob: &BlobRef) -> Result<File, ObjectError> {
        let (cache, wanted) = (Arc::clone(&self.cache), blob.clone());
        let cached = run_blocking(move || Ok(cache.get(&wanted))).await;
        if let Ok(Some(file)) = cached {
            return Ok(file);
        }
        let content = self.read(blob).await?;
        let (cache, wanted) = (Arc::clone(&self.cache), blob.clone());
        let kept = tokio::task::spawn_blocking(move || cache.insert(&wanted, &content)).await;
        kept.map_err(io::Error::other)
            .flatten()
            .map_err(|error| ObjectError::Failing {
                reply: format!("the cache on the local disk: {error}"),
            })
    }

    /// Deletes blobs that nothing has referred to for a day. Returns how many.
    pub async fn remove_unused(&self) -> Result<u64, BlobRemovalError> {
        self.remove_unused_for(UNUSED_GRACE).await
    }

    pub async fn remove_unused_for(&self, grace: Duration) -> Result<u64, BlobRemovalError> {
        self.index.condemn_blobs(grace, REMOVAL_PORTION).await?;
        let names = self.index.condemned_blobs(REMOVAL_PORTION).await?;
        for name in &names {
            self.objects.delete(&object_name(name)).await?;
        }
        self.index.forget_condemned(&names).await?;
        Ok(names.len() as u64)
    }

    /// Whether object storage answers.
    pub async fn check(&self) -> Result<(), ObjectError> {
        self.objects.check().await
    }
}

#[derive(Debug, thiserror::Error)]
pub enum BlobRemovalError {
    #[error(transparent)]
    Objects(#[from] ObjectError),
    #[error(transparent)]
    State(#[from] StateError),
}

/// In 256 directories, for file systems.
fn object_name(name: &str) -> String {
    let (directory, _) = name.split_at_checked(2).unwrap_or_default();
    format!("blobs/{directory}/{name}")
}
