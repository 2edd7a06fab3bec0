//! Which of a server's own tools are offered, by `tools.include` and `tools.exclude`, and which are asked about
//! first, by `tools.approve`.
//!
//! Patterns match original names. Utility tools (`list_resources` and so on) are always offered where there are any.

use hermes_config::server::ToolPolicy;

use crate::tools::{
    names::ToolName,
    registry::{ToolApproval, ToolOrigin, UtilityTool},
};

/// In `tools.approve`: every tool that its server calls destructive.
const DESTRUCTIVE: &str = "@destructive";

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolFilter {
    All,
    /// Only tools matching one of these patterns; with no pattern none at all.
    Only(Vec<String>),
    /// Every tool but those matching one of these patterns.
    AllBut(Vec<String>),
}

impl ToolFilter {
    /// Reads the policy; where it has both lists, `include` decides and `exclude` is not looked at.
    pub fn new(policy: &ToolPolicy) -> Self {
        match (&policy.include, &policy.exclude) {
            (Some(include), _) => Self::Only(include.clone()),
            (None, Some(exclude)) => Self::AllBut(exclude.clone()),
            (None, None) => Self::All,
        }
    }

    /// Whether the tool is offered.
    pub fn includes(&self, name: &ToolName) -> bool {
        let listed = |patterns: &[String]| patterns.iter().any(|p| matches(p, name.as_str()));
        match self {
            Self::All => true,
            Self::Only(patterns) => listed(patterns),
            Self::AllBut(patterns) => !listed(patterns),
        }
    }

    /// The patterns that match none of the names: usually a typing mistake, worth a warning.
    pub fn unmatched_patterns<'a>(&self, names: impl Iterator<Item = &'a ToolName>) -> Vec<String> {
        let (Self::Only(patterns) | Self::AllBut(patterns)) = self else {
            return Vec::new();
        };
        unmatched(patterns.iter(), names)
    }

    /// Whether it is `include: []`, which switches every tool off.
    pub fn excludes_all(&self) -> bool {
        matches!(self, Self::Only(patterns) if patterns.is_empty())
    }
}

/// The `tools.approve` of one server.
#[derive(Debug, Clone, Copy)]
pub struct ApprovalRule<'a> {
    patterns: &'a [String],
}

impl<'a> ApprovalRule<'a> {
    pub fn new(policy: &'a ToolPolicy) -> Self {
        Self {
            patterns: &policy.approve,
        }
    }

    /// Whether calls of a tool need consent. Utilities are matched by their names like any other.
    pub fn approval_for(&self, origin: &ToolOrigin) -> ToolApproval {
        let (name, is_destructive) = match origin {
            ToolOrigin::Utility(utility) => (utility.as_str(), false),
            ToolOrigin::Native(tool) => {
                let hints = tool.definition.annotations.as_ref();
                let hint = hints.and_then(|hints| hints.destructive_hint);
                (tool.name.as_str(), hint == Some(true))
            }
        };
        let is_meant =
            |pattern: &String| (pattern == DESTRUCTIVE && is_destructive) || matches(pattern, name);
        if self.patterns.iter().any(is_meant) {
            ToolApproval::Required
        } else {
            ToolApproval::NotRequired
        }
    }

    /// The patterns that match none of the names.
    pub fn unmatched_patterns<'n>(&self, names: impl Iterator<Item = &'n ToolName>) -> Vec<String> {
        let means_utility = |pattern: &String| {
            UtilityTool::ALL
                .iter()
                .any(|utility| matches(pattern, utility.as_str()))
        };
        let patterns = self.patterns.iter();
        let patterns =
            patterns.filter(|pattern| *pattern != DESTRUCTIVE && !means_utility(pattern));
        unmatched(patterns, names)
    }
}

fn unmatched<'a, 'n>(
    patterns: impl Iterator<Item = &'a String>,
    names: impl Iterator<Item = &'n ToolName>,
) -> Vec<String> {
    let mut dead: Vec<&String> = patterns.collect();
    for name in names {
        dead.retain(|pattern| !matches(pattern, name.as_str()));
    }
    dead.into_iter().cloned().collect()
}

/// Whether a pattern matches a name: `*` stands for any run of characters, all else for itself, case included.
pub fn matches(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(mut name) = name.strip_prefix(first) else {
        return false;
    };
    let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
    // Taking the earliest match of each piece leaves the most for the pieces after it.
    for piece in middle.split('*') {
        match name.find(piece) {
            Some(at) => name = &name[at + piece.len()..],
            None => return false,
        }
    }
    name.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(include: Option<&[&str]>, exclude: Option<&[&str]>) -> ToolFilter {
        let list = |patterns: &[&str]| patterns.iter().map(ToString::to_string).collect();
        ToolFilter::new(&ToolPolicy {
            include: include.map(list),
            exclude: exclude.map(list),
            ..ToolPolicy::default()
        })
    }

    fn offered<'a>(filter: &ToolFilter, names: &[&'a str]) -> Vec<&'a str> {
        let included = |name: &&str| filter.includes(&ToolName::new(*name));
        names.iter().copied().filter(included).collect()
    }

    const NAMES: [&str; 4] = [
        "create_issue",
        "delete_issue",
        "delete_repo",
        "list-items.v2",
    ];

    #[test]
    fn without_lists_everything_is_offered() {
        assert_eq!(offered(&filter(None, None), &NAMES), NAMES);
    }

    #[test]
    fn include_offers_only_what_it_names() {
        let filter = filter(Some(&["list-items.v2", "create_*"]), None);
        assert_eq!(offered(&filter, &NAMES), ["create_issue", "list-items.v2"]);
    }

    #[test]
    fn exclude_offers_the_rest() {
        let filter = filter(None, Some(&["delete_*"]));
        assert_eq!(offered(&filter, &NAMES), ["create_issue", "list-items.v2"]);
    }

    #[test]
    fn include_wins_over_exclude() {
        let filter = filter(Some(&["create_issue"]), Some(&["create_issue"]));
        assert_eq!(offered(&filter, &NAMES), ["create_issue"]);
    }

    #[test]
    fn an_empty_include_offers_nothing_and_an_empty_exclude_everything() {
        let none = filter(Some(&[]), None);
        assert!(offered(&none, &NAMES).is_empty());
        assert!(none.excludes_all());
        let all = filter(None, Some(&[]));
        assert_eq!(offered(&all, &NAMES), NAMES);
        assert!(!all.excludes_all());
    }

    #[test]
    fn patterns_that_match_nothing_are_named() {
        let names: Vec<ToolName> = NAMES.into_iter().map(ToolName::new).collect();
        let filter = filter(
            Some(&["create_*", "Create_issue", "creat_issue", "*_repo"]),
            None,
        );
        assert_eq!(
            filter.unmatched_patterns(names.iter()),
            ["Create_issue", "creat_issue"]
        );
    }

    #[test]
    fn an_ignored_exclude_has_no_dead_patterns() {
        let names = [ToolName::new("a")];
        let filter = filter(Some(&["a"]), Some(&["zzz"]));
        assert!(filter.unmatched_patterns(names.iter()).is_empty());
    }

    #[test]
    fn stars_match_any_run_and_the_rest_is_literal() {
        for (pattern, name) in [
            ("*", ""),
            ("*", "anything"),
            ("a*", "a"),
            ("*a", "banana"),
            ("a*c*e", "abcde"),
            ("a*b*b", "abb"),
            ("**a**", "xax"),
            ("*ab*ab", "abab"),
            ("ü*ß", "über spaß"),
            ("a.b", "a.b"),
        ] {
            assert!(matches(pattern, name), "{pattern} should match {name}");
        }
        for (pattern, name) in [
            ("", "a"),
            ("a", "A"),
            ("a.b", "axb"),
            ("a*a", "a"),
            ("a*b*b", "ab"),
            ("*ab*ab", "ab"),
            ("a?", "ab"),
            ("*a", "ab"),
            ("a*", "ba"),
        ] {
            assert!(!matches(pattern, name), "{pattern} should not match {name}");
        }
    }
}
