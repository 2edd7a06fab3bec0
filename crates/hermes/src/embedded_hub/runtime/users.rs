//! Users of tenants, where the Hub is root: a number of its own for each tenant, forever, and the home that belongs to
//! it.
//!
//! The numbers are written down, because a tenant that sleeps or is deleted for now still owns its files.

use std::{
    collections::BTreeMap,
    fs, io,
    ops::RangeInclusive,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
};

use hermes_config::{private_file::write_private, sync::Mutex};
use hermes_hub::TenantId;

/// Who has which number.
#[derive(Debug)]
pub(super) struct TenantUsers {
    file: PathBuf,
    range: RangeInclusive<u32>,
    /// Held while the file is read and replaced.
    file_lock: Mutex<()>,
}

impl TenantUsers {
    /// Numbers of this range, written down in that file.
    pub(super) fn new(file: PathBuf, range: RangeInclusive<u32>) -> Self {
        Self {
            file,
            range,
            file_lock: Mutex::new(()),
        }
    }

    /// The number of a tenant; the next free one if it has none yet.
    pub(super) fn assign_user(&self, tenant: &TenantId) -> io::Result<u32> {
        let _turn = self.file_lock.lock();
        let mut known: BTreeMap<String, u32> = match fs::read(&self.file) {
            Ok(text) => serde_json::from_slice(&text)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(error),
        };
        if let Some(user) = known.get(tenant.as_str()) {
            return Ok(*user);
        }
        let next = known
            .values()
            .max()
            .map_or(*self.range.start(), |last| last + 1);
        if !self.range.contains(&next) {
            return Err(io::Error::other(
                "all users of `isolation.uid_range` are given out; make the range larger",
            ));
        }
        known.insert(tenant.as_str().to_owned(), next);
        write_private(&self.file, &serde_json::to_vec_pretty(&known)?)?;
        Ok(next)
    }
}

/// Gives a home and all in it to a user. Links are not followed, and files that have a second name stay as they are:
/// that one may lie elsewhere.
pub(super) fn chown_tree(path: &Path, user: u32) -> io::Result<()> {
    let metadata = fs::symlink_metadata(path)?;
    let may_be_elsewhere = !metadata.is_dir() && metadata.nlink() > 1;
    if (metadata.uid() != user || metadata.gid() != user) && !may_be_elsewhere {
        std::os::unix::fs::lchown(path, Some(user), Some(user))?;
    }
    if metadata.is_dir() {
        for entry in fs::read_dir(path)? {
            chown_tree(&entry?.path(), user)?;
        }
    }
    Ok(())
}

/// Lets other users pass through the Hub's own directories above a home, without a look inside.
pub(super) fn allow_traversal(data_dir: &Path, home: &Path) -> io::Result<()> {
    for directory in home.ancestors().skip(1) {
        if !directory.starts_with(data_dir) {
            break;
        }
        let mode = fs::metadata(directory)?.permissions().mode();
        if mode & 0o011 != 0o011 {
            fs::set_permissions(directory, fs::Permissions::from_mode(mode | 0o011))?;
        }
    }
    Ok(())
}

/// The first directory above a path through which other users cannot pass.
pub(super) fn closed_directory(path: &Path) -> Option<&Path> {
    path.ancestors().skip(1).find(|directory| {
        fs::metadata(directory).is_ok_and(|metadata| metadata.permissions().mode() & 0o001 == 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(id: &str) -> TenantId {
        TenantId::parse(id).unwrap()
    }

    #[test]
    fn a_tenant_keeps_its_number_and_no_other_gets_it() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("users.json");
        let users = TenantUsers::new(file.clone(), 5..=6);
        assert_eq!(users.assign_user(&tenant("a")).unwrap(), 5);
        assert_eq!(users.assign_user(&tenant("b")).unwrap(), 6);
        let again = TenantUsers::new(file, 5..=6);
        assert_eq!(again.assign_user(&tenant("a")).unwrap(), 5);
        let error = again.assign_user(&tenant("c")).unwrap_err().to_string();
        assert!(error.contains("isolation.uid_range"), "{error}");
    }

    #[test]
    fn a_closed_directory_above_a_path_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let closed = directory.path().join("closed");
        fs::create_dir_all(closed.join("home")).unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
        let home = closed.join("home");
        assert_eq!(closed_directory(&home), Some(closed.as_path()));
        allow_traversal(&closed, &home).unwrap();
        assert_eq!(closed_directory(&home), None);
        let mode = fs::metadata(&closed).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o711);
    }
}
