//! Splits messages that exceed a platform's limit: at good break points, with code blocks closed and
//! reopened.

use unicode_segmentation::GraphemeCursor;

use super::markdown;

/// How long a message may be on a platform.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LengthLimit {
    pub(crate) max: usize,
    /// The length in the platform's units; at least one per character.
    pub(crate) measure: fn(&str) -> usize,
}

/// Room for ` (1/2)`.
const NUMBER_RESERVE: usize = 10;
const CLOSING_FENCE: &str = "\n```";

impl LengthLimit {
    pub(crate) fn fits(&self, text: &str) -> bool {
        (self.measure)(text) <= self.max
    }
}

/// The number at the end of a part; empty if there is only one.
pub(crate) fn part_number(part: usize, parts: usize) -> String {
    match parts {
        1 => String::new(),
        _ => format!(" ({part}/{parts})"),
    }
}

/// Splits a text so that every part with its number is within the limit.
pub(crate) fn split_text(text: &str, limit: &LengthLimit) -> Vec<String> {
    if limit.fits(text) {
        return vec![text.to_owned()];
    }
    let mut reserve = NUMBER_RESERVE;
    loop {
        let room = LengthLimit {
            max: limit.max.saturating_sub(reserve),
            ..*limit
        };
        let parts = cut_parts(text, &room);
        let widest = (limit.measure)(&part_number(parts.len(), parts.len()));
        if widest <= reserve {
            return parts;
        }
        reserve = widest;
    }
}

fn cut_parts(text: &str, limit: &LengthLimit) -> Vec<String> {
    let mut parts = Vec::new();
    let mut rest = text;
    // The language of the code block that the last part ended in.
    let mut open: Option<String> = None;
    while !rest.trim().is_empty() {
        let language = open.take();
        let cut = CutSearch {
            rest,
            open: language.as_deref(),
            limit,
        };
        let end = cut.end();
        let part = cut.part(end);
        open = part.open;
        if !rest[..end].trim().is_empty() {
            parts.push(part.text.trim_end().to_owned());
        }
        rest = &rest[end..];
        if open.is_none() {
            rest = rest.trim_start();
        } else if let Some(after) = rest.trim_start().strip_prefix("```") {
            // The block was closed already; its own end would open another.
            rest = after.trim_start_matches('`').trim_start();
            open = None;
        } else {
            // Code keeps its indentation.
            rest = rest.strip_prefix('\n').unwrap_or(rest);
        }
    }
    parts
}

/// The search for a cut position.
struct CutSearch<'t> {
    rest: &'t str,
    /// The language of the code block that is open at the start.
    open: Option<&'t str>,
    limit: &'t LengthLimit,
}

struct TextPart {
    text: String,
    open: Option<String>,
}

impl CutSearch<'_> {
    /// The part for a cut at this position.
    fn part(&self, end: usize) -> TextPart {
        let body = &self.rest[..end];
        let mut text = match self.open {
            Some(language) => format!("```{language}\n{body}"),
            None => body.to_owned(),
        };
        let open = open_fence(self.open, body).map(str::to_owned);
        if open.is_some() {
            text.push_str(CLOSING_FENCE);
        }
        TextPart { text, open }
    }

    fn fits(&self, end: usize) -> bool {
        self.limit.fits(&self.part(end).text)
    }

    /// The cut position: the end, if everything fits.
    fn end(&self) -> usize {
        // A character has four bytes at most, so no more than this can fit.
        let most = self.limit.max.saturating_mul(4);
        if self.rest.len() <= most && self.fits(self.rest.len()) {
            return self.rest.len();
        }
        let mut policy = self.rest.len().min(most);
        loop {
            let window = self.window(policy);
            if window == 0 {
                return self.first_character();
            }
            let end = break_point(self.open, &self.rest[..window]);
            // Markup that is split may be longer than the whole.
            if end > 0 && self.fits(end) {
                return end;
            }
            policy = end.min(window) * 7 / 8;
        }
    }

    /// The longest prefix that fits, by binary search.
    fn window(&self, policy: usize) -> usize {
        let (mut fits, mut exceeds) = (0, policy + 1);
        while exceeds - fits > 1 {
            let middle = fits + (exceeds - fits) / 2;
            if self.fits(self.rest.floor_char_boundary(middle)) {
                fits = middle;
            } else {
                exceeds = middle;
            }
        }
        let fits = self.rest.floor_char_boundary(fits);
        grapheme_boundary(self.rest, fits)
    }

    /// If nothing else fits, one character at a time.
    fn first_character(&self) -> usize {
        self.rest.chars().next().map_or(0, char::len_utf8)
    }
}

/// The last grapheme boundary up to here; `end` itself if the first grapheme is longer.
fn grapheme_boundary(text: &str, end: usize) -> usize {
    let mut cursor = GraphemeCursor::new(end, text.len(), true);
    match cursor.is_boundary(text, 0) {
        Ok(false) => match cursor.prev_boundary(text, 0) {
            Ok(Some(before)) if before > 0 => before,
            _ => end,
        },
        _ => end,
    }
}

/// The language of the code block that is open at the end of a text, given the one open at its start.
fn open_fence<'t>(mut open: Option<&'t str>, text: &'t str) -> Option<&'t str> {
    for line in text.split('\n') {
        open = match open {
            Some(_) if markdown::closes_fence(line) => None,
            None => markdown::fence_language(line),
            still => still,
        };
    }
    open
}

/// A good break point in the window: before a line, else before a word, and not inside inline code.
fn break_point(open: Option<&str>, window: &str) -> usize {
    let newline = window.rfind('\n').filter(|at| *at >= window.len() / 2);
    let end = newline
        .or_else(|| window.rfind(' '))
        .filter(|at| *at > 0)
        .unwrap_or(window.len());
    let line_start = window[..end].rfind('\n').map_or(0, |at| at + 1);
    let last_line = &window[line_start..end];
    if open_fence(open, &window[..end]).is_some() {
        // A code block that starts on the last line moves to the next part.
        let begins_here = markdown::fence_language(last_line).is_some();
        return if begins_here && line_start > 1 {
            line_start - 1
        } else {
            end
        };
    }
    unpaired_tick(last_line)
        .and_then(|tick| window[..line_start + tick].rfind([' ', '\n']))
        .filter(|at| *at > window.len() / 4)
        .unwrap_or(end)
}

/// The start of inline code that does not end on its line.
fn unpaired_tick(line: &str) -> Option<usize> {
    let ticks = line
        .match_indices('`')
        .filter(|(at, _)| !line[..*at].ends_with('\\'));
    let ticks: Vec<usize> = ticks.map(|(at, _)| at).collect();
    (ticks.len() % 2 == 1).then(|| ticks.last().copied())?
}

#[cfg(test)]
mod tests;
