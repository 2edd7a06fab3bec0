//! Members of a tenant's document that are unknown or of another type, with the place of the first one: as a JSON pointer,
//! or as line and column of YAML.

use hermes_config::{find_yaml_key, nearest, read_yaml};
use serde_json::{Map, Value};

use super::{ArgumentLocation, table};
use crate::Problem;

/// What a document may have besides what the Hub takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LocalMembers {
    /// Nothing.
    Refused,
    /// Names of files that a command reads before it sends the document: `path` of skills, `from` of files.
    Allowed,
}

/// A member that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrongMember {
    /// Names and indices, from the outermost.
    pub path: Vec<String>,
    pub reason: String,
}

/// The first member of a document that is unknown or has another type.
pub fn find_wrong_member(
    manifest: &Map<String, Value>,
    local: LocalMembers,
) -> Option<WrongMember> {
    let mut search = MemberSearch {
        path: Vec::new(),
        local,
    };
    search.check(manifest).err()
}

/// Reads a document of a request that is YAML. Problems name line and column.
pub(crate) fn read_yaml_manifest(text: &str) -> Result<Map<String, Value>, Problem> {
    let document = read_yaml(text).map_err(|error| {
        let place = format!("line {}, column {}", error.line, error.column);
        Problem::invalid(format!("{place}: {}", error.reason)).with_detail(place, "not usable YAML")
    })?;
    let Value::Object(mut manifest) = document else {
        return Err(Problem::invalid(
            "line 1, column 1: a document is a mapping, such as `name: Acme`",
        ));
    };
    spell_variables(&mut manifest);
    match find_wrong_member(&manifest, LocalMembers::Refused) {
        None => Ok(manifest),
        Some(wrong) => {
            let (line, column) = wrong.find_in_yaml(text);
            let place = format!("line {line}, column {column}");
            Err(Problem::invalid(format!("{place}: {}", wrong.reason))
                .with_detail(wrong.pointer(), place))
        }
    }
}

/// Refuses a wrong member of the document in these arguments, with its JSON pointer.
pub(super) fn check_manifest(arguments: &Map<String, Value>) -> Result<(), Problem> {
    let manifest = arguments.get("manifest").and_then(Value::as_object);
    let wrong = manifest.and_then(|manifest| find_wrong_member(manifest, LocalMembers::Refused));
    wrong.map_or(Ok(()), |wrong| Err(wrong.into_problem()))
}

/// Makes texts of numbers and flags that YAML has read in the values of variables.
pub fn spell_variables(manifest: &mut Map<String, Value>) {
    let env = manifest.get_mut("env").and_then(Value::as_object_mut);
    for value in env.into_iter().flat_map(Map::values_mut) {
        if value.is_number() || value.is_boolean() {
            *value = value.to_string().into();
        }
    }
}

impl WrongMember {
    /// As RFC 6901 has it.
    pub fn pointer(&self) -> String {
        let mut pointer = String::new();
        for step in &self.path {
            pointer.push('/');
            pointer.push_str(&step.replace('~', "~0").replace('/', "~1"));
        }
        pointer
    }

    /// Line and column, both from 1, of the nearest name in a document.
    pub fn find_in_yaml(&self, text: &str) -> (usize, usize) {
        let mut path = self.path.as_slice();
        // An item of a list has no name of its own.
        while let Some((last, outer)) = path.split_last() {
            let is_index = last.parse::<usize>().is_ok();
            match find_yaml_key(text, path).filter(|_| !is_index) {
                Some(place) => return place,
                None => path = outer,
            }
        }
        (1, 1)
    }

    fn into_problem(self) -> Problem {
        let pointer = self.pointer();
        Problem::invalid(format!("`{pointer}`: {}", self.reason)).with_detail(pointer, self.reason)
    }
}

/// Line and column of what a JSON pointer names, or of the nearest name around it.
pub fn find_pointer_in_yaml(text: &str, pointer: &str) -> Option<(usize, usize)> {
    let steps = pointer.strip_prefix('/')?.split('/');
    let wanted = WrongMember {
        path: steps
            .map(|step| step.replace("~1", "/").replace("~0", "~"))
            .collect(),
        reason: String::new(),
    };
    Some(wanted.find_in_yaml(text))
}

/// Adds line and column to a problem of a document that was sent as YAML.
pub(crate) fn add_place_in_yaml(mut problem: Problem, text: &str) -> Problem {
    let place = problem.details.first();
    let place = place.and_then(|detail| find_pointer_in_yaml(text, &detail.field));
    if let Some((line, column)) = place {
        problem.message = format!("line {line}, column {column}: {}", problem.message);
    }
    problem
}

struct MemberSearch {
    /// Where the search is.
    path: Vec<String>,
    local: LocalMembers,
}

impl MemberSearch {
    fn check(&mut self, manifest: &Map<String, Value>) -> Result<(), WrongMember> {
        self.check_object(manifest, &manifest_schema())?;
        for (member, operation) in [("model", "update_tenant_model"), ("limits", "patch_limits")] {
            if let Some(members) = manifest.get(member).and_then(Value::as_object) {
                self.path.push(member.into());
                self.check_names(members, &member_names(operation))?;
                self.path.pop();
            }
        }
        let platforms = manifest.get("platforms").and_then(Value::as_object);
        for (name, members) in platforms.into_iter().flatten() {
            if let Some(members) = members.as_object() {
                self.path.extend(["platforms".to_owned(), name.clone()]);
                self.check_names(members, &member_names("put_platform"))?;
                self.path.clear();
            }
        }
        Ok(())
    }

    fn check_object(
        &mut self,
        members: &Map<String, Value>,
        schema: &Value,
    ) -> Result<(), WrongMember> {
        if let Some(properties) = schema["properties"].as_object() {
            let mut known: Vec<String> = properties.keys().cloned().collect();
            if self.local == LocalMembers::Allowed && self.path.len() == 2 {
                match self.path[0].as_str() {
                    "skills" => known.push("path".into()),
                    "files" => known.push("from".into()),
                    _ => {}
                }
            }
            self.check_names(members, &known)?;
        }
        for (name, value) in members {
            let schema = match schema["properties"].get(name) {
                Some(schema) => schema,
                None => &schema["additionalProperties"],
            };
            self.path.push(name.clone());
            self.check_value(value, schema)?;
            self.path.pop();
        }
        Ok(())
    }

    fn check_value(&mut self, value: &Value, schema: &Value) -> Result<(), WrongMember> {
        if let Some(wanted) = other_type(value, schema) {
            return Err(WrongMember {
                reason: format!("it must be {wanted}"),
                path: self.path.clone(),
            });
        }
        match value {
            Value::Object(inner) => self.check_object(inner, schema),
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.path.push(index.to_string());
                    self.check_value(item, &schema["items"])?;
                    self.path.pop();
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn check_names(
        &mut self,
        members: &Map<String, Value>,
        known: &[String],
    ) -> Result<(), WrongMember> {
        let Some(name) = members.keys().find(|name| !known.contains(name)) else {
            return Ok(());
        };
        let short: String = name.chars().take(80).collect();
        let reason = match nearest(&short, known.iter().cloned()) {
            Some(meant) => format!("unknown member `{short}`; did you mean `{meant}`?"),
            None => format!("unknown member `{short}`; known are {}", known.join(", ")),
        };
        self.path.push(name.clone());
        Err(WrongMember {
            path: self.path.clone(),
            reason,
        })
    }
}

/// What a schema wants, if the value is something else.
fn other_type(value: &Value, schema: &Value) -> Option<String> {
    let wanted: Vec<&str> = match &schema["type"] {
        Value::String(word) => vec![word],
        Value::Array(words) => words.iter().filter_map(Value::as_str).collect(),
        _ => return None,
    };
    let is_fitting = |word: &&str| match *word {
        "null" => value.is_null(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => true,
    };
    if wanted.iter().any(is_fitting) {
        return None;
    }
    let named = wanted.into_iter().filter(|word| *word != "null");
    let named: Vec<&str> = named
        .map(|word| match word {
            "string" => "a string",
            "boolean" => "a boolean",
            "integer" => "an integer",
            "number" => "a number",
            "array" => "a list",
            _ => "a mapping",
        })
        .collect();
    Some(named.join(" or "))
}

/// The schema of a document, as the operation has it.
fn manifest_schema() -> Value {
    let operation = table().find("put_manifest");
    let mut arguments = operation
        .into_iter()
        .flat_map(|operation| &operation.input.arguments);
    let manifest = arguments.find(|argument| argument.name == "manifest");
    manifest.map_or(Value::Null, |manifest| manifest.schema.clone())
}

/// The members of an operation's body.
fn member_names(operation: &str) -> Vec<String> {
    let operation = table().find(operation);
    let arguments = operation
        .into_iter()
        .flat_map(|operation| &operation.input.arguments);
    arguments
        .filter(|argument| argument.location != ArgumentLocation::Path)
        .map(|argument| argument.rest_name.clone())
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(manifest: Value) -> Option<(String, String)> {
        let Value::Object(manifest) = manifest else {
            panic!("not an object");
        };
        let wrong = find_wrong_member(&manifest, LocalMembers::Refused)?;
        Some((wrong.pointer(), wrong.reason))
    }

    #[test]
    fn the_first_wrong_member_is_found_with_its_pointer() {
        for (manifest, pointer, reason) in [
            (json!({"nmae": "x"}), "/nmae", "did you mean `name`?"),
            (json!({"name": 5}), "/name", "a string"),
            (json!({"skills": {}}), "/skills", "a list"),
            (
                json!({"skills": [{"name": "a"}, {"name": "b", "path": "./b"}]}),
                "/skills/1/path",
                "unknown member",
            ),
            (json!({"skills": [5]}), "/skills/0", "a mapping"),
            (json!({"env": {"A/B": 1}}), "/env/A~1B", "a string"),
            (json!({"limits": {"runs": 1}}), "/limits/runs", "runsPerDay"),
            (
                json!({"platforms": {"telegram": {"tokn": "x"}}}),
                "/platforms/telegram/tokn",
                "unknown member",
            ),
            (
                json!({"storage": {"quotaBytes": "1 GB"}}),
                "/storage/quotaBytes",
                "an integer",
            ),
        ] {
            let (place, why) = found(manifest.clone()).unwrap_or_else(|| panic!("{manifest}"));
            assert_eq!(place, pointer, "{manifest}: {why}");
            assert!(why.contains(reason), "{manifest}: {why}");
        }
        let right = json!({
            "id": "a", "labels": {"x": null}, "model": {"model": "m", "baseUrl": null},
            "skills": [{"name": "a", "library": true}], "soul": "x", "storage": {"quotaBytes": 1},
        });
        assert_eq!(found(right), None);
    }

    #[test]
    fn yaml_is_told_by_line_and_column() {
        for (text, place) in [
            ("name: A\nskils: []\n", "line 2, column 1"),
            (
                "name: A\nskills:\n  - { name: x, pth: y }\n",
                "line 3, column 16",
            ),
            ("name: A\nskills:\n  - 5\n", "line 2, column 1"),
            ("name: [A\n", "line"),
            ("- name\n", "line 1, column 1"),
        ] {
            let problem = read_yaml_manifest(text).unwrap_err();
            assert!(problem.message.contains(place), "{text}: {problem}");
        }
        let read = read_yaml_manifest("name: A\nenv: { PORT: 8080 }\n").unwrap();
        assert_eq!(read["env"]["PORT"], "8080");
    }
}
