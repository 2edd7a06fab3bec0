//! Lines that match a regular expression.

use std::{io, path::Path};

use grep_regex::RegexMatcherBuilder;
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkContextKind, SinkMatch,
};

use super::{PagePosition, PagedResults, ResultPage, SearchMode, walk::FileWalk};
use crate::tools::ToolError;

/// Files with longer lines are skipped; in bytes.
const MAX_LINE_BYTES: usize = 64 * 1024 * 1024;
/// Longer lines are truncated.
const MAX_LINE_CHARS: usize = 500;

pub(super) fn search_content(
    walk: &FileWalk,
    pattern: &str,
    mode: SearchMode,
    lines_around: usize,
    page: ResultPage,
) -> Result<String, ToolError> {
    let expression = RegexMatcherBuilder::new()
        .line_terminator(Some(b'\n'))
        .build(pattern)
        .map_err(|error| {
            ToolError::new(format!(
                "`{pattern}` is not a valid regular expression: {error}"
            ))
        })?;
    let mut searcher = SearcherBuilder::new()
        .binary_detection(BinaryDetection::quit(0))
        .line_number(true)
        .heap_limit(Some(MAX_LINE_BYTES))
        .before_context(lines_around)
        .after_context(lines_around)
        .build();
    let mut results = PagedResults::new(page);
    for (path, shown) in walk.files() {
        let Some(file) = walk.open(&path) else {
            continue;
        };
        let mut matches = MatchSink {
            walk,
            shown: &shown,
            mode,
            results: &mut results,
            found: 0,
            shows: false,
            is_beyond: false,
        };
        // Matches before a read error are kept.
        let _ = searcher.search_file(&expression, &file, &mut matches);
        if matches.is_beyond {
            break;
        }
        let count = matches.found;
        if count == 0 || mode == SearchMode::Lines {
            continue;
        }
        match results.count() {
            PagePosition::Before => {}
            PagePosition::On if mode == SearchMode::Files => {
                results.lines.push(shown.display().to_string());
            }
            PagePosition::On => results.lines.push(format!("{}:{count}", shown.display())),
            PagePosition::Beyond => break,
        }
    }
    let what = if mode == SearchMode::Lines {
        "matches"
    } else {
        "files"
    };
    Ok(results.render(what, walk))
}

struct MatchSink<'a> {
    walk: &'a FileWalk,
    shown: &'a Path,
    mode: SearchMode,
    results: &'a mut PagedResults,
    found: usize,
    /// Whether the last match is on the page, so that its context lines are too.
    shows: bool,
    is_beyond: bool,
}

impl MatchSink<'_> {
    fn push(&mut self, number: Option<u64>, sign: char, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        let text = text.trim_end_matches(['\n', '\r']);
        let text = match text.char_indices().nth(MAX_LINE_CHARS) {
            Some((end, _)) => format!("{}… [line cut]", &text[..end]),
            None => text.to_owned(),
        };
        let number = number.unwrap_or_default();
        self.results.lines.push(format!(
            "{}{sign}{number}{sign}{text}",
            self.shown.display()
        ));
    }
}

impl Sink for MatchSink<'_> {
    type Error = io::Error;

    fn matched(
        &mut self,
        _searcher: &Searcher,
        matched_line: &SinkMatch<'_>,
    ) -> Result<bool, io::Error> {
        self.found += 1;
        match self.mode {
            SearchMode::Files => return Ok(false),
            SearchMode::Counts => return Ok(!self.walk.must_stop()),
            SearchMode::Lines => {}
        }
        let position = self.results.count();
        self.shows = position == PagePosition::On;
        self.is_beyond = position == PagePosition::Beyond;
        if self.shows {
            self.push(matched_line.line_number(), ':', matched_line.bytes());
        }
        Ok(!self.is_beyond && !self.walk.must_stop())
    }

    fn context(
        &mut self,
        _searcher: &Searcher,
        context: &SinkContext<'_>,
    ) -> Result<bool, io::Error> {
        // Context lines before a match arrive before its page is known.
        let shows = match context.kind() {
            SinkContextKind::Before => self.results.is_next_on_page(),
            _ => self.shows,
        };
        if shows && self.mode == SearchMode::Lines {
            self.push(context.line_number(), '-', context.bytes());
        }
        Ok(true)
    }

    fn context_break(&mut self, _searcher: &Searcher) -> Result<bool, io::Error> {
        if self.mode == SearchMode::Lines
            && !self.results.lines.is_empty()
            && self.results.is_next_on_page()
        {
            self.results.lines.push("--".to_owned());
        }
        Ok(true)
    }
}
