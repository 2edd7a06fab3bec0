//! Keys: their format, generating them, the hashes that are stored, and taking keys out of texts.

use std::{borrow::Cow, fmt};

use hermes_config::{
    Secret,
    random::{RandomError, random_bytes, random_hex},
};
use sha2::{Digest, Sha256};

const BASE62_DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// Digits for 32 bytes.
const BODY_DIGITS: usize = 43;
const CHECKSUM_DIGITS: usize = 6;
const KEY_PREFIXES: [&str; 2] = ["hub_mgmt_", "hub_rt_"];
/// Anything shorter is not a key but text about keys.
const MIN_KEY_CHARS: usize = 16;

/// What a key is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    /// A management token, for `/v1` and `/mcp`.
    Management,
    /// A tenant's own key, for the private routes alone.
    Runtime,
}

impl KeyKind {
    fn prefix(self) -> &'static str {
        match self {
            Self::Management => "hub_mgmt_",
            Self::Runtime => "hub_rt_",
        }
    }
}

/// SHA-256 of a key. Compared in constant time.
#[derive(Clone, Copy)]
pub struct KeyHash([u8; 32]);

impl KeyHash {
    pub fn from_key(key: &str) -> Self {
        Self(Sha256::digest(key.as_bytes()).into())
    }

    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl PartialEq for KeyHash {
    fn eq(&self, other: &Self) -> bool {
        let difference = self
            .0
            .iter()
            .zip(&other.0)
            .fold(0, |sum, (one, other)| sum | (one ^ other));
        std::hint::black_box(difference) == 0
    }
}

impl Eq for KeyHash {}

impl std::hash::Hash for KeyHash {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyHash")
    }
}

#[derive(Debug, Clone)]
pub struct NewKey {
    /// To be shown once.
    pub secret: Secret<String>,
    /// To be stored.
    pub hash: KeyHash,
    pub last4: String,
}

impl NewKey {
    /// Makes one from 32 random bytes.
    pub fn random(kind: KeyKind) -> Result<Self, RandomError> {
        let bytes = random_bytes::<32>()?;
        let head = format!("{}{}", kind.prefix(), base62::<BODY_DIGITS>(&bytes));
        let key = format!("{head}_{}", checksum(&head));
        Ok(Self {
            hash: KeyHash::from_key(&key),
            last4: key[key.len() - 4..].to_owned(),
            secret: Secret::new(key),
        })
    }
}

/// The kind and hash of a key; `None` if the text is not a key. The checksum detects mistyped and truncated keys
/// without a database lookup.
pub fn parse_key(text: &str) -> Option<(KeyKind, KeyHash)> {
    let kind = [KeyKind::Management, KeyKind::Runtime]
        .into_iter()
        .find(|kind| text.starts_with(kind.prefix()))?;
    let (head, sum) = text.rsplit_once('_')?;
    let body = head.strip_prefix(kind.prefix())?;
    let well_formed = body.len() == BODY_DIGITS
        && body.bytes().all(|byte| byte.is_ascii_alphanumeric())
        && sum == checksum(head);
    well_formed.then(|| (kind, KeyHash::from_key(text)))
}

/// Tells a tenant from an earlier one with the same name.
pub fn new_uid() -> Result<String, RandomError> {
    random_hex::<16>()
}

/// The last characters of a value, to show; `None` for a short one.
pub fn last4(value: &str) -> Option<String> {
    let characters: Vec<char> = value.chars().collect();
    (characters.len() >= 16).then(|| characters[characters.len() - 4..].iter().collect())
}

fn checksum(head: &str) -> String {
    let hash = Sha256::digest(head.as_bytes());
    base62::<CHECKSUM_DIGITS>(&hash[..4])
}

fn base62<const LENGTH: usize>(bytes: &[u8]) -> String {
    let mut number = bytes.to_vec();
    let mut digits = [b'0'; LENGTH];
    for digit in digits.iter_mut().rev() {
        let mut rest = 0;
        for byte in &mut number {
            let value = rest * 256 + usize::from(*byte);
            // The remainder is below 62 before each step, so the quotient stays below 256.
            *byte = u8::try_from(value / 62).unwrap_or_default();
            rest = value % 62;
        }
        *digit = BASE62_DIGITS[rest];
    }
    digits.iter().map(|digit| char::from(*digit)).collect()
}

/// Removes the Hub's keys from a text that is shown or logged.
pub(crate) fn redact_keys(text: &str) -> Cow<'_, str> {
    let next = |text: &str| {
        let matches = KEY_PREFIXES
            .iter()
            .filter_map(|prefix| Some((text.find(prefix)?, prefix.len())));
        matches.min()
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
    use crate::api_types::ids::hex;

    #[test]
    fn a_new_key_has_the_documented_form_and_is_read_back() {
        for (kind, prefix) in [
            (KeyKind::Management, "hub_mgmt_"),
            (KeyKind::Runtime, "hub_rt_"),
        ] {
            let key = NewKey::random(kind).unwrap();
            let text = key.secret.expose();
            assert!(text.starts_with(prefix));
            assert_eq!(text.len(), prefix.len() + 43 + 1 + 6);
            assert!(text.ends_with(&key.last4));
            assert_eq!(parse_key(text), Some((kind, key.hash)));
        }
    }

    #[test]
    fn any_changed_character_shows() {
        let key = NewKey::random(KeyKind::Management).unwrap();
        let text = key.secret.expose();
        for at in 9..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] = if bytes[at] == b'a' { b'b' } else { b'a' };
            let changed = String::from_utf8(bytes).unwrap();
            assert_eq!(parse_key(&changed), None, "at {at}");
        }
        assert_eq!(parse_key(&text[..text.len() - 1]), None);
        assert_eq!(parse_key(""), None);
        assert_eq!(parse_key("hub_mgmt_"), None);
    }

    #[test]
    fn nothing_of_a_key_is_printed() {
        let key = NewKey::random(KeyKind::Runtime).unwrap();
        let printed = format!("{key:?}");
        assert!(!printed.contains(&key.secret.expose()[8..20]), "{printed}");
        assert!(
            !printed.contains(&hex(&key.hash.as_bytes()[..8])),
            "{printed}"
        );
    }

    #[test]
    fn numbers_are_written_in_base_62() {
        assert_eq!(base62::<3>(&[61]), "00z");
        assert_eq!(base62::<3>(&[1, 0]), "048");
        assert_eq!(base62::<43>(&[0xff; 32]).len(), 43);
        assert_ne!(base62::<43>(&[0xff; 32]).as_bytes()[0], b'0');
    }

    #[test]
    fn nothing_of_a_short_value_is_shown() {
        assert_eq!(last4("hunter2"), None);
        assert_eq!(last4("sk-0123456789abcdef").as_deref(), Some("cdef"));
    }

    #[test]
    fn keys_are_taken_out_and_all_else_stays() {
        let key = "a".repeat(43);
        let text = format!("x hub_mgmt_{key}_123456, hub_rt_{key}! ä");
        assert_eq!(
            redact_keys(&text),
            "x hub_mgmt_[REDACTED], hub_rt_[REDACTED]! ä"
        );
        let harmless = "send `Authorization: Bearer hub_mgmt_...`";
        assert_eq!(redact_keys(harmless), harmless);
    }
}
