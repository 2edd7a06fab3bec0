//! A tenant's effective settings: its own over its flavor's over the Hub's defaults.

use std::collections::BTreeMap;

use serde::{Deserialize, de::value::MapDeserializer};
use serde_json::{Map, Value};

use super::{AgentGiven, StorageGiven, given::NO_BROWSER};
use crate::{
    agents::Room,
    service::documents::Standing,
    shapes::{AgentSettings, BrowserSettings, Keys, StorageSettings, Tenant},
    state::TenantRecord,
};

pub(crate) fn shape(record: &TenantRecord, standing: &Standing) -> Tenant {
    Tenant {
        id: record.id.clone(),
        display_name: record.display_name.clone(),
        status: record.status,
        access: record.access.clone(),
        flavor: record.flavor.clone(),
        agent: agent(record, standing),
        storage: storage(record, standing),
        browser: browser(),
        groups: record.groups.clone(),
        labels: record.labels.clone(),
        keys: Keys {
            runtime_key: record.runtime_key.clone(),
        },
        conditions: record.conditions.clone(),
        generation: record.generation,
        observed_generation: record.observed_generation,
        created_at: record.created_at,
        updated_at: record.updated_at,
        deleted_at: record.deleted_at,
    }
}

pub(crate) fn storage(record: &TenantRecord, standing: &Standing) -> StorageSettings {
    let given: StorageGiven = effective(standing, record, "storage", &record.storage);
    StorageSettings {
        quota_bytes: given.quota_bytes.unwrap_or(5 << 30),
        used_bytes: record.used.bytes,
        files_quota: given.files_quota.unwrap_or(200_000),
        linked: record.linked_home.is_some(),
    }
}

/// A linked home is the user's own and has no quota.
pub(crate) fn room(record: &TenantRecord, standing: &Standing) -> Room {
    let storage = storage(record, standing);
    let is_over =
        record.used.bytes > storage.quota_bytes || record.used.files > storage.files_quota;
    if is_over && !storage.linked {
        Room::Full
    } else {
        Room::Left
    }
}

/// The settings of its agent, within the limits of the policy.
pub(crate) fn agent(record: &TenantRecord, standing: &Standing) -> AgentSettings {
    let given: AgentGiven = effective(standing, record, "agent", &record.agent);
    let runs = given
        .max_concurrent_runs
        .unwrap_or(standing.max_concurrent_runs());
    AgentSettings {
        model: given.model,
        timezone: given.timezone.unwrap_or_else(|| "UTC".into()),
        auto_start: given.auto_start.unwrap_or(true),
        idle_stop_seconds: given
            .idle_stop_seconds
            .unwrap_or(standing.idle_stop_seconds()),
        max_concurrent_runs: runs.min(standing.max_concurrent_runs_ceiling()),
    }
}

/// This build has no browser, whatever an earlier one stored.
fn browser() -> BrowserSettings {
    let (enabled, mode, max_tabs) = NO_BROWSER;
    BrowserSettings {
        enabled,
        mode: mode.to_owned(),
        max_tabs,
    }
}

fn effective<'a, T: Deserialize<'a> + Default>(
    standing: &'a Standing,
    record: &TenantRecord,
    section: &str,
    own: &'a Map<String, Value>,
) -> T {
    let layers = [
        standing.section(section),
        standing.flavor_section(&record.flavor, section),
        own,
    ];
    let members: BTreeMap<&str, &Value> = layers
        .into_iter()
        .flatten()
        .map(|(name, value)| (name.as_str(), value))
        .collect();
    let members = MapDeserializer::<_, serde_json::Error>::new(members.into_iter());
    // All three were validated when they were stored.
    T::deserialize(members).unwrap_or_default()
}
