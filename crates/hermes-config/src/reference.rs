//! Filling in `${…}` at each connect: variables, files, commands and the keyring.
//!
//! Saving always writes the template; only what is resolved holds the values.

use std::borrow::Cow;

use crate::Variables;

mod resolver;
mod template;

pub(crate) use resolver::Resolver;
pub use template::{NamedReference, ReferenceTemplate};
use template::{Reference, TemplatePiece};

/// What references of a home may reach.
#[derive(Debug, Clone)]
pub struct ReferencePolicy {
    scope: ReferenceScope,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReferenceScope {
    /// Whatever the user running the process can reach.
    Everything,
    /// No commands, and no file outside the home.
    InsideHome,
    /// Variables alone: nothing is read, run or opened.
    Variables,
}

impl ReferencePolicy {
    /// For the owner of the machine account: everything.
    pub fn owner() -> Self {
        Self {
            scope: ReferenceScope::Everything,
        }
    }

    /// For a tenant: no commands, files only inside the home, and no keyring but the home's own.
    pub fn tenant() -> Self {
        Self {
            scope: ReferenceScope::InsideHome,
        }
    }

    /// To find out which variables are missing: nothing is read, run or opened.
    pub(crate) fn variables_only() -> Self {
        Self {
            scope: ReferenceScope::Variables,
        }
    }
}

/// Why a reference cannot be filled in. No variant holds a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    /// The file could not be read.
    #[error("`{key}`: `{reference}` cannot be read: {reason}")]
    File {
        key: String,
        /// The reference as written.
        reference: String,
        reason: String,
    },
    /// The command failed, took too long or printed too much.
    #[error("`{key}`: `{reference}` gave no value: {reason}")]
    Command {
        key: String,
        /// The reference as written.
        reference: String,
        reason: String,
    },
    /// Neither the keyring nor the home's own file gave a value.
    #[error("`{key}`: `{reference}` gave no value: {reason}")]
    Keyring {
        key: String,
        /// The reference as written.
        reference: String,
        reason: String,
    },
    /// This home may not use such a reference.
    #[error("`{key}`: `{reference}` is not allowed here: {reason}")]
    Refused {
        key: String,
        /// The reference as written.
        reference: String,
        reason: String,
    },
}

/// `${VAR}` and `${env:VAR}` filled in; unset ones and every other form stay as written.
pub(crate) fn fill_variables<'t>(text: &'t str, variables: &Variables) -> Cow<'t, str> {
    if !text.contains("${") {
        return Cow::Borrowed(text);
    }
    let mut filled = String::new();
    for piece in template::parse_template(text) {
        match piece {
            TemplatePiece::Reference {
                meaning: Reference::Variable(name),
                written,
            } => match variables.get(name) {
                Some(value) if !value.is_empty() => filled.push_str(value),
                _ => filled.push_str(written),
            },
            TemplatePiece::Text(text) => filled.push_str(text),
            TemplatePiece::Reference { written, .. } => filled.push_str(written),
        }
    }
    Cow::Owned(filled)
}
