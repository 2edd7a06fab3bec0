//! Files with holes. Some programs make large files that contain little. Holes are neither read nor stored, and are holes
//! again when a home is restored.

use std::{fs::File, io, os::unix::fs::FileExt as _};

use rustix::{
    fs::{SeekFrom, seek},
    io::Errno,
};

use super::CHUNK_BYTES;

/// A part of a file. Parts begin at multiples of a chunk's size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SparsePart {
    /// So many bytes that were never written.
    Hole(u64),
    /// At most one chunk.
    Data { at: u64, length: usize },
}

/// The parts of a file, in order.
pub(super) struct SparseParts<'f> {
    file: &'f File,
    at: u64,
    size: u64,
}

impl<'f> SparseParts<'f> {
    pub(super) fn new(file: &'f File, size: u64) -> Self {
        Self { file, at: 0, size }
    }

    pub(super) fn next_part(&mut self) -> io::Result<Option<SparsePart>> {
        if self.at >= self.size {
            return Ok(None);
        }
        let chunk = CHUNK_BYTES as u64;
        let data = self.next_data()?;
        let start = if data == self.size {
            data
        } else {
            data - data % chunk
        };
        if start > self.at {
            let hole = start - self.at;
            self.at = start;
            return Ok(Some(SparsePart::Hole(hole)));
        }
        let length = chunk.min(self.size - self.at);
        let part = SparsePart::Data {
            at: self.at,
            length: usize::try_from(length).unwrap_or(CHUNK_BYTES),
        };
        self.at += length;
        Ok(Some(part))
    }

    /// Where data follows; the size if there is none. A file system that does not know holes has data everywhere.
    fn next_data(&self) -> io::Result<u64> {
        match seek(self.file, SeekFrom::Data(self.at)) {
            Ok(found) => Ok(found.clamp(self.at, self.size)),
            Err(Errno::NXIO) => Ok(self.size),
            Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(self.at),
            Err(error) => Err(error.into()),
        }
    }
}

/// Reads a part into the buffer, which is shorter if the file ends before.
pub(super) fn read_part(
    file: &File,
    at: u64,
    length: usize,
    buffer: &mut Vec<u8>,
) -> io::Result<()> {
    buffer.clear();
    buffer.resize(length, 0);
    let mut filled = 0;
    while filled < length {
        match file.read_at(&mut buffer[filled..], at + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    buffer.truncate(filled);
    Ok(())
}

/// Copies a file with its holes. `count` is told how much is about to be written and may refuse it.
pub(super) fn copy_sparse(
    from: &File,
    size: u64,
    to: &File,
    count: &dyn Fn(u64) -> io::Result<()>,
) -> io::Result<()> {
    to.set_len(size)?;
    let mut parts = SparseParts::new(from, size);
    let mut buffer = Vec::new();
    let mut written = 0;
    while let Some(part) = parts.next_part()? {
        let SparsePart::Data { at, length } = part else {
            continue;
        };
        written += length as u64;
        count(written)?;
        read_part(from, at, length, &mut buffer)?;
        to.write_all_at(&buffer, at)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn parts_of(file: &File, size: u64) -> Vec<SparsePart> {
        let mut parts = SparseParts::new(file, size);
        std::iter::from_fn(|| parts.next_part().unwrap()).collect()
    }

    #[test]
    fn holes_are_found_and_copied_as_holes() {
        let chunk = CHUNK_BYTES as u64;
        let file = tempfile::tempfile().unwrap();
        let size = 100 * chunk + 5;
        file.set_len(size).unwrap();
        file.write_all_at(b"text", 10 * chunk + 100_000).unwrap();
        let expected = [
            SparsePart::Hole(10 * chunk),
            SparsePart::Data {
                at: 10 * chunk,
                length: CHUNK_BYTES,
            },
            SparsePart::Hole(size - 11 * chunk),
        ];
        assert_eq!(parts_of(&file, size), expected);
        let copy = tempfile::tempfile().unwrap();
        copy_sparse(&file, size, &copy, &|_| Ok(())).unwrap();
        assert_eq!(parts_of(&copy, size), expected);
        let mut text = [0; 4];
        copy.read_exact_at(&mut text, 10 * chunk + 100_000).unwrap();
        assert_eq!(&text, b"text");
        let refused = copy_sparse(&file, size, &copy, &|_| Err(io::ErrorKind::Other.into()));
        assert!(refused.is_err());
    }

    #[test]
    fn a_file_without_holes_is_all_data() {
        let mut file = tempfile::tempfile().unwrap();
        assert_eq!(parts_of(&file, 0), []);
        file.write_all(&vec![1; CHUNK_BYTES + 7]).unwrap();
        let size = CHUNK_BYTES as u64 + 7;
        let [first, second] = parts_of(&file, size)[..] else {
            panic!("two chunks");
        };
        assert_eq!(
            first,
            SparsePart::Data {
                at: 0,
                length: CHUNK_BYTES
            }
        );
        assert_eq!(
            second,
            SparsePart::Data {
                at: CHUNK_BYTES as u64,
                length: 7
            }
        );
    }
}
