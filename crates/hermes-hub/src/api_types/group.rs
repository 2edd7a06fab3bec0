//! Groups of tenants, and the files that their members share.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::vocabulary;
use crate::{GroupId, TenantId};

vocabulary! {
    /// The kind of a group.
    GroupKind {
        /// A department.
        Department = "department",
        /// A team.
        Team = "team",
    }
}

vocabulary! {
    /// What a member may do with the group's files.
    MemberAccess {
        /// Read.
        Read = "read",
        /// Read and change.
        Write = "write",
    }
}

/// A group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Group {
    /// Its id in routes and paths.
    pub id: GroupId,
    /// Its display name.
    pub display_name: String,
    /// Its kind.
    pub kind: GroupKind,
    /// The quota of its files in bytes; 0 is unlimited.
    pub quota_bytes: u64,
}

/// A member of a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupMember {
    /// The tenant.
    pub tenant_id: TenantId,
    /// Its access to the group's files.
    pub access: MemberAccess,
}

/// A group's files as one member sees them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Share {
    /// The group.
    pub group_id: GroupId,
    /// The display name of the group.
    pub display_name: String,
    /// The kind of the group.
    pub kind: GroupKind,
    /// The tenant's access.
    pub access: MemberAccess,
    /// The size of the files in bytes.
    pub used_bytes: u64,
    /// The quota of the files in bytes; 0 is unlimited.
    pub quota_bytes: u64,
}

/// Shares.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ShareList {
    pub shares: Vec<Share>,
}
