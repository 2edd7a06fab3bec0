//! Mending arguments before a call: models often write `"42"` where the schema wants 42.
//!
//! Only values that do not fit a plain schema are touched, and only where the meaning is beyond doubt. Everything else
//! is sent as the model wrote it; the server has the last word.

use serde_json::{Map, Number, Value};

use crate::tools::schema;

/// Fits the arguments of a call to the tool's input schema where they plainly miss it.
pub fn coerce(mut arguments: Map<String, Value>, schema: &Value) -> Map<String, Value> {
    coerce_members(&mut arguments, schema);
    arguments
}

/// What plainly keeps arguments from fitting a tool's input schema: one that is missing, unknown or of another type.
pub fn problem(arguments: &Map<String, Value>, schema: &Value) -> Option<String> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let is_known = |name: &str| properties.is_some_and(|known| known.contains_key(name));
    let near = |name: &str, names: &mut dyn Iterator<Item = String>| {
        hermes_config::nearest(name, names)
            .map_or_else(String::new, |near| format!("; did you mean `{near}`?"))
    };
    let required = schema.get("required").and_then(Value::as_array);
    let missing: Vec<String> = required
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .filter(|name| !arguments.contains_key(*name))
        .map(str::to_owned)
        .collect();
    let unknown = arguments.keys().find(|name| !is_known(name));
    if let Some(name) = missing.first() {
        let meant =
            unknown.filter(|unknown| !near(unknown, &mut missing.iter().cloned()).is_empty());
        return Some(match meant {
            Some(typed) => {
                let advice = near(typed, &mut missing.iter().cloned());
                format!("there is no argument `{typed}`{advice}")
            }
            None => format!("`{name}` is missing"),
        });
    }
    if let Some(name) = unknown
        && schema.get("additionalProperties") == Some(&Value::Bool(false))
    {
        let mut names = properties
            .into_iter()
            .flatten()
            .map(|(name, _)| name.clone());
        return Some(format!(
            "there is no argument `{name}`{}",
            near(name, &mut names)
        ));
    }
    schema::first_problem(schema, &Value::Object(arguments.clone()))
}

fn coerce_members(members: &mut Map<String, Value>, schema: &Value) {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return;
    };
    for (name, value) in members {
        if let Some(property) = properties.get(name) {
            coerce_value(value, property);
        }
    }
}

fn coerce_value(value: &mut Value, schema: &Value) {
    let Some(plain) = PlainSchema::read(schema) else {
        return;
    };
    if !plain.accepts(value)
        && let Some(coerced) = plain.convert(value)
    {
        *value = coerced;
    }
    match value {
        Value::Object(members) => coerce_members(members, plain.schema),
        Value::Array(items) => {
            if let Some(schema) = plain.schema.get("items") {
                for item in items {
                    coerce_value(item, schema);
                }
            }
        }
        _ => {}
    }
}

/// A schema that asks for one type, and perhaps allows null.
#[derive(Clone, Copy)]
struct PlainSchema<'a> {
    wanted: &'a str,
    nullable: bool,
    schema: &'a Value,
}

impl<'a> PlainSchema<'a> {
    fn read(schema: &'a Value) -> Option<Self> {
        let keywords = schema.as_object()?;
        let nullable = keywords.get("nullable").and_then(Value::as_bool) == Some(true);
        if let Some(branches) = keywords.get("anyOf").or_else(|| keywords.get("oneOf")) {
            return Self::read_optional(branches, nullable);
        }
        if keywords.contains_key("$ref") || keywords.contains_key("allOf") {
            return None;
        }
        let (wanted, null_listed) = match keywords.get("type")? {
            Value::String(wanted) => (wanted.as_str(), false),
            Value::Array(types) => single_non_null(types, |t| t == "null")
                .and_then(|(wanted, null_listed)| Some((wanted.as_str()?, null_listed)))?,
            _ => return None,
        };
        Some(Self {
            wanted,
            nullable: nullable || null_listed,
            schema,
        })
    }

    /// A union is plain if it only says that something may also be null.
    fn read_optional(branches: &'a Value, nullable: bool) -> Option<Self> {
        let is_null = |branch: &Value| branch.get("type").is_some_and(|t| t == "null");
        let (branch, null_listed) = single_non_null(branches.as_array()?, is_null)?;
        // No union inside a union, so that this cannot go deep.
        if branch.get("anyOf").is_some() || branch.get("oneOf").is_some() {
            return None;
        }
        let plain = Self::read(branch)?;
        Some(Self {
            nullable: nullable || null_listed || plain.nullable,
            ..plain
        })
    }

    fn accepts(self, value: &Value) -> bool {
        match value {
            Value::Null => self.nullable || self.wanted == "null",
            Value::Bool(_) => self.wanted == "boolean",
            Value::Number(_) => matches!(self.wanted, "number" | "integer"),
            Value::String(_) => self.wanted == "string",
            Value::Array(_) => self.wanted == "array",
            Value::Object(_) => self.wanted == "object",
        }
    }

    /// The same value as the wanted type, if there is exactly one way to read it so.
    fn convert(self, value: &Value) -> Option<Value> {
        let from_text = match value {
            Value::String(text) => self.convert_text(text.trim()),
            _ => None,
        };
        from_text.or_else(|| self.wrap(value))
    }

    fn convert_text(self, text: &str) -> Option<Value> {
        if text == "null" && (self.nullable || self.wanted == "null") {
            return Some(Value::Null);
        }
        match self.wanted {
            "integer" => parse_integer(text).map(Value::Number),
            "number" => parse_number(text).map(Value::Number),
            "boolean" if text.eq_ignore_ascii_case("true") => Some(Value::Bool(true)),
            "boolean" if text.eq_ignore_ascii_case("false") => Some(Value::Bool(false)),
            "array" if text.starts_with('[') => json(text).filter(Value::is_array),
            "object" if text.starts_with('{') => json(text).filter(Value::is_object),
            _ => None,
        }
    }

    /// A lone scalar where a list is wanted becomes a list of one, if the list may hold such a thing.
    fn wrap(self, value: &Value) -> Option<Value> {
        let is_blank = value.as_str().is_some_and(|text| text.trim().is_empty());
        let is_scalar = value.is_string() || value.is_number() || value.is_boolean();
        if self.wanted != "array" || !is_scalar || is_blank {
            return None;
        }
        let mut item = value.clone();
        if let Some(schema) = self.schema.get("items") {
            coerce_value(&mut item, schema);
            if PlainSchema::read(schema).is_some_and(|plain| !plain.accepts(&item)) {
                return None;
            }
        }
        Some(Value::Array(vec![item]))
    }
}

/// The only entry that is not null, and whether there was a null beside it.
fn single_non_null(entries: &[Value], is_null: impl Fn(&Value) -> bool) -> Option<(&Value, bool)> {
    let mut others = entries.iter().filter(|entry| !is_null(entry));
    let only = others.next()?;
    match others.next() {
        None => Some((only, entries.len() > 1)),
        Some(_) => None,
    }
}

fn parse_integer(text: &str) -> Option<Number> {
    let whole = text.parse::<i64>().map(Number::from);
    whole
        .or_else(|_| text.parse::<u64>().map(Number::from))
        .ok()
}

fn parse_number(text: &str) -> Option<Number> {
    // `inf` and `NaN` parse as floats, but JSON has no such numbers.
    parse_integer(text).or_else(|| text.parse().ok().and_then(Number::from_f64))
}

fn json(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_keeps_arguments_from_fitting_is_named() {
        let schema = json!({
            "type": "object",
            "properties": {"path": {"type": "string"}, "lines": {"type": "integer"}},
            "required": ["path"],
        });
        let problem = |arguments: Value, schema: &Value| match arguments {
            Value::Object(arguments) => super::problem(&arguments, schema),
            other => panic!("{other}"),
        };
        assert_eq!(problem(json!({"path": "/a", "lines": 2}), &schema), None);
        let missing = problem(json!({"lines": 2}), &schema);
        assert_eq!(missing.as_deref(), Some("`path` is missing"));
        let typed = problem(json!({"pth": "/a"}), &schema);
        let advice = "there is no argument `pth`; did you mean `path`?";
        assert_eq!(typed.as_deref(), Some(advice));
        // A server may take more than it says.
        assert_eq!(problem(json!({"path": "/a", "more": 1}), &schema), None);
        let mut closed = schema.clone();
        closed["additionalProperties"] = false.into();
        let unknown = problem(json!({"path": "/a", "line": 1}), &closed);
        let advice = "there is no argument `line`; did you mean `lines`?";
        assert_eq!(unknown.as_deref(), Some(advice));
        let wrong = problem(json!({"path": "/a", "lines": "many"}), &schema).unwrap();
        assert!(
            wrong.contains("/lines") && !wrong.contains("many"),
            "{wrong}"
        );
        // Nothing is said by a schema that is none.
        assert_eq!(problem(json!({"a": 1}), &json!({"type": "strin"})), None);
    }

    /// What becomes of `value` as an argument with this schema.
    fn coerced(value: Value, schema: &Value) -> Value {
        let mut arguments = Map::new();
        arguments.insert("x".into(), value);
        let schema = json!({"type": "object", "properties": {"x": schema}});
        coerce(arguments, &schema).remove("x").unwrap()
    }

    #[test]
    fn text_becomes_the_number_or_boolean_it_spells() {
        for (kind, text, expected) in [
            ("integer", "42", json!(42)),
            ("integer", " -7 ", json!(-7)),
            ("integer", "18446744073709551615", json!(u64::MAX)),
            ("number", "42", json!(42)),
            ("number", "2.5", json!(2.5)),
            ("number", "1e3", json!(1000.0)),
            ("boolean", "true", json!(true)),
            ("boolean", "False", json!(false)),
        ] {
            assert_eq!(coerced(json!(text), &json!({"type": kind})), expected);
        }
    }

    #[test]
    fn text_that_spells_nothing_of_the_kind_stays() {
        for (kind, text) in [
            ("integer", "4.2"),
            ("integer", "many"),
            ("integer", ""),
            ("number", "inf"),
            ("number", "NaN"),
            ("boolean", "yes"),
            ("boolean", "1"),
            ("object", "[1]"),
            ("object", "{broken"),
            ("array", ""),
        ] {
            let value = json!(text);
            assert_eq!(coerced(value.clone(), &json!({"type": kind})), value);
        }
    }

    #[test]
    fn json_text_becomes_the_list_or_object_it_holds() {
        let list = coerced(json!("[1, \"2\"]"), &json!({"type": "array"}));
        assert_eq!(list, json!([1, "2"]));
        let object = coerced(json!(" {\"a\": 1} "), &json!({"type": "object"}));
        assert_eq!(object, json!({"a": 1}));
    }

    #[test]
    fn a_scalar_becomes_a_list_of_one() {
        let strings = json!({"type": "array", "items": {"type": "string"}});
        assert_eq!(coerced(json!("a"), &strings), json!(["a"]));
        let numbers = json!({"type": "array", "items": {"type": "integer"}});
        assert_eq!(coerced(json!(1), &numbers), json!([1]));
        assert_eq!(coerced(json!("1"), &numbers), json!([1]));
        let objects = json!({"type": "array", "items": {"type": "object"}});
        assert_eq!(coerced(json!("{\"a\":1}"), &objects), json!([{"a": 1}]));
        assert_eq!(
            coerced(json!(true), &json!({"type": "array"})),
            json!([true])
        );
    }

    #[test]
    fn a_scalar_the_list_may_not_hold_stays() {
        let numbers = json!({"type": "array", "items": {"type": "integer"}});
        assert_eq!(coerced(json!("many"), &numbers), json!("many"));
        assert_eq!(coerced(json!({"a": 1}), &numbers), json!({"a": 1}));
    }

    #[test]
    fn the_word_null_becomes_null_where_null_is_allowed() {
        for schema in [
            json!({"type": "integer", "nullable": true}),
            json!({"type": ["integer", "null"]}),
            json!({"anyOf": [{"type": "integer"}, {"type": "null"}]}),
            json!({"oneOf": [{"type": "integer"}], "nullable": true}),
            json!({"type": "null"}),
        ] {
            assert_eq!(coerced(json!("null"), &schema), Value::Null);
        }
        assert_eq!(coerced(json!("null"), &json!({"type": "integer"})), "null");
        // A text that may be null may also read "null".
        let text = json!({"type": ["string", "null"]});
        assert_eq!(coerced(json!("null"), &text), "null");
    }

    #[test]
    fn optional_values_are_mended_like_required_ones() {
        let schema = json!({"anyOf": [{"type": "integer"}, {"type": "null"}]});
        assert_eq!(coerced(json!("42"), &schema), json!(42));
    }

    #[test]
    fn values_under_a_schema_that_is_not_plain_stay() {
        for schema in [
            json!({"type": ["integer", "string"]}),
            json!({"anyOf": [{"type": "integer"}, {"type": "boolean"}]}),
            json!({"anyOf": [{"anyOf": [{"type": "integer"}]}]}),
            json!({"$ref": "#/$defs/x", "type": "integer"}),
            json!({"allOf": [{"type": "integer"}]}),
            json!({"description": "anything"}),
            json!({"type": "string"}),
            json!(true),
            json!("integer"),
        ] {
            assert_eq!(coerced(json!("42"), &schema), json!("42"), "{schema}");
        }
    }

    #[test]
    fn values_inside_lists_and_objects_are_mended() {
        let schema = json!({
            "type": "array",
            "items": {"type": "object", "properties": {"n": {"type": "integer"}}},
        });
        let value = json!([{"n": "1", "other": "2"}, {"n": 3}]);
        assert_eq!(
            coerced(value, &schema),
            json!([{"n": 1, "other": "2"}, {"n": 3}])
        );
        assert_eq!(
            coerced(json!("[{\"n\": \"1\"}]"), &schema),
            json!([{"n": 1}])
        );
    }

    #[test]
    fn arguments_the_schema_does_not_know_stay() {
        let mut arguments = Map::new();
        arguments.insert("y".into(), json!("42"));
        for schema in [json!({}), json!(null), json!({"properties": {"x": {}}})] {
            assert_eq!(coerce(arguments.clone(), &schema), arguments);
        }
    }
}
