//! Reading a text file by lines, in parts that concatenate to the whole file.

use std::io::{self, Read};

use super::tree::{Tree, file_etag, file_size};
use crate::{
    Problem, ProblemCode,
    storage::files::{FileText, SharePath, problems},
};

/// How far a file is searched for a NUL byte before it counts as text.
pub(crate) const BINARY_SNIFF_BYTES: usize = 8 * 1024;
const BUFFER_BYTES: usize = 64 * 1024;

/// Which lines of a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LineRange {
    pub offset: u64,
    /// 0 is as many as fit.
    pub limit: u64,
}

/// Reads as many whole lines as fit into `most` bytes.
pub(crate) fn read_lines(
    tree: &Tree,
    path: &SharePath,
    lines: LineRange,
    most: usize,
) -> Result<FileText, Problem> {
    let (file, stat) = tree.open_file(path)?;
    let version = FileVersionRead {
        path,
        size: file_size(&stat),
        etag: file_etag(&stat),
    };
    // What is appended during the read belongs to the next version.
    let content = file.take(version.size);
    read_text(content, version, lines, most)
}

/// The version of a file that is read.
pub(crate) struct FileVersionRead<'p> {
    pub(crate) path: &'p SharePath,
    pub(crate) size: u64,
    pub(crate) etag: String,
}

/// Like [`read_lines`], from anywhere.
pub(crate) fn read_text(
    content: impl Read,
    version: FileVersionRead<'_>,
    lines: LineRange,
    most: usize,
) -> Result<FileText, Problem> {
    let FileVersionRead { path, size, etag } = version;
    let mut part = LineCollector::new(lines, most);
    scan_lines(content, &mut part).map_err(|fault| match fault {
        TextError::Binary => problems::binary_file(path),
        TextError::Io(error) => problems::problem_from_io(&error, path),
    })?;
    if part.lines == 0 && part.is_full {
        return Err(Problem::new(
            ProblemCode::PayloadTooLarge,
            format!(
                "the line at offset {} of `{path}` exceeds the read limit ({most} bytes): continue with the next",
                lines.offset
            ),
        ));
    }
    let content = String::from_utf8(part.content).map_err(|_| problems::binary_file(path))?;
    let next = lines.offset.saturating_add(part.lines);
    let truncated = next < part.total;
    Ok(FileText {
        path: path.as_str().to_owned(),
        content,
        offset: lines.offset,
        lines: part.lines,
        total_lines: part.total,
        size,
        truncated,
        next_offset: truncated.then_some(next),
        etag,
    })
}

enum TextError {
    Binary,
    Io(io::Error),
}

/// Reads a file once: checks that it is text, and collects the requested lines.
fn scan_lines(mut file: impl Read, part: &mut LineCollector) -> Result<(), TextError> {
    let mut buffer = vec![0; BUFFER_BYTES];
    // Bytes of an incomplete character.
    let mut held = 0;
    let mut seen = 0;
    loop {
        let read = match file.read(&mut buffer[held..]) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(TextError::Io(error)),
        };
        if read == 0 {
            break;
        }
        let new = &buffer[held..held + read];
        let sniffed = BINARY_SNIFF_BYTES.saturating_sub(seen).min(new.len());
        if memchr::memchr(0, &new[..sniffed]).is_some() {
            return Err(TextError::Binary);
        }
        seen += read;
        let filled = held + read;
        let whole = match std::str::from_utf8(&buffer[..filled]) {
            Ok(_) => filled,
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            Err(_) => return Err(TextError::Binary),
        };
        part.push(&buffer[..whole]);
        buffer.copy_within(whole..filled, 0);
        held = filled - whole;
    }
    if held > 0 {
        return Err(TextError::Binary);
    }
    part.finish();
    Ok(())
}

/// Collects the requested lines while a file is read.
struct LineCollector {
    wanted: LineRange,
    max_bytes: usize,
    /// Complete lines so far.
    total: u64,
    /// Whether there are bytes after the last line end.
    is_open: bool,
    content: Vec<u8>,
    /// Length of the complete lines in `content`.
    complete: usize,
    lines: u64,
    is_full: bool,
}

impl LineCollector {
    fn new(wanted: LineRange, most: usize) -> Self {
        Self {
            wanted,
            max_bytes: most,
            total: 0,
            is_open: false,
            content: Vec::new(),
            complete: 0,
            lines: 0,
            is_full: false,
        }
    }

    /// Whether the current line is requested.
    fn is_in_range(&self) -> bool {
        !self.is_full
            && self.total >= self.wanted.offset
            && (self.wanted.limit == 0 || self.lines < self.wanted.limit)
    }

    fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if !self.is_in_range() && self.total >= self.wanted.offset {
                self.total += memchr::memchr_iter(b'\n', bytes).count() as u64;
                self.is_open = bytes.last() != Some(&b'\n');
                return;
            }
            let end = memchr::memchr(b'\n', bytes).map(|at| at + 1);
            let (line, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
            if self.is_in_range() {
                if self.content.len() + line.len() > self.max_bytes {
                    self.is_full = true;
                    self.content.truncate(self.complete);
                } else {
                    self.content.extend_from_slice(line);
                }
            }
            self.is_open = end.is_none();
            if end.is_some() {
                self.end_line();
            }
            bytes = rest;
        }
    }

    fn end_line(&mut self) {
        if self.is_in_range() {
            self.lines += 1;
            self.complete = self.content.len();
        }
        self.total += 1;
    }

    /// Counts a last line without a line end.
    fn finish(&mut self) {
        if self.is_open {
            self.end_line();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;

    use super::*;

    fn tree_with(content: &[u8]) -> (tempfile::TempDir, Tree, SharePath) {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("f"), content).unwrap();
        let tree = Tree::open(directory.path()).unwrap();
        (directory, tree, SharePath::parse("f").unwrap())
    }

    fn part(content: &str, offset: u64, limit: u64, most: usize) -> FileText {
        let (_directory, tree, path) = tree_with(content.as_bytes());
        read_lines(&tree, &path, LineRange { offset, limit }, most).unwrap()
    }

    #[test]
    fn the_last_line_counts_with_and_without_its_end() {
        assert_eq!(part("", 0, 0, 100).total_lines, 0);
        assert_eq!(part("a", 0, 0, 100).total_lines, 1);
        assert_eq!(part("a\n", 0, 0, 100).total_lines, 1);
        assert_eq!(part("a\nb", 0, 0, 100).total_lines, 2);
        assert_eq!(part("\n\n", 0, 0, 100).total_lines, 2);
    }

    #[test]
    fn lines_are_taken_whole_and_the_next_offset_is_told() {
        let text = part("a\nbb\nccc\n", 1, 1, 100);
        assert_eq!((text.content.as_str(), text.lines), ("bb\n", 1));
        assert_eq!((text.truncated, text.next_offset), (true, Some(2)));
        let text = part("a\nbb\nccc\n", 0, 0, 6);
        assert_eq!((text.content.as_str(), text.lines), ("a\nbb\n", 2));
        assert_eq!(text.next_offset, Some(2));
        let text = part("a\nbb\nccc\n", 2, 5, 100);
        assert_eq!((text.content.as_str(), text.truncated), ("ccc\n", false));
        let text = part("a\n", 7, 0, 100);
        assert_eq!((text.content.as_str(), text.lines), ("", 0));
        assert_eq!((text.truncated, text.next_offset), (false, None));
    }

    #[test]
    fn a_line_beyond_the_cap_is_too_large_but_only_when_asked_for() {
        let long = format!("a\n{}\nb\n", "x".repeat(200_000));
        let (_directory, tree, path) = tree_with(long.as_bytes());
        let read = |offset, limit| read_lines(&tree, &path, LineRange { offset, limit }, 1000);
        assert_eq!(read(0, 0).unwrap().next_offset, Some(1));
        assert_eq!(read(1, 1).unwrap_err().code.status(), 413);
        assert_eq!(read(2, 1).unwrap().content, "b\n");
    }

    #[test]
    fn binary_content_is_not_text_wherever_it_stands() {
        let mut late = vec![b'a'; 200_000];
        late.push(0xff);
        let mut cut = vec![b'a'; BUFFER_BYTES];
        cut.extend_from_slice(&"ä".as_bytes()[..1]);
        for content in [&b"a\0b"[..], &b"\xff"[..], &late, &cut] {
            let (_directory, tree, path) = tree_with(content);
            let problem = read_lines(&tree, &path, LineRange::default(), 1 << 20).unwrap_err();
            assert_eq!(problem.code.status(), 415);
        }
        // A character across two reads is none of that.
        let mut across = vec![b'a'; BUFFER_BYTES - 1];
        across.extend_from_slice("ä".as_bytes());
        let (_directory, tree, path) = tree_with(&across);
        assert!(read_lines(&tree, &path, LineRange::default(), 1 << 20).is_ok());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn parts_join_back_to_the_file(content in "[a\u{e4}\r\n]{0,400}", limit in 0u64..5, most in 40usize..120) {
            prop_assume!(content.split_inclusive('\n').all(|line| line.len() <= most));
            let (_directory, tree, path) = tree_with(content.as_bytes());
            let mut joined = String::new();
            let mut offset = 0;
            loop {
                let text = read_lines(&tree, &path, LineRange { offset, limit }, most).unwrap();
                prop_assert_eq!(text.total_lines, content.split_inclusive('\n').count() as u64);
                joined.push_str(&text.content);
                match text.next_offset {
                    Some(next) => { prop_assert!(next > offset); offset = next; }
                    None => break,
                }
            }
            prop_assert_eq!(joined, content);
        }
    }
}
