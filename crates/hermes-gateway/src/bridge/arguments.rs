//! The arguments of tools: schema and validation come from one table.
//!
//! Validated by hand, because clients see the messages, and because numbers may be written as strings.

use serde_json::{Map, Value, json};

type Object = Map<String, Value>;

#[derive(Debug, Clone, Copy)]
pub(super) struct Parameter {
    pub(super) name: &'static str,
    pub(super) kind: ParameterKind,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum ParameterKind {
    /// A text that must be given.
    Text,
    /// A text, null or nothing.
    OptionalText,
    /// A whole number, clamped to the bounds.
    Integer { default: i64, least: i64, most: i64 },
}

impl Parameter {
    pub(super) const fn text(name: &'static str) -> Self {
        Self {
            name,
            kind: ParameterKind::Text,
        }
    }

    pub(super) const fn optional(name: &'static str) -> Self {
        Self {
            name,
            kind: ParameterKind::OptionalText,
        }
    }

    pub(super) const fn integer(name: &'static str, default: i64, least: i64, most: i64) -> Self {
        Self {
            name,
            kind: ParameterKind::Integer {
                default,
                least,
                most,
            },
        }
    }

    fn schema(self) -> Value {
        match self.kind {
            ParameterKind::Text => json!({"type": "string"}),
            ParameterKind::OptionalText => {
                json!({"anyOf": [{"type": "string"}, {"type": "null"}], "default": null})
            }
            ParameterKind::Integer { default, .. } => {
                json!({"type": "integer", "default": default})
            }
        }
    }

    fn check(self, given: Option<&Value>) -> Result<CheckedValue, String> {
        let wrong = |expected: &str| {
            let name = self.name;
            Err(match given {
                Some(given) => format!("`{name}` must be {expected}, not {}", format_value(given)),
                None => format!("`{name}` is required"),
            })
        };
        match (self.kind, given) {
            (ParameterKind::Text | ParameterKind::OptionalText, Some(Value::String(text))) => {
                Ok(CheckedValue::Text(text.clone()))
            }
            (ParameterKind::Text, _) => wrong("a string"),
            (ParameterKind::OptionalText, None | Some(Value::Null)) => Ok(CheckedValue::Absent),
            (ParameterKind::OptionalText, Some(_)) => wrong("a string or null"),
            (ParameterKind::Integer { default, .. }, None) => Ok(CheckedValue::Integer(default)),
            (ParameterKind::Integer { least, most, .. }, Some(value)) => match parse_integer(value)
            {
                Some(number) => Ok(CheckedValue::Integer(number.clamp(least, most))),
                None => wrong("an integer"),
            },
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum CheckedValue {
    Text(String),
    Absent,
    Integer(i64),
}

/// The arguments of a call after the check.
#[derive(Debug)]
pub(super) struct Arguments(Vec<(&'static str, CheckedValue)>);

impl Arguments {
    /// Validates the arguments in a tool's table; others are ignored. The error names tool and argument.
    pub(super) fn check(
        tool: &str,
        parameters: &[Parameter],
        given: Option<&Object>,
    ) -> Result<Self, String> {
        let check = |parameter: &Parameter| {
            let value = given.and_then(|given| given.get(parameter.name));
            let checked = parameter.check(value);
            checked.map(|checked| (parameter.name, checked))
        };
        let checked: Result<_, String> = parameters.iter().map(check).collect();
        checked
            .map(Self)
            .map_err(|problem| format!("Invalid arguments for {tool}: {problem}"))
    }

    /// A text; empty if there is none.
    pub(super) fn text(&self, name: &str) -> &str {
        self.optional(name).unwrap_or_default()
    }

    /// A text; an empty one counts as missing.
    pub(super) fn optional(&self, name: &str) -> Option<&str> {
        match self.get(name)? {
            CheckedValue::Text(text) if !text.is_empty() => Some(text),
            CheckedValue::Text(_) | CheckedValue::Absent | CheckedValue::Integer(_) => None,
        }
    }

    /// A number; zero if the table has no such argument.
    pub(super) fn integer(&self, name: &str) -> i64 {
        match self.get(name) {
            Some(CheckedValue::Integer(number)) => *number,
            _ => 0,
        }
    }

    pub(super) fn count(&self, name: &str) -> usize {
        usize::try_from(self.integer(name)).unwrap_or_default()
    }

    fn get(&self, name: &str) -> Option<&CheckedValue> {
        let mut named = self.0.iter().filter(|(known, _)| *known == name);
        named.next().map(|(_, checked)| checked)
    }
}

pub(super) fn arguments_schema(parameters: &[Parameter]) -> Object {
    let properties: Object = parameters
        .iter()
        .map(|parameter| (parameter.name.to_owned(), parameter.schema()))
        .collect();
    let required: Vec<&str> = parameters
        .iter()
        .filter(|parameter| matches!(parameter.kind, ParameterKind::Text))
        .map(|parameter| parameter.name)
        .collect();
    let mut schema = Object::new();
    schema.insert("type".into(), "object".into());
    schema.insert("properties".into(), properties.into());
    if !required.is_empty() {
        schema.insert("required".into(), json!(required));
    }
    schema
}

/// A whole number, as number or string.
fn parse_integer(value: &Value) -> Option<i64> {
    match value {
        Value::Number(number) => number
            .as_i64()
            .or_else(|| saturating_integer(number.as_f64()?)),
        Value::String(text) => parse_numeral(text.trim()),
        Value::Bool(truth) => Some(i64::from(*truth)),
        _ => None,
    }
}

/// A whole number as a string: `5`, `-5`, `5.0` or `5_000`, but not `5e3`. Saturates.
fn parse_numeral(text: &str) -> Option<i64> {
    let (number, zeros) = text.split_once('.').unwrap_or((text, "0"));
    let digits = number.strip_prefix(['+', '-']).unwrap_or(number);
    let is_number = digits.split('_').all(is_digits);
    let is_whole = is_digits(zeros) && zeros.bytes().all(|byte| byte == b'0');
    let nearest = if number.starts_with('-') {
        i64::MIN
    } else {
        i64::MAX
    };
    (is_number && is_whole).then(|| number.replace('_', "").parse().unwrap_or(nearest))
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// A whole number of any size, saturating.
fn saturating_integer(number: f64) -> Option<i64> {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "beyond the bounds the nearest number is meant"
    )]
    (number.is_finite() && number.fract() == 0.0).then_some(number as i64)
}

/// A value for messages, shortened.
fn format_value(value: &Value) -> String {
    match value {
        Value::Object(_) => "an object".into(),
        Value::Array(_) => "an array".into(),
        Value::String(text) => format!("{:?}", text.chars().take(40).collect::<String>()),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Parameter = Parameter::integer("limit", 50, 1, 200);
    const KEY: Parameter = Parameter::text("key");
    const PLATFORM: Parameter = Parameter::optional("platform");

    fn check(parameter: Parameter, given: &Value) -> Result<CheckedValue, String> {
        let object = json!({parameter.name: given});
        Arguments::check("tool", &[parameter], object.as_object())
            .map(|checked| checked.0[0].1.clone())
    }

    #[test]
    fn integers_may_be_written_as_texts_and_are_brought_within_bounds() {
        for (given, number) in [
            (json!(5), 5),
            (json!(5.0), 5),
            (json!("5"), 5),
            (json!(" 7 "), 7),
            (json!("5.0"), 5),
            (json!("+5"), 5),
            (json!("1_0"), 10),
            (json!(true), 1),
            (json!(0), 1),
            (json!(-3), 1),
            (json!(201), 200),
            (json!(1e300), 200),
            (json!(u64::MAX), 200),
            (json!("99999999999999999999999999"), 200),
            (json!("-99999999999999999999999999"), 1),
        ] {
            assert_eq!(
                check(LIMIT, &given),
                Ok(CheckedValue::Integer(number)),
                "{given}"
            );
        }
        let none = Arguments::check("tool", &[LIMIT], None).unwrap();
        assert_eq!(none.integer("limit"), 50);
    }

    #[test]
    fn what_is_not_an_integer_is_refused() {
        for given in [
            json!("abc"),
            json!(1.5),
            json!("1.5"),
            json!("1e1"),
            json!("5."),
            json!(".0"),
            json!("1__0"),
            json!(null),
            json!([5]),
            json!({}),
            json!(""),
            json!("inf"),
            json!("NaN"),
        ] {
            let problem = check(LIMIT, &given).unwrap_err();
            assert!(
                problem.contains("tool") && problem.contains("`limit`"),
                "{given}: {problem}"
            );
        }
    }

    #[test]
    fn texts_are_texts_and_only_optional_ones_may_be_null() {
        assert_eq!(check(KEY, &json!("k")), Ok(CheckedValue::Text("k".into())));
        assert_eq!(check(PLATFORM, &json!(null)), Ok(CheckedValue::Absent));
        for given in [json!(null), json!(5), json!(["k"])] {
            assert!(
                check(KEY, &given)
                    .unwrap_err()
                    .contains("`key` must be a string")
            );
        }
        assert!(check(PLATFORM, &json!(5)).is_err());
        let missing = Arguments::check("tool", &[KEY], None).unwrap_err();
        assert_eq!(missing, "Invalid arguments for tool: `key` is required");
    }

    #[test]
    fn an_empty_text_is_the_same_as_none() {
        let given = json!({"platform": "", "key": ""});
        let checked = Arguments::check("tool", &[KEY, PLATFORM], given.as_object()).unwrap();
        assert_eq!(checked.optional("platform"), None);
        assert_eq!(checked.text("key"), "");
    }

    #[test]
    fn unknown_arguments_are_passed_over() {
        let given = json!({"other": [1, 2], "key": "k"});
        let checked = Arguments::check("tool", &[KEY], given.as_object()).unwrap();
        assert_eq!(checked.text("key"), "k");
        assert_eq!(checked.optional("other"), None);
    }

    #[test]
    fn the_schema_says_the_same() {
        assert_eq!(
            Value::from(arguments_schema(&[KEY, PLATFORM, LIMIT])),
            json!({
                "type": "object",
                "properties": {
                    "key": {"type": "string"},
                    "platform": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": null},
                    "limit": {"type": "integer", "default": 50},
                },
                "required": ["key"],
            })
        );
        assert_eq!(
            Value::from(arguments_schema(&[])),
            json!({"type": "object", "properties": {}})
        );
    }
}
