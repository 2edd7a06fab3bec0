//! The two eras of the protocol.

use serde::{Deserialize, Serialize};

/// The two ways MCP is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Era {
    /// Revision 2026-07-28: no handshake, no session.
    Stateless,
    /// The revisions that begin with `initialize`.
    Legacy,
}

impl Era {
    /// The word used in every output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stateless => "stateless",
            Self::Legacy => "legacy",
        }
    }
}
