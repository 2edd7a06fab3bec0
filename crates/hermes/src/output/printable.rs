//! Text from elsewhere, made safe for a terminal.

use std::borrow::Cow;

const ESCAPE: char = '\u{1b}';

/// The text without escape sequences and control characters; line ends and tabs stay.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    let steers = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    if !text.contains(steers) {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(steers) {
        clean.push_str(&rest[..at]);
        rest = after_control(&rest[at..]);
    }
    clean.push_str(rest);
    Cow::Owned(clean)
}

/// What follows the control character, or the sequence it begins, at the start of `text`.
fn after_control(text: &str) -> &str {
    let mut characters = text.chars();
    let first = characters.next();
    let rest = characters.as_str();
    match (first, characters.next()) {
        (Some(ESCAPE), Some('[')) => after_parameters(characters.as_str()),
        (Some('\u{9b}'), _) => after_parameters(rest),
        (Some(ESCAPE), Some(']' | 'P' | 'X' | '^' | '_')) => after_string(characters.as_str()),
        (Some(ESCAPE), Some(second)) if !second.is_control() => characters.as_str(),
        _ => rest,
    }
}

/// Parameters end with a letter or sign; anything else breaks them off.
fn after_parameters(text: &str) -> &str {
    match text.find(|c| !matches!(c, ' '..='?')) {
        Some(at) if matches!(text.as_bytes()[at], b'@'..=b'~') => &text[at + 1..],
        Some(at) => &text[at..],
        None => "",
    }
}

/// A string ends with BEL or ST. Without an end on its line it is none.
fn after_string(text: &str) -> &str {
    let line = text.split('\n').next().unwrap_or(text);
    match (line.find('\u{7}'), line.find("\u{1b}\\")) {
        (Some(bell), Some(end)) if end < bell => &text[end + 2..],
        (Some(bell), _) => &text[bell + 1..],
        (None, Some(end)) => &text[end + 2..],
        (None, None) => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_go_as_a_whole() {
        for (text, expected) in [
            ("plain\ttext\nin lines", "plain\ttext\nin lines"),
            ("a\x1b[2Jb\x1b[31;1mc\x1b[0m", "abc"),
            ("a\u{9b}2Jb", "ab"),
            ("a\x1b]0;title\x07b\x1b]8;;http://x\x1b\\c", "abc"),
            ("a\x1b]no end\nb", "ano end\nb"),
            ("a\x1bcb\x1b", "ab"),
            ("\x1b[", ""),
            ("\x1b[2字", "字"),
            ("a\r\nb\0\x07\x08c\u{85}d", "a\nbcd"),
            ("\x1b\x1b[2Jx", "x"),
        ] {
            assert_eq!(printable(text), expected, "{text:?}");
        }
    }

    #[test]
    fn nothing_that_is_left_steers_a_terminal() {
        for text in [
            "\x1b[\x1b[2J",
            "\x1b]\x1b[2J\x07",
            "\x1b\u{9b}1m",
            "\u{9b}\u{9b}\x1b",
        ] {
            assert!(!printable(text).contains(char::is_control), "{text:?}");
        }
    }
}
