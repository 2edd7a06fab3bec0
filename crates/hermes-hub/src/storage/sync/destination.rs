//! Destinations of a sync: below an allowed root, and never overlapping with homes and shares.

use std::{
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use hermes_config::beneath::{DIRECTORY_FLAGS, SymlinkPolicy, open_beneath};
use rustix::{
    fs::{FlockOperation, Mode, flock, open},
    io::Errno,
};

use super::{ExtraFiles, SyncMode, SyncRequest, SyncRules};
use crate::{
    Problem,
    storage::files::{SharePath, make_directories, problem_from_errno},
};

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
        let place = real(&self.root).join(self.path.as_str());
        let data_dir = real(&rules.data_dir);
        let built_in = real(&rules.data_dir.join("sync"));
        let overlaps = |other: &Path| place.starts_with(other) || other.starts_with(&place);
        let is_protected = rules
            .protected
            .iter()
            .map(PathBuf::as_path)
            .chain([home])
            .any(|path| overlaps(&real(path)));
        if is_protected || (overlaps(&data_dir) && !place.starts_with(&built_in)) {
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
