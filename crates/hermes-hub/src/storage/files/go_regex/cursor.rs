//! A cursor over a pattern.

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PatternError {
    /// Position in characters, from 1.
    pub(crate) character: usize,
    pub(crate) reason: String,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor<'a> {
    pattern: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(pattern: &'a str) -> Self {
        Self { pattern, at: 0 }
    }

    pub(super) fn rest(&self) -> &'a str {
        &self.pattern[self.at..]
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    pub(super) fn next(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += next.len_utf8();
        Some(next)
    }

    /// Advances by that many bytes, to a character boundary.
    pub(super) fn skip(&mut self, bytes: usize) {
        self.at += bytes;
    }

    /// Consumes this text, if it is next.
    pub(super) fn eat(&mut self, text: &str) -> bool {
        let follows = self.rest().starts_with(text);
        if follows {
            self.at += text.len();
        }
        follows
    }

    /// The text read since an earlier position.
    pub(super) fn since(&self, earlier: &Cursor<'a>) -> &'a str {
        &self.pattern[earlier.at..self.at]
    }

    pub(super) fn error_here(&self, reason: impl Into<String>) -> PatternError {
        PatternError {
            character: self.pattern[..self.at].chars().count() + 1,
            reason: reason.into(),
        }
    }
}
