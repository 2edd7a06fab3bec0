//! Small files of a home: replaced whole, never half, and private to their owner.

use std::{
    fs, io,
    io::Write,
    path::Path,
    process,
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

/// Writes `content` by renaming a synced temporary file over `path`. The directory is made, for its owner only.
pub(crate) fn replace_file(path: &Path, content: &[u8]) -> io::Result<()> {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    if let Some(directory) = path.parent() {
        create_private_dir(directory)?;
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    let temporary = path.with_file_name(format!(".{name}.{}.{number}.tmp", process::id()));
    let result = write_new(&temporary, content).and_then(|()| fs::rename(&temporary, path));
    if result.is_err() {
        // The original error matters; a leftover file does not.
        let _ = fs::remove_file(&temporary);
    }
    result
}

fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = owner_only(fs::OpenOptions::new().write(true).create_new(true)).open(path)?;
    chown_to_directory_owner(path)?;
    file.write_all(content)?;
    file.sync_all()
}

/// Lets a file made with these options be read by its owner only.
pub(crate) fn owner_only(options: &mut fs::OpenOptions) -> &mut fs::OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

/// Makes a directory and what is missing above it. An existing one keeps its mode.
pub(crate) fn create_private_dir(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    if path.is_dir() {
        return Ok(());
    }
    builder.create(path)?;
    chown_to_directory_owner(path)
}

/// Gives a file that root created to the owner of its directory: a Hub that is root writes into homes of other users.
/// Symbolic and hard links stay as they are: they may lead out of the home.
fn chown_to_directory_owner(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt, lchown};
        let made = fs::symlink_metadata(path)?;
        let is_plain = made.is_dir() || (made.is_file() && made.nlink() == 1);
        let Some(directory) = path.parent().filter(|_| is_plain && made.uid() == 0) else {
            return Ok(());
        };
        let owner = fs::metadata(directory)?;
        if owner.uid() != 0 {
            lchown(path, Some(owner.uid()), Some(owner.gid()))?;
        }
    }
    #[cfg(not(unix))]
    let _ = path;
    Ok(())
}

/// The text of a file without a byte order mark, or nothing if there is no file.
pub(crate) fn read_optional(path: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(match text.strip_prefix('\u{feff}') {
            Some(rest) => rest.to_owned(),
            None => text,
        })),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Holds an advisory lock on a file, created if missing, until dropped. Times out if another process keeps it.
pub(crate) fn lock_file(path: &Path, patience: Duration) -> io::Result<fs::File> {
    if let Some(directory) = path.parent() {
        create_private_dir(directory)?;
    }
    let file = owner_only(fs::OpenOptions::new().append(true).create(true)).open(path)?;
    chown_to_directory_owner(path)?;
    lock_with_timeout(&file, patience)?;
    Ok(file)
}

/// Locks an open file, or times out if another process keeps it.
pub fn lock_with_timeout(file: &fs::File, patience: Duration) -> io::Result<()> {
    let deadline = Instant::now() + patience;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(fs::TryLockError::Error(error)) => return Err(error),
            Err(fs::TryLockError::WouldBlock) if Instant::now() >= deadline => {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            Err(fs::TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(unix)]
    fn a_replaced_file_is_private_and_leaves_nothing_beside_it() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("deep/file.json");
        replace_file(&path, b"one").unwrap();
        replace_file(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(path.parent().unwrap()), 0o700);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    #[cfg(unix)]
    fn what_root_writes_into_the_home_of_another_belongs_to_that_one() {
        use std::os::unix::fs::{MetadataExt, chown, symlink};
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path().join("home");
        fs::create_dir(&home).unwrap();
        let owner = |path: &Path| fs::metadata(path).unwrap().uid();
        if owner(&home) != 0 {
            println!("not tested: only root can write for others");
            return;
        }
        chown(&home, Some(234_567), Some(234_567)).unwrap();
        let foreign = directory.path().join("foreign");
        fs::write(&foreign, "").unwrap();
        symlink(&foreign, home.join("lock")).unwrap();
        lock_file(&home.join("lock"), Duration::ZERO).unwrap();
        assert_eq!(owner(&foreign), 0, "a link led out of the home");
        replace_file(&home.join("cron/jobs.json"), b"{}").unwrap();
        lock_file(&home.join("cron/.lock"), Duration::ZERO).unwrap();
        for made in ["cron", "cron/jobs.json", "cron/.lock"] {
            assert_eq!(owner(&home.join(made)), 234_567, "{made}");
        }
    }

    #[test]
    fn a_byte_order_mark_is_not_content() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        assert_eq!(read_optional(&path).unwrap(), None);
        fs::write(&path, "\u{feff}{}").unwrap();
        assert_eq!(read_optional(&path).unwrap().as_deref(), Some("{}"));
    }

    #[test]
    fn a_held_lock_is_waited_for_and_then_given_up() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let held = lock_file(&path, Duration::ZERO).unwrap();
        let error = lock_file(&path, Duration::from_millis(20)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        drop(held);
        lock_file(&path, Duration::ZERO).unwrap();
    }
}
