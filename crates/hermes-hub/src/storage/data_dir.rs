//! The Hub's data directory: its layout, permissions and lock.

use std::{
    fs,
    io::{self, Read, Seek, Write},
    path::{Path, PathBuf},
};

use hermes_config::{
    private_file::{FileOwner, create_private_dirs, open_lock_file, write_private},
    random::random_hex,
};

use crate::{GroupId, TenantId};

/// Created at the start; others are created when needed.
const SUBDIRECTORIES: [&str; 5] = ["tenants", "shares", "trash", "sync", "logs"];

/// Links to databases of homes while they are read.
pub(crate) const READING_DIR: &str = "reading";

#[derive(Debug, thiserror::Error)]
pub enum DataDirError {
    #[error(
        "`{path}` is in use by another Hub ({holder}); stop that one, or choose another `data_dir`"
    )]
    InUse {
        path: String,
        /// The process in the lock file.
        holder: String,
    },
    #[error(
        "`{path}` belongs to user {owner}, and the Hub runs as user {user}: give the directory to that user, or choose a \
         directory in it as `data_dir`"
    )]
    OtherOwner { path: String, owner: u32, user: u32 },
    #[error("`{path}`: {source}")]
    Io { path: String, source: io::Error },
    #[error("the system's random generator failed: {0}")]
    Random(#[from] hermes_config::random::RandomError),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataDir {
    root: PathBuf,
}

/// Holds the lock; no other Hub uses the directory while this lives.
#[derive(Debug)]
pub struct DataDirLock {
    _file: fs::File,
}

impl DataDir {
    /// Creates a directory and its subdirectories, accessible to their owner only.
    pub fn create(root: impl Into<PathBuf>) -> Result<Self, DataDirError> {
        let root = root.into();
        create_private_dir(&root)?;
        let root = root
            .canonicalize()
            .map_err(|source| io_error(&root, source))?;
        let directory = Self { root };
        for name in SUBDIRECTORIES {
            create_private_dir(&directory.root.join(name))?;
        }
        Ok(directory)
    }

    pub fn path(&self) -> &Path {
        &self.root
    }

    pub fn settings(&self) -> PathBuf {
        self.root.join("hub.yaml")
    }

    pub fn database(&self) -> PathBuf {
        self.root.join("hub.db")
    }

    pub fn secret_key(&self) -> PathBuf {
        self.root.join("secret.key")
    }

    pub fn admin_token(&self) -> PathBuf {
        self.root.join("admin.token")
    }

    pub fn tenant(&self, id: &TenantId) -> PathBuf {
        self.root.join("tenants").join(id.as_str())
    }

    pub fn home(&self, id: &TenantId) -> PathBuf {
        self.tenant(id).join("home")
    }

    pub fn shares(&self) -> PathBuf {
        self.root.join("shares")
    }

    pub fn share(&self, id: &GroupId) -> PathBuf {
        self.shares().join(id.as_str())
    }

    pub fn trash(&self) -> PathBuf {
        self.root.join("trash")
    }

    /// The default destination of context syncs.
    pub fn sync(&self) -> PathBuf {
        self.root.join("sync")
    }

    pub fn logs(&self) -> PathBuf {
        self.root.join("logs")
    }

    /// Locks the directory; the error names the process that holds the lock.
    pub fn lock(&self) -> Result<DataDirLock, DataDirError> {
        let path = self.root.join("hub.lock");
        let error = |source| io_error(&path, source);
        let mut file = open_lock_file(&path, FileOwner::Writer).map_err(error)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => {
                let mut holder = String::new();
                // The name of the holder only helps; the lock is what counts.
                let _ = file.take(200).read_to_string(&mut holder);
                return Err(DataDirError::InUse {
                    path: self.root.display().to_string(),
                    holder: match holder.trim() {
                        "" => "process unknown".into(),
                        holder => holder.to_owned(),
                    },
                });
            }
            Err(fs::TryLockError::Error(source)) => return Err(error(source)),
        }
        // What a killed Hub has left of its reading.
        let _ = fs::remove_dir_all(self.root.join(READING_DIR));
        let now = crate::api_types::Time::now();
        let holder = format!("process {}, since {now}\n", std::process::id());
        file.set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| file.write_all(holder.as_bytes()))
            .map_err(error)?;
        Ok(DataDirLock { _file: file })
    }

    /// The process that holds the lock of a directory, as it has written itself down; `None` if nobody does. Nothing is
    /// created or changed.
    pub fn find_holder(root: &Path) -> Result<Option<String>, DataDirError> {
        let path = root.join("hub.lock");
        let mut file = match fs::File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(io_error(&path, source)),
        };
        let mut holder = String::new();
        let read = (&mut file).take(200).read_to_string(&mut holder);
        read.map_err(|source| io_error(&path, source))?;
        match file.try_lock_shared() {
            Ok(()) => Ok(None),
            Err(fs::TryLockError::WouldBlock) => Ok(Some(holder.trim().to_owned())),
            Err(fs::TryLockError::Error(source)) => Err(io_error(&path, source)),
        }
    }

    /// This node's name, created once. It is not in the database, because several nodes may share that.
    pub fn node_id(&self) -> Result<String, DataDirError> {
        let path = self.root.join("node.id");
        match fs::read_to_string(&path) {
            Ok(id) if !id.trim().is_empty() => return Ok(id.trim().to_owned()),
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                return Err(io_error(&path, source));
            }
            Ok(_) | Err(_) => {}
        }
        let id = format!("n{}", random_hex::<4>()?);
        write_private(&path, format!("{id}\n").as_bytes())
            .map_err(|source| io_error(&path, source))?;
        Ok(id)
    }
}

fn io_error(path: &Path, source: io::Error) -> DataDirError {
    DataDirError::Io {
        path: path.display().to_string(),
        source,
    }
}

/// Like `ensure_private_dir`, with an error that names the path.
pub(crate) fn create_private_dir(path: &Path) -> Result<(), DataDirError> {
    ensure_private_dir(path).map_err(|source| {
        if source.kind() == io::ErrorKind::PermissionDenied
            && let Some(other) = find_other_owner(path)
        {
            return other;
        }
        io_error(path, source)
    })
}

/// Only the owner of a directory can close it to others. The root of a mounted volume often belongs to root.
#[cfg(unix)]
fn find_other_owner(path: &Path) -> Option<DataDirError> {
    use std::os::unix::fs::MetadataExt;
    let (owner, user) = (
        fs::metadata(path).ok()?.uid(),
        rustix::process::geteuid().as_raw(),
    );
    (owner != user).then(|| DataDirError::OtherOwner {
        path: path.display().to_string(),
        owner,
        user,
    })
}

#[cfg(not(unix))]
fn find_other_owner(_: &Path) -> Option<DataDirError> {
    None
}

/// Creates a directory that only its owner can enter. An existing one loses the permissions of others except search:
/// tenants with a user of their own need it to reach their homes, and may be running.
pub(crate) fn ensure_private_dir(path: &Path) -> io::Result<()> {
    create_private_dirs(path, FileOwner::Writer)?;
    restrict_permissions(path)
}

#[cfg(unix)]
fn restrict_permissions(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let passage = fs::metadata(path)?.permissions().mode() & 0o011;
    fs::set_permissions(path, fs::Permissions::from_mode(0o700 | passage))
}

#[cfg(not(unix))]
fn restrict_permissions(_: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(unix)]
    fn the_directory_and_its_parts_are_for_their_owner_alone() {
        use std::os::unix::fs::PermissionsExt;
        let root = tempfile::tempdir().unwrap();
        let open = root.path().join("hub");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).unwrap();
        let directory = DataDir::create(&open).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(directory.path()), 0o711, "the way through stays open");
        for name in SUBDIRECTORIES {
            assert_eq!(mode(&directory.path().join(name)), 0o700, "{name}");
        }
        let _lock = directory.lock().unwrap();
        assert_eq!(mode(&directory.path().join("hub.lock")), 0o600);
    }

    #[test]
    fn a_second_hub_is_told_who_is_there() {
        let root = tempfile::tempdir().unwrap();
        let directory = DataDir::create(root.path()).unwrap();
        let lock = directory.lock().unwrap();
        let error = directory.lock().unwrap_err().to_string();
        let expected = format!("process {}", std::process::id());
        assert!(error.contains(&expected), "{error}");
        let holder = DataDir::find_holder(root.path()).unwrap();
        assert!(holder.is_some_and(|holder| holder.starts_with(&expected)));
        drop(lock);
        assert_eq!(DataDir::find_holder(root.path()).unwrap(), None);
        directory.lock().unwrap();
    }

    #[test]
    fn a_node_keeps_its_name() {
        let root = tempfile::tempdir().unwrap();
        let directory = DataDir::create(root.path()).unwrap();
        let id = directory.node_id().unwrap();
        assert!(id.starts_with('n') && id.len() == 9, "{id}");
        assert_eq!(directory.node_id().unwrap(), id);
    }
}
