//! The text of a file as one JSON value, whatever its format, and where it is broken.

use std::path::Path;

use jsonc_parser::ParseOptions;
use serde_json::{Map, Value};
use serde_saphyr::{DefaultMessageFormatter, MessageFormatter as _};
use toml_edit::{Document, Item};

use super::ImportError;

/// JSON with comments and trailing commas. An empty file is `null`.
pub(crate) fn parse_jsonc(text: &str, path: &Path) -> Result<Value, ImportError> {
    let options = ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    jsonc_parser::parse_to_serde_value(strip_byte_order_mark(text), &options).map_err(|error| {
        ImportError::Syntax {
            path: path.to_owned(),
            line: error.line_display(),
            column: error.column_display(),
            message: error.kind().to_string(),
        }
    })
}

/// JSON as the standard has it. An empty file is `null`.
pub(crate) fn parse_json(text: &str, path: &Path) -> Result<Value, ImportError> {
    let text = strip_byte_order_mark(text);
    if text.trim().is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_str(text).map_err(|error| {
        let message = error.to_string();
        let message = message
            .rsplit_once(" at line ")
            .map_or(&*message, |(what, _)| what);
        ImportError::Syntax {
            path: path.to_owned(),
            line: error.line(),
            column: error.column(),
            message: message.to_owned(),
        }
    })
}

pub(super) fn parse_yaml(text: &str, path: &Path) -> Result<Value, ImportError> {
    let text = strip_byte_order_mark(text);
    if text.trim().is_empty() {
        return Ok(Value::Null);
    }
    serde_saphyr::from_str(text).map_err(|error| {
        let position = error.location();
        let position = |of: fn(&serde_saphyr::Location) -> u64| {
            position.as_ref().map_or(1, |location| {
                usize::try_from(of(location)).unwrap_or(usize::MAX)
            })
        };
        ImportError::Syntax {
            path: path.to_owned(),
            line: position(serde_saphyr::Location::line),
            column: position(serde_saphyr::Location::column),
            // Without the snippet: the lines around may hold a key.
            message: DefaultMessageFormatter
                .format_message(error.without_snippet())
                .into_owned(),
        }
    })
}

/// TOML. Dates become strings.
pub(crate) fn parse_toml(text: &str, path: &Path) -> Result<Value, ImportError> {
    let text = strip_byte_order_mark(text);
    match Document::parse(text) {
        Ok(document) => Ok(item_value(document.as_item())),
        Err(error) => {
            let before = error.span().and_then(|span| text.get(..span.start));
            let before = before.unwrap_or_default();
            let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
            Err(ImportError::Syntax {
                path: path.to_owned(),
                line: before.matches('\n').count() + 1,
                column: before[line_start..].chars().count() + 1,
                message: error.message().to_owned(),
            })
        }
    }
}

/// Windows editors put a byte order mark first.
fn strip_byte_order_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

fn item_value(item: &Item) -> Value {
    match item {
        Item::None => Value::Null,
        Item::Value(value) => plain_value(value),
        Item::Table(table) => table
            .iter()
            .map(|(key, item)| (key.to_owned(), item_value(item)))
            .collect::<Map<_, _>>()
            .into(),
        Item::ArrayOfTables(tables) => tables
            .iter()
            .map(|table| item_value(&Item::Table(table.clone())))
            .collect(),
    }
}

fn plain_value(value: &toml_edit::Value) -> Value {
    match value {
        toml_edit::Value::String(text) => text.value().as_str().into(),
        toml_edit::Value::Integer(number) => (*number.value()).into(),
        toml_edit::Value::Float(number) => (*number.value()).into(),
        toml_edit::Value::Boolean(flag) => (*flag.value()).into(),
        toml_edit::Value::Datetime(date) => date.value().to_string().into(),
        toml_edit::Value::Array(values) => values.iter().map(plain_value).collect(),
        toml_edit::Value::InlineTable(table) => table
            .iter()
            .map(|(key, value)| (key.to_owned(), plain_value(value)))
            .collect::<Map<_, _>>()
            .into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn position(error: &ImportError) -> (usize, usize) {
        match error {
            ImportError::Syntax { line, column, .. } => (*line, *column),
            ImportError::Shape { .. } => panic!("{error}"),
        }
    }

    #[test]
    fn comments_trailing_commas_and_a_byte_order_mark_are_fine() {
        let text = "\u{feff}{\n  // one\n  \"a\": [1, 2,], /* two */\n}\n";
        assert_eq!(parse_jsonc(text, Path::new("x")), Ok(json!({"a": [1, 2]})));
        assert_eq!(parse_jsonc("", Path::new("x")), Ok(Value::Null));
        assert_eq!(parse_yaml("# nothing\n", Path::new("x")), Ok(Value::Null));
    }

    #[test]
    fn toml_becomes_the_same_json() {
        let text = "a = 1\nb = [\"x\"]\n[t.u]\nd = 1979-05-27\nf = 2.5\n[[l]]\nk = true\n";
        let expected = json!({
            "a": 1, "b": ["x"], "t": {"u": {"d": "1979-05-27", "f": 2.5}}, "l": [{"k": true}],
        });
        assert_eq!(parse_toml(text, Path::new("x")), Ok(expected));
    }

    #[test]
    fn a_broken_file_is_named_with_line_and_column_but_not_quoted() {
        let path = Path::new("/etc/broken");
        let json = parse_jsonc("{\n  \"key\": \"hunter22\" \"b\": 1\n}", path).unwrap_err();
        assert_eq!(position(&json), (2, 20), "{json}");
        let yaml = parse_yaml("a: 1\nb: [hunter22\n", path).unwrap_err();
        assert!(position(&yaml).0 >= 2, "{yaml}");
        let toml = parse_toml("a = 1\nkey = hunter22\n", path).unwrap_err();
        assert_eq!(position(&toml), (2, 7), "{toml}");
        for error in [json, yaml, toml] {
            let message = error.to_string();
            assert!(message.starts_with("/etc/broken:"), "{message}");
            assert!(!message.contains("hunter22"), "{message}");
        }
    }
}
