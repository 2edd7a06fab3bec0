//! Runs, their queue and their events.

use std::time::Duration;

use hermes_hub::{
    RunId, TenantId,
    api_types::{RunError, RunStatus, RunTrigger, Time, ids::AgentRunId},
    storage::state::{NewEvent, Page, RunChange, RunQuery, RunUpdate, State, StateError},
};
use hermes_protocol::RunEvent;

use super::{StateFixture, entry, job_id, new_run, or_lease_lost, tenant_id};

fn delta(text: &str, agent_sequence: u64) -> NewEvent {
    NewEvent {
        event: RunEvent::delta(text),
        agent_sequence: Some(agent_sequence),
    }
}

async fn update(state: &dyn State, tenant: &TenantId, run: &RunId, update: RunUpdate) {
    state.update_run(tenant, run, update).await.unwrap();
}

fn ends(status: RunStatus) -> RunUpdate {
    RunUpdate {
        change: RunChange {
            status: Some(status),
            ..RunChange::default()
        },
        ..RunUpdate::default()
    }
}

#[tokio::test]
async fn the_oldest_run_goes_first_and_only_so_many_at_once() {
    let fresh = StateFixture::new().await;
    let tenant = fresh.tenant("a").await.id;
    let state = &*fresh.state;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(fresh.run(&tenant).await);
    }
    let claim = async || {
        let claimed = state.claim_run(&tenant, 2).await.unwrap();
        claimed.map(|record| record.run.run_id)
    };
    assert_eq!(claim().await.as_ref(), Some(&ids[0]));
    assert_eq!(claim().await.as_ref(), Some(&ids[1]));
    assert_eq!(claim().await, None);
    update(state, &tenant, &ids[0], ends(RunStatus::Completed)).await;
    assert_eq!(claim().await.as_ref(), Some(&ids[2]));
    assert_eq!(claim().await, None);
    let claimed = state.claimed_runs().await.unwrap();
    assert_eq!(claimed.len(), 2);
    assert!(
        fresh
            .another_node("n2")
            .await
            .claimed_runs()
            .await
            .unwrap()
            .is_empty()
    );
}

#[tokio::test]
async fn two_nodes_never_claim_the_same_run() {
    let fresh = StateFixture::new().await;
    let tenant = fresh.tenant("a").await.id;
    let other = fresh.another_node("n2").await;
    for _ in 0..10 {
        let run = fresh.run(&tenant).await;
        let (one, two) = tokio::join!(
            fresh.state.claim_run(&tenant, 100),
            other.claim_run(&tenant, 100)
        );
        let claimed: Vec<_> = [or_lease_lost(one), or_lease_lost(two)]
            .into_iter()
            .flatten()
            .collect();
        assert_eq!(claimed.len(), 1);
        assert_eq!(claimed[0].run.run_id, run);
    }
}

#[tokio::test]
async fn a_full_queue_takes_no_more() {
    let fresh = StateFixture::new().await;
    let tenant = fresh.tenant("a").await.id;
    let create = || {
        let run = new_run(&tenant);
        fresh.state.create_run(run, 2, entry("create_run"))
    };
    create().await.unwrap();
    create().await.unwrap();
    assert!(matches!(create().await, Err(StateError::TooMany { .. })));
    fresh.state.claim_run(&tenant, 1).await.unwrap().unwrap();
    create().await.unwrap();
    let counts = fresh.state.count_runs(Some(&tenant)).await.unwrap();
    let counts: Vec<_> = counts.into_iter().collect();
    assert_eq!(counts, [(RunStatus::Queued, 2), (RunStatus::Running, 1)]);
}

#[tokio::test]
async fn tenants_that_wait_longest_come_first() {
    let fresh = StateFixture::new().await;
    for id in ["a", "b", "c"] {
        fresh.tenant(id).await;
    }
    for id in ["c", "a", "c"] {
        fresh.run(&tenant_id(id)).await;
    }
    let waiting = fresh.state.waiting_tenants(10).await.unwrap();
    assert_eq!(waiting, [tenant_id("c"), tenant_id("a")]);
}

#[tokio::test]
async fn events_are_numbered_from_one_and_the_agents_are_stored_once() {
    let mut fresh = StateFixture::new().await;
    let tenant = fresh.tenant("a").await.id;
    let run = fresh.run(&tenant).await;
    let claimed = fresh.state.claim_run(&tenant, 1).await.unwrap();
    assert_eq!(claimed.unwrap().run.status, RunStatus::Running);
    let events = |events| RunUpdate {
        events,
        change: RunChange {
            agent_run: Some(AgentRunId("theirs".into())),
            ..RunChange::default()
        },
        ..RunUpdate::default()
    };
    let first = events(vec![delta("a", 1), delta("b", 2)]);
    update(&*fresh.state, &tenant, &run, first).await;
    // The stream was disconnected and resumed a little earlier.
    let again = events(vec![delta("b", 2), delta("c", 3)]);
    let updated = fresh.state.update_run(&tenant, &run, again).await.unwrap();
    let ids: Vec<_> = updated.events.iter().map(|event| event.id).collect();
    assert_eq!(ids, [3]);
    assert_eq!(updated.record.agent_sequence, 3);
    let live = updated.events;
    fresh.reopen().await;
    let page = fresh.state.run_events(&tenant, &run, 0, 100).await.unwrap();
    let texts: Vec<_> = page
        .events
        .iter()
        .map(|event| event.body["delta"].clone())
        .collect();
    assert_eq!(texts, ["a", "b", "c"]);
    assert_eq!((page.oldest, page.last), (Some(1), 3));
    let later = fresh.state.run_events(&tenant, &run, 2, 100).await.unwrap();
    assert_eq!(later.events, live, "replayed events differ from live ones");
    let few = fresh.state.run_events(&tenant, &run, 0, 2).await.unwrap();
    assert_eq!(few.events.len(), 2);
    let record = fresh.state.run(&tenant, &run).await.unwrap().unwrap();
    assert_eq!(record.agent_run, Some(AgentRunId("theirs".into())));
    assert_eq!(record.run.last_event_id, 3);
}

#[tokio::test]
async fn many_writers_of_one_run_leave_no_gap() {
    let fresh = StateFixture::new().await;
    let tenant = fresh.tenant("a").await.id;
    let run = fresh.run(&tenant).await;
    let writes = (0..20).map(|_| {
        let event = NewEvent {
            event: RunEvent::delta("x"),
            agent_sequence: None,
        };
        let update = RunUpdate {
            events: vec![event],
            ..RunUpdate::default()
        };
        fresh.state.update_run(&tenant, &run, update)
    });
    for written in futures::future::join_all(writes).await {
        written.unwrap();
    }
    let page = fresh.state.run_events(&tenant, &run, 0, 100).await.unwrap();
    let ids: Vec<_> = page.events.iter().map(|event| event.id).collect();
    assert_eq!(ids, (1..=20).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_run_that_has_ended_does_not_change() {
    let fresh = StateFixture::new().await;
    let tenant = fresh.tenant("a").await.id;
    let run = fresh.run(&tenant).await;
    let state = &*fresh.state;
    let from_running = RunUpdate {
        allowed_from: vec![RunStatus::Running],
        ..ends(RunStatus::Stopping)
    };
    let early = state.update_run(&tenant, &run, from_running).await;
    assert!(matches!(
        early,
        Err(StateError::Conflict {
            reason: "run_status",
            ..
        })
    ));
    let mut failed = ends(RunStatus::Failed);
    failed.change.error = Some(RunError {
        code: "interrupted".into(),
        message: "cut off".into(),
    });
    update(state, &tenant, &run, failed).await;
    let late = state
        .update_run(&tenant, &run, ends(RunStatus::Completed))
        .await;
    assert!(matches!(
        late,
        Err(StateError::Conflict {
            reason: "run_ended",
            ..
        })
    ));
    let record = state.run(&tenant, &run).await.unwrap().unwrap();
    assert_eq!(record.run.status, RunStatus::Failed);
    assert_eq!(record.run.error.unwrap().code, "interrupted");
}

#[tokio::test]
async fn a_run_that_was_cut_off_goes_back_to_its_old_place() {
    let fresh = StateFixture::new().await;
    let tenant = fresh.tenant("a").await.id;
    let first = fresh.run(&tenant).await;
    fresh.run(&tenant).await;
    let state = &*fresh.state;
    let early = state.requeue_run(&tenant, &first, "agent_lost", None).await;
    assert!(matches!(early, Err(StateError::Conflict { .. })));
    state.claim_run(&tenant, 1).await.unwrap().unwrap();
    let with_event = RunUpdate {
        events: vec![delta("a", 1)],
        ..RunUpdate::default()
    };
    update(state, &tenant, &first, with_event).await;
    let requeued = state
        .requeue_run(&tenant, &first, "agent_lost", None)
        .await
        .unwrap();
    assert_eq!(requeued.record.run.attempt, 2);
    assert_eq!(requeued.events[0].event, "run.requeued");
    assert_eq!(requeued.events[0].id, 2);
    let again = state.claim_run(&tenant, 1).await.unwrap().unwrap();
    assert_eq!(again.run.run_id, first);
    // The new attempt counts from one again.
    let with_event = RunUpdate {
        events: vec![delta("a", 1)],
        ..RunUpdate::default()
    };
    let updated = state.update_run(&tenant, &first, with_event).await.unwrap();
    assert_eq!(updated.events[0].id, 3);
}

#[tokio::test]
async fn runs_are_listed_newest_first_by_what_one_looks_for() {
    let fresh = StateFixture::new().await;
    let one = fresh.tenant("a").await.id;
    let other = fresh.tenant("b").await.id;
    let state = &*fresh.state;
    let first = fresh.run(&one).await;
    fresh.run(&other).await;
    let mut cron = new_run(&one);
    cron.trigger = RunTrigger::Cron;
    cron.job = Some(job_id("job_123"));
    let cron_id = cron.id.clone();
    state
        .create_run(cron, 10, entry("create_run"))
        .await
        .unwrap();
    let list = async |query: RunQuery| {
        let paged = state.runs(&query, &Page::default()).await.unwrap();
        paged
            .items
            .into_iter()
            .map(|run| run.run_id)
            .collect::<Vec<_>>()
    };
    let of_one = RunQuery {
        tenant: Some(one.clone()),
        ..RunQuery::default()
    };
    assert_eq!(list(of_one).await, [cron_id.clone(), first]);
    let by_cron = RunQuery {
        trigger: Some(RunTrigger::Cron),
        job: Some(job_id("job_123")),
        ..RunQuery::default()
    };
    assert_eq!(list(by_cron).await, [cron_id]);
    let (earlier, later) = (
        Time::now().before(Duration::from_hours(1)),
        Time::now().after(Duration::from_hours(1)),
    );
    for (since, until, count) in [
        (Some(earlier), Some(later), 3),
        (Some(later), None, 0),
        (None, Some(earlier), 0),
    ] {
        let at_that_time = RunQuery {
            since,
            until,
            ..RunQuery::default()
        };
        assert_eq!(list(at_that_time).await.len(), count, "{since:?} {until:?}");
    }
    let of_a_model = RunQuery {
        model: Some("none".to_owned()),
        ..RunQuery::default()
    };
    assert!(list(of_a_model).await.is_empty());
    let covered = RunQuery {
        only: Some(vec![other.clone()]),
        ..RunQuery::default()
    };
    assert_eq!(list(covered).await.len(), 1);
    let all = state
        .runs(&RunQuery::default(), &Page::first(2))
        .await
        .unwrap();
    let rest = Page::after(2, all.next.unwrap());
    let rest = state.runs(&RunQuery::default(), &rest).await.unwrap();
    assert_eq!((all.items.len(), rest.items.len(), rest.next), (2, 1, None));
}

#[tokio::test]
async fn another_tenants_run_is_not_there() {
    let fresh = StateFixture::new().await;
    let one = fresh.tenant("a").await.id;
    let other = fresh.tenant("b").await.id;
    let run = fresh.run(&one).await;
    let state = &*fresh.state;
    assert!(state.run(&other, &run).await.unwrap().is_none());
    let events = state.run_events(&other, &run, 0, 10).await;
    assert!(matches!(events, Err(StateError::NotFound { .. })));
    let updated = state.update_run(&other, &run, RunUpdate::default()).await;
    assert!(matches!(updated, Err(StateError::NotFound { .. })));
}

#[tokio::test]
async fn old_runs_are_forgotten_and_young_or_unfinished_ones_not() {
    let fresh = StateFixture::new().await;
    let tenant = fresh.tenant("a").await.id;
    let state = &*fresh.state;
    let ended = fresh.run(&tenant).await;
    let waiting = fresh.run(&tenant).await;
    update(state, &tenant, &ended, ends(RunStatus::Completed)).await;
    let earlier = Time::now().before(Duration::from_hours(1));
    assert_eq!(state.forget_runs(earlier).await.unwrap(), 0);
    let later = Time::now().after(Duration::from_hours(1));
    assert_eq!(state.forget_runs(later).await.unwrap(), 1);
    assert!(state.run(&tenant, &ended).await.unwrap().is_none());
    assert!(state.run(&tenant, &waiting).await.unwrap().is_some());
}
