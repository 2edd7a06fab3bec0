//! Events on their way from the inbox to the log.

use hermes_hub::api_types::Time;
use hermes_testkit::postgres::TestDatabase;

use super::StateFixture;

/// More than are moved in one transaction.
const MANY: u64 = 2_500;

/// Events that were stored so many milliseconds ago.
fn add_events(database: &TestDatabase, age: u32) {
    database.run_sql(&format!(
        "INSERT INTO hub_event_inbox (type, tenant, data, time)
         SELECT 'tenant.changed', 'acme', '{{}}', hub_now() - {age} FROM generate_series(1, {MANY})"
    ));
}

fn count_waiting(database: &TestDatabase) -> u64 {
    let count = database.run_sql("SELECT count(*) FROM hub_event_inbox");
    count.parse().unwrap()
}

#[tokio::test]
async fn events_that_nobody_wants_are_moved_in_small_parts_unless_they_are_old() {
    let fresh = StateFixture::new().await;
    let database = fresh.database.as_ref().unwrap();
    add_events(database, 1_001);
    for moved in [500, 1_000] {
        assert_eq!(
            fresh.state.fan_out_events(Time::now(), 200).await.unwrap(),
            0
        );
        assert_eq!(count_waiting(database), MANY - moved);
    }
    database.run_sql("UPDATE hub_event_inbox SET time = time - 10000");
    assert_eq!(
        fresh.state.fan_out_events(Time::now(), 200).await.unwrap(),
        0
    );
    assert_eq!(count_waiting(database), 0);
    let range = fresh.state.hub_event_range().await.unwrap();
    assert_eq!(range.last, MANY);
}

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
