//! The audit log: entries are committed with their effects, and changes are detected.

use std::{sync::Arc, time::Duration};

use hermes_hub::{
    api_types::{Decision, Time},
    storage::{
        audit::ReadAuditWriter,
        state::{AuditOrder, AuditPart, AuditQuery, Page, State, StateError, TenantChange},
    },
};
use hermes_testkit::eventually_some;

use super::{StateFixture, entry, next_millisecond, tenant_id};
use crate::storage::state::processes::run_sql;

#[tokio::test]
async fn an_effect_and_its_entry_come_together_or_not_at_all() {
    let fresh = StateFixture::new().await;
    fresh.tenant("a").await;
    run_sql(&fresh, "DROP TABLE audit").await;
    let change = TenantChange {
        display_name: Some("Changed".into()),
        ..TenantChange::default()
    };
    let refused = fresh
        .state
        .update_tenant(&tenant_id("a"), change, None, entry("update_tenant"))
        .await;
    assert!(
        matches!(refused, Err(StateError::Unavailable(_))),
        "{refused:?}"
    );
    let problem = hermes_hub::Problem::from(refused.unwrap_err());
    assert_eq!(problem.code.status(), 503);
    let tenant = fresh.state.tenant(&tenant_id("a")).await.unwrap().unwrap();
    assert_eq!(tenant.display_name, "Tenant a");
}

#[tokio::test]
async fn any_number_of_entries_is_added_at_once() {
    let fresh = StateFixture::new().await;
    let mut expected = 0;
    for count in [1, 2, 8, 9, 32, 33, 100, 101, 240] {
        let entries = vec![entry("read"); count];
        fresh.state.append_audit(entries).await.unwrap();
        expected += count as u64;
        let check = &fresh.state.verify_audit().await.unwrap()[0];
        assert_eq!((check.entries, check.last), (expected, expected), "{count}");
        assert_eq!(check.broken, None, "{count}");
    }
}

#[tokio::test]
async fn one_changed_byte_is_found_wherever_it_is() {
    for change in [
        "SELECT 1",
        "UPDATE audit SET text = replace(text, 'create_tenant', 'create_tenanT') WHERE seq = 3",
        "UPDATE audit SET tenant = 'z' WHERE seq = 3",
        "UPDATE audit SET action = 'z' WHERE seq = 3",
        "UPDATE audit SET time = time + 1 WHERE seq = 3",
        "UPDATE audit SET hash = zeroblob(32) WHERE seq = 3",
        "DELETE FROM audit WHERE seq = 3",
    ] {
        let fresh = StateFixture::new().await;
        for id in ["a", "b", "c", "d", "e"] {
            fresh.tenant(id).await;
        }
        run_sql(&fresh, change).await;
        let checks = fresh.state.verify_audit().await.unwrap();
        let broken = checks[0].broken.as_ref().map(|fault| fault.seq);
        let expected = (change != "SELECT 1").then_some(3);
        assert_eq!(broken, expected, "{change}");
    }
}

#[tokio::test]
async fn a_chain_goes_on_after_a_restart_and_each_node_has_its_own() {
    let mut fresh = StateFixture::new().await;
    fresh.tenant("a").await;
    fresh.reopen().await;
    fresh.tenant("b").await;
    let other = fresh.another_node("n2").await;
    other.append_audit(vec![entry("read")]).await.unwrap();
    other.record_heads().await.unwrap();
    let checks = fresh.state.verify_audit().await.unwrap();
    let found: Vec<_> = checks
        .iter()
        .map(|check| (check.chain.as_str(), check.last, check.broken.is_none()))
        .collect();
    assert_eq!(found, [("n1", 2, true), ("n2", 2, true)]);
}

#[tokio::test]
async fn a_chain_cut_off_at_its_end_shows_in_the_others() {
    let fresh = StateFixture::new().await;
    fresh.tenant("a").await;
    fresh.tenant("b").await;
    let other = fresh.another_node("n2").await;
    other.record_heads().await.unwrap();
    run_sql(&fresh, "DELETE FROM audit WHERE chain = 'n1' AND seq = 2").await;
    let checks = fresh.state.verify_audit().await.unwrap();
    assert_eq!(checks[0].broken.as_ref().map(|fault| fault.seq), Some(2));
}

#[tokio::test]
async fn pruning_leaves_an_anchor_that_the_rest_holds_on_to() {
    let fresh = StateFixture::new().await;
    for id in ["a", "b", "c"] {
        fresh.tenant(id).await;
    }
    next_millisecond().await;
    let now = Time::now();
    next_millisecond().await;
    fresh.tenant("d").await;
    assert_eq!(fresh.state.prune_audit(now).await.unwrap(), 3);
    let check = &fresh.state.verify_audit().await.unwrap()[0];
    // The entry of "d", and the one of the pruning.
    assert_eq!((check.first, check.last, check.entries), (4, 5, 2));
    assert_eq!(check.broken, None);
    let later = Time::now().after(Duration::from_hours(1));
    fresh.state.prune_audit(later).await.unwrap();
    fresh.tenant("e").await;
    let check = &fresh.state.verify_audit().await.unwrap()[0];
    assert_eq!((check.last, &check.broken), (7, &None));
    run_sql(&fresh, "UPDATE audit_anchors SET hash = zeroblob(32)").await;
    let check = &fresh.state.verify_audit().await.unwrap()[0];
    assert!(check.broken.is_some());
}

#[tokio::test]
async fn entries_are_found_by_what_one_looks_for() {
    let fresh = StateFixture::new().await;
    let mut entries = Vec::new();
    for (number, tenant) in ["a", "b", "a", "b", "a"].into_iter().enumerate() {
        let mut entry = entry(if number < 2 {
            "get_tenant"
        } else {
            "list_shares"
        });
        entry.tenant = Some(tenant.into());
        entry.request_id = format!("req_{number}");
        entries.push(if number == 4 {
            entry.denied(403)
        } else {
            entry
        });
    }
    fresh.state.append_audit(entries).await.unwrap();
    let find = async |query: AuditQuery| {
        let paged = fresh.state.audit(&query, &Page::default()).await.unwrap();
        paged
            .items
            .iter()
            .map(|entry| entry.seq)
            .collect::<Vec<_>>()
    };
    let all = || AuditQuery::default();
    assert_eq!(find(all()).await, [5, 4, 3, 2, 1]);
    let of_a = AuditQuery {
        tenant: Some(tenant_id("a")),
        ..all()
    };
    assert_eq!(find(of_a).await, [5, 3, 1]);
    let covered = AuditQuery {
        only: Some(vec![tenant_id("b")]),
        ..all()
    };
    assert_eq!(find(covered).await, [4, 2]);
    let denied = AuditQuery {
        decision: Some(Decision::Deny),
        ..all()
    };
    assert_eq!(find(denied).await, [5]);
    let request = AuditQuery {
        request_id: Some("req_2".into()),
        ..all()
    };
    assert_eq!(find(request).await, [3]);
    let future = Time::now().after(Duration::from_mins(1));
    let none = AuditQuery {
        since: Some(future),
        ..all()
    };
    assert!(find(none).await.is_empty());
    let oldest = AuditQuery {
        order: AuditOrder::OldestFirst,
        ..all()
    };
    let mut seqs = Vec::new();
    let mut page = Page::first(2);
    loop {
        let paged = fresh.state.audit(&oldest, &page).await.unwrap();
        seqs.extend(paged.items.iter().map(|entry| entry.seq));
        match paged.next {
            Some(cursor) => page = Page::after(2, cursor),
            None => break,
        }
    }
    assert_eq!(seqs, [1, 2, 3, 4, 5]);
}

#[tokio::test]
async fn entries_of_reads_are_written_soon_and_all_at_the_end() {
    let fresh = StateFixture::new().await;
    let reads = ReadAuditWriter::new(Arc::clone(&fresh.state));
    reads.push(entry("list_tenants"));
    let written = async || {
        let paged = fresh
            .state
            .audit(&AuditQuery::default(), &Page::first(500))
            .await;
        paged.unwrap().items.len()
    };
    let soon = eventually_some(Duration::from_secs(30), async || {
        (written().await > 0).then_some(())
    });
    assert!(soon.await.is_some(), "it is never written");
    assert_eq!(written().await, 1);
    for _ in 0..300 {
        reads.push(entry("list_tenants"));
    }
    reads.close().await;
    assert_eq!(written().await, 301);
    assert_eq!(fresh.state.verify_audit().await.unwrap()[0].broken, None);
}

#[tokio::test]
async fn a_search_that_looks_at_few_entries_finds_the_rest_on_the_next_pages() {
    let fresh = StateFixture::new().await;
    let mut entries = Vec::new();
    for number in 1..=20 {
        let mut entry = entry("get_tenant");
        if [3, 4, 5, 18].contains(&number) {
            entry.actor = "tok_rare".into();
        }
        entries.push(entry);
    }
    fresh.state.append_audit(entries).await.unwrap();
    for (order, expected) in [
        (AuditOrder::NewestFirst, [18, 5, 4, 3]),
        (AuditOrder::OldestFirst, [3, 4, 5, 18]),
    ] {
        let query = AuditQuery {
            actor: Some("tok_rare".into()),
            reach: Some(4),
            order,
            ..AuditQuery::default()
        };
        let (mut found, mut pages) = (Vec::new(), 0);
        let mut page = Page::first(2);
        loop {
            let part = fresh.state.audit(&query, &page).await.unwrap();
            found.extend(part.items.iter().map(|entry| entry.seq));
            pages += 1;
            match part.next {
                Some(cursor) => page = Page::after(2, cursor),
                None => break,
            }
        }
        assert_eq!(found, expected);
        assert!((5..=8).contains(&pages), "{pages}");
    }
    // Without a filter, every entry that is looked at is shown.
    let query = AuditQuery {
        reach: Some(1),
        ..AuditQuery::default()
    };
    let all = fresh.state.audit(&query, &Page::first(50)).await.unwrap();
    assert_eq!((all.items.len(), all.next), (20, None));
}

/// What parts of this size found of each chain: entries, and the first broken one.
async fn verify_in_parts(state: &dyn State, most: u32) -> Vec<(String, u64, Option<u64>)> {
    let mut found: Vec<(String, u64, Option<u64>)> = Vec::new();
    let mut after = None;
    for _ in 0..1000 {
        let part = state.verify_audit_part(after.as_ref(), most).await.unwrap();
        for check in part.checks {
            assert!(check.entries <= u64::from(most), "{check:?}");
            let broken = check.broken.map(|broken| broken.seq);
            match found.iter_mut().find(|(chain, ..)| *chain == check.chain) {
                Some((_, entries, first)) => {
                    *entries += check.entries;
                    *first = [*first, broken].into_iter().flatten().min();
                }
                None => found.push((check.chain, check.entries, broken)),
            }
        }
        match part.next {
            Some(next) => after = Some(next),
            None => return found,
        }
    }
    panic!("it does not end: {found:?}");
}

#[tokio::test]
async fn parts_find_what_the_verification_of_all_entries_finds() {
    for change in [
        "SELECT 1",
        "UPDATE audit SET text = replace(text, 'create_tenant', 'create_tenanT') WHERE seq = 3",
        "UPDATE audit SET tenant = 'z' WHERE seq = 4",
        "UPDATE audit SET hash = zeroblob(32) WHERE seq = 2",
        "DELETE FROM audit WHERE chain = 'n1' AND seq = 3",
        "DELETE FROM audit WHERE chain = 'n1' AND seq = 5",
        "UPDATE audit SET seq = 0 WHERE chain = 'n1' AND seq = 1",
    ] {
        let fresh = StateFixture::new().await;
        for id in ["a", "b", "c", "d", "e"] {
            fresh.tenant(id).await;
        }
        let other = fresh.another_node("n2").await;
        other.append_audit(vec![entry("read")]).await.unwrap();
        other.record_heads().await.unwrap();
        run_sql(&fresh, change).await;
        let checks = fresh.state.verify_audit().await.unwrap();
        let all: Vec<_> = checks
            .into_iter()
            .map(|check| (check.chain, check.broken.map(|broken| broken.seq)))
            .collect();
        for most in [1, 2, 3, 100] {
            let parts = verify_in_parts(&*fresh.state, most).await;
            let parts: Vec<_> = parts
                .into_iter()
                .map(|(chain, _, broken)| (chain, broken))
                .collect();
            assert_eq!(parts, all, "{change}, {most} at a time");
        }
    }
}

/// The first two entries of five, verified.
async fn verify_two(fresh: &StateFixture) -> AuditPart {
    for id in ["a", "b", "c", "d", "e"] {
        fresh.tenant(id).await;
    }
    let part = fresh.state.verify_audit_part(None, 2).await.unwrap();
    assert_eq!((part.checks[0].entries, &part.checks[0].broken), (2, &None));
    part
}

#[tokio::test]
async fn what_changes_between_two_parts_is_found() {
    for (change, broken) in [
        ("UPDATE audit SET hash = zeroblob(32) WHERE seq = 2", 2),
        ("DELETE FROM audit WHERE seq = 2", 2),
        ("DELETE FROM audit WHERE seq > 1", 2),
        ("DELETE FROM audit WHERE seq > 3", 4),
        ("UPDATE audit SET actor = 'z' WHERE seq = 3", 3),
    ] {
        let fresh = StateFixture::new().await;
        let first = verify_two(&fresh).await;
        run_sql(&fresh, change).await;
        let rest = fresh.state.verify_audit_part(first.next.as_ref(), 100);
        let rest = rest.await.unwrap();
        let found = rest.checks[0].broken.as_ref().map(|broken| broken.seq);
        assert_eq!(found, Some(broken), "{change}");
        assert_eq!(rest.next, None, "{change}");
    }
}

#[tokio::test]
async fn parts_end_where_the_log_ended_and_bear_with_pruning() {
    let fresh = StateFixture::new().await;
    let first = verify_two(&fresh).await;
    next_millisecond().await;
    let now = Time::now();
    next_millisecond().await;
    for id in ["f", "g"] {
        fresh.tenant(id).await;
    }
    let state = &fresh.state;
    let rest = state.verify_audit_part(first.next.as_ref(), 100).await;
    let rest = rest.unwrap();
    assert_eq!((rest.checks[0].entries, &rest.checks[0].broken), (3, &None));
    assert_eq!(rest.next, None, "later entries are for the next time");
    // All five that were to be verified are deleted because of their age.
    assert_eq!(state.prune_audit(now).await.unwrap(), 5);
    let rest = state.verify_audit_part(first.next.as_ref(), 100).await;
    let rest = rest.unwrap();
    assert_eq!((rest.checks[0].entries, &rest.checks[0].broken), (0, &None));
    let again = verify_in_parts(&**state, 2).await;
    assert_eq!(again, [("n1".to_owned(), 3, None)]);
}
