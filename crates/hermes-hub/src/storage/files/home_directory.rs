//! Small files of a tenant's home: its jobs, its configuration. The tenant may replace any of them by a link at any
//! moment, so they are opened through a descriptor of their directory, and no link is followed.

use std::{
    ffi::CString,
    fs::File,
    io::{self, Read, Seek, Write},
    os::fd::{AsFd, OwnedFd},
    path::Path,
    time::{Duration, SystemTime},
};

use hermes_config::{
    beneath::{DIRECTORY_FLAGS, READ_FLAGS, SymlinkPolicy, open_beneath, open_directory},
    private_file::{FileOwner, chown_to_directory_owner, open_lock_file_at},
};
use rustix::{
    fs::{Dir, Mode, RenameFlags, fsync, mkdirat, renameat_with},
    io::Errno,
};

use super::{
    EntryType,
    directory::{
        count::{remove_temp_files, remove_temp_files_below},
        write::{create_temp_file, make_directories, persist},
    },
    path::{SharePath, TEMP_PREFIX},
    tree::{Tree, delete_tree, read_entries},
};

const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;

/// A directory of a home, or the home itself.
#[derive(Debug)]
pub(crate) struct HomeDirectory {
    directory: OwnedFd,
}

/// Modification time and size, to notice changes.
pub(crate) type HomeFileVersion = (SystemTime, u64);

impl HomeDirectory {
    /// Opens the home itself. The operator controls its path.
    pub(crate) fn open_home(home: &Path) -> Result<Self, Errno> {
        let directory = Tree::open(home)?.into_root();
        Ok(Self { directory })
    }

    /// Opens a directory of the home.
    pub(crate) fn open(home: &Path, name: &str) -> Result<Self, Errno> {
        let directory = Tree::open_in(home, name)?.into_root();
        Ok(Self { directory })
    }

    /// Opens a directory of the home, created if missing.
    pub(crate) fn open_or_create(home: &Path, name: &str) -> Result<Self, Errno> {
        let around = Self::open_home(home)?;
        match mkdirat(&around.directory, name, Mode::RWXU) {
            Ok(()) => {
                let made = open_directory(&around.directory, name)?;
                chown_to_directory_owner(made, &around.directory)?;
            }
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error),
        }
        Self::open(home, name)
    }

    /// The text of a file; `None` if it does not exist.
    pub(crate) fn read(&self, name: &str) -> io::Result<Option<String>> {
        self.read_up_to(name, MAX_FILE_BYTES)
    }

    /// The text of a file of settings, unless it is larger than one can be: then nothing of it is read.
    pub(crate) fn read_settings(&self, name: &str) -> io::Result<Option<String>> {
        self.read_up_to(name, hermes_config::LARGEST_CONFIG as u64)
    }

    fn read_up_to(&self, name: &str, most: u64) -> io::Result<Option<String>> {
        let opened = open_beneath(
            &self.directory,
            name,
            READ_FLAGS,
            Mode::empty(),
            SymlinkPolicy::Refuse,
        );
        let file = match opened {
            Err(Errno::NOENT) => return Ok(None),
            other => File::from(other?),
        };
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        if metadata.len() > most {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let mut text = String::new();
        file.take(most).read_to_string(&mut text)?;
        Ok(Some(text))
    }

    /// The last bytes of a file, without its first, cut line; `None` if it does not exist.
    pub(crate) fn read_tail(&self, name: &str, most: u64) -> io::Result<Option<String>> {
        let opened = open_beneath(
            &self.directory,
            name,
            READ_FLAGS,
            Mode::empty(),
            SymlinkPolicy::Refuse,
        );
        let mut file = match opened {
            Err(Errno::NOENT) => return Ok(None),
            other => File::from(other?),
        };
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        let start = metadata.len().saturating_sub(most);
        file.seek(io::SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        file.take(most).read_to_end(&mut bytes)?;
        let text = String::from_utf8_lossy(&bytes);
        let whole = match text.split_once('\n') {
            Some((_, rest)) if start > 0 => rest.to_owned(),
            _ => text.into_owned(),
        };
        Ok(Some(whole))
    }

    /// The names of what is in it, except those that are not text.
    pub(crate) fn names(&self) -> io::Result<Vec<String>> {
        let (_, entries) = read_entries(Dir::read_from(&self.directory)?)?;
        let names = entries.into_iter();
        Ok(names
            .filter_map(|entry| entry.name.into_string().ok())
            .collect())
    }

    /// The version of a file; `None` if it does not exist.
    pub(crate) fn version(&self, name: &str) -> Option<HomeFileVersion> {
        let opened = open_beneath(
            &self.directory,
            name,
            READ_FLAGS,
            Mode::empty(),
            SymlinkPolicy::Refuse,
        );
        let metadata = File::from(opened.ok()?).metadata().ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    }

    /// Takes the advisory lock on a file that agents use too, until it is dropped.
    pub(crate) fn lock(&self, name: &str, timeout: Duration) -> io::Result<File> {
        let file = open_lock_file_at(self.directory.as_fd(), name, FileOwner::DirectoryOwner)?;
        hermes_store::lock_with_timeout(&file, timeout)?;
        Ok(file)
    }

    /// Replaces a file atomically, or whatever is in its place, a link too.
    pub(crate) fn replace(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let mut draft = create_temp_file(self.directory.as_fd())?;
        chown_to_directory_owner(&draft.file, &self.directory)?;
        draft.file.write_all(content)?;
        persist(draft, self.directory.as_fd(), name)?;
        Ok(())
    }

    /// Opens a directory in this one, created if missing.
    pub(crate) fn subdirectory(&self, name: &str) -> Result<Self, Errno> {
        let directory = make_directories(
            self.directory.try_clone().map_err(|_| Errno::MFILE)?,
            &[name],
            &mut 0,
        )?;
        Ok(Self { directory })
    }

    /// Replaces a directory by one with these files, or whatever is in its place. Others see the old one or the new one.
    pub(crate) fn replace_tree(
        &self,
        name: &str,
        files: &[(SharePath, Vec<u8>)],
    ) -> io::Result<()> {
        let random = hermes_config::random::random_hex::<8>().map_err(io::Error::other)?;
        let stage = format!("{TEMP_PREFIX}{random}");
        let replaced = self
            .subdirectory(&stage)
            .map_err(io::Error::from)
            .and_then(|staged| staged.fill(files))
            .and_then(|()| Ok(self.swap_in(&stage, name)?));
        // The old tree, or half of the new one.
        let _ = delete_tree(self.directory.as_fd(), &CString::new(stage)?);
        replaced
    }

    fn fill(&self, files: &[(SharePath, Vec<u8>)]) -> io::Result<()> {
        for (path, content) in files {
            let mut segments: Vec<&str> = path.segments().collect();
            let name = segments.pop().unwrap_or_default();
            let directory = make_directories(self.directory.try_clone()?, &segments, &mut 0)?;
            Self { directory }.replace(name, content)?;
        }
        Ok(())
    }

    fn swap_in(&self, stage: &str, name: &str) -> Result<(), Errno> {
        let directory = &self.directory;
        let swap = |flags| renameat_with(directory, stage, directory, name, flags);
        match swap(RenameFlags::EXCHANGE) {
            Err(Errno::NOENT) => swap(RenameFlags::NOREPLACE)?,
            other => other?,
        }
        fsync(directory)
    }

    /// Removes temporary files and half-made directories that a Hub that was killed has left here, at any depth.
    pub(crate) fn remove_stale(&self) -> Result<(), Errno> {
        let (_, entries) = read_entries(Dir::read_from(&self.directory)?)?;
        for entry in entries {
            if entry.is_temporary() && entry.kind == Some(EntryType::Dir) {
                delete_tree(self.directory.as_fd(), &entry.name)?;
            }
        }
        remove_temp_files_below(self.directory.try_clone().map_err(|_| Errno::MFILE)?)
    }

    /// Removes temporary files of a Hub that was killed.
    pub(crate) fn remove_temp_files(&self) -> Result<(), Errno> {
        remove_temp_files(self.directory.as_fd(), None)
    }

    /// Removes temporary files last written before a moment: others may be writing now.
    pub(crate) fn remove_temp_files_before(&self, moment: SystemTime) -> Result<(), Errno> {
        remove_temp_files(self.directory.as_fd(), Some(moment))
    }

    /// Removes a directory and its contents, if it exists.
    pub(crate) fn remove_all(&self, path: &[&str]) -> Result<(), Errno> {
        let Some((name, parents)) = path.split_last() else {
            return Ok(());
        };
        let parents = parents.join("/");
        let opened = open_beneath(
            &self.directory,
            &parents,
            DIRECTORY_FLAGS,
            Mode::empty(),
            SymlinkPolicy::Refuse,
        );
        let name = CString::new(*name).map_err(|_| Errno::INVAL)?;
        match opened.and_then(|parent| delete_tree(parent.as_fd(), &name)) {
            Err(Errno::NOENT) => Ok(()),
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use rustix::fs::FileType;

    use super::*;

    #[test]
    fn links_in_the_place_of_files_and_directories_are_not_followed() {
        let ground = tempfile::tempdir().unwrap();
        let (home, outside) = (ground.path().join("home"), ground.path().join("outside"));
        fs::create_dir(&home).unwrap();
        fs::create_dir_all(outside.join("output/job")).unwrap();
        fs::write(outside.join("jobs.json"), "theirs").unwrap();
        symlink(&outside, home.join("cron")).unwrap();
        symlink(outside.join("jobs.json"), home.join("config.yaml")).unwrap();
        assert!(HomeDirectory::open(&home, "cron").is_err());
        assert!(HomeDirectory::open_or_create(&home, "cron").is_err());
        let itself = HomeDirectory::open_home(&home).unwrap();
        assert!(itself.read("config.yaml").is_err());
        assert!(itself.lock("config.yaml", Duration::ZERO).is_err());
        assert!(itself.remove_all(&["cron", "output", "job"]).is_err());
        itself.remove_all(&["cron"]).unwrap();
        assert!(!home.join("cron").is_symlink());
        itself.replace("config.yaml", b"own").unwrap();
        assert_eq!(itself.read("config.yaml").unwrap().as_deref(), Some("own"));
        assert_eq!(
            fs::read_to_string(outside.join("jobs.json")).unwrap(),
            "theirs"
        );
        assert!(outside.join("output/job").is_dir());
    }

    #[test]
    fn a_pipe_keeps_nobody_waiting() {
        let ground = tempfile::tempdir().unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            ground.path().join("config.yaml"),
            FileType::Fifo,
            Mode::RUSR,
            0,
        )
        .unwrap();
        let home = HomeDirectory::open_home(ground.path()).unwrap();
        assert!(home.read("config.yaml").is_err());
    }

    #[test]
    fn what_was_left_half_written_is_cleared() {
        let ground = tempfile::tempdir().unwrap();
        let cron = HomeDirectory::open_or_create(ground.path(), "cron").unwrap();
        std::mem::forget(create_temp_file(cron.directory.as_fd()).unwrap());
        cron.replace("jobs.json", b"{}").unwrap();
        cron.remove_temp_files().unwrap();
        assert_eq!(fs::read_dir(ground.path().join("cron")).unwrap().count(), 1);
    }
}
