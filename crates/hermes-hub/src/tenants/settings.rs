//! A tenant's effective settings: its own over its flavor's over the Hub's defaults.

pub(crate) mod overrides;

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use serde::{Deserialize, de::value::MapDeserializer};
use serde_json::{Map, Value};

use crate::{
    api_types::{AgentSettings, BrowserSettings, StorageSettings, Tenant, TenantKeys},
    storage::state::TenantRecord,
    tenants::{
        agents::QuotaState,
        documents::EffectiveDocuments,
        settings::overrides::{AgentOverrides, NO_BROWSER, StorageOverrides},
    },
};

pub(crate) fn public_tenant(
    record: &TenantRecord,
    effective_documents: &EffectiveDocuments,
) -> Tenant {
    Tenant {
        id: record.id.clone(),
        display_name: record.display_name.clone(),
        status: record.status,
        access: record.access.clone(),
        flavor: record.flavor.clone(),
        agent: effective_agent(record, effective_documents),
        storage: effective_storage(record, effective_documents),
        browser: effective_browser(),
        groups: record.groups.clone(),
        labels: record.labels.clone(),
        keys: TenantKeys {
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

pub(crate) fn effective_storage(
    record: &TenantRecord,
    effective_documents: &EffectiveDocuments,
) -> StorageSettings {
    let given: StorageOverrides =
        effective_section(effective_documents, record, "storage", &record.storage);
    StorageSettings {
        quota_bytes: given.quota_bytes.unwrap_or(5 << 30),
        used_bytes: record.used.bytes,
        files_quota: given.files_quota.unwrap_or(200_000),
        linked: record.linked_home.is_some(),
    }
}

/// A linked home is the user's own and has no quota.
pub(crate) fn quota_state(
    record: &TenantRecord,
    effective_documents: &EffectiveDocuments,
) -> QuotaState {
    let storage = effective_storage(record, effective_documents);
    let is_over =
        record.used.bytes > storage.quota_bytes || record.used.files > storage.files_quota;
    if is_over && !storage.linked {
        QuotaState::Exceeded
    } else {
        QuotaState::Within
    }
}

/// The settings of its agent, within the limits of the policy.
pub(crate) fn effective_agent(
    record: &TenantRecord,
    effective_documents: &EffectiveDocuments,
) -> AgentSettings {
    let given: AgentOverrides =
        effective_section(effective_documents, record, "agent", &record.agent);
    let runs = given
        .max_concurrent_runs
        .unwrap_or(effective_documents.max_concurrent_runs());
    AgentSettings {
        model: given.model,
        timezone: given.timezone.unwrap_or_else(|| "UTC".into()),
        auto_start: given.auto_start.unwrap_or(true),
        idle_stop_seconds: given
            .idle_stop_seconds
            .unwrap_or(effective_documents.idle_stop_seconds()),
        max_concurrent_runs: runs.min(effective_documents.max_concurrent_runs_limit()),
    }
}

pub(crate) fn time_zone(
    record: &TenantRecord,
    effective_documents: &EffectiveDocuments,
) -> TimeZone {
    // It was validated when it was stored.
    TimeZone::get(&effective_agent(record, effective_documents).timezone).unwrap_or(TimeZone::UTC)
}

/// This build has no browser, whatever an earlier one stored.
fn effective_browser() -> BrowserSettings {
    let (enabled, mode, max_tabs) = NO_BROWSER;
    BrowserSettings {
        enabled,
        mode: mode.to_owned(),
        max_tabs,
    }
}

fn effective_section<'a, T: Deserialize<'a> + Default>(
    effective_documents: &'a EffectiveDocuments,
    record: &TenantRecord,
    section: &str,
    own: &'a Map<String, Value>,
) -> T {
    let layers = [
        effective_documents.section(section),
        effective_documents.flavor_section(&record.flavor, section),
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
