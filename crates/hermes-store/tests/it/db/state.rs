//! Opening: what is made, what is filled up, what is left alone, and what is refused.

use std::{fs, pin::pin, time::Duration};

use hermes_config::Home;
use hermes_store::{Access, NewSession, SearchQuery, SessionQuery, Store, StoreError};

use crate::{database, empty_home, id, python_sql, user, with_session};

fn names(home: &Home) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(home.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

async fn expect_error(home: &Home, access: Access) -> StoreError {
    Store::open(home, access).await.unwrap_err()
}

#[tokio::test]
async fn reading_an_empty_home_makes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let home = Home::at(directory.path().join("none"));
    let error = expect_error(&home, Access::ReadOnly).await;
    assert!(matches!(error, StoreError::Absent { .. }));
    assert!(
        error
            .to_string()
            .starts_with("Session database unavailable")
    );
    assert!(!home.path().exists());
}

#[tokio::test]
#[cfg(unix)]
async fn a_new_database_is_private_and_closes_to_one_file() {
    use std::os::unix::fs::PermissionsExt;
    let (_directory, home, store, session) = with_session().await;
    store.append(&session, &user("x")).await.unwrap();
    for name in names(&home) {
        let mode = fs::metadata(home.path().join(&name)).unwrap().permissions();
        assert_eq!(mode.mode() & 0o777, 0o600, "{name}");
    }
    store.close().await;
    assert_eq!(names(&home), ["state.db"]);
    assert_eq!(
        python_sql(&home, "SELECT version FROM schema_version"),
        "22"
    );
    assert_eq!(python_sql(&home, "PRAGMA journal_mode"), "wal");
    assert_eq!(python_sql(&home, "PRAGMA integrity_check"), "ok");
}

#[tokio::test]
async fn our_own_database_is_opened_again_without_a_copy() {
    let (_directory, home, store, session) = with_session().await;
    store.close().await;
    let again = Store::open(&home, Access::ReadWrite).await.unwrap();
    assert!(again.session(&session).await.unwrap().is_some());
    again.close().await;
    assert_eq!(names(&home), ["state.db"]);
}

#[tokio::test]
async fn a_store_for_reading_does_not_write() {
    let (_directory, home, store, session) = with_session().await;
    let reader = Store::open(&home, Access::ReadOnly).await.unwrap();
    let error = reader.append(&session, &user("x")).await.unwrap_err();
    assert!(matches!(error, StoreError::ReadOnly { .. }));
    store.append(&session, &user("x")).await.unwrap();
    assert_eq!(reader.active_messages(&session).await.unwrap().len(), 1);
    reader.close().await;
    store.close().await;
}

/// A store made by us, closed and then changed with Python's SQLite, as another version might have left it.
async fn changed(statements: &str) -> (tempfile::TempDir, Home) {
    let (directory, home, store, session) = with_session().await;
    store.append(&session, &user("hello world")).await.unwrap();
    store.close().await;
    python_sql(&home, statements);
    (directory, home)
}

const OLDER: &str = "DROP TRIGGER messages_fts_update; DROP TRIGGER messages_fts_trigram_insert; \
     DROP TRIGGER messages_fts_trigram_delete; DROP TRIGGER messages_fts_trigram_update; \
     DROP TABLE messages_fts_trigram; DROP TABLE gateway_routing; DROP INDEX idx_messages_session_active; \
     ALTER TABLE messages DROP COLUMN api_content; ALTER TABLE messages DROP COLUMN compacted; \
     ALTER TABLE messages DROP COLUMN observed; ALTER TABLE sessions DROP COLUMN archived; \
     DELETE FROM state_meta; UPDATE schema_version SET version = 21";

#[tokio::test]
async fn an_older_database_is_read_as_it_is() {
    let (_directory, home) = changed(OLDER).await;
    let before = fs::read(database(&home)).unwrap();
    let store = Store::open(&home, Access::ReadOnly).await.unwrap();
    let session = id("20260101_010101_abcdef");
    let messages = store.active_messages(&session).await.unwrap();
    assert_eq!(messages.len(), 1);
    assert!(!messages[0].body.observed);
    assert!(!store.session(&session).await.unwrap().unwrap().archived);
    for text in ["world", "orl", "字"] {
        let hits = store.search(&SearchQuery::new(text)).await.unwrap();
        assert_eq!(hits.len(), usize::from(text != "字"), "{text}");
    }
    assert_eq!(store.routing("x").await.unwrap(), []);
    assert_eq!(
        store
            .list_sessions(&SessionQuery::default())
            .await
            .unwrap()
            .len(),
        1
    );
    store.close().await;
    assert_eq!(fs::read(database(&home)).unwrap(), before);
}

#[tokio::test]
async fn an_older_database_is_copied_and_filled_up_but_keeps_its_version() {
    let (_directory, home) = changed(OLDER).await;
    let store = Store::open(&home, Access::ReadWrite).await.unwrap();
    let session = id("20260101_010101_abcdef");
    store.append(&session, &user("and more")).await.unwrap();
    assert_eq!(store.active_messages(&session).await.unwrap().len(), 2);
    let hits = store.search(&SearchQuery::new("orl")).await.unwrap();
    assert_eq!(hits.len(), 1, "the old messages are in the new index");
    store.close().await;
    assert_eq!(
        python_sql(&home, "SELECT version FROM schema_version"),
        "21"
    );
    let copies: Vec<_> = names(&home)
        .into_iter()
        .filter(|name| name.starts_with("state.db.bak-"))
        .collect();
    assert_eq!(copies.len(), 1, "{copies:?}");
    let copy = Home::at(home.path().join("copy"));
    copy.create().unwrap();
    fs::copy(home.path().join(&copies[0]), database(&copy)).unwrap();
    assert_eq!(python_sql(&copy, "SELECT COUNT(*) FROM messages"), "1");
    assert_eq!(
        python_sql(
            &copy,
            "SELECT COUNT(*) FROM pragma_table_info('messages') WHERE name = 'compacted'"
        ),
        "0"
    );

    fs::remove_file(home.path().join(&copies[0])).unwrap();
    Store::open(&home, Access::ReadWrite)
        .await
        .unwrap()
        .close()
        .await;
    assert!(
        !names(&home).iter().any(|name| name.contains("bak")),
        "one copy is enough"
    );
}

#[tokio::test]
async fn a_newer_database_with_all_our_columns_is_written_and_its_schema_left_alone() {
    let (_directory, home) = changed(
        "UPDATE schema_version SET version = 23; ALTER TABLE messages ADD COLUMN mood TEXT; \
         ALTER TABLE sessions ADD COLUMN mood TEXT DEFAULT 'good'; CREATE TABLE moods (x); \
         DROP INDEX idx_messages_session_active",
    )
    .await;
    let store = Store::open(&home, Access::ReadWrite).await.unwrap();
    let session = id("20260101_010101_abcdef");
    store.append(&session, &user("more")).await.unwrap();
    assert_eq!(store.active_messages(&session).await.unwrap().len(), 2);
    store.close().await;
    assert_eq!(
        python_sql(&home, "SELECT version FROM schema_version"),
        "23"
    );
    assert_eq!(
        python_sql(
            &home,
            "SELECT COUNT(*) FROM sqlite_master WHERE name = 'idx_messages_session_active'"
        ),
        "0"
    );
}

#[tokio::test]
async fn a_newer_database_without_one_of_our_columns_is_read_but_not_written() {
    let (_directory, home) = changed(
        "UPDATE schema_version SET version = 23; ALTER TABLE messages DROP COLUMN api_content",
    )
    .await;
    let before = fs::read(database(&home)).unwrap();
    let error = expect_error(&home, Access::ReadWrite).await;
    assert!(matches!(error, StoreError::Newer { version: 23, .. }));
    let message = error.to_string();
    assert!(message.contains("messages.api_content"), "{message}");
    let store = Store::open(&home, Access::ReadOnly).await.unwrap();
    let session = id("20260101_010101_abcdef");
    assert_eq!(store.active_messages(&session).await.unwrap().len(), 1);
    store.close().await;
    assert_eq!(fs::read(database(&home)).unwrap(), before);
}

#[tokio::test]
async fn rows_without_active_are_woken() {
    // Versions before the column was declared NOT NULL could leave it empty.
    let (_directory, home) = changed(
        "ALTER TABLE messages RENAME COLUMN active TO old; ALTER TABLE messages ADD COLUMN active INTEGER; \
         DROP INDEX idx_messages_session_active; DROP INDEX idx_messages_active_null; \
         ALTER TABLE messages DROP COLUMN old; UPDATE schema_version SET version = 10",
    )
    .await;
    assert_eq!(
        python_sql(&home, "SELECT COUNT(*) FROM messages WHERE active IS NULL"),
        "1"
    );
    let store = Store::open(&home, Access::ReadWrite).await.unwrap();
    let session = id("20260101_010101_abcdef");
    assert_eq!(store.active_messages(&session).await.unwrap().len(), 1);
    store.close().await;
}

#[tokio::test]
async fn a_damaged_file_is_refused_and_stays_as_it_is() {
    let (_directory, home) = empty_home();
    let garbage = b"this is not a database, but somebody's only copy of something".repeat(100);
    fs::write(database(&home), &garbage).unwrap();
    for access in [Access::ReadOnly, Access::ReadWrite] {
        let error = expect_error(&home, access).await;
        assert!(matches!(error, StoreError::Corrupt { .. }), "{error:?}");
        assert!(error.to_string().contains("nothing was changed"));
        assert_eq!(fs::read(database(&home)).unwrap(), garbage);
    }
}

#[tokio::test]
async fn a_file_damaged_in_the_middle_is_an_error_not_a_loss() {
    let (_directory, home, store, session) = with_session().await;
    for _ in 0..200 {
        store
            .append(&session, &user(&"x".repeat(2000)))
            .await
            .unwrap();
    }
    store.close().await;
    let mut bytes = fs::read(database(&home)).unwrap();
    for page in bytes.chunks_mut(4096).skip(1) {
        page.fill(0xff);
    }
    fs::write(database(&home), &bytes).unwrap();
    let result = match Store::open(&home, Access::ReadWrite).await {
        Ok(store) => store.active_messages(&session).await.map(|_| ()),
        Err(error) => Err(error),
    };
    assert!(
        matches!(result, Err(StoreError::Corrupt { .. })),
        "{result:?}"
    );
    assert!(
        fs::read(database(&home)).unwrap() == bytes,
        "it was changed"
    );
}

#[tokio::test]
async fn another_program_s_database_is_not_taken_over() {
    let (_directory, home) = empty_home();
    python_sql(&home, "CREATE TABLE recipes (name)");
    for access in [Access::ReadOnly, Access::ReadWrite] {
        let error = expect_error(&home, access).await;
        assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
        assert!(
            error
                .to_string()
                .starts_with("Session database unavailable")
        );
    }
    assert_eq!(
        python_sql(&home, "SELECT name FROM sqlite_master"),
        "recipes"
    );
    assert_eq!(names(&home), ["state.db"]);
}

#[tokio::test]
async fn an_empty_file_becomes_a_database() {
    let (_directory, home) = empty_home();
    fs::write(database(&home), b"").unwrap();
    let store = Store::open(&home, Access::ReadWrite).await.unwrap();
    store
        .create_session(&NewSession::new(id("a"), "cli"))
        .await
        .unwrap();
    store.close().await;
}

#[tokio::test]
async fn two_stores_may_be_opened_at_once_on_a_new_home() {
    let (_directory, home) = empty_home();
    let (one, two) = tokio::join!(
        Store::open(&home, Access::ReadWrite),
        Store::open(&home, Access::ReadWrite)
    );
    let (one, two) = (one.unwrap(), two.unwrap());
    one.create_session(&NewSession::new(id("a"), "cli"))
        .await
        .unwrap();
    assert!(two.session(&id("a")).await.unwrap().is_some());
    one.close().await;
    two.close().await;
    assert_eq!(
        python_sql(&home, "SELECT COUNT(*) FROM schema_version"),
        "1"
    );
}

#[tokio::test]
async fn readers_do_not_mind_a_lock_and_writers_wait_for_it() {
    let (_directory, home, store, session) = with_session().await;
    let mut blocker = std::process::Command::new("python3")
        .args([
            "-c",
            "import sqlite3, sys\n\
             c = sqlite3.connect(sys.argv[1], isolation_level=None)\n\
             c.execute('BEGIN IMMEDIATE')\nprint('locked', flush=True)\nsys.stdin.read()\nc.execute('ROLLBACK')\n",
        ])
        .arg(database(&home))
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut reader = std::io::BufReader::new(blocker.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut reader, &mut line).unwrap();
    assert_eq!(line.trim(), "locked");
    assert_eq!(store.active_messages(&session).await.unwrap().len(), 0);
    let message = user("patient");
    let mut append = pin!(store.append(&session, &message));
    // Longer than one attempt to begin a write.
    let early = tokio::time::timeout(Duration::from_millis(1200), &mut append).await;
    assert!(early.is_err(), "{early:?}");
    drop(blocker.stdin.take());
    append.await.unwrap();
    assert!(blocker.wait().unwrap().success());
    store.close().await;
}

#[tokio::test]
async fn the_log_is_copied_back_while_writing() {
    let (_directory, home, store, session) = with_session().await;
    for _ in 0..300 {
        store
            .append(&session, &user(&"word ".repeat(200)))
            .await
            .unwrap();
    }
    let log = fs::metadata(home.path().join("state.db-wal"))
        .unwrap()
        .len();
    let main = fs::metadata(database(&home)).unwrap().len();
    assert!(main > 300_000, "{main}");
    assert!(log < 8 << 20, "{log}");
    store.close().await;
}
