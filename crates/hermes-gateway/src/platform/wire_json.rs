//! JSON as platforms send it. Half of a surrogate pair, which is not text, must not cost the update it is in.

use serde_json::Value;

/// Parses JSON. What cannot be text in it is replaced by the replacement character.
pub(crate) fn parse_wire_json(bytes: &[u8]) -> Result<Value, serde_json::Error> {
    serde_json::from_slice(bytes).or_else(|error| {
        let text = String::from_utf8_lossy(bytes);
        match replace_lone_surrogates(&text) {
            Some(repaired) => serde_json::from_str(&repaired),
            None if matches!(text, std::borrow::Cow::Owned(_)) => serde_json::from_str(&text),
            None => Err(error),
        }
    })
}

/// The text with `\ufffd` for escapes that are half of a pair; `None` if there are none.
fn replace_lone_surrogates(text: &str) -> Option<String> {
    let mut repaired = String::new();
    let mut copied = 0;
    let mut at = 0;
    while let Some(found) = text[at..].find('\\') {
        let escape = at + found;
        let Some(unit) = surrogate_at(text, escape) else {
            // A backslash and what it escapes.
            let next = text[escape + 1..].chars().next();
            at = escape + 1 + next.map_or(0, char::len_utf8);
            continue;
        };
        let is_pair = is_high(unit)
            && surrogate_at(text, escape + ESCAPE_LENGTH).is_some_and(|low| !is_high(low));
        if is_pair {
            at = escape + 2 * ESCAPE_LENGTH;
            continue;
        }
        repaired.push_str(&text[copied..escape]);
        repaired.push_str(r"\ufffd");
        at = escape + ESCAPE_LENGTH;
        copied = at;
    }
    (copied > 0).then(|| repaired + &text[copied..])
}

/// The length of `\ud83d`.
const ESCAPE_LENGTH: usize = 6;

fn is_high(unit: u32) -> bool {
    unit < 0xdc00
}

/// The surrogate that is escaped here.
fn surrogate_at(text: &str, at: usize) -> Option<u32> {
    let digits = text.get(at..at + ESCAPE_LENGTH)?.strip_prefix(r"\u")?;
    let unit = u32::from_str_radix(digits, 16).ok()?;
    (0xd800..0xe000).contains(&unit).then_some(unit)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn half_of_a_pair_costs_one_character() {
        for (text, read) in [
            (r#""a\ud83d\ude00b""#, "a😀b"),
            (r#""a\ud83db""#, "a\u{fffd}b"),
            (r#""\ude00""#, "\u{fffd}"),
            (r#""\ud83d\ud83d\ude00""#, "\u{fffd}😀"),
            (r#""\\ud83d""#, r"\ud83d"),
            (r#""\\\ud83d\"""#, "\\\u{fffd}\""),
            (r#""é\ud83d""#, "é\u{fffd}"),
        ] {
            assert_eq!(parse_wire_json(text.as_bytes()).unwrap(), read, "{text}");
        }
        let bytes = b"{\"text\":\"a\xff\"}";
        let read = parse_wire_json(bytes).unwrap();
        assert_eq!(read, json!({"text": "a\u{fffd}"}));
        for text in ["{", r#""\u12""#, "\"\\", ""] {
            parse_wire_json(text.as_bytes()).unwrap_err();
        }
    }
}
