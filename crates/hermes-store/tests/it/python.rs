//! The same files used by Python: its SQLite makes a database as documented, and reads and continues ours.

use std::{fs, path::Path, process::Command};

use hermes_config::Home;
use hermes_store::{
    Access, Content, MessageQuery, NewMessage, Role, SearchQuery, SessionKey, Store,
};
use serde_json::{Value, json};

use crate::{assistant, database, empty_home, id, user, with_session};

fn reference(action: &str, path: &Path, session: Option<&str>) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/reference.py");
    let output = Command::new("python3")
        .args([script, action])
        .arg(path)
        .args(session)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

fn python_home() -> (tempfile::TempDir, Home) {
    let (directory, home) = empty_home();
    reference("create", &database(&home), None);
    (directory, home)
}

const PYTHON_SESSION: &str = "20260101_010101_0badcafe";

#[tokio::test]
async fn a_database_of_ours_is_built_like_the_documented_one_but_for_an_index() {
    let (_one, ours, store, _) = with_session().await;
    store.close().await;
    let (_two, theirs) = python_home();
    let describe = |home: &Home| -> Value {
        serde_json::from_str(&reference("describe", &database(home), None)).unwrap()
    };
    let mut built = describe(&ours);
    assert!(crate::remove_own_index(&mut built));
    assert_eq!(built, describe(&theirs));
}

#[tokio::test]
async fn a_writer_gives_a_database_of_python_the_index_that_chats_are_listed_by() {
    let (_directory, home) = python_home();
    let store = Store::open(&home, Access::ReadWrite).await.unwrap();
    let chats = store.chat_marks(None, &[]).await.unwrap().chats;
    store.close().await;
    assert_eq!(chats.len(), 1);
    let described = reference("describe", &database(&home), None);
    assert!(crate::remove_own_index(
        &mut serde_json::from_str(&described).unwrap()
    ));
    // Python goes on writing to it.
    reference("continue", &database(&home), Some(PYTHON_SESSION));
    let store = Store::open(&home, Access::ReadOnly).await.unwrap();
    let after = store.chat_marks(None, &[]).await.unwrap().chats;
    assert_eq!(after.len(), 1);
    assert_ne!(after, chats, "a message more");
    store.close().await;
}

#[tokio::test]
async fn a_reader_reads_everything_and_changes_nothing() {
    let (_directory, home) = python_home();
    let before = fs::read(database(&home)).unwrap();
    let store = Store::open(&home, Access::ReadOnly).await.unwrap();
    let session = store.session(&id(PYTHON_SESSION)).await.unwrap().unwrap();
    assert_eq!(session.source, "telegram");
    assert_eq!(session.message_count, 4);
    assert_eq!(session.origin.unwrap().chat_name.as_deref(), Some("Ann"));
    assert_eq!(
        session.session_key,
        Some(SessionKey::new("agent:main:telegram:dm:1"))
    );
    let messages = store.active_messages(&session.id).await.unwrap();
    let contents: Vec<_> = messages
        .iter()
        .map(|message| message.body.content.clone())
        .collect();
    assert_eq!(
        contents,
        [
            Some(Content::from("plain 大别山项目 text")),
            None,
            Some(Content::from("a\0b 😀")),
            Some(Content::Parts(json!([
                {"type": "text", "text": "half \u{fffd} of it"},
                {"type": "image_url", "image_url": {"url": "data:x"}},
            ]))),
        ]
    );
    assert_eq!(
        messages[1].body.tool_calls.as_ref().unwrap()[0]["extra"],
        "\u{fffd}"
    );
    assert_eq!(
        store
            .search(&SearchQuery::new("大别山"))
            .await
            .unwrap()
            .len(),
        1
    );
    assert_eq!(store.chats().await.unwrap().len(), 1);
    store.close().await;
    assert_eq!(fs::read(database(&home)).unwrap(), before);
}

#[tokio::test]
async fn a_conversation_begun_by_python_goes_on_here_and_back() {
    let (_directory, home) = python_home();
    let store = Store::open(&home, Access::ReadWrite).await.unwrap();
    let session = id(PYTHON_SESSION);
    store.append(&session, &assistant("here")).await.unwrap();
    reference("continue", &database(&home), Some(PYTHON_SESSION));
    let page = store
        .read_messages(
            &session,
            &MessageQuery {
                limit: 2,
                ..MessageQuery::default()
            },
        )
        .await
        .unwrap();
    let texts: Vec<_> = page
        .iter()
        .map(|message| message.body.content.as_ref().unwrap().text().into_owned())
        .collect();
    assert_eq!(texts, ["here", "from python"]);
    assert_eq!(
        store
            .session(&session)
            .await
            .unwrap()
            .unwrap()
            .message_count,
        6
    );
    store.close().await;
}

#[tokio::test]
async fn python_reads_what_we_write() {
    let (_directory, home, store, session) = with_session().await;
    let calls = json!([{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{\"a\":1}"}}]);
    let parts = json!([{"type": "text", "text": "字\0😀"}]);
    let messages = [
        user("a\0b 😀"),
        NewMessage {
            tool_calls: Some(calls.clone()),
            ..NewMessage::without_content(Role::Assistant)
        },
        NewMessage::new(Role::User, Content::Parts(parts.clone())),
    ];
    store.append_all(&session, &messages).await.unwrap();
    store.close().await;
    let dumped: Value =
        serde_json::from_str(&reference("dump", &database(&home), Some(session.as_str()))).unwrap();
    assert_eq!(
        dumped,
        json!([
            ["user", "a\0b 😀", null],
            ["assistant", null, calls],
            ["user", parts, null]
        ])
    );
}
