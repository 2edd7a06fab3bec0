//! Text of servers made harmless for a screen.

use std::borrow::Cow;

/// The text without sequences that steer a terminal, without other control characters but line breaks, and without
/// characters that turn the direction of writing.
pub fn plain(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unwanted) {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(character) = rest.next() {
        match character {
            '\u{1b}' => skip_sequence(&mut rest),
            // The same sequence in one character.
            '\u{9b}' => skip_parameters(&mut rest),
            '\t' => clean.push(' '),
            other if is_unwanted(other) => {}
            other => clean.push(other),
        }
    }
    Cow::Owned(clean)
}

fn is_unwanted(character: char) -> bool {
    let turns_direction = matches!(
        character,
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    turns_direction || (character.is_control() && character != '\n')
}

/// What follows an escape character.
fn skip_sequence(rest: &mut std::str::Chars<'_>) {
    let mut ahead = rest.clone();
    match ahead.next() {
        Some('[') => {
            *rest = ahead;
            skip_parameters(rest);
        }
        // Titles, links and the like end with a bell or an escape sequence of their own.
        Some(']' | 'P' | '^' | '_') => {
            *rest = ahead;
            let mut before = ' ';
            for character in rest.by_ref() {
                if character == '\u{7}' || (before == '\u{1b}' && character == '\\') {
                    return;
                }
                before = character;
            }
        }
        Some(_) => *rest = ahead,
        None => {}
    }
}

fn skip_parameters(rest: &mut std::str::Chars<'_>) {
    let is_last = |character: char| ('\u{40}'..='\u{7e}').contains(&character);
    rest.by_ref().find(|character| is_last(*character));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_steers_a_terminal_is_left() {
        let cases = [
            ("plain text\nin lines", "plain text\nin lines"),
            ("a\x1b[31;1mred\x1b[0m b", "ared b"),
            ("a\u{9b}2Jb", "ab"),
            ("\x1b]0;title\x07shown", "shown"),
            (
                "\x1b]8;;https://evil.example\x1b\\link\x1b]8;;\x1b\\",
                "link",
            ),
            ("bell\x07 back\x08 cr\r tab\tend", "bell back cr tab end"),
            ("abc\u{202e}cba\u{2069}", "abccba"),
            ("cut off \x1b", "cut off "),
            ("cut off \x1b[12", "cut off "),
            ("Grüße ✓", "Grüße ✓"),
        ];
        for (text, expected) in cases {
            assert_eq!(plain(text), expected, "{text:?}");
        }
    }
}
