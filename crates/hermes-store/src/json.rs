//! Reading JSON that Python wrote: half of a surrogate pair may stand in it, which no Rust string can hold.

use std::borrow::Cow;

use serde_json::Value;

/// The value of a JSON text; lone surrogates become U+FFFD. Nothing if it is not JSON.
pub(crate) fn parse_json(text: &str) -> Option<Value> {
    serde_json::from_str(text)
        .or_else(|_| serde_json::from_str(&replace_lone_surrogates(text)))
        .ok()
}

/// The text with every escape that is half of a pair replaced by that of U+FFFD.
fn replace_lone_surrogates(text: &str) -> Cow<'_, str> {
    let mut clean = String::new();
    let mut copied = 0;
    let mut at = 0;
    let bytes = text.as_bytes();
    while at < bytes.len() {
        if bytes[at] != b'\\' {
            at += 1;
            continue;
        }
        match parse_escape(text, at) {
            Some(0xD800..=0xDBFF)
                if matches!(parse_escape(text, at + 6), Some(0xDC00..=0xDFFF)) =>
            {
                at += 12;
            }
            Some(0xD800..=0xDFFF) => {
                clean.push_str(&text[copied..at]);
                clean.push_str("\\ufffd");
                at += 6;
                copied = at;
            }
            _ => at += 2,
        }
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    clean.push_str(&text[copied..]);
    Cow::Owned(clean)
}

/// The code of the `\uXXXX` at this place.
fn parse_escape(text: &str, at: usize) -> Option<u32> {
    let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
    u32::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lone_surrogates_become_the_replacement_character() {
        assert_eq!(parse_json(r#""a\ud83db""#), Some(json!("a\u{fffd}b")));
        assert_eq!(parse_json(r#""\udc00""#), Some(json!("\u{fffd}")));
        assert_eq!(
            parse_json(r#"["\ud800\ud83d\ude00"]"#),
            Some(json!(["\u{fffd}😀"]))
        );
    }

    #[test]
    fn pairs_and_escaped_backslashes_stay() {
        assert_eq!(
            parse_json(r#""\ud83d\ude00 \\ud83d""#),
            Some(json!("😀 \\ud83d"))
        );
        assert_eq!(parse_json(r#"{"a": "\ud83d"} x"#), None);
    }
}
