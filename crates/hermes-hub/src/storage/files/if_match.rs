//! `If-Match`: a write on condition that the version is still the expected one.

use crate::{Problem, ProblemCode};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IfMatch {
    /// Any version, but it must exist.
    Any,
    /// One of these strong tags, including their quotes.
    OneOf(Vec<String>),
}

impl IfMatch {
    /// Parses the header. A weak tag is accepted and matches nothing.
    pub fn parse(header: &str) -> Result<Self, Problem> {
        if header.trim() == "*" {
            return Ok(Self::Any);
        }
        let tags: Vec<String> = header.split(',').map(|tag| tag.trim().to_owned()).collect();
        let is_tag = |tag: &String| {
            let opaque = tag.strip_prefix("W/").unwrap_or(tag);
            opaque.len() >= 2 && opaque.starts_with('"') && opaque.ends_with('"')
        };
        if tags.iter().all(is_tag) {
            Ok(Self::OneOf(tags))
        } else {
            Err(
                Problem::invalid("`If-Match` is `*` or a list of quoted tags, such as `\"b3\"`")
                    .with_detail("If-Match", "malformed"),
            )
        }
    }

    pub fn check(&self, current: Option<&str>) -> Result<(), Problem> {
        let holds = match (self, current) {
            (_, None) => false,
            (Self::Any, Some(_)) => true,
            (Self::OneOf(tags), Some(current)) => tags.iter().any(|tag| tag == current),
        };
        if holds {
            return Ok(());
        }
        Err(Problem::new(
            ProblemCode::PreconditionFailed,
            "it is no longer the version that `If-Match` names: read it again",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_wants_any_version_and_a_list_one_of_its_own() {
        assert!(IfMatch::parse("*").unwrap().check(Some("\"a\"")).is_ok());
        assert!(IfMatch::parse("*").unwrap().check(None).is_err());
        let list = IfMatch::parse("\"a\", \"b\"").unwrap();
        assert!(list.check(Some("\"b\"")).is_ok());
        assert_eq!(list.check(Some("\"c\"")).unwrap_err().code.status(), 412);
        assert!(list.check(None).is_err());
    }

    #[test]
    fn a_weak_tag_never_matches_and_a_bare_word_is_not_a_tag() {
        let weak = IfMatch::parse("W/\"a\"").unwrap();
        assert!(weak.check(Some("\"a\"")).is_err());
        assert_eq!(IfMatch::parse("a").unwrap_err().code.status(), 400);
        assert_eq!(IfMatch::parse("").unwrap_err().code.status(), 400);
    }
}
