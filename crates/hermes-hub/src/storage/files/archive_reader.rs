//! Reading an archive that a client sends: `tar`, plain or compressed with zstd. Nothing in it is trusted: only regular
//! files and directories at paths of the Hub are taken, within limits on entries, bytes and the ratio of compression.

use std::{
    cell::Cell,
    collections::HashSet,
    io::{self, Read},
};

use super::SharePath;
use crate::{Problem, ProblemCode};

const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Where a tar header says what it is.
const TAR_MAGIC_AT: usize = 257;
/// What a small archive may unpack to, however well it is compressed.
const FREE_BYTES: u64 = 16 << 20;
/// Text is rarely compressed better than this, and zeros are.
const MAX_RATIO: u64 = 100;
/// Header, padding and long names of an entry.
const ENTRY_OVERHEAD: u64 = 8192;
/// The memory of the decoder: 128 MiB, what `zstd` itself uses without `--long`.
const MAX_WINDOW_LOG: u32 = 27;

#[derive(Debug, Clone, Copy)]
pub(crate) struct ArchiveLimits {
    pub(crate) entries: usize,
    /// Of all files together.
    pub(crate) bytes: u64,
}

impl ArchiveLimits {
    /// Of the directory of a skill.
    pub(crate) const OF_SKILL: Self = Self {
        entries: 1000,
        bytes: 8 << 20,
    };
}

/// An entry of an archive.
pub(crate) enum ArchiveEntry<'a> {
    Directory(SharePath),
    File(SharePath, u64, &'a mut dyn Read),
}

/// Passes every entry to the visitor. A refused entry ends it with a problem.
pub(crate) fn read_archive(
    archive: &[u8],
    limits: ArchiveLimits,
    mut visit: impl FnMut(ArchiveEntry<'_>) -> Result<(), Problem>,
) -> Result<(), Problem> {
    let is_exceeded = Cell::new(false);
    let most = limits
        .bytes
        .saturating_add(limits.entries as u64 * ENTRY_OVERHEAD)
        .min(
            (archive.len() as u64)
                .saturating_mul(MAX_RATIO)
                .max(FREE_BYTES),
        );
    let damaged = |error: io::Error| {
        if is_exceeded.get() {
            return too_large(&format!("it unpacks to more than {most} bytes"));
        }
        Problem::invalid(format!("the archive is damaged: {error}")).with_reason("archive_damaged")
    };
    let reader = BoundedReader {
        inner: open_archive(archive)?,
        left: most,
        is_exceeded: &is_exceeded,
    };
    let mut tar = tar::Archive::new(reader);
    let mut paths = SeenPaths::default();
    let (mut entries, mut bytes) = (0, 0_u64);
    for entry in tar.entries().map_err(damaged)? {
        let mut entry = entry.map_err(damaged)?;
        entries += 1;
        if entries > limits.entries {
            return Err(too_large(&format!(
                "it has more than {} entries",
                limits.entries
            )));
        }
        let kind = entry.header().entry_type();
        if kind == tar::EntryType::XGlobalHeader {
            continue;
        }
        let path = entry_path(&entry.path_bytes())?;
        match kind {
            tar::EntryType::Directory => {
                paths.add_directory(&path)?;
                visit(ArchiveEntry::Directory(path))?;
            }
            tar::EntryType::Regular => {
                let size = entry.size();
                bytes = bytes.saturating_add(size);
                if bytes > limits.bytes {
                    return Err(too_large(&format!(
                        "its files have more than {} bytes",
                        limits.bytes
                    )));
                }
                paths.add_file(&path)?;
                visit(ArchiveEntry::File(path, size, &mut entry))?;
            }
            _ => {
                return Err(refused_entry(
                    path.as_str(),
                    "it is neither a file nor a directory; links and devices are not unpacked",
                ));
            }
        }
    }
    // To the end, so that the checksum is verified.
    io::copy(&mut tar.into_inner(), &mut io::sink()).map_err(damaged)?;
    Ok(())
}

fn open_archive(archive: &[u8]) -> Result<Box<dyn Read + '_>, Problem> {
    if archive.starts_with(&ZSTD_MAGIC) {
        let mut decoder =
            zstd::Decoder::with_buffer(archive).map_err(|error| Problem::internal(&error))?;
        decoder
            .window_log_max(MAX_WINDOW_LOG)
            .map_err(|error| Problem::internal(&error))?;
        return Ok(Box::new(decoder));
    }
    let magic = archive.get(TAR_MAGIC_AT..TAR_MAGIC_AT + 5);
    if magic == Some(b"ustar".as_slice()) {
        return Ok(Box::new(archive));
    }
    Err(Problem::new(
        ProblemCode::UnsupportedMediaType,
        "the archive is neither `tar` nor `tar.zst`; pack it with `tar --zstd -cf`",
    ))
}

fn entry_path(bytes: &[u8]) -> Result<SharePath, Problem> {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return Err(refused_entry("", "its name is not UTF-8"));
    };
    SharePath::parse(text).map_err(|problem| refused_entry(text, &problem.message))
}

fn refused_entry(path: &str, reason: &str) -> Problem {
    let path: String = path
        .chars()
        .filter(|character| !character.is_control())
        .take(200)
        .collect();
    Problem::invalid(format!(
        "the archive's entry `{path}` is refused: {reason}; nothing was unpacked"
    ))
    .with_reason("archive_entry")
}

fn too_large(reason: &str) -> Problem {
    Problem::new(
        ProblemCode::PayloadTooLarge,
        format!("the archive is refused: {reason}; send it in parts"),
    )
    .with_reason("archive_too_large")
}

/// The paths of an archive: none is there twice, and none is a file and a directory.
#[derive(Default)]
struct SeenPaths {
    files: HashSet<SharePath>,
    directories: HashSet<SharePath>,
}

impl SeenPaths {
    fn add_directory(&mut self, path: &SharePath) -> Result<(), Problem> {
        let mut above = path.clone();
        loop {
            if self.files.contains(&above) {
                return Err(refused_entry(path.as_str(), "a file has the same path"));
            }
            if !self.directories.insert(above.clone()) {
                return Ok(());
            }
            match above.split() {
                Some((parent, _)) => above = parent,
                None => return Ok(()),
            }
        }
    }

    fn add_file(&mut self, path: &SharePath) -> Result<(), Problem> {
        let Some((parent, _)) = path.split() else {
            return Err(refused_entry("", "a file needs a name"));
        };
        if self.directories.contains(path) || !self.files.insert(path.clone()) {
            return Err(refused_entry(path.as_str(), "it is there twice"));
        }
        self.add_directory(&parent)
    }
}

/// Fails when more is read than an archive may unpack to.
struct BoundedReader<'a, R> {
    inner: R,
    left: u64,
    is_exceeded: &'a Cell<bool>,
}

impl<R: Read> Read for BoundedReader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        let Some(left) = self.left.checked_sub(read as u64) else {
            self.is_exceeded.set(true);
            return Err(io::Error::other("too large"));
        };
        self.left = left;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: ArchiveLimits = ArchiveLimits {
        entries: 100,
        bytes: 64 << 20,
    };

    fn tar(fill: impl FnOnce(&mut tar::Builder<Vec<u8>>)) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        fill(&mut builder);
        builder.into_inner().unwrap()
    }

    fn file(builder: &mut tar::Builder<Vec<u8>>, path: &str, content: &[u8]) {
        let mut header = tar::Header::new_ustar();
        // As a hostile client writes it: the library itself refuses such paths.
        header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        builder.append(&header, content).unwrap();
    }

    fn names(archive: &[u8]) -> Result<Vec<String>, Problem> {
        let mut names = Vec::new();
        read_archive(archive, LIMITS, |entry| {
            names.push(match entry {
                ArchiveEntry::Directory(path) => format!("{path}/"),
                ArchiveEntry::File(path, ..) => path.as_str().to_owned(),
            });
            Ok(())
        })?;
        Ok(names)
    }

    #[test]
    fn plain_and_compressed_archives_are_read() {
        let plain = tar(|builder| {
            file(builder, "./a.md", b"one");
            file(builder, "b/c.md", b"two");
        });
        assert_eq!(names(&plain).unwrap(), ["a.md", "b/c.md"]);
        let packed = zstd::encode_all(&*plain, 3).unwrap();
        assert_eq!(names(&packed).unwrap(), ["a.md", "b/c.md"]);
        let broken = &packed[..packed.len() - 3];
        assert_eq!(names(broken).unwrap_err().reason, Some("archive_damaged"));
        assert_eq!(names(b"PK\x03\x04").unwrap_err().code.status(), 415);
    }

    #[test]
    fn no_path_leads_out_and_none_is_there_twice() {
        for path in [
            "../a",
            "/etc/passwd",
            "a/../../b",
            "a\\b",
            ".hub-tmp-1",
            "..",
        ] {
            let archive = tar(|builder| file(builder, path, b"x"));
            assert_eq!(
                names(&archive).unwrap_err().reason,
                Some("archive_entry"),
                "{path}"
            );
        }
        for pair in [["a", "a"], ["a", "a/b"], ["a/b", "a"]] {
            let archive = tar(|builder| pair.iter().for_each(|path| file(builder, path, b"x")));
            assert_eq!(
                names(&archive).unwrap_err().reason,
                Some("archive_entry"),
                "{pair:?}"
            );
        }
    }

    #[test]
    fn links_and_devices_are_refused() {
        for kind in [
            tar::EntryType::Symlink,
            tar::EntryType::Link,
            tar::EntryType::Fifo,
            tar::EntryType::Char,
        ] {
            let archive = tar(|builder| {
                let mut header = tar::Header::new_gnu();
                header.set_entry_type(kind);
                header.set_size(0);
                header.set_link_name("/etc/passwd").unwrap();
                builder.append_data(&mut header, "a", io::empty()).unwrap();
            });
            let problem = names(&archive).unwrap_err();
            assert_eq!(problem.reason, Some("archive_entry"), "{kind:?}");
        }
    }

    #[test]
    fn bombs_are_left_alone_before_they_are_unpacked() {
        let zeros = vec![0; 60 << 20];
        let archive = tar(|builder| file(builder, "zeros", &zeros));
        assert!(names(&archive).is_ok(), "as large as it says");
        let packed = zstd::encode_all(&*archive, 3).unwrap();
        assert!(packed.len() < 100_000);
        let problem = names(&packed).unwrap_err();
        assert_eq!(
            (problem.code.status(), problem.reason),
            (413, Some("archive_too_large"))
        );
        let many = tar(|builder| (0..101).for_each(|at| file(builder, &at.to_string(), b"")));
        assert_eq!(names(&many).unwrap_err().code.status(), 413);
        // A header that promises more than there may be.
        let mut header = tar::Header::new_ustar();
        header.set_path("a").unwrap();
        header.set_size(1 << 40);
        header.set_cksum();
        let problem = names(header.as_bytes()).unwrap_err();
        assert_eq!(problem.code.status(), 413);
    }
}
