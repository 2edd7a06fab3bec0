//! JSON Schemas of tools: the tidied copy for the model, and checks of schemas and of structured output.
//!
//! The schema a server sent is kept whole elsewhere; nothing here changes it. A reference to another document is never
//! followed: a tool list must not make the host fetch addresses of the server's choosing.

mod check;
mod normalise;
mod reference;

use serde_json::{Map, Value};

pub(crate) use check::first_problem;
pub use check::{OutputValidator, SchemaError, check};
pub use normalise::normalise;

/// Keywords that hold schemas under names. What is called `properties` *below* them is a name, not a keyword.
const NAMED_SCHEMAS: [&str; 5] = [
    "properties",
    "patternProperties",
    "$defs",
    "definitions",
    "dependentSchemas",
];

/// Keywords that hold a list of schemas.
const LISTED_SCHEMAS: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];

/// Keywords that hold one schema.
const SINGLE_SCHEMAS: [&str; 12] = [
    "additionalItems",
    "additionalProperties",
    "contains",
    "contentSchema",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];

/// The schemas directly below a schema. Everything else there (`default`, `enum`, `const`, …) is data.
fn subschemas(keywords: &mut Map<String, Value>) -> Vec<&mut Value> {
    let mut subschemas = Vec::new();
    for (keyword, value) in keywords {
        let keyword = keyword.as_str();
        // Older drafts allow a list under `items`.
        let is_listed =
            LISTED_SCHEMAS.contains(&keyword) || (keyword == "items" && value.is_array());
        if NAMED_SCHEMAS.contains(&keyword) {
            subschemas.extend(value.as_object_mut().into_iter().flat_map(Map::values_mut));
        } else if is_listed {
            subschemas.extend(value.as_array_mut().into_iter().flatten());
        } else if SINGLE_SCHEMAS.contains(&keyword) {
            subschemas.push(value);
        }
    }
    subschemas
}

#[cfg(test)]
mod tests;
