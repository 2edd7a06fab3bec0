//! Sources as tokens, without comments, texts and what is there for tests only.

use std::path::{Path, PathBuf};

/// A word or a sign of a source.
#[derive(Debug, Clone)]
pub(super) struct Token {
    pub(super) text: String,
    pub(super) line: usize,
}

impl Token {
    pub(super) fn is_name(&self) -> bool {
        self.text
            .starts_with(|first: char| first.is_alphabetic() || first == '_')
    }
}

/// The files below a directory that are not tests.
pub(super) fn shipped_files(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    super::collect(directory, &mut files);
    files.retain(|file| {
        let below = file.strip_prefix(directory).unwrap();
        !below.ends_with("tests.rs") && below.iter().all(|part| part != "tests")
    });
    files.sort();
    files
}

/// The tokens of a source up to its tests.
pub(super) fn tokens(text: &str) -> Vec<Token> {
    let text = text
        .split("#[cfg(test)]\nmod tests {")
        .next()
        .unwrap_or_default();
    let bytes = text.as_bytes();
    let mut tokens = Vec::new();
    let (mut at, mut line) = (0, 1);
    while at < bytes.len() {
        let rest = &text[at..];
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if let Some(length) = text_length(rest) {
            length
        } else if bytes[at].is_ascii_alphanumeric() || bytes[at] == b'_' {
            let is_outside = |byte: &u8| !byte.is_ascii_alphanumeric() && *byte != b'_';
            let length = bytes[at..]
                .iter()
                .position(is_outside)
                .unwrap_or(rest.len());
            tokens.push(Token {
                text: rest[..length].to_owned(),
                line,
            });
            length
        } else {
            let length = if rest.starts_with("::") {
                2
            } else {
                rest.chars().next().map_or(1, char::len_utf8)
            };
            if !bytes[at].is_ascii_whitespace() {
                tokens.push(Token {
                    text: rest[..length].to_owned(),
                    line,
                });
            }
            length
        };
        line += rest[..length].matches('\n').count();
        at += length;
    }
    tokens
}

/// The length of a string or character literal that begins here.
fn text_length(rest: &str) -> Option<usize> {
    if let Some(raw) = rest.strip_prefix('r') {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        let begin = 2 + hashes;
        if raw[hashes..].starts_with('"') {
            let end = format!("\"{}", "#".repeat(hashes));
            return Some(begin + rest[begin..].find(&end)? + end.len());
        }
    }
    if let Some(inner) = rest.strip_prefix('"') {
        let mut is_escaped = false;
        let end = inner.bytes().position(|byte| {
            let ends = byte == b'"' && !is_escaped;
            is_escaped = byte == b'\\' && !is_escaped;
            ends
        });
        return end.map(|end| end + 2);
    }
    // A character, and not a lifetime.
    let inner = rest.strip_prefix('\'')?;
    if let Some(escaped) = inner.strip_prefix('\\') {
        return Some(3 + escaped.get(1..)?.find('\'')? + 1);
    }
    let first = inner.chars().next()?;
    inner[first.len_utf8()..]
        .starts_with('\'')
        .then(|| first.len_utf8() + 2)
}

#[test]
fn only_code_becomes_tokens() {
    let text = "let a: &'a str = \"b // \\\" c\"; // d\nf('g', '\\'', r#\"h \" i\"#);\n#[cfg(test)]\nmod tests { j }";
    let found: Vec<String> = tokens(text).into_iter().map(|token| token.text).collect();
    let expected = "let a : & ' a str = ; f ( , , ) ;";
    assert_eq!(found.join(" "), expected);
}
