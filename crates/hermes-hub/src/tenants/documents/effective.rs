//! The effective documents for all tenants, cached until they change.

use std::{
    num::NonZeroU32,
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering},
    },
};

use hermes_protocol::{Policy, RunLimits};
use serde_json::{Map, Value};

use super::{impact, policy};
use crate::{
    Problem,
    settings::Settings,
    storage::state::{Document, DocumentKind, State, StateError},
};

/// Values of the Hub's settings for what the documents leave out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DocumentDefaults {
    idle_stop_seconds: u64,
    max_concurrent_runs: u32,
    max_run_minutes: u32,
}

impl DocumentDefaults {
    pub(crate) fn from_settings(settings: &Settings) -> Self {
        let number = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        Self {
            idle_stop_seconds: settings.idle_stop_seconds,
            max_concurrent_runs: number(settings.runs.max_concurrent),
            max_run_minutes: number(settings.runs.max_minutes),
        }
    }

    /// The run limits of a policy that has none.
    pub(crate) fn run_limits(self) -> RunLimits {
        let usual = RunLimits::unrestricted();
        let at_least = |least: NonZeroU32, wanted: u32| {
            NonZeroU32::new(wanted).map_or(least, |wanted| wanted.max(least))
        };
        RunLimits {
            max_concurrent: at_least(usual.max_concurrent, self.max_concurrent_runs),
            max_minutes: at_least(usual.max_minutes, self.max_run_minutes),
        }
    }
}

/// The effective policy, configuration and specialization.
pub(crate) struct EffectiveDocuments {
    baseline: DocumentDefaults,
    policy: Policy,
    config: Map<String, Value>,
    specialization: String,
    revisions: [(DocumentKind, u64); 3],
    /// When their load began, among those of this process.
    load_number: u64,
}

static NEXT_LOAD: AtomicU64 = AtomicU64::new(0);

static EMPTY: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);

impl EffectiveDocuments {
    pub(crate) async fn load(
        state: &dyn State,
        baseline: DocumentDefaults,
    ) -> Result<Self, StateError> {
        // First: what is read has all that was stored before.
        let load_number = NEXT_LOAD.fetch_add(1, Ordering::SeqCst);
        let written = state.document(DocumentKind::Policy).await?;
        let impact = state.document(DocumentKind::TenantImpact).await?;
        let specialization = state.document(DocumentKind::Specialization).await?;
        let revision =
            |document: &Option<Document>| document.as_ref().map_or(0, |document| document.revision);
        let revisions = [
            (DocumentKind::Policy, revision(&written)),
            (DocumentKind::TenantImpact, revision(&impact)),
            (DocumentKind::Specialization, revision(&specialization)),
        ];
        let document = match written {
            Some(document) => document.content,
            None => Value::Object(policy::default_document(baseline)),
        };
        let policy = policy::resolve_policy(&document, baseline).unwrap_or_else(|error| {
            tracing::error!(
                %error,
                "stored policy cannot be read; everything is denied until a valid policy is stored"
            );
            Policy::closed()
        });
        let specialization =
            specialization.and_then(|document| document.content.as_str().map(str::to_owned));
        Ok(Self {
            baseline,
            policy,
            config: impact::content_or_default(impact).0,
            specialization: specialization.unwrap_or_default(),
            revisions,
            load_number,
        })
    }

    pub(crate) fn revisions(&self) -> Vec<(DocumentKind, u64)> {
        self.revisions.to_vec()
    }

    /// Whether `other` was asked for later. Revisions do not tell: a replica that takes the place of the server may have
    /// older ones, or other documents of the same revision.
    pub(crate) fn is_older_than(&self, other: &Self) -> bool {
        self.load_number < other.load_number
    }

    /// Whether both say the same to agents.
    pub(crate) fn says_the_same_as(&self, other: &Self) -> bool {
        self.revisions == other.revisions
            && self.policy == other.policy
            && self.config == other.config
            && self.specialization == other.specialization
    }

    pub(crate) fn policy(&self) -> &Policy {
        &self.policy
    }

    pub(crate) fn specialization(&self) -> &str {
        &self.specialization
    }

    pub(crate) fn section(&self, name: &str) -> &Map<String, Value> {
        self.config
            .get(name)
            .and_then(Value::as_object)
            .unwrap_or(&EMPTY)
    }

    pub(crate) fn flavor_section(&self, flavor: &str, name: &str) -> &Map<String, Value> {
        let flavor = self.section("flavors").get(flavor);
        flavor
            .and_then(|flavor| flavor.get(name))
            .and_then(Value::as_object)
            .unwrap_or(&EMPTY)
    }

    /// The skills of the library that a new tenant of a flavor gets.
    pub(crate) fn flavor_skills(&self, flavor: &str) -> Vec<String> {
        let flavor = self.section("flavors").get(flavor);
        let skills = flavor.and_then(|flavor| flavor.get("skills")?.as_array());
        let names = skills.into_iter().flatten().filter_map(Value::as_str);
        names.map(str::to_owned).collect()
    }

    /// Refuses an unknown flavor; the message lists the known ones.
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
        .with_detail("flavor", "unknown"))
    }

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

    /// The upper limit for any tenant.
    pub(crate) fn max_concurrent_runs_limit(&self) -> u32 {
        self.policy.runs.max_concurrent.get()
    }
}
