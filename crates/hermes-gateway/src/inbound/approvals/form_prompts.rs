//! What is asked about a form: the texts and buttons of its questions.
//!
//! Texts of servers are sent as plain text, and without the markup of links: an address that is shown is the one that
//! is opened.

use std::fmt::Write as _;

use hermes_agent::server_requests::elicitation::{FieldKind, FormField};
use serde_json::{Value, json};

use super::form_dialogue::{
    FormAction, FormAudience, FormDialogue, FormPosition, button_data, may_be_skipped,
};
use crate::platform::{Button, OutboundMessage, TextFormat};

/// The most choices that are buttons.
const MAX_CHOICE_BUTTONS: usize = 5;
/// Choices in a row: labels are short on a phone.
const CHOICES_PER_ROW: usize = 2;
const MAX_LABEL_CHARS: usize = 40;
/// The longest answer that is repeated, in characters.
const MAX_SHOWN_CHARS: usize = 200;
/// Instead of a secret.
const HIDDEN: &str = "(not shown)";

/// The text of a server without what platforms turn into links with another text.
pub(in crate::inbound) fn without_link_markup(text: &str) -> String {
    text.replace("](", "] (")
}

/// Who asks, and what.
fn heading(dialogue: &FormDialogue) -> String {
    let request = dialogue.request();
    let message = without_link_markup(request.message.trim());
    format!("The MCP server \"{}\" asks:\n{message}\n\n", request.server)
}

pub(in crate::inbound) fn first_prompt(dialogue: &FormDialogue) -> OutboundMessage {
    let mut text = heading(dialogue);
    write_question(&mut text, dialogue);
    build_prompt(text, dialogue)
}

/// The next question, or the same one again because of a problem with the answer.
pub(in crate::inbound) fn next_prompt(
    dialogue: &FormDialogue,
    problem: Option<&str>,
) -> OutboundMessage {
    let mut text = String::new();
    if let Some(problem) = problem {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}.\n", without_link_markup(problem));
    }
    write_question(&mut text, dialogue);
    build_prompt(text, dialogue)
}

fn build_prompt(text: String, dialogue: &FormDialogue) -> OutboundMessage {
    OutboundMessage {
        text,
        format: TextFormat::Plain,
        buttons: buttons(dialogue),
        ..OutboundMessage::default()
    }
}

fn write_question(text: &mut String, dialogue: &FormDialogue) {
    let FormPosition::Field(index) = dialogue.position() else {
        write_review(text, dialogue);
        return;
    };
    let field = &dialogue.request().form.fields[index];
    let count = dialogue.asked_fields().count();
    if count > 1 {
        let before = dialogue.asked_fields().filter(|(place, _)| *place < index);
        let _ = write!(text, "Question {} of {count}: ", before.count() + 1);
    }
    let _ = writeln!(text, "{}", without_link_markup(&field.title));
    if let Some(description) = &field.description {
        let _ = writeln!(text, "{}", without_link_markup(description));
    }
    for (number, choice) in field.choices().iter().enumerate() {
        let title = without_link_markup(&choice.title);
        let _ = writeln!(text, "{}. {title}", number + 1);
    }
    if field.is_sensitive {
        let server = &dialogue.request().server;
        let _ = writeln!(
            text,
            "Warning: this is a password, a token or a key. Servers should not ask for one here, and what you write stays \
             in this chat. Answer only if you trust \"{server}\"."
        );
    }
    let _ = write!(text, "{}", instruction(field, dialogue.place()));
}

/// How the question is answered.
fn instruction(field: &FormField, place: FormAudience) -> String {
    let has_buttons = !button_choices(field).is_empty();
    let mut text = match &field.kind {
        FieldKind::Boolean => "Press a button, or write yes or no.".to_owned(),
        FieldKind::One(_) if has_buttons => {
            "Press a button, or write its number or name.".to_owned()
        }
        FieldKind::One(_) => "Write a number or a name.".to_owned(),
        FieldKind::Several { .. } => "Write numbers or names, with commas between them.".to_owned(),
        FieldKind::Text {
            shortest, longest, ..
        } => match (field.kind.describe_expected(), shortest, longest) {
            (Some(expected), ..) => format!("Write {expected}."),
            (None, Some(least), Some(most)) => {
                format!("Write a text of {least} to {most} characters.")
            }
            (None, Some(least), None) => format!("Write a text of at least {least} characters."),
            (None, None, Some(most)) => format!("Write a text of at most {most} characters."),
            (None, None, None) => "Write a text.".to_owned(),
        },
        kind => match kind.describe_expected() {
            Some(expected) => format!("Write {expected}."),
            None => "Write an answer.".to_owned(),
        },
    };
    if let Some(default) = &field.default {
        let _ = write!(
            text,
            " \"default\" stands for {}.",
            shown_answer(field, Some(default))
        );
    } else if may_be_skipped(field) {
        text += " \"skip\" leaves it empty.";
    }
    if place == FormAudience::Group {
        text += " Reply to this message, so that I see it.";
    }
    text + " \"decline\" refuses, \"cancel\" leaves it."
}

fn write_review(text: &mut String, dialogue: &FormDialogue) {
    let server = &dialogue.request().server;
    if dialogue.asked_fields().next().is_none() {
        let _ = write!(
            text,
            "Do you agree? \"{server}\" is told so. Press a button, or write yes or no."
        );
        return;
    }
    let _ = writeln!(text, "Send this to \"{server}\"?");
    for (_, field) in dialogue.asked_fields() {
        let answer = shown_answer(field, dialogue.answer(field));
        let _ = writeln!(text, "{}: {answer}", without_link_markup(&field.title));
    }
    *text += "Press a button, or write yes, no or edit.";
}

/// An answer as it is repeated. Secrets are not.
pub(in crate::inbound) fn shown_answer(field: &FormField, value: Option<&Value>) -> String {
    match value {
        None => "(empty)".to_owned(),
        Some(_) if field.is_sensitive => HIDDEN.to_owned(),
        Some(value) => shorten(&field.format_value(value), MAX_SHOWN_CHARS),
    }
}

/// The answers that are buttons, with their labels: those of a yes or no, and of a handful of choices.
pub(in crate::inbound) fn button_choices(field: &FormField) -> Vec<(String, Value)> {
    let choices: Vec<(String, Value)> = match &field.kind {
        FieldKind::Boolean => vec![("Yes".into(), json!(true)), ("No".into(), json!(false))],
        FieldKind::One(choices) if choices.len() <= MAX_CHOICE_BUTTONS => choices
            .iter()
            .map(|choice| (choice.title.clone(), json!(choice.value)))
            .collect(),
        _ => Vec::new(),
    };
    let label = |(label, value): (String, Value)| {
        let mut label = shorten(&label, MAX_LABEL_CHARS);
        if label.trim().is_empty() {
            // Platforms refuse a button without a label.
            "(empty)".clone_into(&mut label);
        }
        if field.default.as_ref() == Some(&value) {
            label += " (default)";
        }
        (label, value)
    };
    choices.into_iter().map(label).collect()
}

fn buttons(dialogue: &FormDialogue) -> Vec<Vec<Button>> {
    let button = |label: &str, action| Button {
        label: label.to_owned(),
        data: button_data(dialogue.id(), dialogue.step(), action),
        is_link: false,
    };
    let mut rows = Vec::new();
    match dialogue.position() {
        FormPosition::Field(index) => {
            let field = &dialogue.request().form.fields[index];
            let choices: Vec<Button> = button_choices(field)
                .iter()
                .enumerate()
                .map(|(index, (label, _))| button(label, FormAction::Choose(index)))
                .collect();
            rows.extend(choices.chunks(CHOICES_PER_ROW).map(<[Button]>::to_vec));
            if let Some(default) = field.default.as_ref().filter(|_| choices.is_empty()) {
                let shown = shorten(&shown_answer(field, Some(default)), MAX_LABEL_CHARS);
                rows.push(vec![button(
                    &format!("Default: {shown}"),
                    FormAction::UseDefault,
                )]);
            } else if may_be_skipped(field) {
                rows.push(vec![button("Skip", FormAction::Skip)]);
            }
        }
        FormPosition::Review if dialogue.asked_fields().next().is_none() => {
            rows.push(vec![button("Agree", FormAction::Send)]);
        }
        FormPosition::Review => rows.push(vec![
            button("Send", FormAction::Send),
            button("Start over", FormAction::StartOver),
        ]),
        FormPosition::Over => return Vec::new(),
    }
    rows.push(vec![
        button("Decline", FormAction::Decline),
        button("Cancel", FormAction::Dismiss),
    ]);
    rows
}

fn shorten(text: &str, most: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= most {
        return line;
    }
    line.chars().take(most - 1).chain(['…']).collect()
}
