//! The top of an input schema: an object that lists its properties, and no choice between several.
//!
//! Most providers refuse `anyOf` and the like there. Dropping them would hide parameters from the model, so their
//! properties move up: those of every alternative are offered, and required is what all alternatives require.

use serde_json::{Map, Value, json};

use super::reference;

/// What a provider does not want to see at the top.
const UNWANTED: [&str; 6] = ["allOf", "anyOf", "oneOf", "enum", "not", "nullable"];

/// Schemas looked into before giving up on the rest.
const MAX_VISITS: usize = 256;

/// The keywords of the schema with everything at the top in one object.
pub(super) fn flatten(schema: &Value) -> Map<String, Value> {
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
