//! A tenant and what belongs to it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{MemberAccess, Time, vocabulary};
use crate::{GroupId, TenantId};

vocabulary! {
    /// How far a tenant has come.
    TenantStatus {
        /// Its home is being made.
        Provisioning = "provisioning",
        /// It can be used.
        Ready = "ready",
        /// It cannot; a condition says why.
        Failed = "failed",
        /// It is being stopped.
        Deleting = "deleting",
        /// Hidden, and restorable for some days.
        Deleted = "deleted",
    }
}

vocabulary! {
    /// Whether a tenant may do anything.
    AccessStatus {
        /// It may.
        Active = "active",
        /// No runs, no cron, no changes of shares.
        Blocked = "blocked",
    }
}

vocabulary! {
    /// Whether a condition holds.
    ConditionStatus {
        /// It holds.
        True = "True",
        /// It does not.
        False = "False",
        /// Nobody knows.
        Unknown = "Unknown",
    }
}

/// A tenant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Tenant {
    /// Its name in routes.
    pub id: TenantId,
    /// Its name for people.
    pub display_name: String,
    /// How far it has come.
    pub status: TenantStatus,
    /// Whether it may do anything.
    pub access: TenantAccess,
    /// The preset its defaults come from.
    pub flavor: String,
    /// Its agent.
    pub agent: AgentSettings,
    /// Its disk space.
    pub storage: StorageSettings,
    /// Its browser.
    pub browser: BrowserSettings,
    /// The groups it is a member of.
    pub groups: Vec<GroupMembership>,
    /// Free texts of the operator.
    pub labels: BTreeMap<String, String>,
    /// Which keys it has; never their values.
    pub keys: TenantKeys,
    /// What is known of its state.
    pub conditions: Vec<Condition>,
    /// Counts changes of its settings.
    pub generation: u64,
    /// The last generation that is in force.
    pub observed_generation: u64,
    /// When it was made.
    pub created_at: Time,
    /// When it was last changed.
    pub updated_at: Time,
    /// When it was deleted.
    pub deleted_at: Option<Time>,
}

/// The settings of a tenant's agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentSettings {
    /// `provider/model`; the home's own if absent.
    pub model: Option<String>,
    /// An IANA zone.
    pub timezone: String,
    /// Whether the agent starts by itself when there is something to do.
    pub auto_start: bool,
    /// How long it stays without work before it sleeps.
    pub idle_stop_seconds: u64,
    /// How many runs at once.
    pub max_concurrent_runs: u32,
}

/// A tenant's disk space.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StorageSettings {
    /// Bytes it may use.
    pub quota_bytes: u64,
    /// Bytes it uses.
    pub used_bytes: u64,
    /// Files it may have.
    pub files_quota: u64,
    /// Whether its home lies outside the data directory and is never removed.
    pub linked: bool,
}

/// A tenant's browser.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BrowserSettings {
    /// Whether it has one.
    pub enabled: bool,
    /// Which kind.
    pub mode: String,
    /// How many pages at once.
    pub max_tabs: u32,
}

/// A group as one of its members sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GroupMembership {
    /// The group.
    pub id: GroupId,
    /// What the tenant may do with its files.
    pub access: MemberAccess,
}

/// Which keys a tenant has.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TenantKeys {
    /// What its agent presents to the Hub.
    pub runtime_key: RuntimeKeyInfo,
}

/// What is shown of a runtime key.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeKeyInfo {
    /// Whether there is one.
    pub present: bool,
    /// Its last four characters.
    pub last4: Option<String>,
    /// When it was made.
    pub rotated_at: Option<Time>,
}

/// One thing that is known of a tenant's state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// What, such as `Sandboxed`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// One word.
    pub reason: String,
    /// For people.
    pub message: String,
    /// Since when.
    pub last_transition_time: Time,
}

/// Whether a tenant may do anything, and who said so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TenantAccess {
    /// Whether it may.
    pub status: AccessStatus,
    /// For the tenant's users.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// For operators.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Since when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<Time>,
    /// Which token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated_by: Option<String>,
}

impl TenantAccess {
    pub fn active() -> Self {
        Self {
            status: AccessStatus::Active,
            message: None,
            reason: None,
            updated_at: None,
            updated_by: None,
        }
    }
}

/// A variable of a tenant's environment; its value is never shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnvVariable {
    /// Its name.
    pub name: String,
    /// That it has a value.
    pub set: bool,
    /// The end of its value, where that tells little of it.
    pub last4: Option<String>,
    /// When it was set.
    pub updated_at: Time,
}

vocabulary! {
    /// What an agent is doing.
    AgentPhase {
        /// Somebody stopped it.
        Stopped = "stopped",
        /// It is being started.
        Starting = "starting",
        /// It works.
        Running = "running",
        /// It has nothing to do.
        Idle = "idle",
        /// It had nothing to do and was stopped; work wakes it.
        Sleeping = "sleeping",
        /// It is being stopped.
        Stopping = "stopping",
        /// It failed too often; somebody has to start it.
        Failed = "failed",
    }
}

/// A tenant's agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentState {
    /// What it is doing.
    pub state: AgentPhase,
    /// Since when.
    pub since: Time,
    /// Its process, where it has its own.
    pub pid: Option<u32>,
    /// The node it belongs to.
    pub node: String,
    /// The Hub's version, which is the agent's too.
    pub version: String,
    /// How many runs it works on.
    pub active_runs: u32,
    /// How often it was started again after it had failed.
    pub restarts: u32,
    /// Why it failed last.
    pub last_error: Option<String>,
}
