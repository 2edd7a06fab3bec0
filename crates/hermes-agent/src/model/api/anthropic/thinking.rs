//! Reasoning and output limits for each generation of Claude.

use serde_json::{Map, Value, json};

use crate::model::{ModelRequest, ToolChoice};

/// The version in a model's name, such as 4.6; dates after it are not versions.
fn parse_version(model: &str) -> (u32, u32) {
    let mut numbers = model
        .split(|c: char| !c.is_ascii_digit())
        .filter(|digits| (1..=2).contains(&digits.len()))
        .filter_map(|digits| digits.parse().ok());
    (
        numbers.next().unwrap_or_default(),
        numbers.next().unwrap_or_default(),
    )
}

/// The default reply length; the protocol requires one.
pub(super) fn default_max_tokens(model: &str) -> u32 {
    match parse_version(model) {
        (3, 7) => 64_000,
        (3, 5) => 8_192,
        (1..=3, _) => 4_096,
        // The least that all later ones allow.
        _ => 32_000,
    }
}

/// The members that enable reasoning; none if it is disabled.
pub(super) fn thinking_members(
    model: &str,
    request: &ModelRequest<'_>,
    max_tokens: u32,
) -> Map<String, Value> {
    let is_forced = matches!(
        request.tool_choice,
        ToolChoice::Required | ToolChoice::Tool(_)
    );
    let effort = request
        .reasoning_effort
        .filter(|effort| !matches!(*effort, "" | "none") && !is_forced);
    let Some(effort) = effort else {
        return Map::new();
    };
    let mut members = Map::new();
    match parse_version(model) {
        // From 4.6 on the model adapts its reasoning itself.
        (4, 6..) | (5.., _) => {
            let effort = match effort {
                "minimal" => "low",
                "xhigh" => "max",
                other => other,
            };
            members.insert("thinking".into(), json!({ "type": "adaptive" }));
            members.insert("output_config".into(), json!({ "effort": effort }));
        }
        (3, 7) | (4, _) => {
            let wanted = match effort {
                "minimal" => 1_024,
                "low" => 4_000,
                "high" => 16_000,
                "xhigh" | "max" => 32_000,
                _ => 8_000,
            };
            // It has to leave room for the answer, and is rejected below this.
            let budget = wanted.min(max_tokens.saturating_sub(1_024));
            if budget >= 1_024 {
                members.insert(
                    "thinking".into(),
                    json!({ "type": "enabled", "budget_tokens": budget }),
                );
            }
        }
        _ => {}
    }
    members
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_names() {
        for (name, expected) in [
            ("claude-opus-4-6", (4, 6)),
            ("claude-sonnet-4-20250514", (4, 0)),
            ("claude-3-7-sonnet-20250219", (3, 7)),
            ("claude-3-5-haiku-latest", (3, 5)),
            ("anthropic/claude-sonnet-4.5", (4, 5)),
            ("claude-sonnet-5", (5, 0)),
            ("unknown", (0, 0)),
        ] {
            assert_eq!(parse_version(name), expected, "{name}");
        }
    }

    fn thinking(model: &str, effort: &str, max_tokens: u32) -> Value {
        let request = ModelRequest {
            reasoning_effort: Some(effort),
            ..ModelRequest::default()
        };
        Value::Object(thinking_members(model, &request, max_tokens))
    }

    #[test]
    fn each_generation_is_told_in_its_own_way() {
        assert_eq!(
            thinking("claude-opus-4-6", "high", 32_000),
            json!({"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}})
        );
        assert_eq!(
            thinking("claude-sonnet-4-5", "low", 32_000),
            json!({"thinking": {"type": "enabled", "budget_tokens": 4_000}})
        );
        assert_eq!(
            thinking("claude-sonnet-4-5", "high", 3_000),
            json!({"thinking": {"type": "enabled", "budget_tokens": 1_976}})
        );
        assert_eq!(thinking("claude-sonnet-4-5", "high", 1_500), json!({}));
        assert_eq!(thinking("claude-3-5-sonnet", "high", 8_000), json!({}));
        assert_eq!(thinking("claude-opus-4-6", "none", 8_000), json!({}));
    }
}
