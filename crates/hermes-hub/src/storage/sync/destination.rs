//! Destinations of a sync: below an allowed root, and never overlapping with homes and shares. The manifest that lies
//! there, `.hub-sync.json`, has a hash for every file, so that only unchanged files of an earlier sync are ever
//! deleted.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{Read, Write},
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
};

use hermes_config::beneath::{DIRECTORY_FLAGS, READ_FLAGS, SymlinkPolicy, open_beneath};
use rustix::{
    fs::{FlockOperation, Mode, flock, open},
    io::Errno,
};
use serde::{Deserialize, Serialize};

use super::{ExtraFiles, SyncMode, SyncRequest, SyncRules};
use crate::{
    Problem, TenantId,
    storage::files::{
        SharePath, create_temp_file, make_directories, persist, problem_from_errno, problem_from_io,
    },
};

pub(super) const MANIFEST_NAME: &str = ".hub-sync.json";
const VERSION: u32 = 1;
/// Larger than any real manifest.
const MAX_MANIFEST_BYTES: u64 = 256 << 20;

#[derive(Debug)]
pub(super) struct SyncDestination {
    root: PathBuf,
    path: SharePath,
    is_built_in: bool,
}

impl SyncDestination {
    /// Finds the root of a destination and checks that the request is allowed there.
    pub(super) fn resolve(rules: &SyncRules, request: &SyncRequest) -> Result<Self, Problem> {
        let destination = Self::find(rules, &request.destination)?;
        destination.check_overlap(rules, &request.home)?;
        if request.extras == ExtraFiles::Delete
            && (destination.is_built_in || destination.path.is_root())
        {
            return Err(Problem::denied(
                "`delete` needs a destination strictly beneath a root that `sync.allowed_roots` names",
            )
            .with_reason("sync_delete"));
        }
        Ok(destination)
    }

    fn find(rules: &SyncRules, text: &str) -> Result<Self, Problem> {
        let built_in = rules.data_dir.join("sync");
        if !text.starts_with('/') {
            return Ok(Self {
                root: built_in,
                path: parse_path(text)?,
                is_built_in: true,
            });
        }
        let roots = rules
            .allowed_roots
            .iter()
            .map(|root| (root, false))
            .chain([(&built_in, true)]);
        let mut best: Option<(usize, Self)> = None;
        for (root, is_built_in) in roots {
            let Some(rest) = strip_root(text, root) else {
                continue;
            };
            let length = root.as_os_str().len();
            if best.as_ref().is_none_or(|(longest, _)| length > *longest) {
                let below = parse_path(rest)?;
                let destination = Self {
                    root: root.clone(),
                    path: below,
                    is_built_in,
                };
                best = Some((length, destination));
            }
        }
        match best {
            Some((_, destination)) => Ok(destination),
            None => Err(Problem::denied(
                "the destination is outside all roots: the operator can add one to `sync.allowed_roots`",
            )
            .with_reason("sync_root")),
        }
    }

    /// Compares real paths: roots may be links, paths below them may not.
    fn check_overlap(&self, rules: &SyncRules, home: &Path) -> Result<(), Problem> {
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let path = real(&self.root).join(self.path.as_str());
        let data_dir = real(&rules.data_dir);
        let built_in = real(&rules.data_dir.join("sync"));
        let overlaps = |other: &Path| path.starts_with(other) || other.starts_with(&path);
        let is_protected = rules
            .protected
            .iter()
            .map(PathBuf::as_path)
            .chain([home])
            .any(|path| overlaps(&real(path)));
        if is_protected || (overlaps(&data_dir) && !path.starts_with(&built_in)) {
            return Err(Problem::precondition(
                "the destination overlaps with a home, a share or the Hub's own files: take another one",
            )
            .with_reason("overlap"));
        }
        Ok(())
    }

    /// Opens and locks the destination. A real run creates missing directories; a dry run returns `None` for them.
    pub(super) fn open(&self, run: SyncMode) -> Result<Option<OwnedFd>, Problem> {
        let fault = |error| problem_from_errno(error, &self.path);
        if self.is_built_in && run == SyncMode::Real {
            std::fs::create_dir_all(&self.root).map_err(|error| Problem::internal(&error))?;
        }
        let root = match (open(&self.root, DIRECTORY_FLAGS, Mode::empty()), run) {
            (Ok(root), _) => root,
            (Err(Errno::NOENT), SyncMode::Dry) => return Ok(None),
            (Err(Errno::NOENT | Errno::NOTDIR), _) => {
                return Err(Problem::precondition(
                    "the root of the destination is not a directory: the operator has to create it",
                )
                .with_reason("root_missing"));
            }
            (Err(error), _) => return Err(Problem::internal(&error)),
        };
        let directory = match run {
            SyncMode::Real => {
                let names: Vec<&str> = self.path.segments().collect();
                make_directories(root, &names, &mut 0).map_err(fault)?
            }
            SyncMode::Dry => {
                let path = self.path.as_str();
                match open_beneath(
                    &root,
                    path,
                    DIRECTORY_FLAGS,
                    Mode::empty(),
                    SymlinkPolicy::Refuse,
                ) {
                    Err(Errno::NOENT) => return Ok(None),
                    other => other.map_err(fault)?,
                }
            }
        };
        let how = match run {
            SyncMode::Real => FlockOperation::NonBlockingLockExclusive,
            SyncMode::Dry => FlockOperation::NonBlockingLockShared,
        };
        match flock(&directory, how) {
            Ok(()) => Ok(Some(directory)),
            Err(Errno::WOULDBLOCK) => Err(Problem::precondition(
                "another sync to this destination is running: try again when it is done",
            )
            .with_reason("already_running")),
            Err(error) => Err(fault(error)),
        }
    }
}

/// The rest of a path after its root, if it is below that root.
fn strip_root<'a>(text: &'a str, root: &Path) -> Option<&'a str> {
    let root = root.to_str()?.trim_end_matches('/');
    let rest = text.strip_prefix(root)?;
    (rest.is_empty() || rest.starts_with('/')).then(|| rest.trim_start_matches('/'))
}

fn parse_path(text: &str) -> Result<SharePath, Problem> {
    SharePath::parse(text).map_err(|mut problem| {
        for detail in &mut problem.details {
            "destination".clone_into(&mut detail.field);
        }
        problem
    })
}

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
