//! What the first page of the console shows of all tenants.

use std::time::Duration;

use hermes_hub::{
    api_types::{Condition, ConditionStatus, RunStatus, TenantStatus, Time},
    storage::state::{RunChange, RunUpdate, TenantObservation},
};

use super::StateFixture;

fn observation(kind: &str, status: ConditionStatus, reason: &str) -> TenantObservation {
    TenantObservation {
        conditions: vec![Condition {
            kind: kind.into(),
            status,
            reason: reason.into(),
            message: "m".into(),
            last_transition_time: Time::now(),
        }],
        ..TenantObservation::default()
    }
}

#[tokio::test]
async fn tenants_in_trouble_are_found_and_others_are_not() {
    use ConditionStatus::{False, True};

    let fresh = StateFixture::new().await;
    let state = &*fresh.state;
    for (tenant, kind, status, reason) in [
        ("agent", "AgentHealthy", False, "died"),
        ("login", "LoginsValid", False, "1 waiting"),
        ("near", "StorageWithinQuota", True, "near_quota"),
        ("full", "StorageWithinQuota", False, "full"),
        ("deaf", "PlatformsConnected", False, "1 deaf"),
        ("open", "Sandboxed", False, "none"),
        ("well", "AgentHealthy", True, "running"),
    ] {
        let id = fresh.tenant(tenant).await.id;
        let observation = observation(kind, status, reason);
        state.observe_tenant(&id, observation).await.unwrap();
    }
    let found = state.tenants_with_conditions(None, 10).await.unwrap();
    let ids: Vec<&str> = found.iter().map(|tenant| tenant.id.as_str()).collect();
    assert_eq!(ids, ["agent", "deaf", "full", "login", "near"]);
    let two = state.tenants_with_conditions(None, 2).await.unwrap();
    assert_eq!(two.len(), 2);
    let only = [found[1].id.clone()];
    let seen = state
        .tenants_with_conditions(Some(&only), 10)
        .await
        .unwrap();
    assert_eq!(seen, [found[1].clone()]);
    let counts = state.tenant_counts(Some(&only)).await.unwrap();
    assert_eq!(counts.iter().map(|(_, count)| count).sum::<u64>(), 1);
    let counts = state.tenant_counts(None).await.unwrap();
    assert_eq!(counts.iter().map(|(_, count)| count).sum::<u64>(), 7);
    assert!(
        counts
            .iter()
            .all(|(status, _)| *status != TenantStatus::Deleted)
    );
}

#[tokio::test]
async fn the_last_runs_that_ended_are_found_of_all_tenants_or_of_some() {
    let fresh = StateFixture::new().await;
    let state = &*fresh.state;
    let mut tenants = Vec::new();
    for name in ["a", "b"] {
        let tenant = fresh.tenant(name).await.id;
        let run = fresh.run(&tenant).await;
        state.claim_run(&tenant, 1).await.unwrap().unwrap();
        let end = RunUpdate {
            change: RunChange {
                status: Some(RunStatus::Failed),
                ..RunChange::default()
            },
            ..RunUpdate::default()
        };
        state.update_run(&tenant, &run, end).await.unwrap();
        // This one has not ended.
        fresh.run(&tenant).await;
        tenants.push(tenant);
    }
    let day = Time::now().before(Duration::from_hours(24));
    let found = state.ended_runs(None, day, 10).await.unwrap();
    assert_eq!(found.len(), 2);
    assert!(found.iter().all(|run| run.status == RunStatus::Failed));
    let own = state
        .ended_runs(Some(&tenants[..1]), day, 10)
        .await
        .unwrap();
    assert_eq!(own.len(), 1);
    assert_eq!(own[0].tenant, tenants[0]);
    let later = Time::now().after(Duration::from_hours(1));
    assert!(state.ended_runs(None, later, 10).await.unwrap().is_empty());
    assert_eq!(state.ended_runs(None, day, 1).await.unwrap().len(), 1);
}
