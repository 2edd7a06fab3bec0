//! Reads a home: which files there are, and what of their contents object storage does not have. The agent works in
//! there at the same time and may put anything there, so everything is opened relative to its directory, and no link is
//! followed.

use std::{
    collections::{HashMap, HashSet},
    ffi::{CStr, CString},
    fs::File,
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
    sync::Arc,
    time::Duration,
};

use hermes_config::beneath::{DIRECTORY_FLAGS, open_directory};
use rustix::{
    fs::{Dir, Mode, Stat, fstat, open, readlinkat},
    io::Errno,
};
use tokio::sync::mpsc;

use super::{
    database::{
        CopyContext, FileStamp, copy_database, is_database, now_ns, open_plain, with_suffix,
    },
    limit::{HomeLimit, ScanProgress},
    manifest::{
        ChunkRef, FilePart, KnownChunks, ManifestContent, ManifestEntry, compress_chunk, escape,
    },
    sparse::{SparsePart, SparseParts, read_part},
};
use crate::storage::{
    encryption::{EncryptionContext, SecretKey},
    files::{EntryType, read_entries},
};

/// Deeper than anything that people and agents create. Each level uses a descriptor.
const MAX_DEPTH: usize = 200;
/// A file that was changed this recently may change again without showing it.
const SETTLED: Duration = Duration::from_secs(1);
/// At the top of a home: sockets and records of processes of one machine.
const PROCESS_DIRECTORY: &[u8] = b"run";
const LOCK_SUFFIX: &[u8] = b".lock";
const DATABASE_SUFFIXES: [&str; 3] = ["-wal", "-shm", "-journal"];

/// What files contained when they were read last, by path.
pub(super) type FileCache = HashMap<Vec<u8>, CachedFile>;

#[derive(Debug, Clone)]
pub(super) struct CachedFile {
    stamp: FileStamp,
    chunks: Vec<FilePart>,
}

/// A chunk to be written.
pub(super) struct SealedChunk {
    pub(super) name: String,
    pub(super) content: Vec<u8>,
}

/// What a scan is made with.
pub(super) struct ScanInput {
    pub(super) key: SecretKey,
    pub(super) uid: String,
    pub(super) epoch: u64,
    pub(super) known: KnownChunks,
    pub(super) files: FileCache,
    pub(super) chunks: mpsc::Sender<SealedChunk>,
    pub(super) limit: HomeLimit,
    pub(super) progress: Arc<ScanProgress>,
}

/// What was found.
pub(super) struct ScannedHome {
    pub(super) entries: Vec<ManifestEntry>,
    pub(super) cache: FileCache,
}

struct HomeScan {
    input: ScanInput,
    started_ns: i64,
    sent: HashSet<String>,
    found: ScannedHome,
}

/// Reads a whole home. Chunks that are not known go to the channel, which is closed then. Blocking.
pub(super) fn scan_home(home: &Path, input: ScanInput) -> io::Result<ScannedHome> {
    let mut scan = HomeScan {
        input,
        started_ns: now_ns(),
        sent: HashSet::new(),
        found: ScannedHome {
            entries: Vec::new(),
            cache: FileCache::new(),
        },
    };
    let root = open(home, DIRECTORY_FLAGS, Mode::empty())?;
    let spool = home.parent().unwrap_or(home);
    scan.read_directory(root, &mut Vec::new(), 0, spool)?;
    Ok(scan.found)
}

impl HomeScan {
    fn read_directory(
        &mut self,
        directory: OwnedFd,
        path: &mut Vec<u8>,
        depth: usize,
        spool: &Path,
    ) -> io::Result<()> {
        let (directory, entries) = read_entries(Dir::new(directory)?)?;
        let directory = directory.fd()?;
        let length = path.len();
        for entry in &entries {
            let name = entry.name.as_c_str();
            if is_left_out(name.to_bytes(), depth) || entry.is_temporary() {
                continue;
            }
            if length > 0 {
                path.push(b'/');
            }
            path.extend_from_slice(name.to_bytes());
            self.count(0, 1)?;
            let read = match entry.kind {
                Some(EntryType::Dir) => self.read_subdirectory(directory, name, path, depth, spool),
                Some(EntryType::Symlink) => self.read_link(directory, name, path),
                Some(EntryType::File) => self.read_entry(directory, name, path, spool),
                None => Ok(()),
            };
            match read {
                Err(error) if is_out_of_reach(&error) => {
                    tracing::warn!(path = %escape(path), %error, "file left out of the checkpoint");
                }
                read => read?,
            }
            path.truncate(length);
        }
        Ok(())
    }

    fn read_subdirectory(
        &mut self,
        directory: BorrowedFd<'_>,
        name: &CStr,
        path: &mut Vec<u8>,
        depth: usize,
        spool: &Path,
    ) -> io::Result<()> {
        if depth >= MAX_DEPTH {
            return Err(Errno::ACCESS.into());
        }
        let inside = match open_directory(directory, name) {
            // Removed or replaced since it was listed.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(()),
            inside => inside?,
        };
        let mode = fstat(&inside)?.st_mode;
        self.add(path, ManifestContent::Dir { mode: mode & 0o777 });
        self.read_directory(inside, path, depth + 1, spool)
    }

    fn read_link(&mut self, directory: BorrowedFd<'_>, name: &CStr, path: &[u8]) -> io::Result<()> {
        match readlinkat(directory, name, Vec::new()) {
            Ok(target) => {
                let target = escape(target.to_bytes());
                self.add(path, ManifestContent::Link { target });
                Ok(())
            }
            Err(Errno::NOENT | Errno::INVAL) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn read_entry(
        &mut self,
        directory: BorrowedFd<'_>,
        name: &CStr,
        path: &[u8],
        spool: &Path,
    ) -> io::Result<()> {
        if belongs_to_database(directory, name)? {
            return Ok(());
        }
        let Some((file, stat)) = open_plain(directory, name)? else {
            return Ok(());
        };
        if !is_database(&file) {
            let content = (!self.is_known(path, &FileStamp::of(&stat))).then_some(file);
            return self.add_file(path, &stat, content);
        }
        let is_known = |suffix: &str, stamp: &FileStamp| {
            let path = [path, suffix.as_bytes()].concat();
            self.is_known(&path, stamp)
        };
        let check_size = |bytes: u64| self.input.progress.check_copy(bytes, self.input.limit);
        let place = CopyContext {
            spool,
            is_known: &is_known,
            check_size: &check_size,
        };
        let copy = copy_database(directory.as_fd(), name, &place)?;
        let Some(copy) = copy else {
            return Ok(());
        };
        self.add_file(path, &copy.main.stat, copy.main.content)?;
        if let Some(log) = copy.log {
            self.add_file(&[path, b"-wal"].concat(), &log.stat, log.content)?;
        }
        Ok(())
    }

    fn is_known(&self, path: &[u8], stamp: &FileStamp) -> bool {
        let cached = self.input.files.get(path);
        cached.is_some_and(|cached| cached.stamp == *stamp)
    }

    /// Adds a file; without content, it is as it was.
    fn add_file(&mut self, path: &[u8], stat: &Stat, content: Option<File>) -> io::Result<()> {
        let stamp = FileStamp::of(stat);
        let chunks = match content {
            Some(file) => {
                let size = u64::try_from(stat.st_size).unwrap_or(0);
                self.read_chunks(&file, size)?
            }
            None => match self.input.files.get(path) {
                Some(cached) => {
                    let bytes: u64 = cached.chunks.iter().map(stored_bytes).sum();
                    self.count(bytes, 0)?;
                    cached.chunks.clone()
                }
                None => return Err(io::Error::other("a file was taken for one that is known")),
            },
        };
        if stamp.is_older_than(SETTLED, self.started_ns) {
            let chunks = chunks.clone();
            self.found
                .cache
                .insert(path.to_vec(), CachedFile { stamp, chunks });
        }
        let content = ManifestContent::File {
            mode: stat.st_mode & 0o777,
            modified_ns: stamp.modified_ns,
            chunks,
        };
        self.add(path, content);
        Ok(())
    }

    fn read_chunks(&mut self, file: &File, size: u64) -> io::Result<Vec<FilePart>> {
        let mut parts = Vec::new();
        let mut sparse = SparseParts::new(file, size);
        let mut buffer = Vec::new();
        while let Some(part) = sparse.next_part()? {
            let (at, length) = match part {
                SparsePart::Hole(hole) => {
                    parts.push(FilePart::Hole { hole });
                    continue;
                }
                SparsePart::Data { at, length } => (at, length),
            };
            self.count(length as u64, 0)?;
            read_part(file, at, length, &mut buffer)?;
            if !buffer.is_empty() {
                parts.push(FilePart::Chunk(self.add_chunk(&buffer)?));
            }
            if buffer.len() < length {
                // It was cut off meanwhile.
                break;
            }
        }
        Ok(parts)
    }

    fn add_chunk(&mut self, content: &[u8]) -> io::Result<ChunkRef> {
        let name = self.input.key.name_of(content);
        let epoch = self.input.known.get(&name).copied();
        if epoch.is_none() && self.sent.insert(name.clone()) {
            self.send_chunk(&name, content)?;
        }
        Ok(ChunkRef {
            epoch: epoch.unwrap_or(self.input.epoch),
            name,
            size: content.len() as u64,
        })
    }

    fn count(&self, bytes: u64, files: u64) -> io::Result<()> {
        self.input.progress.add(bytes, files, self.input.limit)
    }

    fn send_chunk(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let purpose = EncryptionContext::chunk(&self.input.uid, name);
        let compressed = compress_chunk(content)?;
        let sealed = self.input.key.encrypt_bytes(&purpose, &compressed);
        let chunk = SealedChunk {
            name: name.to_owned(),
            content: sealed.map_err(io::Error::other)?,
        };
        // The receiver is gone if a chunk could not be written; it has the reason.
        self.input
            .chunks
            .blocking_send(chunk)
            .map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    fn add(&mut self, path: &[u8], content: ManifestContent) {
        self.found.entries.push(ManifestEntry::new(path, content));
    }
}

fn stored_bytes(part: &FilePart) -> u64 {
    match part {
        FilePart::Chunk(chunk) => chunk.size,
        FilePart::Hole { .. } => 0,
    }
}

/// Locks mean nothing on another machine. Below the top, files with such names are often others.
fn is_left_out(name: &[u8], depth: usize) -> bool {
    depth == 0 && (name == PROCESS_DIRECTORY || name.ends_with(LOCK_SUFFIX))
}

/// Its owner has taken the right to read it away, or it is too deep.
fn is_out_of_reach(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}

/// Whether a file is a log of a database, which is read together with it.
fn belongs_to_database(directory: BorrowedFd<'_>, name: &CStr) -> io::Result<bool> {
    for suffix in DATABASE_SUFFIXES {
        let Some(main) = name.to_bytes().strip_suffix(suffix.as_bytes()) else {
            continue;
        };
        let main = CString::new(main)?;
        debug_assert_eq!(*with_suffix(&main, suffix), *name);
        let found = open_plain(directory, &main)?;
        return Ok(found.is_some_and(|(file, _)| is_database(&file)));
    }
    Ok(false)
}
