//! The tenant index: entries are found before and after they are indexed, and across that border.

use std::time::Duration;

use hermes_hub::{
    api_types::Time,
    storage::{
        audit::NewAuditEntry,
        state::{AUDIT_PORTION, AuditOrder, AuditQuery, Page, SqliteState, State},
    },
};

use super::{StateFixture, entry, tenant_id};
use crate::storage::state::processes::run_sql;

/// Turns the current tables into those before the tenant index.
const BEFORE_INDEXING: &str =
    "DROP TABLE console_sessions; DROP TABLE sign_in_links; DROP INDEX tenants_in_trouble; DROP INDEX tenants_by_name;
    DROP INDEX runs_by_status; DROP INDEX runs_by_begin;
    DROP INDEX approvals_inbox; ALTER TABLE approvals DROP COLUMN choices;
    ALTER TABLE approvals DROP COLUMN form; ALTER TABLE approvals DROP COLUMN answer;
    DROP TABLE library_skills;
    DROP TABLE chat_runs;
    DROP TABLE group_skills;
    DROP TABLE provided_skills; DROP TABLE webhook_deliveries; DROP TABLE webhooks;
    DROP TABLE hub_events; DROP TABLE hub_event_head; DROP TABLE limit_days; DROP TABLE tenant_limits; DROP TABLE usage_days; DROP TABLE usage_totals;
    ALTER TABLE runs DROP COLUMN tool_calls; ALTER TABLE runs DROP COLUMN model;
    ALTER TABLE intents DROP COLUMN change; ALTER TABLE intents DROP COLUMN settled;
    DROP VIEW audit_chains; DROP TABLE audit_of_tenants; DROP TABLE audit_portions;
    CREATE INDEX audit_by_tenant ON audit (tenant, time, chain, seq) WHERE tenant IS NOT NULL;
    PRAGMA user_version = 2;";

fn read_entry(tenant: &str) -> NewAuditEntry {
    entry("get_tenant").for_tenant(&tenant_id(tenant))
}

async fn append_reads(state: &dyn State, tenants: &[&str]) {
    let entries = tenants.iter().map(|tenant| read_entry(tenant)).collect();
    state.append_audit(entries).await.unwrap();
}

fn query_tenant(tenant: &str) -> AuditQuery {
    AuditQuery {
        tenant: Some(tenant_id(tenant)),
        ..AuditQuery::default()
    }
}

/// All matches, in pages of two.
async fn find_all(state: &dyn State, query: &AuditQuery) -> Vec<(String, u64)> {
    let mut found = Vec::new();
    let mut page = Page::first(2);
    loop {
        let paged = state.audit(query, &page).await.unwrap();
        found.extend(
            paged
                .items
                .into_iter()
                .map(|entry| (entry.chain, entry.seq)),
        );
        match paged.next {
            Some(cursor) => page = Page::after(2, cursor),
            None => return found,
        }
    }
}

async fn find_numbers(state: &dyn State, query: &AuditQuery) -> Vec<u64> {
    let found = find_all(state, query).await;
    found.into_iter().map(|(_, seq)| seq).collect()
}

async fn count(fresh: &StateFixture, table: &str) -> i64 {
    let path = fresh.directory.path().join("hub.db");
    let pool = sqlx::SqlitePool::connect(path.to_str().unwrap())
        .await
        .unwrap();
    let statement = format!("SELECT COUNT(*) FROM {table}");
    let count = sqlx::query_scalar(sqlx::AssertSqlSafe(statement))
        .fetch_one(&pool)
        .await
        .unwrap();
    pool.close().await;
    count
}

#[tokio::test]
async fn a_tenants_entries_are_found_on_both_sides_of_what_was_filed() {
    let fresh = StateFixture::new().await;
    let state = &*fresh.state;
    append_reads(state, &["a", "b", "a"]).await;
    assert_eq!(
        find_numbers(state, &query_tenant("a")).await,
        [3, 1],
        "nothing is filed"
    );
    state.index_audit(1).await.unwrap();
    assert_eq!(
        find_numbers(state, &query_tenant("a")).await,
        [3, 1],
        "all is filed"
    );
    append_reads(state, &["b", "a", "b", "a"]).await;
    assert_eq!(find_numbers(state, &query_tenant("a")).await, [7, 5, 3, 1]);
    assert_eq!(find_numbers(state, &query_tenant("b")).await, [6, 4, 2]);
    let oldest = AuditQuery {
        order: AuditOrder::OldestFirst,
        ..query_tenant("a")
    };
    assert_eq!(find_numbers(state, &oldest).await, [1, 3, 5, 7]);
    let several = AuditQuery {
        only: Some(vec![tenant_id("a"), tenant_id("c")]),
        ..AuditQuery::default()
    };
    assert_eq!(find_numbers(state, &several).await, [7, 5, 3, 1]);
    let not_covered = AuditQuery {
        only: Some(vec![tenant_id("b")]),
        ..query_tenant("a")
    };
    assert!(find_numbers(state, &not_covered).await.is_empty());
    let future = AuditQuery {
        since: Some(Time::now().after(Duration::from_mins(1))),
        ..query_tenant("a")
    };
    assert!(find_numbers(state, &future).await.is_empty());
    let other_action = AuditQuery {
        action: Some("list_shares".into()),
        ..query_tenant("a")
    };
    assert!(find_numbers(state, &other_action).await.is_empty());
}

#[tokio::test]
async fn filing_again_or_at_the_same_time_changes_nothing() {
    let fresh = StateFixture::new().await;
    let state = &*fresh.state;
    append_reads(state, &["a", "b"]).await;
    let tenant = tenant_id("t-00");
    let before = state.changes_of(&tenant);
    assert!(before.is_some());
    let (first, second) = tokio::join!(state.index_audit(1), state.index_audit(1));
    first.unwrap();
    second.unwrap();
    state.index_audit(1).await.unwrap();
    assert_eq!(count(&fresh, "audit_of_tenants").await, 2);
    assert_eq!(find_numbers(state, &query_tenant("a")).await, [1]);
    assert_eq!(
        state.changes_of(&tenant),
        before,
        "nobody has to read anything anew"
    );
}

#[tokio::test]
async fn each_node_files_its_own_chain_and_all_are_found() {
    let fresh = StateFixture::new().await;
    let other = fresh.another_node("n2").await;
    append_reads(&*fresh.state, &["a"]).await;
    append_reads(&*other, &["a", "b"]).await;
    fresh.state.index_audit(1).await.unwrap();
    assert_eq!(count(&fresh, "audit_of_tenants").await, 1);
    let mut all = find_all(&*other, &query_tenant("a")).await;
    all.sort();
    assert_eq!(all, [("n1".to_owned(), 1), ("n2".to_owned(), 1)]);
    let heads = other.audit_heads().await.unwrap();
    let chains: Vec<_> = heads.iter().map(|head| head.chain.as_str()).collect();
    assert_eq!(chains, ["n1", "n2"]);
    other.close().await;
}

#[tokio::test]
async fn many_entries_are_filed_without_being_asked() {
    let fresh = StateFixture::new().await;
    let tenants: Vec<String> = (0..1_000).map(|number| format!("t{number}")).collect();
    let tenants: Vec<&str> = tenants.iter().map(String::as_str).collect();
    for _ in 0..6 {
        append_reads(&*fresh.state, &tenants).await;
    }
    assert_eq!(count(&fresh, "audit_portions").await, 2);
    let filed = count(&fresh, "audit_of_tenants").await;
    assert_eq!(filed, 2 * AUDIT_PORTION.cast_signed());
    // From three sources in pages of two, without duplicates or gaps.
    let expected: Vec<u64> = (0..6).rev().map(|round| round * 1_000 + 8).collect();
    assert_eq!(
        find_numbers(&*fresh.state, &query_tenant("t7")).await,
        expected
    );
    fresh.state.index_audit(AUDIT_PORTION).await.unwrap();
    assert_eq!(count(&fresh, "audit_portions").await, 2, "too few for one");
    assert_eq!(fresh.state.verify_audit().await.unwrap()[0].broken, None);
}

/// A clock may be set back, so that later entries are older.
#[tokio::test]
async fn portions_that_overlap_in_time_are_read_in_the_order_of_time() {
    let fresh = StateFixture::new().await;
    let state = &*fresh.state;
    for _ in 0..3 {
        append_reads(state, &["a", "b", "a"]).await;
        state.index_audit(1).await.unwrap();
    }
    append_reads(state, &["a"]).await;
    // Entries 1 to 10 at these times, and the portions and lists with them.
    run_sql(
        &fresh,
        "CREATE TEMP TABLE times (seq INTEGER PRIMARY KEY, time INTEGER);
         INSERT INTO times VALUES (1, 50), (2, 51), (3, 90), (4, 10), (5, 11), (6, 60), (7, 70), (8, 71), (9, 80), (10, 55);
         UPDATE audit SET time = (SELECT time FROM times WHERE times.seq = audit.seq);
         UPDATE audit_of_tenants SET time = (SELECT time FROM times WHERE times.seq = audit_of_tenants.seq);
         UPDATE audit_portions SET
             oldest = (SELECT MIN(time) FROM times WHERE seq > last - 3 AND seq <= last),
             newest = (SELECT MAX(time) FROM times WHERE seq > last - 3 AND seq <= last);",
    )
    .await;
    let newest = [3, 9, 7, 6, 10, 1, 4];
    for most in [1, 2, 3, 7, 50] {
        let paged = state
            .audit(&query_tenant("a"), &Page::first(most))
            .await
            .unwrap();
        let found: Vec<u64> = paged.items.iter().map(|entry| entry.seq).collect();
        assert_eq!(found, newest[..newest.len().min(most as usize)], "{most}");
    }
    let oldest = AuditQuery {
        order: AuditOrder::OldestFirst,
        ..query_tenant("a")
    };
    let paged = state.audit(&oldest, &Page::first(3)).await.unwrap();
    let found: Vec<u64> = paged.items.iter().map(|entry| entry.seq).collect();
    assert_eq!(found, [4, 1, 10]);
}

#[tokio::test]
async fn few_entries_in_many_portions_are_found_in_order() {
    let fresh = StateFixture::new().await;
    let state = &*fresh.state;
    // Several entries, then none for long, then one here and there: more portions than are searched at once.
    let is_rare = |number: u64| number <= 4 || number > 50 && number.is_multiple_of(9);
    for number in 1..=90 {
        let tenant = if is_rare(number) { "rare" } else { "b" };
        append_reads(state, &[tenant]).await;
        state.index_audit(1).await.unwrap();
    }
    assert_eq!(count(&fresh, "audit_portions").await, 90);
    let mut expected: Vec<u64> = (1..=90).filter(|number| is_rare(*number)).collect();
    let oldest = AuditQuery {
        order: AuditOrder::OldestFirst,
        ..query_tenant("rare")
    };
    assert_eq!(find_numbers(state, &oldest).await, expected);
    expected.reverse();
    assert_eq!(find_numbers(state, &query_tenant("rare")).await, expected);
    for most in [1, 3, 8, 50] {
        let paged = state
            .audit(&query_tenant("rare"), &Page::first(most))
            .await
            .unwrap();
        let found: Vec<u64> = paged.items.iter().map(|entry| entry.seq).collect();
        assert_eq!(found, expected[..expected.len().min(most as usize)]);
    }
    assert!(find_numbers(state, &query_tenant("c")).await.is_empty());
}

#[tokio::test]
async fn what_is_pruned_is_in_no_list() {
    let fresh = StateFixture::new().await;
    let state = &*fresh.state;
    append_reads(state, &["a", "b", "a"]).await;
    state.index_audit(1).await.unwrap();
    append_reads(state, &["a"]).await;
    let later = Time::now().after(Duration::from_hours(1));
    state.prune_audit(later).await.unwrap();
    // The last one always stays.
    assert_eq!(find_numbers(state, &query_tenant("a")).await, [4]);
    assert_eq!(count(&fresh, "audit_of_tenants").await, 0);
    state.index_audit(1).await.unwrap();
    assert_eq!(find_numbers(state, &query_tenant("a")).await, [4]);
    assert_eq!(state.verify_audit().await.unwrap()[0].broken, None);
}

#[tokio::test]
async fn a_list_that_was_changed_shows_nobody_elses_entries_and_is_found_out() {
    let fresh = StateFixture::new().await;
    let state = &*fresh.state;
    append_reads(state, &["a", "b", "a"]).await;
    state.index_audit(1).await.unwrap();
    assert_eq!(state.verify_audit().await.unwrap()[0].broken, None);
    run_sql(
        &fresh,
        "UPDATE audit_of_tenants SET tenant = 'a' WHERE seq = 2",
    )
    .await;
    assert_eq!(find_numbers(state, &query_tenant("a")).await, [3, 1]);
    let checks = state.verify_audit().await.unwrap();
    let broken = checks[0].broken.as_ref().unwrap();
    assert_eq!(broken.seq, 2);
    assert!(broken.reason.contains("list of its tenant"), "{broken:?}");
}

#[tokio::test]
async fn the_entries_of_an_older_database_are_filed_when_it_is_opened() {
    let fresh = StateFixture::new().await;
    append_reads(&*fresh.state, &["a", "b", "a"]).await;
    fresh.state.close().await;
    run_sql(&fresh, BEFORE_INDEXING).await;
    let path = fresh.directory.path().join("hub.db");
    let opened = SqliteState::open(&path, "n1").await.unwrap();
    assert_eq!(count(&fresh, "audit_of_tenants").await, 3);
    append_reads(&opened, &["a"]).await;
    assert_eq!(find_numbers(&opened, &query_tenant("a")).await, [4, 3, 1]);
    opened.close().await;
}
