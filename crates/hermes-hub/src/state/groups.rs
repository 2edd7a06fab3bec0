//! Groups and their members.

use async_trait::async_trait;

use super::{Page, Paged, StateError, Usage};
use crate::{
    GroupId, TenantId,
    audit::NewEntry,
    shapes::{Group, GroupKind, Member, MemberAccess, Share, Time},
};

/// A group as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupRecord {
    /// As it is shown.
    pub group: Group,
    /// Disk space of its files.
    pub used: Usage,
    /// Counts changes; the ETag.
    pub revision: u64,
    /// When it was made.
    pub created_at: Time,
    /// When it was last changed.
    pub updated_at: Time,
}

/// New values for what is not `None`.
#[derive(Debug, Clone, Default)]
pub struct GroupChange {
    /// Its name for people.
    pub display_name: Option<String>,
    /// What it stands for.
    pub kind: Option<GroupKind>,
    /// Bytes its files may take.
    pub quota_bytes: Option<u64>,
}

/// What a deletion asks of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Emptiness {
    /// It has neither members nor files.
    Required,
    /// It may have both.
    Forced,
}

/// Groups and their members.
#[async_trait]
pub trait Groups {
    /// Makes one.
    async fn create_group(&self, group: Group, entry: NewEntry) -> Result<GroupRecord, StateError>;

    /// One of them.
    async fn group(&self, id: &GroupId) -> Result<Option<GroupRecord>, StateError>;

    /// All of them, by name.
    async fn groups(&self, page: &Page) -> Result<Paged<GroupRecord>, StateError>;

    /// Changes one. With `expected`, only from that revision.
    async fn update_group(
        &self,
        id: &GroupId,
        change: GroupChange,
        expected: Option<u64>,
        entry: NewEntry,
    ) -> Result<GroupRecord, StateError>;

    /// Forgets one and its memberships.
    async fn delete_group(
        &self,
        id: &GroupId,
        emptiness: Emptiness,
        expected: Option<u64>,
        entry: NewEntry,
    ) -> Result<(), StateError>;

    /// Its members, by name.
    async fn members(&self, id: &GroupId, page: &Page) -> Result<Paged<Member>, StateError>;

    /// Makes a tenant a member, or changes what it may do.
    async fn put_member(
        &self,
        id: &GroupId,
        tenant: &TenantId,
        access: MemberAccess,
        entry: NewEntry,
    ) -> Result<Member, StateError>;

    /// Ends a membership; tells whether there was one.
    async fn remove_member(
        &self,
        id: &GroupId,
        tenant: &TenantId,
        entry: NewEntry,
    ) -> Result<bool, StateError>;

    /// The share of a group as this tenant sees it; none if it is no member.
    async fn share(&self, tenant: &TenantId, id: &GroupId) -> Result<Option<Share>, StateError>;

    /// All shares of a tenant, by name.
    async fn shares(&self, tenant: &TenantId) -> Result<Vec<Share>, StateError>;
}
