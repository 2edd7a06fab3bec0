//! Reads whose statements are put together from what is asked for: each without and with everything that can be asked for.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use hermes_hub::{
    GroupId, JobId, RunId, TenantId,
    api_types::{
        Decision, DeliveryState, HubEventType, RunStatus, RunTrigger, TenantStatus, Time, UsageDay,
        UsageGroup, ids::WebhookId,
    },
    storage::state::{
        ApprovalQuery, AuditOrder, AuditQuery, GroupDeletion, HubEventQuery, IdempotencyKey,
        JobSelection, Page, RunQuery, State, TenantFilter, TenantQuery, UsageQuery,
    },
};

use super::{entry, tenant_id};

/// The page after a row with this key.
fn page_after(key: &[&str]) -> Page {
    let cursor = serde_json::to_vec(key).unwrap();
    Page::after(10, URL_SAFE_NO_PAD.encode(cursor))
}

/// Two tenants, as those whom somebody may see.
fn some_tenants() -> Vec<TenantId> {
    vec![tenant_id("acme"), tenant_id("bolt")]
}

pub(super) async fn read_with_all_filters(state: &dyn State) {
    read_runs(state).await;
    read_approvals_and_events(state).await;
    read_tenants(state).await;
    read_audit(state).await;
    read_sums(state).await;
    read_groups_and_others(state).await;
}

async fn read_runs(state: &dyn State) {
    let (tenant, only, now) = (tenant_id("acme"), Some(some_tenants()), Time::now());
    let (first, after_number) = (Page::first(10), page_after(&["7"]));
    let any_run = RunQuery::default();
    state.runs(&any_run, &first).await.unwrap();
    let narrow_run = RunQuery {
        tenant: Some(tenant.clone()),
        only,
        status: Some(RunStatus::Failed),
        trigger: Some(RunTrigger::Api),
        job: Some(JobId::random().unwrap()),
        model: Some("m".into()),
        since: Some(now),
        until: Some(now),
    };
    state.runs(&narrow_run, &after_number).await.unwrap();
    for tenant in [None, Some(&tenant)] {
        state.count_runs(tenant).await.unwrap();
    }
}

async fn read_approvals_and_events(state: &dyn State) {
    let (tenant, only, now) = (tenant_id("acme"), Some(some_tenants()), Time::now());
    let (first, after_number) = (Page::first(10), page_after(&["7"]));
    let narrow_approval = ApprovalQuery {
        only: only.clone(),
        run: Some(RunId::random().unwrap()),
        pending: true,
        expired_before: Some(now),
        undelivered: true,
    };
    state
        .approvals(&ApprovalQuery::default(), &first)
        .await
        .unwrap();
    state
        .approvals(&narrow_approval, &after_number)
        .await
        .unwrap();

    let narrow_event = HubEventQuery {
        after: 1,
        kinds: vec![HubEventType::RunEnded],
        tenant: Some(tenant),
        only,
    };
    state
        .hub_events(&HubEventQuery::default(), 10)
        .await
        .unwrap();
    state.hub_events(&narrow_event, 10).await.unwrap();
}

async fn read_tenants(state: &dyn State) {
    let (only, now, first) = (Some(some_tenants()), Time::now(), Page::first(10));
    state
        .tenants(&TenantQuery::default(), &first)
        .await
        .unwrap();
    for filter in [
        TenantFilter::Status(TenantStatus::Ready),
        TenantFilter::DeletedBefore(now),
    ] {
        for value in [None, Some("blue".to_owned())] {
            let narrow = TenantQuery {
                filter,
                only: only.clone(),
                text: Some("a".into()),
                flavor: Some("standard".into()),
                label: Some(("team".into(), value)),
            };
            state.tenants(&narrow, &page_after(&["a"])).await.unwrap();
        }
    }
}

async fn read_audit(state: &dyn State) {
    let (tenant, only, now) = (tenant_id("acme"), Some(some_tenants()), Time::now());
    for order in [AuditOrder::NewestFirst, AuditOrder::OldestFirst] {
        let by_actor = AuditQuery {
            actor: Some("a".into()),
            action: Some("b".into()),
            decision: Some(Decision::Deny),
            request_id: Some("c".into()),
            since: Some(now),
            until: Some(now),
            order,
            reach: Some(1_000),
            ..AuditQuery::default()
        };
        let page = page_after(&["1", "n1", "1"]);
        state.audit(&by_actor, &page).await.unwrap();
        let of_tenants = AuditQuery {
            tenant: Some(tenant.clone()),
            only: only.clone(),
            ..by_actor
        };
        state.audit(&of_tenants, &page).await.unwrap();
    }
}

async fn read_sums(state: &dyn State) {
    let (only, now) = (Some(some_tenants()), Time::now());
    for only in [None, only.as_deref()] {
        state.tenant_counts(only).await.unwrap();
        state.tenants_with_conditions(only, 10).await.unwrap();
        state.ended_runs(only, now, 10).await.unwrap();
        let page = page_after(&["1", "acme", "job"]);
        for selection in [JobSelection::Upcoming, JobSelection::All] {
            state.next_jobs(selection, only, &page).await.unwrap();
        }
        for by in [UsageGroup::Day, UsageGroup::Model, UsageGroup::Tenant] {
            let usage = UsageQuery {
                by,
                first: UsageDay(1),
                last: UsageDay(2),
                only: only.map(<[_]>::to_vec),
            };
            state.run_usage(&usage).await.unwrap();
        }
    }
}

async fn read_groups_and_others(state: &dyn State) {
    let tenant = tenant_id("acme");
    state.groups(&page_after(&["a"])).await.unwrap();
    let group = GroupId::parse("team").unwrap();
    state.share(&tenant, &group).await.unwrap();
    state.shares(&tenant).await.unwrap();
    let deletion = state.delete_group(
        &group,
        GroupDeletion::OnlyIfEmpty,
        None,
        entry("delete_group"),
    );
    deletion.await.unwrap_err();

    let webhook = WebhookId::random().unwrap();
    for status in [None, Some(DeliveryState::Dead)] {
        let page = page_after(&["7"]);
        state.deliveries(&webhook, status, &page).await.unwrap();
    }

    let key = IdempotencyKey {
        token: "t".into(),
        route: "r".into(),
        key: "k".into(),
    };
    for _ in 0..2 {
        state.claim_key(&key, &[0; 32]).await.unwrap();
    }
}
