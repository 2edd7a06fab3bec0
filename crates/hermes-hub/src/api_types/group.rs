//! Groups of tenants, and the files that their members share.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::vocabulary;
use crate::{GroupId, TenantId};

vocabulary! {
    /// What a group stands for.
    GroupKind {
        /// A part of a company.
        Department = "department",
        /// Some who work together.
        Team = "team",
    }
}

vocabulary! {
    /// What a member may do with the group's files.
    MemberAccess {
        /// Look.
        Read = "read",
        /// Look and change.
        Write = "write",
    }
}

/// A group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Group {
    /// Its name in routes and paths.
    pub id: GroupId,
    /// Its name for people.
    pub display_name: String,
    /// What it stands for.
    pub kind: GroupKind,
    /// Bytes its files may take; 0 means any number.
    pub quota_bytes: u64,
}

/// A member of a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupMember {
    /// Who.
    pub tenant_id: TenantId,
    /// What it may do.
    pub access: MemberAccess,
}

/// A group's files as one member sees them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Share {
    /// Whose files.
    pub group_id: GroupId,
    /// The group's name for people.
    pub display_name: String,
    /// What the group stands for.
    pub kind: GroupKind,
    /// What the tenant may do.
    pub access: MemberAccess,
    /// Bytes they take.
    pub used_bytes: u64,
    /// Bytes they may take; 0 means any number.
    pub quota_bytes: u64,
}
