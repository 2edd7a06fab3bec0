//! Whether a schema is one, and whether structured output keeps to its schema.

use std::sync::OnceLock;

use jsonschema::{ReferencingError, ValidationError, Validator, error::ValidationErrorKind};
use serde_json::Value;

use super::reference;

/// What is wrong with a schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaProblem {
    /// It is not a JSON Schema, or refers to parts it does not have.
    #[error("not a usable JSON Schema: {0}")]
    Invalid(String),
    /// It needs other documents, and those are never fetched.
    #[error("refers to other documents, which are never fetched: {}", .0.join(", "))]
    RemoteReferences(Vec<String>),
}

/// Checks that a schema is a valid JSON Schema document on its own.
pub fn check(schema: &Value) -> Result<(), SchemaProblem> {
    compile(schema).map(drop)
}

/// Checks structured content against a tool's `outputSchema`. The schema is compiled at first use.
#[derive(Debug)]
pub struct OutputCheck {
    schema: Value,
    validator: OnceLock<Result<Validator, SchemaProblem>>,
}

impl OutputCheck {
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

fn compile(schema: &Value) -> Result<Validator, SchemaProblem> {
    let options = jsonschema::options().offline();
    options.build(schema).map_err(|error| match error.kind() {
        ValidationErrorKind::Referencing(ReferencingError::Unretrievable { uri, .. }) => {
            SchemaProblem::RemoteReferences(remote_references(schema, uri))
        }
        _ => SchemaProblem::Invalid(describe(&error)),
    })
}

/// All references to other documents, in order; `found` is the one that was met first.
fn remote_references(schema: &Value, found: &str) -> Vec<String> {
    let mut remote: Vec<String> = Vec::new();
    reference::for_each(&mut schema.clone(), &mut |reference| {
        if !reference.starts_with('#') && !remote.contains(reference) {
            remote.push(reference.clone());
        }
    });
    if remote.is_empty() {
        // Another keyword than `$ref` named it.
        remote.push(found.into());
    }
    remote
}

fn describe(error: &ValidationError<'_>) -> String {
    let place = error.instance_path().as_str();
    let place = if place.is_empty() { "the top" } else { place };
    format!("{} (at {place})", error.masked())
}
