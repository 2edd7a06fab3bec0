//! Events on their way from the inbox to the log.

use super::StateFixture;

/// More than are moved in one transaction.
const MANY: u64 = 2_500;

#[tokio::test]
async fn all_that_was_in_the_inbox_is_in_the_log_when_somebody_looks() {
    let fresh = StateFixture::new().await;
    let database = fresh.database.as_ref().unwrap();
    let before = fresh.state.hub_event_range().await.unwrap().last;
    database.run_sql(&format!(
        "INSERT INTO hub_event_inbox (type, tenant, data, time)
         SELECT 'tenant.changed', 'acme', '{{}}', 0 FROM generate_series(1, {MANY})"
    ));
    let after = fresh.state.hub_event_range().await.unwrap().last;
    assert_eq!(after, before + MANY);
    let left = database.run_sql("SELECT count(*) FROM hub_event_inbox");
    assert_eq!(left, "0");
    let ids =
        "SELECT count(DISTINCT id) || ' up to ' || max(id) FROM hub_events WHERE tenant = 'acme'";
    assert_eq!(database.run_sql(ids), format!("{MANY} up to {after}"));
}
