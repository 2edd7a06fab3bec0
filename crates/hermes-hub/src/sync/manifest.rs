//! The manifest of a sync, `.hub-sync.json`, with a hash for every file, so that only unchanged files of an earlier
//! sync are ever deleted.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{Read, Write},
    os::fd::{AsFd, OwnedFd},
};

use rustix::{fs::Mode, io::Errno};
use serde::{Deserialize, Serialize};

use crate::{
    Problem, TenantId,
    files::{Draft, Links, READ, SharePath, io_problem, open_beneath, problem},
};

pub(super) const NAME: &str = ".hub-sync.json";
const VERSION: u32 = 1;
/// Larger than any real manifest.
const LARGEST: u64 = 256 << 20;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Manifest {
    version: u32,
    pub(super) tenant: String,
    /// SHA-256 hashes by path.
    pub(super) files: BTreeMap<String, String>,
}

impl Manifest {
    pub(super) fn new(tenant: &TenantId) -> Self {
        Self {
            version: VERSION,
            tenant: tenant.as_str().to_owned(),
            files: BTreeMap::new(),
        }
    }
}

/// Reads the manifest of a destination, which must belong to this tenant.
pub(super) fn read(destination: &OwnedFd, tenant: &TenantId) -> Result<Manifest, Problem> {
    let file = match open_beneath(destination, NAME, READ, Mode::empty(), Links::Refuse) {
        Ok(file) => File::from(file),
        Err(Errno::NOENT) => return Ok(Manifest::new(tenant)),
        Err(error) => return Err(problem(error, &path())),
    };
    let mut content = Vec::new();
    file.take(LARGEST)
        .read_to_end(&mut content)
        .map_err(|error| io_problem(&error, &path()))?;
    let manifest: Manifest = serde_json::from_slice(&content)
        .ok()
        .filter(|manifest: &Manifest| manifest.version == VERSION)
        .ok_or_else(|| {
            Problem::precondition(
                "`.hub-sync.json` at the destination is damaged or newer than this Hub: remove it, or take another \
                 destination",
            )
            .because("manifest")
        })?;
    if manifest.tenant != tenant.as_str() {
        return Err(Problem::precondition(
            "the destination belongs to another tenant: take another one",
        )
        .because("foreign_manifest"));
    }
    Ok(manifest)
}

pub(super) fn write(destination: &OwnedFd, manifest: &Manifest) -> Result<(), Problem> {
    let content = serde_json::to_vec_pretty(manifest).map_err(|error| Problem::internal(&error))?;
    let written = Draft::create(destination.as_fd()).and_then(|mut draft| {
        draft.file.write_all(&content)?;
        draft.place(NAME)
    });
    match written {
        Ok(_) => Ok(()),
        Err(error) => Err(io_problem(&error, &path())),
    }
}

fn path() -> SharePath {
    SharePath::parse(NAME).unwrap_or_else(|_| SharePath::root())
}
