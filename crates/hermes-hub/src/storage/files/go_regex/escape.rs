//! Escapes of single characters, and counts in braces.

use super::{Cursor, PatternError};

/// Parses an escape of one character; the cursor is on the `\`. The value may be a surrogate, which Go accepts and no
/// text contains.
pub(super) fn parse_escape(cursor: &mut Cursor<'_>) -> Result<u32, PatternError> {
    let start = *cursor;
    cursor.next();
    let Some(escaped) = cursor.next() else {
        return Err(start.error_here("a `\\` has nothing after it"));
    };
    let value = match escaped {
        'a' => Some(0x07),
        'f' => Some(0x0c),
        'n' => Some(0x0a),
        'r' => Some(0x0d),
        't' => Some(0x09),
        'v' => Some(0x0b),
        'x' => parse_hexadecimal(cursor),
        '0' => Some(parse_octal(0, cursor)),
        // A single digit would be a back-reference.
        '1'..='7' if next_octal(cursor).is_some() => {
            Some(parse_octal(u32::from(escaped) - u32::from('0'), cursor))
        }
        _ if escaped.is_ascii() && !escaped.is_ascii_alphanumeric() => Some(u32::from(escaped)),
        _ => None,
    };
    value.ok_or_else(|| start.error_here(format!("`{}` is not an escape", cursor.since(&start))))
}

fn next_octal(cursor: &Cursor<'_>) -> Option<u32> {
    cursor.peek().and_then(|digit| digit.to_digit(8))
}

fn parse_octal(first: u32, cursor: &mut Cursor<'_>) -> u32 {
    let mut value = first;
    for _ in 1..3 {
        let Some(digit) = next_octal(cursor) else {
            break;
        };
        value = value * 8 + digit;
        cursor.next();
    }
    value
}

fn parse_hexadecimal(cursor: &mut Cursor<'_>) -> Option<u32> {
    if !cursor.eat("{") {
        let first = cursor.next()?.to_digit(16)?;
        let second = cursor.next()?.to_digit(16)?;
        return Some(first * 16 + second);
    }
    let mut value = 0;
    let mut digits = 0;
    loop {
        match cursor.next()? {
            '}' if digits > 0 => return Some(value),
            digit => value = value * 16 + digit.to_digit(16)?,
        }
        digits += 1;
        if value > 0x10_ffff {
            return None;
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RepeatCount {
    pub(super) min: u32,
    /// `None` is unbounded.
    pub(super) max: Option<u32>,
}

/// Parses `{n}`, `{n,}` or `{n,m}`; the cursor is on the `{`. Anything else is a literal brace: `None`, and the cursor
/// stays.
pub(super) fn parse_count(cursor: &mut Cursor<'_>) -> Option<RepeatCount> {
    let mut ahead = *cursor;
    ahead.next();
    let least = parse_number(&mut ahead)?;
    let most = if ahead.eat(",") {
        if ahead.peek() == Some('}') {
            None
        } else {
            Some(parse_number(&mut ahead)?)
        }
    } else {
        Some(least)
    };
    if !ahead.eat("}") {
        return None;
    }
    *cursor = ahead;
    Some(RepeatCount {
        min: least,
        max: most,
    })
}

/// A number without leading zeros, saturating.
fn parse_number(cursor: &mut Cursor<'_>) -> Option<u32> {
    let digits = cursor.rest().bytes().take_while(u8::is_ascii_digit).count();
    let text = &cursor.rest()[..digits];
    if text.is_empty() || (text.len() > 1 && text.starts_with('0')) {
        return None;
    }
    cursor.skip(digits);
    Some(text.parse().unwrap_or(u32::MAX))
}
