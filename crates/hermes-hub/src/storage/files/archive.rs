//! A directory of a workspace as one archive, packed while it is sent: only a few chunks are in memory, however large
//! the directory is. Links are not followed; links, pipes, devices and names that are not valid in a path of the Hub
//! are left out.

use std::{
    io::{self, Read, Write},
    mem,
    os::fd::{AsFd, OwnedFd},
};

use bytes::Bytes;
use hermes_config::beneath::{READ_FLAGS, SymlinkPolicy, open_beneath};
use rustix::{
    fs::{Dir, FileType, Mode, OFlags, Stat, fstat},
    io::Errno,
};
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;

use super::{
    EntryType, SharePath, Workspace,
    directory::run_blocking,
    path::MAX_SEGMENTS,
    tree::{self, DirectoryEntry, Tree},
};
use crate::{Problem, storage::files::problems};

const CHUNK_BYTES: usize = 64 * 1024;

const MAX_PENDING_CHUNKS: usize = 4;

/// Fast, and much smaller for text.
const COMPRESSION_LEVEL: i32 = 3;

/// Chunks of an archive. Dropping it stops the packing.
pub type ArchiveChunks = mpsc::Receiver<io::Result<Bytes>>;

impl Workspace {
    /// Packs a directory or a single file as a `tar.zst`. `held` is dropped when that is done.
    pub async fn archive(
        &self,
        path: &SharePath,
        tasks: &TaskTracker,
        held: impl Send + 'static,
    ) -> Result<ArchiveChunks, Problem> {
        let (tree, path) = (self.tree(), path.clone());
        let start = run_blocking(move || open_root(&tree, &path)).await?;
        let (sender, pieces) = mpsc::channel(MAX_PENDING_CHUNKS);
        // If the receiver is dropped, sending the next chunk fails and the task ends.
        tasks.spawn_blocking(move || {
            let _held = held;
            if let Err(error) = pack_archive(start, ChunkWriter::new(sender.clone())) {
                // The stream ends with an error, so that a part is not taken for the whole.
                let _ = sender.blocking_send(Err(error));
            }
        });
        Ok(pieces)
    }
}

enum ArchiveRoot {
    File(String, OwnedFd, Stat),
    Directory(OwnedFd),
}

fn open_root(tree: &Tree, path: &SharePath) -> Result<ArchiveRoot, Problem> {
    let opened = open_beneath(
        tree.root(),
        path.as_str(),
        READ_FLAGS,
        Mode::empty(),
        SymlinkPolicy::Refuse,
    );
    let opened = match opened {
        Err(Errno::NOTDIR) => return Err(problems::path_not_found(path)),
        other => other.map_err(|error| problems::problem_from_errno(error, path))?,
    };
    let stat = fstat(&opened).map_err(|error| problems::problem_from_errno(error, path))?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => Ok(ArchiveRoot::Directory(opened)),
        FileType::RegularFile => {
            let name = path.as_str().rsplit('/').next().unwrap_or_default();
            Ok(ArchiveRoot::File(name.to_owned(), opened, stat))
        }
        _ => Err(problems::special_file(path)),
    }
}

type ArchiveBuilder = tar::Builder<zstd::stream::write::Encoder<'static, ChunkWriter>>;

fn pack_archive(what: ArchiveRoot, sink: ChunkWriter) -> io::Result<()> {
    let encoder = zstd::stream::write::Encoder::new(sink, COMPRESSION_LEVEL)?;
    let mut builder = tar::Builder::new(encoder);
    match what {
        ArchiveRoot::File(name, file, stat) => add_file(&mut builder, &name, file, &stat)?,
        ArchiveRoot::Directory(directory) => add_directory(&mut builder, directory)?,
    }
    builder.into_inner()?.finish()?.finish()
}

/// One level of the walk.
struct DirectoryLevel {
    directory: Dir,
    /// Entries still to be packed, the next one last.
    names: Vec<DirectoryEntry>,
    path: String,
}

impl DirectoryLevel {
    fn new(directory: OwnedFd, path: String) -> io::Result<Self> {
        let (directory, mut names) = tree::read_entries(Dir::new(directory)?)?;
        names.retain(|name| name.text().is_some());
        names.sort_unstable_by(|one, other| other.name.cmp(&one.name));
        Ok(Self {
            directory,
            names,
            path,
        })
    }
}

fn add_directory(builder: &mut ArchiveBuilder, directory: OwnedFd) -> io::Result<()> {
    let mut levels = vec![DirectoryLevel::new(directory, String::new())?];
    while let Some(level) = levels.last_mut() {
        let Some(name) = level.names.pop() else {
            levels.pop();
            continue;
        };
        let path = match (name.text(), level.path.as_str()) {
            (None, _) => continue,
            (Some(name), "") => name.to_owned(),
            (Some(name), above) => format!("{above}/{name}"),
        };
        let parent = level.directory.fd()?;
        match name.kind {
            Some(EntryType::File) => {
                let Some((file, stat)) = skip_missing(open_name(parent, &name, READ_FLAGS))? else {
                    continue;
                };
                // It may have been replaced since.
                if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
                    add_file(builder, &path, file, &stat)?;
                }
            }
            Some(EntryType::Dir) => {
                let opened = open_name(parent, &name, hermes_config::beneath::DIRECTORY_FLAGS);
                let Some((directory, stat)) = skip_missing(opened)? else {
                    continue;
                };
                let mut header = header(&stat, tar::EntryType::Directory);
                header.set_size(0);
                builder.append_data(&mut header, format!("{path}/"), io::empty())?;
                if levels.len() < MAX_SEGMENTS {
                    levels.push(DirectoryLevel::new(directory, path)?);
                }
            }
            Some(EntryType::Symlink) | None => {}
        }
    }
    Ok(())
}

fn open_name(
    parent: impl AsFd,
    name: &DirectoryEntry,
    flags: OFlags,
) -> Result<(OwnedFd, Stat), Errno> {
    let opened = open_beneath(
        parent,
        name.text().unwrap_or_default(),
        flags,
        Mode::empty(),
        SymlinkPolicy::Refuse,
    )?;
    let stat = fstat(&opened)?;
    Ok((opened, stat))
}

/// The agent works there at the same time: entries that have been removed or replaced by a link are left out.
fn skip_missing<T>(opened: Result<T, Errno>) -> io::Result<Option<T>> {
    match opened {
        Ok(opened) => Ok(Some(opened)),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS | Errno::NXIO) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn add_file(
    builder: &mut ArchiveBuilder,
    path: &str,
    file: OwnedFd,
    stat: &Stat,
) -> io::Result<()> {
    let mut header = header(stat, tar::EntryType::Regular);
    let size = tree::file_size(stat);
    header.set_size(size);
    let content = FixedLengthReader {
        file: file.into(),
        left: size,
    };
    builder.append_data(&mut header, path, content)
}

fn header(stat: &Stat, kind: tar::EntryType) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(stat.st_mode & 0o755);
    header.set_mtime(u64::try_from(stat.st_mtime).unwrap_or(0));
    header.set_uid(0);
    header.set_gid(0);
    header
}

/// Reads as many bytes as the header says, even if the file changes: truncated, or padded with zeros.
struct FixedLengthReader {
    file: std::fs::File,
    left: u64,
}

impl Read for FixedLengthReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        let buffer = &mut buffer[..most];
        let read = match self.file.read(buffer)? {
            0 => {
                buffer.fill(0);
                most
            }
            read => read,
        };
        self.left -= read as u64;
        Ok(read)
    }
}

/// Sends what is written in chunks.
struct ChunkWriter {
    sender: mpsc::Sender<io::Result<Bytes>>,
    chunk: Vec<u8>,
}

impl ChunkWriter {
    fn new(sender: mpsc::Sender<io::Result<Bytes>>) -> Self {
        Self {
            sender,
            chunk: Vec::with_capacity(CHUNK_BYTES),
        }
    }

    fn send_chunk(&mut self) -> io::Result<()> {
        if self.chunk.is_empty() {
            return Ok(());
        }
        let piece = mem::replace(&mut self.chunk, Vec::with_capacity(CHUNK_BYTES));
        self.sender
            .blocking_send(Ok(piece.into()))
            .map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    fn finish(mut self) -> io::Result<()> {
        self.send_chunk()
    }
}

impl Write for ChunkWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(CHUNK_BYTES - self.chunk.len());
        self.chunk.extend_from_slice(&bytes[..taken]);
        if self.chunk.len() == CHUNK_BYTES {
            self.send_chunk()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
