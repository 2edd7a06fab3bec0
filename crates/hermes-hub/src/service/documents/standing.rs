//! What holds for all tenants at this moment, read once and kept until it changes.

use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::{
    impact,
    policy::{Policy, RunLimits},
};
use crate::{
    Problem,
    settings::Settings,
    state::{Document, DocumentKind, State, StateError},
};

/// What the Hub's own settings say where the documents say nothing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Baseline {
    idle_stop_seconds: u64,
    max_concurrent_runs: u32,
    max_run_minutes: u32,
}

impl Baseline {
    /// Of these settings.
    pub(crate) fn of(settings: &Settings) -> Self {
        let number = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        Self {
            idle_stop_seconds: settings.idle_stop_seconds,
            max_concurrent_runs: number(settings.runs.max_concurrent),
            max_run_minutes: number(settings.runs.max_minutes),
        }
    }

    /// A policy that does not limit runs leaves them what the settings give.
    pub(super) fn run_limits(self) -> RunLimits {
        let usual = RunLimits::default();
        RunLimits {
            max_concurrent: usual.max_concurrent.max(self.max_concurrent_runs),
            max_minutes: usual.max_minutes.max(self.max_run_minutes),
        }
    }
}

/// Policy, configuration and specialization in force.
pub(crate) struct Standing {
    baseline: Baseline,
    policy: Policy,
    policy_document: Value,
    config: Map<String, Value>,
    specialization: String,
    revisions: [(DocumentKind, u64); 3],
}

static EMPTY: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);

impl Standing {
    /// Reads the newest revisions.
    pub(crate) async fn load(state: &dyn State, baseline: Baseline) -> Result<Self, StateError> {
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
        let put = match policy {
            Some(document) => document.content,
            None => Value::Object(super::policy::default_document(baseline)),
        };
        let policy = Policy::read(&put, baseline);
        let specialization =
            specialization.and_then(|document| document.content.as_str().map(str::to_owned));
        Ok(Self {
            baseline,
            policy_document: serde_json::to_value(&policy).unwrap_or(put),
            policy,
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

    /// The same as a document, for agents: to them a member that is missing would be no limit.
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
        self.number("agent", "idleStopSeconds")
            .unwrap_or(self.baseline.idle_stop_seconds)
    }

    pub(crate) fn max_concurrent_runs(&self) -> u32 {
        self.number("runs", "maxConcurrent")
            .and_then(|runs| u32::try_from(runs).ok())
            .unwrap_or(self.baseline.max_concurrent_runs)
    }

    /// What no tenant may go beyond.
    pub(crate) fn max_concurrent_runs_ceiling(&self) -> u32 {
        self.policy.runs.max_concurrent
    }
}
