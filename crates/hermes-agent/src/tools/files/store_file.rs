//! Writes a file atomically: a reader sees the old content or the new one.

use std::{fs, io, io::Write as _, path::Path};

/// The permissions of a new file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NewFileMode {
    /// As the user's settings say.
    Ordinary,
    /// Its owner alone.
    Private,
}

/// Writes a file by renaming a temporary one over it. An existing file keeps its mode and, if possible, its owner.
/// Parent directories are created. The path must be resolved: a link would be replaced, not followed.
pub(crate) fn store_file(path: &Path, content: &[u8], new_file: NewFileMode) -> io::Result<()> {
    let directory = path
        .parent()
        .ok_or_else(|| io::Error::other("it has no directory"))?;
    fs::create_dir_all(directory)?;
    let old = match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => {
            return Err(io::Error::new(
                io::ErrorKind::IsADirectory,
                "it is a directory",
            ));
        }
        Ok(metadata) => Some(metadata),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let mut builder = tempfile::Builder::new();
    builder.prefix(".hermes-").suffix(".tmp");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(
        match new_file {
            // The umask applies to it.
            NewFileMode::Ordinary => 0o666,
            NewFileMode::Private => 0o600,
        },
    ));
    let mut file = builder.tempfile_in(directory)?;
    file.write_all(content)?;
    if let Some(old) = old {
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            let _ = std::os::unix::fs::fchown(file.as_file(), Some(old.uid()), Some(old.gid()));
        }
        file.as_file().set_permissions(old.permissions())?;
    }
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn modes_are_kept_and_new_private_files_are_private() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a/b/file");
        store_file(&path, b"one", NewFileMode::Private).unwrap();
        assert_eq!(mode(&path), 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o751)).unwrap();
        store_file(&path, b"two", NewFileMode::Private).unwrap();
        assert_eq!(
            (mode(&path), fs::read(&path).unwrap()),
            (0o751, b"two".to_vec())
        );
        let ordinary = directory.path().join("ordinary");
        store_file(&ordinary, b"", NewFileMode::Ordinary).unwrap();
        assert_ne!(mode(&ordinary) & 0o044, 0);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn a_directory_is_not_replaced() {
        let directory = tempfile::tempdir().unwrap();
        assert!(store_file(directory.path(), b"x", NewFileMode::Ordinary).is_err());
    }
}
