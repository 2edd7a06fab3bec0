//! Some tests of the Hub once more, on PostgreSQL, and what is true of that alone. All of them run on it with
//! `HERMES_TEST_HUB_DATABASE=postgres`.

#[path = "service/cron.rs"]
mod cron;
#[path = "service/etags.rs"]
mod etags;
#[path = "http/mcp_sessions.rs"]
mod mcp_sessions;
#[path = "service/runs.rs"]
mod runs;
#[path = "service/tenants.rs"]
mod tenants;

use std::{fs, os::unix::fs::FileExt as _, path::Path, sync::Arc};

use hermes_hub::{
    Hub, HubOpenError, OpenedHub, settings::Settings, storage::encryption::EncryptionError,
    tenants::runtime::mock::MockRuntime,
};
use hermes_testkit::postgres::TestDatabase;
use serde_json::{Value, json};

use crate::test_hub::TestHub;

fn node_settings(directory: &Path, database: &TestDatabase) -> Settings {
    let mut settings = Settings::for_directory(directory).unwrap();
    settings.database.url = database.url().into();
    settings.database.max_connections = 4;
    settings.drain_seconds = 1;
    settings
}

async fn open(settings: Settings) -> Result<OpenedHub, HubOpenError> {
    Hub::open(settings, Arc::new(MockRuntime::default())).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_needs_the_key_of_the_others_and_makes_no_second_first_token() {
    let database = TestDatabase::create();
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let first = node_settings(one.path(), &database);
    let key = first.secret_key_file.clone();
    let first = open(first).await.unwrap();
    assert!(first.first_token.is_some());
    // Without a key, though nothing is encrypted yet.
    let settings = node_settings(other.path(), &database);
    let refused = open(settings.clone()).await.err().unwrap();
    assert!(
        matches!(
            refused,
            HubOpenError::Key(EncryptionError::KeyMissing { .. })
        ),
        "{refused}"
    );
    assert!(refused.to_string().contains("another node"), "{refused}");
    // With another one.
    fs::write(&settings.secret_key_file, "ab".repeat(32)).unwrap();
    let refused = open(settings.clone()).await.err().unwrap();
    assert!(
        matches!(refused, HubOpenError::Key(EncryptionError::WrongKey { .. })),
        "{refused}"
    );
    fs::copy(key, &settings.secret_key_file).unwrap();
    let second = open(settings.clone()).await.unwrap();
    assert_eq!(second.first_token, None);
    assert!(!settings.admin_token_file.exists());
    for opened in [first, second] {
        opened.hub.close().await;
        opened.hub.state().close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_makes_a_first_token_again_where_all_of_them_were_removed() {
    let database = TestDatabase::create();
    let directory = tempfile::tempdir().unwrap();
    let settings = node_settings(directory.path(), &database);
    let mut tokens = Vec::new();
    for _ in 0..2 {
        let opened = open(settings.clone()).await.unwrap();
        let file = opened.first_token.as_ref().unwrap();
        tokens.push(fs::read_to_string(file).unwrap());
        opened.hub.close().await;
        opened.hub.state().close().await;
        drop(opened);
        // The way back where nobody has an admin token any more, as the guide has it.
        database.run_sql("DELETE FROM tokens");
    }
    assert_ne!(tokens[0], tokens[1]);
}

#[tokio::test]
async fn an_address_that_leads_nowhere_is_refused_without_its_password() {
    let directory = tempfile::tempdir().unwrap();
    let mut settings = Settings::for_directory(directory.path()).unwrap();
    let port = hermes_testkit::ReservedPort::reserve().unwrap();
    for url in [
        format!("postgres://hub:hunter2@127.0.0.1:{}/hub", port.number()),
        "postgres://hub:hunter2@[::1/hub".to_owned(),
    ] {
        settings.database.url = url.into();
        let refused = open(settings.clone()).await.err().unwrap();
        let shown = format!("{refused} {refused:?} {settings:?}");
        assert!(shown.contains("database.url"), "{shown}");
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hub_does_not_start_on_tables_of_another_time_and_says_the_way_out() {
    let database = TestDatabase::create();
    let directory = tempfile::tempdir().unwrap();
    let settings = node_settings(directory.path(), &database);
    let opened = open(settings.clone()).await.unwrap();
    opened.hub.close().await;
    opened.hub.state().close().await;
    drop(opened);
    for (tables, way_out) in [
        (
            "version = 99, readable_since = 98",
            "Start the newer program",
        ),
        (
            "version = 0, readable_since = 0",
            "start an earlier release first",
        ),
    ] {
        database.run_sql(&format!("UPDATE hub_schema SET {tables}"));
        let refused = open(settings.clone()).await.err().unwrap().to_string();
        assert!(refused.contains(way_out), "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_home_that_is_gone_from_the_disk_comes_back_from_its_checkpoint() {
    let mut site = TestHub::new().await;
    site.tenant(json!({"id": "acme", "start": false})).await;
    let content = "/v1/tenants/acme/files/content";
    let file = json!({"path": "a.txt", "content": "text"});
    site.put(content, &file).await.expect(201);
    fs::remove_dir_all(site.home("acme")).unwrap();
    site.restart().await;
    let read = site.get(&format!("{content}?path=a.txt")).await;
    assert_eq!(read.expect(200)["content"], "text");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_home_that_is_too_large_to_be_saved_is_told_of_until_it_is_smaller() {
    let site = TestHub::new().await;
    let tenant = json!({"id": "acme", "start": false, "storage": {"quotaBytes": 1}});
    site.tenant(tenant).await;
    // Little on the disk, but much to save.
    let large = site.home("acme").join("workspace/large");
    let file = fs::File::create(&large).unwrap();
    for chunk in 0..70 {
        file.write_all_at(b"x", chunk << 20).unwrap();
    }
    let saved = |tenant: &Value| {
        let conditions = tenant["conditions"].as_array().unwrap().clone();
        let mut found = conditions.into_iter();
        found.find(|condition| condition["type"] == "HomeSaved")
    };
    let job = json!({"schedule": "every 1h", "prompt": "x"});
    let refused = site.post("/v1/tenants/acme/agent-cron", &job).await;
    let refused = refused.expect(507);
    assert_eq!(refused["reason"], "home_too_large");
    let condition = saved(&site.get("/v1/tenants/acme").await.expect(200)).unwrap();
    assert_eq!(
        (&condition["status"], &condition["reason"]),
        (&json!("False"), &json!("too_large"))
    );
    // A run whose effect cannot be saved is not completed, and does not wait for that either. If the home is measured
    // before, the quota ends it.
    let run = site
        .post("/v1/tenants/acme/runs", &json!({"input": "Hi"}))
        .await;
    let run = run.expect(202)["runId"].as_str().unwrap().to_owned();
    let ended = site
        .wait_until(&format!("/v1/tenants/acme/runs/{run}"), |run| {
            ["completed", "failed", "cancelled"]
                .map(Value::from)
                .contains(&run["status"])
        })
        .await;
    let code = ended["error"]["code"].as_str().unwrap_or_default();
    assert!(["home_too_large", "quota"].contains(&code), "{ended}");
    // Others are not held up by it.
    site.tenant(json!({"id": "other", "start": false})).await;
    fs::remove_file(large).unwrap();
    site.post("/v1/tenants/acme/agent-cron", &job)
        .await
        .expect(201);
    let condition = saved(&site.get("/v1/tenants/acme").await.expect(200)).unwrap();
    assert_eq!(condition["status"], "True");
}
