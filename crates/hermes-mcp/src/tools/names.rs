//! The two kinds of tool names, and the way from one to the other.
//!
//! A [`ToolName`] is what the server calls its tool: it goes over the wire and filters match it. A [`RegisteredName`]
//! is what the model says: safe for every provider. A registered name is never taken apart again; whoever needs the
//! server and the tool behind it looks them up.

use std::{borrow::Borrow, fmt};

use serde::Serialize;
use sha2::{Digest, Sha256};

/// The longest name every model provider accepts.
const MAX_NAME_LENGTH: usize = 64;

/// How much of a longer name stays, before `_` and eight digits of its hash.
const TRUNCATED_LENGTH: usize = 55;

/// A tool's name as its server lists it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct ToolName(String);

impl ToolName {
    /// Takes any string: servers name their tools as they like.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// The name as listed.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for ToolName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A tool's name as the model says it: 1 to 64 ASCII letters, digits and underscores.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct RegisteredName(String);

impl RegisteredName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for RegisteredName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RegisteredName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How server and tool are put together (`mcp.tool_naming`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Naming {
    /// `mcp_server_tool`.
    #[default]
    Single,
    /// `mcp__server__tool`.
    Double,
}

impl Naming {
    /// The spelling that is not registered but understood as an alias.
    #[must_use]
    pub fn alternate(self) -> Self {
        match self {
            Self::Single => Self::Double,
            Self::Double => Self::Single,
        }
    }

    /// What is between `mcp`, server and tool.
    #[must_use]
    pub fn separator(self) -> &'static str {
        match self {
            Self::Single => "_",
            Self::Double => "__",
        }
    }
}

/// Replaces every character that is not an ASCII letter, digit or underscore by an underscore.
pub fn sanitise(name: &str) -> String {
    name.chars().map(sanitise_char).collect()
}

fn sanitise_char(character: char) -> char {
    if character.is_ascii_alphanumeric() {
        character
    } else {
        '_'
    }
}

/// The name under which a server's tool is offered to the model.
///
/// A name over 64 characters is cut and ends in a hash of the whole, so that two long names with the same beginning
/// stay apart and each stays the same from one start to the next.
pub fn registered_name(naming: Naming, server: &str, tool: &str) -> RegisteredName {
    let mut name = String::with_capacity(MAX_NAME_LENGTH);
    name.push_str("mcp");
    for part in [server, tool] {
        name.push_str(naming.separator());
        name.extend(part.chars().map(sanitise_char));
    }
    if name.len() > MAX_NAME_LENGTH {
        let hash = Sha256::digest(name.as_bytes());
        let digits = u32::from_be_bytes([hash[0], hash[1], hash[2], hash[3]]);
        name = format!("{}_{digits:08x}", &name[..TRUNCATED_LENGTH]);
    }
    RegisteredName(name)
}

/// The name for the `n`th tool that would be called `name`: `_2`, `_3`, …, cut where needed to stay within 64.
#[must_use]
pub fn with_suffix(name: &RegisteredName, n: usize) -> RegisteredName {
    let suffix = format!("_{n}");
    let kept = name.0.len().min(MAX_NAME_LENGTH - suffix.len());
    RegisteredName(format!("{}{suffix}", &name.0[..kept]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn dashes_and_dots_become_underscores() {
        let single = registered_name(Naming::Single, "my-api", "list-items.v2");
        assert_eq!(single.as_str(), "mcp_my_api_list_items_v2");
        let double = registered_name(Naming::Double, "my-api", "list-items.v2");
        assert_eq!(double.as_str(), "mcp__my_api__list_items_v2");
    }

    #[test]
    fn each_character_becomes_one_underscore_whatever_its_bytes() {
        assert_eq!(sanitise("größe/✓"), "gr__e__");
    }

    #[test]
    fn a_name_of_64_is_left_alone_and_one_of_65_is_cut() {
        let fits = registered_name(Naming::Single, "s", &"t".repeat(64 - "mcp_s_".len()));
        assert_eq!(fits.as_str(), format!("mcp_s_{}", "t".repeat(58)));

        let long = registered_name(Naming::Single, "s", &"t".repeat(65 - "mcp_s_".len()));
        assert_eq!(long.as_str().len(), 64);
        // printf 'mcp_s_ttt…' | sha256sum
        assert_eq!(long.as_str(), format!("mcp_s_{}_bd927fa6", "t".repeat(49)));
    }

    #[test]
    fn long_names_with_the_same_beginning_stay_apart() {
        let beginning = "t".repeat(90);
        let one = registered_name(Naming::Single, "s", &format!("{beginning}1"));
        let two = registered_name(Naming::Single, "s", &format!("{beginning}2"));
        assert_ne!(one, two);
    }

    #[test]
    fn a_suffix_cuts_only_what_is_too_long() {
        let short = registered_name(Naming::Single, "s", "t");
        assert_eq!(with_suffix(&short, 2).as_str(), "mcp_s_t_2");
        let long = registered_name(Naming::Single, "s", &"t".repeat(58));
        let suffixed = with_suffix(&long, 10);
        assert_eq!(suffixed.as_str(), format!("mcp_s_{}_10", "t".repeat(55)));
    }

    fn is_safe(name: &RegisteredName) -> bool {
        (1..=64).contains(&name.as_str().len())
            && name
                .as_str()
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'_')
    }

    proptest! {
        #[test]
        fn every_registered_name_is_safe_and_stable(server in ".*", tool in ".*", n in 2usize..) {
            for naming in [Naming::Single, Naming::Double] {
                let name = registered_name(naming, &server, &tool);
                prop_assert!(is_safe(&name), "{name}");
                prop_assert_eq!(&name, &registered_name(naming, &server, &tool));
                prop_assert!(is_safe(&with_suffix(&name, n)));
            }
        }
    }
}
