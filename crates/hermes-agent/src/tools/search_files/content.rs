//! Lines that match a regular expression.

use std::{io, path::Path};

use grep_regex::RegexMatcherBuilder;
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkContextKind, SinkMatch,
};

use super::{Mode, Page, Position, Results, walk::Walk};
use crate::tools::Problem;

/// Files with longer lines are skipped; in bytes.
const LARGEST_LINE: usize = 64 * 1024 * 1024;
/// Longer lines are truncated.
const LONGEST_LINE: usize = 500;

pub(super) fn find(
    walk: &Walk,
    pattern: &str,
    mode: Mode,
    lines_around: usize,
    page: Page,
) -> Result<String, Problem> {
    let expression = RegexMatcherBuilder::new()
        .line_terminator(Some(b'\n'))
        .build(pattern)
        .map_err(|error| {
            Problem::new(format!(
                "`{pattern}` is not a valid regular expression: {error}"
            ))
        })?;
    let mut searcher = SearcherBuilder::new()
        .binary_detection(BinaryDetection::quit(0))
        .line_number(true)
        .heap_limit(Some(LARGEST_LINE))
        .before_context(lines_around)
        .after_context(lines_around)
        .build();
    let mut results = Results::new(page);
    for (path, shown) in walk.files() {
        let Some(file) = walk.open(&path) else {
            continue;
        };
        let mut matches = Matches {
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
        let found = matches.found;
        if found == 0 || mode == Mode::Lines {
            continue;
        }
        match results.count() {
            Position::Before => {}
            Position::On if mode == Mode::Files => results.lines.push(shown.display().to_string()),
            Position::On => results.lines.push(format!("{}:{found}", shown.display())),
            Position::Beyond => break,
        }
    }
    let what = if mode == Mode::Lines {
        "matches"
    } else {
        "files"
    };
    Ok(results.render(what, walk))
}

struct Matches<'a> {
    walk: &'a Walk,
    shown: &'a Path,
    mode: Mode,
    results: &'a mut Results,
    found: usize,
    /// Whether the last match is on the page, so that its context lines are too.
    shows: bool,
    is_beyond: bool,
}

impl Matches<'_> {
    fn push(&mut self, number: Option<u64>, sign: char, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        let text = text.trim_end_matches(['\n', '\r']);
        let text = match text.char_indices().nth(LONGEST_LINE) {
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

impl Sink for Matches<'_> {
    type Error = io::Error;

    fn matched(&mut self, _searcher: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        self.found += 1;
        match self.mode {
            Mode::Files => return Ok(false),
            Mode::Counts => return Ok(!self.walk.must_stop()),
            Mode::Lines => {}
        }
        let position = self.results.count();
        self.shows = position == Position::On;
        self.is_beyond = position == Position::Beyond;
        if self.shows {
            self.push(found.line_number(), ':', found.bytes());
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
            SinkContextKind::Before => self.results.next_is_on(),
            _ => self.shows,
        };
        if shows && self.mode == Mode::Lines {
            self.push(context.line_number(), '-', context.bytes());
        }
        Ok(true)
    }

    fn context_break(&mut self, _searcher: &Searcher) -> Result<bool, io::Error> {
        if self.mode == Mode::Lines && !self.results.lines.is_empty() && self.results.next_is_on() {
            self.results.lines.push("--".to_owned());
        }
        Ok(true)
    }
}
