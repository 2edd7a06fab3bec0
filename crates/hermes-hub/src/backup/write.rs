//! Writing an archive.

use std::{
    fs,
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use hermes_store::db;
use sha2::{Digest, Sha256};
use tokio::task::spawn_blocking;

use super::{
    BackedUp, BackupError, Content, FILES, FORM, KEYS, MANIFEST, Manifest, TREES, file_error,
};
use crate::{data_dir::DataDir, ids::hex, shapes::Time, state::SqliteState};

/// Quick, and a third of the size.
const LEVEL: i32 = 3;
/// What a SQLite database begins with.
const SQLITE: &[u8; 16] = b"SQLite format 3\0";

/// Whether a backup holds the keys that open its secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyInBackup {
    /// It does: whoever has the file has the secrets.
    With,
    /// It does not.
    Without,
}

/// Writes an archive of a Hub that may be running.
pub async fn write(
    directory: &DataDir,
    state: &SqliteState,
    key: KeyInBackup,
    out: impl Write + Send + 'static,
) -> Result<Manifest, BackupError> {
    let scratch = Scratch::new(directory)?;
    // The database first: what it knows of is then found in the trees, which may only have more.
    let copy = scratch.path.join("hub.db");
    state.copy_to(&copy).await?;
    let mut sources = vec![("hub.db".to_owned(), copy)];
    let found = find(directory.path().to_path_buf(), key).await?;
    for (number, Found { path, is_database }) in found.into_iter().enumerate() {
        let from = directory.path().join(&path);
        let from = if is_database {
            // A running agent writes to it: SQLite gives a whole copy.
            let copy = scratch.path.join(format!("{number}.db"));
            match db::copy_database(&from, &copy).await {
                Ok(()) => copy,
                Err(error) => {
                    tracing::warn!("copied as it is, since SQLite does not open it: {error}");
                    from
                }
            }
        } else {
            from
        };
        sources.push((path, from));
    }
    spawn_blocking(move || {
        let manifest = pack(sources, key, out);
        drop(scratch);
        manifest
    })
    .await
    .map_err(|_| BackupError::CutOff)?
}

/// A directory for copies, gone with this value.
struct Scratch {
    path: PathBuf,
}

impl Scratch {
    fn new(directory: &DataDir) -> Result<Self, BackupError> {
        let path = directory
            .path()
            .join(format!(".backup-{}", std::process::id()));
        // Left by one that was killed.
        let _ = fs::remove_dir_all(&path);
        crate::data_dir::make_private(&path)?;
        Ok(Self { path })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Something that belongs into a backup.
struct Found {
    /// Below the data directory.
    path: String,
    /// Whether SQLite has to copy it.
    is_database: bool,
}

/// What belongs into a backup, but for the Hub's own database.
async fn find(root: PathBuf, key: KeyInBackup) -> Result<Vec<Found>, BackupError> {
    spawn_blocking(move || {
        let mut names = FILES.to_vec();
        if key == KeyInBackup::With {
            names.extend(KEYS);
        }
        let mut paths: Vec<String> = names
            .into_iter()
            .filter(|name| root.join(name).is_file())
            .map(str::to_owned)
            .collect();
        for tree in TREES {
            walk(&root, tree, &mut paths)?;
        }
        let found = paths.into_iter().map(|path| Found {
            is_database: is_database(&root.join(&path)),
            path,
        });
        Ok(found.collect())
    })
    .await
    .map_err(|_| BackupError::CutOff)?
}

fn walk(root: &Path, below: &str, found: &mut Vec<String>) -> Result<(), BackupError> {
    let path = root.join(below);
    let entries = match fs::read_dir(&path) {
        Ok(entries) => entries,
        // Removed since it was seen.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(file_error(&path)(error)),
    };
    found.push(below.to_owned());
    for entry in entries {
        let entry = entry.map_err(file_error(&path))?;
        let name = entry.file_name().into_string().map_err(|name| {
            let error = io::Error::other("a name that is no UTF-8 can not be backed up; rename it");
            file_error(&path.join(name))(error)
        })?;
        let kind = entry.file_type().map_err(file_error(&entry.path()))?;
        let below = format!("{below}/{name}");
        if kind.is_dir() {
            walk(root, &below, found)?;
        } else if (kind.is_file() || kind.is_symlink()) && !is_log_of_database(&entry.path()) {
            found.push(below);
        }
    }
    Ok(())
}

/// Whether a file is a database by what it begins with.
fn is_database(path: &Path) -> bool {
    let mut start = [0; 16];
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file())
        && fs::File::open(path).is_ok_and(|mut file| file.read_exact(&mut start).is_ok())
        && start == *SQLITE
}

/// What SQLite keeps beside a database is part of the copy already.
fn is_log_of_database(path: &Path) -> bool {
    let path = path.to_string_lossy();
    ["-wal", "-shm", "-journal"].iter().any(|suffix| {
        path.strip_suffix(suffix)
            .is_some_and(|database| is_database(Path::new(database)))
    })
}

fn pack(
    sources: Vec<(String, PathBuf)>,
    key: KeyInBackup,
    out: impl Write,
) -> Result<Manifest, BackupError> {
    let mut encoder = zstd::Encoder::new(out, LEVEL).map_err(BackupError::Archive)?;
    encoder
        .include_checksum(true)
        .map_err(BackupError::Archive)?;
    let mut archive = tar::Builder::new(encoder);
    let mut manifest = Manifest {
        form: FORM,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        created_at: Time::now(),
        has_key: key == KeyInBackup::With,
        files: Vec::with_capacity(sources.len()),
    };
    for (path, from) in sources {
        if let Some(content) = pack_one(&mut archive, &path, &from)? {
            manifest.files.push(BackedUp { path, content });
        }
    }
    let text = serde_json::to_vec(&manifest).map_err(|error| BackupError::Archive(error.into()))?;
    let mut header = header(tar::EntryType::Regular, text.len() as u64, 0o600);
    archive
        .append_data(&mut header, MANIFEST, text.as_slice())
        .map_err(BackupError::Archive)?;
    archive
        .into_inner()
        .and_then(zstd::Encoder::finish)
        .and_then(|mut out| out.flush())
        .map_err(BackupError::Archive)?;
    Ok(manifest)
}

/// Adds a file as it is now; nothing if it is gone.
fn pack_one(
    archive: &mut tar::Builder<impl Write>,
    path: &str,
    from: &Path,
) -> Result<Option<Content>, BackupError> {
    let metadata = match fs::symlink_metadata(from) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(file_error(from)(error)),
    };
    if metadata.is_dir() {
        let mut header = header(tar::EntryType::Directory, 0, 0o700);
        archive
            .append_data(&mut header, path, io::empty())
            .map_err(BackupError::Archive)?;
        return Ok(Some(Content::Dir));
    }
    if metadata.is_symlink() {
        let target = fs::read_link(from).map_err(file_error(from))?;
        let mut header = header(tar::EntryType::Symlink, 0, 0o777);
        archive
            .append_link(&mut header, path, &target)
            .map_err(BackupError::Archive)?;
        let target = target.to_string_lossy().into_owned();
        return Ok(Some(Content::Symlink { target }));
    }
    let file = match fs::File::open(from) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(file_error(from)(error)),
    };
    // The open file may be another one than what was looked at; its own size counts.
    let metadata = file.metadata().map_err(file_error(from))?;
    let (size, mode) = (metadata.len(), mode(&metadata));
    let mut content = Hashing {
        inner: file.chain(io::repeat(0)).take(size),
        hash: Sha256::new(),
    };
    let mut header = header(tar::EntryType::Regular, size, mode);
    archive
        .append_data(&mut header, path, &mut content)
        .map_err(BackupError::Archive)?;
    Ok(Some(Content::File {
        size,
        sha256: hex(&content.hash.finalize()),
        mode,
    }))
}

fn header(kind: tar::EntryType, size: u64, mode: u32) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(mode);
    header
}

#[cfg(unix)]
fn mode(metadata: &fs::Metadata) -> u32 {
    std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o777
}

#[cfg(not(unix))]
fn mode(_: &fs::Metadata) -> u32 {
    0o600
}

/// Hashes what is read through it.
pub(super) struct Hashing<R> {
    pub(super) inner: R,
    pub(super) hash: Sha256,
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.hash.update(&buffer[..count]);
        Ok(count)
    }
}
