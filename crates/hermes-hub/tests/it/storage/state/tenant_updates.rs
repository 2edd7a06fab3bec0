//! Changes of tenants that wait at the same time.

use futures::future::join_all;
use hermes_hub::{
    TenantId,
    api_types::{GroupMembership, HubEventType, MemberAccess},
    storage::state::{
        HubEventQuery, Propagation, StateError, TenantChange, TenantDeletion, TenantRecord,
    },
};
use serde_json::json;

use super::{StateFixture, entry, tenant_id};

fn change_name(name: &str) -> TenantChange {
    TenantChange {
        display_name: Some(name.to_owned()),
        ..TenantChange::default()
    }
}

async fn update(
    fresh: &StateFixture,
    id: &TenantId,
    change: TenantChange,
    expected: Option<u64>,
) -> Result<TenantRecord, StateError> {
    let entry = entry("update_tenant").for_tenant(id);
    fresh.state.update_tenant(id, change, expected, entry).await
}

#[tokio::test]
async fn changes_that_wait_together_are_made_or_refused_each_for_itself() {
    let fresh = StateFixture::new().await;
    fresh.group("team").await;
    let mut tenants = Vec::new();
    for number in 0..20 {
        let mut tenant = fresh.new_tenant(&format!("t{number:02}"));
        tenant.groups = vec![GroupMembership {
            id: hermes_hub::GroupId::parse("team").unwrap(),
            access: MemberAccess::Read,
        }];
        let made = fresh.state.create_tenant(tenant, entry("create_tenant"));
        tenants.push(made.await.unwrap());
    }
    let gone = TenantDeletion::Restorable;
    let delete = entry("delete_tenant");
    let deletion = fresh
        .state
        .delete_tenant(&tenants[7].id, gone, None, delete);
    deletion.await.unwrap();
    let entries_before = fresh.state.verify_audit().await.unwrap()[0].entries;
    let events = HubEventQuery {
        kinds: vec![HubEventType::TenantChanged],
        ..HubEventQuery::default()
    };
    let ids: Vec<TenantId> = tenants
        .iter()
        .map(|tenant| tenant.id.clone())
        .chain([tenant_id("nobody")])
        .collect();
    let changes = ids.iter().enumerate().map(|(number, id)| {
        let expected = match number {
            3 | 4 => Some(1),
            // Of another version.
            5 => Some(9),
            _ => None,
        };
        let mut change = change_name(&format!("Näme \"{number}\""));
        if number == 2 {
            change.agent = json!({"model": "a/b"}).as_object().cloned();
            change.labels = Some([("a".to_owned(), "'1'".to_owned())].into());
            change.propagation = Propagation::NoAgent;
        }
        update(&fresh, id, change, expected)
    });
    let outcomes = join_all(changes).await;
    for (number, outcome) in outcomes.iter().enumerate() {
        match number {
            5 => assert!(
                matches!(outcome, Err(StateError::Changed { .. })),
                "{outcome:?}"
            ),
            7 | 20 => assert!(
                matches!(outcome, Err(StateError::NotFound { what: "tenant" })),
                "{outcome:?}"
            ),
            _ => {
                let record = outcome.as_ref().unwrap();
                assert_eq!(record.display_name, format!("Näme \"{number}\""));
                assert_eq!((record.revision, record.generation), (2, 2));
                assert_eq!(record.groups, tenants[number].groups);
                let stored = fresh.state.tenant(&record.id).await.unwrap().unwrap();
                assert_eq!(&stored, record);
            }
        }
    }
    let third = outcomes[2].as_ref().unwrap();
    assert_eq!(third.agent, *json!({"model": "a/b"}).as_object().unwrap());
    assert_eq!(third.labels["a"], "'1'");
    assert_eq!(third.observed_generation, 2);
    assert_eq!(outcomes[1].as_ref().unwrap().observed_generation, 0);
    let untouched = fresh.state.tenant(&ids[5]).await.unwrap().unwrap();
    assert_eq!(untouched, tenants[5]);
    // An entry and an event for each that was made, and none for the others.
    let checks = fresh.state.verify_audit().await.unwrap();
    assert_eq!(checks[0].broken, None);
    assert_eq!(checks[0].entries, entries_before + 18);
    let told = fresh.state.hub_events(&events, 100).await.unwrap();
    let mut tenants_told: Vec<&TenantId> = told.iter().map(|event| &event.tenant_id).collect();
    tenants_told.sort_unstable();
    let made: Vec<&TenantId> = outcomes
        .iter()
        .flatten()
        .map(|changed| &changed.id)
        .collect();
    assert_eq!(tenants_told, made);
    assert!(told.iter().all(|event| event.data["generation"] == 2));
}

#[tokio::test]
async fn of_many_changes_of_one_tenant_at_once_all_are_made_or_the_first_of_its_version() {
    let fresh = StateFixture::new().await;
    let id = fresh.tenant("a").await.id;
    let names: Vec<String> = (0..30).map(|number| format!("Name {number}")).collect();
    let all = names
        .iter()
        .map(|name| update(&fresh, &id, change_name(name), None));
    let mut revisions: Vec<u64> = join_all(all)
        .await
        .into_iter()
        .map(|changed| changed.unwrap().revision)
        .collect();
    revisions.sort_unstable();
    assert_eq!(revisions, (2..32).collect::<Vec<_>>());
    let one = names
        .iter()
        .map(|name| update(&fresh, &id, change_name(name), Some(31)));
    let outcomes = join_all(one).await;
    let made = outcomes.iter().flatten().count();
    assert_eq!(made, 1, "{outcomes:?}");
    let stored = fresh.state.tenant(&id).await.unwrap().unwrap();
    assert_eq!(stored.revision, 32);
    assert_eq!(fresh.state.verify_audit().await.unwrap()[0].broken, None);
}

#[tokio::test]
async fn tenants_that_are_looked_up_together_are_found_each_or_not() {
    let fresh = StateFixture::new().await;
    for number in 0..10 {
        fresh.tenant(&format!("t{number}")).await;
    }
    // Some twice, some not there.
    let ids: Vec<TenantId> = (0..40)
        .map(|number| tenant_id(&format!("t{}", number % 20)))
        .collect();
    let found = join_all(ids.iter().map(|id| fresh.state.tenant(id))).await;
    for (number, (id, found)) in ids.iter().zip(found).enumerate() {
        let found = found.unwrap().map(|tenant| tenant.id);
        assert_eq!(found.as_ref() == Some(id), number % 20 < 10, "{id}");
        assert_eq!(found.is_some(), number % 20 < 10, "{id}");
    }
}
