//! Translates an agent's events to the Hub's: member names as in the rest of `/v1`, without secrets.

use hermes_config::Redactor;
use serde_json::{Map, Value};

use crate::{
    api_types::{RunError, RunUsage},
    tenants::runtime::AgentEvent,
};

/// Known event names. Others are dropped.
const KNOWN_EVENTS: [&str; 11] = [
    "run.started",
    "run.requeued",
    "message.delta",
    "tool.started",
    "tool.completed",
    "reasoning.available",
    "approval.request",
    "approval.responded",
    "run.completed",
    "run.failed",
    "run.cancelled",
];

const HUB_MEMBERS: [&str; 5] = ["id", "event", "run_id", "time", "timestamp"];

/// Name and members of an event, if it is known.
pub(super) fn translate_event(
    event: &AgentEvent,
    redactor: &Redactor,
) -> Option<(&'static str, Map<String, Value>)> {
    let name = event.body.get("event").and_then(Value::as_str)?;
    let name = KNOWN_EVENTS.into_iter().find(|known| *known == name)?;
    let members = event
        .body
        .iter()
        .filter(|(member, _)| !HUB_MEMBERS.contains(&member.as_str()))
        .map(|(member, value)| {
            let value = match (member.as_str(), value) {
                ("usage", Value::Object(usage)) => Value::Object(
                    usage
                        .iter()
                        .map(|(member, count)| (camel_case(member), count.clone()))
                        .collect(),
                ),
                _ => redact_value(value, redactor),
            };
            (camel_case(member), value)
        })
        .collect();
    Some((name, members))
}

fn redact_value(value: &Value, redactor: &Redactor) -> Value {
    match value {
        Value::String(text) => redactor.redact(text).into_owned().into(),
        Value::Array(items) => items
            .iter()
            .map(|item| redact_value(item, redactor))
            .collect(),
        Value::Object(members) => members
            .iter()
            .map(|(member, value)| (member.clone(), redact_value(value, redactor)))
            .collect(),
        other => other.clone(),
    }
}

fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let mut result = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut letters = word.chars();
        if let Some(first) = letters.next() {
            result.extend(first.to_uppercase());
            result.push_str(letters.as_str());
        }
    }
    result
}

/// Replaces the home's path by `~` in the reason of a failure.
pub(super) fn hide_home(members: &mut Map<String, Value>, home: &str) {
    let hide = |text: &mut Value| {
        if let Value::String(text) = text {
            *text = text.replace(home, "~");
        }
    };
    match members.get_mut("error") {
        Some(Value::Object(error)) => error.values_mut().for_each(hide),
        Some(error) => hide(error),
        None => {}
    }
}

pub(super) fn parse_usage(members: &Map<String, Value>) -> Option<RunUsage> {
    serde_json::from_value(members.get("usage")?.clone()).ok()
}

pub(super) fn parse_error(members: &Map<String, Value>) -> RunError {
    let error = members.get("error").unwrap_or(&Value::Null);
    let text = |member: &str| error.get(member).and_then(Value::as_str);
    RunError {
        code: text("code").unwrap_or("agent_error").to_owned(),
        message: text("message")
            .or(error.as_str())
            .unwrap_or("the agent gave no reason")
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn translated(body: &Value) -> Option<(&'static str, Value)> {
        let redactor = Redactor::new([String::from("hunter2hunter2").into()]);
        let event = AgentEvent {
            sequence: 1,
            body: body.as_object().unwrap().clone(),
        };
        translate_event(&event, &redactor).map(|(name, members)| (name, Value::Object(members)))
    }

    #[test]
    fn members_get_the_hubs_names_and_lose_secrets() {
        let (name, members) = translated(&json!({
            "event": "tool.started", "run_id": "run_1", "timestamp": 1.5, "id": 9,
            "tool": "terminal", "call_id": "c1", "preview": "curl -H hunter2hunter2"
        }))
        .unwrap();
        assert_eq!(name, "tool.started");
        assert_eq!(members["callId"], "c1");
        assert!(!members.to_string().contains("hunter2hunter2"), "{members}");
        assert_eq!(members.as_object().unwrap().len(), 3);
    }

    #[test]
    fn usage_is_read_as_the_run_shows_it() {
        let (_, members) = translated(&json!({
            "event": "run.completed", "output": "x",
            "usage": {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
        }))
        .unwrap();
        let usage = parse_usage(members.as_object().unwrap()).unwrap();
        assert_eq!((usage.input_tokens, usage.total_tokens), (1, 3));
    }

    #[test]
    fn what_no_run_has_is_left_out() {
        assert!(translated(&json!({"event": "gap"})).is_none());
        assert!(translated(&json!({"delta": "x"})).is_none());
    }

    #[test]
    fn a_failure_does_not_say_where_the_home_is() {
        for error in [
            json!("`/srv/hub/a/home/state.db`: locked"),
            json!({"code": "x", "message": "/srv/hub/a/home/b"}),
        ] {
            let mut members = json!({"error": error}).as_object().unwrap().clone();
            hide_home(&mut members, "/srv/hub/a/home");
            let text = Value::Object(members).to_string();
            assert!(text.contains("~/") && !text.contains("/srv"), "{text}");
        }
    }

    #[test]
    fn an_error_is_read_as_text_or_as_object() {
        let members = json!({"error": {"code": "interrupted", "message": "m"}});
        let read = parse_error(members.as_object().unwrap());
        assert_eq!(
            (read.code.as_str(), read.message.as_str()),
            ("interrupted", "m")
        );
        let members = json!({"error": "m"});
        assert_eq!(parse_error(members.as_object().unwrap()).message, "m");
    }
}
