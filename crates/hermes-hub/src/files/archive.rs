//! A directory of a workspace as one archive, packed while it is sent: only a few chunks are in memory, however large
//! the directory is. Links are not followed; links, pipes, devices and names that are not valid in a path of the Hub
//! are left out.

use std::{
    io::{self, Read, Write},
    mem,
    os::fd::{AsFd, OwnedFd},
};

use bytes::Bytes;
use rustix::{
    fs::{Dir, FileType, Mode, OFlags, Stat, fstat},
    io::Errno,
};
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;

use super::{
    EntryType, SharePath, Workspace,
    beneath::{Links, READ, open_beneath},
    directory::blocking,
    faults,
    path::DEEPEST,
    tree::{self, Name, Tree},
};
use crate::Problem;

const PIECE: usize = 64 * 1024;

const WAITING: usize = 4;

/// Fast, and much smaller for text.
const LEVEL: i32 = 3;

/// Chunks of an archive. Dropping it stops the packing.
pub type Pieces = mpsc::Receiver<io::Result<Bytes>>;

impl Workspace {
    /// Packs a directory or a single file as a `tar.zst`. `held` is dropped when that is done.
    pub async fn archive(
        &self,
        path: &SharePath,
        tasks: &TaskTracker,
        held: impl Send + 'static,
    ) -> Result<Pieces, Problem> {
        let (tree, path) = (self.tree(), path.clone());
        let start = blocking(move || open(&tree, &path)).await?;
        let (sender, pieces) = mpsc::channel(WAITING);
        // If the receiver is dropped, sending the next chunk fails and the task ends.
        tasks.spawn_blocking(move || {
            let _held = held;
            if let Err(error) = pack(start, Sink::new(sender.clone())) {
                // The stream ends with an error, so that a part is not taken for the whole.
                let _ = sender.blocking_send(Err(error));
            }
        });
        Ok(pieces)
    }
}

enum Start {
    File(String, OwnedFd, Stat),
    Directory(OwnedFd),
}

fn open(tree: &Tree, path: &SharePath) -> Result<Start, Problem> {
    let opened = open_beneath(
        tree.root(),
        path.as_str(),
        READ,
        Mode::empty(),
        Links::Refuse,
    );
    let opened = match opened {
        Err(Errno::NOTDIR) => return Err(faults::missing(path)),
        other => other.map_err(|error| faults::problem(error, path))?,
    };
    let stat = fstat(&opened).map_err(|error| faults::problem(error, path))?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => Ok(Start::Directory(opened)),
        FileType::RegularFile => {
            let name = path.as_str().rsplit('/').next().unwrap_or_default();
            Ok(Start::File(name.to_owned(), opened, stat))
        }
        _ => Err(faults::special(path)),
    }
}

type Builder = tar::Builder<zstd::stream::write::Encoder<'static, Sink>>;

fn pack(what: Start, sink: Sink) -> io::Result<()> {
    let encoder = zstd::stream::write::Encoder::new(sink, LEVEL)?;
    let mut builder = tar::Builder::new(encoder);
    match what {
        Start::File(name, file, stat) => add_file(&mut builder, &name, file, &stat)?,
        Start::Directory(directory) => add_directory(&mut builder, directory)?,
    }
    builder.into_inner()?.finish()?.finish()
}

/// One level of the walk.
struct Level {
    directory: Dir,
    /// Entries still to be packed, the next one last.
    names: Vec<Name>,
    path: String,
}

impl Level {
    fn new(directory: OwnedFd, path: String) -> io::Result<Self> {
        let (directory, mut names) = tree::names(Dir::new(directory)?)?;
        names.retain(|name| name.text().is_some());
        names.sort_unstable_by(|one, other| other.name.cmp(&one.name));
        Ok(Self {
            directory,
            names,
            path,
        })
    }
}

fn add_directory(builder: &mut Builder, directory: OwnedFd) -> io::Result<()> {
    let mut levels = vec![Level::new(directory, String::new())?];
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
                let Some((file, stat)) = gone_or(open_name(parent, &name, READ))? else {
                    continue;
                };
                // It may have been replaced since.
                if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
                    add_file(builder, &path, file, &stat)?;
                }
            }
            Some(EntryType::Dir) => {
                let opened = open_name(parent, &name, super::beneath::DIRECTORY);
                let Some((directory, stat)) = gone_or(opened)? else {
                    continue;
                };
                let mut header = header(&stat, tar::EntryType::Directory);
                header.set_size(0);
                builder.append_data(&mut header, format!("{path}/"), io::empty())?;
                if levels.len() < DEEPEST {
                    levels.push(Level::new(directory, path)?);
                }
            }
            Some(EntryType::Symlink) | None => {}
        }
    }
    Ok(())
}

fn open_name(parent: impl AsFd, name: &Name, flags: OFlags) -> Result<(OwnedFd, Stat), Errno> {
    let opened = open_beneath(
        parent,
        name.text().unwrap_or_default(),
        flags,
        Mode::empty(),
        Links::Refuse,
    )?;
    let stat = fstat(&opened)?;
    Ok((opened, stat))
}

/// The agent works there at the same time: entries that have been removed or replaced by a link are left out.
fn gone_or<T>(opened: Result<T, Errno>) -> io::Result<Option<T>> {
    match opened {
        Ok(opened) => Ok(Some(opened)),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS | Errno::NXIO) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn add_file(builder: &mut Builder, path: &str, file: OwnedFd, stat: &Stat) -> io::Result<()> {
    let mut header = header(stat, tar::EntryType::Regular);
    let size = tree::size(stat);
    header.set_size(size);
    let content = Exactly {
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
struct Exactly {
    file: std::fs::File,
    left: u64,
}

impl Read for Exactly {
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
struct Sink {
    sender: mpsc::Sender<io::Result<Bytes>>,
    piece: Vec<u8>,
}

impl Sink {
    fn new(sender: mpsc::Sender<io::Result<Bytes>>) -> Self {
        Self {
            sender,
            piece: Vec::with_capacity(PIECE),
        }
    }

    fn send(&mut self) -> io::Result<()> {
        if self.piece.is_empty() {
            return Ok(());
        }
        let piece = mem::replace(&mut self.piece, Vec::with_capacity(PIECE));
        self.sender
            .blocking_send(Ok(piece.into()))
            .map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    fn finish(mut self) -> io::Result<()> {
        self.send()
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(PIECE - self.piece.len());
        self.piece.extend_from_slice(&bytes[..taken]);
        if self.piece.len() == PIECE {
            self.send()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
