//! Databases that are written to while they are saved.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    time::Duration,
};

use sqlx::{
    Connection as _, Row as _, SqliteConnection,
    sqlite::{SqliteConnectOptions, SqliteJournalMode},
};

use super::CheckpointFixture;

const MOST_ROWS: i64 = 3000;

async fn open(path: &Path, mode: SqliteJournalMode) -> SqliteConnection {
    let options = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .journal_mode(mode)
        .busy_timeout(Duration::from_mins(1));
    SqliteConnection::connect_with(&options).await.unwrap()
}

async fn run(connection: &mut SqliteConnection, sql: &'static str) {
    sqlx::raw_sql(sql).execute(connection).await.unwrap();
}

/// The number of rows, if the database is whole.
async fn count_rows(path: &Path) -> i64 {
    let mut copy = open(path, SqliteJournalMode::Wal).await;
    let check = sqlx::query("PRAGMA integrity_check")
        .fetch_one(&mut copy)
        .await
        .unwrap();
    assert_eq!(check.get::<String, _>(0), "ok");
    let count = sqlx::query("SELECT count(*), coalesce(max(id), 0) FROM t")
        .fetch_one(&mut copy)
        .await
        .unwrap();
    assert_eq!(count.get::<i64, _>(0), count.get::<i64, _>(1), "a gap");
    count.get(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_is_written_to_loses_no_acknowledged_row() {
    let scene = CheckpointFixture::new().await;
    let path = scene.path("state.db");
    let mut database = open(&path, SqliteJournalMode::Wal).await;
    run(
        &mut database,
        "CREATE TABLE t (id INTEGER PRIMARY KEY, filler BLOB); PRAGMA wal_autocheckpoint = 20",
    )
    .await;
    let acknowledged = Arc::new(AtomicI64::new(0));
    let stop = Arc::new(AtomicBool::new(false));
    let (written, stopped) = (Arc::clone(&acknowledged), Arc::clone(&stop));
    #[expect(clippy::disallowed_methods, reason = "it is awaited below")]
    let writer = tokio::spawn(async move {
        while !stopped.load(Ordering::Relaxed) {
            // From some size on, the log is written to and the database does not grow.
            if written.load(Ordering::SeqCst) < MOST_ROWS {
                run(
                    &mut database,
                    "INSERT INTO t (filler) VALUES (randomblob(500))",
                )
                .await;
                written.fetch_add(1, Ordering::SeqCst);
            } else {
                let sql =
                    "UPDATE t SET filler = randomblob(500) WHERE id = abs(random()) % 1000 + 1";
                run(&mut database, sql).await;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        database.close().await.unwrap();
    });
    for round in 0..5 {
        let before = acknowledged.load(Ordering::SeqCst);
        scene.save().await.unwrap();
        let node = format!("r{round}");
        scene
            .restore_as(&*scene.fixture.state, &node)
            .await
            .unwrap();
        let found = count_rows(&scene.home(&node).join("state.db")).await;
        assert!(found >= before, "{found} of {before} rows");
    }
    stop.store(true, Ordering::Relaxed);
    writer.await.unwrap();
    let all = acknowledged.load(Ordering::SeqCst);
    scene.save().await.unwrap();
    scene
        .restore_as(&*scene.fixture.state, "last")
        .await
        .unwrap();
    assert_eq!(count_rows(&scene.home("last").join("state.db")).await, all);
}

#[tokio::test]
async fn a_database_with_a_log_that_nobody_has_open_is_restored_with_it() {
    let scene = CheckpointFixture::new().await;
    std::fs::create_dir(scene.path("workspace")).unwrap();
    let path = scene.path("workspace/data.db");
    let mut database = open(&path, SqliteJournalMode::Wal).await;
    run(
        &mut database,
        "PRAGMA wal_autocheckpoint = 0; CREATE TABLE t (id INTEGER PRIMARY KEY); INSERT INTO t DEFAULT VALUES",
    )
    .await;
    let first = scene.save().await.unwrap();
    scene.restore_as(&*scene.fixture.state, "r1").await.unwrap();
    assert_eq!(
        count_rows(&scene.home("r1").join("workspace/data.db")).await,
        1
    );
    // Another journal mode, and no log any more.
    database.close().await.unwrap();
    let mut database = open(&path, SqliteJournalMode::Delete).await;
    run(&mut database, "INSERT INTO t DEFAULT VALUES").await;
    let second = scene.save().await.unwrap();
    assert!(second.id > first.id);
    scene.restore_as(&*scene.fixture.state, "r2").await.unwrap();
    let restored = scene.home("r2").join("workspace");
    assert!(!restored.join("data.db-wal").exists());
    assert_eq!(count_rows(&restored.join("data.db")).await, 2);
}
