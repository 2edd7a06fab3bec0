//! Whether a schema is one, and whether structured output keeps to its schema.

use std::sync::OnceLock;

use jsonschema::{ReferencingError, ValidationError, Validator, error::ValidationErrorKind};
use serde_json::Value;

use super::reference;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// It is not a JSON Schema, or refers to parts it does not have.
    #[error("not a usable JSON Schema: {0}")]
    Invalid(String),
    /// It needs other documents, and those are never fetched.
    #[error("refers to other documents, which are never fetched: {}", .0.join(", "))]
    RemoteReferences(Vec<String>),
}

/// Checks that a schema is a valid JSON Schema document on its own.
pub fn check(schema: &Value) -> Result<(), SchemaError> {
    compile(schema).map(drop)
}

/// Checks structured content against a tool's `outputSchema`. The schema is compiled at first use.
#[derive(Debug)]
pub struct OutputValidator {
    schema: Value,
    validator: OnceLock<Result<Validator, SchemaError>>,
}

impl OutputValidator {
    /// Takes the schema as the server sent it.
    pub fn new(schema: Value) -> Self {
        Self {
            schema,
            validator: OnceLock::new(),
        }
    }

    /// Says where the content breaks the schema, without repeating the content.
    pub fn validate(&self, structured: &Value) -> Result<(), String> {
        let validator = self.validator.get_or_init(|| compile(&self.schema));
        let validator = validator.as_ref().map_err(ToString::to_string)?;
        validator
            .validate(structured)
            .map_err(|error| describe(&error))
    }
}

/// Where a value first breaks a schema, without repeating the value; `None` too where the schema itself is unusable.
pub(crate) fn first_problem(schema: &Value, value: &Value) -> Option<String> {
    let validator = compile(schema).ok()?;
    let error = validator.validate(value).err()?;
    Some(describe(&error))
}

fn compile(schema: &Value) -> Result<Validator, SchemaError> {
    let options = jsonschema::options().offline();
    options.build(schema).map_err(|error| match error.kind() {
        ValidationErrorKind::Referencing(ReferencingError::Unretrievable { uri, .. }) => {
            SchemaError::RemoteReferences(remote_references(schema, uri))
        }
        _ => SchemaError::Invalid(describe(&error)),
    })
}

/// All references to other documents, in order; `first_remote` is the one that was met first.
fn remote_references(schema: &Value, first_remote: &str) -> Vec<String> {
    let mut remote: Vec<String> = Vec::new();
    reference::for_each(&mut schema.clone(), &mut |reference| {
        if !reference.starts_with('#') && !remote.contains(reference) {
            remote.push(reference.clone());
        }
    });
    if remote.is_empty() {
        // Another keyword than `$ref` named it.
        remote.push(first_remote.into());
    }
    remote
}

fn describe(error: &ValidationError<'_>) -> String {
    let location = error.instance_path().as_str();
    let location = if location.is_empty() {
        "the top"
    } else {
        location
    };
    format!("{} (at {location})", error.masked())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_valid_schema_passes() {
        let schema = json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {}}});
        assert_eq!(check(&schema), Ok(()));
        assert_eq!(check(&json!({})), Ok(()));
    }

    #[test]
    fn an_invalid_schema_says_where() {
        let problem = check(&json!({"properties": {"a": {"type": "strin"}}})).unwrap_err();
        let SchemaError::Invalid(reason) = problem else {
            panic!("{problem}");
        };
        assert!(reason.contains("/properties/a/type"), "{reason}");
        assert!(check(&json!({"$ref": "#/$defs/Missing"})).is_err());
        assert!(check(&json!("x")).is_err());
    }

    #[test]
    fn remote_references_are_named_and_not_fetched() {
        let schema = json!({
            "properties": {
                "a": {"$ref": "https://127.0.0.1:9/a.json"},
                "b": {"items": {"$ref": "file:///etc/b.json"}},
                "c": {"$ref": "#/properties/a"},
            },
        });
        assert_eq!(
            check(&schema),
            Err(SchemaError::RemoteReferences(vec![
                "https://127.0.0.1:9/a.json".into(),
                "file:///etc/b.json".into(),
            ]))
        );
        let dialect = json!({"$schema": "https://127.0.0.1:9/dialect"});
        let problem = check(&dialect).unwrap_err().to_string();
        assert!(problem.contains("127.0.0.1:9/dialect"), "{problem}");
    }

    #[test]
    fn output_is_checked_against_its_schema() {
        let check = OutputValidator::new(json!({
            "type": "object",
            "properties": {"degrees": {"type": "number"}},
            "required": ["degrees"],
        }));
        assert_eq!(check.validate(&json!({"degrees": 21.5})), Ok(()));
        let reason = check
            .validate(&json!({"degrees": "top secret"}))
            .unwrap_err();
        assert!(reason.contains("/degrees"), "{reason}");
        assert!(!reason.contains("top secret"), "{reason}");
        assert!(check.validate(&json!({})).is_err());
    }

    #[test]
    fn output_with_an_unusable_schema_is_reported() {
        let check = OutputValidator::new(json!({"$ref": "https://127.0.0.1:9/a.json"}));
        let reason = check.validate(&json!({})).unwrap_err();
        assert!(reason.contains("https://127.0.0.1:9/a.json"), "{reason}");
    }
}
