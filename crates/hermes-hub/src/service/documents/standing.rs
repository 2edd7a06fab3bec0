//! What holds for all tenants at this moment, read once and kept until it changes.

use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::{impact, policy::Policy};
use crate::{
    Problem,
    state::{Document, DocumentKind, State, StateError},
};

/// Policy, configuration and specialization in force.
pub(crate) struct Standing {
    policy: Policy,
    policy_document: Value,
    config: Map<String, Value>,
    specialization: String,
    revisions: [(DocumentKind, u64); 3],
}

static EMPTY: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);

impl Standing {
    /// Reads the newest revisions.
    pub(crate) async fn load(state: &dyn State) -> Result<Self, StateError> {
        let policy = state.document(DocumentKind::Policy).await?;
        let impact = state.document(DocumentKind::TenantImpact).await?;
        let specialization = state.document(DocumentKind::Specialization).await?;
        let revision =
            |document: &Option<Document>| document.as_ref().map_or(0, |document| document.revision);
        let revisions = [
            (DocumentKind::Policy, revision(&policy)),
            (DocumentKind::TenantImpact, revision(&impact)),
            (DocumentKind::Specialization, revision(&specialization)),
        ];
        let policy_document = match policy {
            Some(document) => document.content,
            None => Value::Object(super::policy::default_document()),
        };
        let specialization =
            specialization.and_then(|document| document.content.as_str().map(str::to_owned));
        Ok(Self {
            policy: Policy::read(&policy_document),
            policy_document,
            config: impact::content(impact).0,
            specialization: specialization.unwrap_or_default(),
            revisions,
        })
    }

    /// Which revisions these are.
    pub(crate) fn revisions(&self) -> Vec<(DocumentKind, u64)> {
        self.revisions.to_vec()
    }

    /// Whether any document is of an earlier revision than the other's.
    pub(crate) fn is_older_than(&self, other: &Self) -> bool {
        self.revisions
            .iter()
            .zip(&other.revisions)
            .any(|((_, own), (_, other))| own < other)
    }

    /// The policy with its defaults.
    pub(crate) fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The policy as it was put.
    pub(crate) fn policy_document(&self) -> &Value {
        &self.policy_document
    }

    /// The text before every tenant's own.
    pub(crate) fn specialization(&self) -> &str {
        &self.specialization
    }

    /// A section of the configuration.
    pub(crate) fn section(&self, name: &str) -> &Map<String, Value> {
        self.config
            .get(name)
            .and_then(Value::as_object)
            .unwrap_or(&EMPTY)
    }

    /// A section of a flavor.
    pub(crate) fn flavor_section(&self, flavor: &str, name: &str) -> &Map<String, Value> {
        let flavor = self.section("flavors").get(flavor);
        flavor
            .and_then(|flavor| flavor.get(name))
            .and_then(Value::as_object)
            .unwrap_or(&EMPTY)
    }

    /// Refuses a flavor that is not there, naming those that are.
    pub(crate) fn check_flavor(&self, flavor: &str) -> Result<(), Problem> {
        let flavors = self.section("flavors");
        if flavors.contains_key(flavor) {
            return Ok(());
        }
        let known: Vec<_> = flavors.keys().map(|name| format!("`{name}`")).collect();
        Err(Problem::invalid(format!(
            "there is no such flavor; there are {}",
            known.join(", ")
        ))
        .at("flavor", "unknown"))
    }

    /// A number in a section.
    pub(crate) fn number(&self, section: &str, name: &str) -> Option<u64> {
        self.section(section).get(name).and_then(Value::as_u64)
    }

    pub(crate) fn idle_stop_seconds(&self) -> u64 {
        self.number("agent", "idleStopSeconds").unwrap_or(900)
    }

    pub(crate) fn max_concurrent_runs(&self) -> u32 {
        self.number("runs", "maxConcurrent")
            .and_then(|runs| u32::try_from(runs).ok())
            .unwrap_or(4)
    }

    /// What no tenant may go beyond.
    pub(crate) fn max_concurrent_runs_ceiling(&self) -> u32 {
        self.policy.runs.max_concurrent
    }
}
