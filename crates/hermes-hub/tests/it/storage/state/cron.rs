//! The scheduler's state: each due time fires once.

use std::time::Duration;

use hermes_hub::{
    TenantId,
    api_types::{RunTrigger, Time, Via},
    storage::state::{
        FireOutcome, JobDueTime, JobSelection, NewFire, NewRun, Page, RunQuery, State,
        TenantDeletion,
    },
};

use super::{StateFixture, entry, job_id, new_run, tenant_id};

fn minute(number: i64) -> Time {
    Time::from_millis(number * 60_000)
}

fn fire(tenant: &TenantId, due: Time, next: Option<Time>) -> NewFire {
    let run = NewRun {
        trigger: RunTrigger::Cron,
        job: Some(job_id("job_123")),
        ..new_run(tenant)
    };
    NewFire {
        tenant: tenant.clone(),
        job: job_id("job_123"),
        due,
        next,
        outcome: Ok(run),
        entry: hermes_hub::storage::audit::NewAuditEntry::new("hub", Via::Cron, "fire"),
    }
}

async fn runs(state: &dyn State) -> usize {
    let paged = state.runs(&RunQuery::default(), &Page::default()).await;
    paged.unwrap().items.len()
}

async fn scheduled(fresh: &StateFixture, next: Time) -> TenantId {
    let tenant = fresh.tenant("a").await.id;
    let time = JobDueTime {
        job: job_id("job_123"),
        next: Some(next),
        schedule_hash: "h".into(),
    };
    fresh.state.set_job_times(&tenant, &[time]).await.unwrap();
    tenant
}

#[tokio::test]
async fn a_due_time_fires_once_whoever_tries_and_whenever() {
    let mut fresh = StateFixture::new().await;
    let tenant = scheduled(&fresh, minute(1)).await;
    let other = fresh.another_node("n2").await;
    let (one, two) = tokio::join!(
        fresh
            .state
            .record_fires(vec![fire(&tenant, minute(1), Some(minute(2)))]),
        other.record_fires(vec![fire(&tenant, minute(1), Some(minute(2)))])
    );
    let mut outcomes = [one.unwrap(), two.unwrap()].concat();
    outcomes.retain(|outcome| *outcome != FireOutcome::LeaseLost);
    if outcomes.len() < 2 {
        fresh.hand_over(&tenant, &*other).await;
        let again = vec![fire(&tenant, minute(1), Some(minute(2)))];
        outcomes.extend(other.record_fires(again).await.unwrap());
    }
    outcomes.sort_by_key(|outcome| *outcome == FireOutcome::AlreadyFired);
    assert_eq!(outcomes, [FireOutcome::Fired, FireOutcome::AlreadyFired]);
    fresh.reopen().await;
    let again = fire(&tenant, minute(1), Some(minute(2)));
    let again = fresh.state.record_fires(vec![again]).await.unwrap();
    assert_eq!(again, [FireOutcome::AlreadyFired]);
    assert_eq!(runs(&*fresh.state).await, 1);
    let times = fresh.state.job_times(&tenant).await.unwrap();
    assert_eq!(times[0].next, Some(minute(2)));
}

#[tokio::test]
async fn many_fire_together_or_not_at_all() {
    let fresh = StateFixture::new().await;
    let tenant = scheduled(&fresh, minute(1)).await;
    let first = fire(&tenant, minute(1), Some(minute(2)));
    // A run that is there already cannot be made.
    let mut second = fire(&tenant, minute(2), Some(minute(3)));
    second.outcome.clone_from(&first.outcome);
    let fires = vec![first, second];
    assert!(fresh.state.record_fires(fires).await.is_err());
    assert_eq!(runs(&*fresh.state).await, 0);
    let due = fresh.state.due_jobs(minute(5), 10).await.unwrap();
    assert_eq!(due.len(), 1, "the due time was lost");
}

#[tokio::test]
async fn skipped_due_times_are_written_down_too() {
    let fresh = StateFixture::new().await;
    let tenant = scheduled(&fresh, minute(1)).await;
    let mut skipped = fire(&tenant, minute(1), Some(minute(2)));
    skipped.outcome = Err("blocked".into());
    fresh.state.record_fires(vec![skipped]).await.unwrap();
    fresh
        .state
        .record_fires(vec![fire(&tenant, minute(2), None)])
        .await
        .unwrap();
    let fires = fresh
        .state
        .fires(&tenant, &job_id("job_123"), &Page::default())
        .await
        .unwrap();
    assert_eq!(fires.items.len(), 2);
    assert_eq!(fires.items[0].due, minute(2));
    assert!(fires.items[0].run.is_some());
    assert_eq!(fires.items[1].skipped.as_deref(), Some("blocked"));
    assert_eq!(runs(&*fresh.state).await, 1);
}

#[tokio::test]
async fn due_jobs_come_longest_overdue_first_and_not_of_deleted_tenants() {
    let fresh = StateFixture::new().await;
    for (id, next) in [("a", 3), ("b", 1), ("c", 2), ("d", 9)] {
        let tenant = fresh.tenant(id).await.id;
        let time = JobDueTime {
            job: job_id("job_123"),
            next: Some(minute(next)),
            schedule_hash: "h".into(),
        };
        let state = &fresh.state;
        state.set_job_times(&tenant, &[time]).await.unwrap();
    }
    fresh
        .state
        .delete_tenant(
            &tenant_id("c"),
            TenantDeletion::Restorable,
            None,
            entry("delete_tenant"),
        )
        .await
        .unwrap();
    let due = fresh.state.due_jobs(minute(5), 10).await.unwrap();
    let due: Vec<_> = due.iter().map(|job| job.tenant.as_str()).collect();
    assert_eq!(due, ["b", "a"]);
    assert_eq!(fresh.state.next_due().await.unwrap(), Some(minute(1)));
}

#[tokio::test]
async fn jobs_that_are_gone_are_forgotten_and_paused_ones_are_not_due() {
    let fresh = StateFixture::new().await;
    let tenant = scheduled(&fresh, minute(1)).await;
    let paused = JobDueTime {
        job: job_id("paused"),
        next: None,
        schedule_hash: "p".into(),
    };
    let state = &fresh.state;
    let times = std::slice::from_ref(&paused);
    state.set_job_times(&tenant, times).await.unwrap();
    assert_eq!(state.job_times(&tenant).await.unwrap(), [paused]);
    assert!(state.due_jobs(minute(5), 10).await.unwrap().is_empty());
    assert_eq!(state.next_due().await.unwrap(), None);
}

#[tokio::test]
async fn a_clock_that_jumps_back_fires_nothing_twice() {
    let fresh = StateFixture::new().await;
    let now = Time::now();
    let tenant = scheduled(&fresh, now).await;
    let later = now.after(Duration::from_mins(1));
    let state = &fresh.state;
    state
        .record_fires(vec![fire(&tenant, now, Some(later))])
        .await
        .unwrap();
    // After the jump the schedule is computed again and gives the same due time.
    let time = JobDueTime {
        job: job_id("job_123"),
        next: Some(now),
        schedule_hash: "h".into(),
    };
    state.set_job_times(&tenant, &[time]).await.unwrap();
    let outcome = state
        .record_fires(vec![fire(&tenant, now, Some(later))])
        .await;
    assert_eq!(outcome.unwrap(), [FireOutcome::AlreadyFired]);
    let times = state.job_times(&tenant).await.unwrap();
    assert_eq!(times[0].next, Some(later), "it would be due for ever");
}

#[tokio::test]
async fn a_due_time_that_was_set_meanwhile_is_not_replaced() {
    let fresh = StateFixture::new().await;
    let tenant = scheduled(&fresh, minute(1)).await;
    let state = &fresh.state;
    let over = JobDueTime {
        job: job_id("job_123"),
        next: None,
        schedule_hash: String::new(),
    };
    let newer = JobDueTime {
        next: Some(minute(2)),
        schedule_hash: "new".into(),
        ..over.clone()
    };
    let times = std::slice::from_ref(&newer);
    state.set_job_times(&tenant, times).await.unwrap();
    let replace = async |due| state.replace_job_time(&tenant, due, &over).await.unwrap();
    replace(minute(1)).await;
    assert_eq!(state.job_times(&tenant).await.unwrap(), [newer]);
    replace(minute(2)).await;
    assert_eq!(
        state.job_times(&tenant).await.unwrap(),
        std::slice::from_ref(&over)
    );
    // Nothing comes back that is gone.
    state.set_job_times(&tenant, &[]).await.unwrap();
    replace(minute(2)).await;
    assert!(state.job_times(&tenant).await.unwrap().is_empty());
}

#[tokio::test]
async fn fires_of_long_ago_are_forgotten() {
    let fresh = StateFixture::new().await;
    let tenant = scheduled(&fresh, minute(1)).await;
    let state = &fresh.state;
    for number in 1..=3 {
        let fire = fire(&tenant, minute(number), Some(minute(number + 1)));
        state.record_fires(vec![fire]).await.unwrap();
    }
    assert_eq!(state.forget_fires(minute(3)).await.unwrap(), 2);
    let (job, page) = (job_id("job_123"), Page::default());
    let fires = state.fires(&tenant, &job, &page).await.unwrap();
    assert_eq!(fires.items.len(), 1);
    assert_eq!(fires.items[0].due, minute(3));
}

#[tokio::test]
async fn the_next_jobs_of_all_nodes_are_read_page_by_page() {
    let fresh = StateFixture::new().await;
    let state = &*fresh.state;
    let other = fresh.another_node("n2").await;
    for (tenant, times) in [("a", [1, 3, 3]), ("b", [2, 3, 9]), ("gone", [1, 1, 1])] {
        let tenant = fresh.tenant(tenant).await.id;
        let times = times.into_iter().enumerate();
        let mut times: Vec<_> = times
            .map(|(number, time)| JobDueTime {
                job: job_id(&format!("job_{number}")),
                next: Some(minute(time)),
                schedule_hash: "h".into(),
            })
            .collect();
        times.push(JobDueTime {
            job: job_id("paused"),
            next: None,
            schedule_hash: "h".into(),
        });
        state.set_job_times(&tenant, &times).await.unwrap();
    }
    let gone = tenant_id("gone");
    let deletion = TenantDeletion::Restorable;
    let deleted = state.delete_tenant(&gone, deletion, None, entry("delete_tenant"));
    deleted.await.unwrap();
    let list = async |selection: JobSelection, only: Option<&[TenantId]>| {
        let mut found = Vec::new();
        let mut page = Page::first(2);
        loop {
            let paged = other.next_jobs(selection, only, &page).await.unwrap();
            assert!(paged.items.len() <= 2);
            let jobs = paged.items.into_iter();
            found.extend(jobs.map(|job| {
                let next = job.next.map_or("-".to_owned(), |next| next.to_string());
                format!("{next} {} {}", job.tenant, job.job)
            }));
            match paged.next {
                Some(cursor) => page = Page::after(2, cursor),
                None => break found,
            }
        }
    };
    let named = |jobs: &[(i64, &str, u32)]| {
        let jobs = jobs.iter();
        let jobs = jobs.map(|(time, tenant, job)| format!("{} {tenant} job_{job}", minute(*time)));
        jobs.collect::<Vec<_>>()
    };
    let all = [
        (1, "a", 0),
        (2, "b", 0),
        (3, "a", 1),
        (3, "a", 2),
        (3, "b", 1),
        (9, "b", 2),
    ];
    // Whoever holds their leases.
    let upcoming = JobSelection::Upcoming;
    assert_eq!(list(upcoming, None).await, named(&all));
    let of_b = [(2, "b", 0), (3, "b", 1), (9, "b", 2)];
    assert_eq!(list(upcoming, Some(&[tenant_id("b")])).await, named(&of_b));
    assert!(list(upcoming, Some(&[])).await.is_empty());
    // Those that are paused too, in another order.
    let every = list(JobSelection::All, None).await;
    let paused = every.iter().filter(|job| job.starts_with("- "));
    assert_eq!(paused.count(), 2, "{every:?}");
    assert_eq!(every.len(), all.len() + 2, "{every:?}");
    let order = every.iter().map(|job| job.split_once(' ').unwrap().1);
    assert!(order.is_sorted(), "{every:?}");
    let of_b = list(JobSelection::All, Some(&[tenant_id("b")])).await;
    assert_eq!(of_b.len(), 4, "{of_b:?}");
}
