//! Restoring a home: into a new directory, which takes the place of the old one when everything in it was verified.
//! Nothing waits for the disk: after a crash of the machine the marker is not trusted, and the home is restored again.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use hermes_config::{
    private_file::{FileDurability, WriteOptions, write_file},
    random::random_number,
};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;

use super::{
    CheckpointError, Checkpoints, HomeRef, HomeState, chunk_name,
    manifest::{ChunkRef, FilePart, HomeManifest, ManifestContent, decompress_chunk, unescape},
};
use crate::storage::{encryption::EncryptionContext, state::CheckpointId};

const CONCURRENT_DOWNLOADS: usize = 8;
const RESTORING_PREFIX: &str = ".restoring-";
/// Beside the home.
const MARKER: &str = "checkpoint.json";
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestoreOutcome {
    /// There is no checkpoint, and the home stays as it is.
    None,
    /// This node has made the latest checkpoint from this home.
    UpToDate(CheckpointId),
    Restored(CheckpointId),
}

/// Which checkpoint a home on the disk has, at least.
#[derive(Debug, Serialize, Deserialize, PartialEq, Eq)]
struct CheckpointMarker {
    checkpoint: String,
    manifest_sha256: String,
    /// After a crash of the machine, the disk may have less than the checkpoint.
    boot_id: String,
}

impl CheckpointMarker {
    fn new(id: CheckpointId, manifest_sha256: &str) -> Self {
        Self {
            checkpoint: id.to_string(),
            manifest_sha256: manifest_sha256.to_owned(),
            boot_id: fs::read_to_string(BOOT_ID).unwrap_or_default(),
        }
    }
}

fn marker_path(home: &Path) -> Option<PathBuf> {
    Some(home.parent()?.join(MARKER))
}

/// Says that the home on the disk has this checkpoint. Without it, the next restore costs more.
pub(super) async fn write_marker(home: &Path, id: CheckpointId, manifest_sha256: &str) {
    let (path, marker) = (
        marker_path(home),
        CheckpointMarker::new(id, manifest_sha256),
    );
    let written = spawn_blocking(move || {
        let options = WriteOptions {
            durability: FileDurability::Unsynced,
            ..WriteOptions::default()
        };
        let (Some(path), Ok(text)) = (path, serde_json::to_vec(&marker)) else {
            return Ok(());
        };
        write_file(&path, &text, options)
    });
    if let Ok(Err(error)) = written.await {
        tracing::warn!(%error, "failed to record a home's checkpoint on the disk");
    }
}

pub(super) async fn remove_marker(home: &Path) {
    let path = marker_path(home);
    let removed = spawn_blocking(move || path.map_or(Ok(()), fs::remove_file)).await;
    if let Ok(Err(error)) = removed
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(%error, "failed to remove the record of a home's checkpoint");
    }
}

impl Checkpoints {
    pub(super) async fn restore_home(
        &self,
        home: HomeRef<'_>,
        state: &mut HomeState,
    ) -> Result<RestoreOutcome, CheckpointError> {
        self.unswept.lock().insert(home.uid.to_owned());
        let Some(row) = self.rows.latest_checkpoint(home.uid).await? else {
            return Ok(RestoreOutcome::None);
        };
        let expected = CheckpointMarker::new(row.id, &row.manifest_sha256);
        let (marker, path) = (marker_path(home.path), home.path.to_owned());
        let is_current = spawn_blocking(move || {
            let marker = fs::read(marker?).ok()?;
            let found: CheckpointMarker = serde_json::from_slice(&marker).ok()?;
            Some(found == expected && path.is_dir())
        });
        if is_current.await.ok().flatten() == Some(true) {
            return Ok(RestoreOutcome::UpToDate(row.id));
        }
        let latest = self.find_latest(home).await?;
        let latest = latest.ok_or(CheckpointError::Interrupted)?;
        let target = home.path.to_owned();
        let created = spawn_blocking(move || RestoringDir::create(&target)).await;
        let new_home = created
            .map_err(|_| CheckpointError::Interrupted)?
            .map_err(|source| home_error(home, source))?;
        self.write_files(home, latest.saved.id, &latest.manifest, &new_home.path)
            .await?;
        let target = home.path.to_owned();
        let swapped = spawn_blocking(move || new_home.replace(&target)).await;
        swapped
            .map_err(|_| CheckpointError::Interrupted)?
            .map_err(|source| home_error(home, source))?;
        write_marker(home.path, row.id, &row.manifest_sha256).await;
        let id = latest.saved.id;
        state.latest = Some(latest);
        Ok(RestoreOutcome::Restored(id))
    }

    /// Reads the latest checkpoint of a home from object storage and checks all of it.
    pub async fn verify(&self, home: HomeRef<'_>) -> Result<(), CheckpointError> {
        let Some(latest) = self.find_latest(home).await? else {
            return Ok(());
        };
        let id = latest.saved.id;
        let chunks: Vec<ChunkRef> = latest.manifest.chunks().cloned().collect();
        stream::iter(chunks)
            .map(|chunk| self.read_chunk(home.uid, id, chunk))
            .buffer_unordered(CONCURRENT_DOWNLOADS)
            .try_for_each(|_| std::future::ready(Ok(())))
            .await
    }

    /// Writes directories, then files, then links, so that nothing is written through a link.
    async fn write_files(
        &self,
        home: HomeRef<'_>,
        id: CheckpointId,
        manifest: &HomeManifest,
        stage: &Path,
    ) -> Result<(), CheckpointError> {
        let mut links = Vec::new();
        let mut directories = Vec::new();
        for entry in &manifest.entries {
            let path = entry.path().ok_or_else(|| CheckpointError::Damaged {
                id: id.to_string(),
                reason: "a path leads out of the home".into(),
            })?;
            let path = stage.join(path);
            match &entry.content {
                ManifestContent::Dir { mode } => {
                    make_directory(&path).map_err(|source| home_error(home, source))?;
                    directories.push((path, *mode));
                }
                ManifestContent::Link { target } => links.push((path, unescape(target))),
                ManifestContent::File {
                    mode,
                    modified_ns,
                    chunks,
                } => {
                    let file = self.write_file(home, id, &path, chunks).await?;
                    let (mode, modified_ns) = (*mode, *modified_ns);
                    finish_file(file, mode, modified_ns)
                        .await
                        .map_err(|source| home_error(home, source))?;
                }
            }
        }
        let finished = spawn_blocking(move || {
            for (path, target) in links {
                std::os::unix::fs::symlink(target, path)?;
            }
            // The innermost first: a directory may not be writable.
            for (path, mode) in directories.into_iter().rev() {
                fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
            }
            Ok(())
        });
        finished
            .await
            .map_err(|_| CheckpointError::Interrupted)?
            .map_err(|source| home_error(home, source))
    }

    async fn write_file(
        &self,
        home: HomeRef<'_>,
        id: CheckpointId,
        path: &Path,
        parts: &[FilePart],
    ) -> Result<File, CheckpointError> {
        let mut file = File::options()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .map_err(|source| home_error(home, source))?;
        let mut length: u64 = 0;
        let mut chunks = Vec::new();
        for part in parts {
            let size = match part {
                FilePart::Chunk(chunk) => {
                    chunks.push((length, chunk.clone()));
                    chunk.size
                }
                FilePart::Hole { hole } => *hole,
            };
            length = length.saturating_add(size);
        }
        // What nothing is written to is a hole.
        if parts
            .iter()
            .any(|part| matches!(part, FilePart::Hole { .. }))
        {
            file.set_len(length)
                .map_err(|source| home_error(home, source))?;
        }
        let mut contents = stream::iter(chunks)
            .map(|(at, chunk)| async move {
                let content = self.read_chunk(home.uid, id, chunk).await?;
                Ok::<_, CheckpointError>((at, content))
            })
            .buffered(CONCURRENT_DOWNLOADS);
        while let Some((at, content)) = contents.try_next().await? {
            let written =
                spawn_blocking(move || file.write_all_at(&content, at).map(|()| file)).await;
            file = written
                .map_err(|_| CheckpointError::Interrupted)?
                .map_err(|source| home_error(home, source))?;
        }
        Ok(file)
    }

    async fn read_chunk(
        &self,
        uid: &str,
        id: CheckpointId,
        chunk: ChunkRef,
    ) -> Result<Vec<u8>, CheckpointError> {
        let sealed = self
            .objects
            .get(&chunk_name(uid, chunk.epoch, &chunk.name))
            .await?;
        let (key, name) = (self.key.clone(), chunk.name.clone());
        let purpose = EncryptionContext::chunk(uid, &name);
        let size = usize::try_from(chunk.size).unwrap_or(usize::MAX);
        let opened = spawn_blocking(move || {
            let compressed = key.decrypt_bytes(&purpose, &sealed).ok()?;
            let content = decompress_chunk(&compressed, size).ok()?;
            (content.len() == size && key.name_of(&content) == name).then_some(content)
        });
        let opened = opened.await.map_err(|_| CheckpointError::Interrupted)?;
        opened.ok_or_else(|| CheckpointError::Damaged {
            id: id.to_string(),
            reason: format!("the chunk `{}` is not what was written", chunk.name),
        })
    }
}

fn home_error(home: HomeRef<'_>, source: io::Error) -> CheckpointError {
    CheckpointError::Home {
        path: home.path.display().to_string(),
        source,
    }
}

fn make_directory(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().mode(0o700).create(path)
}

async fn finish_file(file: File, mode: u32, modified_ns: i64) -> io::Result<()> {
    let finished = spawn_blocking(move || {
        let modified = u64::try_from(modified_ns).unwrap_or(0);
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_nanos(modified))?;
        file.set_permissions(fs::Permissions::from_mode(mode))
    });
    finished.await.map_err(io::Error::other)?
}

/// A new directory beside a home, removed unless it takes the home's place.
struct RestoringDir {
    path: PathBuf,
}

impl RestoringDir {
    /// Also removes what an interrupted restore has left. Blocking.
    fn create(home: &Path) -> io::Result<Self> {
        let parent = home
            .parent()
            .ok_or_else(|| io::Error::other("a home has a directory around it"))?;
        fs::create_dir_all(parent)?;
        for entry in fs::read_dir(parent)? {
            let entry = entry?;
            let name = entry.file_name();
            if name.to_string_lossy().starts_with(RESTORING_PREFIX) {
                fs::remove_dir_all(entry.path())?;
            }
        }
        let path = parent.join(format!("{RESTORING_PREFIX}{:x}", random_number()));
        make_directory(&path)?;
        Ok(Self { path })
    }

    /// Takes the place of the home, in one step.
    fn replace(self, home: &Path) -> io::Result<()> {
        if let Ok(metadata) = fs::metadata(home) {
            fs::set_permissions(&self.path, metadata.permissions())?;
            renameat_with(CWD, &self.path, CWD, home, RenameFlags::EXCHANGE)?;
        } else {
            renameat_with(CWD, &self.path, CWD, home, RenameFlags::NOREPLACE)?;
        }
        Ok(())
    }
}

impl Drop for RestoringDir {
    /// What is there now is an unfinished restore, or the home that was replaced.
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%error, "failed to remove a directory after a restore");
        }
    }
}
