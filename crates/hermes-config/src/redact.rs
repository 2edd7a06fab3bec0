//! Taking credentials out of text before it reaches a model, a log or a screen.
//!
//! Where a pattern has to guess, it takes out too much rather than too little. Successful results never come here.

use std::{borrow::Cow, ops::Range};

use crate::{Secret, Variables};

mod patterns;

const REPLACEMENT: &str = "[REDACTED]";

/// Shorter values occur in harmless texts.
const MIN_VALUE_LENGTH: usize = 8;
/// Parts of names, separated by `_`, that mark a secret.
const SECRET_PARTS: [&str; 7] = [
    "KEY",
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "PASS",
    "CREDENTIALS",
];

/// Replaces whatever looks like a credential, and the secrets it was given, with `[REDACTED]`.
#[derive(Debug, Clone, Default)]
pub struct Redactor {
    /// In lower case and in every spelling.
    secrets: Vec<Secret<String>>,
}

impl Redactor {
    /// Knows these secrets besides the patterns.
    pub fn new(secrets: impl IntoIterator<Item = Secret<String>>) -> Self {
        Self::default().with(secrets)
    }

    /// Knows these secrets, too.
    #[must_use]
    pub fn with(mut self, secrets: impl IntoIterator<Item = Secret<String>>) -> Self {
        for secret in secrets {
            for spelling in spellings(secret.expose()) {
                let spelling = Secret::new(spelling.to_ascii_lowercase());
                if !self.secrets.contains(&spelling) {
                    self.secrets.push(spelling);
                }
            }
        }
        self
    }

    /// Knows the values of variables whose names say that they are secret.
    pub fn for_variables(variables: &Variables) -> Self {
        let is_secret = |name: &str| {
            let name = name.to_ascii_uppercase();
            let mut parts = name.split('_');
            parts.any(|part| SECRET_PARTS.contains(&part))
        };
        let secrets = variables
            .iter()
            .filter(|(name, value)| value.len() >= MIN_VALUE_LENGTH && is_secret(name));
        Self::new(secrets.map(|(_, value)| Secret::new(value.to_owned())))
    }

    /// The text without credentials; borrowed if it held none.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut found = patterns::find_credentials(text);
        if !self.secrets.is_empty() {
            // Changes no other characters than those of ASCII, so places stay the same.
            let text = text.to_ascii_lowercase();
            for secret in &self.secrets {
                let secret = secret.expose();
                found.extend(
                    text.match_indices(secret)
                        .map(|(start, _)| start..start + secret.len()),
                );
            }
        }
        if found.is_empty() {
            return Cow::Borrowed(text);
        }
        Cow::Owned(replace_ranges(text, found))
    }

    /// The first of these places at which a text that goes on can be cut without cutting a known secret, or what may
    /// turn out to be one, into parts that nobody would recognise.
    pub fn first_safe_cut(
        &self,
        text: &str,
        places: impl IntoIterator<Item = usize>,
    ) -> Option<usize> {
        let text = text.to_ascii_lowercase();
        places.into_iter().find(|place| {
            !self
                .secrets
                .iter()
                .any(|it| extends_over(&text, *place, it.expose()))
        })
    }
}

/// Whether a secret that begins before this place ends behind it, or may when the text goes on.
fn extends_over(text: &str, place: usize, secret: &str) -> bool {
    let (text, secret) = (text.as_bytes(), secret.as_bytes());
    let first = (place + 1).saturating_sub(secret.len());
    (first..place).any(|start| {
        let length = secret.len().min(text.len() - start);
        text[start..start + length] == secret[..length]
    })
}

/// Shorter lines occur in harmless texts.
const MIN_LINE_LENGTH: usize = 16;

/// A secret as it is, inside JSON, inside an address, as Rust prints a text, and line by line.
fn spellings(secret: &str) -> Vec<String> {
    if secret.is_empty() {
        return Vec::new();
    }
    let json = serde_json::Value::from(secret).to_string();
    let address: String = url::form_urlencoded::byte_serialize(secret.as_bytes()).collect();
    let mut spellings = vec![
        secret.to_owned(),
        json[1..json.len() - 1].to_owned(),
        address.replace('+', "%20"),
        address,
        secret.escape_debug().to_string(),
    ];
    if secret.contains('\n') {
        let lines = secret.lines().map(str::trim);
        let lines = lines.filter(|line| line.len() >= MIN_LINE_LENGTH);
        spellings.extend(lines.map(str::to_owned));
    }
    spellings
}

/// The text with each range replaced; ranges that overlap are one.
fn replace_ranges(text: &str, mut ranges: Vec<Range<usize>>) -> String {
    ranges.sort_by_key(|range| range.start);
    let mut result = String::with_capacity(text.len());
    let mut end = 0;
    for range in ranges {
        if range.start >= end {
            result.push_str(&text[end..range.start]);
            result.push_str(REPLACEMENT);
        }
        end = end.max(range.end);
    }
    result.push_str(&text[end..]);
    result
}

#[cfg(test)]
mod tests;
