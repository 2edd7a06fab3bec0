//! A form made from a JSON schema, and the arguments that its fields mean.
//!
//! The field of a property is `arg.<property>`, that of a member of an object `arg.<property>.<member>`; `%` and `.` within
//! names are written `%25` and `%2E`. A list of texts or numbers has one item a line, one of choices a box for each. What
//! a form cannot show (deep objects, choices between shapes, schemas that refer to themselves) is JSON in a field of its
//! own. A schema that is not an object, or has too many properties, is one field, `json`. Schemas come from servers, so
//! the work here has a limit for any of them.

use serde_json::Value;

mod field_view;
mod read;

pub(super) use field_view::{FieldControl, FormItem, show_empty, show_items};
pub(super) use read::{FieldProblem, TypedArguments, read_arguments};

use super::form_fields::Fields;

/// The field with all arguments as JSON.
pub(super) const JSON_FIELD: &str = "json";
/// With more fields than this, arguments are written as JSON.
const MAX_FIELDS: usize = 200;
/// How many objects within one another become groups of fields.
const MAX_LEVELS: usize = 2;
/// How often a schema may refer to another one before it says what it is.
const MAX_REFERENCES: usize = 16;
const MAX_CHOICES: usize = 500;
/// A list with more choices than this has no check boxes.
const MAX_BOXES: usize = 50;

/// A property of a schema.
#[derive(Debug, Clone, PartialEq)]
struct SchemaField {
    /// Of its field.
    name: String,
    /// Of the property.
    property: String,
    title: Option<String>,
    description: Option<String>,
    is_required: bool,
    default: Option<Value>,
    shape: FieldShape,
}

#[derive(Debug, Clone, PartialEq)]
enum FieldShape {
    /// With the attributes of its `input`, if it is short.
    Text(Option<ShortText>),
    Number {
        is_integer: bool,
        rules: Vec<(&'static str, String)>,
    },
    /// One of these values.
    Choice(Vec<SchemaChoice>),
    YesNo,
    /// A list of some of these values.
    Several(Vec<SchemaChoice>),
    /// A list of values of this shape.
    Lines(LineItem),
    Json,
    Group(Vec<SchemaField>),
}

#[derive(Debug, Clone, PartialEq)]
struct ShortText {
    /// The `type` of its `input`.
    kind: &'static str,
    rules: Vec<(&'static str, String)>,
}

/// A value that can be chosen.
#[derive(Debug, Clone, PartialEq)]
struct SchemaChoice {
    value: Value,
    title: Option<String>,
}

/// What the lines of a list are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineItem {
    Text,
    Number,
    Integer,
    Boolean,
}

/// The fields of a schema. Without them, the arguments are one field of JSON.
#[derive(Debug)]
pub(super) struct SchemaForm {
    fields: Option<Vec<SchemaField>>,
}

impl SchemaForm {
    pub(super) fn new(schema: &Value) -> Self {
        let mut reader = SchemaReader {
            root: schema,
            left: MAX_FIELDS,
        };
        let fields = reader.read_properties(schema, "arg", MAX_LEVELS);
        Self { fields }
    }

    /// One field of JSON, whatever the schema says.
    pub(super) fn as_json() -> Self {
        Self { fields: None }
    }

    pub(super) fn is_json(&self) -> bool {
        self.fields.is_none()
    }
}

struct SchemaReader<'s> {
    root: &'s Value,
    /// How many more fields there may be.
    left: usize,
}

impl<'s> SchemaReader<'s> {
    /// The properties of an object; `None` if they cannot all be shown as fields.
    fn read_properties(
        &mut self,
        schema: &'s Value,
        name: &str,
        levels: usize,
    ) -> Option<Vec<SchemaField>> {
        let schema = self.follow(schema)?;
        if ["oneOf", "anyOf", "allOf", "not", "if"]
            .iter()
            .any(|word| schema.get(word).is_some())
        {
            return None;
        }
        if !matches!(kind_of(schema), Some("object") | None) {
            return None;
        }
        let properties = match schema.get("properties") {
            Some(Value::Object(properties)) => Some(properties),
            Some(_) => return None,
            // Members of any name are JSON.
            None if schema["additionalProperties"] == true => return None,
            None if schema["additionalProperties"].is_object() => return None,
            None => None,
        };
        let required = schema["required"].as_array();
        let is_required = |property: &str| {
            required.is_some_and(|names| names.iter().any(|name| name == property))
        };
        let mut fields = Vec::new();
        for (property, schema) in properties.into_iter().flatten() {
            self.left = self.left.checked_sub(1)?;
            let name = format!("{name}.{}", escape_name(property));
            fields.push(self.read_field(schema, name, property, is_required(property), levels)?);
        }
        Some(fields)
    }

    fn read_field(
        &mut self,
        schema: &'s Value,
        name: String,
        property: &str,
        is_required: bool,
        levels: usize,
    ) -> Option<SchemaField> {
        let found = self.follow(schema).unwrap_or(&Value::Null);
        let text = |word: &str| {
            let text = schema[word].as_str().or_else(|| found[word].as_str());
            text.filter(|text| !text.trim().is_empty())
                .map(str::to_owned)
        };
        let default = schema.get("default").or_else(|| found.get("default"));
        let default = default.filter(|value| !value.is_null()).cloned();
        let (title, description) = (text("title"), text("description"));
        let shape = self.read_shape(found, &name, levels)?;
        Some(SchemaField {
            name,
            property: property.to_owned(),
            title,
            description,
            is_required,
            default,
            shape,
        })
    }

    /// `None` if there are too many fields.
    fn read_shape(&mut self, schema: &'s Value, name: &str, levels: usize) -> Option<FieldShape> {
        if let Some(choices) = choices(schema) {
            return Some(FieldShape::Choice(choices));
        }
        let is_composed = ["oneOf", "anyOf", "allOf"]
            .iter()
            .any(|word| schema.get(word).is_some());
        if is_composed {
            return Some(FieldShape::Json);
        }
        Some(match kind_of(schema) {
            Some("string") => FieldShape::Text(short_text(schema)),
            Some("boolean") => FieldShape::YesNo,
            Some(kind @ ("integer" | "number")) => FieldShape::Number {
                is_integer: kind == "integer",
                rules: number_rules(schema, kind == "integer"),
            },
            Some("array") => match (self.item_choices(schema), self.line_item(schema)) {
                (Some(choices), _) => FieldShape::Several(choices),
                (None, Some(item)) => FieldShape::Lines(item),
                (None, None) => FieldShape::Json,
            },
            Some("object") if levels > 0 => {
                let is_described = schema["properties"]
                    .as_object()
                    .is_some_and(|properties| !properties.is_empty());
                if !is_described {
                    return Some(FieldShape::Json);
                }
                let before = self.left;
                match self.read_properties(schema, name, levels - 1) {
                    Some(fields) => FieldShape::Group(fields),
                    None if self.left == 0 && before > 0 => return None,
                    None => FieldShape::Json,
                }
            }
            _ => FieldShape::Json,
        })
    }

    /// The values that a list takes, if they are few.
    fn item_choices(&self, schema: &'s Value) -> Option<Vec<SchemaChoice>> {
        let items = self.follow(schema.get("items")?)?;
        choices(items).filter(|choices| (2..=MAX_BOXES).contains(&choices.len()))
    }

    fn line_item(&self, schema: &'s Value) -> Option<LineItem> {
        let items = self.follow(schema.get("items")?)?;
        match kind_of(items)? {
            "string" => Some(LineItem::Text),
            "number" => Some(LineItem::Number),
            "integer" => Some(LineItem::Integer),
            "boolean" => Some(LineItem::Boolean),
            _ => None,
        }
    }

    /// What a schema says in the end: where it refers to, and the only shape that is left beside `null`. `None` if that
    /// has no end.
    fn follow(&self, mut schema: &'s Value) -> Option<&'s Value> {
        for _ in 0..MAX_REFERENCES {
            if let Some(reference) = schema.get("$ref") {
                let pointer = reference.as_str()?.strip_prefix('#')?;
                schema = self.root.pointer(pointer)?;
                continue;
            }
            match only_shape(schema) {
                Some(shape) => schema = shape,
                None => return Some(schema),
            }
        }
        None
    }
}

/// The shape of a schema that only says besides that the value may be `null`.
fn only_shape(schema: &Value) -> Option<&Value> {
    let mut words = ["anyOf", "oneOf", "allOf"].iter();
    let shapes = words.find_map(|word| schema.get(word)?.as_array())?;
    let is_null = |shape: &&Value| shape["type"] == "null";
    let mut others = shapes.iter().filter(|shape| !is_null(shape));
    let only = others.next()?;
    // Whatever stands beside it would be lost.
    let is_alone = others.next().is_none()
        && schema.get("properties").is_none()
        && schema.get("type").is_none_or(|kind| kind == &only["type"]);
    is_alone.then_some(only)
}

/// The type of a value that is not `null`.
fn kind_of(schema: &Value) -> Option<&str> {
    match &schema["type"] {
        Value::String(kind) => Some(kind),
        Value::Array(kinds) => {
            let mut kinds = kinds.iter().filter_map(Value::as_str);
            let first = kinds.find(|kind| *kind != "null")?;
            kinds.all(|kind| kind == "null").then_some(first)
        }
        _ => None,
    }
}

/// The values of an `enum`, or of a choice between constants, with their names.
fn choices(schema: &Value) -> Option<Vec<SchemaChoice>> {
    let choice = |value: &Value, title: &Value| SchemaChoice {
        value: value.clone(),
        title: title.as_str().map(str::to_owned),
    };
    if let Some(value) = schema.get("const") {
        return Some(vec![choice(value, &Value::Null)]);
    }
    let is_plain = |value: &Value| !value.is_object() && !value.is_array();
    let fits = |found: &Vec<SchemaChoice>| (1..=MAX_CHOICES).contains(&found.len());
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        let values = values.iter().enumerate().take(MAX_CHOICES + 1);
        let values = values.filter(|(_, value)| !value.is_null());
        let found: Option<Vec<_>> = values
            .map(|(at, value)| is_plain(value).then(|| choice(value, &schema["enumNames"][at])))
            .collect();
        return found.filter(fits);
    }
    let shapes = schema.get("oneOf").or_else(|| schema.get("anyOf"))?;
    let shapes = shapes.as_array()?.iter().take(MAX_CHOICES + 1);
    let found: Option<Vec<_>> = shapes
        .map(|shape| {
            let value = shape.get("const").filter(|value| is_plain(value))?;
            Some(choice(value, &shape["title"]))
        })
        .collect();
    found.filter(fits)
}

/// The attributes of a text that fits in one line; `None` if it may be long.
fn short_text(schema: &Value) -> Option<ShortText> {
    let kind = match schema["format"].as_str() {
        Some("email") => "email",
        Some("uri" | "url") => "url",
        Some("date") => "date",
        _ => "text",
    };
    let mut rules = Vec::new();
    for (word, rule) in [("minLength", "minlength"), ("maxLength", "maxlength")] {
        if let Some(length) = schema[word].as_u64() {
            rules.push((rule, length.to_string()));
        }
    }
    let pattern = schema["pattern"].as_str().and_then(html_pattern);
    rules.extend(pattern.map(|pattern| ("pattern", pattern)));
    let is_short = schema["maxLength"]
        .as_u64()
        .is_some_and(|length| length <= 200);
    let is_known = schema.get("format").is_some() || schema.get("pattern").is_some();
    (is_short || is_known).then_some(ShortText { kind, rules })
}

/// A pattern as browsers take it: for the whole text. Only one that is the same in all kinds of regular expressions.
fn html_pattern(pattern: &str) -> Option<String> {
    if !has_plain_ranges(pattern) || regex::Regex::new(pattern).is_err() {
        return None;
    }
    let start = if pattern.starts_with('^') { "" } else { ".*" };
    let end = if pattern.ends_with('$') { "" } else { ".*" };
    let inner = pattern.strip_prefix('^').unwrap_or(pattern);
    let inner = inner.strip_suffix('$').unwrap_or(inner);
    Some(format!("{start}(?:{inner}){end}"))
}

/// Whether a pattern has letters, digits, repetitions, and classes of ranges such as `[a-z0-9_]`.
fn has_plain_ranges(pattern: &str) -> bool {
    if pattern.len() > 300 {
        return false;
    }
    let mut rest = pattern;
    while let Some((before, after)) = rest.split_once('[') {
        let Some((class, next)) = after.split_once(']') else {
            return false;
        };
        let class = class.strip_prefix('^').unwrap_or(class).as_bytes();
        let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let mut at = 0;
        while at < class.len() {
            let is_range = class.get(at + 1) == Some(&b'-');
            let end = class.get(at + 2);
            at += match (is_word(&class[at]), is_range, end) {
                (true, true, Some(end)) if is_word(end) => 3,
                (true, false, _) => 1,
                _ => return false,
            };
        }
        if class.is_empty() || !is_outside_class(before) {
            return false;
        }
        rest = next;
    }
    is_outside_class(rest)
}

fn is_outside_class(text: &str) -> bool {
    text.bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"^$()?*+{},._:-@ |".contains(&byte))
}

fn number_rules(schema: &Value, is_integer: bool) -> Vec<(&'static str, String)> {
    let mut rules = vec![("step", if is_integer { "1" } else { "any" }.to_owned())];
    for (word, rule) in [("minimum", "min"), ("maximum", "max")] {
        if let Value::Number(bound) = &schema[word] {
            rules.push((rule, bound.to_string()));
        }
    }
    rules
}

fn escape_name(property: &str) -> String {
    property.replace('%', "%25").replace('.', "%2E")
}

#[cfg(test)]
mod tests;
