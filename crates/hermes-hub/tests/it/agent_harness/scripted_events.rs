//! The events that scripted agents make.

use hermes_protocol::{ApprovalChoice, RequestedForm, RunEvent, TokenUsage};
use serde_json::{Map, Value, json};

pub(super) fn tool_started(preview: &str) -> RunEvent {
    RunEvent::ToolStarted {
        tool: "terminal".to_owned(),
        call_id: "c".to_owned(),
        preview: preview.to_owned(),
    }
}

pub(super) fn tool_completed() -> RunEvent {
    RunEvent::ToolCompleted {
        tool: "terminal".to_owned(),
        call_id: "c".to_owned(),
        duration: 0.5,
        error: false,
    }
}

pub(super) fn approval_request(id: &str, command: &str) -> RunEvent {
    RunEvent::ApprovalRequest {
        approval_id: id.to_owned(),
        command: command.to_owned(),
        description: String::new(),
        choices: ApprovalChoice::ALL.to_vec(),
        form: None,
    }
}

pub(super) fn approval_responded(approval_id: String, choice: ApprovalChoice) -> RunEvent {
    RunEvent::ApprovalResponded {
        approval_id,
        choice,
        outcome: choice.into(),
    }
}

/// A form with this text field, which has to be filled in, and a few others; only those without one.
pub(super) fn form_request(id: &str, field: &str) -> RunEvent {
    let mut schema = json!({
        "type": "object",
        "properties": {
            "age": {"type": "integer", "title": "Your age <b>", "minimum": 0, "maximum": 150, "default": 36},
            "colour": {"type": "string", "oneOf": [{"const": "r", "title": "Red"}, {"const": "b", "title": "Blue"}]},
            "days": {"type": "array", "items": {"type": "string", "enum": ["mo", "tu"]}},
        },
    });
    let mut choices = vec![
        ApprovalChoice::Once,
        ApprovalChoice::Session,
        ApprovalChoice::Deny,
    ];
    if !field.is_empty() {
        schema["required"] = json!([field]);
        schema["properties"][field] = json!({"type": "string", "minLength": 2, "maxLength": 50});
        choices = vec![ApprovalChoice::Deny];
    }
    let Value::Object(schema) = schema else {
        unreachable!("it is an object");
    };
    RunEvent::ApprovalRequest {
        approval_id: id.to_owned(),
        command: "Who are you?\n- Your age <b>: 36".to_owned(),
        description: "the MCP server `people` asks".to_owned(),
        choices,
        form: Some(RequestedForm {
            server: "people".to_owned(),
            message: "Who are you?".to_owned(),
            schema,
            url: None,
        }),
    }
}

/// A page that is to be opened elsewhere.
pub(super) fn page_request(id: &str, url: &str) -> RunEvent {
    RunEvent::ApprovalRequest {
        approval_id: id.to_owned(),
        command: format!("Log in <b>there</b>.\n{url}"),
        description: "the MCP server `people` asks".to_owned(),
        choices: vec![
            ApprovalChoice::Once,
            ApprovalChoice::Session,
            ApprovalChoice::Deny,
        ],
        form: Some(RequestedForm {
            server: "people".to_owned(),
            message: "Log in <b>there</b>.".to_owned(),
            schema: Map::new(),
            url: Some(url.to_owned()),
        }),
    }
}

/// What each script uses.
pub(super) fn tokens() -> TokenUsage {
    TokenUsage {
        input_tokens: 1,
        output_tokens: 2,
        total_tokens: 3,
        cached_tokens: 1,
    }
}

/// An end without an answer, after a model has answered a part.
pub(super) fn after_using(end: RunEvent) -> RunEvent {
    end.after_using(Some(tokens()), Some("scripted".to_owned()))
}

pub(super) fn completed(output: &str) -> RunEvent {
    RunEvent::Completed {
        output: output.to_owned(),
        usage: Some(tokens()),
        model: Some("scripted".to_owned()),
        tool_calls: Vec::new(),
    }
}
