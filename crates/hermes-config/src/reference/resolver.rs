//! Filling in texts and collecting the secrets and warnings met on the way.

use super::{
    ReferenceError, ReferencePolicy, ReferenceScope,
    source::ReferenceSources,
    template::{self, TemplatePiece},
};
use crate::{Home, Secret, Variables, Warning};

/// Shorter values would take ordinary words out of messages.
const MIN_SECRET_LENGTH: usize = 6;

/// Whether a header, variable or key of that name usually holds a secret.
pub(super) fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    ["KEY", "TOKEN", "SECRET", "PASS", "AUTH", "COOKIE"]
        .iter()
        .any(|word| name.contains(word))
}

/// Fills in texts and collects what it meets on the way.
pub(crate) struct Resolver<'a> {
    sources: ReferenceSources<'a>,
    pub(crate) secrets: Vec<Secret<String>>,
    pub(crate) warnings: Vec<Warning>,
}

/// A text with its references filled in.
struct FilledText {
    text: String,
    /// Whether any reference had a value.
    from_reference: bool,
}

impl<'a> Resolver<'a> {
    pub(crate) fn new(home: &'a Home, variables: &'a Variables, policy: ReferencePolicy) -> Self {
        Self {
            sources: ReferenceSources {
                home,
                variables,
                policy,
            },
            secrets: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// Whether references other than variables stay as written.
    pub(crate) fn fills_variables_only(&self) -> bool {
        self.sources.policy.scope == ReferenceScope::Variables
    }

    fn fill(&mut self, key: &str, text: &str) -> Result<FilledText, ReferenceError> {
        let mut filled = FilledText {
            text: String::new(),
            from_reference: false,
        };
        for piece in template::parse_template(text) {
            let (meaning, written) = match piece {
                TemplatePiece::Text(text) => {
                    filled.text.push_str(text);
                    continue;
                }
                TemplatePiece::Reference { meaning, written } => (meaning, written),
            };
            if let Some(value) = self.sources.lookup(key, &meaning, written)? {
                if meaning.is_secret() {
                    self.record_secret(&value);
                }
                filled.text.push_str(&value);
                filled.from_reference = true;
            } else {
                self.warnings.push(Warning {
                    key: Some(key.to_owned()),
                    message: meaning.unresolved_message(written),
                });
                filled.text.push_str(written);
            }
        }
        Ok(filled)
    }

    pub(crate) fn resolve_text(&mut self, key: &str, text: &str) -> Result<String, ReferenceError> {
        Ok(self.fill(key, text)?.text)
    }

    pub(crate) fn resolve_optional(
        &mut self,
        key: &str,
        text: Option<&String>,
    ) -> Result<Option<String>, ReferenceError> {
        text.map(|text| self.resolve_text(key, text)).transpose()
    }

    pub(crate) fn resolve_list(
        &mut self,
        key: &str,
        list: &[String],
    ) -> Result<Vec<String>, ReferenceError> {
        list.iter()
            .enumerate()
            .map(|(index, text)| self.resolve_text(&format!("{key}[{index}]"), text))
            .collect()
    }

    /// Headers or variables: values that came from elsewhere, or are named so, are secrets.
    pub(crate) fn resolve_pairs(
        &mut self,
        key: &str,
        pairs: &[(String, String)],
    ) -> Result<Vec<(String, String)>, ReferenceError> {
        let mut resolved = Vec::with_capacity(pairs.len());
        for (name, text) in pairs {
            let value = self.fill(&format!("{key}.{name}"), text)?;
            if value.from_reference || is_secret_name(name) {
                self.record_secret(&value.text);
                if let Some(credentials) = strip_auth_scheme(&value.text) {
                    self.record_secret(credentials);
                }
            }
            resolved.push((name.clone(), value.text));
        }
        Ok(resolved)
    }

    pub(crate) fn record_secret(&mut self, value: &str) {
        let value = value.trim();
        let known = self.secrets.iter().any(|secret| secret.expose() == value);
        if value.chars().count() >= MIN_SECRET_LENGTH && !known {
            self.secrets.push(Secret::new(value.to_owned()));
        }
    }
}

/// The credentials of `Bearer X` and its like.
fn strip_auth_scheme(value: &str) -> Option<&str> {
    let (scheme, credentials) = value.trim().split_once(' ')?;
    ["bearer", "basic", "token"]
        .iter()
        .any(|known| scheme.eq_ignore_ascii_case(known))
        .then(|| credentials.trim())
}
