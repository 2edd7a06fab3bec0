//! `approvals` and `command_allowlist` of the configuration.

use std::time::Duration;

use serde_json::Value;

const DEFAULT_TIMEOUT: Duration = Duration::from_mins(1);

/// What needs approval, and what is decided beforehand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalSettings {
    pub mode: ApprovalMode,
    pub timeout: Duration,
    /// The timeout, if the configuration sets one.
    pub configured_timeout: Option<Duration>,
    /// Patterns of commands that are blocked, with `*` and `?`.
    pub deny: Vec<String>,
    /// Names of rules, or patterns of commands, that are always allowed.
    pub allow: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ApprovalMode {
    #[default]
    Manual,
    /// A model decides clear cases, a person the rest.
    Smart,
    /// Nobody is asked: only blocked commands are refused.
    Off,
}

impl Default for ApprovalSettings {
    fn default() -> Self {
        Self {
            mode: ApprovalMode::Manual,
            timeout: DEFAULT_TIMEOUT,
            configured_timeout: None,
            deny: Vec::new(),
            allow: Vec::new(),
        }
    }
}

impl ApprovalSettings {
    /// Reads them from the whole configuration. Invalid values are ignored.
    pub fn from_document(document: &Value) -> Self {
        let approvals = &document["approvals"];
        let mode = match &approvals["mode"] {
            // A bare `off` is a boolean in YAML.
            Value::Bool(false) => ApprovalMode::Off,
            Value::String(mode) if mode == "off" => ApprovalMode::Off,
            Value::String(mode) if mode == "smart" => ApprovalMode::Smart,
            _ => ApprovalMode::Manual,
        };
        let timeout = approvals["timeout"].as_u64().filter(|&seconds| seconds > 0);
        let timeout = timeout.map(Duration::from_secs);
        Self {
            mode,
            timeout: timeout.unwrap_or(DEFAULT_TIMEOUT),
            configured_timeout: timeout,
            deny: strings(&approvals["deny"]),
            allow: strings(&document["command_allowlist"]),
        }
    }
}

fn strings(value: &Value) -> Vec<String> {
    let items = value
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str);
    items
        .map(str::to_owned)
        .filter(|item| !item.trim().is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn settings_are_read_and_nonsense_is_passed_over() {
        let document = json!({
            "approvals": {"mode": false, "timeout": 5, "deny": ["git push*", 3, " "]},
            "command_allowlist": ["recursive delete"],
        });
        let settings = ApprovalSettings::from_document(&document);
        assert_eq!(settings.mode, ApprovalMode::Off);
        assert_eq!(settings.timeout, Duration::from_secs(5));
        assert_eq!(settings.deny, ["git push*"]);
        assert_eq!(settings.allow, ["recursive delete"]);
        let nonsense =
            json!({"approvals": {"mode": "what", "timeout": -1}, "command_allowlist": "x"});
        assert_eq!(
            ApprovalSettings::from_document(&nonsense),
            ApprovalSettings::default()
        );
        assert_eq!(
            ApprovalSettings::from_document(&Value::Null),
            ApprovalSettings::default()
        );
    }
}
