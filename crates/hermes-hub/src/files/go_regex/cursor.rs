//! A place in a pattern.

/// Why a pattern is refused, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The character at fault, from 1.
    pub(crate) character: usize,
    /// What is wrong.
    pub(crate) reason: String,
}

/// Goes through a pattern.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor<'a> {
    pattern: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(pattern: &'a str) -> Self {
        Self { pattern, at: 0 }
    }

    /// What is still to be read.
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

    /// Goes on by that many bytes, which end a character.
    pub(super) fn skip(&mut self, bytes: usize) {
        self.at += bytes;
    }

    /// Goes on if this is what follows.
    pub(super) fn eat(&mut self, text: &str) -> bool {
        let follows = self.rest().starts_with(text);
        if follows {
            self.at += text.len();
        }
        follows
    }

    /// What was read since an earlier place.
    pub(super) fn since(&self, earlier: &Cursor<'a>) -> &'a str {
        &self.pattern[earlier.at..self.at]
    }

    /// A fault that begins here.
    pub(super) fn fault(&self, reason: impl Into<String>) -> Fault {
        Fault {
            character: self.pattern[..self.at].chars().count() + 1,
            reason: reason.into(),
        }
    }
}
