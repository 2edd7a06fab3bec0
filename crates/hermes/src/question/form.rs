//! A form on the terminal: one question per field, then a last look before the answers go out.

use std::{fmt::Write as _, io};

use hermes_agent::server_requests::elicitation::{
    ElicitationAnswer, FieldError, FieldKind, Form, FormChoice, FormField, FormRequest,
};
use serde_json::{Map, Value, json};

use super::{
    checklist::{self, ChecklistItem},
    terminal::{self, Echo},
    write_message,
};

/// What became of one field.
enum FieldAnswer {
    Value(Value),
    Nothing,
    Declined,
    /// The person pressed Ctrl-C, or the question was taken back.
    Left,
}

/// What was typed once.
enum FieldInput {
    Answer(Result<Value, FieldError>),
    Nothing,
}

/// What the person wants to do with the answers.
enum FormDecision {
    Send,
    Edit,
    Decline,
    Left,
}

/// Shows a form and asks for each field.
pub(crate) fn ask_form(request: &FormRequest) -> io::Result<ElicitationAnswer<Map<String, Value>>> {
    write_message(&format!("{}\n", heading(request)))?;
    let mut answers = Map::new();
    loop {
        for field in &request.form.fields {
            let before = answers.remove(&field.name).or(field.default.clone());
            match ask_field(field, before.as_ref())? {
                FieldAnswer::Value(value) => {
                    answers.insert(field.name.clone(), value);
                }
                FieldAnswer::Nothing => {}
                FieldAnswer::Declined => return Ok(ElicitationAnswer::Declined),
                FieldAnswer::Left => return Ok(ElicitationAnswer::Cancelled),
            }
        }
        match confirm_answers(&request.form, request.server.as_str())? {
            FormDecision::Send => return Ok(ElicitationAnswer::Accepted(answers)),
            FormDecision::Edit => {}
            FormDecision::Decline => return Ok(ElicitationAnswer::Declined),
            FormDecision::Left => return Ok(ElicitationAnswer::Cancelled),
        }
    }
}

fn heading(request: &FormRequest) -> String {
    let mut text = format!("\nThe MCP server `{}` asks:\n", request.server);
    for line in request.message.lines() {
        let _ = writeln!(text, "  {line}");
    }
    if request.form.fields.iter().any(|field| field.is_sensitive) {
        let _ = writeln!(
            text,
            "warning: it wants a password, a token or a key; answer only if you trust `{}`",
            request.server
        );
    }
    text + "Ctrl-C leaves without an answer."
}

fn ask_field(field: &FormField, before: Option<&Value>) -> io::Result<FieldAnswer> {
    if let Some(description) = &field.description {
        write_message(&format!("\n{description}\n"))?;
    }
    loop {
        let typed = match &field.kind {
            FieldKind::Several { choices, .. } => select_choices(field, choices, before)?,
            _ => read_field(field, before)?,
        };
        match typed {
            None => return Ok(FieldAnswer::Left),
            Some(FieldInput::Answer(Ok(value))) => return Ok(FieldAnswer::Value(value)),
            Some(FieldInput::Answer(Err(invalid))) => {
                write_message(&format!("{} {invalid}.\n", field.title))?;
            }
            Some(FieldInput::Nothing) if !field.is_required => return Ok(FieldAnswer::Nothing),
            Some(FieldInput::Nothing) => {
                write_message(&format!("{} must be filled in.\n", field.title))?;
                match read_word("Refuse to answer? [y/N] ")?.as_deref() {
                    None => return Ok(FieldAnswer::Left),
                    Some("y" | "yes") => return Ok(FieldAnswer::Declined),
                    Some(_) => {}
                }
            }
        }
    }
}

/// A line. `None`: the person left.
fn read_field(field: &FormField, before: Option<&Value>) -> io::Result<Option<FieldInput>> {
    let echo = if field.is_sensitive {
        Echo::Off
    } else {
        Echo::On
    };
    let line = terminal::read_line(&prompt(field, before), echo)?;
    Ok(line.map(|line| match (line.trim(), before) {
        ("", Some(before)) => FieldInput::Answer(Ok(before.clone())),
        ("", None) => FieldInput::Nothing,
        _ => FieldInput::Answer(field.parse_text(&line)),
    }))
}

/// The line before the cursor, with what is expected and what an empty line stands for.
fn prompt(field: &FormField, before: Option<&Value>) -> String {
    let mut prompt = String::new();
    if let FieldKind::One(choices) = &field.kind {
        let _ = writeln!(prompt, "{}", field.title);
        for (number, choice) in choices.iter().enumerate() {
            let _ = writeln!(prompt, "  {} {}", number + 1, choice.title);
        }
        prompt += "Number or name";
    } else {
        prompt += &field.title;
    }
    let mut notes: Vec<String> = field.kind.describe_expected().into_iter().collect();
    if !field.is_required && before.is_none() {
        notes.push("may be left empty".into());
    }
    if !notes.is_empty() {
        let _ = write!(prompt, " ({})", notes.join(", "));
    }
    if let Some(before) = before {
        let shown = if field.is_sensitive {
            "empty keeps what you typed".to_owned()
        } else {
            field.format_value(before)
        };
        let _ = write!(prompt, " [{shown}]");
    }
    prompt + ": "
}

/// Which of several choices. `None`: the person left.
fn select_choices(
    field: &FormField,
    choices: &[FormChoice],
    before: Option<&Value>,
) -> io::Result<Option<FieldInput>> {
    let items: Vec<ChecklistItem> = choices
        .iter()
        .map(|choice| ChecklistItem {
            name: choice.title.clone(),
            description: String::new(),
        })
        .collect();
    let before = before.and_then(Value::as_array);
    let was_marked = |choice: &FormChoice| {
        before.is_some_and(|values| values.iter().any(|value| *value == choice.value))
    };
    let marked: Vec<usize> = (0..choices.len())
        .filter(|index| was_marked(&choices[*index]))
        .collect();
    let Some(chosen) = checklist::ask_checklist(&field.title, &items, &marked)? else {
        return Ok(None);
    };
    if chosen.is_empty() {
        return Ok(Some(FieldInput::Nothing));
    }
    let values: Vec<&str> = chosen
        .into_iter()
        .map(|index| choices[index].value.as_str())
        .collect();
    let value = json!(values);
    Ok(Some(FieldInput::Answer(
        field.check(&value).map(|()| value),
    )))
}

fn confirm_answers(form: &Form, server: &str) -> io::Result<FormDecision> {
    let question = if form.fields.is_empty() {
        format!("Agree? `{server}` is told so. [y/n] ")
    } else {
        format!("Send this to `{server}`? [y]es, [n]o, [e]dit: ")
    };
    loop {
        match read_word(&question)?.as_deref() {
            None => return Ok(FormDecision::Left),
            Some("y" | "yes") => return Ok(FormDecision::Send),
            Some("n" | "no") => return Ok(FormDecision::Decline),
            Some("e" | "edit") if !form.fields.is_empty() => return Ok(FormDecision::Edit),
            Some(_) => {}
        }
    }
}

/// One word in lower case. `None`: the person left.
pub(super) fn read_word(question: &str) -> io::Result<Option<String>> {
    let line = terminal::read_line(question, Echo::On)?;
    Ok(line.map(|line| line.trim().to_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(schema: &Value) -> FormField {
        let form = Form::from_schema(&json!({"properties": {"x": schema}})).unwrap();
        form.fields.into_iter().next().unwrap()
    }

    #[test]
    fn a_prompt_says_what_is_expected_and_what_an_empty_line_means() {
        let cases = [
            (
                json!({"type": "string", "title": "Name"}),
                "Name (may be left empty): ",
            ),
            (json!({"type": "string", "default": "Ada"}), "x [Ada]: "),
            (
                json!({"type": "integer", "minimum": 0, "maximum": 150, "default": 3}),
                "x (a whole number from 0 to 150) [3]: ",
            ),
            (
                json!({"type": "boolean", "default": true}),
                "x (yes or no) [yes]: ",
            ),
            (
                json!({"type": "string", "format": "date", "default": "2026-01-31"}),
                "x (a date, like 2026-07-28) [2026-01-31]: ",
            ),
            (
                json!({"type": "string", "title": "Size", "default": "l", "oneOf": [
                    {"const": "s", "title": "Small"}, {"const": "l", "title": "Large"},
                ]}),
                "Size\n  1 Small\n  2 Large\nNumber or name [Large]: ",
            ),
        ];
        for (schema, expected) in cases {
            let field = field(&schema);
            assert_eq!(prompt(&field, field.default.as_ref()), expected);
        }
    }

    #[test]
    fn a_secret_typed_before_is_not_shown() {
        let field = field(&json!({"type": "string", "title": "Password"}));
        let prompt = prompt(&field, Some(&json!("hunter22")));
        assert_eq!(prompt, "Password [empty keeps what you typed]: ");
    }
}
