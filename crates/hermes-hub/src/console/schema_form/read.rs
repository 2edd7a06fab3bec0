//! From the fields of a form to arguments.

use std::collections::BTreeMap;

use serde_json::{Map, Number, Value};

use super::{FieldShape, Fields, JSON_FIELD, LineItem, SchemaChoice, SchemaField, SchemaForm};
use crate::console::form_fields::find_field;

/// What is wrong with a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::console) enum FieldProblem {
    Missing,
    NotNumber,
    NotInteger,
    NotBoolean,
    NotChoice,
    NotJson,
    NotObject,
}

impl FieldProblem {
    /// The key of its text.
    pub(in crate::console) fn text(self) -> &'static str {
        match self {
            Self::Missing => "tool.missing",
            Self::NotNumber => "tool.not_number",
            Self::NotInteger => "tool.not_integer",
            Self::NotBoolean => "tool.not_boolean",
            Self::NotChoice => "tool.not_choice",
            Self::NotJson => "tool.not_json",
            Self::NotObject => "tool.not_object",
        }
    }
}

/// What a form says.
#[derive(Debug)]
pub(in crate::console) struct TypedArguments {
    pub(in crate::console) arguments: Map<String, Value>,
    /// By the names of fields.
    pub(in crate::console) problems: BTreeMap<String, FieldProblem>,
}

pub(in crate::console) fn read_arguments(form: &SchemaForm, fields: &Fields) -> TypedArguments {
    let mut problems = BTreeMap::new();
    let arguments = match &form.fields {
        Some(known) => read_group(known, fields, &mut problems).members,
        None => read_json(fields, &mut problems),
    };
    TypedArguments {
        arguments,
        problems,
    }
}

fn read_json(fields: &Fields, problems: &mut BTreeMap<String, FieldProblem>) -> Map<String, Value> {
    let text = find_field(fields, JSON_FIELD).unwrap_or_default().trim();
    if text.is_empty() {
        return Map::new();
    }
    let problem = match serde_json::from_str(text) {
        Ok(Value::Object(arguments)) => return arguments,
        Ok(_) => FieldProblem::NotObject,
        Err(_) => FieldProblem::NotJson,
    };
    problems.insert(JSON_FIELD.to_owned(), problem);
    Map::new()
}

/// The members of a group.
#[derive(Default)]
struct ReadGroup {
    members: Map<String, Value>,
    /// Whether anything was typed: a group that is not required may be left out as a whole.
    is_given: bool,
}

fn read_group(
    known: &[SchemaField],
    fields: &Fields,
    problems: &mut BTreeMap<String, FieldProblem>,
) -> ReadGroup {
    let mut group = ReadGroup::default();
    for field in known {
        if let FieldShape::Group(inner) = &field.shape {
            let mut found = BTreeMap::new();
            let read = read_group(inner, fields, &mut found);
            group.is_given |= read.is_given;
            if read.is_given || field.is_required {
                problems.append(&mut found);
                let members = Value::Object(read.members);
                group.members.insert(field.property.clone(), members);
            }
            continue;
        }
        let read = match &field.shape {
            FieldShape::Several(choices) => read_several(choices, fields, &field.name),
            _ => read_value(field, find_field(fields, &field.name).unwrap_or_default()),
        };
        let problem = match read {
            Ok(Some(value)) => {
                group.is_given = true;
                group.members.insert(field.property.clone(), value);
                continue;
            }
            Ok(None) if field.is_required => FieldProblem::Missing,
            Ok(None) => continue,
            Err(problem) => {
                group.is_given = true;
                problem
            }
        };
        problems.insert(field.name.clone(), problem);
    }
    group
}

/// The boxes that are ticked; none at all is not an answer.
fn read_several(
    choices: &[SchemaChoice],
    fields: &Fields,
    name: &str,
) -> Result<Option<Value>, FieldProblem> {
    let typed = fields.iter().filter(|(field, _)| field == name);
    let typed = typed.map(|(_, typed)| typed.as_str());
    let chosen = typed.filter(|typed| !typed.is_empty());
    let chosen: Result<Vec<Value>, _> = chosen.map(|typed| read_choice(choices, typed)).collect();
    let chosen = chosen?;
    Ok((!chosen.is_empty()).then_some(Value::Array(chosen)))
}

fn read_choice(choices: &[SchemaChoice], typed: &str) -> Result<Value, FieldProblem> {
    let mut choices = choices.iter();
    let found = choices.find(|choice| choice_text(&choice.value) == typed);
    let found = found.ok_or(FieldProblem::NotChoice)?;
    Ok(found.value.clone())
}

fn read_value(field: &SchemaField, typed: &str) -> Result<Option<Value>, FieldProblem> {
    if typed.trim().is_empty() {
        return Ok(None);
    }
    let typed = typed.replace("\r\n", "\n");
    Ok(Some(match &field.shape {
        FieldShape::Text(_) => typed.into(),
        FieldShape::Number { is_integer, .. } => Value::Number(read_number(&typed, *is_integer)?),
        FieldShape::Choice(choices) => read_choice(choices, &typed)?,
        FieldShape::YesNo => match typed.trim() {
            "true" => true.into(),
            "false" => false.into(),
            _ => return Err(FieldProblem::NotChoice),
        },
        FieldShape::Lines(_) if typed.trim_start().starts_with('[') => {
            let listed: Result<Vec<Value>, _> = serde_json::from_str(&typed);
            Value::Array(listed.map_err(|_| FieldProblem::NotJson)?)
        }
        FieldShape::Lines(item) => {
            let lines = typed.lines().filter(|line| !line.trim().is_empty());
            let items: Result<Vec<Value>, _> = lines.map(|line| read_line(line, *item)).collect();
            Value::Array(items?)
        }
        FieldShape::Json | FieldShape::Group(_) | FieldShape::Several(_) => {
            serde_json::from_str(&typed).map_err(|_| FieldProblem::NotJson)?
        }
    }))
}

fn read_line(line: &str, item: LineItem) -> Result<Value, FieldProblem> {
    Ok(match item {
        LineItem::Text => line.into(),
        LineItem::Number => Value::Number(read_number(line, false)?),
        LineItem::Integer => Value::Number(read_number(line, true)?),
        LineItem::Boolean => match line.trim() {
            "true" => true.into(),
            "false" => false.into(),
            _ => return Err(FieldProblem::NotBoolean),
        },
    })
}

fn read_number(typed: &str, is_integer: bool) -> Result<Number, FieldProblem> {
    let typed = typed.trim();
    if is_integer {
        let number = typed.parse::<i64>().map(Number::from);
        let number = number.or_else(|_| typed.parse::<u64>().map(Number::from));
        return number.map_err(|_| FieldProblem::NotInteger);
    }
    // As it was written, where JSON can say it: `5` is not `5.0`.
    if let Ok(number) = serde_json::from_str(typed) {
        return Ok(number);
    }
    let number = typed.parse::<f64>().ok().and_then(Number::from_f64);
    number.ok_or(FieldProblem::NotNumber)
}

/// How a form writes one of several values.
pub(super) fn choice_text(choice: &Value) -> String {
    match choice {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
