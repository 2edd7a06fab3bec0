//! Groups of tenants and their members.

pub(crate) mod skills;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::page_request;
use crate::{
    GroupId, Problem, TenantId,
    api_types::{Group, GroupKind, GroupMember, MemberAccess},
    service::call::{Call, Reply, etag},
    storage::state::{GroupChange, GroupDeletion, GroupRecord},
};

/// A page of a list.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListGroups {
    /// How many at most, 1 to 500.
    limit: Option<u32>,
    /// The `nextCursor` of the page before.
    cursor: Option<String>,
}

/// Groups.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GroupList {
    groups: Vec<Group>,
    next_cursor: Option<String>,
}

/// A group to create.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct CreateGroup {
    /// Its id, which never changes.
    id: GroupId,
    /// Its display name.
    display_name: Option<String>,
    /// Its kind; `team` if absent.
    kind: Option<GroupKind>,
    /// The quota of its files in bytes; 0 or absent is unlimited.
    quota_bytes: Option<u64>,
}

/// A group.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GroupRef {
    /// The group's id.
    group_id: GroupId,
}

/// A change of a group.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct UpdateGroup {
    /// The group's id.
    #[serde(rename = "group_id")]
    group_id: GroupId,
    /// Its display name.
    display_name: Option<String>,
    /// Its kind.
    kind: Option<GroupKind>,
    /// The quota of its files in bytes; 0 is unlimited.
    quota_bytes: Option<u64>,
}

/// A group to delete.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeleteGroup {
    /// The group's id.
    group_id: GroupId,
    /// Whether to delete it even if it has members or files.
    force: Option<bool>,
}

pub(crate) async fn list(call: Call, input: ListGroups) -> Result<Reply, Problem> {
    let page = page_request(input.limit, input.cursor)?;
    let records = call.hub.state().groups(&page).await?;
    let groups = records
        .items
        .into_iter()
        .map(|record| record.group)
        .collect();
    Reply::json(&GroupList {
        groups,
        next_cursor: records.next,
    })
}

fn group_reply(record: &GroupRecord) -> Result<Reply, Problem> {
    Ok(Reply::json(&record.group)?.etag(etag(record.revision)))
}

async fn find_group(call: &Call, id: &GroupId) -> Result<GroupRecord, Problem> {
    let group = call.hub.state().group(id).await?;
    group.ok_or_else(|| Problem::not_found(format!("there is no group `{id}`")))
}

pub(crate) async fn get(call: Call, input: GroupRef) -> Result<Reply, Problem> {
    group_reply(&find_group(&call, &input.group_id).await?)
}

pub(crate) async fn create(call: Call, input: CreateGroup) -> Result<Reply, Problem> {
    let display_name = input.display_name.unwrap_or_else(|| input.id.to_string());
    check_name(&display_name)?;
    let group = Group {
        id: input.id,
        display_name,
        kind: input.kind.unwrap_or(GroupKind::Team),
        quota_bytes: input.quota_bytes.unwrap_or(0),
    };
    let record = call
        .hub
        .state()
        .create_group(group, call.entry.clone())
        .await?;
    Ok(group_reply(&record)?.status(201))
}

pub(crate) async fn update(call: Call, input: UpdateGroup) -> Result<Reply, Problem> {
    if let Some(name) = &input.display_name {
        check_name(name)?;
    }
    let before = find_group(&call, &input.group_id).await?;
    call.check_version(&etag(before.revision))?;
    let change = GroupChange {
        display_name: input.display_name,
        kind: input.kind,
        quota_bytes: input.quota_bytes,
    };
    let expected = call.if_match.is_some().then_some(before.revision);
    let record = call
        .hub
        .state()
        .update_group(&input.group_id, change, expected, call.entry.clone())
        .await?;
    call.hub.group_changed(&record);
    group_reply(&record)
}

pub(crate) async fn delete(call: Call, input: DeleteGroup) -> Result<Reply, Problem> {
    let before = find_group(&call, &input.group_id).await?;
    call.check_version(&etag(before.revision))?;
    let emptiness = if input.force == Some(true) {
        GroupDeletion::Force
    } else {
        GroupDeletion::OnlyIfEmpty
    };
    let expected = call.if_match.is_some().then_some(before.revision);
    call.hub
        .state()
        .delete_group(&input.group_id, emptiness, expected, call.entry.clone())
        .await?;
    call.hub.group_deleted(&input.group_id).await;
    Ok(Reply::empty())
}

fn check_name(name: &str) -> Result<(), Problem> {
    if (1..=200).contains(&name.chars().count()) {
        return Ok(());
    }
    Err(
        Problem::invalid("`displayName` must have 1 to 200 characters")
            .with_detail("displayName", "length"),
    )
}

/// A page of a group's members.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListMembers {
    /// The group's id.
    group_id: GroupId,
    /// How many at most, 1 to 500.
    limit: Option<u32>,
    /// The `nextCursor` of the page before.
    cursor: Option<String>,
}

/// Members of a group.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MemberList {
    members: Vec<GroupMember>,
    next_cursor: Option<String>,
}

/// A member to add or change.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PutMember {
    /// The group's id.
    group_id: GroupId,
    /// The tenant's id.
    member_id: TenantId,
    /// Its access to the group's files.
    access: MemberAccess,
}

/// A member.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MemberRef {
    /// The group's id.
    group_id: GroupId,
    /// The tenant's id.
    member_id: TenantId,
}

pub(crate) async fn list_members(call: Call, input: ListMembers) -> Result<Reply, Problem> {
    find_group(&call, &input.group_id).await?;
    let page = page_request(input.limit, input.cursor)?;
    let mut members = call.hub.state().members(&input.group_id, &page).await?;
    members
        .items
        .retain(|member| call.principal().covers_tenant(&member.tenant_id));
    Reply::json(&MemberList {
        members: members.items,
        next_cursor: members.next,
    })
}

pub(crate) async fn put_member(call: Call, input: PutMember) -> Result<Reply, Problem> {
    let entry = call.entry.clone().for_tenant(&input.member_id);
    let member = call
        .hub
        .state()
        .put_member(&input.group_id, &input.member_id, input.access, entry)
        .await?;
    call.hub.settings_changed(&input.member_id);
    Reply::json(&member)
}

pub(crate) async fn remove_member(call: Call, input: MemberRef) -> Result<Reply, Problem> {
    find_group(&call, &input.group_id).await?;
    let entry = call.entry.clone().for_tenant(&input.member_id);
    call.hub
        .state()
        .remove_member(&input.group_id, &input.member_id, entry)
        .await?;
    call.hub.settings_changed(&input.member_id);
    Ok(Reply::empty())
}
