//! Writing an archive.

use std::{
    fs,
    io::{self, Read, Write},
    os::fd::AsFd as _,
    path::{Path, PathBuf},
};

use hermes_config::private_file::{NewFileMode, TempFile, open_parent};
use sha2::{Digest, Sha256};
use tokio::task::spawn_blocking;

use super::{
    BackedUpFile, BackupContent, BackupError, BackupManifest, FORMAT_VERSION,
    FORMAT_VERSION_RAW_NAMES, MANIFEST_NAME, database, file_error,
};
use crate::{
    api_types::{Time, ids::hex},
    storage::{
        backup::scan::{self, BackupScan, FoundFile},
        data_dir::DataDir,
        state::SqliteState,
    },
};

/// Fast, and a third of the size.
const COMPRESSION_LEVEL: i32 = 3;

/// Whether a backup includes the keys that decrypt its secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyInBackup {
    /// Whoever has the file can read the secrets.
    With,
    Without,
}

pub async fn write_backup(
    directory: &DataDir,
    state: &SqliteState,
    key: KeyInBackup,
    out: impl Write + Send + 'static,
) -> Result<BackupManifest, BackupError> {
    let scratch = ScratchDir::new(directory)?;
    // The database first: the directories then contain everything it refers to, and possibly more.
    let copy = scratch.path.join("hub.db");
    state.copy_to(&copy).await?;
    let mut sources = vec![BackupSource {
        path: "hub.db".into(),
        copy: Some(copy),
    }];
    let root = directory.path().to_path_buf();
    let BackupScan {
        files: found,
        unreadable,
    } = scan::scan_data_dir(root.clone(), key).await?;
    for (number, FoundFile { path, is_database }) in found.into_iter().enumerate() {
        let mut source = BackupSource { path, copy: None };
        if is_database {
            // A running agent may write to it, so SQLite makes a consistent copy.
            let copy = scratch.path.join(format!("{number}.db"));
            match database::copy_database(&root, &source.path, &copy).await {
                Ok(()) => source.copy = Some(copy),
                Err(error) => {
                    tracing::warn!(%error, "SQLite cannot open a database; copying the file unchanged");
                }
            }
        }
        sources.push(source);
    }
    spawn_blocking(move || {
        let manifest = pack_files(&root, sources, unreadable, key, out);
        drop(scratch);
        manifest
    })
    .await
    .map_err(|_| BackupError::Interrupted)?
}

/// Name prefix of a backup that is not complete.
const TEMP_PREFIX: &str = ".hermes-";

/// Writes a backup into a private file. One that fails leaves no file behind that looks like a backup, and a link in its
/// place is replaced, not followed.
pub async fn write_backup_file(
    directory: &DataDir,
    state: &SqliteState,
    key: KeyInBackup,
    path: &Path,
) -> Result<BackupManifest, BackupError> {
    let parent = open_parent(path).map_err(file_error(path))?;
    let draft = TempFile::create(parent.as_fd(), TEMP_PREFIX, NewFileMode::Private)
        .map_err(file_error(path))?;
    let out = draft.file.try_clone().map_err(file_error(path))?;
    let manifest = write_backup(directory, state, key, out).await?;
    draft.file.sync_all().map_err(file_error(path))?;
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput);
    name.map_err(io::Error::from)
        .and_then(|name| draft.persist(name))
        .map_err(file_error(path))?;
    Ok(manifest)
}

struct BackupSource {
    /// Relative to the data directory, in the archive too.
    path: PathBuf,
    /// A copy to be packed instead.
    copy: Option<PathBuf>,
}

impl BackupSource {
    fn open(&self, root: &Path) -> io::Result<fs::File> {
        match &self.copy {
            Some(copy) => fs::File::open(copy),
            None => scan::open_below(root, &self.path),
        }
    }
}

/// A directory for copies, removed on drop.
struct ScratchDir {
    path: PathBuf,
}

impl ScratchDir {
    fn new(directory: &DataDir) -> Result<Self, BackupError> {
        let path = directory
            .path()
            .join(format!(".backup-{}", std::process::id()));
        // Left by a process that was killed.
        let _ = fs::remove_dir_all(&path);
        crate::storage::data_dir::create_private_dir(&path)?;
        Ok(Self { path })
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn pack_files(
    root: &Path,
    sources: Vec<BackupSource>,
    mut unreadable: Vec<PathBuf>,
    key: KeyInBackup,
    out: impl Write,
) -> Result<BackupManifest, BackupError> {
    let mut encoder = zstd::Encoder::new(out, COMPRESSION_LEVEL).map_err(BackupError::Archive)?;
    encoder
        .include_checksum(true)
        .map_err(BackupError::Archive)?;
    let mut archive = tar::Builder::new(encoder);
    let mut manifest = BackupManifest {
        form: FORMAT_VERSION,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        created_at: Time::now(),
        has_key: key == KeyInBackup::With,
        files: Vec::with_capacity(sources.len()),
        left_out: Vec::new(),
    };
    for source in sources {
        match pack_file(&mut archive, root, &source)? {
            PackOutcome::Added(content) => manifest
                .files
                .push(BackedUpFile::new(&source.path, content)),
            PackOutcome::Gone => {}
            PackOutcome::Unreadable => unreadable.push(source.path),
        }
    }
    if manifest.files.iter().any(|file| file.bytes.is_some()) {
        manifest.form = FORMAT_VERSION_RAW_NAMES;
    }
    let left_out = unreadable.iter().map(|path| path.to_string_lossy());
    manifest.left_out = left_out.map(Into::into).collect();
    let text = serde_json::to_vec(&manifest).map_err(|error| BackupError::Archive(error.into()))?;
    let mut header = header(tar::EntryType::Regular, text.len() as u64, 0o600);
    archive
        .append_data(&mut header, MANIFEST_NAME, text.as_slice())
        .map_err(BackupError::Archive)?;
    archive
        .into_inner()
        .and_then(zstd::Encoder::finish)
        .and_then(|mut out| out.flush())
        .map_err(BackupError::Archive)?;
    Ok(manifest)
}

enum PackOutcome {
    Added(BackupContent),
    /// Removed, or replaced by something that is not backed up.
    Gone,
    /// No permission.
    Unreadable,
}

/// The outcome for a source that cannot be opened or read.
fn outcome_for_error(path: &Path, error: io::Error) -> Result<PackOutcome, BackupError> {
    use io::ErrorKind;
    let is_link = error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error());
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => Ok(PackOutcome::Gone),
        _ if is_link => Ok(PackOutcome::Gone),
        ErrorKind::PermissionDenied | ErrorKind::InvalidFilename => Ok(PackOutcome::Unreadable),
        _ => Err(file_error(path)(error)),
    }
}

fn pack_file(
    archive: &mut tar::Builder<impl Write>,
    root: &Path,
    source: &BackupSource,
) -> Result<PackOutcome, BackupError> {
    let path = source.path.as_path();
    let from = source.copy.clone().unwrap_or_else(|| root.join(path));
    let metadata = match fs::symlink_metadata(&from) {
        Ok(metadata) => metadata,
        Err(error) => return outcome_for_error(&from, error),
    };
    if metadata.is_dir() {
        let mut header = header(tar::EntryType::Directory, 0, 0o700);
        archive
            .append_data(&mut header, path, io::empty())
            .map_err(BackupError::Archive)?;
        return Ok(PackOutcome::Added(BackupContent::Dir));
    }
    if metadata.is_symlink() {
        let target = match fs::read_link(&from) {
            Ok(target) => target,
            Err(error) => return outcome_for_error(&from, error),
        };
        let mut header = header(tar::EntryType::Symlink, 0, 0o777);
        archive
            .append_link(&mut header, path, &target)
            .map_err(BackupError::Archive)?;
        let target = target.to_string_lossy().into_owned();
        return Ok(PackOutcome::Added(BackupContent::Symlink { target }));
    }
    let file = match source.open(root) {
        Ok(file) => file,
        Err(error) => return outcome_for_error(&from, error),
    };
    // The open file may differ from the one that was listed; its own type and size count.
    let metadata = file.metadata().map_err(file_error(&from))?;
    if !metadata.is_file() {
        return Ok(PackOutcome::Gone);
    }
    let (size, mode) = (metadata.len(), permissions(&metadata));
    let mut content = HashingReader {
        inner: file.chain(io::repeat(0)).take(size),
        hash: Sha256::new(),
    };
    let mut header = header(tar::EntryType::Regular, size, mode);
    archive
        .append_data(&mut header, path, &mut content)
        .map_err(BackupError::Archive)?;
    Ok(PackOutcome::Added(BackupContent::File {
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
fn permissions(metadata: &fs::Metadata) -> u32 {
    std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o777
}

#[cfg(not(unix))]
fn permissions(_: &fs::Metadata) -> u32 {
    0o600
}

pub(super) struct HashingReader<R> {
    pub(super) inner: R,
    pub(super) hash: Sha256,
}

impl<R: Read> Read for HashingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.hash.update(&buffer[..count]);
        Ok(count)
    }
}
