//! Opening the database: older, newer, locked and full.

use std::{
    fs,
    time::{Duration, Instant},
};

use hermes_hub::{
    Problem,
    storage::state::{SqliteState, StateError},
};
use hermes_store::StoreError;

use super::{StateFixture, entry};
use crate::storage::state::processes::{hold_lock, run_sql};

#[tokio::test]
async fn a_newer_schema_is_refused_and_left_alone() {
    let fresh = StateFixture::new().await;
    fresh.state.close().await;
    run_sql(&fresh, "PRAGMA user_version = 99").await;
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
async fn a_database_that_another_process_holds_is_unavailable_after_two_seconds() {
    let fresh = StateFixture::new().await;
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
    // Two seconds, plus what a busy machine needs.
    assert!(waited < Duration::from_secs(5), "{waited:?}");
    // Reads still work.
    let id = super::tenant_id("a");
    assert!(fresh.state.tenant(&id).await.unwrap().is_some());
    drop(holder);
    write().await.unwrap();
}
