//! Groups and their members.

use hermes_hub::{
    api_types::MemberAccess,
    storage::state::{GroupChange, GroupDeletion, Page, StateError, StorageUsage, UsageOwner},
};

use super::{StateFixture, entry, tenant_id};

#[tokio::test]
async fn members_see_the_share_and_others_do_not() {
    let fresh = StateFixture::new().await;
    let group = fresh.group("division1").await;
    let tenant = fresh.tenant("a").await;
    fresh.tenant("b").await;
    let state = &fresh.state;
    let put = |access| state.put_member(&group, &tenant.id, access, entry("put_member"));
    put(MemberAccess::Read).await.unwrap();
    put(MemberAccess::Write).await.unwrap();
    let usage = StorageUsage { bytes: 5, files: 1 };
    let owner = UsageOwner::Group(group.clone());
    state.set_usage(&owner, usage).await.unwrap();
    let share = state.share(&tenant.id, &group).await.unwrap().unwrap();
    assert_eq!((share.access, share.used_bytes), (MemberAccess::Write, 5));
    assert_eq!(state.share(&tenant_id("b"), &group).await.unwrap(), None);
    assert_eq!(state.shares(&tenant.id).await.unwrap(), [share]);
    let members = state.members(&group, &Page::default()).await.unwrap();
    assert_eq!(members.items.len(), 1);
    let remove = || state.remove_member(&group, &tenant.id, entry("remove_member"));
    assert!(remove().await.unwrap());
    assert!(!remove().await.unwrap());
    assert!(state.shares(&tenant.id).await.unwrap().is_empty());
}

#[tokio::test]
async fn another_membership_is_another_version_of_the_tenant() {
    let fresh = StateFixture::new().await;
    let group = fresh.group("division1").await;
    let before = fresh.tenant("a").await;
    let state = &fresh.state;
    state
        .put_member(&group, &before.id, MemberAccess::Read, entry("put_member"))
        .await
        .unwrap();
    let joined = state.tenant(&before.id).await.unwrap().unwrap();
    assert!(joined.revision > before.revision && joined.generation > before.generation);
    state
        .delete_group(&group, GroupDeletion::Force, None, entry("delete_group"))
        .await
        .unwrap();
    let left = state.tenant(&before.id).await.unwrap().unwrap();
    assert!(left.groups.is_empty() && left.revision > joined.revision);
}

#[tokio::test]
async fn a_group_with_members_or_files_is_deleted_only_by_force() {
    let fresh = StateFixture::new().await;
    let group = fresh.group("division1").await;
    let tenant = fresh.tenant("a").await;
    let state = &fresh.state;
    let delete = |emptiness| state.delete_group(&group, emptiness, None, entry("delete_group"));
    state
        .put_member(&group, &tenant.id, MemberAccess::Read, entry("put_member"))
        .await
        .unwrap();
    let refused = delete(GroupDeletion::OnlyIfEmpty).await;
    assert!(matches!(
        refused,
        Err(StateError::Conflict {
            reason: "not_empty",
            ..
        })
    ));
    assert!(state.share(&tenant.id, &group).await.unwrap().is_some());
    delete(GroupDeletion::Force).await.unwrap();
    assert!(state.group(&group).await.unwrap().is_none());
    let gone = delete(GroupDeletion::Force).await;
    assert!(matches!(gone, Err(StateError::NotFound { .. })));
}

#[tokio::test]
async fn groups_are_changed_from_the_revision_one_knows() {
    let fresh = StateFixture::new().await;
    let id = fresh.group("division1").await;
    fresh.group("division2").await;
    let state = &fresh.state;
    let quota = |bytes| GroupChange {
        quota_bytes: Some(bytes),
        ..GroupChange::default()
    };
    let changed = state
        .update_group(&id, quota(100), Some(1), entry("update_group"))
        .await
        .unwrap();
    assert_eq!((changed.group.quota_bytes, changed.revision), (100, 2));
    let outdated = state
        .update_group(&id, quota(200), Some(1), entry("update_group"))
        .await;
    assert!(matches!(outdated, Err(StateError::Changed { .. })));
    let first = state.groups(&Page::first(1)).await.unwrap();
    assert_eq!(first.items, [changed]);
    let second = state.groups(&Page::after(1, first.next.unwrap())).await;
    assert_eq!(second.unwrap().items[0].group.id.as_str(), "division2");
}

#[tokio::test]
async fn neither_a_missing_tenant_nor_a_missing_group_makes_a_member() {
    let fresh = StateFixture::new().await;
    let group = fresh.group("division1").await;
    let tenant = fresh.tenant("a").await;
    let nobody = tenant_id("nobody");
    let put = |group, tenant| {
        fresh
            .state
            .put_member(group, tenant, MemberAccess::Read, entry("put_member"))
    };
    let no_tenant = put(&group, &nobody).await;
    assert!(matches!(
        no_tenant,
        Err(StateError::NotFound { what: "tenant" })
    ));
    let missing = hermes_hub::GroupId::parse("missing").unwrap();
    let no_group = put(&missing, &tenant.id).await;
    assert!(matches!(
        no_group,
        Err(StateError::NotFound { what: "group" })
    ));
}
