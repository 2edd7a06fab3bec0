//! Changes whose follow-up work fails: the answer reports the change all the same.

use serde_json::json;
use sqlx::{AssertSqlSafe, Connection as _, SqliteConnection};

use crate::test_hub::TestHub;

/// Changes the database directly, without the Hub.
pub(crate) async fn run_sql(site: &TestHub, statement: &str) {
    if let Some(database) = site.database() {
        database.run_sql(statement);
        return;
    }
    let path = site.directory.path().join("hub/hub.db");
    let mut connection = SqliteConnection::connect(path.to_str().unwrap())
        .await
        .unwrap();
    sqlx::query(AssertSqlSafe(statement.to_owned()))
        .execute(&mut connection)
        .await
        .unwrap();
    connection.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_that_was_purged_is_gone_though_the_database_cannot_forget_it_yet() {
    let mut site = TestHub::new().await.with_examples().await;
    let (hold, release) = if site.database().is_some() {
        (
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'held'; END $$;
             CREATE TRIGGER hold BEFORE DELETE ON tenants FOR EACH ROW EXECUTE FUNCTION refuse()",
            "DROP TRIGGER hold ON tenants",
        )
    } else {
        (
            "CREATE TRIGGER hold BEFORE DELETE ON tenants BEGIN SELECT RAISE(ABORT, 'held'); END",
            "DROP TRIGGER hold",
        )
    };
    run_sql(&site, hold).await;
    site.delete("/v1/tenants/tenant_123?purge=true")
        .await
        .expect(204);
    assert!(!site.home("tenant_123").exists());
    site.get("/v1/tenants/tenant_123").await.expect(404);
    // Its name is not free before that, and it cannot be restored without its files.
    let again = json!({"id": "tenant_123"});
    site.post("/v1/tenants", &again).await.expect(409);
    site.post("/v1/tenants/tenant_123/restore", &json!({}))
        .await
        .expect(409);
    run_sql(&site, release).await;
    site.restart().await;
    site.wait_until("/v1/tenants?status=deleted", |deleted| {
        deleted["tenants"].as_array().unwrap().is_empty()
    })
    .await;
    site.tenant(again).await;
}

#[tokio::test]
async fn a_specialization_that_was_put_is_told_though_nobody_can_say_whom_it_reached() {
    let site = TestHub::new().await.with_examples().await;
    run_sql(&site, "ALTER TABLE applied RENAME TO elsewhere").await;
    let text = json!({"content": "You answer in German."});
    let put = site
        .put("/v1/agent-specialization", &text)
        .await
        .expect(200);
    assert_eq!(put["revision"], 1, "{put}");
    assert_eq!(put["status"], "pending", "{put}");
    assert_eq!(put["pendingTenants"], 1, "{put}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_that_is_purged_while_its_home_is_made_leaves_nothing() {
    let site = TestHub::new().await;
    let tenants = site.directory.path().join("hub/tenants");
    for number in 0..30 {
        let id = format!("t{number}");
        site.post("/v1/tenants", &json!({"id": id}))
            .await
            .expect(201);
        site.delete(&format!("/v1/tenants/{id}?purge=true"))
            .await
            .expect(204);
    }
    for path in ["/v1/tenants?status=deleted", "/v1/tenants"] {
        let shown = site.get(path).await.expect(200);
        assert_eq!(shown["tenants"], json!([]), "{path}");
    }
    // The Hub could be killed now: nothing may be in progress any more.
    let left: Vec<_> = std::fs::read_dir(tenants).into_iter().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
}
