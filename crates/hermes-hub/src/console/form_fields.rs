//! The fields of a form as arguments of an operation, typed by its schema.
//!
//! A field has the name of an argument, or `argument.member` for a member of an object. Empty fields are left out. What
//! else a form can say about a field stands in a field of its own, with a mark behind the name:
//!
//! - `name:text`: its value is the text itself, also where JSON would be read.
//! - `name:empty`: an empty field is an empty text (or list).
//! - `name:null`: an empty field is `null`.
//! - `name:was`: the value that was shown; a field that still has it is left out.
//! - `name:times`: a number is multiplied by this, for units.
//! - `name:pairs`: its text is an object, one `name = value` a line; members that `name:was` lists, one a line, and the
//!   text does not, are `null`.
//! - `name:text`: its text is a text, whatever it looks like; `name:lines`: a list of texts, one a line. For members of
//!   objects whose schema does not say it.
//! - `name:whole`: its text is a whole object, of which this one was shown; the argument is the merge patch between them.
//! - `name:content` with `name:path`, once or several times: a list of files.
//! - `name:schedule`: the kind of a schedule, made of the fields of the schedule editor ([`super::schedule_form`]).

use serde_json::{Map, Value, json};

use super::{schedule_form, texts::Texts};
use crate::{
    Problem,
    operations::{ArgumentKind, Operation},
};

pub(super) type Fields = Vec<(String, String)>;

/// The last value of a field, if it is not empty.
pub(super) fn find_field<'f>(fields: &'f Fields, name: &str) -> Option<&'f str> {
    let mut found = fields.iter().rev().filter(|(found, _)| found == name);
    found
        .next()
        .map(|(_, value)| value.as_str())
        .filter(|value| !value.is_empty())
}

pub(super) fn read_arguments(
    operation: &Operation,
    fields: &Fields,
    texts: &'static Texts,
) -> Result<Map<String, Value>, Problem> {
    let mut arguments = Map::new();
    for argument in &operation.input.arguments {
        let place = ArgumentField {
            name: &argument.name,
            shown: &argument.rest_name,
            kind: argument.kind,
            schema: &argument.schema,
            texts,
        };
        if let Some(value) = read_value(&place, fields)? {
            arguments.insert(argument.name.clone(), value);
        }
    }
    Ok(arguments)
}

/// An argument, or a member of one.
struct ArgumentField<'p> {
    /// As fields have it.
    name: &'p str,
    /// As problems have it.
    shown: &'p str,
    kind: ArgumentKind,
    schema: &'p Value,
    /// For what is wrong.
    texts: &'static Texts,
}

fn read_value(place: &ArgumentField<'_>, fields: &Fields) -> Result<Option<Value>, Problem> {
    let marked = |mark: &str| {
        let mut fields = fields.iter();
        let found = fields.find(|(name, _)| {
            name.strip_prefix(place.name)
                .and_then(|rest| rest.strip_prefix(':'))
                == Some(mark)
        });
        found.map(|(_, value)| value.as_str())
    };
    if let Some(kind) = marked("schedule") {
        let schedule = schedule_form::compose(place.name, kind, fields, place.texts)?;
        let schedule = schedule.filter(|schedule| marked("was") != Some(schedule));
        return Ok(schedule.map(Value::from));
    }
    if let Some(text) = marked("text") {
        let text = text.replace("\r\n", "\n");
        return Ok((!text.trim().is_empty()).then_some(Value::String(text)));
    }
    if let Some(was) = marked("whole") {
        return read_whole(place, find_field(fields, place.name).unwrap_or("{}"), was);
    }
    if let Some(text) = marked("pairs") {
        return read_pairs(place, text, marked("was").unwrap_or_default());
    }
    if let Some(text) = marked("text") {
        let text = text.trim();
        return Ok((!text.is_empty()).then(|| text.into()));
    }
    if marked("content").is_some() {
        return Ok(Some(read_files(place.name, fields)));
    }
    if let Some(text) = marked("lines") {
        let items = text.lines().map(str::trim).filter(|item| !item.is_empty());
        let items: Vec<Value> = items.map(Value::from).collect();
        return Ok((!items.is_empty()).then_some(Value::Array(items)));
    }
    let values: Vec<&str> = fields
        .iter()
        .filter(|(name, _)| name == place.name)
        .map(|(_, value)| value.as_str())
        .collect();
    if values.is_empty() {
        return read_members(place, fields);
    }
    if let (Some(was), [value]) = (marked("was"), values.as_slice())
        && value.replace("\r\n", "\n") == was.replace("\r\n", "\n")
    {
        return Ok(None);
    }
    let is_empty = values.iter().all(|value| value.trim().is_empty());
    if is_empty && marked("null").is_some() {
        return Ok(Some(Value::Null));
    }
    if is_empty && marked("empty").is_none() {
        return Ok(None);
    }
    let value = read_typed(place, &values)?;
    match (
        marked("times").and_then(|unit| unit.parse().ok()),
        value.as_i64(),
    ) {
        (Some(unit), Some(number)) => Ok(Some(number.saturating_mul(unit).into())),
        _ => Ok(Some(value)),
    }
}

/// Files with their texts, each of which has a path of its own.
fn read_files(name: &str, fields: &Fields) -> Value {
    let all = |mark: &'static str| {
        fields.iter().filter_map(move |(field, value)| {
            let found = field.strip_prefix(name)?.strip_prefix(':')?;
            (found == mark).then_some(value)
        })
    };
    let files = all("path").zip(all("content"));
    files
        .map(|(path, content)| json!({"path": path, "content": content.replace("\r\n", "\n")}))
        .collect()
}

/// A whole object as the merge patch that makes it of the one that was shown.
fn read_whole(place: &ArgumentField<'_>, text: &str, was: &str) -> Result<Option<Value>, Problem> {
    let parse = |text: &str| serde_json::from_str::<Map<String, Value>>(text);
    let wanted = parse(text).map_err(|error| place.wrong_json(&error))?;
    let before = parse(was).unwrap_or_default();
    Ok(Some(Value::Object(merge_patch(&before, &wanted))))
}

fn merge_patch(before: &Map<String, Value>, after: &Map<String, Value>) -> Map<String, Value> {
    let gone = before.keys().filter(|name| !after.contains_key(*name));
    let mut patch: Map<String, Value> = gone.map(|name| (name.clone(), Value::Null)).collect();
    for (name, value) in after {
        match (before.get(name), value) {
            (Some(old), new) if old == new => {}
            (Some(Value::Object(old)), Value::Object(new)) => {
                patch.insert(name.clone(), merge_patch(old, new).into());
            }
            _ => {
                patch.insert(name.clone(), value.clone());
            }
        }
    }
    patch
}

/// An object whose members have fields of their own.
fn read_members(place: &ArgumentField<'_>, fields: &Fields) -> Result<Option<Value>, Problem> {
    if !matches!(place.kind, ArgumentKind::Object | ArgumentKind::Any) {
        return Ok(None);
    }
    let mut members = Map::new();
    for (field, _) in fields {
        let Some(rest) = field
            .strip_prefix(place.name)
            .and_then(|rest| rest.strip_prefix('.'))
        else {
            continue;
        };
        let member = rest.split(['.', ':']).next().unwrap_or(rest);
        if member.is_empty() || members.contains_key(member) {
            continue;
        }
        let name = format!("{}.{member}", place.name);
        let shown = format!("{}.{member}", place.shown);
        let schema = member_schema(place.schema, member);
        let inner = ArgumentField {
            name: &name,
            shown: &shown,
            kind: kind_of(schema),
            schema,
            texts: place.texts,
        };
        if let Some(value) = read_value(&inner, fields)? {
            members.insert(member.to_owned(), value);
        }
    }
    Ok((!members.is_empty()).then_some(Value::Object(members)))
}

/// The schema of a member; that of one which may be absent lies deeper.
fn member_schema<'s>(schema: &'s Value, member: &str) -> &'s Value {
    let choices = schema["anyOf"].as_array().into_iter().flatten();
    let mut found = std::iter::once(schema).chain(choices);
    found
        .find_map(|schema| schema.get("properties")?.get(member))
        .unwrap_or(&Value::Null)
}

fn kind_of(schema: &Value) -> ArgumentKind {
    let word = match &schema["type"] {
        Value::Array(words) => words
            .iter()
            .filter_map(Value::as_str)
            .find(|word| *word != "null"),
        word => word.as_str(),
    };
    match word {
        Some("string") => ArgumentKind::Text,
        Some("integer") => ArgumentKind::Integer,
        Some("boolean") => ArgumentKind::Boolean,
        Some("array") => ArgumentKind::List,
        Some("object") => ArgumentKind::Object,
        _ => ArgumentKind::Any,
    }
}

fn read_typed(place: &ArgumentField<'_>, values: &[&str]) -> Result<Value, Problem> {
    // A box that is not ticked is not sent: a hidden field before it says `false`.
    let last = values.last().copied().unwrap_or_default();
    let wrong = |key: &str| place.wrong(key);
    Ok(match place.kind {
        ArgumentKind::Text => last.replace("\r\n", "\n").into(),
        ArgumentKind::Integer => {
            let number: i64 = last.trim().parse().map_err(|_| wrong("field.integer"))?;
            number.into()
        }
        ArgumentKind::Boolean => matches!(last, "true" | "on" | "1").into(),
        ArgumentKind::List if values.len() == 1 && last.trim_start().starts_with('[') => {
            serde_json::from_str(last).map_err(|_| wrong("field.list"))?
        }
        ArgumentKind::List => {
            let items = values.iter().flat_map(|value| value.lines());
            let items = items.map(str::trim).filter(|item| !item.is_empty());
            items.map(Value::from).collect()
        }
        ArgumentKind::Object => {
            let object = serde_json::from_str::<Map<String, Value>>(last);
            // The reason has the line and the column.
            Value::Object(object.map_err(|error| place.wrong_json(&error))?)
        }
        ArgumentKind::Any => serde_json::from_str(last).unwrap_or_else(|_| last.into()),
    })
}

/// Without any, nothing is to be changed.
fn read_pairs(place: &ArgumentField<'_>, text: &str, was: &str) -> Result<Option<Value>, Problem> {
    let names = was.lines().map(str::trim).filter(|name| !name.is_empty());
    let mut members: Map<String, Value> =
        names.map(|name| (name.to_owned(), Value::Null)).collect();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (name, value) = line
            .split_once('=')
            .ok_or_else(|| place.wrong("field.pairs"))?;
        members.insert(name.trim().to_owned(), value.trim().into());
    }
    Ok((!members.is_empty()).then_some(Value::Object(members)))
}

impl ArgumentField<'_> {
    /// What is wrong with the field, by the key of its text.
    fn wrong(&self, key: &str) -> Problem {
        let message = self.texts.fill(key, self.shown);
        Problem::invalid(message.clone()).with_detail(self.shown.to_owned(), message)
    }

    fn wrong_json(&self, error: &serde_json::Error) -> Problem {
        let mut problem = self.wrong("field.object");
        problem.message = format!("{} ({error})", problem.message);
        problem
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operations::table;

    fn english() -> &'static Texts {
        Texts::in_language("en").unwrap()
    }

    fn arguments(operation: &str, fields: &[(&str, &str)]) -> Value {
        let row = table().find(operation).unwrap();
        let fields = fields.iter();
        let fields: Fields = fields
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        Value::Object(read_arguments(row, &fields, english()).unwrap())
    }

    #[test]
    fn fields_become_arguments_of_their_kind() {
        let read = arguments(
            "create_tenant",
            &[
                ("id", "acme"),
                ("displayName", ""),
                ("start", "false"),
                ("start", "on"),
                ("groups", "[{\"id\": \"g\", \"access\": \"rw\"}]"),
                ("csrf", "x"),
            ],
        );
        assert_eq!(
            read,
            json!({"id": "acme", "start": true, "groups": [{"id": "g", "access": "rw"}]})
        );
    }

    #[test]
    fn members_have_fields_of_their_own() {
        let read = arguments(
            "create_tenant",
            &[
                ("agent.model", "openai/gpt-5"),
                ("agent.timezone", ""),
                ("agent.maxConcurrentRuns", "3"),
                ("storage.quotaBytes", ""),
            ],
        );
        assert_eq!(
            read,
            json!({"agent": {"model": "openai/gpt-5", "maxConcurrentRuns": 3}})
        );
    }

    #[test]
    fn an_empty_field_can_be_null_or_an_empty_text() {
        let read = arguments(
            "update_tenant",
            &[
                ("tenant_id", "a"),
                ("displayName", ""),
                ("displayName:null", ""),
                ("agent.model", ""),
                ("agent.model:null", ""),
            ],
        );
        let wanted = json!({"tenant_id": "a", "displayName": null, "agent": {"model": null}});
        assert_eq!(read, wanted);
        let units = [
            ("storage.quotaBytes", "5"),
            ("storage.quotaBytes:times", "1024"),
        ];
        assert_eq!(
            arguments("update_tenant", &units),
            json!({"storage": {"quotaBytes": 5120}})
        );
        let unchanged = [("flavor", "standard"), ("flavor:was", "standard")];
        assert_eq!(arguments("update_tenant", &unchanged), json!({}));
        let changed = [("flavor", "large"), ("flavor:was", "standard")];
        assert_eq!(
            arguments("update_tenant", &changed),
            json!({"flavor": "large"})
        );
        let read = arguments("put_soul", &[("content", ""), ("content:empty", "")]);
        assert_eq!(read, json!({"content": ""}));
    }

    #[test]
    fn a_text_is_taken_as_it_is_where_json_would_be_read() {
        let read = arguments("create_run", &[("input:text", "[1,\r\n2]")]);
        assert_eq!(read, json!({"input": "[1,\n2]"}));
        let read = arguments("create_run", &[("input:text", " ")]);
        assert_eq!(read, json!({}));
    }

    #[test]
    fn members_without_a_schema_say_what_they_are() {
        let read = arguments(
            "put_mcp_server",
            &[
                ("server", "time"),
                ("config.command:text", "true"),
                ("config.args:lines", "-n\r\n5\r\n\r\n"),
                ("config.env:pairs", ""),
                ("config.url:text", " "),
            ],
        );
        let wanted = json!({"server": "time", "config": {"command": "true", "args": ["-n", "5"]}});
        assert_eq!(read, wanted);
        let fields = [("files:path", "SKILL.md"), ("files:content", "a\r\nb")];
        let wanted = json!({"files": [{"path": "SKILL.md", "content": "a\nb"}]});
        assert_eq!(arguments("put_skill", &fields), wanted);
    }

    #[test]
    fn pairs_that_are_gone_from_the_text_are_removed() {
        let read = arguments(
            "update_tenant",
            &[
                ("labels:pairs", "plan = gold\r\n\r\nregion=eu=west"),
                ("labels:was", "plan\nold"),
            ],
        );
        let wanted = json!({"labels": {"plan": "gold", "old": null, "region": "eu=west"}});
        assert_eq!(read, wanted);
    }

    #[test]
    fn a_whole_object_becomes_the_patch_that_makes_it() {
        let row = crate::operations::table()
            .find("patch_tenant_impact_config")
            .unwrap();
        let was = r#"{"a": {"x": 1, "y": 2}, "b": 1, "c": [1]}"#;
        let now = r#"{"a": {"x": 1, "z": 3}, "c": [1], "d": {"e": true}}"#;
        let fields: Fields = vec![
            ("patch".to_owned(), now.to_owned()),
            ("patch:whole".to_owned(), was.to_owned()),
        ];
        let arguments = read_arguments(row, &fields, english()).unwrap();
        let wanted = serde_json::json!({"a": {"y": null, "z": 3}, "b": null, "d": {"e": true}});
        assert_eq!(arguments["patch"], wanted);
    }
}
