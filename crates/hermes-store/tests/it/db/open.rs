//! Databases whose tables another crate brings.

use std::{fs, path::Path, time::Duration};

use hermes_store::{
    StoreError,
    db::{
        Database, DatabaseOptions, Durability, SqliteErrorKind, copy_database, sqlite_error_kind,
    },
};

const FIRST: &str = "CREATE TABLE one (x INTEGER UNIQUE); INSERT INTO one VALUES (7);";

async fn open(path: &Path, steps: &[&'static str]) -> Result<Database, StoreError> {
    let opening = DatabaseOptions {
        steps,
        durability: Durability::Power,
        write_timeout: Duration::from_secs(2),
    };
    Database::open(path, opening).await
}

async fn values(database: &Database) -> Vec<i64> {
    sqlx::query_scalar("SELECT x FROM one ORDER BY x")
        .fetch_all(database.readers())
        .await
        .unwrap()
}

#[tokio::test]
async fn a_copy_is_made_before_a_migration_and_only_then() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("some.db");
    let files = || fs::read_dir(directory.path()).unwrap().count();
    for _ in 0..2 {
        open(&path, &[FIRST]).await.unwrap().close().await;
        assert_eq!(files(), 1);
    }
    let migrated = open(&path, &[FIRST, "DELETE FROM one"]).await.unwrap();
    assert!(values(&migrated).await.is_empty());
    let copy = directory.path().join("some.db.schema-1.bak");
    let old = open(&copy, &[FIRST]).await.unwrap();
    assert_eq!(values(&old).await, [7]);
}

#[tokio::test]
async fn more_steps_than_one_knows_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("some.db");
    let steps = [FIRST, "DELETE FROM one"];
    open(&path, &steps).await.unwrap().close().await;
    let refused = open(&path, &[FIRST]).await.unwrap_err();
    let expected = matches!(
        refused,
        StoreError::NewerSchema {
            version: 2,
            known: 1,
            ..
        }
    );
    assert!(expected, "{refused}");
}

#[tokio::test]
async fn a_step_that_fails_leaves_the_database_as_it_was() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("some.db");
    open(&path, &[FIRST]).await.unwrap().close().await;
    let steps = [FIRST, "DELETE FROM one; INSERT INTO nothing VALUES (1);"];
    assert!(open(&path, &steps).await.is_err());
    let database = open(&path, &[FIRST]).await.unwrap();
    assert_eq!(values(&database).await, [7]);
}

#[tokio::test]
async fn a_copy_is_whole_while_somebody_writes() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(&directory.path().join("some.db"), &[FIRST]).await;
    let database = database.unwrap();
    let mut write = database.begin().await.unwrap();
    sqlx::query("INSERT INTO one VALUES (8)")
        .execute(&mut *write)
        .await
        .unwrap();
    let before = directory.path().join("before.db");
    database.copy_to(&before).await.unwrap();
    write.commit_without_checkpoint().await.unwrap();
    let after = directory.path().join("after.db");
    copy_database(database.path(), &after).await.unwrap();
    for (copy, expected) in [(before, vec![7]), (after, vec![7, 8])] {
        let copy = open(&copy, &[FIRST]).await.unwrap();
        assert_eq!(values(&copy).await, expected);
    }
}

#[tokio::test]
async fn a_row_that_is_there_is_told_from_other_faults() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(&directory.path().join("some.db"), &[FIRST]).await;
    let database = database.unwrap();
    let mut write = database.begin().await.unwrap();
    let error = sqlx::query("INSERT INTO one VALUES (7)")
        .execute(&mut *write)
        .await
        .unwrap_err();
    assert_eq!(sqlite_error_kind(&error), Some(SqliteErrorKind::Unique));
}

#[tokio::test]
async fn a_write_that_found_no_room_is_not_the_last_one() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(&directory.path().join("some.db"), &[FIRST]).await;
    let database = database.unwrap();
    let mut write = database.begin().await.unwrap();
    // To SQLite this is as a full disk.
    sqlx::query("PRAGMA max_page_count = 1")
        .execute(&mut *write)
        .await
        .unwrap();
    let mut values = sqlx::QueryBuilder::new("INSERT INTO one ");
    values.push_values(0..10_000, |mut row, value| {
        row.push(value + 100);
    });
    let full = values.build().execute(&mut *write).await.unwrap_err();
    assert_eq!(
        sqlite_error_kind(&full),
        Some(SqliteErrorKind::Full),
        "{full}"
    );
    drop(write);
    for value in [8, 9] {
        let mut write = database.begin().await.unwrap();
        sqlx::query("INSERT INTO one VALUES (?1)")
            .bind(value)
            .execute(&mut *write)
            .await
            .unwrap();
        write.commit_without_checkpoint().await.unwrap();
    }
    assert_eq!(crate::db::open::values(&database).await, [7, 8, 9]);
}
