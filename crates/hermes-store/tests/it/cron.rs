//! The record of cron runs.

use hermes_store::cron::{ExecutionStatus, Executions};
use jiff::{SignedDuration, Zoned};

use crate::empty_home;

#[tokio::test]
async fn a_run_is_recorded_from_claim_to_end() {
    let (_directory, home) = empty_home();
    let runs = Executions::open(&home).await.unwrap();
    let mut now: Zoned = "2026-02-01T12:00:00[Europe/Berlin]".parse().unwrap();
    let mut later = || {
        now = now.checked_add(SignedDuration::from_secs(1)).unwrap();
        now.clone()
    };
    let good = runs.claim("a", "ticker", Some(1), &later()).await.unwrap();
    let bad = runs.claim("b", "manual", None, &later()).await.unwrap();
    runs.start(&good, &later()).await.unwrap();
    runs.finish(&good, None, &later()).await.unwrap();
    runs.finish(&good, Some("too late"), &later())
        .await
        .unwrap();
    runs.finish(&bad, Some("boom"), &later()).await.unwrap();
    let list = runs.list(None, 10).await.unwrap();
    assert_eq!(list.len(), 2);
    assert_eq!(list[0].id, bad);
    assert_eq!(list[0].status, ExecutionStatus::Failed);
    assert_eq!(list[0].error.as_deref(), Some("boom"));
    assert_eq!(list[1].status, ExecutionStatus::Completed);
    assert_eq!(list[1].error, None);
    assert!(list[1].started_at.as_deref() > Some(list[1].claimed_at.as_str()));
    assert_eq!(runs.list(Some("a"), 10).await.unwrap().len(), 1);
    runs.close().await;
}

#[tokio::test]
async fn runs_of_a_process_that_is_gone_become_unknown() {
    let (_directory, home) = empty_home();
    let now: Zoned = "2026-02-01T12:00:00[UTC]".parse().unwrap();
    let crashed = Executions::open(&home).await.unwrap();
    crashed.claim("a", "ticker", Some(1), &now).await.unwrap();
    let runs = Executions::open(&home).await.unwrap();
    let own = runs.claim("b", "ticker", Some(2), &now).await.unwrap();
    assert_eq!(runs.recover(|_| false, &now).await.unwrap(), 0);
    assert_eq!(runs.recover(|_| true, &now).await.unwrap(), 1);
    let list = runs.list(Some("a"), 1).await.unwrap();
    assert_eq!(list[0].status, ExecutionStatus::Unknown);
    let list = runs.list(Some("b"), 1).await.unwrap();
    assert_eq!(
        (list[0].id.as_str(), list[0].status),
        (own.as_str(), ExecutionStatus::Claimed)
    );
    crashed.close().await;
    runs.close().await;
}
