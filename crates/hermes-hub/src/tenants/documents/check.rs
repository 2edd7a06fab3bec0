//! Validates a document against its schema, with locations and suggestions.

use hermes_config::nearest;
use jsonschema::{Validator, error::ValidationErrorKind};
use serde_json::{Map, Value};

use crate::{Problem, ProblemCode};

const MAX_FAULTS: usize = 20;

pub(crate) struct SchemaChecker {
    schema: Map<String, Value>,
    validator: Option<Validator>,
    names: Vec<String>,
}

impl SchemaChecker {
    pub(crate) fn new(schema: Map<String, Value>) -> Self {
        let whole = Value::Object(schema.clone());
        let mut names = Vec::new();
        collect_names(&whole, &mut names);
        let validator = jsonschema::validator_for(&whole)
            .inspect_err(|error| tracing::error!(%error, "built-in schema is invalid"))
            .ok();
        Self {
            schema,
            validator,
            names,
        }
    }

    pub(crate) fn schema(&self) -> &Map<String, Value> {
        &self.schema
    }

    /// Refuses an invalid document, with a JSON pointer for each fault.
    pub(crate) fn check(&self, what: &str, document: &Value) -> Result<(), Problem> {
        let Some(validator) = &self.validator else {
            return Err(Problem::internal(&"built-in schema is invalid"));
        };
        let faults: Vec<_> = validator.iter_errors(document).take(MAX_FAULTS).collect();
        let Some(first) = faults.first() else {
            return Ok(());
        };
        let mut problem = Problem::new(
            ProblemCode::Unprocessable,
            format!(
                "{what} is invalid: {} at `{}`",
                self.describe_fault(first),
                first.instance_path()
            ),
        );
        for fault in &faults {
            problem = problem.with_detail(
                fault.instance_path().to_string(),
                self.describe_fault(fault),
            );
        }
        Err(problem)
    }

    fn describe_fault(&self, fault: &jsonschema::ValidationError<'_>) -> String {
        let ValidationErrorKind::AdditionalProperties { unexpected } = fault.kind() else {
            return fault.to_string();
        };
        let unknown = unexpected.first().map(String::as_str).unwrap_or_default();
        match nearest(unknown, self.names.iter().cloned()) {
            Some(meant) => format!("unknown member `{unknown}`; did you mean `{meant}`?"),
            None => format!("unknown member `{unknown}`"),
        }
    }
}

/// Collects all member names of a schema.
fn collect_names(schema: &Value, names: &mut Vec<String>) {
    match schema {
        Value::Object(members) => {
            for (key, value) in members {
                if let ("properties", Value::Object(properties)) = (key.as_str(), value) {
                    names.extend(properties.keys().cloned());
                }
                collect_names(value, names);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_names(item, names)),
        _ => {}
    }
}

/// A document without extension members (`x-…`).
pub(crate) fn without_extensions(value: &Value) -> Value {
    match value {
        Value::Object(members) => members
            .iter()
            .filter(|(name, _)| !name.starts_with("x-"))
            .map(|(name, value)| (name.clone(), without_extensions(value)))
            .collect::<Map<_, _>>()
            .into(),
        other => other.clone(),
    }
}
