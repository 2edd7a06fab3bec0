//! The tenant-impact configuration: settings whose change alters running tenants.

use std::{collections::BTreeMap, sync::LazyLock};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

use super::check::SchemaChecker;
use crate::{
    Problem, ProblemCode,
    api_types::schema,
    storage::state::Document,
    tenants::settings::overrides::{AgentOverrides, BrowserOverrides, StorageOverrides, Validate},
};

/// Settings that need a restart of agents.
pub(crate) const RESTART_REQUIRED: [&str; 5] = [
    "agent.model",
    "agent.timezone",
    "browser",
    "limits",
    "flavors",
];
const MAX_FEATURE_BYTES: usize = 64 * 1024;

/// The document's form, for its schema.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ImpactConfig {
    /// Defaults for every tenant's agent.
    agent: Option<AgentOverrides>,
    /// Defaults for every tenant's disk space.
    storage: Option<StorageOverrides>,
    /// Defaults for every tenant's browser.
    browser: Option<BrowserOverrides>,
    /// Cron jobs.
    cron: Option<CronRules>,
    /// Runs.
    runs: Option<RunRules>,
    /// What blocked tenants are told.
    access: Option<AccessRules>,
    /// A tenant's share of the machine.
    limits: Option<MachineLimits>,
    /// Presets by name.
    flavors: Option<BTreeMap<String, Flavor>>,
    /// A free map that is handed to agents.
    feature: Option<Map<String, Value>>,
}

#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct CronRules {
    /// What happens to due times that passed while the Hub was down.
    missed_runs: Option<MissedRunsSetting>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum MissedRunsSetting {
    Once,
    Skip,
}

#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RunRules {
    /// Runs of a tenant at once.
    #[schemars(range(min = 1))]
    max_concurrent: Option<u32>,
    /// Runs of a tenant that may wait.
    queue_depth: Option<u32>,
    /// Minutes a run may take.
    #[schemars(range(min = 1))]
    max_minutes: Option<u32>,
}

#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct AccessRules {
    /// For users of a tenant that is blocked without a message.
    blocked_message: Option<String>,
}

#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct MachineLimits {
    /// Resident bytes.
    memory_bytes: Option<u64>,
    /// Processes.
    pids: Option<u64>,
    /// Processors.
    cpu: Option<f64>,
}

#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Flavor {
    agent: Option<AgentOverrides>,
    storage: Option<StorageOverrides>,
    browser: Option<BrowserOverrides>,
    limits: Option<MachineLimits>,
    /// Skills of the Hub's library that a new tenant gets.
    skills: Option<Vec<String>>,
}

static CHECKER: LazyLock<SchemaChecker> =
    LazyLock::new(|| SchemaChecker::new(schema::input_schema::<ImpactConfig>()));

pub(crate) fn schema() -> &'static Map<String, Value> {
    CHECKER.schema()
}

/// A stored document, or the default.
pub(crate) fn content_or_default(document: Option<Document>) -> (Map<String, Value>, u64) {
    match document {
        Some(Document {
            content: Value::Object(config),
            revision,
            ..
        }) => (config, revision),
        _ => (default_document(), 0),
    }
}

fn default_document() -> Map<String, Value> {
    let document = json!({"agent": {}, "storage": {}, "browser": {}, "cron": {"missedRuns": "once"}, "runs": {},
        "access": {}, "limits": {}, "flavors": {"standard": {}}, "feature": {}});
    document.as_object().cloned().unwrap_or_default()
}

pub(crate) fn check_config(config: &Map<String, Value>) -> Result<(), Problem> {
    CHECKER.check("the configuration", &Value::Object(config.clone()))?;
    let refuse = |pointer: &str, reason: &str| {
        Err(Problem::new(
            ProblemCode::Unprocessable,
            format!("the configuration is invalid: {reason} at `{pointer}`"),
        )
        .with_detail(pointer, reason))
    };
    let feature = config
        .get("feature")
        .map(|feature| feature.to_string().len())
        .unwrap_or_default();
    if feature > MAX_FEATURE_BYTES {
        return refuse("/feature", "it is larger than 64 KiB");
    }
    if !config
        .get("flavors")
        .and_then(|flavors| flavors.get("standard"))
        .is_some_and(Value::is_object)
    {
        return refuse(
            "/flavors/standard",
            "this flavor must stay: tenants without another have it",
        );
    }
    let root = std::iter::once((String::new(), Some(config)));
    let flavors = config.get("flavors").and_then(Value::as_object);
    let flavors = flavors.into_iter().flatten();
    let flavors = flavors.map(|(name, flavor)| (format!("/flavors/{name}"), flavor.as_object()));
    for (place, sections) in root.chain(flavors) {
        let Some(sections) = sections else { continue };
        let skills = sections.get("skills").and_then(Value::as_array);
        for (index, skill) in skills.into_iter().flatten().enumerate() {
            let name = skill.as_str().unwrap_or_default();
            if hermes_store::skills::check_name(name).is_err() {
                return refuse(
                    &format!("{place}/skills/{index}"),
                    "it is not the name of a skill",
                );
            }
        }
        let checked = [
            ("agent", check_section::<AgentOverrides>(sections, "agent")),
            (
                "browser",
                check_section::<BrowserOverrides>(sections, "browser"),
            ),
        ];
        for (section, checked) in checked {
            if let Err((member, reason)) = checked {
                return refuse(&format!("{place}/{section}/{member}"), &reason);
            }
        }
    }
    Ok(())
}

/// Validates the values of a section.
fn check_section<T: DeserializeOwned + Validate>(
    sections: &Map<String, Value>,
    name: &str,
) -> Result<(), (&'static str, String)> {
    let section = sections.get(name).cloned();
    let section = section.and_then(|section| serde_json::from_value::<T>(section).ok());
    section.map_or(Ok(()), |section| section.validate())
}

/// Whether a change of this setting needs a restart of agents.
pub(crate) fn needs_restart(path: &str) -> bool {
    RESTART_REQUIRED.iter().any(|known| {
        path == *known
            || path
                .strip_prefix(known)
                .is_some_and(|rest| rest.starts_with('.'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(change: &Value) -> Result<(), Problem> {
        let patch = change.as_object().unwrap().clone();
        check_config(&super::super::merge::apply_merge_patch(
            default_document(),
            patch,
        ))
    }

    #[test]
    fn the_documented_patch_is_taken() {
        checked(&json!({"feature": {"enabled": true}})).unwrap();
        checked(&json!({"flavors": {"large": {"agent": {"maxConcurrentRuns": 8}}}, "cron": {"missedRuns": "skip"}})).unwrap();
    }

    #[test]
    fn what_does_not_fit_is_refused_with_its_place() {
        for (change, place) in [
            (json!({"listen": "0.0.0.0"}), ""),
            (
                json!({"agent": {"timezone": "Mars/Olympus"}}),
                "/agent/timezone",
            ),
            (json!({"flavors": {"standard": null}}), "/flavors/standard"),
            (json!({"runs": {"maxConcurrent": 0}}), "/runs/maxConcurrent"),
            (json!({"browser": {"enabled": true}}), "/browser/enabled"),
            (
                json!({"flavors": {"large": {"browser": {"mode": "headless"}}}}),
                "/flavors/large/browser/mode",
            ),
            (json!({"feature": {"x": "y".repeat(70_000)}}), "/feature"),
            (
                json!({"flavors": {"large": {"skills": ["../x"]}}}),
                "/flavors/large/skills/0",
            ),
        ] {
            let problem = checked(&change).unwrap_err();
            assert_eq!(problem.code, ProblemCode::Unprocessable);
            assert_eq!(problem.details[0].field, place, "{problem:?}");
        }
    }

    #[test]
    fn parts_of_a_section_need_a_restart_as_the_section_does() {
        assert!(needs_restart("browser.enabled") && needs_restart("agent.model"));
        assert!(!needs_restart("agent.idleStopSeconds") && !needs_restart("feature.enabled"));
    }
}
