//! Groups and their members.

use async_trait::async_trait;

use super::{Page, Paged, StateError, StorageUsage};
use crate::{
    GroupId, TenantId,
    api_types::{Group, GroupKind, GroupMember, MemberAccess, Share, Time},
    storage::audit::NewAuditEntry,
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupRecord {
    pub group: Group,
    pub used: StorageUsage,
    /// The `ETag`.
    pub revision: u64,
    pub created_at: Time,
    pub updated_at: Time,
}

/// `None` leaves a value unchanged.
#[derive(Debug, Clone, Default)]
pub struct GroupChange {
    pub display_name: Option<String>,
    pub kind: Option<GroupKind>,
    pub quota_bytes: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupDeletion {
    /// Refused if the group has members or files.
    OnlyIfEmpty,
    Force,
}

#[async_trait]
pub trait GroupStore {
    async fn create_group(
        &self,
        group: Group,
        entry: NewAuditEntry,
    ) -> Result<GroupRecord, StateError>;

    async fn group(&self, id: &GroupId) -> Result<Option<GroupRecord>, StateError>;

    async fn groups(&self, page: &Page) -> Result<Paged<GroupRecord>, StateError>;

    /// With `expected`, only from that revision.
    async fn update_group(
        &self,
        id: &GroupId,
        change: GroupChange,
        expected: Option<u64>,
        entry: NewAuditEntry,
    ) -> Result<GroupRecord, StateError>;

    /// Deletes a group and its memberships.
    async fn delete_group(
        &self,
        id: &GroupId,
        emptiness: GroupDeletion,
        expected: Option<u64>,
        entry: NewAuditEntry,
    ) -> Result<(), StateError>;

    async fn members(&self, id: &GroupId, page: &Page) -> Result<Paged<GroupMember>, StateError>;

    /// Adds a member, or changes its access.
    async fn put_member(
        &self,
        id: &GroupId,
        tenant: &TenantId,
        access: MemberAccess,
        entry: NewAuditEntry,
    ) -> Result<GroupMember, StateError>;

    /// Returns whether there was a membership.
    async fn remove_member(
        &self,
        id: &GroupId,
        tenant: &TenantId,
        entry: NewAuditEntry,
    ) -> Result<bool, StateError>;

    /// The share of a group for this tenant; `None` if it is not a member.
    async fn share(&self, tenant: &TenantId, id: &GroupId) -> Result<Option<Share>, StateError>;

    async fn shares(&self, tenant: &TenantId) -> Result<Vec<Share>, StateError>;
}
