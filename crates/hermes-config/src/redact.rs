//! Taking credentials out of text before it reaches a model, a log or a screen.
//!
//! Where a pattern has to guess, it takes out too much rather than too little. Successful results never come here.

use std::{borrow::Cow, ops::Range};

use crate::{Secret, Variables};

mod patterns;

const MARK: &str = "[REDACTED]";

/// Shorter values occur in harmless texts.
const SHORTEST_VALUE: usize = 8;
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
    secrets: Vec<Secret<String>>,
}

impl Redactor {
    /// Knows these secrets besides the patterns.
    pub fn new(secrets: impl IntoIterator<Item = Secret<String>>) -> Self {
        let secrets = secrets.into_iter();
        Self {
            secrets: secrets
                .filter(|secret| !secret.expose().is_empty())
                .collect(),
        }
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
            .filter(|(name, value)| value.len() >= SHORTEST_VALUE && is_secret(name));
        Self::new(secrets.map(|(_, value)| Secret::new(value.to_owned())))
    }

    /// The text without credentials; borrowed if it held none.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut found = patterns::find(text);
        for secret in &self.secrets {
            let secret = secret.expose();
            found.extend(
                text.match_indices(secret)
                    .map(|(start, _)| start..start + secret.len()),
            );
        }
        if found.is_empty() {
            return Cow::Borrowed(text);
        }
        Cow::Owned(without(text, found))
    }
}

/// The text with each range replaced; ranges that overlap are one.
fn without(text: &str, mut ranges: Vec<Range<usize>>) -> String {
    ranges.sort_by_key(|range| range.start);
    let mut result = String::with_capacity(text.len());
    let mut end = 0;
    for range in ranges {
        if range.start >= end {
            result.push_str(&text[end..range.start]);
            result.push_str(MARK);
        }
        end = end.max(range.end);
    }
    result.push_str(&text[end..]);
    result
}

#[cfg(test)]
mod tests;
