//! Unpacking an archive into a directory. It is looked through once before anything is written, so that it is unpacked
//! whole or not at all.

use std::collections::BTreeSet;

use hermes_config::beneath::SymlinkPolicy;
use rustix::io::Errno;
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    SharedDirectory,
    write::{find_writable, make_directories, overwrite_from},
};
use crate::{
    Problem,
    storage::files::{
        SharePath, TreeUsage,
        archive_reader::{ArchiveEntry, ArchiveLimits, read_archive},
        problems, tree,
    },
};

const LIMITS: ArchiveLimits = ArchiveLimits {
    entries: 10_000,
    bytes: 256 << 20,
};

/// What an archive has become.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct UnpackedArchive {
    /// The directory it was unpacked in; empty for the root.
    pub path: String,
    /// Files that were written.
    pub files: u64,
    /// Directories that were made.
    pub directories: u64,
    /// Bytes of all files.
    pub bytes: u64,
}

impl SharedDirectory {
    pub(super) fn unpack(
        &self,
        base: &SharePath,
        archive: &[u8],
    ) -> Result<UnpackedArchive, Problem> {
        self.ensure_counted()?;
        let _structure = self.tree_lock.write();
        let need = self.required_space(base, archive)?;
        let room = self.quota.reserve(need, self.limits().quota)?;
        let mut unpacked = UnpackedArchive {
            path: base.as_str().to_owned(),
            ..UnpackedArchive::default()
        };
        let mut added = TreeUsage::default();
        let mut gone = TreeUsage::default();
        let written = read_archive(archive, LIMITS, |entry| {
            let (path, size, content) = match entry {
                ArchiveEntry::Directory(path) => {
                    let path = join(base, &path)?;
                    return self.unpack_directory(&path, &mut unpacked).map(drop);
                }
                ArchiveEntry::File(path, size, content) => (join(base, &path)?, size, content),
            };
            let Some((parent, name)) = path.split() else {
                return Err(problems::is_a_directory(&path));
            };
            let directory = self.unpack_directory(&parent, &mut unpacked)?;
            let before = find_writable(&directory, name, &path)?;
            overwrite_from(&directory, name, content)
                .map_err(|error| problems::problem_from_io(&error, &path))?;
            unpacked.files += 1;
            unpacked.bytes += size;
            added.bytes += size;
            match before {
                Some(before) => gone.bytes += tree::file_size(&before),
                None => added.files += 1,
            }
            Ok(())
        });
        added.files += unpacked.directories;
        room.commit(added, gone);
        written.map(|()| unpacked)
    }

    /// What the archive needs beyond what is there. Refuses it if an entry cannot be written.
    fn required_space(&self, base: &SharePath, archive: &[u8]) -> Result<TreeUsage, Problem> {
        let mut need = TreeUsage::default();
        let mut directories = BTreeSet::new();
        read_archive(archive, LIMITS, |entry| {
            let path = match entry {
                ArchiveEntry::Directory(path) => join(base, &path)?,
                ArchiveEntry::File(path, size, _) => {
                    let path = join(base, &path)?;
                    let Some((parent, name)) = path.split() else {
                        return Err(problems::is_a_directory(&path));
                    };
                    let (directory, missing) = self.nearest_existing(&parent)?;
                    let before = if missing.is_empty() {
                        find_writable(&directory, name, &path)?
                    } else {
                        None
                    };
                    let old_size = before.as_ref().map_or(0, tree::file_size);
                    need.bytes += size.saturating_sub(old_size);
                    need.files += u64::from(before.is_none());
                    parent
                }
            };
            directories.insert(path);
            Ok(())
        })?;
        let mut missing = BTreeSet::new();
        for path in directories {
            let mut above = path;
            while !missing.contains(&above) {
                match self.tree.open_dir(&above, SymlinkPolicy::Refuse) {
                    Ok(_) => break,
                    Err(Errno::NOENT) => {}
                    Err(error) => return Err(problems::problem_from_errno(error, &above)),
                }
                missing.insert(above.clone());
                match above.split() {
                    Some((parent, _)) => above = parent,
                    None => break,
                }
            }
        }
        need.files += missing.len() as u64;
        Ok(need)
    }

    fn unpack_directory(
        &self,
        path: &SharePath,
        unpacked: &mut UnpackedArchive,
    ) -> Result<std::os::fd::OwnedFd, Problem> {
        let (directory, missing) = self.nearest_existing(path)?;
        make_directories(directory, &missing, &mut unpacked.directories)
            .map_err(Self::problem_for(path))
    }
}

fn join(base: &SharePath, path: &SharePath) -> Result<SharePath, Problem> {
    SharePath::parse(&base.join(path.as_str()))
}
