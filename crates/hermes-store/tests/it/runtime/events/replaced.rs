//! A store that comes later, goes, is another one, or is locked.

use std::{fs, process::Stdio};

use hermes_config::Home;
use hermes_store::{Access, Store, StoreError};

use super::{KEY, chat, open, page, poll_texts, with_chat};
use crate::{database, empty_home, python_sql, user};

fn remove_store(home: &Home) {
    for suffix in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(home.path().join(format!("state.db{suffix}")));
    }
}

#[tokio::test]
async fn a_store_that_appears_later_is_new_from_its_first_message() {
    let (_directory, home) = empty_home();
    let mut log = open(&home).await;
    assert_eq!(poll_texts(&mut log, 0).await, [""; 0]);
    assert!(!database(&home).exists());
    let store = Store::open(&home, Access::ReadWrite).await.unwrap();
    let session = chat(&store, "s1", KEY).await;
    store.append(&session, &user("first")).await.unwrap();
    assert_eq!(poll_texts(&mut log, 0).await, ["first"]);
    log.close().await;
    store.close().await;
}

#[tokio::test]
async fn a_file_without_tables_is_not_a_store_yet() {
    let (_directory, home) = empty_home();
    fs::write(database(&home), "").unwrap();
    let mut log = open(&home).await;
    let store = Store::open(&home, Access::ReadWrite).await.unwrap();
    let session = chat(&store, "s1", KEY).await;
    store.append(&session, &user("first")).await.unwrap();
    assert_eq!(poll_texts(&mut log, 0).await, ["first"]);
    log.close().await;
    store.close().await;
}

#[tokio::test]
async fn a_store_begun_anew_goes_on_with_its_own_messages() {
    let (_directory, home, store, session) = with_chat().await;
    let mut log = open(&home).await;
    for text in ["one", "two", "three"] {
        store.append(&session, &user(text)).await.unwrap();
    }
    assert_eq!(poll_texts(&mut log, 0).await.len(), 3);
    store.close().await;
    remove_store(&home);
    assert_eq!(poll_texts(&mut log, 3).await, [""; 0]);
    let store = Store::open(&home, Access::ReadWrite).await.unwrap();
    let session = chat(&store, "s1", KEY).await;
    for text in ["four", "five", "six", "seven"] {
        store.append(&session, &user(text)).await.unwrap();
    }
    assert_eq!(
        poll_texts(&mut log, 3).await,
        ["four", "five", "six", "seven"]
    );
    store.append(&session, &user("eight")).await.unwrap();
    assert_eq!(poll_texts(&mut log, 7).await, ["eight"]);
    log.close().await;
    store.close().await;
}

#[tokio::test]
async fn a_backup_put_back_is_not_told_again() {
    let (_directory, home, store, session) = with_chat().await;
    store.append(&session, &user("zero")).await.unwrap();
    let mut log = open(&home).await;
    store.append(&session, &user("one")).await.unwrap();
    store.close().await;
    let backup = fs::read(database(&home)).unwrap();
    let store = Store::open(&home, Access::ReadWrite).await.unwrap();
    store.append(&session, &user("two")).await.unwrap();
    store.append(&session, &user("three")).await.unwrap();
    assert_eq!(poll_texts(&mut log, 0).await, ["one", "two", "three"]);
    store.close().await;
    remove_store(&home);
    fs::write(database(&home), backup).unwrap();
    assert_eq!(poll_texts(&mut log, 3).await, [""; 0]);
    let store = Store::open(&home, Access::ReadWrite).await.unwrap();
    // These get ids that the log has seen before.
    store.append(&session, &user("another two")).await.unwrap();
    assert_eq!(poll_texts(&mut log, 3).await, ["another two"]);
    assert_eq!(page(&log, 0).await.last, 4);
    log.close().await;
    store.close().await;
}

#[tokio::test]
async fn deleted_messages_do_not_make_another_store() {
    let (_directory, home, store, session) = with_chat().await;
    let mut log = open(&home).await;
    for text in ["one", "two", "three"] {
        store.append(&session, &user(text)).await.unwrap();
    }
    assert_eq!(poll_texts(&mut log, 0).await.len(), 3);
    python_sql(&home, "DELETE FROM messages");
    assert_eq!(poll_texts(&mut log, 3).await, [""; 0]);
    store.append(&session, &user("four")).await.unwrap();
    assert_eq!(poll_texts(&mut log, 3).await, ["four"]);
    log.close().await;
    store.close().await;
}

#[tokio::test]
async fn a_locked_store_is_an_error_first_and_nothing_is_lost() {
    let (_directory, home, store, _) = with_chat().await;
    store.close().await;
    python_sql(&home, "PRAGMA journal_mode = DELETE");
    let mut log = open(&home).await;
    let script = "import sqlite3, sys\n\
        c = sqlite3.connect(sys.argv[1], isolation_level=None)\n\
        c.execute('BEGIN EXCLUSIVE')\n\
        c.execute(\"INSERT INTO messages (session_id, role, content, timestamp) VALUES ('s1', 'user', 'x', 1)\")\n\
        print('locked', flush=True)\n\
        sys.stdin.read()\n\
        c.execute('COMMIT')\n";
    let mut writer = std::process::Command::new("python3")
        .args(["-c", script])
        .arg(database(&home))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut output = std::io::BufReader::new(writer.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut output, &mut line).unwrap();
    let error = log.poll().await.unwrap_err();
    assert!(matches!(error, StoreError::Locked { .. }), "{error}");
    drop(writer.stdin.take());
    writer.wait().unwrap();
    assert_eq!(poll_texts(&mut log, 0).await, ["x"]);
    log.close().await;
}
