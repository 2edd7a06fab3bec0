//! The JSON types of REST and MCP, one file per family.

mod agent;
mod audit;
pub(crate) mod cidr;
mod group;
pub mod ids;
pub(crate) mod key;
pub mod problem;
pub(crate) mod redact_keys;
mod run;
pub(crate) mod schema;
pub(crate) mod scope;
mod tenant;
mod time;
mod token;
mod vocabulary;

pub use agent::{AgentPhase, AgentState};
pub use audit::{AuditEntry, AuditPhase, Decision, Via};
pub use group::{Group, GroupKind, GroupMember, MemberAccess, Share};
pub use run::{Approval, ApprovalState, Run, RunError, RunEvent, RunStatus, RunTrigger, RunUsage};
pub use tenant::{
    AccessStatus, AgentSettings, BrowserSettings, Condition, ConditionStatus, EnvVariable,
    GroupMembership, RuntimeKeyInfo, StorageSettings, Tenant, TenantAccess, TenantKeys,
    TenantStatus,
};
pub use time::Time;
pub use token::{MintedToken, Token};
pub(crate) use vocabulary::vocabulary;
