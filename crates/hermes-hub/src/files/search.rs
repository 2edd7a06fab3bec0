//! Searching file contents. One buffer and one searcher serve all files of a search; files are opened relative to their
//! directory.

use std::{
    fs::File,
    io::{self, Read},
    ops::ControlFlow,
    os::fd::OwnedFd,
};

use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkMatch};
use rustix::{
    fs::{FileType, Mode, fstat},
    io::Errno,
};

use super::{
    beneath::{Links, READ, open_beneath},
    budget::Budget,
    faults,
    go_regex::{Case, GoRegex},
    text::SNIFF,
    tree::{Tree, size},
    walk::walk,
};
use crate::{
    Problem,
    files::{EntryType, Match, Matches, SharePath},
};

const MOST_MATCHES: usize = 1000;
const SOME_MATCHES: usize = 100;
const LONGEST_TEXT: usize = 500;
/// A line must fit into the buffer.
const BUFFER: usize = 256 * 1024;
const LARGEST_BUFFER: usize = 8 << 20;
/// Steps between two checks of the budget, and in one line, if the expression is simulated state by state. A step takes
/// some ten nanoseconds.
const STEPS: u64 = 1 << 24;
const STEPS_IN_LINE: u64 = 1 << 25;

#[derive(Debug, Clone, Default)]
pub struct Search {
    pub pattern: String,
    /// A directory, searched recursively, or a file.
    pub path: Option<SharePath>,
    /// Most matches: 1 to 1000, 100 by default.
    pub max: Option<u64>,
    pub case: Case,
}

pub(super) fn clamp(max: Option<u64>) -> usize {
    max.map_or(SOME_MATCHES, |max| {
        usize::try_from(max)
            .unwrap_or(MOST_MATCHES)
            .clamp(1, MOST_MATCHES)
    })
}

pub(crate) fn search(tree: &Tree, search: &Search, budget: Budget) -> Result<Matches, Problem> {
    let expression = GoRegex::compile(&search.pattern, search.case)?;
    let root = SharePath::root();
    let path = search.path.as_ref().unwrap_or(&root);
    let mut hunt = Hunt::new(&expression, clamp(search.max), budget);
    match tree.directory(path, Links::Follow) {
        Ok(directory) => hunt.below(directory, path),
        Err(Errno::NOTDIR) => {
            let (file, stat) = tree.file(path)?;
            let _ = hunt.file(path.as_str(), file, size(&stat));
        }
        Err(error) => return Err(faults::problem(error, path)),
    }
    Ok(hunt.found)
}

enum End {
    /// This file is not searchable.
    File,
    All,
}

struct Hunt<'a> {
    expression: &'a GoRegex,
    searcher: Searcher,
    buffer: Vec<u8>,
    budget: Budget,
    most: usize,
    /// Largest chunk that is searched at once, and longest line.
    piece: usize,
    longest_line: usize,
    found: Matches,
}

impl<'a> Hunt<'a> {
    fn new(expression: &'a GoRegex, most: usize, budget: Budget) -> Self {
        let within = |steps: u64| {
            usize::try_from(steps / expression.weight())
                .map_or(LARGEST_BUFFER, |bytes| bytes.clamp(1024, LARGEST_BUFFER))
        };
        Self {
            expression,
            searcher: SearcherBuilder::new()
                .line_number(true)
                .binary_detection(BinaryDetection::none())
                .bom_sniffing(false)
                .build(),
            buffer: vec![0; BUFFER],
            budget,
            most,
            piece: within(STEPS),
            longest_line: within(STEPS_IN_LINE),
            found: Matches::default(),
        }
    }

    fn below(&mut self, directory: OwnedFd, path: &SharePath) {
        let flow = walk(directory, path.as_str(), &mut |found| {
            if found.entry_type != EntryType::File {
                return if self.budget.is_over() {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                };
            }
            if !self.budget.take_file() {
                return ControlFlow::Break(());
            }
            if let Some((file, size)) = open_file(found.directory, found.name) {
                return self.file(found.path, file, size);
            }
            self.found.files_skipped += 1;
            ControlFlow::Continue(())
        });
        if flow.is_break() {
            self.found.truncated = true;
        }
    }

    /// Searches one file. Its matches count only if the whole file is text.
    fn file(&mut self, path: &str, file: File, size: u64) -> ControlFlow<()> {
        let before = self.found.matches.len();
        match self.read(path, file.take(size)) {
            Ok(()) => self.found.files_searched += 1,
            Err(End::File) => {
                self.found.matches.truncate(before);
                self.found.files_skipped += 1;
            }
            Err(End::All) => {
                self.found.files_searched += 1;
                self.found.truncated = true;
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }

    fn read(&mut self, path: &str, mut file: io::Take<File>) -> Result<(), End> {
        // Number of lines before the buffer.
        let mut lines = 0;
        let mut filled = 0;
        let mut is_sniffed = false;
        loop {
            let is_end = fill(&mut file, &mut self.buffer, &mut filled)?;
            let sniffed = filled.min(SNIFF);
            if !is_sniffed && memchr::memchr(0, &self.buffer[..sniffed]).is_some() {
                return Err(End::File);
            }
            is_sniffed = true;
            let whole = if is_end {
                filled
            } else if let Some(at) = memchr::memrchr(b'\n', &self.buffer[..filled]) {
                at + 1
            } else if self.buffer.len() < LARGEST_BUFFER {
                let larger = self.buffer.len() * 2;
                self.buffer.resize(larger, 0);
                continue;
            } else {
                return Err(End::File);
            };
            if !self.budget.take_bytes(whole as u64) {
                return Err(End::All);
            }
            let buffer = std::mem::take(&mut self.buffer);
            let searched = self.pieces(path, &buffer[..whole], &mut lines, is_end);
            self.buffer = buffer;
            searched?;
            if is_end {
                return Ok(());
            }
            self.buffer.copy_within(whole..filled, 0);
            filled -= whole;
        }
    }

    /// Searches whole lines, in chunks if the expression is expensive.
    fn pieces(
        &mut self,
        path: &str,
        text: &[u8],
        lines: &mut u64,
        is_last: bool,
    ) -> Result<(), End> {
        if std::str::from_utf8(text).is_err() {
            return Err(End::File);
        }
        let mut rest = text;
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(piece_length(rest, self.piece));
            if piece.len() > self.longest_line {
                // A single line on which this expression could take seconds.
                self.found.truncated = true;
            } else {
                self.piece(path, piece, *lines)?;
            }
            if !(is_last && after.is_empty()) {
                *lines += memchr::memchr_iter(b'\n', piece).count() as u64;
            }
            if !after.is_empty() && self.budget.is_over() {
                return Err(End::All);
            }
            rest = after;
        }
        Ok(())
    }

    fn piece(&mut self, path: &str, piece: &[u8], lines: u64) -> Result<(), End> {
        let mut taker = Taker {
            expression: self.expression,
            path,
            lines,
            most: self.most,
            matches: &mut self.found.matches,
            is_full: false,
        };
        let searched = self
            .searcher
            .search_slice(self.expression.matcher(), piece, &mut taker);
        let is_full = taker.is_full;
        if searched.is_err() {
            return Err(End::File);
        }
        if is_full { Err(End::All) } else { Ok(()) }
    }
}

/// Opens a directory entry, if it is a regular file.
fn open_file(directory: std::os::fd::BorrowedFd<'_>, name: &std::ffi::CStr) -> Option<(File, u64)> {
    let name = name.to_str().ok()?;
    let file = open_beneath(directory, name, READ, Mode::empty(), Links::Refuse).ok()?;
    let stat = fstat(&file).ok()?;
    (FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
        .then(|| (File::from(file), size(&stat)))
}

/// Reads until the buffer is full or the file ends; returns whether it ended.
fn fill(file: &mut io::Take<File>, buffer: &mut [u8], filled: &mut usize) -> Result<bool, End> {
    while *filled < buffer.len() {
        // Only the size at the time of opening counts, so that no extra read is needed to detect the end.
        if file.limit() == 0 {
            return Ok(true);
        }
        match file.read(&mut buffer[*filled..]) {
            Ok(0) => return Ok(true),
            Ok(read) => *filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return Err(End::File),
        }
    }
    Ok(file.limit() == 0)
}

fn piece_length(text: &[u8], most: usize) -> usize {
    if text.len() <= most {
        return text.len();
    }
    if let Some(at) = memchr::memrchr(b'\n', &text[..most]) {
        return at + 1;
    }
    memchr::memchr(b'\n', &text[most..]).map_or(text.len(), |at| most + at + 1)
}

/// Collects the matching lines of a chunk.
struct Taker<'a> {
    expression: &'a GoRegex,
    path: &'a str,
    lines: u64,
    most: usize,
    matches: &'a mut Vec<Match>,
    is_full: bool,
}

impl Sink for Taker<'_> {
    type Error = io::Error;

    fn matched(&mut self, _searcher: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        if self.matches.len() >= self.most {
            self.is_full = true;
            return Ok(false);
        }
        let line = found.bytes();
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let start = self.expression.find(line).unwrap_or(0);
        let before = String::from_utf8_lossy(&line[..start]).chars().count() as u64;
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let text = String::from_utf8_lossy(line);
        let cut = text.char_indices().nth(LONGEST_TEXT).map(|(at, _)| at);
        self.matches.push(Match {
            path: self.path.to_owned(),
            line: self.lines + found.line_number().unwrap_or(1),
            column: before + 1,
            text: text[..cut.unwrap_or(text.len())].to_owned(),
            text_truncated: cut.is_some(),
        });
        Ok(true)
    }
}
