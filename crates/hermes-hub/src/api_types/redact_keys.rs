//! Removes the Hub's keys from texts that are shown or logged.

use std::borrow::Cow;

const KEY_PREFIXES: [&str; 2] = ["hub_mgmt_", "hub_rt_"];
/// Anything shorter is not a key but text about keys.
const MIN_KEY_CHARS: usize = 16;

pub(crate) fn redact(text: &str) -> Cow<'_, str> {
    let next = |text: &str| {
        let found = KEY_PREFIXES
            .iter()
            .filter_map(|prefix| Some((text.find(prefix)?, prefix.len())));
        found.min()
    };
    if next(text).is_none() {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((at, length)) = next(rest) {
        let (before, key) = rest.split_at(at + length);
        let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let end = key.find(|letter| !is_part(letter)).unwrap_or(key.len());
        clean.push_str(before);
        clean.push_str(if end < MIN_KEY_CHARS {
            &key[..end]
        } else {
            "[REDACTED]"
        });
        rest = &key[end..];
    }
    clean.push_str(rest);
    Cow::Owned(clean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_taken_out_and_all_else_stays() {
        let key = "a".repeat(43);
        let text = format!("x hub_mgmt_{key}_123456, hub_rt_{key}! ä");
        assert_eq!(redact(&text), "x hub_mgmt_[REDACTED], hub_rt_[REDACTED]! ä");
        let harmless = "send `Authorization: Bearer hub_mgmt_...`";
        assert_eq!(redact(harmless), harmless);
    }
}
