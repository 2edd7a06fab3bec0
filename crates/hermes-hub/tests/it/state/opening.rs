//! Opening the database: older, newer, locked and full.

use std::{
    fs,
    time::{Duration, Instant},
};

use hermes_hub::{
    Problem,
    state::{SqliteState, StateError},
};
use hermes_store::{
    StoreError,
    db::{Database, Durability, Opening},
};

use super::{Fresh, entry};
use crate::state::processes::{hold_lock, sql};

#[tokio::test]
async fn a_newer_schema_is_refused_and_left_alone() {
    let fresh = Fresh::new().await;
    fresh.state.close().await;
    sql(&fresh, "PRAGMA user_version = 99").await;
    let path = fresh.directory.path().join("hub.db");
    let before = fs::read(&path).unwrap();
    let refused = SqliteState::open(&path, "n1").await.unwrap_err();
    assert!(matches!(
        refused,
        StoreError::NewerSchema { version: 99, .. }
    ));
    assert!(refused.to_string().contains("newer program"), "{refused}");
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[tokio::test]
async fn a_copy_is_made_before_a_migration() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("some.db");
    let open = async |steps: &[&'static str]| {
        let opening = Opening {
            steps,
            durability: Durability::Power,
            patience: Duration::from_secs(2),
        };
        Database::open(&path, opening).await.unwrap().close().await;
    };
    let first = "CREATE TABLE one (x INTEGER); INSERT INTO one VALUES (7);";
    open(&[first]).await;
    let files = || fs::read_dir(directory.path()).unwrap().count();
    assert_eq!(files(), 1);
    open(&[first]).await;
    assert_eq!(files(), 1, "nothing had to be migrated");
    open(&[first, "DROP TABLE one"]).await;
    let copy = directory.path().join("some.db.schema-1.bak");
    assert!(copy.exists());
    let steps: &[&str] = &[first];
    let opening = Opening {
        steps,
        durability: Durability::Process,
        patience: Duration::from_secs(2),
    };
    let old = Database::open(&copy, opening).await.unwrap();
    let kept: i64 = sqlx::query_scalar("SELECT x FROM one")
        .fetch_one(old.readers())
        .await
        .unwrap();
    assert_eq!(kept, 7);
}

#[tokio::test]
async fn a_database_that_another_process_holds_is_unavailable_after_two_seconds() {
    let fresh = Fresh::new().await;
    fresh.tenant("a").await;
    let holder = hold_lock(&fresh);
    let begun = Instant::now();
    let write = || fresh.state.append_audit(vec![entry("denied")]);
    let several = futures::future::join_all([write(), write(), write()]).await;
    let waited = begun.elapsed();
    for refused in several {
        let refused = refused.unwrap_err();
        assert!(matches!(refused, StateError::Unavailable(_)), "{refused}");
        let problem = Problem::from(refused);
        assert_eq!(problem.code.status(), 503);
        assert!(problem.retry_after_ms.is_some());
        assert!(!problem.message.contains("hub.db"), "{}", problem.message);
    }
    assert!(waited >= Duration::from_secs(1), "{waited:?}");
    assert!(waited < Duration::from_secs(6), "{waited:?}");
    // Reading goes on meanwhile.
    let id = super::tenant_id("a");
    assert!(fresh.state.tenant(&id).await.unwrap().is_some());
    drop(holder);
    write().await.unwrap();
}
