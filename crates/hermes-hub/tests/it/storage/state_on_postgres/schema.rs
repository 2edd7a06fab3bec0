//! The tables: newer, older, made by several nodes at once, and left by one that was killed.

use std::time::Duration;

use futures::future::join_all;
use hermes_config::Secret;
use hermes_hub::storage::state::{
    PostgresOpenError, PostgresOptions, PostgresState, State as _, TokenStore as _,
};
use hermes_testkit::{eventually_some, postgres::TestDatabase};
use sqlx::{ConnectOptions as _, Connection as _, Executor as _, postgres::PgConnectOptions};

use super::{StateFixture, entry, new_token};
use crate::test_hub::TIMEOUT;

fn options(database: &TestDatabase) -> PostgresOptions {
    PostgresOptions {
        url: Secret::new(database.url()),
        listen_url: None,
        max_connections: 4,
        timeout: Duration::from_secs(5),
    }
}

#[tokio::test]
async fn a_newer_schema_is_refused_with_the_way_out_unless_it_says_otherwise() {
    let fresh = StateFixture::new().await;
    let database = fresh.database.as_ref().unwrap();
    database.run_sql("UPDATE hub_schema SET version = 99, readable_since = 98");
    let refused = PostgresState::open(&options(database), "n2").await;
    let refused = refused.unwrap_err();
    assert!(
        matches!(refused, PostgresOpenError::NewerSchema { version: 99, .. }),
        "{refused}"
    );
    assert!(refused.to_string().contains("newer program"), "{refused}");
    // A node of the earlier version runs beside newer ones.
    database.run_sql("UPDATE hub_schema SET readable_since = 1");
    let beside = PostgresState::open(&options(database), "n2").await.unwrap();
    beside.set_meta("a", b"1").await.unwrap();
    assert_eq!(database.run_sql("SELECT version FROM hub_schema"), "99");
}

#[tokio::test]
async fn a_schema_that_is_too_old_is_refused_with_the_way_out() {
    let fresh = StateFixture::new().await;
    let database = fresh.database.as_ref().unwrap();
    database.run_sql("UPDATE hub_schema SET version = 0");
    let refused = PostgresState::open(&options(database), "n2").await;
    let refused = refused.unwrap_err();
    assert!(
        matches!(refused, PostgresOpenError::OlderSchema { version: 0, .. }),
        "{refused}"
    );
    assert!(refused.to_string().contains("earlier release"), "{refused}");
}

#[tokio::test]
async fn nodes_that_start_together_migrate_once_and_create_one_first_token() {
    let database = TestDatabase::create();
    let options = options(&database);
    let nodes = ["n1", "n2", "n3", "n4"];
    let opened = join_all(nodes.map(|node| PostgresState::open(&options, node))).await;
    let opened: Vec<_> = opened.into_iter().map(Result::unwrap).collect();
    let made = join_all(opened.iter().map(|state| {
        let (token, _) = new_token(hermes_hub::api_types::Role::Admin);
        state.create_first_token(token, entry("create_token"))
    }))
    .await;
    let made: Vec<bool> = made.into_iter().map(Result::unwrap).collect();
    assert_eq!(made.iter().filter(|is_made| **is_made).count(), 1);
    assert_eq!(database.run_sql("SELECT count(*) FROM tokens"), "1");
}

#[tokio::test]
async fn a_migration_killed_half_way_leaves_neither_tables_nor_a_lock() {
    let database = TestDatabase::create();
    // A node that has made the table of versions and stands still in the middle of the first migration.
    let mut killed = url_options(&database).connect().await.unwrap();
    for sql in [
        "CREATE TABLE hub_schema (only_one BOOLEAN PRIMARY KEY DEFAULT TRUE CHECK (only_one),
             version BIGINT NOT NULL, readable_since BIGINT NOT NULL)",
        "BEGIN; LOCK TABLE hub_schema IN EXCLUSIVE MODE; CREATE TABLE meta (half BOOLEAN)",
    ] {
        killed.execute(sql).await.unwrap();
    }
    let options = options(&database);
    #[expect(clippy::disallowed_methods, reason = "it is awaited below")]
    let opening = tokio::spawn(async move { PostgresState::open(&options, "n2").await });
    let waiting = eventually_some(TIMEOUT, async || {
        let waiting = "SELECT count(*) FROM pg_locks JOIN pg_database d ON d.oid = database
             WHERE NOT granted AND d.datname = current_database()";
        (database.run_sql(waiting) != "0").then_some(())
    });
    waiting.await.expect("nobody waits for the migration");
    let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()")
        .fetch_one(&mut killed)
        .await
        .unwrap();
    database.run_sql(&format!("SELECT pg_terminate_backend({pid})"));
    let opened = opening.await.unwrap().unwrap();
    opened.set_meta("a", b"1").await.unwrap();
    assert!(killed.ping().await.is_err());
}

fn url_options(database: &TestDatabase) -> PgConnectOptions {
    database.url().parse().unwrap()
}
