//! The log of events: what becomes one, what does not, and what stays true of cursors.

mod replaced;
mod rewritten;

use std::{fs, time::Duration};

use hermes_config::Home;
use hermes_store::{
    Access, Content, NewMessage, NewSession, Role, SessionId, SessionKey, Store,
    runtime::{
        ApprovalAnswer, ApprovalOutcome, EventLog, EventPage, LogLimits, LogStorage, NewApproval,
        RuntimeStore,
    },
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{assistant, database, empty_home, id, python_sql, user};

const KEY: &str = "agent:main:telegram:dm:1";
const LIMITS: LogLimits = LogLimits {
    max_events: 10_000,
    max_age: Duration::from_hours(24),
};

async fn chat(store: &Store, session: &str, key: &str) -> SessionId {
    let mut new = NewSession::new(id(session), "telegram");
    new.session_key = Some(SessionKey::new(key));
    store.create_session(&new).await.unwrap();
    new.id
}

/// A home with one chat, and the log of that home.
async fn with_chat() -> (TempDir, Home, Store, SessionId) {
    let (directory, home) = empty_home();
    let store = Store::open(&home, Access::ReadWrite).await.unwrap();
    let session = chat(&store, "s1", KEY).await;
    (directory, home, store, session)
}

async fn open(home: &Home) -> EventLog {
    open_with(home, LIMITS).await
}

/// Opens the log and looks once, as a bridge does when it starts.
async fn open_with(home: &Home, limits: LogLimits) -> EventLog {
    let (mut log, keeping) = EventLog::open(home, limits).await.unwrap();
    assert!(matches!(keeping, LogStorage::Shared), "{keeping:?}");
    log.poll().await.unwrap();
    log
}

async fn page(log: &EventLog, after: i64) -> EventPage {
    log.runtime().events_after(after, None, 100).await.unwrap()
}

/// Looks, and tells what was said after that cursor.
async fn poll_texts(log: &mut EventLog, after: i64) -> Vec<String> {
    log.poll().await.unwrap();
    let events = page(log, after).await.events;
    let content = |payload: &Value| payload["content"].as_str().unwrap().to_owned();
    events.iter().map(|event| content(&event.payload)).collect()
}

fn with_timestamp(message: NewMessage, timestamp: f64) -> NewMessage {
    NewMessage {
        timestamp: Some(timestamp),
        ..message
    }
}

#[tokio::test]
async fn a_first_start_logs_nothing_of_ten_thousand_old_rows() {
    let (_directory, home, store, session) = with_chat().await;
    let old: Vec<_> = (0..10_000).map(|n| user(&format!("old {n}"))).collect();
    store.append_all(&session, &old).await.unwrap();
    let mut log = open(&home).await;
    assert_eq!(poll_texts(&mut log, 0).await, [""; 0]);
    store.append(&session, &user("new")).await.unwrap();
    assert_eq!(poll_texts(&mut log, 0).await, ["new"]);
    log.poll().await.unwrap();
    assert!(
        !log.poll().await.unwrap(),
        "nothing happened since the log itself was written"
    );
    log.close().await;
    store.close().await;
}

#[tokio::test]
async fn what_arrives_while_no_bridge_runs_is_logged_by_the_next() {
    let (_directory, home, store, session) = with_chat().await;
    open(&home).await.close().await;
    store.append(&session, &user("meanwhile")).await.unwrap();
    let mut log = open(&home).await;
    assert_eq!(poll_texts(&mut log, 0).await, ["meanwhile"]);
    log.close().await;
    store.close().await;
}

#[tokio::test]
async fn a_message_is_logged_with_what_a_client_needs() {
    let (_directory, home, store, session) = with_chat().await;
    let mut log = open(&home).await;
    let parts = json!([{"type": "text", "text": "one"}, {"type": "image_url", "image_url": {"url": "data:x"}},
        {"type": "text", "text": "two"}]);
    let image = json!([{"type": "image_url", "image_url": {"url": "data:x"}}]);
    let rows = [
        with_timestamp(user(&"字".repeat(600)), 1_794_708_121.81),
        with_timestamp(NewMessage::new(Role::User, Content::Parts(parts)), 5.0),
        NewMessage::new(Role::User, Content::Parts(image)),
        assistant(""),
        NewMessage::without_content(Role::Assistant),
        NewMessage::new(Role::Tool, "a result"),
        assistant("a\0b"),
    ];
    let ids = store.append_all(&session, &rows).await.unwrap();
    log.poll().await.unwrap();
    let events = page(&log, 0).await.events;
    let payloads: Vec<_> = events.iter().map(|event| &event.payload).collect();
    assert_eq!(
        payloads[..2],
        [
            &json!({"role": "user", "content": "字".repeat(500), "timestamp": "1794708121.81",
                "message_id": ids[0].to_string()}),
            &json!({"role": "user", "content": "one\ntwo", "timestamp": "5.0", "message_id": ids[1].to_string()}),
        ]
    );
    assert_eq!(payloads[2]["content"], "a\0b");
    assert_eq!(events.len(), 3, "empty and tool rows are not events");
    assert_eq!(events[0].kind, "message");
    assert_eq!(events[0].session_key, Some(SessionKey::new(KEY)));
    log.close().await;
    store.close().await;
}

#[tokio::test]
async fn only_chats_have_events_and_ended_ones_too() {
    let (_directory, home, store, session) = with_chat().await;
    let cli = NewSession::new(id("cli"), "cli");
    store.create_session(&cli).await.unwrap();
    let mut log = open(&home).await;
    store.append(&cli.id, &user("alone")).await.unwrap();
    store.append(&session, &user("last words")).await.unwrap();
    python_sql(&home, "UPDATE sessions SET ended_at = 1");
    assert_eq!(poll_texts(&mut log, 0).await, ["last words"]);
    log.close().await;
    store.close().await;
}

#[tokio::test]
async fn chats_are_told_apart() {
    let (_directory, home, store, session) = with_chat().await;
    let other = chat(&store, "s2", "other").await;
    let mut log = open(&home).await;
    for (session, text) in [(&session, "a"), (&other, "b"), (&session, "c")] {
        store.append(session, &user(text)).await.unwrap();
    }
    assert_eq!(poll_texts(&mut log, 0).await, ["a", "b", "c"]);
    let runtime = log.runtime();
    let mine = runtime.events_after(0, Some("other"), 9).await.unwrap();
    assert_eq!(mine.events.len(), 1);
    assert_eq!((mine.events[0].cursor, mine.last), (2, 3));
    log.close().await;
    store.close().await;
}

#[tokio::test]
async fn a_trimmed_log_keeps_its_newest_events_and_its_cursors() {
    let (_directory, home, store, session) = with_chat().await;
    let limits = LogLimits {
        max_events: 5,
        ..LIMITS
    };
    let mut log = open_with(&home, limits).await;
    for number in 0..3 {
        let text = format!("one by one {number}");
        store.append(&session, &user(&text)).await.unwrap();
        log.poll().await.unwrap();
    }
    let many: Vec<_> = (0..9).map(|n| user(&format!("at once {n}"))).collect();
    store.append_all(&session, &many).await.unwrap();
    log.poll().await.unwrap();
    let page = page(&log, 0).await;
    let cursors: Vec<_> = page.events.iter().map(|event| event.cursor).collect();
    assert_eq!(cursors, [8, 9, 10, 11, 12]);
    assert_eq!((page.oldest, page.last), (Some(8), 12));
    assert_eq!(page.events[4].payload["content"], "at once 8");
    log.close().await;
    store.close().await;
}

#[tokio::test]
async fn a_cursor_is_never_given_twice() {
    let (_directory, home, store, session) = with_chat().await;
    let mut log = open(&home).await;
    store.append(&session, &user("one")).await.unwrap();
    log.poll().await.unwrap();
    log.close().await;
    // Whoever empties the table by hand.
    let runtime = home.path().join("runtime.db");
    let script = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('delete from bridge_events'); c.commit()";
    let done = std::process::Command::new("python3")
        .args(["-c", script])
        .arg(&runtime)
        .status();
    assert!(done.unwrap().success());
    let mut log = open(&home).await;
    let empty = page(&log, 0).await;
    assert_eq!((empty.oldest, empty.last), (None, 1));
    store.append(&session, &user("two")).await.unwrap();
    assert_eq!(poll_texts(&mut log, 0).await, ["two"]);
    assert_eq!(page(&log, 0).await.events[0].cursor, 2);
    log.close().await;
    store.close().await;
}

#[tokio::test]
async fn old_events_go_even_when_nothing_happens() {
    let (_directory, home, store, session) = with_chat().await;
    let mut log = open(&home).await;
    let some = [user("one"), user("two")];
    store.append_all(&session, &some).await.unwrap();
    log.poll().await.unwrap();
    log.close().await;
    let limits = LogLimits {
        max_age: Duration::ZERO,
        ..LIMITS
    };
    let log = open_with(&home, limits).await;
    let page = page(&log, 0).await;
    assert_eq!((page.events.len(), page.oldest, page.last), (0, None, 2));
    log.close().await;
    store.close().await;
}

#[tokio::test]
async fn two_logs_of_a_home_are_the_same_log() {
    let (_directory, home, store, session) = with_chat().await;
    let (mut one, mut two) = (open(&home).await, open(&home).await);
    for number in 0..20 {
        let text = format!("{number}");
        store.append(&session, &user(&text)).await.unwrap();
        let (first, second) = tokio::join!(one.poll(), two.poll());
        first.unwrap();
        second.unwrap();
    }
    assert_eq!(page(&one, 0).await, page(&two, 0).await);
    assert_eq!(page(&one, 0).await.events.len(), 20);
    one.close().await;
    two.close().await;
    store.close().await;
}

fn new_approval(id: &str) -> NewApproval {
    NewApproval {
        id: id.into(),
        kind: "exec".into(),
        session_key: Some(SessionKey::new(KEY)),
        session: None,
        run_id: None,
        command: "rm -r x".into(),
        description: "deletes".into(),
        pattern_keys: Vec::new(),
        allow_permanent: true,
        timeout: Some(Duration::from_mins(5)),
        owner_pid: 1,
        owner_start: None,
    }
}

#[tokio::test]
async fn an_approval_is_logged_when_asked_and_when_closed() {
    let (_directory, home) = empty_home();
    let runtime = RuntimeStore::open(&home).await.unwrap();
    runtime
        .publish_approval(&new_approval("old"))
        .await
        .unwrap();
    let mut log = open(&home).await;
    for (id, outcome) in [
        ("a", ApprovalOutcome::Answered(ApprovalAnswer::Once)),
        ("b", ApprovalOutcome::Answered(ApprovalAnswer::Session)),
        ("c", ApprovalOutcome::Answered(ApprovalAnswer::Always)),
        ("d", ApprovalOutcome::Answered(ApprovalAnswer::Deny)),
        ("e", ApprovalOutcome::Expired),
        ("f", ApprovalOutcome::Cancelled),
    ] {
        runtime.publish_approval(&new_approval(id)).await.unwrap();
        if id < "d" {
            log.poll().await.unwrap();
        }
        let answer = runtime.answer_approval(id, ApprovalAnswer::Once, "test", None);
        answer.await.unwrap();
        log.poll().await.unwrap();
        runtime.resolve_approval(id, outcome).await.unwrap();
        log.poll().await.unwrap();
    }
    runtime
        .resolve_approval("old", ApprovalOutcome::Expired)
        .await
        .unwrap();
    log.poll().await.unwrap();
    let events = page(&log, 0).await.events;
    let shown: Vec<_> = events
        .iter()
        .map(|event| {
            let id = event.payload["approval_id"].as_str().unwrap();
            let decision = event.payload["decision"].as_str().unwrap_or("asked");
            format!("{id} {decision}")
        })
        .collect();
    assert_eq!(
        shown,
        [
            "a asked",
            "a allow-once",
            "b asked",
            "b allow-session",
            "c asked",
            "c allow-always",
            "d asked",
            "d deny",
            "e asked",
            "e expired",
            "f asked",
            "f cancelled",
            "old expired",
        ]
    );
    let asked = &events[0];
    assert_eq!(asked.kind, "approval_requested");
    assert_eq!(asked.session_key, Some(SessionKey::new(KEY)));
    assert_eq!(asked.payload["command"], "rm -r x");
    let time = asked.payload["expires_at"].as_str().unwrap();
    assert!(time.ends_with('Z') && time.contains('T'), "{time}");
    log.close().await;
    runtime.close().await;
}

#[tokio::test]
async fn an_approval_whose_events_were_trimmed_is_not_logged_again() {
    let (_directory, home, store, session) = with_chat().await;
    let limits = LogLimits {
        max_events: 1,
        ..LIMITS
    };
    let mut log = open_with(&home, limits).await;
    let runtime = log.runtime().clone();
    runtime.publish_approval(&new_approval("a")).await.unwrap();
    log.poll().await.unwrap();
    store.append(&session, &user("x")).await.unwrap();
    log.poll().await.unwrap();
    store.append(&session, &user("y")).await.unwrap();
    assert_eq!(poll_texts(&mut log, 0).await, ["y"]);
    assert_eq!(page(&log, 0).await.last, 3);
    log.close().await;
    store.close().await;
}

#[tokio::test]
async fn without_a_writable_database_the_log_is_in_memory() {
    let (_directory, home, store, session) = with_chat().await;
    fs::create_dir(home.path().join("runtime.db")).unwrap();
    let (mut log, keeping) = EventLog::open(&home, LIMITS).await.unwrap();
    assert!(matches!(keeping, LogStorage::Memory(_)));
    log.poll().await.unwrap();
    store.append(&session, &user("kept for now")).await.unwrap();
    assert_eq!(poll_texts(&mut log, 0).await, ["kept for now"]);
    store.append(&session, &user("and this")).await.unwrap();
    assert_eq!(poll_texts(&mut log, 1).await, ["and this"]);
    log.close().await;
    store.close().await;
}

#[tokio::test]
#[cfg(unix)]
async fn the_log_is_private() {
    use std::os::unix::fs::PermissionsExt;
    let (_directory, home, store, _) = with_chat().await;
    let log = open(&home).await;
    for name in ["runtime.db", "runtime.db-wal"] {
        let mode = fs::metadata(home.path().join(name)).unwrap().permissions();
        assert_eq!(mode.mode() & 0o777, 0o600, "{name}");
    }
    log.close().await;
    store.close().await;
}

#[tokio::test]
async fn a_damaged_message_delays_its_own_chat_alone() {
    let (_directory, home, store, session) = with_chat().await;
    let other = chat(&store, "s2", "other").await;
    let mut log = open(&home).await;
    let text = format!("MARK{}", "x".repeat(20_000));
    store.append(&session, &user(&text)).await.unwrap();
    store.append(&session, &user("behind it")).await.unwrap();
    store.append(&other, &user("elsewhere")).await.unwrap();
    store.append(&session, &user(&text)).await.unwrap();
    store.close().await;
    let path = database(&home);
    let sound = fs::read(&path).unwrap();
    fs::write(&path, corrupt_bytes(&sound)).unwrap();
    assert_eq!(poll_texts(&mut log, 0).await, ["elsewhere"]);
    log.close().await;
    fs::write(&path, sound).unwrap();
    // A log opened anew knows what was left behind.
    let mut log = open(&home).await;
    let late: Vec<_> = poll_texts(&mut log, 1).await;
    assert_eq!(late.len(), 3);
    assert!(late[0].starts_with("MARK") && late[2].starts_with("MARK"));
    assert_eq!(late[1], "behind it");
    log.close().await;
}

/// Breaks the chain of pages that hold the rest of a long message.
fn corrupt_bytes(sound: &[u8]) -> Vec<u8> {
    const PAGE: usize = 4096;
    let mut bytes = sound.to_vec();
    let full: Vec<usize> = (0..bytes.len() / PAGE)
        .map(|page| page * PAGE)
        .filter(|start| {
            bytes[start + 4..start + PAGE]
                .iter()
                .all(|byte| *byte == b'x')
        })
        .collect();
    assert!(!full.is_empty());
    for start in full {
        bytes[start..start + 4].copy_from_slice(&[0x7f, 0xff, 0xff, 0xff]);
    }
    bytes
}

#[tokio::test]
async fn a_database_of_python_stays_as_it_was_byte_for_byte() {
    let (_directory, home) = empty_home();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/reference.py");
    let done = std::process::Command::new("python3")
        .args([script, "create"])
        .arg(database(&home))
        .status();
    assert!(done.unwrap().success());
    let before = fs::read(database(&home)).unwrap();
    let mut log = open(&home).await;
    assert_eq!(poll_texts(&mut log, 0).await, [""; 0]);
    log.close().await;
    let live = hermes_store::LiveStore::new(&home);
    let seen = live.poll().await.unwrap().unwrap();
    assert_eq!(seen.store.chats().await.unwrap().len(), 1);
    live.close().await;
    assert!(before == fs::read(database(&home)).unwrap());
}
