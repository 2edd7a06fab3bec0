//! Reading YAML text as JSON values, with the line and column of what is wrong.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Value};
use serde_saphyr::Spanned;

/// Where and why a text is no usable YAML document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {reason}")]
pub struct YamlError {
    /// From 1.
    pub line: u64,
    /// From 1.
    pub column: u64,
    /// What is wrong.
    pub reason: String,
}

/// The document as a JSON value; an empty one is an empty mapping.
///
/// What is meant as text under `env` or `args` keeps its spelling: `yes`, `True`, `1.10` and `022` stay strings.
/// Whoever wants a flag or a number reads those too.
pub fn read(text: &str) -> Result<Value, YamlError> {
    let options = serde_saphyr::options! {
        strict_booleans: true,
        non_finite_float_policy: serde_saphyr::options::NonFiniteFloatPolicy::AsString,
        with_snippet: false,
    };
    let node = serde_saphyr::from_str_with_options::<Option<Spanned<Node>>>(text, options)
        .map_err(|error| describe(&error))?;
    Ok(match node {
        None => Value::Object(Map::new()),
        Some(node) => match value(node, text) {
            Value::Null => Value::Object(Map::new()),
            value => value,
        },
    })
}

fn describe(error: &serde_saphyr::Error) -> YamlError {
    let (line, column) = error
        .location()
        .map_or((1, 1), |location| (location.line(), location.column()));
    let message = error.without_snippet().to_string();
    // The place is told by our own message.
    let reason = match message.rfind(" at line ") {
        Some(end) => message[..end].to_owned(),
        None => message,
    };
    YamlError {
        line,
        column,
        reason,
    }
}

/// A value whose parts know where they are written.
enum Node {
    Scalar(Value),
    Sequence(Vec<Spanned<Node>>),
    Mapping(Vec<(String, Spanned<Node>)>),
}

fn value(node: Spanned<Node>, text: &str) -> Value {
    match node.value {
        Node::Scalar(scalar @ (Value::Number(_) | Value::Bool(_))) => {
            let span = node.defined.span();
            let start = span
                .byte_offset()
                .and_then(|start| usize::try_from(start).ok());
            let length = span
                .byte_len()
                .and_then(|length| usize::try_from(length).ok());
            let spelling = start
                .zip(length)
                .and_then(|(start, length)| text.get(start..start + length))
                .map(str::trim);
            let usual = scalar.to_string();
            match spelling {
                Some(spelling) if spelling != usual => Value::String(spelling.into()),
                _ => scalar,
            }
        }
        Node::Scalar(scalar) => scalar,
        Node::Sequence(items) => items.into_iter().map(|item| value(item, text)).collect(),
        Node::Mapping(entries) => entries
            .into_iter()
            .map(|(key, node)| (key, value(node, text)))
            .collect::<Map<_, _>>()
            .into(),
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_i128<E>(self, value: i128) -> Result<Node, E> {
        Ok(Node::Scalar(value.to_string().into()))
    }

    fn visit_u128<E>(self, value: u128) -> Result<Node, E> {
        Ok(Node::Scalar(value.to_string().into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        Node::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(Node::Sequence(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = access.next_entry()? {
            entries.push(entry);
        }
        Ok(Node::Mapping(entries))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn scalars_keep_a_spelling_that_a_number_would_lose() {
        let text = "a: 1.10\nb: 022\nc: True\nd: yes\ne: 1e3\nf: 0x1F\ng: 8080\nh: -1.5\ni: true\nj: ~\nk: 'x'\nl: 2024-01-01\n";
        assert_eq!(
            read(text).unwrap(),
            json!({
                "a": "1.10", "b": "022", "c": "True", "d": "yes", "e": "1e3", "f": "0x1F",
                "g": 8080, "h": -1.5, "i": true, "j": null, "k": "x", "l": "2024-01-01",
            })
        );
        assert_eq!(
            read("[1.0, .inf, 123456789012345678901234567890]").unwrap(),
            json!([1.0, ".inf", "123456789012345678901234567890"])
        );
    }

    #[test]
    fn aliases_and_merges_keep_it_too() {
        let text = "ä: &x\n  v: 1.10\n  w: 1\nb:\n  <<: *x\n  w: 2.0\nc: [*x]\nd: &n 07\ne: *n\n";
        assert_eq!(
            read(text).unwrap(),
            json!({
                "ä": {"v": "1.10", "w": 1},
                "b": {"v": "1.10", "w": 2.0},
                "c": [{"v": "1.10", "w": 1}],
                "d": "07",
                "e": "07",
            })
        );
    }

    #[test]
    fn a_document_without_content_is_an_empty_mapping() {
        for text in [
            "",
            "\n\n",
            "# only a comment\n",
            "---\n",
            "~\n",
            "{}",
            "\u{feff}",
            "---\n...\n",
        ] {
            assert_eq!(read(text), Ok(json!({})), "{text:?}");
        }
    }

    #[test]
    fn a_byte_order_mark_shifts_nothing() {
        assert_eq!(
            read("\u{feff}a: 1.10\nb: 2\n").unwrap(),
            json!({"a": "1.10", "b": 2})
        );
    }

    #[test]
    fn a_key_said_twice_is_found_at_the_second() {
        let error = read("a: 1\nb:\n  c: 1\n  c: 2\n").unwrap_err();
        assert_eq!((error.line, error.column), (4, 3), "{error:?}");
        assert!(error.reason.contains('c'), "{error:?}");
        assert!(!error.reason.contains("line"), "{error:?}");
    }

    #[test]
    fn other_mistakes_have_a_place() {
        for (text, line) in [
            ("a: [1, 2\nb: 3\n", 2),
            ("a: 1\n  b: 2\n", 2),
            ("a: \"x\n", 1),
            ("a: *none\n", 1),
            ("a:\n\t- x\n", 2),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.line >= line, "{text:?}: {error:?}");
            assert!(!error.reason.is_empty());
        }
    }

    #[test]
    fn keys_that_are_no_strings_are_read_by_their_spelling() {
        assert_eq!(
            read("1: a\ntrue: b\n").unwrap(),
            json!({"1": "a", "true": "b"})
        );
    }
}
