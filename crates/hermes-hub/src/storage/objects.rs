//! Object storage: a bucket of S3 or of a server that speaks its protocol, or a directory.
//!
//! Objects are never changed. They are created if absent, so that of two nodes that create one name only one can win;
//! what points to them is a row of the database. Nothing here knows what they contain.

mod error;
mod http;
mod location;

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _};
use object_store::{
    ObjectStore, ObjectStoreExt as _, PutMode, PutOptions, PutPayload, path::Path as ObjectPath,
};

use crate::{api_types::Time, settings::ObjectSettings};

pub use error::ObjectError;
pub use location::ObjectLocation;

/// A racing create, or a reply that was lost: the next attempt finds out.
const CREATE_ATTEMPTS: u32 = 6;
const CREATE_RETRY_INTERVAL: Duration = Duration::from_millis(50);
/// A name that no object has.
const PROBE: &str = "probe";

/// How long requests to object storage may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectTimeouts {
    pub connect: Duration,
    /// Without a byte.
    pub idle: Duration,
    /// One operation with its retries.
    pub operation: Duration,
}

impl Default for ObjectTimeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            idle: Duration::from_secs(10),
            operation: Duration::from_mins(1),
        }
    }
}

/// What an object with the same name contains.
#[derive(Debug, Clone, Copy)]
enum ExistingObject {
    /// The same, because its name says so.
    Same,
    /// That is to be found out.
    Compare,
}

/// An object in a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedObject {
    pub name: String,
    pub size: u64,
    pub created_at: Time,
}

/// Object storage below a prefix. Clones share connections.
#[derive(Clone)]
pub struct Objects {
    store: Arc<dyn ObjectStore>,
    prefix: ObjectPath,
    timeouts: ObjectTimeouts,
    /// As it may be shown.
    shown: Arc<str>,
}

impl fmt::Debug for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Objects").field(&self.shown).finish()
    }
}

impl Objects {
    /// Opens what the settings name. Sends nothing yet.
    pub fn open(settings: &ObjectSettings) -> Result<Self, ObjectError> {
        Self::open_with(settings, ObjectTimeouts::default())
    }

    pub fn open_with(
        settings: &ObjectSettings,
        timeouts: ObjectTimeouts,
    ) -> Result<Self, ObjectError> {
        let location = ObjectLocation::parse(&settings.url)?;
        let (store, prefix) = location.open(settings, timeouts)?;
        Ok(Self {
            store,
            prefix,
            timeouts,
            shown: location.to_string().into(),
        })
    }

    /// Reads something that is not there: says whether the storage answers and takes the keys.
    pub async fn check(&self) -> Result<(), ObjectError> {
        match self.get(PROBE).await {
            Ok(_) | Err(ObjectError::Missing { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Creates an object whose name says what it contains. One that is there already is as good.
    pub async fn create_blob(&self, name: &str, content: Bytes) -> Result<(), ObjectError> {
        self.create_as(name, content, ExistingObject::Same).await
    }

    /// Creates an object. If there is one, it must have the same content: the reply to an earlier attempt was lost.
    pub async fn create(&self, name: &str, content: Bytes) -> Result<(), ObjectError> {
        self.create_as(name, content, ExistingObject::Compare).await
    }

    async fn create_as(
        &self,
        name: &str,
        content: Bytes,
        existing: ExistingObject,
    ) -> Result<(), ObjectError> {
        let mut attempt = 1;
        loop {
            let failed = match self.put(name, content.clone()).await {
                Ok(()) => return Ok(()),
                Err(error @ ObjectError::Exists { .. }) => {
                    match self.is_same(name, &content, existing).await {
                        Ok(true) => return Ok(()),
                        Ok(false) => return Err(error),
                        // The other create has not ended yet, or it failed.
                        Err(ObjectError::Missing { .. }) => error,
                        Err(other) => other,
                    }
                }
                Err(error) => error,
            };
            if attempt == CREATE_ATTEMPTS || !failed.is_worth_a_retry() {
                return Err(failed);
            }
            tokio::time::sleep(CREATE_RETRY_INTERVAL * attempt).await;
            attempt += 1;
        }
    }

    /// Whether an object is what would be created. It may be missing after all: another create has not ended yet.
    async fn is_same(
        &self,
        name: &str,
        content: &Bytes,
        existing: ExistingObject,
    ) -> Result<bool, ObjectError> {
        match existing {
            ExistingObject::Same => self.size(name).await.map(|_| true),
            ExistingObject::Compare => Ok(self.get(name).await? == *content),
        }
    }

    async fn put(&self, name: &str, content: Bytes) -> Result<(), ObjectError> {
        let options = PutOptions {
            mode: PutMode::Create,
            ..PutOptions::default()
        };
        let path = self.path(name);
        let put = self
            .store
            .put_opts(&path, PutPayload::from_bytes(content), options);
        self.within_timeout(name, put).await.map(drop)
    }

    /// The whole content.
    pub async fn get(&self, name: &str) -> Result<Bytes, ObjectError> {
        let path = self.path(name);
        let read = async {
            let found = self.store.get(&path).await?;
            let size = found.meta.size;
            Ok((found.bytes().await?, size))
        };
        let (content, size) = self.within_timeout(name, read).await?;
        if content.len() as u64 != size {
            return Err(ObjectError::Damaged {
                name: name.to_owned(),
            });
        }
        Ok(content)
    }

    pub async fn size(&self, name: &str) -> Result<u64, ObjectError> {
        let path = self.path(name);
        let head = self.store.head(&path);
        Ok(self.within_timeout(name, head).await?.size)
    }

    /// Deletes an object; one that is not there is as good.
    pub async fn delete(&self, name: &str) -> Result<(), ObjectError> {
        let path = self.path(name);
        match self.within_timeout(name, self.store.delete(&path)).await {
            Err(ObjectError::Missing { .. }) => Ok(()),
            other => other,
        }
    }

    /// The objects below a directory, up to so many.
    pub async fn list(
        &self,
        directory: &str,
        most: usize,
    ) -> Result<Vec<ListedObject>, ObjectError> {
        let path = self.path(directory);
        let prefix = self.prefix.as_ref().len() + usize::from(!self.prefix.as_ref().is_empty());
        let listed = self
            .store
            .list(Some(&path))
            .take(most)
            .map_ok(|found| ListedObject {
                name: found.location.as_ref()[prefix..].to_owned(),
                size: found.size,
                created_at: Time::from_millis(found.last_modified.timestamp_millis()),
            })
            .try_collect();
        self.within_timeout(directory, listed).await
    }

    fn path(&self, name: &str) -> ObjectPath {
        name.split('/').fold(self.prefix.clone(), ObjectPath::join)
    }

    async fn within_timeout<T>(
        &self,
        name: &str,
        work: impl Future<Output = object_store::Result<T>>,
    ) -> Result<T, ObjectError> {
        match tokio::time::timeout(self.timeouts.operation, work).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(error::classify(name, &error)),
            Err(_) => Err(ObjectError::Slow {
                storage: self.shown.to_string(),
            }),
        }
    }
}
