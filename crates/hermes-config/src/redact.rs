//! Taking credentials out of text before it reaches a model, a log or a screen.

use std::{borrow::Cow, sync::LazyLock};

use regex::{Captures, Regex, RegexSet};

use crate::Secret;

const MARK: &str = "[REDACTED]";

/// Replaces whatever looks like a credential, and the secrets it was given, with `[REDACTED]`.
#[derive(Debug, Clone, Default)]
pub struct Redactor {
    /// Longest first, so that a secret that contains another is replaced whole.
    secrets: Vec<Secret<String>>,
}

impl Redactor {
    /// Knows these secrets besides the patterns.
    pub fn new(secrets: impl IntoIterator<Item = Secret<String>>) -> Self {
        let mut secrets: Vec<_> = secrets
            .into_iter()
            .filter(|secret| !secret.expose().is_empty())
            .collect();
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.expose().len()));
        secrets.dedup();
        Self { secrets }
    }

    /// The text without credentials; borrowed if it held none.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut text = Cow::Borrowed(text);
        for secret in &self.secrets {
            if text.contains(secret.expose().as_str()) {
                text = Cow::Owned(text.replace(secret.expose().as_str(), MARK));
            }
        }
        let patterns = &*PATTERNS;
        for index in &patterns.all.matches(&text) {
            let (regex, replace) = &patterns.each[index];
            if let Cow::Owned(changed) = regex.replace_all(&text, replace) {
                text = Cow::Owned(changed);
            }
        }
        text
    }
}

type Replace = fn(&Captures) -> String;

/// One pass over the text tells which of the patterns have anything to do.
struct Patterns {
    all: RegexSet,
    each: Vec<(Regex, Replace)>,
}

static PATTERNS: LazyLock<Patterns> = LazyLock::new(|| Patterns {
    all: RegexSet::default(),
    each: Vec::new(),
});
