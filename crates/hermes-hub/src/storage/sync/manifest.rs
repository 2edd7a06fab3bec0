//! The manifest of a sync, `.hub-sync.json`, with a hash for every file, so that only unchanged files of an earlier
//! sync are ever deleted.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{Read, Write},
    os::fd::{AsFd, OwnedFd},
};

use hermes_config::beneath::{READ_FLAGS, SymlinkPolicy, open_beneath};
use rustix::{fs::Mode, io::Errno};
use serde::{Deserialize, Serialize};

use crate::{
    Problem, TenantId,
    storage::files::{SharePath, create_temp_file, persist, problem_from_errno, problem_from_io},
};

pub(super) const MANIFEST_NAME: &str = ".hub-sync.json";
const VERSION: u32 = 1;
/// Larger than any real manifest.
const MAX_MANIFEST_BYTES: u64 = 256 << 20;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SyncManifest {
    version: u32,
    pub(super) tenant: String,
    /// SHA-256 hashes by path.
    pub(super) files: BTreeMap<String, String>,
}

impl SyncManifest {
    pub(super) fn new(tenant: &TenantId) -> Self {
        Self {
            version: VERSION,
            tenant: tenant.as_str().to_owned(),
            files: BTreeMap::new(),
        }
    }
}

/// Reads the manifest of a destination, which must belong to this tenant.
pub(super) fn read_manifest(
    destination: &OwnedFd,
    tenant: &TenantId,
) -> Result<SyncManifest, Problem> {
    let file = match open_beneath(
        destination,
        MANIFEST_NAME,
        READ_FLAGS,
        Mode::empty(),
        SymlinkPolicy::Refuse,
    ) {
        Ok(file) => File::from(file),
        Err(Errno::NOENT) => return Ok(SyncManifest::new(tenant)),
        Err(error) => return Err(problem_from_errno(error, &manifest_path())),
    };
    let mut content = Vec::new();
    file.take(MAX_MANIFEST_BYTES)
        .read_to_end(&mut content)
        .map_err(|error| problem_from_io(&error, &manifest_path()))?;
    let manifest: SyncManifest = serde_json::from_slice(&content)
        .ok()
        .filter(|manifest: &SyncManifest| manifest.version == VERSION)
        .ok_or_else(|| {
            Problem::precondition(
                "`.hub-sync.json` at the destination is damaged or newer than this Hub: remove it, or take another \
                 destination",
            )
            .with_reason("manifest")
        })?;
    if manifest.tenant != tenant.as_str() {
        return Err(Problem::precondition(
            "the destination belongs to another tenant: take another one",
        )
        .with_reason("foreign_manifest"));
    }
    Ok(manifest)
}

pub(super) fn write_manifest(
    destination: &OwnedFd,
    manifest: &SyncManifest,
) -> Result<(), Problem> {
    let content = serde_json::to_vec_pretty(manifest).map_err(|error| Problem::internal(&error))?;
    let written = create_temp_file(destination.as_fd()).and_then(|mut draft| {
        draft.file.write_all(&content)?;
        persist(draft, destination.as_fd(), MANIFEST_NAME)
    });
    match written {
        Ok(_) => Ok(()),
        Err(error) => Err(problem_from_io(&error, &manifest_path())),
    }
}

fn manifest_path() -> SharePath {
    SharePath::parse(MANIFEST_NAME).unwrap_or_else(|_| SharePath::root())
}
