//! The log of events and the index of conversations, on real files and with other processes writing them.

use std::time::Duration;

use hermes_config::Home;
use hermes_gateway::bridge::events::{Cursor, Event, EventFeed, EventKind, EventLimits};
use hermes_store::{Access, NewMessage, NewSession, Origin, Role, SessionId, SessionKey, Store};
use tempfile::TempDir;

/// Long enough for a loaded machine.
const PATIENCE: Duration = Duration::from_secs(20);
const KEY: &str = "agent:main:telegram:dm:1";

fn empty_home() -> (TempDir, Home) {
    let directory = tempfile::tempdir().unwrap();
    let home = Home::at(directory.path());
    (directory, home)
}

fn id(text: &str) -> SessionId {
    SessionId::parse(text).unwrap()
}

async fn chat(store: &Store, session: &str, key: &str) -> SessionId {
    let mut new = NewSession::new(id(session), "telegram");
    new.session_key = Some(SessionKey::new(key));
    new.origin = Some(Origin {
        platform: "telegram".into(),
        chat_id: Some("1".into()),
        chat_type: "dm".into(),
        chat_name: Some("Ann".into()),
        ..Origin::default()
    });
    store.create_session(&new).await.unwrap();
    new.id
}

/// A home with a store and one chat in it.
async fn with_chat() -> (TempDir, Home, Store, SessionId) {
    let (directory, home) = empty_home();
    let store = Store::open(&home, Access::ReadWrite).await.unwrap();
    let session = chat(&store, "s1", KEY).await;
    (directory, home, store, session)
}

async fn feed(home: &Home) -> EventFeed {
    EventFeed::open(home, EventLimits::default()).await
}

fn user(text: &str) -> NewMessage {
    NewMessage::new(Role::User, text)
}

/// What messages say; of other events, their type.
fn texts(events: &[Event]) -> Vec<String> {
    events
        .iter()
        .map(|event| match &event.kind {
            EventKind::Message { content, .. } => content.clone(),
            EventKind::ApprovalRequested { approval_id, .. } => format!("asked {approval_id}"),
            EventKind::ApprovalResolved { decision, .. } => decision.clone(),
        })
        .collect()
}

async fn all(feed: &EventFeed) -> Vec<String> {
    texts(&feed.poll(Cursor(0), None, 1000).await.unwrap().events)
}

#[tokio::test]
async fn what_is_said_after_the_start_is_an_event() {
    let (_directory, home, store, session) = with_chat().await;
    store.append(&session, &user("before")).await.unwrap();
    let feed = feed(&home).await;
    assert_eq!(feed.position().await, Cursor(0));
    store.append(&session, &user("after")).await.unwrap();
    let page = feed.poll(Cursor(0), None, 20).await.unwrap();
    assert_eq!(texts(&page.events), ["after"]);
    assert_eq!(
        (page.oldest, page.last, page.dropped),
        (Some(Cursor(1)), Cursor(1), 0)
    );
    feed.close().await;
    store.close().await;
}

#[tokio::test]
async fn whoever_waits_is_woken_by_a_message() {
    let (_directory, home, store, session) = with_chat().await;
    let feed = feed(&home).await;
    let waiting = tokio::time::timeout(PATIENCE, feed.wait(Cursor(0), Some(KEY)));
    let writing = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        store.append(&session, &user("hello")).await.unwrap();
    };
    let (page, ()) = tokio::join!(waiting, writing);
    assert_eq!(texts(&page.unwrap().unwrap().events), ["hello"]);
    assert_eq!(all(&feed).await, ["hello"]);
    feed.close().await;
    store.close().await;
}
