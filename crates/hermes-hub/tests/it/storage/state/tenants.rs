//! Tenants, their access, their keys and their variables.

use hermes_hub::{
    api_types::{
        AccessStatus, Condition, ConditionStatus, GroupMembership, KeyKind, MemberAccess, NewKey,
        TenantStatus, Time,
    },
    storage::{
        encryption::EncryptionContext,
        state::{
            AccessChange, NewRuntimeKey, NewVariable, Page, StateError, StorageUsage, TenantChange,
            TenantDeletion, TenantFilter, TenantObservation, TenantQuery, UsageOwner,
        },
    },
};
use serde_json::json;

use super::{StateFixture, entry, tenant_id};

#[tokio::test]
async fn a_tenant_comes_back_as_it_was_made() {
    let mut fresh = StateFixture::new().await;
    fresh.group("division1").await;
    let mut tenant = fresh.new_tenant("tenant_123");
    tenant.agent = json!({ "model": "provider/model" })
        .as_object()
        .unwrap()
        .clone();
    tenant.groups = vec![GroupMembership {
        id: hermes_hub::GroupId::parse("division1").unwrap(),
        access: MemberAccess::Write,
    }];
    let made = fresh
        .state
        .create_tenant(tenant.clone(), entry("create_tenant"))
        .await
        .unwrap();
    fresh.reopen().await;
    let found = fresh.state.tenant(&tenant.id).await.unwrap().unwrap();
    assert_eq!(found, made);
    assert_eq!(found.agent, tenant.agent);
    assert_eq!(found.groups, tenant.groups);
    assert_eq!(found.labels, tenant.labels);
    assert_eq!(
        found.runtime_key.last4.as_ref(),
        Some(&tenant.runtime_key.last4)
    );
    assert_eq!((found.generation, found.observed_generation), (1, 0));
}

#[tokio::test]
async fn a_name_is_taken_once_even_by_a_deleted_tenant() {
    let fresh = StateFixture::new().await;
    fresh.tenant("a").await;
    let again = |tenant| fresh.state.create_tenant(tenant, entry("create_tenant"));
    let taken = again(fresh.new_tenant("a")).await;
    assert!(matches!(taken, Err(StateError::Exists { .. })));
    fresh
        .state
        .delete_tenant(
            &tenant_id("a"),
            TenantDeletion::Restorable,
            None,
            entry("delete_tenant"),
        )
        .await
        .unwrap();
    let taken = again(fresh.new_tenant("a")).await;
    assert!(matches!(taken, Err(StateError::Exists { .. })));
    fresh
        .state
        .purge_tenant(&tenant_id("a"), entry("delete_tenant"))
        .await
        .unwrap();
    let made = again(fresh.new_tenant("a")).await.unwrap();
    assert_eq!(made.status, TenantStatus::Ready);
}

#[tokio::test]
async fn an_unknown_group_keeps_a_tenant_from_being_made() {
    let fresh = StateFixture::new().await;
    let mut tenant = fresh.new_tenant("a");
    tenant.groups = vec![GroupMembership {
        id: hermes_hub::GroupId::parse("nobody").unwrap(),
        access: MemberAccess::Read,
    }];
    let made = fresh
        .state
        .create_tenant(tenant, entry("create_tenant"))
        .await;
    assert!(matches!(made, Err(StateError::Conflict { .. })));
    assert!(fresh.state.tenant(&tenant_id("a")).await.unwrap().is_none());
    assert!(fresh.state.audit_heads().await.unwrap().is_empty());
}

#[tokio::test]
async fn lists_are_ordered_and_paged_and_hide_the_deleted() {
    let fresh = StateFixture::new().await;
    for id in ["c", "a", "e", "b", "d"] {
        fresh.tenant(id).await;
    }
    fresh
        .state
        .delete_tenant(
            &tenant_id("b"),
            TenantDeletion::Restorable,
            None,
            entry("delete_tenant"),
        )
        .await
        .unwrap();
    let query = TenantQuery::default();
    let mut ids = Vec::new();
    let mut page = Page::first(2);
    loop {
        let paged = fresh.state.tenants(&query, &page).await.unwrap();
        assert!(paged.items.len() <= 2);
        ids.extend(paged.items.iter().map(|tenant| tenant.id.to_string()));
        match paged.next {
            Some(cursor) => page = Page::after(2, cursor),
            None => break,
        }
    }
    assert_eq!(ids, ["a", "c", "d", "e"]);
    let deleted = TenantQuery {
        filter: TenantFilter::Status(TenantStatus::Deleted),
        ..TenantQuery::default()
    };
    let deleted = fresh
        .state
        .tenants(&deleted, &Page::default())
        .await
        .unwrap();
    assert_eq!(deleted.items.len(), 1);
    let some = TenantQuery {
        only: Some(vec![tenant_id("e"), tenant_id("a"), tenant_id("b")]),
        ..TenantQuery::default()
    };
    let some = fresh.state.tenants(&some, &Page::default()).await.unwrap();
    let some: Vec<_> = some.items.iter().map(|tenant| tenant.id.as_str()).collect();
    assert_eq!(some, ["a", "e"]);
    let too_long = "tenant d".repeat(10_000);
    for (text, count) in [
        ("TENANT D", 1),
        ("E", 4),
        ("tenant_d", 0),
        ("%", 0),
        ("tenant\\", 0),
        (&too_long, 0),
    ] {
        let named = TenantQuery {
            text: Some(text.to_owned()),
            ..TenantQuery::default()
        };
        let named = fresh.state.tenants(&named, &Page::default()).await.unwrap();
        assert_eq!(named.items.len(), count, "{text:.20}");
    }
    let change = TenantChange {
        flavor: Some("large".into()),
        labels: Some([("plan".to_owned(), "gold \"x\"".to_owned())].into()),
        ..TenantChange::default()
    };
    let d = tenant_id("d");
    let changed = fresh
        .state
        .update_tenant(&d, change, None, entry("update_tenant"));
    changed.await.unwrap();
    let label = |name: &str, value: Option<&str>| TenantQuery {
        label: Some((name.to_owned(), value.map(str::to_owned))),
        ..TenantQuery::default()
    };
    let large = TenantQuery {
        flavor: Some("large".into()),
        ..TenantQuery::default()
    };
    for (query, count) in [
        (large, 1),
        (label("plan", None), 1),
        (label("plan", Some("gold \"x\"")), 1),
        (label("plan", Some("silver")), 0),
        (label("\"plan", None), 0),
    ] {
        let found = fresh.state.tenants(&query, &Page::default()).await.unwrap();
        assert_eq!(found.items.len(), count, "{query:?}");
    }
}

#[tokio::test]
async fn a_change_from_a_stale_revision_is_refused() {
    let fresh = StateFixture::new().await;
    let made = fresh.tenant("a").await;
    let rename = |name: &str| TenantChange {
        display_name: Some(name.into()),
        ..TenantChange::default()
    };
    let update = |change, expected| {
        fresh
            .state
            .update_tenant(&made.id, change, expected, entry("update_tenant"))
    };
    let changed = update(rename("One"), Some(made.revision)).await.unwrap();
    assert_eq!(
        (changed.display_name.as_str(), changed.generation),
        ("One", 2)
    );
    let stale = update(rename("Two"), Some(made.revision)).await;
    assert!(matches!(stale, Err(StateError::Changed { .. })));
    let last = update(rename("Three"), None).await.unwrap();
    assert_eq!(last.display_name, "Three");
}

#[tokio::test]
async fn blocking_says_why_and_by_whom() {
    let fresh = StateFixture::new().await;
    let made = fresh.tenant("a").await;
    let access = AccessChange {
        status: AccessStatus::Blocked,
        message: Some("Paused".into()),
        reason: Some("invoice 88".into()),
        by: "tok_7".into(),
    };
    let access = fresh
        .state
        .set_access(&made.id, access, entry("set_tenant_access"))
        .await
        .unwrap();
    assert_eq!(access.status, AccessStatus::Blocked);
    assert_eq!(access.updated_by.as_deref(), Some("tok_7"));
    let found = fresh.state.tenant(&made.id).await.unwrap().unwrap();
    assert_eq!(found.access, access);
    assert!(found.revision > made.revision);
}

#[tokio::test]
async fn what_the_hub_finds_out_keeps_the_time_since_when() {
    let fresh = StateFixture::new().await;
    let made = fresh.tenant("a").await;
    let condition = |status, seconds: i64| Condition {
        kind: "Sandboxed".into(),
        status,
        reason: "landlock".into(),
        message: String::new(),
        last_transition_time: Time::from_millis(seconds * 1000),
    };
    let observe = |condition| {
        let observation = TenantObservation {
            conditions: vec![condition],
            observed_generation: Some(1),
            ..TenantObservation::default()
        };
        fresh.state.observe_tenant(&made.id, observation)
    };
    let first = observe(condition(ConditionStatus::True, 1)).await.unwrap();
    let same = observe(condition(ConditionStatus::True, 2)).await.unwrap();
    assert_eq!(same, first, "nothing changed, and yet something did");
    let other = observe(condition(ConditionStatus::False, 3)).await.unwrap();
    assert_eq!(
        other.conditions[0].last_transition_time,
        Time::from_millis(3000)
    );
    assert_eq!(other.observed_generation, 1);
}

#[tokio::test]
async fn a_deleted_tenant_is_restored_with_all_it_had() {
    let fresh = StateFixture::new().await;
    let made = fresh.tenant("a").await;
    let variable = NewVariable::encrypt(&fresh.key, &made.uid, "API_KEY", "value").unwrap();
    let set = fresh.state.set_env(&made.id, variable, entry("set_env"));
    set.await.unwrap();
    let run = fresh.run(&made.id).await;
    let deleted = fresh
        .state
        .delete_tenant(
            &made.id,
            TenantDeletion::Restorable,
            None,
            entry("delete_tenant"),
        )
        .await
        .unwrap();
    assert!(deleted.deleted_at.is_some());
    let change = fresh
        .state
        .update_tenant(
            &made.id,
            TenantChange::default(),
            None,
            entry("update_tenant"),
        )
        .await;
    assert!(matches!(change, Err(StateError::NotFound { .. })));
    let restore = || {
        fresh
            .state
            .restore_tenant(&made.id, entry("restore_tenant"))
    };
    let restored = restore().await.unwrap();
    assert_eq!(
        (restored.status, restored.deleted_at),
        (TenantStatus::Ready, None)
    );
    assert_eq!(restored.uid, made.uid);
    assert_eq!(fresh.state.env(&made.id).await.unwrap().len(), 1);
    assert!(fresh.state.run(&made.id, &run).await.unwrap().is_some());
    assert!(matches!(restore().await, Err(StateError::Conflict { .. })));
}

#[tokio::test]
async fn purging_leaves_nothing_but_the_log() {
    let fresh = StateFixture::new().await;
    let made = fresh.tenant("a").await;
    let owner = UsageOwner::Tenant(made.id.clone());
    let usage = StorageUsage { bytes: 7, files: 1 };
    fresh.state.set_usage(&owner, usage).await.unwrap();
    let variable = NewVariable::encrypt(&fresh.key, &made.uid, "API_KEY", "value").unwrap();
    let set = fresh.state.set_env(&made.id, variable, entry("set_env"));
    set.await.unwrap();
    let run = fresh.run(&made.id).await;
    let purge = || fresh.state.purge_tenant(&made.id, entry("delete_tenant"));
    // A tenant that is not deleted, or was restored, is kept.
    assert!(matches!(purge().await, Err(StateError::NotFound { .. })));
    let deletion = TenantDeletion::Permanent;
    let deleted = fresh
        .state
        .delete_tenant(&made.id, deletion, None, entry("delete_tenant"));
    deleted.await.unwrap();
    purge().await.unwrap();
    assert!(fresh.state.tenant(&made.id).await.unwrap().is_none());
    assert!(fresh.state.env(&made.id).await.unwrap().is_empty());
    assert!(fresh.state.run(&made.id, &run).await.unwrap().is_none());
    assert_eq!(
        fresh.state.usage(&owner).await.unwrap(),
        StorageUsage::default()
    );
    assert!(!fresh.state.has_encrypted().await.unwrap());
    let checks = fresh.state.verify_audit().await.unwrap();
    assert_eq!((checks[0].entries, &checks[0].broken), (5, &None));
}

#[tokio::test]
async fn variables_are_sealed_and_opened_for_their_tenant_alone() {
    let fresh = StateFixture::new().await;
    let made = fresh.tenant("a").await;
    let variable =
        NewVariable::encrypt(&fresh.key, &made.uid, "API_KEY", "sk-0123456789abcdef").unwrap();
    let set = fresh.state.set_env(&made.id, variable, entry("set_env"));
    set.await.unwrap();
    let shown = fresh.state.env(&made.id).await.unwrap();
    assert_eq!(shown[0].last4.as_deref(), Some("cdef"));
    let sealed = fresh.state.encrypted_env(&made.id).await.unwrap();
    let opened = fresh.key.decrypt(
        &EncryptionContext::variable(&made.uid, "API_KEY"),
        &sealed[0].1,
    );
    assert_eq!(opened.unwrap().expose(), "sk-0123456789abcdef");
    let unset = || {
        fresh
            .state
            .unset_env(&made.id, "API_KEY", entry("unset_env"))
    };
    assert!(unset().await.unwrap());
    assert!(!unset().await.unwrap());
}

#[tokio::test]
async fn an_old_runtime_key_works_only_within_its_grace() {
    let fresh = StateFixture::new().await;
    let made = fresh.tenant("a").await;
    let rotate = |grace| {
        let key = NewKey::random(KeyKind::Runtime).unwrap();
        let new = NewRuntimeKey::encrypt(&fresh.key, &made.uid, &key, grace).unwrap();
        let set = fresh
            .state
            .set_runtime_key(&made.id, new, entry("rotate_runtime_key"));
        async move {
            set.await.unwrap();
            key
        }
    };
    let holder = async |key: &NewKey| fresh.state.tenant_of_key(&key.hash).await.unwrap();
    let first = rotate(None).await;
    assert_eq!(holder(&first).await.as_ref(), Some(&made.id));
    let later = Time::now().after(std::time::Duration::from_mins(1));
    let second = rotate(Some(later)).await;
    assert_eq!(holder(&first).await.as_ref(), Some(&made.id));
    assert_eq!(holder(&second).await.as_ref(), Some(&made.id));
    let third = rotate(None).await;
    assert_eq!(holder(&first).await, None);
    assert_eq!(holder(&second).await, None);
    assert_eq!(holder(&third).await.as_ref(), Some(&made.id));
    let sealed = fresh.state.runtime_key(&made.id).await.unwrap().unwrap();
    let opened = fresh
        .key
        .decrypt(&EncryptionContext::runtime_key(&made.uid), &sealed);
    assert_eq!(opened.unwrap().expose(), third.secret.expose());
}
