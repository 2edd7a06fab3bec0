//! Truncates lines of untrusted text to the available width.

use hermes_agent::printable::printable;

/// The first line that says something, not wider than this, without tabs.
pub(crate) fn first_line(text: &str, width: usize) -> String {
    let text = printable(text);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty());
    truncate_line(&line.unwrap_or_default().replace('\t', " "), width)
}

/// As much of a line as fits, with an ellipsis where something is missing.
pub(crate) fn truncate_line(line: &str, width: usize) -> String {
    use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};
    if line.width() <= width {
        return line.to_owned();
    }
    let mut room = width.saturating_sub(1);
    let mut cut = String::new();
    for character in line.chars() {
        let needed = character.width().unwrap_or(0);
        if needed > room {
            break;
        }
        room -= needed;
        cut.push(character);
    }
    if width > 0 {
        cut.push('…');
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_is_the_first_that_says_something() {
        assert_eq!(first_line("\n  \n a\tb \nc", 80), "a b");
        assert_eq!(first_line("abcdef", 4), "abc…");
        assert_eq!(first_line("日本語", 4), "日…");
    }
}
