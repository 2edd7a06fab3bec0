//! Private files: readable by their owner alone, written whole, never through a link.
//!
//! This is the one place that writes them. The content goes to a temporary file of the same directory, which then gets
//! the file's name: a reader sees the old content or the new one, also after a crash.

use std::{
    ffi::OsStr,
    fs::{self, DirBuilder, File},
    io::{self, Write as _},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::fs::{
            DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown,
        },
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{
        AtFlags, CWD, FileType, Gid, Mode, OFlags, RenameFlags, Uid, fstat, linkat, open, openat,
        renameat, renameat_with, unlinkat,
    },
    io::Errno,
    path::Arg,
};

use crate::{beneath::DIRECTORY_FLAGS, random::random_number};

const PRIVATE_FILE: u32 = 0o600;
const PRIVATE_DIRECTORY: u32 = 0o700;
/// The umask applies to it.
const ORDINARY_FILE: u32 = 0o666;

/// How a file is written.
#[derive(Debug, Clone, Copy, Default)]
pub struct WriteOptions {
    pub existing: ExistingFile,
    pub new_file: NewFileMode,
    pub durability: FileDurability,
    pub owner: FileOwner,
}

/// What becomes of a file that exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ExistingFile {
    /// It is replaced, and the new one is private whatever the old one was.
    #[default]
    Replace,
    /// It is replaced, and the new one gets its mode and, if possible, its owner.
    ReplaceKeepingMode,
    /// It stays, and writing fails with `AlreadyExists`.
    Refuse,
}

/// The permissions of a new file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NewFileMode {
    #[default]
    Private,
    /// As the user's umask says. For files of the user's own, which are not secret.
    Ordinary,
}

/// Whether the content is on disk when the write returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FileDurability {
    #[default]
    Synced,
    /// For caches and files that mean nothing after a restart.
    Unsynced,
}

/// Who owns a file that root writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FileOwner {
    #[default]
    Writer,
    /// The owner of its directory: a Hub that is root writes into homes of other users.
    DirectoryOwner,
}

/// Writes a file. Its directory must exist; a link in its place is replaced, not followed.
///
/// Without an option it is a private file, on disk when this returns.
pub fn write_file(path: &Path, content: &[u8], options: WriteOptions) -> io::Result<()> {
    let directory = open_parent(path)?;
    let old = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
        Ok(found) => Some(found),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let mut draft = TempFile::create(directory.as_fd(), TEMP_PREFIX, options.new_file)?;
    if options.owner == FileOwner::DirectoryOwner {
        chown_to_directory_owner(&draft.file, &directory)?;
    }
    draft.file.write_all(content)?;
    if let (ExistingFile::ReplaceKeepingMode, Some(old)) = (options.existing, &old) {
        // Only root can give files away.
        let _ = fchown(&draft.file, Some(old.uid()), Some(old.gid()));
        draft.file.set_permissions(old.permissions())?;
    }
    if options.durability == FileDurability::Synced {
        draft.file.sync_all()?;
    }
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    match options.existing {
        ExistingFile::Refuse => draft.persist_new(name),
        ExistingFile::Replace | ExistingFile::ReplaceKeepingMode => draft.persist(name),
    }
}

/// Writes a private file that is on disk when this returns; see [`write_file`].
pub fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    write_file(path, content, WriteOptions::default())
}

/// Writes a file of the user's own, such as a configuration: a link is followed, and an existing file keeps its mode.
pub fn replace_file(path: &Path, content: &[u8]) -> io::Result<()> {
    let options = WriteOptions {
        existing: ExistingFile::ReplaceKeepingMode,
        ..WriteOptions::default()
    };
    write_file(&follow_links(path)?, content, options)
}

/// The file a chain of links leads to, even if that file does not exist yet.
fn follow_links(path: &Path) -> io::Result<PathBuf> {
    const LONGEST_CHAIN: usize = 40;
    let mut path = path.to_path_buf();
    for _ in 0..LONGEST_CHAIN {
        match fs::read_link(&path) {
            Ok(target) => path = path.parent().unwrap_or(Path::new("")).join(target),
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::other("too many symbolic links"))
}

const TEMP_PREFIX: &str = ".hermes-";

/// A file without its final name, removed on drop unless it got one.
#[derive(Debug)]
pub struct TempFile<'d> {
    directory: BorrowedFd<'d>,
    name: String,
    pub file: File,
    is_persisted: bool,
}

impl<'d> TempFile<'d> {
    /// Creates one in a directory, with a name that begins with `prefix`.
    pub fn create(directory: BorrowedFd<'d>, prefix: &str, mode: NewFileMode) -> io::Result<Self> {
        let name = format!("{prefix}{:016x}.tmp", random_number());
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = match mode {
            NewFileMode::Private => PRIVATE_FILE,
            NewFileMode::Ordinary => ORDINARY_FILE,
        };
        let file = openat(directory, name.as_str(), flags, Mode::from_raw_mode(mode))?;
        Ok(Self {
            directory,
            name,
            file: File::from(file),
            is_persisted: false,
        })
    }

    /// Gives it its name, in the place of whatever has that now.
    pub fn persist(mut self, name: impl Arg) -> io::Result<()> {
        renameat(self.directory, self.name.as_str(), self.directory, name)?;
        self.is_persisted = true;
        Ok(())
    }

    /// Gives it its name, unless something has that already.
    fn persist_new(mut self, name: &OsStr) -> io::Result<()> {
        let directory = self.directory;
        match linkat(
            directory,
            self.name.as_str(),
            directory,
            name,
            AtFlags::empty(),
        ) {
            // A file system without hard links.
            Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS) => {
                let flags = RenameFlags::NOREPLACE;
                renameat_with(directory, self.name.as_str(), directory, name, flags)?;
                self.is_persisted = true;
                Ok(())
            }
            linked => Ok(linked?),
        }
    }
}

impl Drop for TempFile<'_> {
    fn drop(&mut self) {
        if !self.is_persisted {
            // The error that led here matters; a leftover file does not.
            let _ = unlinkat(self.directory, self.name.as_str(), AtFlags::empty());
        }
    }
}

/// Opens a file to lock, created private if missing. A link is refused.
pub fn open_lock_file(path: &Path, owner: FileOwner) -> io::Result<File> {
    let directory = open_parent(path)?;
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    open_lock_file_at(directory.as_fd(), name, owner)
}

/// The same in a directory that is open.
pub fn open_lock_file_at(
    directory: BorrowedFd<'_>,
    name: impl Arg,
    owner: FileOwner,
) -> io::Result<File> {
    // Opening a pipe must not block.
    let flags =
        OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(openat(
        directory,
        name,
        flags,
        Mode::from_raw_mode(PRIVATE_FILE),
    )?);
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    if owner == FileOwner::DirectoryOwner {
        chown_to_directory_owner(&file, directory)?;
    }
    Ok(file)
}

/// Opens a file to append to it, created private if missing. What was open to others is closed to them.
pub fn open_private_append(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.create(true).append(true).mode(PRIVATE_FILE);
    let file = options.open(path)?;
    restrict_to_owner(&file)?;
    Ok(file)
}

/// Takes the rights of others away from an open file. Returns whether they had any.
pub fn restrict_to_owner(file: &File) -> io::Result<bool> {
    let was_open = file.metadata()?.mode() & 0o077 != 0;
    if was_open {
        file.set_permissions(fs::Permissions::from_mode(PRIVATE_FILE))?;
    }
    Ok(was_open)
}

/// Creates a directory for its owner alone, but not its parents. An existing one keeps its mode.
pub fn create_private_dir(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(PRIVATE_DIRECTORY).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        created => created,
    }
}

/// Creates a directory, and what is missing above it, for their owner alone. An existing one keeps its mode.
pub fn create_private_dirs(path: &Path, owner: FileOwner) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
    {
        create_private_dirs(parent, owner)?;
    }
    create_private_dir(path)?;
    if owner == FileOwner::DirectoryOwner {
        let flags = DIRECTORY_FLAGS | OFlags::NOFOLLOW;
        let created = open(path, flags, Mode::empty())?;
        chown_to_directory_owner(&created, open_parent(path)?)?;
    }
    Ok(())
}

/// Gives what root created to the owner of its directory. Files with a second name stay as they are:
/// that one may be elsewhere.
pub fn chown_to_directory_owner(created: impl AsFd, directory: impl AsFd) -> Result<(), Errno> {
    let (own, owner) = (fstat(&created)?, fstat(directory)?);
    let is_directory = FileType::from_raw_mode(own.st_mode) == FileType::Directory;
    if own.st_uid == 0 && owner.st_uid != 0 && (is_directory || own.st_nlink == 1) {
        let (user, group) = (Uid::from_raw(owner.st_uid), Gid::from_raw(owner.st_gid));
        rustix::fs::fchown(created, Some(user), Some(group))?;
    }
    Ok(())
}

/// Opens the directory of a file, to create a [`TempFile`] there.
pub fn open_parent(path: &Path) -> io::Result<OwnedFd> {
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    // A directory that can be written but not listed is enough.
    #[cfg(target_os = "linux")]
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    #[cfg(not(target_os = "linux"))]
    let flags = crate::beneath::DIRECTORY_FLAGS;
    Ok(openat(CWD, parent, flags, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use super::*;

    const KEEP: WriteOptions = WriteOptions {
        existing: ExistingFile::ReplaceKeepingMode,
        new_file: NewFileMode::Private,
        durability: FileDurability::Synced,
        owner: FileOwner::Writer,
    };

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_file_is_private_whatever_was_there() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        write_file(&path, b"one", WriteOptions::default()).unwrap();
        assert_eq!(mode(&path), 0o600);
        set_mode(&path, 0o644);
        write_file(&path, b"two", WriteOptions::default()).unwrap();
        assert_eq!(mode(&path), 0o600);
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn an_existing_mode_is_kept_on_request() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        write_file(&path, b"one", KEEP).unwrap();
        assert_eq!(mode(&path), 0o600);
        set_mode(&path, 0o751);
        write_file(&path, b"two", KEEP).unwrap();
        assert_eq!(mode(&path), 0o751);
    }

    #[test]
    fn a_file_of_the_users_own_has_the_usual_mode() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let options = WriteOptions {
            new_file: NewFileMode::Ordinary,
            ..WriteOptions::default()
        };
        write_file(&path, b"", options).unwrap();
        assert_ne!(mode(&path) & 0o044, 0);
    }

    #[test]
    fn a_link_is_replaced_and_a_directory_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let (target, link) = (
            directory.path().join("target"),
            directory.path().join("link"),
        );
        fs::write(&target, "theirs").unwrap();
        symlink(&target, &link).unwrap();
        assert!(open_lock_file(&link, FileOwner::Writer).is_err());
        write_file(&link, b"own", KEEP).unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"theirs");
        assert_eq!(fs::read(&link).unwrap(), b"own");
        assert!(!link.is_symlink());
        assert!(write_file(directory.path(), b"x", WriteOptions::default()).is_err());
    }

    #[test]
    fn a_link_to_a_file_of_the_users_own_stays_a_link() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("dotfiles/real");
        fs::create_dir(target.parent().unwrap()).unwrap();
        let link = directory.path().join("link");
        symlink("dotfiles/real", &link).unwrap();
        replace_file(&link, b"through").unwrap();
        assert!(link.is_symlink());
        assert_eq!(fs::read(&target).unwrap(), b"through");
    }

    #[test]
    fn a_loop_of_links_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        symlink("b", directory.path().join("a")).unwrap();
        symlink("a", directory.path().join("b")).unwrap();
        assert!(replace_file(&directory.path().join("a"), b"x").is_err());
    }

    #[test]
    fn what_exists_can_be_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let options = WriteOptions {
            existing: ExistingFile::Refuse,
            ..WriteOptions::default()
        };
        write_file(&path, b"one", options).unwrap();
        let error = write_file(&path, b"two", options).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"one");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_root_writes_into_the_home_of_another_belongs_to_that_one() {
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path().join("home");
        fs::create_dir(&home).unwrap();
        let owner = |path: &Path| fs::metadata(path).unwrap().uid();
        if owner(&home) != 0 {
            println!("not tested: only root can write for others");
            return;
        }
        chown(&home, Some(234_567), Some(234_567)).unwrap();
        let options = WriteOptions {
            owner: FileOwner::DirectoryOwner,
            ..WriteOptions::default()
        };
        create_private_dirs(&home.join("a/b"), FileOwner::DirectoryOwner).unwrap();
        write_file(&home.join("a/b/file"), b"{}", options).unwrap();
        open_lock_file(&home.join("a/b/lock"), FileOwner::DirectoryOwner).unwrap();
        for made in ["a", "a/b", "a/b/file", "a/b/lock"] {
            assert_eq!(owner(&home.join(made)), 234_567, "{made}");
        }
        assert_eq!(mode(&home.join("a")), 0o700);
    }
}
