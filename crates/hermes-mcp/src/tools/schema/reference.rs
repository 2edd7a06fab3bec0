//! `$ref`: finding what one points at, and keeping it right while a schema is tidied.

use std::collections::{BTreeMap, BTreeSet};

use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

use super::{NAMED_SCHEMAS, normalise::normalise_node, subschemas};
use crate::tools::names::sanitise;

/// Every round mends what the round before brought in; more would be a schema nobody can read.
const MAX_ROUNDS: usize = 16;

/// What a reference into the same document points at.
pub(super) fn resolve<'a>(reference: &str, root: &'a Value) -> Option<&'a Value> {
    let pointer = reference.strip_prefix('#')?;
    root.pointer(&percent_decode_str(pointer).decode_utf8().ok()?)
}

/// Calls `visit` for every reference in a schema and below.
pub(super) fn for_each(schema: &mut Value, visit: &mut dyn FnMut(&mut String)) {
    let Value::Object(keywords) = schema else {
        return;
    };
    if let Some(Value::String(reference)) = keywords.get_mut("$ref") {
        visit(reference);
    }
    for subschema in subschemas(keywords) {
        for_each(subschema, visit);
    }
}

/// Makes the references of a tidied schema point at something again.
///
/// Tidying renames `definitions` and moves branches of unions. A reference follows a renaming; where its target is gone
/// from its place, a tidied copy is put under `$defs`.
pub(super) fn repair_references(schema: &mut Value, original: &Value) {
    let mut hopeless = BTreeSet::new();
    for _ in 0..MAX_ROUNDS {
        let mut broken = BTreeSet::new();
        for_each(schema, &mut |reference| {
            broken.insert(reference.clone());
        });
        broken.retain(|reference| {
            reference.starts_with('#')
                && !hopeless.contains(reference)
                && resolve(reference, schema).is_none()
        });
        if broken.is_empty() {
            return;
        }
        let mut mended = BTreeMap::new();
        for reference in broken {
            match renamed_reference(&reference, schema, original)
                .or_else(|| copy_to_definitions(&reference, schema, original))
            {
                Some(new) => {
                    mended.insert(reference, new);
                }
                None => {
                    hopeless.insert(reference);
                }
            }
        }
        for_each(schema, &mut |reference| {
            if let Some(new) = mended.get(reference) {
                reference.clone_from(new);
            }
        });
    }
}

/// The reference with `definitions` called `$defs`, unless that was something else in the original.
fn renamed_reference(reference: &str, schema: &Value, original: &Value) -> Option<String> {
    let mut is_name = false;
    let tokens: Vec<&str> = reference
        .split('/')
        .map(|token| {
            let is_keyword = !is_name;
            is_name = is_keyword && NAMED_SCHEMAS.contains(&token);
            if is_keyword && token == "definitions" {
                "$defs"
            } else {
                token
            }
        })
        .collect();
    let new = tokens.join("/");
    (resolve(&new, schema).is_some() && resolve(&new, original).is_none()).then_some(new)
}

fn copy_to_definitions(reference: &str, schema: &mut Value, original: &Value) -> Option<String> {
    let mut target = resolve(reference, original)?.clone();
    normalise_node(&mut target, 0);
    let keywords = schema.as_object_mut()?;
    let definitions = keywords.entry("$defs").or_insert_with(|| json!({}));
    let definitions = definitions.as_object_mut()?;
    let word = sanitise(reference.rsplit('/').next().unwrap_or_default());
    let mut name = word.clone();
    let mut count = 1;
    while definitions.contains_key(&name) {
        count += 1;
        name = format!("{word}_{count}");
    }
    definitions.insert(name.clone(), target);
    Some(format!("#/$defs/{name}"))
}
