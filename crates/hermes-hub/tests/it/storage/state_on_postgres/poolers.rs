//! pgbouncer in transaction mode: no session of the server is anybody's for longer than a transaction.

use futures::future::join_all;
use hermes_hub::storage::state::{Page, StateError, TenantQuery};
use hermes_testkit::{
    eventually_some,
    postgres::{Pgbouncer, TestDatabase},
};

use super::{StateFixture, entry, open_postgres, tenant_id};
use crate::test_hub::TIMEOUT;

/// A state behind a pooler that has two connections for all.
async fn behind_pooler() -> (StateFixture, Pgbouncer) {
    let mut fresh = StateFixture::new().await;
    fresh.state.close().await;
    let database: &TestDatabase = fresh.database.as_ref().unwrap();
    let pooler = Pgbouncer::start(database, 2);
    fresh.state = open_postgres(pooler.url(), "n1").await;
    (fresh, pooler)
}

#[tokio::test]
async fn reads_and_writes_of_several_nodes_work_behind_a_pooler() {
    let (fresh, pooler) = behind_pooler().await;
    let other = open_postgres(pooler.url(), "n2").await;
    let ids: Vec<String> = (0..12).map(|number| format!("tenant{number}")).collect();
    join_all(ids.iter().map(|id| fresh.tenant(id))).await;
    let reads = ids.iter().map(|id| {
        let (one, two) = (&*fresh.state, &*other);
        let fresh = &fresh;
        async move {
            let id = tenant_id(id);
            let query = TenantQuery::default();
            let page = Page::first(5);
            assert!(one.tenant(&id).await.unwrap().is_some());
            assert!(two.tenant(&id).await.unwrap().is_some());
            assert_eq!(two.tenants(&query, &page).await.unwrap().items.len(), 5);
            one.append_audit(vec![entry("read")]).await.unwrap();
            two.append_audit(vec![entry("read")]).await.unwrap();
            let run = fresh.run(&id).await;
            let claimed = one.claim_run(&id, 1).await.unwrap().unwrap();
            assert_eq!(claimed.run.run_id, run);
        }
    });
    join_all(reads).await;
    let checks = fresh.state.verify_audit().await.unwrap();
    assert!(
        checks.iter().all(|check| check.broken.is_none()),
        "{checks:?}"
    );
    assert_eq!(checks.len(), 2);
}

#[tokio::test]
async fn a_pooler_that_restarts_costs_what_was_under_way_and_nothing_else() {
    let (fresh, mut pooler) = behind_pooler().await;
    fresh.tenant("a").await;
    pooler.stop();
    let refused = fresh.state.set_meta("a", b"1").await.unwrap_err();
    assert!(matches!(refused, StateError::Unavailable(_)), "{refused}");
    pooler.restart();
    let back = eventually_some(TIMEOUT, async || {
        let written = fresh.state.append_audit(vec![entry("read")]).await;
        let read = fresh.state.tenant(&tenant_id("a")).await;
        (written.is_ok() && read.is_ok_and(|tenant| tenant.is_some())).then_some(())
    });
    back.await.expect("the state does not come back");
    let checks = fresh.state.verify_audit().await.unwrap();
    assert_eq!(checks[0].broken, None);
}
