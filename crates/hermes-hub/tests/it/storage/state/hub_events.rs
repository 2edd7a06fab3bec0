//! Events of the Hub: stored with what they tell of, in an order that a watcher can resume.

use std::time::Duration;

use hermes_hub::{
    ApprovalId,
    api_types::{
        Condition, ConditionStatus, HubEvent, HubEventType, RunStatus, TenantStatus, Time,
    },
    storage::state::{
        HubEventQuery, NEAR_QUOTA, NewApproval, RunChange, RunUpdate, State, TenantDeletion,
        TenantObservation,
    },
};

use super::{StateFixture, entry, tenant_id};

async fn events(state: &dyn State, query: HubEventQuery) -> Vec<HubEvent> {
    state.hub_events(&query, 1000).await.unwrap()
}

async fn kinds(state: &dyn State) -> Vec<HubEventType> {
    let events = events(state, HubEventQuery::default()).await;
    events.into_iter().map(|event| event.kind).collect()
}

fn condition(kind: &str, status: ConditionStatus, reason: &str) -> TenantObservation {
    let condition = Condition {
        kind: kind.into(),
        status,
        reason: reason.into(),
        message: "m".into(),
        last_transition_time: Time::now(),
    };
    TenantObservation {
        conditions: vec![condition],
        ..TenantObservation::default()
    }
}

#[tokio::test]
async fn what_happens_to_tenants_and_runs_is_stored_in_order_and_says_no_more_than_ids() {
    use HubEventType::{ApprovalWaiting, RunEnded, TenantCreated, TenantDeleted};

    let fresh = StateFixture::new().await;
    let tenant = fresh.tenant("a").await.id;
    let state = &*fresh.state;
    let notice = state.hub_event_notice();
    let run = fresh.run(&tenant).await;
    state.claim_run(&tenant, 1).await.unwrap().unwrap();
    let asked = NewApproval {
        id: ApprovalId::random().unwrap(),
        agent_id: Some("x".into()),
        command: "rm -rf secret".into(),
        description: String::new(),
        choices: Vec::new(),
        form: None,
        expires_at: Some(Time::now()),
        carried: None,
    };
    let waits = RunUpdate {
        new_approvals: vec![asked.clone()],
        ..RunUpdate::default()
    };
    state
        .update_run(&tenant, &run, waits.clone())
        .await
        .unwrap();
    // It is asked for the same again: nothing new happened.
    state.update_run(&tenant, &run, waits).await.unwrap();
    let ends = RunUpdate {
        change: RunChange {
            status: Some(RunStatus::Failed),
            ..RunChange::default()
        },
        ..RunUpdate::default()
    };
    state.update_run(&tenant, &run, ends).await.unwrap();
    let deletion = TenantDeletion::Restorable;
    let deleted = state.delete_tenant(&tenant, deletion, None, entry("delete_tenant"));
    deleted.await.unwrap();
    assert!(notice.has_changed().unwrap());
    let found = events(state, HubEventQuery::default()).await;
    let told: Vec<_> = found.iter().map(|event| (event.id, event.kind)).collect();
    let expected = [TenantCreated, ApprovalWaiting, RunEnded, TenantDeleted];
    assert_eq!(told, (1..).zip(expected).collect::<Vec<_>>());
    assert_eq!(found[1].data["approvalId"], asked.id.as_str());
    assert_eq!(found[2].data["runId"], run.as_str());
    assert_eq!(found[2].data["status"], "failed");
    assert!(!serde_json::to_string(&found).unwrap().contains("secret"));
    let range = state.hub_event_range().await.unwrap();
    assert_eq!((range.oldest, range.last), (Some(1), 4));
}

#[tokio::test]
async fn a_tenant_that_fails_or_runs_out_of_space_or_needs_a_login_is_news_once() {
    use HubEventType::{LoginNeeded, QuotaNear, TenantCreated, TenantFailed};

    let fresh = StateFixture::new().await;
    let tenant = fresh.tenant("a").await.id;
    let state = &*fresh.state;
    let (good, bad) = (ConditionStatus::True, ConditionStatus::False);
    for observation in [
        condition("AgentHealthy", bad, "killed"),
        // It dies again, of something else.
        condition("AgentHealthy", bad, "no_start"),
        condition("AgentHealthy", good, "started"),
        condition("AgentHealthy", bad, "killed"),
        condition("StorageWithinQuota", good, NEAR_QUOTA),
        condition("StorageWithinQuota", good, NEAR_QUOTA),
        condition("StorageWithinQuota", good, "within_quota"),
        condition("LoginsValid", bad, "1 waiting"),
        condition("LoginsValid", bad, "2 waiting"),
        condition("Sandboxed", bad, "off"),
        TenantObservation {
            status: Some(TenantStatus::Failed),
            ..TenantObservation::default()
        },
    ] {
        state.observe_tenant(&tenant, observation).await.unwrap();
    }
    let expected = [
        TenantCreated,
        TenantFailed,
        TenantFailed,
        QuotaNear,
        LoginNeeded,
        LoginNeeded,
        TenantFailed,
    ];
    assert_eq!(kinds(state).await, expected);
}

#[tokio::test]
async fn events_are_filtered_by_type_and_tenant_and_by_what_a_token_covers() {
    let fresh = StateFixture::new().await;
    let state = &*fresh.state;
    for id in ["a", "b"] {
        let tenant = fresh.tenant(id).await.id;
        let deletion = TenantDeletion::Restorable;
        let deleted = state.delete_tenant(&tenant, deletion, None, entry("delete_tenant"));
        deleted.await.unwrap();
    }
    let found = async |query: HubEventQuery| {
        let found = events(state, query).await;
        let found = found.into_iter();
        found.map(|event| event.id).collect::<Vec<_>>()
    };
    let all = HubEventQuery::default;
    assert_eq!(found(all()).await, [1, 2, 3, 4]);
    let later = HubEventQuery { after: 2, ..all() };
    assert_eq!(found(later).await, [3, 4]);
    let deleted = HubEventQuery {
        kinds: vec![HubEventType::TenantDeleted],
        ..all()
    };
    assert_eq!(found(deleted).await, [2, 4]);
    let of_b = HubEventQuery {
        tenant: Some(tenant_id("b")),
        ..all()
    };
    assert_eq!(found(of_b).await, [3, 4]);
    let hidden = HubEventQuery {
        tenant: Some(tenant_id("b")),
        only: Some(vec![tenant_id("a")]),
        ..all()
    };
    assert!(found(hidden).await.is_empty());
    let first = state.hub_events(&all(), 1).await.unwrap();
    assert_eq!(first.len(), 1);
}

#[tokio::test]
async fn an_id_is_never_used_again_after_events_were_deleted() {
    let fresh = StateFixture::new().await;
    let state = &*fresh.state;
    fresh.tenant("a").await;
    assert_eq!(kinds(state).await.len(), 1);
    let later = Time::now().after(Duration::from_mins(1));
    assert_eq!(state.forget_hub_events(later).await.unwrap(), 1);
    let range = state.hub_event_range().await.unwrap();
    assert_eq!((range.oldest, range.last), (None, 1));
    fresh.tenant("b").await;
    let found = events(state, HubEventQuery::default()).await;
    assert_eq!(found[0].id, 2);
}

#[tokio::test]
async fn many_writers_leave_no_gap_and_no_event_out() {
    let fresh = StateFixture::new().await;
    let other = fresh.another_node("n2").await;
    let made = (0..20).map(|number| {
        let state = if number % 2 == 0 {
            &fresh.state
        } else {
            &other
        };
        let tenant = fresh.new_tenant(&format!("t{number}"));
        let reading = state.clone();
        async move {
            let made = state.create_tenant(tenant, entry("create_tenant")).await;
            made.unwrap();
            reading.hub_event_range().await.unwrap();
        }
    });
    futures::future::join_all(made).await;
    let found = events(&*fresh.state, HubEventQuery::default()).await;
    let ids: Vec<_> = found.iter().map(|event| event.id).collect();
    assert_eq!(ids, (1..=20).collect::<Vec<_>>());
}
