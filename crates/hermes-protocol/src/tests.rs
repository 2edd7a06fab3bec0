//! Nothing that is read here is taken with a member that is unknown, missing or of another type.

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

use super::*;

/// The places of all members of a document, arrays and their items included.
fn places(document: &Value) -> Vec<String> {
    let within = |place: String, value: &Value| {
        let below = places(value)
            .into_iter()
            .map(|below| place.clone() + &below);
        below.chain([place.clone()]).collect::<Vec<_>>()
    };
    match document {
        Value::Object(members) => members
            .iter()
            .flat_map(|(name, value)| within(format!("/{name}"), value))
            .collect(),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .flat_map(|(at, value)| within(format!("/{at}"), value))
            .collect(),
        _ => Vec::new(),
    }
}

fn parent<'a>(document: &'a mut Value, place: &'a str) -> (&'a mut Value, &'a str) {
    let (above, name) = place.rsplit_once('/').unwrap();
    (document.pointer_mut(above).unwrap(), name)
}

/// Other types than this value's.
fn other_types(value: &Value) -> Vec<Value> {
    let all = [
        json!(-0.5),
        json!([{}]),
        json!({"a": 1}),
        json!(true),
        json!("?"),
    ];
    let is_same = |other: &Value| std::mem::discriminant(other) == std::mem::discriminant(value);
    all.into_iter().filter(|other| !is_same(other)).collect()
}

/// Members in which null stands for none, but has to be there.
const NULLABLE: [&str; 3] = ["/session_id", "/usage", "/model"];

/// Tries every fault at every place, except in members whose content is free, and missing ones that are optional.
fn assert_closed<T: Serialize + DeserializeOwned>(whole: &T, optional: &[&str], free: &[&str]) {
    let whole = serde_json::to_value(whole).unwrap();
    let is_taken = |document: &Value| serde_json::from_value::<T>(document.clone()).is_ok();
    assert!(is_taken(&whole), "{whole}");
    let is_free = |place: &str| free.iter().any(|free| place.starts_with(free));
    for place in places(&whole) {
        if is_free(&place) && !free.contains(&place.as_str()) {
            continue;
        }
        let value = whole.pointer(&place).unwrap();
        let mut without = whole.clone();
        if let (Value::Object(members), name) = parent(&mut without, &place) {
            members.shift_remove(name);
            let may_miss = optional.contains(&place.as_str());
            assert_eq!(is_taken(&without), may_miss, "without {place}: {without}");
        }
        let nullable = NULLABLE.contains(&place.as_str()) || optional.contains(&place.as_str());
        for other in other_types(value) {
            if value.is_null() && other.is_string() || is_free(&place) {
                continue;
            }
            let mut changed = whole.clone();
            *changed.pointer_mut(&place).unwrap() = other;
            assert!(!is_taken(&changed), "{place}: {changed}");
        }
        if !nullable && !is_free(&place) {
            let mut changed = whole.clone();
            *changed.pointer_mut(&place).unwrap() = Value::Null;
            assert!(!is_taken(&changed), "{place} is null");
        }
        if value.is_object() && !is_free(&place) {
            let mut more = whole.clone();
            more.pointer_mut(&place).unwrap()["unknown"] = json!(1);
            assert!(!is_taken(&more), "{more}");
        }
    }
    let mut more = whole.clone();
    more["unknown"] = json!(null);
    assert!(!is_taken(&more), "{more}");
}

#[test]
fn directives_are_taken_only_complete() {
    for policy in [Policy::unrestricted(), Policy::closed()] {
        let mut directives = Directives::new(policy);
        directives.feature = Map::from_iter([("any".to_owned(), json!({"thing": 1}))]);
        assert_closed(&directives, &[], &["/feature"]);
    }
    for nothing in [json!({}), json!({"policy": {}}), json!(null)] {
        assert!(serde_json::from_value::<Directives>(nothing).is_err());
    }
}

#[test]
fn zero_is_not_a_limit_of_runs_or_of_time() {
    let whole = serde_json::to_value(Directives::new(Policy::unrestricted())).unwrap();
    for place in [
        "/policy/runs/maxConcurrent",
        "/policy/runs/maxMinutes",
        "/policy/approvals/timeoutSeconds",
        "/approval_timeout_seconds",
        "/policy/version",
    ] {
        let mut changed = whole.clone();
        *changed.pointer_mut(place).unwrap() = json!(0);
        assert!(
            serde_json::from_value::<Directives>(changed).is_err(),
            "{place}"
        );
    }
}

#[test]
fn a_prompt_has_its_input_and_nothing_unknown() {
    let prompt = PromptInput {
        input: json!("Hi"),
        session_id: Some("s".into()),
        ..PromptInput::default()
    };
    assert_closed(&prompt, &["/session_id"], &["/input"]);
    assert_eq!(
        serde_json::to_value(&prompt).unwrap(),
        json!({"input": "Hi", "session_id": "s"})
    );
    for wrong in [json!({"input": "Hi", "sessionId": "s"}), json!({})] {
        assert!(serde_json::from_value::<PromptInput>(wrong).is_err());
    }
}

#[test]
fn a_decision_names_its_choice_and_its_approval_or_none() {
    let decision = ApprovalDecision {
        choice: ApprovalChoice::Once,
        approval_id: Some("a".into()),
        all: false,
        reason: Some("r".into()),
        content: Some(Map::from_iter([("any".to_owned(), json!(1))])),
        cancel: true,
    };
    let optional = ["/approval_id", "/all", "/reason", "/content", "/cancel"];
    assert_closed(&decision, &optional, &["/content"]);
    for wrong in [json!("a"), json!([]), json!(5)] {
        let wrong = json!({"choice": "once", "content": wrong});
        assert!(serde_json::from_value::<ApprovalDecision>(wrong).is_err());
    }
    let bare = serde_json::to_value(ApprovalDecision::new(ApprovalChoice::Deny)).unwrap();
    // An agent that knows no forms takes it.
    assert!(bare.get("content").is_none() && bare.get("cancel").is_none());
    let read = |choice: &str| serde_json::from_value::<ApprovalDecision>(json!({"choice": choice}));
    for (word, choice) in [
        ("once", ApprovalChoice::Once),
        (" Approve", ApprovalChoice::Once),
        ("allow", ApprovalChoice::Once),
        ("session", ApprovalChoice::Session),
        ("always", ApprovalChoice::Always),
        ("DENY", ApprovalChoice::Deny),
    ] {
        assert_eq!(read(word).unwrap().choice, choice);
    }
    for word in ["", "yes", "perhaps"] {
        assert!(read(word).is_err(), "{word}");
    }
    // A name in another spelling must not decide about another approval.
    let wrong = json!({"choice": "once", "approvalId": "a"});
    assert!(serde_json::from_value::<ApprovalDecision>(wrong).is_err());
}

fn text(text: &str) -> String {
    text.to_owned()
}

/// Each event with every member.
#[expect(clippy::too_many_lines, reason = "a table of all events")]
fn events() -> Vec<(RunEvent, &'static [&'static str])> {
    let failure = RunFailure {
        code: text("c"),
        message: text("m"),
    };
    vec![
        (
            RunEvent::Started {
                session_id: Some(text("s")),
            },
            &[],
        ),
        (
            RunEvent::Requeued {
                attempt: 2,
                reason: text("r"),
                message: Some(text("m")),
            },
            &["/message"],
        ),
        (
            RunEvent::MessageDelta {
                delta: text("d"),
                joined: Some(3),
            },
            &["/joined"],
        ),
        (
            RunEvent::ToolStarted {
                tool: text("t"),
                call_id: text("c"),
                preview: text("p"),
            },
            &[],
        ),
        (
            RunEvent::ToolCompleted {
                tool: text("t"),
                call_id: text("c"),
                duration: 0.5,
                error: true,
            },
            &[],
        ),
        (RunEvent::ReasoningAvailable { text: text("t") }, &[]),
        (
            RunEvent::ApprovalRequest {
                approval_id: text("a"),
                command: text("c"),
                description: text("d"),
                choices: vec![ApprovalChoice::Once, ApprovalChoice::Deny],
                form: Some(RequestedForm {
                    server: text("s"),
                    message: text("m"),
                    schema: Map::from_iter([("title".to_owned(), json!("t"))]),
                    url: Some(text("u")),
                }),
            },
            &["/form", "/form/url"],
        ),
        (
            RunEvent::ApprovalResponded {
                approval_id: text("a"),
                choice: ApprovalChoice::Deny,
                outcome: ApprovalOutcome::Expired,
            },
            &[],
        ),
        (
            RunEvent::Completed {
                output: text("o"),
                usage: Some(TokenUsage::default()),
                model: Some(text("m")),
                tool_calls: vec![json!({"id": "call_1"})],
            },
            &["/tool_calls", "/model", "/usage/cached_tokens"],
        ),
        (
            RunEvent::Failed {
                error: failure.clone(),
                reason: Some(text("r")),
                usage: Some(TokenUsage::default()),
                model: Some(text("m")),
            },
            &["/reason", "/usage", "/usage/cached_tokens", "/model"],
        ),
        (
            RunEvent::Cancelled {
                error: Some(failure),
                reason: Some(text("r")),
                usage: Some(TokenUsage::default()),
                model: Some(text("m")),
            },
            &[
                "/error",
                "/reason",
                "/usage",
                "/usage/cached_tokens",
                "/model",
            ],
        ),
    ]
}

#[test]
fn events_are_taken_only_as_they_are_known() {
    for (event, optional) in events() {
        assert_closed(&event, optional, &["/tool_calls/0", "/form/schema"]);
        let written = serde_json::to_value(&event).unwrap();
        assert_eq!(written["event"], event.name());
    }
    for unknown in [json!({"event": "gap"}), json!({"delta": "x"}), json!({})] {
        assert!(serde_json::from_value::<RunEvent>(unknown).is_err());
    }
}

#[test]
fn an_event_is_in_a_run_and_at_a_time() {
    for (event, _) in events() {
        let envelope = EventEnvelope {
            run_id: text("run_1"),
            timestamp: 1.5,
            event,
        };
        let body = envelope.to_body();
        let names: Vec<_> = body.keys().take(3).collect();
        assert_eq!(names, ["event", "run_id", "timestamp"]);
        assert_eq!(EventEnvelope::from_body(body.clone()).unwrap(), envelope);
        for name in ["event", "run_id", "timestamp"] {
            let mut without = body.clone();
            without.shift_remove(name);
            assert!(EventEnvelope::from_body(without).is_err(), "without {name}");
        }
    }
}

#[test]
fn the_hub_has_its_own_spelling_of_members() {
    let members = |event: RunEvent| Value::Object(event.hub_members());
    let started = RunEvent::ToolStarted {
        tool: text("terminal"),
        call_id: text("c"),
        preview: text("ls"),
    };
    assert_eq!(
        members(started),
        json!({"tool": "terminal", "callId": "c", "preview": "ls"})
    );
    let completed = RunEvent::Completed {
        output: text("o"),
        usage: Some(TokenUsage {
            input_tokens: 1,
            output_tokens: 2,
            total_tokens: 3,
            cached_tokens: 1,
        }),
        model: None,
        tool_calls: vec![json!({"call_id": 1})],
    };
    assert_eq!(
        members(completed),
        json!({"output": "o", "usage": {"inputTokens": 1, "outputTokens": 2, "totalTokens": 3,
            "cachedTokens": 1}, "toolCalls": [{"call_id": 1}]})
    );
}

#[test]
fn every_text_of_an_event_is_visited() {
    for (mut event, _) in events() {
        event.visit_text(&mut |text| *text = "x".to_owned());
        let written = serde_json::to_value(&event).unwrap();
        for place in places(&written) {
            let closed = ["/event", "/choice", "/choices/0", "/choices/1", "/outcome"];
            if let Some(text) = written.pointer(&place).and_then(Value::as_str)
                && !closed.contains(&place.as_str())
            {
                assert_eq!(text, "x", "{place} of {written}");
            }
        }
    }
}
