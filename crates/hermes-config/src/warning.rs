//! Something the user should look at.

use std::fmt;

/// Something the user should look at; work goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// The key it is about, dotted.
    pub key: Option<String>,
    /// What is wrong and what to do.
    pub message: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.key {
            Some(key) => write!(f, "`{key}`: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}
