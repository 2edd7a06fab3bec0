//! The JSON types of REST and MCP, one file per family. Their comments become the OpenAPI document.

mod agent;
mod audit;
mod cidr;
mod group;
pub mod ids;
mod key;
pub mod problem;
pub(crate) mod redact_keys;
mod run;
pub(crate) mod schema;
mod scope;
mod tenant;
mod time;
mod token;
mod vocabulary;

pub use agent::{AgentPhase, AgentState};
pub use audit::{AuditEntry, AuditPhase, Decision, Via};
pub use cidr::Cidr;
pub use group::{Group, GroupKind, GroupMember, MemberAccess, Share};
pub use key::{KeyHash, KeyKind, NewKey, last4, new_uid, parse_key};
pub use run::{Approval, ApprovalState, Run, RunError, RunEvent, RunStatus, RunTrigger, RunUsage};
pub use scope::{Role, Scope, Scopes};
pub use tenant::{
    AccessStatus, AgentSettings, BrowserSettings, Condition, ConditionStatus, EnvVariable,
    GroupMembership, RuntimeKeyInfo, StorageSettings, Tenant, TenantAccess, TenantKeys,
    TenantStatus,
};
pub use time::Time;
pub use token::{MintedToken, Token};
pub(crate) use vocabulary::vocabulary;
