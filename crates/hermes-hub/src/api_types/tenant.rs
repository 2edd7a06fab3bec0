//! A tenant and what belongs to it; the words of its document and of its messaging platforms.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{MemberAccess, Time, vocabulary};
use crate::{GroupId, TenantId};

vocabulary! {
    /// The status of a tenant.
    TenantStatus {
        /// Its home is being created.
        Provisioning = "provisioning",
        /// It is ready.
        Ready = "ready",
        /// It has failed; a condition says why.
        Failed = "failed",
        /// It is being deleted.
        Deleting = "deleting",
        /// It is deleted, and can be restored for some days.
        Deleted = "deleted",
    }
}

vocabulary! {
    /// The access state of a tenant.
    AccessStatus {
        /// It is active.
        Active = "active",
        /// It has no runs, cron jobs or changes of shares.
        Blocked = "blocked",
    }
}

vocabulary! {
    /// The status of a condition.
    ConditionStatus {
        /// It is true.
        True = "True",
        /// It is false.
        False = "False",
        /// It is unknown.
        Unknown = "Unknown",
    }
}

/// A tenant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Tenant {
    /// Its id in routes.
    pub id: TenantId,
    /// Its display name.
    pub display_name: String,
    /// Its status.
    pub status: TenantStatus,
    /// Its access state.
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
    /// Labels of the operator.
    pub labels: BTreeMap<String, String>,
    /// Which keys it has; never their values.
    pub keys: TenantKeys,
    /// Its conditions.
    pub conditions: Vec<Condition>,
    /// The number of changes of its settings.
    pub generation: u64,
    /// The last generation that the agent has applied.
    pub observed_generation: u64,
    /// When it was created.
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
    /// Whether a run or job starts the agent.
    pub auto_start: bool,
    /// Idle seconds before the agent is stopped.
    pub idle_stop_seconds: u64,
    /// The maximum number of concurrent runs.
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
    /// Whether its home is outside the data directory and is never removed.
    pub linked: bool,
}

/// A tenant's browser.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BrowserSettings {
    /// Whether it has one.
    pub enabled: bool,
    /// The kind.
    pub mode: String,
    /// The maximum number of open pages.
    pub max_tabs: u32,
}

/// A group as one of its members sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GroupMembership {
    /// The group.
    pub id: GroupId,
    /// The tenant's access to its files.
    pub access: MemberAccess,
}

/// Which keys a tenant has.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TenantKeys {
    /// The runtime key of its agent.
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
    /// When it was created.
    pub rotated_at: Option<Time>,
}

/// A condition of a tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// The type, such as `Sandboxed`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its status.
    pub status: ConditionStatus,
    /// The reason, as one word.
    pub reason: String,
    /// The message.
    pub message: String,
    /// When it last changed.
    pub last_transition_time: Time,
}

/// The access state of a tenant, and who set it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TenantAccess {
    /// The state.
    pub status: AccessStatus,
    /// The message for the tenant's users.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The reason, for operators.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When it last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<Time>,
    /// The token that set it.
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
    /// Whether it has a value.
    pub set: bool,
    /// The end of its value, if the value is long enough.
    pub last4: Option<String>,
    /// When it was set.
    pub updated_at: Time,
}

vocabulary! {
    /// The state of an agent.
    AgentPhase {
        /// It was stopped on request.
        Stopped = "stopped",
        /// It is being started.
        Starting = "starting",
        /// It has active runs.
        Running = "running",
        /// It runs and has no active run.
        Idle = "idle",
        /// It was stopped because it was idle; a run or job starts it.
        Sleeping = "sleeping",
        /// It is being stopped.
        Stopping = "stopping",
        /// It failed too often and must be started by hand.
        Failed = "failed",
    }
}

/// A tenant's agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentState {
    /// Its state.
    pub state: AgentPhase,
    /// When the state last changed.
    pub since: Time,
    /// The id of its process, if it has its own.
    pub pid: Option<u32>,
    /// The node it runs on.
    pub node: String,
    /// The Hub's version, which is the agent's too.
    pub version: String,
    /// The number of active runs.
    pub active_runs: u32,
    /// How often it was restarted after a failure.
    pub restarts: u32,
    /// The cause of its last failure.
    pub last_error: Option<String>,
}

vocabulary! {
    /// Which memory.
    MemoryKind {
        /// What the agent noted about its work.
        Memory = "memory",
        /// What the agent knows about its users.
        User = "user",
    }
}

vocabulary! {
    /// What became of a part.
    PartOutcome {
        /// It was not there.
        Created = "created",
        /// It was different.
        Changed = "changed",
        /// It was there and is gone.
        Removed = "removed",
        /// It was so already.
        Unchanged = "unchanged",
    }
}

vocabulary! {
    /// A messaging platform.
    PlatformName {
        /// Telegram, by a bot.
        Telegram = "telegram",
        /// Discord, by a bot.
        Discord = "discord",
        /// Slack, by an app.
        Slack = "slack",
    }
}

vocabulary! {
    /// What a stranger who writes a direct message gets.
    StrangerReply {
        /// A pairing code, unless there is an allow-list.
        Pair = "pair",
        /// Nothing.
        Ignore = "ignore",
    }
}
