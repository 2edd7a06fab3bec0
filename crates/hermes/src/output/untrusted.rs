//! Sanitizes untrusted text for a terminal: servers, models, tenants and files must not control it.
//!
//! The program's own colours pass: each carries a number that nobody outside of this process knows.

use std::{
    borrow::Cow,
    hash::{BuildHasher, Hasher, RandomState},
    sync::OnceLock,
};

use super::printable;

/// Begins each colour of our own.
fn colour_mark() -> &'static str {
    static MARK: OnceLock<String> = OnceLock::new();
    MARK.get_or_init(|| format!("\x1b[{};", RandomState::new().build_hasher().finish()))
}

/// A text in a colour, for [`for_terminal`] and [`for_file`] to recognise.
pub(super) fn mark_colour(code: &str, text: &str) -> String {
    let mark = colour_mark();
    format!("{mark}{code}m{text}{mark}0m")
}

/// The text without control characters other than line ends and tabs, in our own colours.
pub(super) fn for_terminal(text: &str) -> Cow<'_, str> {
    if !text.contains(colour_mark()) {
        return printable(text);
    }
    let mut shown = String::with_capacity(text.len());
    for (index, piece) in text.split(colour_mark()).enumerate() {
        let rest = match piece.split_once('m').filter(|_| index > 0) {
            Some((code, rest)) => {
                shown.extend(["\x1b[", code, "m"]);
                rest
            }
            None => piece,
        };
        shown.push_str(&printable(rest));
    }
    Cow::Owned(shown)
}

/// The text as it is, without our own colours.
pub(super) fn for_file(text: &str) -> Cow<'_, str> {
    replace_marks(text, |_| String::new())
}

/// The text as it is, in our own colours: for a picture whose parts are clean.
pub(super) fn for_picture(text: &str) -> Cow<'_, str> {
    replace_marks(text, |code| format!("\x1b[{code}m"))
}

fn replace_marks(text: &str, colour: impl Fn(&str) -> String) -> Cow<'_, str> {
    if !text.contains(colour_mark()) {
        return Cow::Borrowed(text);
    }
    let mut left = String::with_capacity(text.len());
    for (index, piece) in text.split(colour_mark()).enumerate() {
        match piece.split_once('m').filter(|_| index > 0) {
            Some((code, rest)) => {
                left.push_str(&colour(code));
                left.push_str(rest);
            }
            None => left.push_str(piece),
        }
    }
    Cow::Owned(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_colours_pass_and_those_of_others_do_not() {
        let text = format!(
            "{} \x1b[31mred\x1b[0m",
            mark_colour("32", "ready\x1b]52;c;aGk=\x07")
        );
        assert_eq!(for_terminal(&text), "\x1b[32mready\x1b[0m red");
        assert_eq!(for_terminal("\x1b]0;title\x07\x1b[2Ja\tb\nc"), "a\tb\nc");
        // A sequence that is not ended does not swallow what comes after it.
        let open = format!("\x1b]0;open {} rest", mark_colour("1", "bold"));
        assert_eq!(for_terminal(&open), "\x1b[1mbold\x1b[0m rest");
    }

    #[test]
    fn a_file_gets_the_text_as_it_is() {
        let text = format!("{}: \x1b[2J", mark_colour("31", "error"));
        assert_eq!(for_file(&text), "error: \x1b[2J");
        assert_eq!(for_picture(&text), "\x1b[31merror\x1b[0m: \x1b[2J");
    }
}
