//! Carrying a Hub over to PostgreSQL and object storage, and back.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use hermes_hub::{
    GroupId,
    api_types::{Role, Time},
    settings::{Settings, SettingsSources},
    storage::{
        data_dir::DataDir,
        encryption::SecretKey,
        migration::{MigrationError, MigrationReport, migrate_hub},
        state::{NodeReport, OpenedState, StateError, StateOpenError},
    },
};
use hermes_testkit::{MotoKeys, MotoServer, postgres::TestDatabase};

use crate::storage::state::{StateFixture, entry};

/// Tables that only nodes have that share a database, or that tell its version.
const OF_NODES: [&str; 13] = [
    "blobs",
    "changes",
    "checkpoints",
    "commands",
    "condemned_blobs",
    "hub_event_inbox",
    "hub_schema",
    "leases",
    "nodes",
    "share_entries",
    "share_trash",
    "share_usage",
    "usage_totals",
];

fn settings(directory: &Path, more: &[(&str, String)]) -> Settings {
    let mut flags: BTreeMap<String, String> =
        [("data_dir".to_owned(), directory.display().to_string())].into();
    flags.extend(
        more.iter()
            .map(|(key, value)| ((*key).to_owned(), value.clone())),
    );
    let sources = SettingsSources {
        flags,
        ..SettingsSources::default()
    };
    Settings::load(&sources).unwrap()
}

struct MigrationFixture {
    directory: tempfile::TempDir,
    database: TestDatabase,
}

impl MigrationFixture {
    /// A Hub with some of everything in a data directory.
    async fn new() -> Self {
        let this = Self {
            directory: tempfile::tempdir().unwrap(),
            database: TestDatabase::create(),
        };
        let data = DataDir::create(this.data()).unwrap();
        let opened = OpenedState::open(&this.embedded().database, "n1")
            .await
            .unwrap();
        let key = SecretKey::load(&data.secret_key(), &*opened.shared())
            .await
            .unwrap();
        let fixture = StateFixture {
            directory: tempfile::tempdir().unwrap(),
            state: opened.shared(),
            key,
            database: None,
        };
        let tenant = fixture.tenant("acme").await;
        fixture.tenant("other").await;
        fixture.run(&tenant.id).await;
        fixture.run(&tenant.id).await;
        fixture.token(Role::Operator).await;
        let group = fixture.group("finance").await;
        fixture
            .state
            .append_audit(vec![entry("something")])
            .await
            .unwrap();
        fixture.state.close().await;

        let share = data.share(&group);
        fs::create_dir_all(share.join("deep/er")).unwrap();
        fs::write(share.join("deep/er/a.md"), "text").unwrap();
        fs::write(share.join("large"), vec![b'x'; 9 << 20]).unwrap();
        fs::write(share.join("none"), "").unwrap();
        symlink("none", share.join("link")).unwrap();
        let home = data.home(&tenant.id);
        fs::create_dir_all(home.join("workspace")).unwrap();
        fs::write(home.join("workspace/notes.md"), "mine").unwrap();
        this
    }

    fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    fn embedded(&self) -> Settings {
        settings(&self.data(), &[])
    }

    fn shared(&self) -> Settings {
        self.shared_in(&self.data(), "objects")
    }

    fn shared_in(&self, data: &Path, objects: &str) -> Settings {
        let objects = self.directory.path().join(objects);
        settings(
            data,
            &[
                ("database.url", self.database.url()),
                ("objects.url", format!("file://{}", objects.display())),
                (
                    "secrets.key_file",
                    self.data().join("secret.key").display().to_string(),
                ),
            ],
        )
    }

    /// Makes the tables of the target, and a trigger that does this for every row of one of them.
    async fn set_trigger(&self, moment: &str, table: &str, action: &str) {
        let opened = OpenedState::open(&self.shared().database, "n1").await;
        opened.unwrap().shared().close().await;
        self.database.run_sql(&format!(
            "CREATE FUNCTION spoil() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {action} END $$;
             CREATE TRIGGER spoil {moment} ON {table} FOR EACH ROW EXECUTE FUNCTION spoil()"
        ));
    }

    /// Why it cannot be carried over. No Hub starts on what is in the target then.
    async fn expect_refusal(&self) -> MigrationError {
        let refused = migrate_hub(&self.embedded(), &self.shared()).await;
        let opened = OpenedState::open(&self.shared().database, "n1").await;
        assert!(matches!(opened, Err(StateOpenError::Incomplete)));
        refused.unwrap_err()
    }
}

fn rows(report: &MigrationReport) -> Vec<String> {
    let mut tables: Vec<String> = report
        .tables
        .iter()
        .map(|table| format!("{table:?}"))
        .collect();
    tables.sort();
    tables
}

/// The tables of the database that are not among these.
fn other_tables(database: &TestDatabase, report: &MigrationReport) -> Vec<String> {
    let names = database.run_sql(
        "SELECT table_name FROM information_schema.tables
         WHERE table_schema = 'public' AND table_type = 'BASE TABLE' ORDER BY 1",
    );
    let is_copied = |name: &str| report.tables.iter().any(|table| table.name == name);
    names
        .lines()
        .map(str::trim)
        .filter(|name| !name.is_empty() && !is_copied(name))
        .map(str::to_owned)
        .collect()
}

#[tokio::test]
async fn a_hub_goes_to_postgresql_and_back_and_is_the_same() {
    let scene = MigrationFixture::new().await;
    let there = migrate_hub(&scene.embedded(), &scene.shared())
        .await
        .unwrap();
    assert_eq!((there.shares, there.share_files, there.homes), (1, 3, 1));
    assert_eq!(there.share_bytes, 4 + (9 << 20));
    assert_eq!(there.skipped_links, 1);
    let count = |name: &str| {
        let found = there.tables.iter().find(|table| table.name == name);
        found.map(|table| table.rows)
    };
    assert_eq!((count("tenants"), count("runs")), (Some(2), Some(2)));
    assert_eq!((count("tokens"), count("share_groups")), (Some(1), Some(1)));
    assert_eq!(other_tables(&scene.database, &there), OF_NODES);
    // The source is as it was.
    assert!(scene.data().join("shares/finance/link").is_symlink());
    assert!(
        scene
            .data()
            .join("tenants/acme/home/workspace/notes.md")
            .is_file()
    );
    assert!(!scene.data().join("tenants/acme/checkpoint.json").exists());

    let opened = OpenedState::open(&scene.shared().database, "n2")
        .await
        .unwrap();
    let state = opened.shared();
    let checks = state.verify_audit().await.unwrap();
    assert!(
        checks.iter().all(|check| check.broken.is_none()),
        "{checks:?}"
    );
    state.close().await;

    let elsewhere = scene.directory.path().join("elsewhere");
    let back = settings(
        &elsewhere,
        &[(
            "secrets.key_file",
            scene.data().join("secret.key").display().to_string(),
        )],
    );
    let source = scene.shared_in(&elsewhere, "objects");
    let returned = migrate_hub(&source, &back).await.unwrap();
    assert_eq!(rows(&there), rows(&returned));
    assert_eq!((returned.share_files, returned.homes), (3, 1));
    let share = DataDir::create(&elsewhere)
        .unwrap()
        .share(&GroupId::parse("finance").unwrap());
    assert_eq!(
        fs::read_to_string(share.join("deep/er/a.md")).unwrap(),
        "text"
    );
    assert_eq!(fs::read(share.join("large")).unwrap().len(), 9 << 20);
    let notes = elsewhere.join("tenants/acme/home/workspace/notes.md");
    assert_eq!(fs::read_to_string(notes).unwrap(), "mine");
}

#[tokio::test]
async fn a_migration_that_ended_half_way_is_refused_and_can_be_done_again() {
    let scene = MigrationFixture::new().await;
    // Nothing can be written where the objects are to be.
    let blocked = scene.directory.path().join("blocked");
    fs::create_dir(&blocked).unwrap();
    fs::write(blocked.join("blobs"), "no directory").unwrap();
    let unusable = scene.shared_in(&scene.data(), "blocked");
    migrate_hub(&scene.embedded(), &unusable).await.unwrap_err();
    let refused = OpenedState::open(&unusable.database, "n1")
        .await
        .unwrap_err();
    assert!(matches!(refused, StateOpenError::Incomplete), "{refused}");
    assert!(
        refused.to_string().contains("hermes hub migrate"),
        "{refused}"
    );

    let report = migrate_hub(&scene.embedded(), &scene.shared())
        .await
        .unwrap();
    assert_eq!(report.share_files, 3);
    let opened = OpenedState::open(&scene.shared().database, "n1")
        .await
        .unwrap();
    opened.shared().close().await;
    // Now it has data, and is not replaced.
    let refused = migrate_hub(&scene.embedded(), &scene.shared())
        .await
        .unwrap_err();
    assert!(matches!(refused, MigrationError::NotEmpty), "{refused}");
    let refused = migrate_hub(&scene.embedded(), &scene.embedded())
        .await
        .unwrap_err();
    assert!(matches!(refused, MigrationError::SameKind(_)), "{refused}");
}

#[tokio::test]
async fn a_hub_that_runs_is_not_migrated() {
    let scene = MigrationFixture::new().await;
    let data = DataDir::create(scene.data()).unwrap();
    let _lock = data.lock().unwrap();
    let refused = migrate_hub(&scene.embedded(), &scene.shared())
        .await
        .unwrap_err();
    assert!(matches!(refused, MigrationError::DataDir(_)), "{refused}");
}

#[tokio::test]
async fn a_hub_whose_nodes_were_seen_lately_is_not_migrated() {
    let scene = MigrationFixture::new().await;
    migrate_hub(&scene.embedded(), &scene.shared())
        .await
        .unwrap();
    // On another machine, where no lock of a directory tells of it.
    let opened = OpenedState::open(&scene.shared().database, "n2").await;
    let state = opened.unwrap().shared();
    let report = NodeReport {
        version: "0.1.0".into(),
        started_at: Time::now(),
        capacity: 1,
    };
    state.report_node(&report).await.unwrap();
    state.close().await;

    let elsewhere = scene.directory.path().join("elsewhere");
    let key = scene.data().join("secret.key").display().to_string();
    let back = settings(&elsewhere, &[("secrets.key_file", key)]);
    let source = scene.shared_in(&elsewhere, "objects");
    let refused = migrate_hub(&source, &back).await.unwrap_err();
    assert!(
        matches!(&refused, MigrationError::Running { node, .. } if node == "n2"),
        "{refused}"
    );
    assert!(!elsewhere.join("hub.db").exists());
    scene
        .database
        .run_sql("UPDATE nodes SET seen_at = seen_at - INTERVAL '1 hour'");
    migrate_hub(&source, &back).await.unwrap();
}

#[tokio::test]
async fn a_copy_that_lacks_a_row_or_has_another_one_is_noticed() {
    for (table, action) in [
        ("tokens", "RETURN NULL;"),
        ("tenants", "NEW.display_name := 'Other'; RETURN NEW;"),
    ] {
        let scene = MigrationFixture::new().await;
        scene.set_trigger("BEFORE INSERT", table, action).await;
        let refused = scene.expect_refusal().await;
        assert!(
            matches!(&refused, MigrationError::State(StateError::Broken(text)) if text.contains(table)),
            "{refused}"
        );
    }
}

#[tokio::test]
async fn a_file_that_differs_from_its_copy_is_noticed() {
    let scene = MigrationFixture::new().await;
    let action = "IF NEW.path = 'deep/er/a.md' THEN NEW.parts := '{}'; NEW.part_sizes := '{}'; END IF; RETURN NEW;";
    scene
        .set_trigger("BEFORE INSERT OR UPDATE", "share_entries", action)
        .await;
    let refused = scene.expect_refusal().await;
    assert!(
        matches!(&refused, MigrationError::Different { path } if path == "deep/er/a.md"),
        "{refused}"
    );
}

#[tokio::test]
async fn a_home_that_another_program_holds_in_the_target_is_an_error_and_is_not_left_out() {
    let scene = MigrationFixture::new().await;
    let action = "INSERT INTO leases (tenant, node, epoch, expires_at)
         VALUES (NEW.id, 'n9', 1, clock_timestamp() + INTERVAL '1 hour'); RETURN NULL;";
    scene.set_trigger("AFTER INSERT", "tenants", action).await;
    let refused = scene.expect_refusal().await;
    assert!(
        matches!(&refused, MigrationError::Leased { tenant } if tenant.as_str() == "acme"),
        "{refused}"
    );
    scene.database.run_sql("DROP TRIGGER spoil ON tenants");
    let report = migrate_hub(&scene.embedded(), &scene.shared()).await;
    assert_eq!(report.unwrap().homes, 1);
}

#[tokio::test]
async fn a_hub_goes_to_a_bucket_and_back() {
    let scene = MigrationFixture::new().await;
    let moto = MotoServer::start("hub", MotoKeys::Any);
    let shared = |data: &Path| {
        let flags = [
            ("database.url", scene.database.url()),
            ("objects.url", "s3://hub/some/prefix".to_owned()),
            ("objects.endpoint", format!("http://{}", moto.address())),
            ("objects.region", "us-east-1".to_owned()),
            ("objects.allow_http", "true".to_owned()),
            ("objects.access_key_id", "test".to_owned()),
            ("objects.secret_access_key", "test".to_owned()),
            (
                "secrets.key_file",
                scene.data().join("secret.key").display().to_string(),
            ),
        ];
        settings(data, &flags)
    };
    let there = migrate_hub(&scene.embedded(), &shared(&scene.data()))
        .await
        .unwrap();
    assert_eq!((there.share_files, there.homes), (3, 1));
    let elsewhere = scene.directory.path().join("elsewhere");
    let key = scene.data().join("secret.key").display().to_string();
    let back = settings(&elsewhere, &[("secrets.key_file", key)]);
    let returned = migrate_hub(&shared(&elsewhere), &back).await.unwrap();
    assert_eq!(rows(&there), rows(&returned));
    assert_eq!((returned.share_files, returned.homes), (3, 1));
    let share = DataDir::create(&elsewhere)
        .unwrap()
        .share(&GroupId::parse("finance").unwrap());
    assert_eq!(
        fs::read_to_string(share.join("deep/er/a.md")).unwrap(),
        "text"
    );
    assert_eq!(fs::read(share.join("large")).unwrap().len(), 9 << 20);
    let notes = elsewhere.join("tenants/acme/home/workspace/notes.md");
    assert_eq!(fs::read_to_string(notes).unwrap(), "mine");
}
