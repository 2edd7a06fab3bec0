//! A form about several things at once: `each` names the field with a line for each of them, and the operation is called
//! once for every line.

use serde_json::Value;

use super::{
    form_fields::{Fields, read_arguments},
    request::{CallOptions, PageRequest},
};
use crate::{Problem, ProblemCode, operations::Operation};

/// More are not taken from one form.
const MAX_VALUES: usize = 500;

/// Calls an operation for every line of a field. What somebody else has done in the meantime is passed over.
pub(super) async fn call_for_each(
    request: &PageRequest,
    operation: &Operation,
    fields: &Fields,
    each: &str,
    once: Option<&str>,
) -> Result<(), Problem> {
    let values: Vec<&str> = fields
        .iter()
        .filter(|(name, _)| name == each)
        .flat_map(|(_, value)| value.lines())
        .filter(|line| !line.is_empty())
        .collect();
    if values.is_empty() || values.len() > MAX_VALUES {
        let message = request.texts.count("batch.choose", MAX_VALUES as u64);
        return Err(Problem::invalid(message.clone()).with_detail(each.to_owned(), message));
    }
    let mut failed = Vec::new();
    for (number, value) in values.iter().enumerate() {
        let mut own: Fields = fields
            .iter()
            .filter(|(name, _)| name != each)
            .cloned()
            .collect();
        own.push((each.to_owned(), (*value).to_owned()));
        let options = CallOptions {
            idempotency_key: once.map(|once| format!("{once}-{number}")),
            ..CallOptions::default()
        };
        let arguments = Value::Object(read_arguments(operation, &own, request.texts)?);
        match request.call(operation.name, arguments, options).await {
            Ok(_) => {}
            Err(problem) if problem.code == ProblemCode::FailedPrecondition => {}
            Err(problem) => failed.push(problem),
        }
    }
    let (all, bad) = (values.len(), failed.len());
    match failed.into_iter().next() {
        None => Ok(()),
        Some(first) => Err(Problem::new(
            first.code,
            request
                .texts
                .get("batch.failed")
                .replace("{bad}", &bad.to_string())
                .replace("{all}", &all.to_string())
                .replace("{name}", &first.message),
        )),
    }
}
