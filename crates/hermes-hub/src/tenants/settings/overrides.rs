//! A tenant's own settings, which override its flavor's.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use crate::{Problem, ProblemCode};

/// Settings of an agent.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct AgentOverrides {
    /// `provider/model`.
    pub(crate) model: Option<String>,
    /// An IANA zone such as `Europe/Berlin`.
    pub(crate) timezone: Option<String>,
    /// Whether a run or job starts the agent.
    pub(crate) auto_start: Option<bool>,
    /// Idle seconds before it is stopped.
    pub(crate) idle_stop_seconds: Option<u64>,
    /// The maximum number of concurrent runs.
    pub(crate) max_concurrent_runs: Option<u32>,
}

/// Limits of disk space.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct StorageOverrides {
    /// Bytes.
    pub(crate) quota_bytes: Option<u64>,
    /// Files.
    pub(crate) files_quota: Option<u64>,
}

/// Settings of a browser.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct BrowserOverrides {
    /// Whether the tenant has a browser.
    pub(crate) enabled: Option<bool>,
    /// The kind.
    pub(crate) mode: Option<String>,
    /// The maximum number of open pages.
    pub(crate) max_tabs: Option<u32>,
}

/// Validation beyond the schema.
pub(crate) trait Validate {
    fn validate(&self) -> Result<(), (&'static str, String)>;
}

impl Validate for AgentOverrides {
    fn validate(&self) -> Result<(), (&'static str, String)> {
        if let Some(zone) = &self.timezone
            && jiff::tz::TimeZone::get(zone).is_err()
        {
            return Err((
                "timezone",
                "must be an IANA zone such as `Europe/Berlin`".into(),
            ));
        }
        if self.max_concurrent_runs == Some(0) {
            return Err(("maxConcurrentRuns", "must be at least 1".into()));
        }
        Ok(())
    }
}

impl Validate for StorageOverrides {
    fn validate(&self) -> Result<(), (&'static str, String)> {
        Ok(())
    }
}

/// The only browser settings that this build supports.
pub(crate) const NO_BROWSER: (bool, &str, u32) = (false, "none", 4);

impl Validate for BrowserOverrides {
    /// The shown values are accepted. Anything else would have no effect.
    fn validate(&self) -> Result<(), (&'static str, String)> {
        let without_effect = |member: &'static str, usual: &dyn std::fmt::Display| {
            let reason = format!(
                "has no effect: this build has no browser; leave it out, or give `{usual}`"
            );
            Err((member, reason))
        };
        let (enabled, mode, tabs) = NO_BROWSER;
        if self.enabled.is_some_and(|given| given != enabled) {
            return without_effect("enabled", &enabled);
        }
        if self.mode.as_deref().is_some_and(|given| given != mode) {
            return without_effect("mode", &mode);
        }
        if self.max_tabs.is_some_and(|given| given != tabs) {
            return without_effect("maxTabs", &tabs);
        }
        Ok(())
    }
}

/// Applies a merge patch to a tenant's own settings; `null` removes a member.
pub(crate) fn merge_overrides<T: DeserializeOwned + Validate>(
    section: &str,
    mut given: Map<String, Value>,
    patch: Map<String, Value>,
) -> Result<Map<String, Value>, Problem> {
    for (name, value) in patch {
        if value.is_null() {
            given.shift_remove(&name);
        } else {
            given.insert(name, value);
        }
    }
    let read: T = serde_json::from_value(Value::Object(given.clone())).map_err(|error| {
        let reason = crate::api_types::problem::strip_values(&error.to_string());
        Problem::invalid(format!("`{section}`: {reason}")).with_detail(section, reason)
    })?;
    read.validate().map_err(|(member, reason)| {
        Problem::new(
            ProblemCode::Unprocessable,
            format!("`{section}.{member}` {reason}"),
        )
        .with_detail(format!("/{section}/{member}"), reason)
    })?;
    Ok(given)
}

/// The same for a patch that may be absent, or `null` to remove everything.
#[expect(
    clippy::option_option,
    reason = "absent, `null` and a patch are three things"
)]
pub(crate) fn patch_overrides<T: DeserializeOwned + Validate>(
    section: &str,
    before: &Map<String, Value>,
    patch: Option<Option<Map<String, Value>>>,
) -> Result<Option<Map<String, Value>>, Problem> {
    match patch {
        None => Ok(None),
        Some(None) => Ok(Some(Map::new())),
        Some(Some(patch)) => merge_overrides::<T>(section, before.clone(), patch).map(Some),
    }
}
