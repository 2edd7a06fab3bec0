//! Restoring an archive, completely or not at all.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Read},
    path::{Component, Path, PathBuf},
};

use sha2::{Digest, Sha256};
use tokio::task::spawn_blocking;

use super::{
    BackupContent, BackupError, BackupManifest, FORMAT_VERSION_RAW_NAMES, MANIFEST_NAME,
    RestoredCommand, SECRET_FILES, SINGLE_FILES, TREES, commands, file_error, write::HashingReader,
};
use crate::{
    api_types::ids::hex,
    storage::{
        audit::NewAuditEntry,
        data_dir::{DataDir, create_private_dir},
        state::{SqliteState, State},
    },
};

/// Enough for a million files.
const MAX_MANIFEST_BYTES: u64 = 512 * 1024 * 1024;

#[derive(Debug)]
pub struct RestoreReport {
    pub manifest: BackupManifest,
    /// Whether the database has secrets and the key that decrypts them is missing: put the key file there, or set them
    /// again.
    pub is_key_missing: bool,
    pub commands: Vec<RestoredCommand>,
}

/// Restores an archive into a directory, which must be empty or missing. It stays so unless the whole archive matches
/// its manifest.
pub async fn restore_backup(
    archive: impl Read + Send + 'static,
    target: &Path,
) -> Result<RestoreReport, BackupError> {
    let target = target.to_path_buf();
    let (stage, manifest, commands) = spawn_blocking(move || {
        let stage = StagingDir::new(target)?;
        let manifest = unpack_archive(archive, &stage.path)?;
        let commands = commands::find_commands(&stage.path, &manifest)?;
        Ok::<_, BackupError>((stage, manifest, commands))
    })
    .await
    .map_err(|_| BackupError::Interrupted)??;
    let has_sealed = migrate_database(&stage.path).await?;
    let directory = stage.finish()?;
    Ok(RestoreReport {
        is_key_missing: has_sealed && !directory.secret_key().exists(),
        manifest,
        commands,
    })
}

/// Migrates the database; returns whether it has secrets.
async fn migrate_database(stage: &Path) -> Result<bool, BackupError> {
    let path = stage.join("hub.db");
    let database = SqliteState::open(&path, "restore").await?;
    let has_sealed = database.has_encrypted().await;
    database.close().await;
    has_sealed.map_err(|error| BackupError::Damaged(error.to_string()))
}

/// Deletes the secrets of a Hub that was restored without its key: variables of tenants have to be set again, and
/// agents get new keys.
pub async fn forget_secrets(directory: &Path) -> Result<(), BackupError> {
    let database = SqliteState::open(&directory.join("hub.db"), "restore").await?;
    let entry = NewAuditEntry::by_hub("forget_secrets");
    let forgotten = database.delete_encrypted(entry).await;
    database.close().await;
    forgotten.map_err(|error| BackupError::Damaged(error.to_string()))
}

/// The directory for unpacked files until all of them are verified.
struct StagingDir {
    target: PathBuf,
    path: PathBuf,
}

impl StagingDir {
    fn new(target: PathBuf) -> Result<Self, BackupError> {
        match fs::read_dir(&target) {
            Ok(mut entries) => {
                if entries.next().is_some() {
                    return Err(BackupError::NotEmpty { path: target });
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(file_error(&target)(error)),
        }
        create_private_dir(&target)?;
        let path = target.join(".restoring");
        create_private_dir(&path)?;
        Ok(Self { target, path })
    }

    /// Moves everything into the target.
    fn finish(self) -> Result<DataDir, BackupError> {
        for entry in fs::read_dir(&self.path).map_err(file_error(&self.path))? {
            let entry = entry.map_err(file_error(&self.path))?;
            let path = self.target.join(entry.file_name());
            fs::rename(entry.path(), &path).map_err(file_error(&path))?;
        }
        Ok(DataDir::create(&self.target)?)
    }
}

impl Drop for StagingDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn unpack_archive(archive: impl Read, stage: &Path) -> Result<BackupManifest, BackupError> {
    let damaged = |error: io::Error| BackupError::Damaged(error.to_string());
    let decoder = zstd::Decoder::new(archive).map_err(damaged)?;
    let mut archive = tar::Archive::new(decoder);
    let mut unpacked = BTreeMap::new();
    let mut links = Vec::new();
    let mut manifest = None;
    for entry in archive.entries().map_err(damaged)? {
        let entry = entry.map_err(damaged)?;
        let path = entry.path().map_err(damaged)?.into_owned();
        if manifest.is_some() {
            return Err(BackupError::Damaged(
                "something follows the manifest".into(),
            ));
        }
        if path == Path::new(MANIFEST_NAME) {
            manifest = Some(read_manifest(entry)?);
            continue;
        }
        let name = checked_path(&path)?;
        check_entry(&name, entry.header().entry_type())?;
        let content = unpack_entry(entry, stage, &name, &mut links)?;
        if unpacked.insert(name.clone(), content).is_some() {
            let shown = name.display();
            return Err(BackupError::Damaged(format!("`{shown}` occurs twice")));
        }
    }
    // Read to the end, or the checksum of the stream is not verified.
    io::copy(&mut archive.into_inner(), &mut io::sink()).map_err(damaged)?;
    let manifest = manifest.ok_or_else(|| BackupError::Damaged("it is truncated".into()))?;
    compare_with_manifest(&manifest, unpacked)?;
    for (path, target) in links {
        make_link(&target, &stage.join(&path)).map_err(file_error(&path))?;
    }
    Ok(manifest)
}

fn read_manifest(entry: impl Read) -> Result<BackupManifest, BackupError> {
    let damaged = |error: serde_json::Error| BackupError::Damaged(error.to_string());
    let value: serde_json::Value =
        serde_json::from_reader(entry.take(MAX_MANIFEST_BYTES)).map_err(damaged)?;
    let form = value["form"].as_u64().unwrap_or_default();
    if form > u64::from(FORMAT_VERSION_RAW_NAMES) {
        let form = u32::try_from(form).unwrap_or(u32::MAX);
        return Err(BackupError::NewerFormat { form });
    }
    serde_json::from_value(value).map_err(damaged)
}

/// Refuses a path that leaves the directory.
fn checked_path(path: &Path) -> Result<PathBuf, BackupError> {
    let is_plain = |part| matches!(part, Component::Normal(_));
    // Rebuilt from components, so that there is no trailing slash.
    let plain: PathBuf = path.components().collect();
    if path.components().all(is_plain) && !plain.as_os_str().is_empty() {
        return Ok(plain);
    }
    Err(BackupError::Damaged(format!(
        "`{}` is outside the directory",
        path.display()
    )))
}

/// Refuses entries that no backup has: unknown names and file types at the top, and links instead of the Hub's own
/// directories.
fn check_entry(name: &Path, kind: tar::EntryType) -> Result<(), BackupError> {
    let mut parts = name.components();
    let top = parts.next().map(Component::as_os_str);
    let depth = parts.count();
    let is = |known: &str| top.is_some_and(|top| top == known);
    let is_expected = if TREES.into_iter().any(is) {
        // `tenants/acme/home` belongs to the Hub as well.
        let is_own = depth <= if is("tenants") { 2 } else { 1 };
        match kind {
            tar::EntryType::Symlink => !is_own,
            tar::EntryType::Directory => true,
            _ => depth > 0,
        }
    } else {
        let is_known = is("hub.db") || SINGLE_FILES.into_iter().chain(SECRET_FILES).any(is);
        is_known && depth == 0 && kind == tar::EntryType::Regular
    };
    if is_expected {
        return Ok(());
    }
    let message = format!("`{}` does not belong in a backup", name.display());
    Err(BackupError::Damaged(message))
}

/// Writes a file or directory. Links are created last, so that nothing is written through one.
fn unpack_entry(
    entry: tar::Entry<'_, impl Read>,
    stage: &Path,
    name: &Path,
    links: &mut Vec<(PathBuf, PathBuf)>,
) -> Result<BackupContent, BackupError> {
    let damaged = |error: io::Error| BackupError::Damaged(error.to_string());
    let path = stage.join(name);
    match entry.header().entry_type() {
        tar::EntryType::Directory => {
            create_private_dir(&path)?;
            Ok(BackupContent::Dir)
        }
        tar::EntryType::Symlink => {
            let target = entry.link_name().map_err(damaged)?.unwrap_or_default();
            links.push((name.into(), target.to_path_buf()));
            Ok(BackupContent::Symlink {
                target: target.to_string_lossy().into_owned(),
            })
        }
        tar::EntryType::Regular => {
            let mode = entry.header().mode().map_err(damaged)? & 0o777;
            if let Some(parent) = path.parent() {
                create_private_dir(parent)?;
            }
            let mut file = create_file(&path, mode).map_err(file_error(&path))?;
            let mut content = HashingReader {
                inner: entry,
                hash: Sha256::new(),
            };
            let size = io::copy(&mut content, &mut file).map_err(damaged)?;
            file.sync_all().map_err(file_error(&path))?;
            Ok(BackupContent::File {
                size,
                sha256: hex(&content.hash.finalize()),
                mode,
            })
        }
        kind => {
            let shown = name.display();
            Err(BackupError::Damaged(format!("`{shown}` is a {kind:?}")))
        }
    }
}

/// Checks that the unpacked files are exactly those of the manifest.
fn compare_with_manifest(
    manifest: &BackupManifest,
    mut unpacked: BTreeMap<PathBuf, BackupContent>,
) -> Result<(), BackupError> {
    for file in &manifest.files {
        match file.original_path().and_then(|path| unpacked.remove(&path)) {
            Some(content) if content == file.content => {}
            Some(_) => {
                let message = format!("`{}` does not match the manifest", file.path);
                return Err(BackupError::Damaged(message));
            }
            None => return Err(BackupError::Damaged(format!("`{}` is missing", file.path))),
        }
    }
    if let Some(name) = unpacked.into_keys().next() {
        return Err(BackupError::Damaged(format!(
            "`{}` is not in the manifest",
            name.display()
        )));
    }
    if !manifest.files.iter().any(|file| file.path == "hub.db") {
        return Err(BackupError::Damaged("it has no database".into()));
    }
    Ok(())
}

fn create_file(path: &Path, mode: u32) -> io::Result<fs::File> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode & 0o700 | 0o600);
    #[cfg(not(unix))]
    let _ = mode;
    options.open(path)
}

#[cfg(unix)]
fn make_link(target: &Path, path: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, path)
}

#[cfg(not(unix))]
fn make_link(_: &Path, _: &Path) -> io::Result<()> {
    Err(io::Error::other("no symbolic links here"))
}
