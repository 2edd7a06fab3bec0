//! The JSON types of REST and MCP, one file per family. Their comments become the OpenAPI document.

mod audit;
mod group;
pub mod ids;
mod key;
pub mod problem;
mod run;
pub(crate) mod schema;
mod scope;
mod tenant;
mod time;
mod token;
mod usage;
mod webhook;

pub use audit::{AuditEntry, AuditPhase, Decision, Via};
pub use group::{Group, GroupKind, GroupMember, MemberAccess, Share, ShareList};
pub(crate) use key::redact_keys;
pub use key::{KeyHash, KeyKind, NewKey, last4, new_uid, parse_key};
pub use run::{
    Approval, ApprovalState, Run, RunError, RunStatus, RunTrigger, RunUsage, StoredEvent,
};
pub use scope::{Role, Scope, Scopes};
pub use tenant::{
    AccessStatus, AgentPhase, AgentSettings, AgentState, BrowserSettings, Condition,
    ConditionStatus, EnvVariable, GroupMembership, MemoryKind, PartOutcome, PlatformName,
    RuntimeKeyInfo, StorageSettings, StrangerReply, Tenant, TenantAccess, TenantKeys, TenantStatus,
};
pub use time::Time;
pub use token::{Cidr, MintedToken, Token};
pub use usage::{LimitUse, ReachedLimit, TenantLimits, UsageDay, UsageGroup};
pub use webhook::{Delivery, DeliveryState, HubEvent, HubEventType, Webhook};

/// An enum with fixed words: the same in JSON, in the database and in query parameters.
macro_rules! vocabulary {
    ($(#[$doc:meta])* $name:ident { $($(#[$value_doc:meta])* $value:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord,
            serde::Serialize, serde::Deserialize, schemars::JsonSchema,
        )]
        pub enum $name {
            $($(#[$value_doc])* #[serde(rename = $word)] $value,)+
        }

        impl $name {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$value),+];

            /// The word.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$value => $word,)+
                }
            }

            /// What a word stands for.
            pub fn from_word(word: &str) -> Option<Self> {
                match word {
                    $($word => Some(Self::$value),)+
                    _ => None,
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}
pub(crate) use vocabulary;
