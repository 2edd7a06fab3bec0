//! Converts a server's schema to a form.

use regex::Regex;
use serde_json::{Map, Value};

use crate::{printable::printable, server_requests::elicitation::check};

/// A form: its fields, in the server's order.
#[derive(Debug, Clone)]
pub struct Form {
    pub fields: Vec<FormField>,
    /// As the server wrote it.
    pub schema: Map<String, Value>,
}

#[derive(Debug, Clone)]
pub struct FormField {
    pub name: String,
    pub title: String,
    pub description: Option<String>,
    pub kind: FieldKind,
    pub is_required: bool,
    /// A valid initial value.
    pub default: Option<Value>,
    /// Whether it asks for a password, a token or a key, which forms must not.
    pub is_sensitive: bool,
}

#[derive(Debug, Clone)]
pub enum FieldKind {
    Text {
        shortest: Option<usize>,
        longest: Option<usize>,
        format: Option<TextFormat>,
        pattern: Option<Regex>,
    },
    Number {
        minimum: Option<f64>,
        maximum: Option<f64>,
    },
    Integer {
        minimum: Option<i64>,
        maximum: Option<i64>,
    },
    Boolean,
    One(Vec<FormChoice>),
    Several {
        choices: Vec<FormChoice>,
        fewest: Option<usize>,
        most: Option<usize>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextFormat {
    Email,
    Uri,
    Date,
    /// A moment, with its offset.
    DateTime,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormChoice {
    pub value: String,
    pub title: String,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormSchemaError {
    /// It has no fields at all, not even an empty list of them.
    #[error("the form has no `properties`")]
    NoFields,
    #[error("the field `{0}` has a type that forms do not support")]
    UnknownKind(String),
}

impl Form {
    pub fn from_schema(schema: &Value) -> Result<Self, FormSchemaError> {
        let properties = schema["properties"]
            .as_object()
            .ok_or(FormSchemaError::NoFields)?;
        let required = schema["required"].as_array();
        let is_required =
            |name: &str| required.is_some_and(|names| names.iter().any(|known| known == name));
        let fields = properties
            .iter()
            .map(|(name, field)| FormField::from_schema(name, field, is_required(name)));
        Ok(Self {
            fields: fields.collect::<Result<_, _>>()?,
            schema: schema.as_object().cloned().unwrap_or_default(),
        })
    }
}

impl Form {
    /// The answers if somebody just agrees: the defaults, and yes to what must be agreed to. `None` if that is not enough.
    pub fn default_answers(&self) -> Option<Map<String, Value>> {
        let mut answers = FormAnswers::new();
        for field in &self.fields {
            let value = match (&field.default, &field.kind) {
                (Some(default), _) => Some(default.clone()),
                (None, FieldKind::Boolean) if field.is_required => Some(true.into()),
                (None, _) => None,
            };
            match value {
                Some(value) => {
                    answers.insert(field.name.clone(), value);
                }
                None if field.is_required => return None,
                None => {}
            }
        }
        Some(answers)
    }
}

impl FormField {
    fn from_schema(name: &str, schema: &Value, is_required: bool) -> Result<Self, FormSchemaError> {
        let kind = parse_kind(schema)
            .ok_or_else(|| FormSchemaError::UnknownKind(printable(name).into_owned()))?;
        let text = |key: &str| {
            let text = printable(schema[key].as_str().unwrap_or_default());
            let text = text.trim();
            (!text.is_empty()).then(|| text.to_owned())
        };
        let title = text("title").unwrap_or_else(|| printable(name).into_owned());
        let description = text("description").filter(|description| *description != title);
        let mut field = Self {
            is_sensitive: check::asks_for_secret(name, &title, description.as_deref())
                && matches!(kind, FieldKind::Text { .. }),
            name: name.to_owned(),
            title,
            description,
            kind,
            is_required,
            default: None,
        };
        let default = schema.get("default").filter(|value| !value.is_null());
        field.default = default.filter(|value| field.check(value).is_ok()).cloned();
        Ok(field)
    }

    /// The choices; empty if the field is not a choice.
    pub fn choices(&self) -> &[FormChoice] {
        match &self.kind {
            FieldKind::One(choices) | FieldKind::Several { choices, .. } => choices,
            _ => &[],
        }
    }

    /// A value as a person would type it.
    pub fn format_value(&self, value: &Value) -> String {
        let text = match value {
            Value::Bool(true) => "yes".to_owned(),
            Value::Bool(false) => "no".to_owned(),
            Value::String(text) => {
                let choice = self.choices().iter().find(|choice| choice.value == *text);
                choice.map_or_else(|| text.clone(), |choice| choice.title.clone())
            }
            Value::Array(values) => {
                let values: Vec<String> = values.iter().map(|one| self.format_value(one)).collect();
                values.join(", ")
            }
            other => other.to_string(),
        };
        printable(&text).into_owned()
    }
}

impl FieldKind {
    /// What is expected, in words; `None` if that is any text, or one of the choices.
    pub fn describe_expected(&self) -> Option<String> {
        let range = |low: Option<String>, high: Option<String>| match (low, high) {
            (Some(low), Some(high)) => format!(" from {low} to {high}"),
            (Some(low), None) => format!(" from {low}"),
            (None, Some(high)) => format!(" up to {high}"),
            (None, None) => String::new(),
        };
        match self {
            Self::Text { format, .. } => format.map(|format| format.example().to_owned()),
            Self::Number { minimum, maximum } => {
                let text = |limit: &Option<f64>| limit.map(|limit| limit.to_string());
                Some(format!("a number{}", range(text(minimum), text(maximum))))
            }
            Self::Integer { minimum, maximum } => {
                let text = |limit: &Option<i64>| limit.map(|limit| limit.to_string());
                let range = range(text(minimum), text(maximum));
                Some(format!("a whole number{range}"))
            }
            Self::Boolean => Some("yes or no".into()),
            Self::One(_) | Self::Several { .. } => None,
        }
    }
}

fn parse_kind(schema: &Value) -> Option<FieldKind> {
    let count = |key: &str| schema[key].as_u64().and_then(|n| usize::try_from(n).ok());
    Some(match schema["type"].as_str()? {
        "string" => match parse_choices(schema) {
            Some(choices) => FieldKind::One(choices),
            None => FieldKind::Text {
                shortest: count("minLength"),
                longest: count("maxLength"),
                format: schema["format"].as_str().and_then(parse_format),
                // A pattern that this regex engine does not support is checked by the server.
                pattern: schema["pattern"]
                    .as_str()
                    .and_then(|pattern| Regex::new(pattern).ok()),
            },
        },
        "number" => FieldKind::Number {
            minimum: schema["minimum"].as_f64(),
            maximum: schema["maximum"].as_f64(),
        },
        "integer" => FieldKind::Integer {
            minimum: parse_integer(&schema["minimum"]),
            maximum: parse_integer(&schema["maximum"]),
        },
        "boolean" => FieldKind::Boolean,
        "array" => FieldKind::Several {
            choices: parse_choices(&schema["items"])?,
            fewest: count("minItems"),
            most: count("maxItems"),
        },
        _ => return None,
    })
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a limit of that size is none"
)]
fn parse_integer(limit: &Value) -> Option<i64> {
    limit
        .as_i64()
        .or_else(|| limit.as_f64().map(|limit| limit as i64))
}

fn parse_format(name: &str) -> Option<TextFormat> {
    Some(match name {
        "email" => TextFormat::Email,
        "uri" => TextFormat::Uri,
        "date" => TextFormat::Date,
        "date-time" => TextFormat::DateTime,
        _ => return None,
    })
}

/// `enum`, perhaps with `enumNames`; or `oneOf`/`anyOf` with titles.
fn parse_choices(schema: &Value) -> Option<Vec<FormChoice>> {
    let choice = |value: &str, title: Option<&str>| FormChoice {
        value: value.to_owned(),
        title: printable(title.unwrap_or(value)).into_owned(),
    };
    if let Some(values) = schema["enum"].as_array() {
        let values = values.iter().enumerate();
        return values
            .map(|(index, value)| {
                Some(choice(value.as_str()?, schema["enumNames"][index].as_str()))
            })
            .collect();
    }
    let titled = schema["oneOf"]
        .as_array()
        .or_else(|| schema["anyOf"].as_array())?;
    titled
        .iter()
        .map(|one| Some(choice(one["const"].as_str()?, one["title"].as_str())))
        .collect()
}

/// The answers of a form, by name.
pub(super) type FormAnswers = Map<String, Value>;
