//! The trash of a share: what is in it, and how it comes back. Beside each removed thing lies a small file that says
//! from where it came.

use std::{
    fs::File,
    io::{Read, Write},
    os::fd::OwnedFd,
    path::Path,
};

use hermes_config::beneath::{DIRECTORY_FLAGS, open_directory};
use jiff::Timestamp;
use rustix::{
    fs::{
        AtFlags, Dir, FileType, Mode, OFlags, RenameFlags, fsync, openat, renameat_with, statat,
        unlinkat,
    },
    io::Errno,
};

use super::{SharedDirectory, count};
use crate::{
    Problem,
    storage::files::{
        EntryType, FileEntry, SharePath, TRASH_ENTRIES, TrashedEntry, TreeUsage, problems, tree,
    },
};

const ORIGIN_SUFFIX: &str = ".origin";
/// A path, at most.
const MAX_ORIGIN_BYTES: u64 = 4096;

/// The name of a share in its trash: the directory's.
pub(super) fn trash_label(root: &Path) -> String {
    let name = root.file_name().and_then(|name| name.to_str());
    name.unwrap_or_default().to_owned()
}

fn origin_name(id: &str, share: &str) -> String {
    format!("{id}.{share}{ORIGIN_SUFFIX}")
}

/// Whether a name in the trash is that of a note about something else there.
pub(super) fn is_origin(name: &str) -> bool {
    name.ends_with(ORIGIN_SUFFIX)
}

/// Forgets from where the files of a deleted group came: another group of that name is not given them. Blocking.
pub fn forget_origins(trash: &Path, share: &str) -> std::io::Result<()> {
    let suffix = origin_name("", share);
    for entry in std::fs::read_dir(trash)? {
        let entry = entry?;
        let name = entry.file_name();
        if name.to_str().is_some_and(|name| name.ends_with(&suffix)) {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

impl SharedDirectory {
    /// Notes from where something comes, before it goes to the trash under a name.
    pub(super) fn write_origin(
        &self,
        trash: &OwnedFd,
        id: &str,
        path: &SharePath,
    ) -> Result<(), Problem> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let name = origin_name(id, &self.label);
        let note = openat(trash, name, flags, Mode::RUSR | Mode::WUSR);
        let mut note = File::from(note.map_err(Self::problem_for(path))?);
        note.write_all(path.as_str().as_bytes())
            .and_then(|()| note.sync_data())
            .map_err(|error| problems::problem_from_io(&error, path))
    }

    pub(super) fn forget_origin(&self, trash: &OwnedFd, id: &str) {
        // What stays is ignored without its content, and emptied in time.
        let _ = unlinkat(trash, origin_name(id, &self.label), AtFlags::empty());
    }

    /// What was removed from this share, the newest first.
    pub(super) fn list_trash(&self) -> Result<Vec<TrashedEntry>, Problem> {
        let root = SharePath::root();
        let Some(trash) = &self.trash else {
            return Ok(Vec::new());
        };
        let fault = Self::problem_for(&root);
        let opened = openat(trash, ".", DIRECTORY_FLAGS, Mode::empty()).map_err(&fault)?;
        let (_, names) = Dir::new(opened)
            .and_then(tree::read_entries)
            .map_err(&fault)?;
        let suffix = origin_name("", &self.label);
        let mut ids: Vec<(i64, String)> = names
            .iter()
            .filter_map(|entry| entry.name.to_str().ok()?.strip_suffix(&suffix))
            .filter_map(|id| Some((removal_time(id)?, id.to_owned())))
            .collect();
        ids.sort_unstable_by(|one, other| other.cmp(one));
        let found = ids.iter().filter_map(|(_, id)| self.trashed(trash, id));
        Ok(found.take(TRASH_ENTRIES).collect())
    }

    /// One of them; `None` if it or the note about it is gone.
    fn trashed(&self, trash: &OwnedFd, id: &str) -> Option<TrashedEntry> {
        let stat = statat(trash, id, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let note = openat(trash, origin_name(id, &self.label), flags, Mode::empty()).ok()?;
        let mut text = String::new();
        let mut note = File::from(note).take(MAX_ORIGIN_BYTES);
        note.read_to_string(&mut text).ok()?;
        let path = SharePath::parse(&text)
            .ok()
            .filter(|path| !path.is_root())?;
        let entry_type = tree::entry_type(FileType::from_raw_mode(stat.st_mode))?;
        let is_file = entry_type == EntryType::File;
        let removed = Timestamp::from_millisecond(removal_time(id)?).ok()?;
        Some(TrashedEntry {
            id: id.to_owned(),
            path: path.as_str().to_owned(),
            entry_type,
            size: if is_file { tree::file_size(&stat) } else { 0 },
            removed_at: removed.to_string(),
        })
    }

    /// Moves something back to where it was, if nothing is there now.
    pub(super) fn restore(&self, id: &str) -> Result<FileEntry, Problem> {
        let gone = || Problem::not_found("it is no longer in the trash");
        let trash = self.trash.as_ref().ok_or_else(gone)?;
        if removal_time(id).is_none() || id.contains(['/', '.']) {
            return Err(gone());
        }
        let found = self.trashed(trash, id).ok_or_else(gone)?;
        let path = SharePath::parse(&found.path)?;
        let Some((parent, name)) = path.split() else {
            return Err(gone());
        };
        self.ensure_counted()?;
        // Nobody writes to it in the trash, so counting needs no lock.
        let need = match found.entry_type {
            EntryType::Dir => {
                let below = open_directory(trash, id)
                    .and_then(|below| count::count_tree(below, count::StaleTempFiles::Count))
                    .map_err(Self::problem_for(&path))?;
                TreeUsage {
                    bytes: below.bytes,
                    files: below.files + 1,
                }
            }
            EntryType::File | EntryType::Symlink => TreeUsage {
                bytes: found.size,
                files: 1,
            },
        };
        let _structure = self.tree_lock.write();
        let room = self.quota.reserve(need, self.limits().quota)?;
        let target = self.ensure_directory(&parent, &path)?;
        renameat_with(trash, id, &target, name, RenameFlags::NOREPLACE).map_err(
            |error| match error {
                Errno::NOENT => gone(),
                other => problems::problem_from_errno(other, &path),
            },
        )?;
        room.commit(need, TreeUsage::default());
        fsync(&target).map_err(Self::problem_for(&path))?;
        self.forget_origin(trash, id);
        fsync(trash).map_err(Self::problem_for(&path))?;
        let stat = statat(&target, name, AtFlags::SYMLINK_NOFOLLOW);
        let stat = stat.map_err(Self::problem_for(&path))?;
        tree::file_entry(path.as_str().to_owned(), &stat)
            .ok_or_else(|| problems::special_file(&path))
    }
}

/// Names in the trash begin with milliseconds.
fn removal_time(id: &str) -> Option<i64> {
    id.split_once('-')?.0.parse().ok()
}
