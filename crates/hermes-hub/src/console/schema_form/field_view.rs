//! A form as templates show it: its fields one after the other, with what was typed.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    FieldProblem, FieldShape, Fields, JSON_FIELD, SchemaChoice, SchemaField, SchemaForm,
    read::choice_text,
};

/// A part of a form.
pub(in crate::console) enum FormItem {
    /// Fields that belong together begin here.
    GroupStart {
        label: String,
        description: Option<String>,
    },
    GroupEnd,
    Field(FieldView),
    /// A box for each value of a list.
    Boxes(FieldView, Vec<ChoiceView>),
}

/// A value that can be chosen.
pub(in crate::console) struct ChoiceView {
    /// As the form sends it.
    pub(in crate::console) value: String,
    pub(in crate::console) title: String,
    pub(in crate::console) is_chosen: bool,
}

pub(in crate::console) struct FieldView {
    pub(in crate::console) id: String,
    pub(in crate::console) name: String,
    pub(in crate::console) label: String,
    pub(in crate::console) description: Option<String>,
    /// Whether it must be filled in; within a group that may be left out, it need not.
    pub(in crate::console) is_required: bool,
    pub(in crate::console) control: FieldControl,
    /// What was typed, or what it is without that.
    pub(in crate::console) value: String,
    /// The key of the text that says what is wrong.
    pub(in crate::console) problem: Option<&'static str>,
}

pub(in crate::console) enum FieldControl {
    /// An `input` with its type and its further attributes.
    Input(&'static str, Vec<(&'static str, String)>),
    Text,
    Choice(Vec<ChoiceView>),
    YesNo,
    /// One item a line.
    Lines,
    Json,
}

/// What is shown before anything was typed, and after.
struct FormFill<'f> {
    typed: Option<&'f Fields>,
    problems: &'f BTreeMap<String, FieldProblem>,
    /// What the ids of its fields begin with.
    ids: &'f str,
    items: Vec<FormItem>,
}

/// The form; `typed` has what was sent, if it was.
pub(in crate::console) fn show_items(
    form: &SchemaForm,
    typed: Option<&Fields>,
    problems: &BTreeMap<String, FieldProblem>,
) -> Vec<FormItem> {
    fill_items(form, typed, problems, "field")
}

/// An empty form beside others of the same page: `ids` tells it from them.
pub(in crate::console) fn show_empty(form: &SchemaForm, ids: &str) -> Vec<FormItem> {
    fill_items(form, None, &BTreeMap::new(), ids)
}

fn fill_items(
    form: &SchemaForm,
    typed: Option<&Fields>,
    problems: &BTreeMap<String, FieldProblem>,
    ids: &str,
) -> Vec<FormItem> {
    let mut fill = FormFill {
        typed,
        problems,
        ids,
        items: Vec::new(),
    };
    match &form.fields {
        Some(fields) => fill.show_group(fields, true),
        None => fill.show_json(),
    }
    fill.items
}

impl FormFill<'_> {
    fn show_group(&mut self, fields: &[SchemaField], is_required: bool) {
        for field in fields {
            let label = field
                .title
                .clone()
                .unwrap_or_else(|| field.property.clone());
            if let FieldShape::Group(inner) = &field.shape {
                self.items.push(FormItem::GroupStart {
                    label,
                    description: field.description.clone(),
                });
                self.show_group(inner, is_required && field.is_required);
                self.items.push(FormItem::GroupEnd);
                continue;
            }
            let control = match &field.shape {
                FieldShape::Text(Some(short)) => {
                    FieldControl::Input(short.kind, short.rules.clone())
                }
                FieldShape::Text(None) => FieldControl::Text,
                FieldShape::Number { rules, .. } => FieldControl::Input("number", rules.clone()),
                FieldShape::Choice(choices) => {
                    let chosen = self.typed_value(&field.name).or_else(|| {
                        let default = field.default.as_ref();
                        default.map(choice_text)
                    });
                    let is_chosen = |text: &str| chosen.as_deref() == Some(text);
                    FieldControl::Choice(show_choices(choices, is_chosen))
                }
                FieldShape::YesNo => FieldControl::YesNo,
                FieldShape::Lines(_) => FieldControl::Lines,
                FieldShape::Several(_) | FieldShape::Json | FieldShape::Group(_) => {
                    FieldControl::Json
                }
            };
            let value = match self.typed_value(&field.name) {
                Some(typed) => typed,
                None => field
                    .default
                    .as_ref()
                    .map_or_else(String::new, |default| default_text(default, &field.shape)),
            };
            let shown = self.identified(FieldView {
                id: String::new(),
                name: field.name.clone(),
                label,
                description: field.description.clone(),
                is_required: is_required && field.is_required,
                control,
                value,
                problem: None,
            });
            let item = match &field.shape {
                FieldShape::Several(choices) => {
                    let is_chosen = |text: &str| self.has_ticked(field, text);
                    FormItem::Boxes(shown, show_choices(choices, is_chosen))
                }
                _ => FormItem::Field(shown),
            };
            self.items.push(item);
        }
    }

    /// Whether the box of a value is ticked.
    fn has_ticked(&self, field: &SchemaField, text: &str) -> bool {
        if let Some(fields) = self.typed {
            fields
                .iter()
                .any(|(name, typed)| *name == field.name && typed == text)
        } else {
            let default = field.default.as_ref().and_then(Value::as_array);
            default.is_some_and(|values| values.iter().any(|value| choice_text(value) == text))
        }
    }

    fn show_json(&mut self) {
        let value = self.typed_value(JSON_FIELD);
        let shown = self.identified(FieldView {
            id: String::new(),
            name: JSON_FIELD.to_owned(),
            label: "JSON".to_owned(),
            description: None,
            is_required: false,
            control: FieldControl::Json,
            value: value.unwrap_or_else(|| "{}".to_owned()),
            problem: None,
        });
        self.items.push(FormItem::Field(shown));
    }

    fn identified(&self, mut field: FieldView) -> FieldView {
        // Names come from the server; ids must be plain.
        field.id = format!("{}-{}", self.ids, self.items.len());
        field.problem = self.problems.get(&field.name).map(|problem| problem.text());
        field
    }

    fn typed_value(&self, name: &str) -> Option<String> {
        let fields = self.typed?;
        let mut found = fields.iter().rev().filter(|(found, _)| found == name);
        Some(
            found
                .next()
                .map_or_else(String::new, |(_, value)| value.clone()),
        )
    }
}

fn show_choices(choices: &[SchemaChoice], is_chosen: impl Fn(&str) -> bool) -> Vec<ChoiceView> {
    let shown = choices.iter().map(|choice| {
        let value = choice_text(&choice.value);
        ChoiceView {
            title: choice.title.clone().unwrap_or_else(|| value.clone()),
            is_chosen: is_chosen(&value),
            value,
        }
    });
    shown.collect()
}

fn default_text(default: &Value, shape: &FieldShape) -> String {
    let plain = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    match (shape, default) {
        (FieldShape::Lines(_), Value::Array(items)) => {
            let has_lines = |item: &Value| item.as_str().is_some_and(|text| text.contains('\n'));
            if items.iter().any(has_lines) {
                return default.to_string();
            }
            items.iter().map(plain).collect::<Vec<_>>().join("\n")
        }
        (FieldShape::Json | FieldShape::Lines(_), other) => {
            serde_json::to_string_pretty(other).unwrap_or_default()
        }
        (_, other) => plain(other),
    }
}
