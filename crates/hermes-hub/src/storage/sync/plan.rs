//! The plan of a sync, made by comparing sizes and hashes, and its execution.

use std::{
    collections::BTreeSet,
    fs::File,
    io::{self, Read, Write},
    ops::ControlFlow,
    os::fd::{AsFd, OwnedFd},
};

use hermes_config::beneath::{DIRECTORY_FLAGS, READ_FLAGS, SymlinkPolicy, open_beneath};
use rustix::{
    fs::{AtFlags, FileType, Mode, fstat, fsync, unlinkat},
    io::Errno,
};
use sha2::{Digest, Sha256};

use super::{
    SkippedFile,
    destination::{MANIFEST_NAME, SyncManifest},
    is_secret,
};
use crate::{
    Problem, ProblemCode,
    api_types::ids::hex,
    storage::files::{
        EntryType, SharePath, Tree, create_temp_file, make_directories, persist,
        problem_from_errno, problem_from_io, walk_tree,
    },
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileAction {
    Copy,
    Update,
    Keep,
}

#[derive(Debug)]
pub(super) struct PlannedFile {
    pub(super) path: SharePath,
    pub(super) size: u64,
    hash: String,
    pub(super) action: FileAction,
}

#[derive(Debug, Default)]
pub(super) struct SyncPlan {
    pub(super) files: Vec<PlannedFile>,
    pub(super) deleted: BTreeSet<String>,
    pub(super) kept: BTreeSet<String>,
    pub(super) skipped: Vec<SkippedFile>,
}

impl SyncPlan {
    /// Compares a home with a destination, which may be missing.
    pub(super) fn build(
        home: &Tree,
        sources: &[String],
        destination: Option<&OwnedFd>,
        known: &SyncManifest,
    ) -> Result<Self, Problem> {
        let mut plan = Self::default();
        let mut paths = BTreeSet::new();
        for source in sources {
            let source = SharePath::parse(source).map_err(|problem| {
                Problem::new(
                    ProblemCode::Unprocessable,
                    format!("`sync.sources` names `{source}`: {problem}"),
                )
            })?;
            plan.collect_source(home, &source, &mut paths)?;
        }
        for path in &paths {
            plan.compare_file(home, path, destination)?;
        }
        if let Some(destination) = destination {
            plan.find_extras(destination, known)?;
        }
        Ok(plan)
    }

    /// Collects the files of a source, which may be missing.
    fn collect_source(
        &mut self,
        home: &Tree,
        source: &SharePath,
        paths: &mut BTreeSet<SharePath>,
    ) -> Result<(), Problem> {
        let mut take = |path: &str, entry_type: EntryType| {
            if entry_type == EntryType::Dir {
                return;
            }
            match SharePath::parse(path) {
                _ if is_secret(path) => self.skip(path, "secret"),
                _ if entry_type == EntryType::Symlink => self.skip(path, "symlink"),
                Ok(path) => {
                    paths.insert(path);
                }
                Err(_) => self.skip(path, "unreadable"),
            }
        };
        match home.open_dir(source, SymlinkPolicy::Refuse) {
            Ok(directory) => {
                let _ = walk_tree(directory, source.as_str(), &mut |entry| {
                    take(entry.path, entry.entry_type);
                    ControlFlow::Continue(())
                });
                Ok(())
            }
            Err(Errno::NOENT) => Ok(()),
            Err(Errno::NOTDIR) => {
                take(source.as_str(), EntryType::File);
                Ok(())
            }
            Err(Errno::LOOP) => {
                take(source.as_str(), EntryType::Symlink);
                Ok(())
            }
            Err(error) => Err(problem_from_errno(error, source)),
        }
    }

    fn compare_file(
        &mut self,
        home: &Tree,
        path: &SharePath,
        destination: Option<&OwnedFd>,
    ) -> Result<(), Problem> {
        let PathState::File(size, hash) = inspect_path(home.root(), path)? else {
            self.skip(path.as_str(), "unreadable");
            return Ok(());
        };
        let state = match destination {
            Some(destination) => inspect_path(destination, path)?,
            None => PathState::Vacant,
        };
        let action = match state {
            PathState::Vacant => FileAction::Copy,
            PathState::File(there, other) if there == size && other == hash => FileAction::Keep,
            PathState::File(..) => FileAction::Update,
            PathState::Occupied => {
                self.skip(path.as_str(), "occupied");
                return Ok(());
            }
        };
        self.files.push(PlannedFile {
            path: path.clone(),
            size,
            hash,
            action,
        });
        Ok(())
    }

    /// Files at the destination that are not in the plan: deletable if an earlier sync created them and they are
    /// unchanged.
    fn find_extras(&mut self, destination: &OwnedFd, known: &SyncManifest) -> Result<(), Problem> {
        let planned: BTreeSet<String> = self
            .files
            .iter()
            .map(|file| file.path.as_str().to_owned())
            .collect();
        let mut extras = Vec::new();
        let directory = open_beneath(
            destination,
            "",
            DIRECTORY_FLAGS,
            Mode::empty(),
            SymlinkPolicy::Refuse,
        )
        .map_err(|error| problem_from_errno(error, &SharePath::root()))?;
        let _ = walk_tree(directory, "", &mut |entry| {
            let is_extra = entry.entry_type != EntryType::Dir
                && entry.path != MANIFEST_NAME
                && !planned.contains(entry.path);
            if is_extra {
                extras.push((entry.path.to_owned(), entry.entry_type));
            }
            ControlFlow::Continue(())
        });
        for (path, entry_type) in extras {
            let is_ours = match (known.files.get(&path), entry_type) {
                (Some(ours), EntryType::File) => {
                    let state = inspect_path(destination, &SharePath::parse(&path)?)?;
                    matches!(state, PathState::File(_, hash) if hash == *ours)
                }
                _ => false,
            };
            if is_ours {
                self.deleted.insert(path);
            } else {
                self.kept.insert(path);
            }
        }
        Ok(())
    }

    pub(super) fn keep_all(&mut self) {
        self.kept.append(&mut self.deleted);
    }

    /// Copies missing and changed files. A file that changed since the plan is copied as it is now.
    pub(super) fn copy(&mut self, home: &Tree, destination: &OwnedFd) -> Result<(), Problem> {
        let mut gone = Vec::new();
        for (index, file) in self.files.iter_mut().enumerate() {
            if file.action == FileAction::Keep {
                continue;
            }
            match copy_file(home, destination, &file.path) {
                Ok(Some((size, hash))) => (file.size, file.hash) = (size, hash),
                Ok(None) => gone.push(index),
                Err(error) => return Err(problem_from_io(&error, &file.path)),
            }
        }
        for index in gone.into_iter().rev() {
            let file = self.files.remove(index);
            self.skip(file.path.as_str(), "unreadable");
        }
        Ok(())
    }

    pub(super) fn delete(&self, destination: &OwnedFd) -> Result<(), Problem> {
        for path in &self.deleted {
            let path = SharePath::parse(path)?;
            let Some((parent, name)) = path.split() else {
                continue;
            };
            let parent = parent.as_str();
            let removed = open_beneath(
                destination,
                parent,
                DIRECTORY_FLAGS,
                Mode::empty(),
                SymlinkPolicy::Refuse,
            )
            .and_then(|parent| {
                unlinkat(&parent, name, AtFlags::empty())?;
                fsync(&parent)
            });
            match removed {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(problem_from_errno(error, &path)),
            }
        }
        Ok(())
    }

    /// The new manifest: all files of the home, and kept files of earlier syncs.
    pub(super) fn manifest(&self, known: &SyncManifest) -> SyncManifest {
        let mut manifest = known.clone();
        manifest.files.retain(|path, _| self.kept.contains(path));
        for file in &self.files {
            manifest
                .files
                .insert(file.path.as_str().to_owned(), file.hash.clone());
        }
        manifest
    }

    fn skip(&mut self, path: &str, reason: &'static str) {
        self.skipped.push(SkippedFile {
            path: path.to_owned(),
            reason,
        });
    }
}

enum PathState {
    Vacant,
    /// A regular file with its size and hash.
    File(u64, String),
    /// Another type of file, or one in its path.
    Occupied,
}

fn inspect_path(root: impl AsFd, path: &SharePath) -> Result<PathState, Problem> {
    match open_regular(root, path) {
        Ok(Some(mut file)) => copy_hashed(&mut file, &mut io::sink())
            .map(|(size, hash)| PathState::File(size, hash))
            .map_err(|error| problem_from_io(&error, path)),
        Err(Errno::NOENT) => Ok(PathState::Vacant),
        Ok(None) | Err(Errno::NOTDIR | Errno::LOOP | Errno::ACCESS | Errno::NXIO) => {
            Ok(PathState::Occupied)
        }
        Err(error) => Err(problem_from_errno(error, path)),
    }
}

/// Opens a file for reading, if it is a regular one.
fn open_regular(root: impl AsFd, path: &SharePath) -> Result<Option<File>, Errno> {
    let file = open_beneath(
        root,
        path.as_str(),
        READ_FLAGS,
        Mode::empty(),
        SymlinkPolicy::Refuse,
    )?;
    let is_file = FileType::from_raw_mode(fstat(&file)?.st_mode) == FileType::RegularFile;
    Ok(is_file.then(|| File::from(file)))
}

/// Copies a file; `None` if it is no longer a regular file.
fn copy_file(
    home: &Tree,
    destination: &OwnedFd,
    path: &SharePath,
) -> io::Result<Option<(u64, String)>> {
    let mut source = match open_regular(home.root(), path) {
        Ok(Some(source)) => source,
        Ok(None) | Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let Some((parent, name)) = path.split() else {
        return Ok(None);
    };
    let names: Vec<&str> = parent.segments().collect();
    let top = open_beneath(
        destination,
        "",
        DIRECTORY_FLAGS,
        Mode::empty(),
        SymlinkPolicy::Refuse,
    )?;
    let directory = make_directories(top, &names, &mut 0)?;
    let mut draft = create_temp_file(directory.as_fd())?;
    let copied = copy_hashed(&mut source, &mut draft.file)?;
    persist(draft, directory.as_fd(), name)?;
    Ok(Some(copied))
}

/// Copies to a writer; returns size and SHA-256.
fn copy_hashed(file: &mut File, writer: &mut dyn Write) -> io::Result<(u64, String)> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 64 * 1024];
    let mut size = 0;
    loop {
        let read = match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        hasher.update(&buffer[..read]);
        writer.write_all(&buffer[..read])?;
        size += read as u64;
    }
    Ok((size, hex(&hasher.finalize())))
}
