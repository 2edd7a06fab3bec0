use std::time::Duration;

use hermes_agent::server_requests::elicitation::Form;
use hermes_config::ServerName;
use serde_json::json;

use super::*;

const ID: &str = "ap_0123456789ab";

fn open(
    properties: &Value,
    required: &[&str],
    place: FormAudience,
) -> (FormDialogue, OutboundMessage) {
    let schema = json!({"type": "object", "properties": properties, "required": required});
    let request = FormRequest {
        server: ServerName::new("kit"),
        message: "Tell me [x](https://evil.example).".into(),
        form: Form::from_schema(&schema).unwrap(),
        timeout: Duration::from_secs(1),
    };
    FormDialogue::new(ID, request, place)
}

fn direct(properties: &Value, required: &[&str]) -> (FormDialogue, OutboundMessage) {
    open(properties, required, FormAudience::Direct)
}

fn labels(prompt: &OutboundMessage) -> Vec<&str> {
    let buttons = prompt.buttons.iter().flatten();
    buttons.map(|button| button.label.as_str()).collect()
}

#[track_caller]
fn press(dialogue: &mut FormDialogue, prompt: &OutboundMessage, label: &str) -> FormStep {
    let mut buttons = prompt.buttons.iter().flatten();
    let button = buttons.find(|button| button.label == label).unwrap();
    assert!(button.data.len() <= 64, "{}", button.data);
    let pressed = parse_form_button(&button.data).unwrap();
    assert_eq!(pressed.id, ID);
    dialogue.take_press(pressed.step, pressed.action)
}

#[track_caller]
fn asked(step: FormStep) -> OutboundMessage {
    match step {
        FormStep::Ask { prompt, .. } => prompt,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn answers(step: FormStep) -> Value {
    match step {
        FormStep::Complete { answers, .. } => Value::Object(answers),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_yes_or_no_is_answered_by_a_button_or_a_word() {
    let fields = json!({"sure": {"type": "boolean", "default": false}});
    let (mut dialogue, prompt) = direct(&fields, &["sure"]);
    assert_eq!(
        labels(&prompt),
        ["Yes", "No (default)", "Decline", "Cancel"]
    );
    assert!(
        prompt.text.contains("The MCP server \"kit\" asks:"),
        "{}",
        prompt.text
    );
    // A link with another text would not show where it leads.
    assert!(!prompt.text.contains("]("), "{}", prompt.text);
    let done = press(&mut dialogue, &prompt, "Yes");
    assert_eq!(answers(done), json!({"sure": true}));
    assert!(dialogue.is_over());
    let (mut dialogue, _) = direct(&fields, &["sure"]);
    assert_eq!(answers(dialogue.take_text("No.")), json!({"sure": false}));
}

#[test]
fn a_handful_of_choices_are_buttons_and_more_are_a_list() {
    let choices = |count: usize| {
        let names: Vec<String> = (0..count)
            .map(|number| format!("choice {number}"))
            .collect();
        json!({"which": {"type": "string", "enum": names}})
    };
    let (mut dialogue, prompt) = direct(&choices(5), &["which"]);
    assert_eq!(labels(&prompt).len(), 7);
    assert_eq!(
        answers(press(&mut dialogue, &prompt, "choice 3")),
        json!({"which": "choice 3"})
    );
    let (mut dialogue, prompt) = direct(&choices(6), &["which"]);
    assert_eq!(labels(&prompt), ["Decline", "Cancel"]);
    assert!(prompt.text.contains("6. choice 5"), "{}", prompt.text);
    let again = asked(dialogue.take_text("choice 9"));
    assert!(
        again.text.contains("not one of the choices"),
        "{}",
        again.text
    );
    assert_eq!(
        answers(dialogue.take_text("6")),
        json!({"which": "choice 5"})
    );
}

#[test]
fn fields_are_asked_one_after_the_other_until_they_are_right() {
    let fields = json!({
        "age": {"type": "integer", "minimum": 1, "maximum": 150},
        "email": {"type": "string", "format": "email"},
        "note": {"type": "string"},
    });
    let (mut dialogue, prompt) = direct(&fields, &["age", "email"]);
    assert!(
        prompt.text.contains("Question 1 of 3: age"),
        "{}",
        prompt.text
    );
    assert!(
        prompt.text.contains("a whole number from 1 to 150"),
        "{}",
        prompt.text
    );
    let again = asked(dialogue.take_text("old"));
    assert!(
        again.text.starts_with("age must be a whole number."),
        "{}",
        again.text
    );
    let again = asked(dialogue.take_text("151"));
    assert!(
        again.text.starts_with("age must be at most 150."),
        "{}",
        again.text
    );
    // Buttons of a question that was answered do nothing, but a refusal always counts.
    let prompt = asked(dialogue.take_text("36"));
    assert!(
        prompt.text.contains("Question 2 of 3: email"),
        "{}",
        prompt.text
    );
    let again = asked(dialogue.take_text("ada"));
    assert!(again.text.contains("ada@example.com"), "{}", again.text);
    let prompt = asked(dialogue.take_text("ada@example.org"));
    assert_eq!(labels(&prompt), ["Skip", "Decline", "Cancel"]);
    let review = asked(press(&mut dialogue, &prompt, "Skip"));
    assert!(
        review
            .text
            .contains("age: 36\nemail: ada@example.org\nnote: (empty)"),
        "{}",
        review.text
    );
    assert_eq!(press(&mut dialogue, &prompt, "Skip"), FormStep::Outdated);
    assert_eq!(
        answers(press(&mut dialogue, &review, "Send")),
        json!({"age": 36, "email": "ada@example.org"})
    );
}

#[test]
fn several_answers_can_be_given_anew_before_they_are_sent() {
    let fields = json!({"a": {"type": "string"}, "b": {"type": "string"}});
    let (mut dialogue, _) = direct(&fields, &["a", "b"]);
    asked(dialogue.take_text("1"));
    let review = asked(dialogue.take_text("2"));
    asked(dialogue.take_text("what?"));
    assert_eq!(press(&mut dialogue, &review, "Send"), FormStep::Outdated);
    asked(dialogue.take_text("edit"));
    asked(dialogue.take_text("3"));
    asked(dialogue.take_text("4"));
    assert_eq!(
        answers(dialogue.take_text("send")),
        json!({"a": "3", "b": "4"})
    );
}

#[test]
fn defaults_are_offered() {
    let fields = json!({"name": {"type": "string", "default": "Ada"}});
    let (mut dialogue, prompt) = direct(&fields, &["name"]);
    assert_eq!(labels(&prompt), ["Default: Ada", "Decline", "Cancel"]);
    assert_eq!(
        answers(press(&mut dialogue, &prompt, "Default: Ada")),
        json!({"name": "Ada"})
    );
    let (mut dialogue, _) = direct(&fields, &["name"]);
    assert_eq!(
        answers(dialogue.take_text("default")),
        json!({"name": "Ada"})
    );
    let (mut dialogue, _) = direct(&fields, &["name"]);
    assert_eq!(answers(dialogue.take_text("Eve")), json!({"name": "Eve"}));
}

#[test]
fn a_form_is_declined_or_left_at_any_time() {
    let fields = json!({"a": {"type": "string"}, "b": {"type": "string"}});
    for (word, expected) in [
        ("decline", FormStep::Declined),
        ("Cancel.", FormStep::Dismissed),
    ] {
        let (mut dialogue, _) = direct(&fields, &["a"]);
        asked(dialogue.take_text("1"));
        assert_eq!(dialogue.take_text(word), expected);
        assert_eq!(dialogue.take_text("2"), FormStep::Outdated);
    }
    let (mut dialogue, first) = direct(&fields, &["a"]);
    asked(dialogue.take_text("1"));
    assert_eq!(press(&mut dialogue, &first, "Decline"), FormStep::Declined);
    assert_eq!(press(&mut dialogue, &first, "Cancel"), FormStep::Outdated);
    // A choice of that name is a choice.
    let fields = json!({"order": {"type": "string", "enum": ["cancel", "keep"]}});
    let (mut dialogue, _) = direct(&fields, &["order"]);
    assert_eq!(
        answers(dialogue.take_text("cancel")),
        json!({"order": "cancel"})
    );
}

#[test]
fn a_form_without_fields_asks_for_consent() {
    let (mut dialogue, prompt) = direct(&json!({}), &[]);
    assert_eq!(labels(&prompt), ["Agree", "Decline", "Cancel"]);
    assert_eq!(answers(dialogue.take_text("yes")), json!({}));
}

#[test]
fn a_secret_is_flagged_never_repeated_and_left_out_where_others_read() {
    let fields = json!({"a": {"type": "string"}, "token": {"type": "string"}});
    let (mut dialogue, _) = direct(&fields, &["a"]);
    let prompt = asked(dialogue.take_text("1"));
    assert!(
        prompt.text.contains("Warning: this is a password"),
        "{}",
        prompt.text
    );
    let FormStep::Ask { answered, prompt } = dialogue.take_text("hunter22") else {
        panic!("it is over");
    };
    assert!(!prompt.text.contains("hunter22"), "{}", prompt.text);
    assert_eq!(answered.as_deref(), Some("(not shown)"));
    let (mut dialogue, _) = open(&fields, &["a"], FormAudience::Group);
    assert_eq!(answers(dialogue.take_text("1")), json!({"a": "1"}));
}

#[test]
fn other_data_is_no_button_of_a_form() {
    for other in [
        "",
        "ef:",
        "ef:1:y",
        "ef:x:y:ap_1",
        "ef:1:q:ap_1",
        "ef:1:c:ap_1",
        "ea:once:ap_1",
    ] {
        assert_eq!(parse_form_button(other), None, "{other}");
    }
}
