//! Groups and their members.

use async_trait::async_trait;

use super::{Page, Paged, StateError, Usage};
use crate::{
    GroupId, TenantId,
    audit::NewEntry,
    shapes::{Group, GroupKind, Member, MemberAccess, Share, Time},
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupRecord {
    pub group: Group,
    pub used: Usage,
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
pub enum Emptiness {
    /// Refused if the group has members or files.
    Required,
    Forced,
}

#[async_trait]
pub trait Groups {
    async fn create_group(&self, group: Group, entry: NewEntry) -> Result<GroupRecord, StateError>;

    async fn group(&self, id: &GroupId) -> Result<Option<GroupRecord>, StateError>;

    async fn groups(&self, page: &Page) -> Result<Paged<GroupRecord>, StateError>;

    /// With `expected`, only from that revision.
    async fn update_group(
        &self,
        id: &GroupId,
        change: GroupChange,
        expected: Option<u64>,
        entry: NewEntry,
    ) -> Result<GroupRecord, StateError>;

    /// Deletes a group and its memberships.
    async fn delete_group(
        &self,
        id: &GroupId,
        emptiness: Emptiness,
        expected: Option<u64>,
        entry: NewEntry,
    ) -> Result<(), StateError>;

    async fn members(&self, id: &GroupId, page: &Page) -> Result<Paged<Member>, StateError>;

    /// Adds a member, or changes its access.
    async fn put_member(
        &self,
        id: &GroupId,
        tenant: &TenantId,
        access: MemberAccess,
        entry: NewEntry,
    ) -> Result<Member, StateError>;

    /// Returns whether there was a membership.
    async fn remove_member(
        &self,
        id: &GroupId,
        tenant: &TenantId,
        entry: NewEntry,
    ) -> Result<bool, StateError>;

    /// The share of a group for this tenant; `None` if it is not a member.
    async fn share(&self, tenant: &TenantId, id: &GroupId) -> Result<Option<Share>, StateError>;

    async fn shares(&self, tenant: &TenantId) -> Result<Vec<Share>, StateError>;
}
