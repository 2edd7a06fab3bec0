//! A node with as few connections as it may have: whatever comes at once gets its turn, and nobody holds one while
//! waiting for another.

use std::time::Duration;

use futures::future::{BoxFuture, join_all};
use hermes_hub::storage::state::{Page, State, TenantQuery};

use super::{StateFixture, entry, open_postgres_with, tenant_id};

const FEWEST: u32 = 3;

#[tokio::test]
async fn reads_and_changes_at_once_all_end_with_the_fewest_connections() {
    let mut fresh = StateFixture::new().await;
    fresh.state.close().await;
    let url = fresh.database.as_ref().unwrap().url();
    fresh.state = open_postgres_with(url, "n1", FEWEST, Duration::from_secs(5)).await;
    let ids: Vec<String> = (0..4).map(|number| format!("tenant{number}")).collect();
    join_all(ids.iter().map(|id| fresh.tenant(id))).await;
    let state: &dyn State = &*fresh.state;
    for round in 0..5 {
        let mut all: Vec<BoxFuture<'_, ()>> = Vec::new();
        for id in &ids {
            let fresh = &fresh;
            all.push(Box::pin(async move {
                let id = tenant_id(id);
                state.catch_up().await.unwrap();
                assert!(state.tenant(&id).await.unwrap().is_some());
                let run = fresh.run(&id).await;
                let claimed = state.claim_run(&id, 1).await.unwrap().unwrap();
                assert_eq!(claimed.run.run_id, run);
                let events = state.run_events(&id, &run, 0, 10).await.unwrap();
                assert_eq!(events.last, 0);
                let done = hermes_hub::storage::state::RunUpdate {
                    change: hermes_hub::storage::state::RunChange {
                        status: Some(hermes_hub::api_types::RunStatus::Completed),
                        ..Default::default()
                    },
                    ..Default::default()
                };
                state.update_run(&id, &run, done).await.unwrap();
            }));
            all.push(Box::pin(async move {
                let page = Page::first(2);
                let listed = state.tenants(&TenantQuery::default(), &page).await;
                assert_eq!(listed.unwrap().items.len(), 2);
                state.append_audit(vec![entry("read")]).await.unwrap();
                state.ping().await.unwrap();
            }));
        }
        all.push(Box::pin(async {
            let checks = state.verify_audit().await.unwrap();
            assert!(checks.iter().all(|check| check.broken.is_none()));
        }));
        let all = tokio::time::timeout(Duration::from_mins(1), join_all(all)).await;
        assert!(all.is_ok(), "round {round}: they wait for each other");
    }
}
