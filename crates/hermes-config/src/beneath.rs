//! Opening paths beneath a directory without leaving it: not by `..`, not by links, not by a directory that is replaced
//! by a link meanwhile. Uses `openat2` where the kernel has it.

use std::os::fd::{AsFd, OwnedFd};

use rustix::{
    fs::{Mode, OFlags, openat},
    io::Errno,
    path::Arg,
};

/// How symbolic links are treated, in the last segment too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SymlinkPolicy {
    /// Followed as long as they stay beneath the directory.
    Follow,
    Refuse,
}

/// For reading: does not block on a pipe, and never acquires a controlling terminal.
pub const READ_FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);
pub const DIRECTORY_FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);

/// Opens a relative path beneath a directory; the empty path is the directory itself.
pub fn open_beneath(
    directory: impl AsFd,
    path: &str,
    flags: OFlags,
    mode: Mode,
    links: SymlinkPolicy,
) -> Result<OwnedFd, Errno> {
    let directory = directory.as_fd();
    let path = if path.is_empty() { "." } else { path };
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{ResolveFlags, openat2};
        let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        if links == SymlinkPolicy::Refuse {
            resolve |= ResolveFlags::NO_SYMLINKS;
        }
        // The kernel returns EAGAIN when something was renamed during the lookup.
        for _ in 0..64 {
            match openat2(directory, path, flags, mode, resolve) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(Errno::NOSYS) => return open_by_steps(directory, path, flags, mode),
                other => return other,
            }
        }
        Err(Errno::AGAIN)
    }
    #[cfg(not(target_os = "linux"))]
    {
        // Without `openat2` no link is followed at all.
        let _ = links;
        open_by_steps(directory, path, flags, mode)
    }
}

/// Opens a subdirectory, refusing a link.
pub fn open_directory(directory: impl AsFd, name: impl Arg) -> Result<OwnedFd, Errno> {
    let flags = DIRECTORY_FLAGS | OFlags::NOFOLLOW;
    openat(directory, name, flags, Mode::empty())
}

/// Opens one segment after the other, without following links or going up.
fn open_by_steps(
    directory: impl AsFd,
    path: &str,
    flags: OFlags,
    mode: Mode,
) -> Result<OwnedFd, Errno> {
    if path.starts_with('/') || path.split('/').any(|segment| segment == "..") {
        return Err(Errno::XDEV);
    }
    let Some((parents, name)) = path.rsplit_once('/') else {
        return openat(directory, path, flags | OFlags::NOFOLLOW, mode);
    };
    let mut current: Option<OwnedFd> = None;
    for segment in parents.split('/') {
        let from = current.as_ref().map_or(directory.as_fd(), AsFd::as_fd);
        current = Some(openat(
            from,
            segment,
            DIRECTORY_FLAGS | OFlags::NOFOLLOW,
            Mode::empty(),
        )?);
    }
    let from = current.as_ref().map_or(directory.as_fd(), AsFd::as_fd);
    openat(from, name, flags | OFlags::NOFOLLOW, mode)
}

#[cfg(test)]
mod tests {
    use std::{fs, io::Read, os::unix::fs::symlink};

    use super::*;

    type Opener = fn(&OwnedFd, &str) -> Result<OwnedFd, Errno>;

    fn scene() -> (tempfile::TempDir, OwnedFd) {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path().join("root/sub")).unwrap();
        fs::write(directory.path().join("secret"), "outside").unwrap();
        fs::write(directory.path().join("root/sub/a"), "inside").unwrap();
        symlink("../secret", directory.path().join("root/out")).unwrap();
        symlink("..", directory.path().join("root/up")).unwrap();
        symlink("sub", directory.path().join("root/in")).unwrap();
        let root = fs::File::open(directory.path().join("root")).unwrap();
        (directory, root.into())
    }

    fn read(opened: Result<OwnedFd, Errno>) -> Result<String, Errno> {
        let mut text = String::new();
        fs::File::from(opened?).read_to_string(&mut text).unwrap();
        Ok(text)
    }

    #[test]
    fn links_out_of_the_root_lead_nowhere_however_files_are_opened() {
        let (_directory, root) = scene();
        let openers: [Opener; 3] = [
            |root, path| open_beneath(root, path, READ_FLAGS, Mode::empty(), SymlinkPolicy::Follow),
            |root, path| open_beneath(root, path, READ_FLAGS, Mode::empty(), SymlinkPolicy::Refuse),
            |root, path| open_by_steps(root, path, READ_FLAGS, Mode::empty()),
        ];
        for open in openers {
            assert!(open(&root, "out").is_err());
            assert!(open(&root, "up/secret").is_err());
            assert!(open(&root, "../secret").is_err());
            assert!(open(&root, "/etc/passwd").is_err());
            assert_eq!(read(open(&root, "sub/a")).unwrap(), "inside");
        }
    }

    #[test]
    fn links_within_the_root_are_followed_only_on_request() {
        let (_directory, root) = scene();
        let open = |links| open_beneath(&root, "in/a", READ_FLAGS, Mode::empty(), links);
        assert_eq!(read(open(SymlinkPolicy::Refuse)).unwrap_err(), Errno::LOOP);
        if cfg!(target_os = "linux") {
            assert_eq!(read(open(SymlinkPolicy::Follow)).unwrap(), "inside");
        }
        assert!(open_by_steps(&root, "in/a", READ_FLAGS, Mode::empty()).is_err());
    }
}
