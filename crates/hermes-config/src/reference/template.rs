//! Texts with `${…}` in them: taken apart, and filled in when they are needed, not before.

use std::fmt;

use super::{ReferenceError, ReferencePolicy, resolver::Resolver};
use crate::{Home, Secret, Variables};

/// A part of a text.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TemplatePiece<'t> {
    Text(&'t str),
    Reference {
        meaning: Reference<'t>,
        /// The whole reference, `${` and `}` included.
        written: &'t str,
    },
}

/// What stands between the braces.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reference<'t> {
    Variable(&'t str),
    File(&'t str),
    Command(&'t str),
    Keyring(&'t str),
    /// Nothing this product knows, such as another product's `${input:x}`.
    Unknown,
}

impl Reference<'_> {
    /// Whether the value is a secret wherever it stands.
    pub(super) fn is_secret(&self) -> bool {
        match self {
            Self::Variable(name) => super::resolver::is_secret_name(name),
            Self::File(_) | Self::Command(_) | Self::Keyring(_) => true,
            Self::Unknown => false,
        }
    }

    /// What to tell the user when the reference stays as written.
    pub(super) fn unresolved_message(&self, written: &str) -> String {
        match self {
            Self::Variable(name) => format!(
                "`{written}` stays as written, because `{name}` is not set; set it in the home's `.env`"
            ),
            _ => format!("`{written}` stays as written, because it is not a known reference"),
        }
    }
}

/// The parts in order; together they are the whole text.
pub(super) fn parse_template(text: &str) -> Vec<TemplatePiece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        let Some(length) = reference_length(&rest[start..]) else {
            break;
        };
        if start > 0 {
            pieces.push(TemplatePiece::Text(&rest[..start]));
        }
        let written = &rest[start..start + length];
        let meaning = meaning(&written[2..length - 1]);
        pieces.push(TemplatePiece::Reference { meaning, written });
        rest = &rest[start + length..];
    }
    if !rest.is_empty() {
        pieces.push(TemplatePiece::Text(rest));
    }
    pieces
}

/// Bytes from `${` to its closing brace; braces inside, as in `${cmd:awk '{print $1}' f}`, are counted.
fn reference_length(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 1 => return Some(index + 1),
            b'}' => depth -= 1,
            _ => {}
        }
    }
    None
}

fn meaning(inside: &str) -> Reference<'_> {
    match inside.split_once(':') {
        None if is_name(inside) => Reference::Variable(inside),
        Some(("env", name)) if is_name(name) => Reference::Variable(name),
        Some(("file", path)) if !path.is_empty() => Reference::File(path),
        Some(("cmd", line)) if !line.is_empty() => Reference::Command(line),
        Some(("keyring", name)) if !name.is_empty() => Reference::Keyring(name),
        _ => Reference::Unknown,
    }
}

/// Whether a text may be the name of a variable.
fn is_name(text: &str) -> bool {
    let is_first = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    let is_further = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    text.bytes().next().is_some_and(is_first) && text.bytes().all(is_further)
}

/// A reference, as far as others need to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NamedReference {
    /// The name of a variable.
    Variable(String),
    /// A file, a command, a keyring, or nothing that this product knows.
    Other,
}

/// A text that may hold references. `Debug` shows nothing of it, since a secret may be written out in it.
#[derive(Clone, PartialEq, Eq)]
pub struct ReferenceTemplate(String);

impl ReferenceTemplate {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The references in it, in order.
    pub fn references(&self) -> Vec<NamedReference> {
        let pieces = parse_template(&self.0).into_iter();
        pieces
            .filter_map(|piece| match piece {
                TemplatePiece::Text(_) => None,
                TemplatePiece::Reference { meaning, .. } => Some(match meaning {
                    Reference::Variable(name) => NamedReference::Variable(name.to_owned()),
                    Reference::File(_)
                    | Reference::Command(_)
                    | Reference::Keyring(_)
                    | Reference::Unknown => NamedReference::Other,
                }),
            })
            .collect()
    }

    /// The variables it names that have no value.
    pub fn unset_variables(&self, variables: &Variables) -> Vec<String> {
        parse_template(&self.0)
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
    use proptest::prelude::*;

    use super::*;

    fn only(text: &str) -> Reference<'_> {
        match parse_template(text).as_slice() {
            [TemplatePiece::Reference { written, .. }] => assert_eq!(*written, text),
            other => panic!("{other:?}"),
        }
        meaning(&text[2..text.len() - 1])
    }

    #[test]
    fn every_form_is_recognised() {
        assert_eq!(only("${API_KEY}"), Reference::Variable("API_KEY"));
        assert_eq!(only("${env:my-app.key}"), Reference::Variable("my-app.key"));
        assert_eq!(only("${file:secrets/x}"), Reference::File("secrets/x"));
        assert_eq!(only("${file:C:\\x}"), Reference::File("C:\\x"));
        assert_eq!(only("${keyring:github}"), Reference::Keyring("github"));
        assert_eq!(
            only("${cmd:awk '{print $1}' f}"),
            Reference::Command("awk '{print $1}' f")
        );
    }

    #[test]
    fn other_forms_are_unknown() {
        for text in [
            "${}",
            "${1}",
            "${a b}",
            "${input:x}",
            "${env:}",
            "${VAR:-x}",
            "${file:}",
        ] {
            assert_eq!(only(text), Reference::Unknown, "{text}");
        }
    }

    #[test]
    fn text_around_references_is_kept() {
        let parts = parse_template("Bearer ${A}-${B}!");
        assert_eq!(parts.len(), 5);
        assert_eq!(parts[0], TemplatePiece::Text("Bearer "));
        assert_eq!(parts[4], TemplatePiece::Text("!"));
        assert_eq!(
            parse_template("$HOME {x} ${open"),
            [TemplatePiece::Text("$HOME {x} ${open")]
        );
        assert_eq!(parse_template(""), []);
    }

    proptest! {
        #[test]
        fn the_pieces_make_up_the_text(text in r"[a${}: \n\PC]{0,40}") {
            let whole: String = parse_template(&text)
                .iter()
                .map(|piece| match piece {
                    TemplatePiece::Text(text) => *text,
                    TemplatePiece::Reference { written, .. } => *written,
                })
                .collect();
            prop_assert_eq!(whole, text);
        }
    }

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
