//! A server that is gone, only reads, has no connection left, or takes too long.

use std::{sync::Arc, time::Duration};

use hermes_hub::{
    Problem,
    storage::state::{State, StateError},
};
use hermes_testkit::{
    ChaosProxy, NetworkFault, Upstream, eventually_some,
    postgres::{PostgresCluster, TestDatabase},
};
use sqlx::{ConnectOptions as _, Connection as _, Executor as _, postgres::PgConnectOptions};

use super::{StateFixture, entry, open_postgres, tenant_id};
use crate::test_hub::TIMEOUT;

#[track_caller]
fn expect_unavailable<T: std::fmt::Debug>(refused: Result<T, StateError>) {
    let refused = refused.unwrap_err();
    assert!(matches!(refused, StateError::Unavailable(_)), "{refused}");
    let problem = Problem::from(refused);
    assert_eq!(problem.code.status(), 503);
    assert!(problem.retry_after_ms.is_some_and(|wait| wait <= 2000));
}

/// Waits until reads and writes work again; the audit log is whole.
async fn expect_recovery(state: &dyn State) {
    let back = eventually_some(TIMEOUT, async || {
        let written = state.append_audit(vec![entry("read")]).await;
        let read = state.tenant(&tenant_id("a")).await;
        (written.is_ok() && read.is_ok()).then_some(())
    });
    back.await.expect("the state does not come back");
    let checks = state.verify_audit().await.unwrap();
    assert!(
        checks.iter().all(|check| check.broken.is_none()),
        "{checks:?}"
    );
}

#[tokio::test]
async fn a_database_that_is_gone_is_unavailable_until_it_is_back() {
    let cluster = Arc::new(PostgresCluster::start(&[]));
    let database = TestDatabase::create_in(&cluster);
    let state = open_postgres(database.url(), "n1").await;
    state.append_audit(vec![entry("before")]).await.unwrap();
    cluster.stop_server();
    let id = tenant_id("a");
    let (read, write) = tokio::join!(
        state.tenant(&id),
        state.append_audit(vec![entry("meanwhile")])
    );
    expect_unavailable(read);
    expect_unavailable(write);
    cluster.start_server();
    expect_recovery(&*state).await;
}

#[tokio::test]
async fn a_database_that_only_reads_refuses_writes_until_it_writes() {
    let fresh = StateFixture::new().await;
    fresh.tenant("a").await;
    let database = fresh.database.as_ref().unwrap();
    let name = database.name();
    database.run_sql(&format!(
        "ALTER DATABASE {name} SET default_transaction_read_only = on;
         SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE datname = '{name}' AND pid <> pg_backend_pid()"
    ));
    // The first may find that its connection is gone.
    let read = eventually_some(TIMEOUT, async || {
        fresh.state.tenant(&tenant_id("a")).await.ok().flatten()
    });
    read.await.expect("reads fail");
    for _ in 0..2 {
        expect_unavailable(fresh.state.set_meta("a", b"1").await);
    }
    database.cluster().run_sql(
        "postgres",
        &format!("ALTER DATABASE {name} RESET default_transaction_read_only"),
    );
    expect_recovery(&*fresh.state).await;
}

#[tokio::test]
async fn a_server_without_free_connections_is_unavailable_until_one_is_free() {
    let few = ["max_connections = 8", "superuser_reserved_connections = 0"];
    let cluster = Arc::new(PostgresCluster::start(&few));
    let database = TestDatabase::create_in(&cluster);
    let state = open_postgres(database.url(), "n1").await;
    // The pools give theirs up, and others take all.
    database.run_sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE datname = current_database() AND pid <> pg_backend_pid()",
    );
    let options: PgConnectOptions = database.url().parse().unwrap();
    let mut taken = Vec::new();
    // What ends meanwhile leaves a connection free: all are taken if many attempts in a row are refused.
    let mut refusals = 0;
    let filled = eventually_some(TIMEOUT, async || {
        match options.connect().await {
            Ok(connection) => {
                taken.push(connection);
                refusals = 0;
            }
            Err(_) => refusals += 1,
        }
        (taken.len() >= 6 && refusals >= 20).then_some(())
    });
    filled.await.expect("there are always free connections");
    let id = tenant_id("a");
    let (read, write) = tokio::join!(
        state.tenant(&id),
        state.append_audit(vec![entry("meanwhile")])
    );
    expect_unavailable(read);
    expect_unavailable(write);
    for connection in taken {
        connection.close().await.unwrap();
    }
    expect_recovery(&*state).await;
}

#[tokio::test]
async fn a_statement_that_takes_too_long_is_given_up() {
    let fresh = StateFixture::new().await;
    fresh.tenant("a").await;
    let database = fresh.database.as_ref().unwrap();
    let options: PgConnectOptions = database.url().parse().unwrap();
    let mut holder = options.connect().await.unwrap();
    holder
        .execute("BEGIN; LOCK TABLE tenants IN ACCESS EXCLUSIVE MODE")
        .await
        .unwrap();
    let change = hermes_hub::storage::state::TenantChange::default();
    let id = tenant_id("a");
    let (read, write) = tokio::join!(
        fresh.state.tenant(&id),
        fresh
            .state
            .update_tenant(&id, change, None, entry("update_tenant"))
    );
    expect_unavailable(read);
    expect_unavailable(write);
    // Others are not held up by it.
    fresh.state.set_meta("a", b"1").await.unwrap();
    holder.execute("ROLLBACK").await.unwrap();
    expect_recovery(&*fresh.state).await;
}

#[tokio::test]
async fn a_database_that_is_slow_is_waited_for_and_one_that_hangs_is_not() {
    let database = TestDatabase::create();
    let port = database.cluster().port();
    let proxy = ChaosProxy::start(Upstream::Tcp(([127, 0, 0, 1], port).into()));
    let url = format!("postgres://hermes@{}/{}", proxy.address(), database.name());
    let state = open_postgres(url, "n1").await;
    proxy.set(NetworkFault::Delay(Duration::from_millis(100)));
    state.append_audit(vec![entry("slow")]).await.unwrap();
    proxy.set(NetworkFault::BlackHole);
    let id = tenant_id("a");
    let (read, write) = tokio::join!(
        state.tenant(&id),
        state.append_audit(vec![entry("meanwhile")])
    );
    expect_unavailable(read);
    expect_unavailable(write);
    proxy.set(NetworkFault::None);
    proxy.cut_connections();
    expect_recovery(&*state).await;
}

#[tokio::test]
async fn characters_that_the_database_cannot_store_are_replaced() {
    let fresh = StateFixture::new().await;
    let id = fresh.tenant("a").await.id;
    let change = hermes_hub::storage::state::TenantChange {
        display_name: Some("a\0b".into()),
        ..Default::default()
    };
    let changed = fresh
        .state
        .update_tenant(&id, change, None, entry("update_tenant"))
        .await
        .unwrap();
    assert_eq!(changed.display_name, "a\u{fffd}b");
}
