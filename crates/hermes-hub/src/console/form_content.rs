//! The fields of a form that was made from a schema, as one argument of an operation: `name:form` has the schema, and the
//! fields are those of [`schema_form`](super::schema_form).

use serde_json::{Map, Value};

use super::{
    form_fields::Fields,
    schema_form::{SchemaForm, read_arguments},
    texts::Texts,
};
use crate::{Problem, operations::Operation};

/// Adds the arguments that such forms mean. The operation checks them again.
pub(super) fn add_form_content(
    operation: &Operation,
    fields: &Fields,
    texts: &Texts,
    arguments: &mut Map<String, Value>,
) -> Result<(), Problem> {
    for argument in &operation.input.arguments {
        let mark = format!("{}:form", argument.name);
        let Some((_, schema)) = fields.iter().find(|(name, _)| *name == mark) else {
            continue;
        };
        let schema: Value = serde_json::from_str(schema)
            .map_err(|_| Problem::invalid(format!("`{mark}` must be a JSON schema")))?;
        let read = read_arguments(&SchemaForm::new(&schema), fields);
        if let Some((field, problem)) = read.problems.iter().next() {
            let name = field.strip_prefix("arg.").unwrap_or(field);
            let message = format!("{name}: {}", texts.get(problem.text()));
            let place = format!("{}.{name}", argument.rest_name);
            return Err(Problem::invalid(message).with_detail(place, "is not what the form wants"));
        }
        arguments.insert(argument.name.clone(), Value::Object(read.arguments));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::operations::table;

    fn content(fields: &[(&str, &str)]) -> Result<Value, Problem> {
        let schema = r#"{"type": "object", "required": ["name"], "properties": {"name": {"type": "string"},
            "age": {"type": "integer"}}}"#;
        let fields = fields.iter().copied().chain([("content:form", schema)]);
        let fields: Fields = fields
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let row = table().find("respond_approval").unwrap();
        let mut arguments = Map::new();
        let texts = Texts::in_language("en").unwrap();
        add_form_content(row, &fields, texts, &mut arguments)?;
        Ok(Value::Object(arguments))
    }

    #[test]
    fn fields_of_a_schema_become_one_argument() {
        let read = content(&[("arg.name", "Ada"), ("arg.age", "36"), ("choice", "once")]);
        assert_eq!(
            read.unwrap(),
            json!({"content": {"name": "Ada", "age": 36}})
        );
    }

    #[test]
    fn a_wrong_field_is_told_by_its_name() {
        let wrong = content(&[("arg.name", "Ada"), ("arg.age", "old")]).unwrap_err();
        assert_eq!(wrong.details[0].field, "content.age");
        assert_eq!(wrong.message, "age: This is not a whole number.");
        assert_eq!(content(&[]).unwrap_err().details[0].field, "content.name");
    }
}
