//! Writes the files of tools.

use std::{fs, io, path::Path};

use hermes_config::private_file::{ExistingFile, NewFileMode, WriteOptions, write_file};

/// Writes a file. An existing one keeps its mode and, if possible, its owner; parent directories are created. The path
/// must be resolved: a link would be replaced, not followed.
pub(crate) fn store_file(path: &Path, content: &[u8], new_file: NewFileMode) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let options = WriteOptions {
        existing: ExistingFile::ReplaceKeepingMode,
        new_file,
        ..WriteOptions::default()
    };
    write_file(path, content, options)
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
