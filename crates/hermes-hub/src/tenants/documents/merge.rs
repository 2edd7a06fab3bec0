//! Merge patches (RFC 7396) and changed paths.

use serde_json::{Map, Value};

pub(crate) fn apply_merge_patch(
    mut document: Map<String, Value>,
    patch: Map<String, Value>,
) -> Map<String, Value> {
    for (name, value) in patch {
        match value {
            Value::Null => {
                document.shift_remove(&name);
            }
            Value::Object(patch) => {
                let before = match document.shift_remove(&name) {
                    Some(Value::Object(before)) => before,
                    _ => Map::new(),
                };
                document.insert(name, Value::Object(apply_merge_patch(before, patch)));
            }
            value => {
                document.insert(name, value);
            }
        }
    }
    document
}

/// The dotted paths of members that differ, sorted.
pub(crate) fn changed_paths(
    before: &Map<String, Value>,
    after: &Map<String, Value>,
) -> Vec<String> {
    let mut paths = Vec::new();
    collect_changed("", before, after, &mut paths);
    paths.sort();
    paths
}

fn collect_changed(
    prefix: &str,
    before: &Map<String, Value>,
    after: &Map<String, Value>,
    paths: &mut Vec<String>,
) {
    let gone = before.keys().filter(|name| !after.contains_key(*name));
    for name in after.keys().chain(gone) {
        let path = if prefix.is_empty() {
            name.clone()
        } else {
            format!("{prefix}.{name}")
        };
        match (before.get(name), after.get(name)) {
            (Some(Value::Object(before)), Some(Value::Object(after))) => {
                collect_changed(&path, before, after, paths);
            }
            (before, after) if before != after => paths.push(path),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn map(value: &Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn null_removes_objects_merge_and_all_else_replaces() {
        let before = map(&json!({"a": {"b": 1, "c": 2}, "d": [1], "e": 5}));
        let patch =
            map(&json!({"a": {"b": null, "x": {"y": null, "z": 1}}, "d": [2], "f": {"g": true}}));
        let after = apply_merge_patch(before.clone(), patch);
        assert_eq!(
            Value::Object(after.clone()),
            json!({"a": {"c": 2, "x": {"z": 1}}, "d": [2], "e": 5, "f": {"g": true}})
        );
        assert_eq!(changed_paths(&before, &after), ["a.b", "a.x", "d", "f"]);
    }
}
