//! Searching file contents. One buffer and one searcher serve all files of a search; files are opened relative to their
//! directory.

use std::{
    fs::File,
    io::{self, Read},
    ops::ControlFlow,
    os::fd::OwnedFd,
};

use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkMatch};
use hermes_config::beneath::{READ_FLAGS, SymlinkPolicy, open_beneath};
use rustix::{
    fs::{FileType, Mode, fstat},
    io::Errno,
};

use super::{
    budget::SearchBudget,
    go_regex::{CaseMatching, GoRegex},
    text::BINARY_SNIFF_BYTES,
    tree::{Tree, file_size},
    walk::walk_tree,
};
use crate::{
    Problem,
    storage::files::{EntryType, GrepMatch, GrepResult, SharePath, problems},
};

const MAX_MATCHES: usize = 1000;
const DEFAULT_MATCHES: usize = 100;
const MAX_MATCH_CHARS: usize = 500;
/// A line must fit into the buffer.
const INITIAL_BUFFER_BYTES: usize = 256 * 1024;
const MAX_BUFFER_BYTES: usize = 8 << 20;
/// Steps between two checks of the budget, and in one line, if the expression is simulated state by state. A step takes
/// some ten nanoseconds.
const STEPS_PER_CHUNK: u64 = 1 << 24;
const MAX_STEPS_PER_LINE: u64 = 1 << 25;

#[derive(Debug, Clone, Default)]
pub struct GrepQuery {
    pub pattern: String,
    /// A directory, searched recursively, or a file.
    pub path: Option<SharePath>,
    /// Most matches: 1 to 1000, 100 by default.
    pub max: Option<u64>,
    pub case: CaseMatching,
}

impl GrepQuery {
    /// As a request asks for it.
    pub(crate) fn parse(
        pattern: String,
        path: Option<&str>,
        max: Option<u64>,
        ignore_case: Option<bool>,
    ) -> Result<Self, Problem> {
        Ok(Self {
            pattern,
            path: path.map(SharePath::parse).transpose()?,
            max,
            case: if ignore_case == Some(true) {
                CaseMatching::Ignore
            } else {
                CaseMatching::default()
            },
        })
    }

    /// What is found where there are no files. A pattern that is wrong stays so.
    pub(crate) fn search_nothing(&self) -> Result<GrepResult, Problem> {
        GoRegex::compile(&self.pattern, self.case)?;
        Ok(GrepResult::default())
    }
}

pub(super) fn clamp_max_results(max: Option<u64>) -> usize {
    max.map_or(DEFAULT_MATCHES, |max| {
        usize::try_from(max)
            .unwrap_or(MAX_MATCHES)
            .clamp(1, MAX_MATCHES)
    })
}

pub(crate) fn search_tree(
    tree: &Tree,
    search: &GrepQuery,
    budget: SearchBudget,
) -> Result<GrepResult, Problem> {
    let expression = GoRegex::compile(&search.pattern, search.case)?;
    let root = SharePath::root();
    let path = search.path.as_ref().unwrap_or(&root);
    let mut hunt = TreeSearch::new(&expression, clamp_max_results(search.max), budget);
    match tree.open_dir(path, SymlinkPolicy::Follow) {
        Ok(directory) => hunt.search_directory(directory, path),
        Err(Errno::NOTDIR) => {
            let (file, stat) = tree.open_file(path)?;
            let _ = hunt.search_file(path.as_str(), file, file_size(&stat));
        }
        Err(error) => return Err(problems::problem_from_errno(error, path)),
    }
    Ok(hunt.found)
}

enum SearchStop {
    /// This file is not searchable.
    SkipFile,
    StopSearch,
}

/// A search over several files.
pub(super) struct TreeSearch<'a> {
    expression: &'a GoRegex,
    searcher: Searcher,
    buffer: Vec<u8>,
    budget: SearchBudget,
    max_matches: usize,
    /// Largest chunk that is searched at once, and longest line.
    max_chunk: usize,
    max_line: usize,
    pub(super) found: GrepResult,
}

impl<'a> TreeSearch<'a> {
    pub(super) fn new(expression: &'a GoRegex, most: usize, budget: SearchBudget) -> Self {
        let within = |steps: u64| {
            usize::try_from(steps / expression.weight()).map_or(MAX_BUFFER_BYTES, |bytes| {
                bytes.clamp(1024, MAX_BUFFER_BYTES)
            })
        };
        Self {
            expression,
            searcher: SearcherBuilder::new()
                .line_number(true)
                .binary_detection(BinaryDetection::none())
                .bom_sniffing(false)
                .build(),
            buffer: vec![0; INITIAL_BUFFER_BYTES],
            budget,
            max_matches: most,
            max_chunk: within(STEPS_PER_CHUNK),
            max_line: within(MAX_STEPS_PER_LINE),
            found: GrepResult::default(),
        }
    }

    fn search_directory(&mut self, directory: OwnedFd, path: &SharePath) {
        let flow = walk_tree(directory, path.as_str(), &mut |entry| {
            if entry.entry_type != EntryType::File {
                return if self.budget.is_over() {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                };
            }
            if !self.budget.take_file() {
                return ControlFlow::Break(());
            }
            if let Some((file, size)) = open_file(entry.directory, entry.name) {
                return self.search_file(entry.path, file, size);
            }
            self.found.files_skipped += 1;
            ControlFlow::Continue(())
        });
        if flow.is_break() {
            self.found.truncated = true;
        }
    }

    /// Searches one file. Its matches count only if the whole file is text.
    pub(super) fn search_file(
        &mut self,
        path: &str,
        file: impl Read,
        size: u64,
    ) -> ControlFlow<()> {
        let before = self.found.matches.len();
        match self.search_content(path, file.take(size)) {
            Ok(()) => self.found.files_searched += 1,
            Err(SearchStop::SkipFile) => {
                self.found.matches.truncate(before);
                self.found.files_skipped += 1;
            }
            Err(SearchStop::StopSearch) => {
                self.found.files_searched += 1;
                self.found.truncated = true;
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }

    /// Uses up one file of the budget; false if the search is over.
    pub(super) fn take_file(&mut self) -> bool {
        let taken = self.budget.take_file();
        self.found.truncated |= !taken;
        taken
    }

    fn search_content(
        &mut self,
        path: &str,
        mut file: io::Take<impl Read>,
    ) -> Result<(), SearchStop> {
        // Number of lines before the buffer.
        let mut lines = 0;
        let mut filled = 0;
        let mut is_sniffed = false;
        loop {
            let is_end = fill_buffer(&mut file, &mut self.buffer, &mut filled)?;
            let sniffed = filled.min(BINARY_SNIFF_BYTES);
            if !is_sniffed && memchr::memchr(0, &self.buffer[..sniffed]).is_some() {
                return Err(SearchStop::SkipFile);
            }
            is_sniffed = true;
            let whole = if is_end {
                filled
            } else if let Some(at) = memchr::memrchr(b'\n', &self.buffer[..filled]) {
                at + 1
            } else if self.buffer.len() < MAX_BUFFER_BYTES {
                let larger = self.buffer.len() * 2;
                self.buffer.resize(larger, 0);
                continue;
            } else {
                return Err(SearchStop::SkipFile);
            };
            if !self.budget.take_bytes(whole as u64) {
                return Err(SearchStop::StopSearch);
            }
            let buffer = std::mem::take(&mut self.buffer);
            let searched = self.search_chunks(path, &buffer[..whole], &mut lines, is_end);
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
    fn search_chunks(
        &mut self,
        path: &str,
        text: &[u8],
        lines: &mut u64,
        is_last: bool,
    ) -> Result<(), SearchStop> {
        if std::str::from_utf8(text).is_err() {
            return Err(SearchStop::SkipFile);
        }
        let mut rest = text;
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(chunk_length(rest, self.max_chunk));
            if piece.len() > self.max_line {
                // A single line on which this expression could take seconds.
                self.found.truncated = true;
            } else {
                self.search_chunk(path, piece, *lines)?;
            }
            if !(is_last && after.is_empty()) {
                *lines += memchr::memchr_iter(b'\n', piece).count() as u64;
            }
            if !after.is_empty() && self.budget.is_over() {
                return Err(SearchStop::StopSearch);
            }
            rest = after;
        }
        Ok(())
    }

    fn search_chunk(&mut self, path: &str, piece: &[u8], lines: u64) -> Result<(), SearchStop> {
        let mut taker = MatchCollector {
            expression: self.expression,
            path,
            lines,
            most: self.max_matches,
            matches: &mut self.found.matches,
            is_full: false,
        };
        let searched = self
            .searcher
            .search_slice(self.expression.matcher(), piece, &mut taker);
        let is_full = taker.is_full;
        if searched.is_err() {
            return Err(SearchStop::SkipFile);
        }
        if is_full {
            Err(SearchStop::StopSearch)
        } else {
            Ok(())
        }
    }
}

/// Opens a directory entry, if it is a regular file.
fn open_file(directory: std::os::fd::BorrowedFd<'_>, name: &std::ffi::CStr) -> Option<(File, u64)> {
    let name = name.to_str().ok()?;
    let file = open_beneath(
        directory,
        name,
        READ_FLAGS,
        Mode::empty(),
        SymlinkPolicy::Refuse,
    )
    .ok()?;
    let stat = fstat(&file).ok()?;
    (FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
        .then(|| (File::from(file), file_size(&stat)))
}

/// Reads until the buffer is full or the file ends; returns whether it ended.
fn fill_buffer(
    file: &mut io::Take<impl Read>,
    buffer: &mut [u8],
    filled: &mut usize,
) -> Result<bool, SearchStop> {
    while *filled < buffer.len() {
        // Only the size at the time of opening counts, so that no extra read is needed to detect the end.
        if file.limit() == 0 {
            return Ok(true);
        }
        match file.read(&mut buffer[*filled..]) {
            Ok(0) => return Ok(true),
            Ok(read) => *filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return Err(SearchStop::SkipFile),
        }
    }
    Ok(file.limit() == 0)
}

fn chunk_length(text: &[u8], most: usize) -> usize {
    if text.len() <= most {
        return text.len();
    }
    if let Some(at) = memchr::memrchr(b'\n', &text[..most]) {
        return at + 1;
    }
    memchr::memchr(b'\n', &text[most..]).map_or(text.len(), |at| most + at + 1)
}

/// Collects the matching lines of a chunk.
struct MatchCollector<'a> {
    expression: &'a GoRegex,
    path: &'a str,
    lines: u64,
    most: usize,
    matches: &'a mut Vec<GrepMatch>,
    is_full: bool,
}

impl Sink for MatchCollector<'_> {
    type Error = io::Error;

    fn matched(&mut self, _searcher: &Searcher, matched_line: &SinkMatch<'_>) -> io::Result<bool> {
        if self.matches.len() >= self.most {
            self.is_full = true;
            return Ok(false);
        }
        let line = matched_line.bytes();
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let start = self.expression.find(line).unwrap_or(0);
        let before = String::from_utf8_lossy(&line[..start]).chars().count() as u64;
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let text = String::from_utf8_lossy(line);
        let cut = text.char_indices().nth(MAX_MATCH_CHARS).map(|(at, _)| at);
        self.matches.push(GrepMatch {
            path: self.path.to_owned(),
            line: self.lines + matched_line.line_number().unwrap_or(1),
            column: before + 1,
            text: text[..cut.unwrap_or(text.len())].to_owned(),
            text_truncated: cut.is_some(),
        });
        Ok(true)
    }
}
