//! Self-contained JSON Schemas of inputs and outputs.

use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Map, Value};

fn generate_schema(
    settings: SchemaSettings,
    of: impl FnOnce(schemars::SchemaGenerator) -> schemars::Schema,
) -> Map<String, Value> {
    let mut schema = of(settings.into_generator()).to_value();
    remove_integer_formats(&mut schema);
    let mut schema = match schema {
        Value::Object(schema) => schema,
        _ => Map::new(),
    };
    schema.shift_remove("$schema");
    schema.shift_remove("title");
    schema
}

/// Removes formats such as `uint64`, which are not standard and cause warnings in clients.
fn remove_integer_formats(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            let format = members.get("format").and_then(Value::as_str);
            if format.is_some_and(|format| format.starts_with("uint")) {
                members.shift_remove("format");
            }
            members.values_mut().for_each(remove_integer_formats);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_integer_formats),
        _ => {}
    }
}

fn schema_settings() -> SchemaSettings {
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    settings
}

pub(crate) fn input_schema<T: JsonSchema>() -> Map<String, Value> {
    let mut schema = generate_schema(
        schema_settings().for_deserialize(),
        schemars::SchemaGenerator::into_root_schema_for::<T>,
    );
    schema.shift_remove("description");
    schema
}

pub(crate) fn output_schema<T: JsonSchema>() -> Map<String, Value> {
    let mut schema = generate_schema(
        schema_settings().for_serialize(),
        schemars::SchemaGenerator::into_root_schema_for::<T>,
    );
    // Tools must return objects, but a type that flattens a map has no `type` in its schema.
    schema.entry("type").or_insert_with(|| "object".into());
    schema
}
