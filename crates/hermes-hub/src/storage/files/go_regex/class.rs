//! Character classes: `[...]`, `\d` and its like, `\p{...}`.

use std::fmt::Write;

use super::{
    cursor::{Cursor, PatternError},
    escape, unicode,
};

pub(super) const NOTHING: &str = r"[^\x00-\x{10FFFF}]";
const EVERYTHING: &str = r"[\x00-\x{10FFFF}]";

const POSIX: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct",
    "space", "upper", "word", "xdigit",
];

/// Parses a class in brackets; the cursor is on the `[`.
pub(super) fn parse_brackets(cursor: &mut Cursor<'_>) -> Result<String, PatternError> {
    let start = *cursor;
    cursor.next();
    let is_negated = cursor.eat("^");
    let mut members = String::new();
    let mut is_first = true;
    loop {
        match cursor.peek() {
            None => return Err(start.error_here("a `[` is not closed")),
            Some(']') if !is_first => break,
            _ => {}
        }
        is_first = false;
        if let Some(class) = parse_posix(cursor)? {
            members.push_str(&class);
        } else if let Some(class) = parse_property(cursor)? {
            members.push_str(&class);
        } else if let Some(class) = parse_perl(cursor) {
            members.push_str(class);
        } else {
            parse_range(cursor, &start, &mut members)?;
        }
    }
    cursor.next();
    Ok(match (is_negated, members.is_empty()) {
        (false, true) => NOTHING.to_owned(),
        (true, true) => EVERYTHING.to_owned(),
        (false, false) => format!("[{members}]"),
        (true, false) => format!("[^{members}]"),
    })
}

/// `[:alpha:]`, `[:^alpha:]`. Without a later `:]`, the `[` is a member like any other.
fn parse_posix(cursor: &mut Cursor<'_>) -> Result<Option<String>, PatternError> {
    let rest = cursor.rest();
    let Some(end) = rest
        .strip_prefix("[:")
        .and_then(|after| after.find(":]").map(|at| at + 4))
    else {
        return Ok(None);
    };
    let class = &rest[..end];
    let name = &class[2..end - 2];
    if !POSIX.contains(&name.strip_prefix('^').unwrap_or(name)) {
        return Err(cursor.error_here(format!("`{class}` is not a class")));
    }
    cursor.skip(end);
    Ok(Some(class.to_owned()))
}

/// `\d`, `\s`, `\w` and their opposites, for ASCII only.
pub(super) fn parse_perl(cursor: &mut Cursor<'_>) -> Option<&'static str> {
    let class = match cursor.rest().get(..2)? {
        r"\d" => "[0-9]",
        r"\D" => "[^0-9]",
        r"\s" => r"[\t\n\f\r ]",
        r"\S" => r"[^\t\n\f\r ]",
        r"\w" => "[0-9A-Za-z_]",
        r"\W" => "[^0-9A-Za-z_]",
        _ => return None,
    };
    cursor.skip(2);
    Some(class)
}

/// `\pL`, `\p{Greek}`, `\P{Greek}`, `\p{^Greek}`.
pub(super) fn parse_property(cursor: &mut Cursor<'_>) -> Result<Option<String>, PatternError> {
    let start = *cursor;
    let mut is_negated = match cursor.rest().get(..2) {
        Some(r"\p") => false,
        Some(r"\P") => true,
        _ => return Ok(None),
    };
    cursor.skip(2);
    let name = if cursor.eat("{") {
        let Some(length) = cursor.rest().find('}') else {
            return Err(start.error_here("a `{` after `\\p` is not closed"));
        };
        let name = &cursor.rest()[..length];
        cursor.skip(length + 1);
        name
    } else {
        let letter = *cursor;
        cursor.next();
        cursor.since(&letter)
    };
    let name = match name.strip_prefix('^') {
        Some(name) => {
            is_negated = !is_negated;
            name
        }
        None => name,
    };
    let Some(known) = unicode::find_class(name) else {
        return Err(start.error_here(format!(
            "`{}` is not a character class",
            cursor.since(&start)
        )));
    };
    Ok(Some(match (known, is_negated) {
        // Text contains no surrogates.
        ("Cs", false) => NOTHING.to_owned(),
        ("Cs", true) => EVERYTHING.to_owned(),
        (known, false) => format!(r"\p{{{known}}}"),
        (known, true) => format!(r"\P{{{known}}}"),
    }))
}

/// A member, or a range of them.
fn parse_range(
    cursor: &mut Cursor<'_>,
    class: &Cursor<'_>,
    members: &mut String,
) -> Result<(), PatternError> {
    let start = *cursor;
    let low = parse_member(cursor, class)?;
    let mut high = low;
    let mut after = cursor.rest().chars();
    if after.next() == Some('-') && after.next().is_some_and(|next| next != ']') {
        cursor.next();
        high = parse_member(cursor, class)?;
        if high < low {
            return Err(start.error_here(format!(
                "the range `{}` goes backwards",
                cursor.since(&start)
            )));
        }
    }
    // Text contains no surrogates, and the expression may not name them.
    let low = if is_surrogate(low) { 0xe000 } else { low };
    let high = if is_surrogate(high) { 0xd7ff } else { high };
    if low > high {
        return Ok(());
    }
    push_member(low, members);
    if high > low {
        members.push('-');
        push_member(high, members);
    }
    Ok(())
}

fn parse_member(cursor: &mut Cursor<'_>, class: &Cursor<'_>) -> Result<u32, PatternError> {
    match cursor.peek() {
        None => Err(class.error_here("a `[` is not closed")),
        Some('\\') => escape::parse_escape(cursor),
        Some(character) => {
            cursor.next();
            Ok(u32::from(character))
        }
    }
}

pub(super) fn is_surrogate(value: u32) -> bool {
    (0xd800..=0xdfff).contains(&value)
}

fn push_member(value: u32, members: &mut String) {
    match char::from_u32(value) {
        Some(character) if character.is_alphanumeric() || character.is_ascii_punctuation() => {
            members.push_str(&regex::escape(character.encode_utf8(&mut [0; 4])));
        }
        _ => {
            let _ = write!(members, r"\x{{{value:X}}}");
        }
    }
}
