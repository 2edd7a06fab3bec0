//! What is asked often reads few rows, however much was done before: nothing that grows is scanned. The server counts the
//! rows that are read of each table and index.

use std::time::Duration;

use hermes_hub::{
    RunId,
    api_types::{RunStatus, Time},
    storage::state::{ApprovalQuery, HubEventQuery, Page, RunChange, RunQuery, RunUpdate, State},
};
use hermes_testkit::{eventually, postgres::TestDatabase};

use super::{StateFixture, entry, job_id, new_run, open_postgres, tenant_id};
use crate::test_hub::TIMEOUT;

/// Runs that have ended: of one tenant, and of another.
const ENDED: u64 = 20_000;
/// A page of ten, and what is looked at on the way; a scan would read a hundred times as many.
const FEW: u64 = 200;
const DAY: i64 = 86_400_000;

/// Tables that get rows from what is done.
const GROWING: &str =
    "('runs', 'run_events', 'approvals', 'hub_events', 'hub_event_inbox', 'webhook_deliveries',
     'fires', 'job_times', 'audit', 'idempotency')";

/// A database after a month of work, which ended now.
async fn grown_database() -> StateFixture {
    let fresh = StateFixture::new().await;
    for tenant in ["acme", "bolt", "quiet"] {
        fresh.tenant(tenant).await;
    }
    fresh.state.close().await;
    let database = fresh.database.as_ref().unwrap();
    for sql in [
        // The third part failed, and the other two have completed.
        &format!(
            "INSERT INTO runs (id, tenant, status, cause, job, request, metadata, retry_interrupted, last_event,
                 created_at, updated_at, ended_at)
             SELECT 'run_' || lpad(to_hex(n), 32, '0'), CASE n % 2 WHEN 0 THEN 'acme' ELSE 'bolt' END,
                 CASE n % 3 WHEN 0 THEN 'failed' ELSE 'completed' END, 'cron', 'job' || n % 50, '{{}}', '{{}}', FALSE, 2,
                 at, at, at + 1000
             FROM (SELECT n, hub_now() - (2 * {ENDED} - n)::bigint * 30 * {DAY} / (2 * {ENDED}) - 2000 AS at
                   FROM generate_series(1, 2 * {ENDED}) AS n) AS work"
        ),
        "INSERT INTO run_events (run, id, event, body, time)
         SELECT number, event, 'run.event', '{}', ended_at FROM runs, generate_series(1, 2) AS event",
        "INSERT INTO approvals (id, run, run_id, tenant, agent_id, state, command, description, created_at, delivered)
         SELECT 'apr_' || lpad(to_hex(number), 24, '0'), number, id, tenant, 'a', 'decided', 'ls', 'd', created_at, TRUE FROM runs",
        "INSERT INTO fires (tenant, job, due, fired_at, run)
         SELECT tenant, job, ended_at, ended_at, id FROM runs",
        // Of these, three are due.
        "INSERT INTO job_times (tenant, job, next, schedule_hash)
         SELECT 'acme', 'job' || n, hub_now() + (n - 3) * 60000 - 1000, '' FROM generate_series(1, 20000) AS n",
        "INSERT INTO hub_events (id, type, tenant, data, time)
         SELECT number, 'run.ended', tenant, '{}', ended_at FROM runs",
        "UPDATE hub_event_head SET last = (SELECT max(id) FROM hub_events), fanned_out = (SELECT max(id) FROM hub_events)",
        "INSERT INTO idempotency (token, route, key, body, state, node, created_at)
         SELECT 't', 'r', id, '', 'answered', 'n1', hub_now() - 1000 FROM runs",
        "ANALYZE",
    ] {
        database.run_sql(sql);
    }
    fresh
}

/// How many rows of the growing tables the server has read for anybody.
fn rows_read(database: &TestDatabase) -> u64 {
    let sum = format!(
        "SELECT (SELECT COALESCE(SUM(seq_tup_read), 0) FROM pg_stat_user_tables WHERE relname IN {GROWING})
             + (SELECT COALESCE(SUM(GREATEST(idx_tup_read, idx_tup_fetch)), 0) FROM pg_stat_user_indexes
                WHERE relname IN {GROWING})"
    );
    database.run_sql(&sum).parse().unwrap()
}

/// How many rows are read for what a node of its own does: the server counts when its connections are closed.
async fn count_rows(fresh: &StateFixture, work: impl AsyncFnOnce(&dyn State)) -> u64 {
    let database = fresh.database.as_ref().unwrap();
    let before = rows_read(database);
    let node = open_postgres(database.url(), "n1").await;
    for tenant in ["acme", "quiet"] {
        fresh.hand_over(&tenant_id(tenant), &*node).await;
    }
    work(&*node).await;
    node.close().await;
    wait_for_others(database).await;
    rows_read(database) - before
}

/// Until nobody else is connected: then the server has counted everything.
async fn wait_for_others(database: &TestDatabase) {
    let others = "SELECT count(*) FROM pg_stat_activity
         WHERE datname = current_database() AND pid <> pg_backend_pid()";
    let are_closed = eventually(TIMEOUT, || database.run_sql(others) == "0").await;
    assert!(are_closed, "connections stay open");
}

fn ended(status: RunStatus) -> RunUpdate {
    RunUpdate {
        change: RunChange {
            status: Some(status),
            ..RunChange::default()
        },
        ..RunUpdate::default()
    }
}

/// Reads pages of ten.
async fn list_runs(state: &dyn State, query: RunQuery) {
    let mut page = Page::first(10);
    for _ in 0..2 {
        let found = state.runs(&query, &page).await.unwrap();
        page.cursor = found.next;
        if page.cursor.is_none() {
            return;
        }
    }
}

fn of_tenant(id: &str) -> RunQuery {
    RunQuery {
        tenant: Some(tenant_id(id)),
        ..RunQuery::default()
    }
}

#[tokio::test]
async fn the_queue_reads_as_few_rows_after_many_runs_as_after_none() {
    let fresh = grown_database().await;
    let (acme, quiet) = (tenant_id("acme"), tenant_id("quiet"));
    let mut run = None;
    let created = count_rows(&fresh, async |state| {
        let new = new_run(&acme);
        run = Some(new.id.clone());
        let created = state.create_run(new, 10, entry("create_run"));
        created.await.unwrap();
    });
    assert_few("create_run", created.await);
    let run = run.unwrap();
    let claimed = count_rows(&fresh, async |state| {
        assert_eq!(
            state.waiting_tenants(10).await.unwrap(),
            std::slice::from_ref(&acme)
        );
        let claimed = state.claim_run(&acme, 1).await.unwrap().unwrap();
        assert_eq!(claimed.run.run_id, run);
        assert!(state.claim_run(&acme, 1).await.unwrap().is_none());
        assert!(state.claim_run(&quiet, 1).await.unwrap().is_none());
        assert_eq!(state.claimed_runs().await.unwrap().len(), 1);
        for tenant in [None, Some(&acme)] {
            state.count_runs(tenant).await.unwrap();
        }
    });
    assert_few("claim_run", claimed.await);
    let requeued = count_rows(&fresh, async |state| {
        let back = state.requeue_run(&acme, &run, "interrupted", None);
        back.await.unwrap();
        state.claim_run(&acme, 1).await.unwrap().unwrap();
        let ended = state.update_run(&acme, &run, ended(RunStatus::Completed));
        ended.await.unwrap();
    });
    assert_few("update_run", requeued.await);
    let due = count_rows(&fresh, async |state| {
        let now = Time::now();
        assert_eq!(state.due_jobs(now, 10).await.unwrap().len(), 3);
        state.next_due().await.unwrap().unwrap();
        state.fan_out_events(now, 10).await.unwrap();
        state.due_webhooks(now).await.unwrap();
        state.next_delivery().await.unwrap();
    });
    assert_few("due_jobs", due.await);
}

#[tokio::test]
async fn without_jobs_no_tenant_is_looked_at_for_one() {
    let fresh = StateFixture::new().await;
    fresh.tenant("acme").await;
    fresh.state.close().await;
    let database = fresh.database.as_ref().unwrap();
    // The server has not counted the rows of any table, and takes the jobs for more than they are.
    for sql in [
        "INSERT INTO tenants SELECT (json_populate_record(t, json_build_object('id', 'copy' || n, 'key_hash', NULL))).*
         FROM tenants t, generate_series(1, 5000) AS n WHERE t.id = 'acme'",
        "INSERT INTO leases (tenant, node, epoch, expires_at)
         SELECT id, 'n1', 1, now() + interval '1 hour' FROM tenants
         ON CONFLICT (tenant) DO UPDATE SET node = 'n1'",
    ] {
        database.run_sql(sql);
    }
    let count_tenants = async |work: bool| -> u64 {
        let read = || -> u64 {
            let sum = "SELECT SUM(seq_tup_read + COALESCE(idx_tup_fetch, 0))::bigint
                 FROM pg_stat_user_tables WHERE relname IN ('tenants', 'leases')";
            database.run_sql(sum).parse().unwrap()
        };
        let before = read();
        let node = open_postgres(database.url(), "n1").await;
        if work {
            assert!(node.due_jobs(Time::now(), 10).await.unwrap().is_empty());
            assert_eq!(node.next_due().await.unwrap(), None);
        }
        node.close().await;
        wait_for_others(database).await;
        read() - before
    };
    let opened = count_tenants(false).await;
    let looked = count_tenants(true).await;
    assert_few("next_due", looked.saturating_sub(opened));
}

#[tokio::test]
async fn a_page_of_what_was_done_reads_few_rows_however_much_that_is() {
    let fresh = grown_database().await;
    let last_day = Some(Time::now().before(Duration::from_hours(24)));
    for (name, query) in [
        ("all", RunQuery::default()),
        ("of a tenant", of_tenant("acme")),
        ("of a tenant without runs", of_tenant("quiet")),
        (
            "queued",
            RunQuery {
                status: Some(RunStatus::Queued),
                ..RunQuery::default()
            },
        ),
        (
            "failed",
            RunQuery {
                status: Some(RunStatus::Failed),
                ..RunQuery::default()
            },
        ),
        (
            "of a job",
            RunQuery {
                job: Some(job_id("job7")),
                ..of_tenant("bolt")
            },
        ),
        (
            "since",
            RunQuery {
                since: last_day,
                ..RunQuery::default()
            },
        ),
        (
            "until",
            RunQuery {
                until: last_day,
                ..RunQuery::default()
            },
        ),
    ] {
        let listed = count_rows(&fresh, async |state| list_runs(state, query).await);
        assert_few(name, listed.await);
    }
    let run = RunId::parse(&format!("run_{:032x}", 2)).unwrap();
    let shown = count_rows(&fresh, async |state| {
        let acme = tenant_id("acme");
        state.run(&acme, &run).await.unwrap().unwrap();
        let events = state.run_events(&acme, &run, 0, 10).await.unwrap();
        assert_eq!(events.events.len(), 2);
        let only = [acme];
        for only in [None, Some(&only[..])] {
            let since = Time::now().before(Duration::from_hours(1000));
            let ended = state.ended_runs(only, since, 10).await.unwrap();
            assert_eq!(ended.len(), 10);
        }
    });
    // The last hundred runs of the tenant are looked at, for the order in which they ended.
    assert_few("one run", shown.await.saturating_sub(100));
    let others = count_rows(&fresh, async |state| {
        let pending = ApprovalQuery {
            pending: true,
            ..ApprovalQuery::default()
        };
        for query in [pending, ApprovalQuery::default()] {
            state.approvals(&query, &Page::first(10)).await.unwrap();
        }
        state.count_pending_approvals().await.unwrap();
        let range = state.hub_event_range().await.unwrap();
        let query = HubEventQuery {
            after: range.last - 20,
            ..HubEventQuery::default()
        };
        assert_eq!(state.hub_events(&query, 10).await.unwrap().len(), 10);
    });
    assert_few("approvals and events", others.await);
}

fn assert_few(what: &str, rows: u64) {
    assert!(rows <= FEW, "{what}: {rows} rows were read");
}

/// The first day of the month.
fn after_first_day() -> Time {
    Time::now().before(Duration::from_hours(29 * 24))
}

#[tokio::test]
async fn retention_reads_only_what_it_deletes() {
    let fresh = grown_database().await;
    let database = fresh.database.as_ref().unwrap();
    let nothing = count_rows(&fresh, async |state| {
        let before = Time::now().before(Duration::from_hours(31 * 24));
        assert_eq!(state.forget_runs(before).await.unwrap(), 0);
        assert_eq!(state.forget_fires(before).await.unwrap(), 0);
        assert_eq!(state.forget_hub_events(before).await.unwrap(), 0);
        assert_eq!(state.forget_deliveries(before).await.unwrap(), 0);
        assert_eq!(state.forget_keys(before).await.unwrap(), 0);
    });
    assert_few("nothing is old", nothing.await);
    let mut deleted = 0;
    let first_day = count_rows(&fresh, async |state| {
        let before = after_first_day();
        deleted = state.forget_runs(before).await.unwrap();
        assert_eq!(state.forget_fires(before).await.unwrap(), deleted);
        assert_eq!(state.forget_hub_events(before).await.unwrap(), deleted);
    });
    let rows = first_day.await;
    let expected = 2 * ENDED / 30;
    assert!(deleted.abs_diff(expected) < 10, "{deleted} of {expected}");
    // Each with two events, an approval, a fire and an event of the Hub, found by an index and deleted by their place.
    assert!(rows < 20 * deleted, "{rows} rows for {deleted} runs");
    let left = "SELECT count(*) FROM run_events";
    assert_eq!(
        database.run_sql(left),
        (2 * (2 * ENDED - deleted)).to_string()
    );
}

#[tokio::test]
async fn what_is_old_is_deleted_in_parts_however_much_it_is() {
    let fresh = grown_database().await;
    let database = fresh.database.as_ref().unwrap();
    database.run_sql(
        "CREATE FUNCTION refuse_many() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN
             IF (SELECT count(*) FROM gone) > 5000 THEN RAISE 'too many at once'; END IF;
             RETURN NULL;
         END $$",
    );
    for table in ["runs", "run_events", "fires", "hub_events", "idempotency"] {
        database.run_sql(&format!(
            "CREATE TRIGGER refuse_many AFTER DELETE ON {table} REFERENCING OLD TABLE AS gone
             FOR EACH STATEMENT EXECUTE FUNCTION refuse_many()"
        ));
    }
    let node = open_postgres(database.url(), "n1").await;
    let (all, now) = (2 * ENDED, Time::now());
    assert_eq!(node.forget_fires(now).await.unwrap(), all);
    assert_eq!(node.forget_hub_events(now).await.unwrap(), all);
    assert_eq!(node.forget_keys(now).await.unwrap(), all);
    let some = Time::now().before(Duration::from_hours(25 * 24));
    let deleted = node.forget_runs(some).await.unwrap();
    assert!(deleted > 5_000, "{deleted}");
}
