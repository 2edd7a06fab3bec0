//! The event log and the conversation index, on real files and with other processes that write them.

mod processes;

use std::{fs, time::Duration};

use hermes_config::Home;
use hermes_gateway::bridge::events::{
    ConversationEvent, Cursor, EventError, EventFeed, EventKind, EventLimits, EventPage,
};
use hermes_store::{Access, NewMessage, NewSession, Origin, Role, SessionId, SessionKey, Store};
use hermes_testkit::eventually_some;
use tempfile::TempDir;

/// Long enough for a loaded machine.
const TIMEOUT: Duration = Duration::from_secs(20);
pub(crate) const KEY: &str = "agent:main:telegram:dm:1";

pub(crate) fn empty_home() -> (TempDir, Home) {
    let directory = tempfile::tempdir().unwrap();
    let home = Home::at(directory.path());
    (directory, home)
}

pub(crate) fn id(text: &str) -> SessionId {
    SessionId::parse(text).unwrap()
}

pub(crate) async fn chat(store: &Store, session: &str, key: &str) -> SessionId {
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
pub(crate) async fn with_chat() -> (TempDir, Home, Store, SessionId) {
    let (directory, home) = empty_home();
    let store = Store::open(&home, Access::ReadWrite).await.unwrap();
    let session = chat(&store, "s1", KEY).await;
    (directory, home, store, session)
}

async fn feed(home: &Home) -> EventFeed {
    EventFeed::open(home, EventLimits::default()).await
}

pub(crate) fn user(text: &str) -> NewMessage {
    NewMessage::new(Role::User, text)
}

/// What messages say; of other events, their type.
fn texts(events: &[ConversationEvent]) -> Vec<String> {
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

/// The first page with so many events at least: on a busy machine a poll answers with what is known so far.
async fn poll(feed: &EventFeed, count: usize) -> EventPage {
    let page = eventually_some(TIMEOUT, async || {
        let page = feed.poll(Cursor(0), None, 1000).await.unwrap();
        (page.events.len() >= count).then_some(page)
    });
    page.await.expect("the events are never polled")
}

#[tokio::test]
async fn what_is_said_after_the_start_is_an_event() {
    let (_directory, home, store, session) = with_chat().await;
    store.append(&session, &user("before")).await.unwrap();
    let feed = feed(&home).await;
    assert_eq!(feed.position().await, Cursor(0));
    store.append(&session, &user("after")).await.unwrap();
    let page = poll(&feed, 1).await;
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
    let waiting = tokio::time::timeout(TIMEOUT, feed.wait(Cursor(0), Some(KEY)));
    let speech = async {
        // The one who waits was polled first.
        tokio::task::yield_now().await;
        store.append(&session, &user("hello")).await.unwrap();
    };
    let (page, ()) = tokio::join!(waiting, speech);
    assert_eq!(texts(&page.unwrap().unwrap().events), ["hello"]);
    assert_eq!(all(&feed).await, ["hello"]);
    feed.close().await;
    store.close().await;
}

#[tokio::test]
async fn a_store_that_appears_later_wakes_whoever_waits() {
    let (_directory, home) = empty_home();
    let feed = feed(&home).await;
    let waiting = tokio::time::timeout(TIMEOUT, feed.wait(Cursor(0), None));
    let speech = async {
        let store = Store::open(&home, Access::ReadWrite).await.unwrap();
        let session = chat(&store, "s1", KEY).await;
        store.append(&session, &user("first")).await.unwrap();
        store.close().await;
    };
    let (page, ()) = tokio::join!(waiting, speech);
    assert_eq!(texts(&page.unwrap().unwrap().events), ["first"]);
    feed.close().await;
}

#[tokio::test]
async fn a_store_that_takes_the_place_of_another_wakes_whoever_waits() {
    let (_directory, home, store, session) = with_chat().await;
    let feed = feed(&home).await;
    store.append(&session, &user("old")).await.unwrap();
    let old = poll(&feed, 1).await;
    assert_eq!(texts(&old.events), ["old"]);
    store.close().await;
    let (_other_directory, other) = empty_home();
    let store = Store::open(&other, Access::ReadWrite).await.unwrap();
    chat(&store, "s9", "another chat").await;
    store.close().await;
    let waiting = tokio::time::timeout(TIMEOUT, feed.wait(old.last, None));
    let replacement = async {
        for suffix in ["-wal", "-shm"] {
            let _ = fs::remove_file(home.path().join(format!("state.db{suffix}")));
        }
        fs::rename(other.path().join("state.db"), home.path().join("state.db")).unwrap();
        let store = Store::open(&home, Access::ReadWrite).await.unwrap();
        store.append(&id("s9"), &user("new")).await.unwrap();
        store.close().await;
    };
    let (page, ()) = tokio::join!(waiting, replacement);
    let page = page.unwrap().unwrap();
    assert_eq!(texts(&page.events), ["new"]);
    assert_eq!(page.events[0].session_key, "another chat");
    feed.close().await;
}

#[tokio::test]
async fn an_older_cursor_is_answered_from_the_database() {
    let (_directory, home, store, session) = with_chat().await;
    let first = feed(&home).await;
    for text in ["one", "two", "three"] {
        store.append(&session, &user(text)).await.unwrap();
    }
    let page = poll(&first, 3).await;
    assert_eq!(texts(&page.events), ["one", "two", "three"]);
    let second = feed(&home).await;
    assert_eq!(second.position().await, Cursor(3));
    let page = second.poll(Cursor(1), None, 1).await.unwrap();
    assert_eq!(texts(&page.events), ["two"]);
    assert_eq!((page.oldest, page.last), (Some(Cursor(1)), Cursor(3)));
    let none = second.poll(Cursor(1), Some("nobody"), 9).await.unwrap();
    assert_eq!(none.events, []);
    first.close().await;
    second.close().await;
    store.close().await;
}

#[tokio::test]
async fn what_is_gone_from_a_trimmed_log_is_counted_exactly() {
    let (_directory, home, store, session) = with_chat().await;
    let limits = EventLimits {
        max_events: 1,
        ..EventLimits::default()
    };
    let feed = EventFeed::open(&home, limits).await;
    let many: Vec<_> = (0..1205).map(|n| user(&format!("{n}"))).collect();
    store.append_all(&session, &many).await.unwrap();
    let mut changes = feed.changes();
    let logged = tokio::time::timeout(TIMEOUT, changes.wait_for(|last| *last == Cursor(1205)));
    logged.await.unwrap().unwrap();
    let page = feed.poll(Cursor(5), None, 2).await.unwrap();
    assert_eq!(
        texts(&page.events),
        ["205", "206"],
        "1000 are kept at least"
    );
    assert_eq!((page.oldest, page.dropped), (Some(Cursor(206)), 200));
    let page = feed.poll(Cursor(205), Some("nobody"), 2).await.unwrap();
    assert_eq!((page.events.len(), page.dropped), (0, 0));
    let page = feed.wait(Cursor(100), None).await.unwrap();
    assert_eq!(
        (texts(&page.events), page.dropped),
        (vec!["205".into()], 105)
    );
    feed.close().await;
    store.close().await;
}

#[tokio::test]
async fn closing_ends_whoever_waits() {
    let (_directory, home, store, _) = with_chat().await;
    let feed = feed(&home).await;
    let ending = async {
        // The one who waits was polled first.
        tokio::task::yield_now().await;
        feed.close().await;
    };
    let (page, ()) = tokio::join!(feed.wait(Cursor(0), None), ending);
    assert!(matches!(page, Err(EventError::Closed)), "{page:?}");
    store.close().await;
}

#[tokio::test]
async fn changes_tell_the_newest_cursor() {
    let (_directory, home, store, session) = with_chat().await;
    let feed = feed(&home).await;
    let mut changes = feed.changes();
    store.append(&session, &user("one")).await.unwrap();
    let newest = tokio::time::timeout(TIMEOUT, changes.wait_for(|newest| *newest == Cursor(1)));
    assert_eq!(*newest.await.unwrap().unwrap(), Cursor(1));
    feed.close().await;
    store.close().await;
}

#[tokio::test]
async fn without_a_writable_home_events_are_kept_in_memory() {
    let (_directory, home, store, session) = with_chat().await;
    fs::create_dir(home.path().join("runtime.db")).unwrap();
    let feed = feed(&home).await;
    store.append(&session, &user("one")).await.unwrap();
    assert_eq!(texts(&poll(&feed, 1).await.events), ["one"]);
    feed.close().await;
    store.close().await;
}

#[tokio::test]
async fn a_log_that_was_deleted_begins_anew_and_its_cursors_go_on() {
    let (_directory, home, store, session) = with_chat().await;
    let (one, other) = (feed(&home).await, feed(&home).await);
    let mut known = Cursor(0);
    for (files, text) in [
        (&["runtime.db", "runtime.db-wal", "runtime.db-shm"][..], "a"),
        // The rest of what belonged to it must not be taken for the new one's.
        (&["runtime.db"][..], "b"),
    ] {
        store.append(&session, &user("before")).await.unwrap();
        for feed in [&one, &other] {
            let page = tokio::time::timeout(TIMEOUT, feed.wait(known, None));
            assert_eq!(texts(&page.await.unwrap().unwrap().events), ["before"]);
        }
        known = Cursor(known.0 + 1);
        // Scans triggered by that are complete, and none has just begun.
        tokio::time::sleep(Duration::from_millis(200)).await;
        let _ = tokio::join!(one.poll(known, None, 1), other.poll(known, None, 1));
        for file in files {
            fs::remove_file(home.path().join(file)).unwrap();
        }
        store.append(&session, &user(text)).await.unwrap();
        for feed in [&one, &other] {
            let page = tokio::time::timeout(TIMEOUT, feed.wait(known, None));
            let page = page.await.unwrap().unwrap();
            assert_eq!(texts(&page.events), [text]);
            assert_eq!((page.events[0].cursor.0, page.dropped), (known.0 + 1, 0));
            let page = poll(feed, 1).await;
            assert_eq!(
                (texts(&page.events), page.dropped),
                (vec![text.into()], known.0)
            );
        }
        known = Cursor(known.0 + 1);
        assert!(home.path().join("runtime.db").exists());
    }
    for feed in [one, other] {
        feed.close().await;
    }
    store.close().await;
}

#[tokio::test]
async fn a_locked_log_delays_events_and_loses_none() {
    let (_directory, home, store, session) = with_chat().await;
    let feed = feed(&home).await;
    let script = "import sqlite3, sys\n\
        c = sqlite3.connect(sys.argv[1], isolation_level=None)\n\
        c.execute('BEGIN IMMEDIATE')\n\
        print('locked', flush=True)\n\
        sys.stdin.read()\n";
    let path = home.path().join("runtime.db");
    // The feed must go on meanwhile: it may hold the lock itself for a moment.
    let started = tokio::task::spawn_blocking(move || {
        let mut holder = std::process::Command::new("python3")
            .args(["-c", script])
            .arg(path)
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut output = std::io::BufReader::new(holder.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut output, &mut line).unwrap();
        assert_eq!(line.trim(), "locked");
        holder
    });
    let mut holder = started.await.unwrap();
    store.append(&session, &user("late")).await.unwrap();
    // Answered all the same, with what is known.
    assert_eq!(all(&feed).await, [""; 0]);
    drop(holder.stdin.take());
    holder.wait().unwrap();
    let page = tokio::time::timeout(TIMEOUT, feed.wait(Cursor(0), None));
    assert_eq!(texts(&page.await.unwrap().unwrap().events), ["late"]);
    feed.close().await;
    store.close().await;
}
