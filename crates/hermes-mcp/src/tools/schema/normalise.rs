//! The copy of an input schema that the model gets.
//!
//! Providers accept different subsets of JSON Schema. This is the common ground: one object at the top, one type per
//! place, optional values marked `nullable`, definitions under `$defs`.

use serde_json::{Map, Value, json};

use super::{LISTED_SCHEMAS, NAMED_SCHEMAS, reference, subschemas};

/// Below this many levels a schema is cut off and allows anything.
const MAX_DEPTH: usize = 64;

/// What a union says about itself, and not about one of its branches.
const ANNOTATIONS: [&str; 4] = ["title", "description", "default", "examples"];

const ARRAY_KEYWORDS: [&str; 5] = [
    "items",
    "prefixItems",
    "minItems",
    "maxItems",
    "uniqueItems",
];

const OBJECT_KEYWORDS: [&str; 4] = [
    "properties",
    "patternProperties",
    "additionalProperties",
    "required",
];
/// What a provider does not want to see at the top.
const UNWANTED: [&str; 6] = ["allOf", "anyOf", "oneOf", "enum", "not", "nullable"];

/// Schemas looked into before giving up on the rest.
const MAX_VISITS: usize = 256;

/// Tidies a tool's input schema for the model. Takes anything, and always returns an object schema.
pub fn normalise(schema: &Value) -> Value {
    let mut copy = Value::Object(flatten_top_level(schema));
    normalise_node(&mut copy, 0);
    reference::repair_references(&mut copy, schema);
    copy
}

/// Tidies one schema and all below it.
pub(super) fn normalise_node(schema: &mut Value, depth: usize) {
    let keywords = match schema {
        Value::Object(keywords) if depth < MAX_DEPTH => keywords,
        Value::Bool(_) => return,
        Value::String(word) => {
            *schema = from_type_word(word);
            return;
        }
        _ => {
            *schema = json!({});
            return;
        }
    };
    repair_shape(keywords);
    rename_definitions(keywords);
    for subschema in subschemas(keywords) {
        normalise_node(subschema, depth + 1);
    }
    collapse_union(keywords, "anyOf");
    collapse_union(keywords, "oneOf");
    split_types(keywords);
    complete_object(keywords);
    if keywords.contains_key("$ref") {
        keywords.shift_remove("default");
    }
}

/// `"string"` where `{"type": "string"}` is meant. A word that is not a type is most likely a description.
fn from_type_word(word: &str) -> Value {
    match word {
        "array" | "boolean" | "integer" | "null" | "number" | "object" | "string" => {
            json!({"type": word})
        }
        _ => json!({"description": word}),
    }
}

/// Removes what is not even of the kind its keyword asks for. Some servers write `[]` for no properties.
fn repair_shape(keywords: &mut Map<String, Value>) {
    if keywords.get("properties").is_some_and(|p| !p.is_object()) {
        keywords.insert("properties".into(), json!({}));
    }
    keywords.retain(|keyword, value| match keyword.as_str() {
        "type" => value.is_string() || value.is_array(),
        "required" => value.is_array(),
        keyword if NAMED_SCHEMAS.contains(&keyword) => value.is_object(),
        keyword if LISTED_SCHEMAS.contains(&keyword) => {
            value.as_array().is_some_and(|list| !list.is_empty())
        }
        _ => true,
    });
}

/// `definitions` is the older word for `$defs`. References follow in [`reference::repair_references`].
fn rename_definitions(keywords: &mut Map<String, Value>) {
    let Some(Value::Object(old)) = keywords.shift_remove("definitions") else {
        return;
    };
    let current = keywords.entry("$defs").or_insert_with(|| json!({}));
    if let Value::Object(current) = current {
        for (name, schema) in old {
            current.entry(name).or_insert(schema);
        }
    }
}

/// A union of one schema and null becomes that schema, `nullable`.
fn collapse_union(keywords: &mut Map<String, Value>, union: &str) {
    let Some(Value::Array(branches)) = keywords.get(union) else {
        return;
    };
    let mut others = branches.iter().filter(|branch| !is_null(branch));
    let (only, allows_null) = match (others.next(), others.next()) {
        (Some(only), None) => (only.clone(), branches.len() > 1),
        (None, _) => (json!({"type": "null"}), false),
        (Some(_), Some(_)) => return,
    };
    let Value::Object(branch) = only else {
        return;
    };
    let clashes = branch.iter().any(|(keyword, value)| {
        let is_shared = keyword != union && !ANNOTATIONS.contains(&keyword.as_str());
        is_shared && keywords.get(keyword).is_some_and(|own| own != value)
    });
    if clashes {
        keywords.insert(union.into(), json!([branch]));
    } else {
        keywords.shift_remove(union);
        for (keyword, value) in branch {
            keywords.entry(keyword).or_insert(value);
        }
    }
    if allows_null {
        keywords.insert("nullable".into(), true.into());
    }
}

fn is_null(schema: &Value) -> bool {
    schema.get("type").is_some_and(|kind| kind == "null")
        || schema.get("const").is_some_and(Value::is_null)
        || schema
            .get("enum")
            .is_some_and(|values| *values == json!([null]))
}

/// A list of types becomes one type, or one branch per type.
fn split_types(keywords: &mut Map<String, Value>) {
    let Some(Value::Array(list)) = keywords.get("type") else {
        return;
    };
    let allows_null = list.iter().any(|kind| kind == "null");
    let mut types: Vec<String> = Vec::new();
    for kind in list.iter().filter_map(Value::as_str) {
        if kind != "null" && !types.iter().any(|known| known == kind) {
            types.push(kind.into());
        }
    }
    if allows_null && !types.is_empty() {
        keywords.insert("nullable".into(), true.into());
    }
    match types.as_slice() {
        [] if allows_null => {
            keywords.insert("type".into(), "null".into());
        }
        [only] => {
            keywords.insert("type".into(), only.as_str().into());
        }
        several => {
            keywords.shift_remove("type");
            // Branches that are there already say more than the list does.
            if !several.is_empty() && !keywords.contains_key("anyOf") {
                let branches = several.iter().map(|kind| branch(kind, keywords)).collect();
                keywords.insert("anyOf".into(), branches);
            }
        }
    }
}

/// The branch of a union that stands for one type; it takes the keywords along that belong to no other type.
fn branch(kind: &str, keywords: &mut Map<String, Value>) -> Value {
    let own: &[&str] = match kind {
        "array" => &ARRAY_KEYWORDS,
        "object" => &OBJECT_KEYWORDS,
        _ => &[],
    };
    let mut branch = Map::from_iter([("type".into(), kind.into())]);
    for keyword in own {
        if let Some((keyword, value)) = keywords.shift_remove_entry(*keyword) {
            branch.insert(keyword, value);
        }
    }
    complete_object(&mut branch);
    branch.into()
}

/// What has properties is an object, and requires only properties it has.
fn complete_object(keywords: &mut Map<String, Value>) {
    let describes_object = keywords.contains_key("properties") || keywords.contains_key("required");
    if describes_object && !keywords.contains_key("type") {
        keywords.insert("type".into(), "object".into());
    }
    let Some(Value::Array(required)) = keywords.shift_remove("required") else {
        return;
    };
    let properties = keywords.get("properties").and_then(Value::as_object);
    let mut kept: Vec<Value> = Vec::new();
    for name in required {
        let exists = name
            .as_str()
            .is_some_and(|name| properties.is_some_and(|p| p.contains_key(name)));
        if exists && !kept.contains(&name) {
            kept.push(name);
        }
    }
    if !kept.is_empty() {
        keywords.insert("required".into(), kept.into());
    }
}

/// The keywords of the schema with everything at the top in one object that lists its properties.
///
/// Most providers refuse `anyOf` and the like there. Dropping them would hide parameters from the model, so their
/// properties move up: those of every alternative are offered, and required is what all alternatives require.
fn flatten_top_level(schema: &Value) -> Map<String, Value> {
    let mut keywords = schema.as_object().cloned().unwrap_or_default();
    let mut walk = MemberCollector {
        root: schema,
        followed: Vec::new(),
        visits_left: MAX_VISITS,
    };
    let members = walk.collect(schema);
    keywords.retain(|keyword, _| !UNWANTED.contains(&keyword.as_str()));
    let reference = schema["$ref"].as_str();
    if reference.is_some_and(|r| reference::resolve(r, schema).is_some()) {
        keywords.shift_remove("$ref");
    }
    keywords.insert("type".into(), "object".into());
    keywords.insert("properties".into(), members.properties.into());
    if !members.required.is_empty() {
        keywords.insert("required".into(), members.required.into());
    }
    keywords
}

/// A walk through a schema that collects what its objects hold.
struct MemberCollector<'a> {
    root: &'a Value,
    /// References on the way to the present place: following one twice would go round in circles.
    followed: Vec<&'a str>,
    visits_left: usize,
}

impl<'a> MemberCollector<'a> {
    fn collect(&mut self, schema: &'a Value) -> ObjectMembers {
        if self.visits_left == 0 {
            return ObjectMembers::default();
        }
        self.visits_left -= 1;
        let mut members = ObjectMembers {
            properties: schema["properties"]
                .as_object()
                .cloned()
                .unwrap_or_default(),
            required: schema["required"].as_array().cloned().unwrap_or_default(),
        };
        if let Some(reference) = schema["$ref"].as_str()
            && !self.followed.contains(&reference)
            && let Some(target) = reference::resolve(reference, self.root)
        {
            self.followed.push(reference);
            members.merge(self.collect(target));
            self.followed.pop();
        }
        for part in schemas_under(schema, "allOf") {
            members.merge(self.collect(part));
        }
        for union in ["anyOf", "oneOf"] {
            let alternatives = schemas_under(schema, union)
                .iter()
                .map(|schema| self.collect(schema));
            if let Some(either) = alternatives.reduce(ObjectMembers::merge_alternative) {
                members.merge(either);
            }
        }
        members
    }
}

/// The members an object must or may have.
#[derive(Default)]
struct ObjectMembers {
    properties: Map<String, Value>,
    required: Vec<Value>,
}

impl ObjectMembers {
    fn merge(&mut self, other: Self) {
        self.add_properties(other.properties, "allOf");
        for name in other.required {
            if !self.required.contains(&name) {
                self.required.push(name);
            }
        }
    }

    fn merge_alternative(mut self, other: Self) -> Self {
        self.add_properties(other.properties, "anyOf");
        self.required.retain(|name| other.required.contains(name));
        self
    }

    /// Where both sides describe the same property differently, both descriptions stay, joined by `joint`.
    fn add_properties(&mut self, properties: Map<String, Value>, joint: &str) {
        for (name, schema) in properties {
            match self.properties.get_mut(&name) {
                None => {
                    self.properties.insert(name, schema);
                }
                Some(own) if *own == schema => {}
                Some(own) => match own.get_mut(joint).and_then(Value::as_array_mut) {
                    Some(joined) if joined.contains(&schema) => {}
                    Some(joined) => joined.push(schema),
                    None => *own = json!({joint: [own.take(), schema]}),
                },
            }
        }
    }
}

fn schemas_under<'a>(schema: &'a Value, keyword: &str) -> &'a [Value] {
    schema[keyword].as_array().map_or(&[], Vec::as_slice)
}
