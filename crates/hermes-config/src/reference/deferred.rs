//! A text whose references are filled in when it is needed, and not before.

use std::fmt;

use super::{
    ReferenceError, ReferencePolicy,
    resolver::Resolver,
    template::{self, Reference, TemplatePiece},
};
use crate::{Home, Secret, Variables};

/// A text that may hold references. `Debug` shows nothing of it, since a secret may be written out in it.
#[derive(Clone, PartialEq, Eq)]
pub struct ReferenceTemplate(String);

impl ReferenceTemplate {
    /// A text as it is written.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The variables it names that have no value.
    pub fn unset_variables(&self, variables: &Variables) -> Vec<String> {
        template::parse_template(&self.0)
            .into_iter()
            .filter_map(|piece| match piece {
                TemplatePiece::Reference {
                    meaning: Reference::Variable(name),
                    ..
                } => Some(name),
                _ => None,
            })
            .filter(|name| variables.get(name).is_none_or(str::is_empty))
            .map(str::to_owned)
            .collect()
    }

    /// The text with every reference filled in; `None` if one has no value. Files are read and commands run, so this
    /// blocks for as long as they take (a command at most 10 s). Errors name it by `key`.
    pub fn fill(
        &self,
        key: &str,
        home: &Home,
        variables: &Variables,
        policy: &ReferencePolicy,
    ) -> Result<Option<Secret<String>>, ReferenceError> {
        let mut resolver = Resolver::new(home, variables, policy.clone());
        let text = resolver.resolve_text(key, &self.0)?;
        let is_whole = resolver.warnings.is_empty() && !text.trim().is_empty();
        Ok(is_whole.then(|| Secret::new(text.trim().to_owned())))
    }
}

impl fmt::Debug for ReferenceTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Template")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(text: &str) -> Result<Option<String>, ReferenceError> {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("key"), "from file\n").unwrap();
        let home = Home::at(directory.path());
        let variables = Variables::from_pairs([("KEY", "k-1"), ("TRAP", "${cmd:echo no}")]);
        let filled = ReferenceTemplate::new(text).fill(
            "api_key",
            &home,
            &variables,
            &ReferencePolicy::tenant(),
        )?;
        Ok(filled.map(|secret| secret.expose().clone()))
    }

    #[test]
    fn every_kind_of_reference_is_filled_in_once() {
        assert_eq!(fill("plain").unwrap().as_deref(), Some("plain"));
        assert_eq!(fill("a-${KEY}").unwrap().as_deref(), Some("a-k-1"));
        assert_eq!(fill("${file:key}").unwrap().as_deref(), Some("from file"));
        assert_eq!(fill("${TRAP}").unwrap().as_deref(), Some("${cmd:echo no}"));
    }

    #[test]
    fn without_a_value_there_is_no_text() {
        assert_eq!(fill("a-${NOPE}").unwrap(), None);
        assert_eq!(fill("  ").unwrap(), None);
        let template = ReferenceTemplate::new("${KEY} ${NOPE} ${env:NOR}");
        let variables = Variables::from_pairs([("KEY", "k")]);
        assert_eq!(template.unset_variables(&variables), ["NOPE", "NOR"]);
    }

    #[test]
    fn the_policy_holds() {
        assert!(matches!(
            fill("${cmd:echo x}"),
            Err(ReferenceError::Refused { .. })
        ));
    }
}
