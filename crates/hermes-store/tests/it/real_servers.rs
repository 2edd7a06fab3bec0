//! Hermes Agent 0.19 itself, in Python, on the same files: each reads all that the other wrote, and goes on with it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use hermes_config::Home;
use hermes_store::{
    Access, Content, MessageId, MessageQuery, MessageRows, MessageState, NewMessage, NewSession,
    Origin, Role, SearchQuery, Session, SessionId, SessionKey, Store, StoredMessage,
};
use serde_json::{Value, json};

use crate::{assistant, database, empty_home, id, open_store, user};

const CHAT: &str = "20260101_010101_0badcafe";
const KEY: &str = "agent:main:telegram:dm:1";

/// The Python that has the agent installed, or `None` when these tests are to be skipped.
///
/// # Panics
///
/// If the variable is missing: a test that silently does nothing is worse than one that fails.
fn python() -> Option<PathBuf> {
    if std::env::var_os("HERMES_TEST_SKIP_REAL").is_some_and(|value| value == "1") {
        println!("SKIPPED: HERMES_TEST_SKIP_REAL is set, so nothing is tested with Hermes Agent");
        return None;
    }
    let Some(place) = std::env::var_os("HERMES_TEST_VENV_HERMES") else {
        panic!(
            "HERMES_TEST_VENV_HERMES is not set: `./test` installs Hermes Agent and sets it; for a single test run \
             `scripts/equipment install` and `eval \"$(scripts/equipment env)\"`, or set HERMES_TEST_SKIP_REAL=1"
        );
    };
    let path = PathBuf::from(place).join("bin/python");
    assert!(path.exists(), "{} is missing", path.display());
    Some(path)
}

/// Runs a script beside this file and gives back what it prints.
fn run(python: &Path, script: &str, action: &str, home: &Home, argument: Option<&str>) -> Value {
    let output = Command::new(python)
        .arg(format!("{}/tests/it/{script}", env!("CARGO_MANIFEST_DIR")))
        .arg(action)
        .arg(database(home))
        .args(argument)
        // What the package writes besides the database.
        .env("HERMES_HOME", home.path().join("python"))
        .env("HOME", home.path())
        .output()
        .unwrap();
    let problem = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{problem}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn agent(python: &Path, action: &str, home: &Home, argument: Option<&str>) -> Value {
    run(python, "hermes_agent.py", action, home, argument)
}

/// As Python writes it, which is to the last digit.
fn real(number: f64) -> String {
    format!("{number:?}")
}

fn in_columns(message: &StoredMessage) -> Value {
    let body = &message.body;
    let content = body.content.as_ref().map(|content| match content {
        Content::Text(text) => json!(text),
        Content::Parts(parts) => parts.clone(),
    });
    let (active, compacted) = match message.state {
        MessageState::Active => (1, 0),
        MessageState::Compacted => (0, 1),
        MessageState::Rewound => (0, 0),
    };
    json!({
        "id": message.id.0, "role": body.role.as_str(), "content": content, "tool_call_id": body.tool_call_id,
        "tool_name": body.tool_name, "tool_calls": body.tool_calls, "effect_disposition": body.effect_disposition,
        "finish_reason": body.finish_reason, "reasoning": body.reasoning, "reasoning_content": body.reasoning_content,
        "reasoning_details": body.reasoning_details, "codex_reasoning_items": body.codex_reasoning_items,
        "codex_message_items": body.codex_message_items, "timestamp": real(message.timestamp),
        "token_count": body.token_count, "platform_message_id": body.platform_message_id,
        "observed": i64::from(body.observed), "api_content": body.api_content, "active": active,
        "compacted": compacted,
    })
}

fn session_in_columns(session: &Session) -> Value {
    let usage = &session.usage;
    json!({
        "id": session.id.as_str(), "source": session.source, "user_id": session.user_id,
        "session_key": session.session_key.as_ref().map(SessionKey::as_str), "chat_id": session.chat_id,
        "chat_type": session.chat_type, "thread_id": session.thread_id, "display_name": session.display_name,
        "origin_json": session.origin.as_ref().map(Origin::to_json), "model": session.model,
        "model_config": session.model_config, "system_prompt": session.system_prompt,
        "parent_session_id": session.parent.as_ref().map(SessionId::as_str), "started_at": real(session.started_at),
        "ended_at": session.ended_at.map(real), "end_reason": session.end_reason, "message_count": session.message_count,
        "tool_call_count": session.tool_call_count, "api_call_count": usage.api_calls,
        "input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens,
        "cache_read_tokens": usage.cache_read_tokens, "cache_write_tokens": usage.cache_write_tokens,
        "reasoning_tokens": usage.reasoning_tokens, "cwd": session.cwd, "title": session.title,
        "rewind_count": session.rewind_count, "archived": i64::from(session.archived),
    })
}

async fn all_messages(store: &Store, session: &SessionId) -> Vec<StoredMessage> {
    let query = MessageQuery {
        rows: MessageRows::All,
        limit: u32::MAX,
        ..MessageQuery::default()
    };
    store.read_messages(session, &query).await.unwrap()
}

async fn found(store: &Store, text: &str) -> Value {
    let hits = store.search(&SearchQuery::new(text)).await.unwrap();
    let mut ids: Vec<i64> = hits.iter().map(|hit| hit.message.0).collect();
    ids.sort_unstable();
    json!(ids)
}

/// Everything in a store, in the shape in which the script prints it.
async fn dump(store: &Store, sessions: &Value) -> Value {
    let mut all = Vec::new();
    for entry in sessions.as_array().unwrap() {
        let session = id(entry["session"]["id"].as_str().unwrap());
        let read = store.session(&session).await.unwrap().unwrap();
        let messages = all_messages(store, &session).await;
        let messages: Vec<Value> = messages.iter().map(in_columns).collect();
        all.push(json!({"session": session_in_columns(&read), "messages": messages}));
    }
    all.into()
}

/// A conversation of ours in a chat, with a turn taken back.
async fn our_chat(store: &Store) -> SessionId {
    let chat = id(CHAT);
    let mut session = NewSession::new(chat.clone(), "telegram");
    session.session_key = Some(SessionKey::new(KEY));
    session.origin = Some(Origin {
        platform: "telegram".into(),
        chat_id: Some("1".into()),
        chat_type: "dm".into(),
        chat_name: Some("Ann".into()),
        user_id: Some("1".into()),
        ..Origin::default()
    });
    store.create_session(&session).await.unwrap();
    let calls =
        json!([{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]);
    let messages = [
        user("a word about 大别山项目"),
        NewMessage {
            tool_calls: Some(calls),
            ..NewMessage::without_content(Role::Assistant)
        },
        NewMessage {
            tool_call_id: Some("c1".into()),
            tool_name: Some("f".into()),
            ..NewMessage::new(Role::Tool, "a\0b 😀")
        },
        assistant("an answer"),
        NewMessage::new(Role::User, Content::Parts(picture())),
        assistant("nice"),
        user("a regretted word"),
        assistant("a regretted answer"),
    ];
    store.append_all(&chat, &messages).await.unwrap();
    store.rewind_last_turn(&chat).await.unwrap();
    chat
}

fn picture() -> Value {
    json!([
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
    ])
}

#[tokio::test]
async fn everything_python_stored_is_read_and_its_file_stays_as_it_is() {
    let Some(python) = python() else { return };
    let (_directory, home) = empty_home();
    agent(&python, "create", &home, None);
    let theirs = agent(&python, "dump", &home, None);
    assert_eq!(theirs.as_array().unwrap().len(), 4);
    let before = fs::read(database(&home)).unwrap();
    let store = Store::open(&home, Access::ReadOnly).await.unwrap();
    assert_eq!(dump(&store, &theirs).await, theirs);
    let chats = store.chats().await.unwrap();
    assert_eq!(chats.len(), 1);
    assert_eq!(chats[0].session_key, SessionKey::new(KEY));
    for text in ["大别山项目", "regretted", "terminal"] {
        let ours = found(&store, text).await;
        assert_eq!(ours, agent(&python, "search", &home, Some(text)), "{text}");
    }
    store.close().await;
    assert_eq!(fs::read(database(&home)).unwrap(), before);
}

#[tokio::test]
async fn a_database_of_ours_is_built_like_theirs() {
    let Some(python) = python() else { return };
    let (_one, ours, store) = open_store().await;
    store.close().await;
    let (_two, theirs) = empty_home();
    agent(&python, "create", &theirs, None);
    let describe = |home: &Home| run(&python, "reference.py", "describe", home, None);
    let built = describe(&ours);
    let mut shared = built.clone();
    assert!(crate::remove_own_index(&mut shared));
    assert_eq!(shared, describe(&theirs));
    // Opening it there adds nothing.
    agent(&python, "list", &ours, None);
    assert_eq!(describe(&ours), built);
}

#[tokio::test]
async fn python_lists_and_continues_our_conversations() {
    let Some(python) = python() else { return };
    let (_directory, home, store) = open_store().await;
    let chat = our_chat(&store).await;
    let terminal = id("20260101_010102_abcdef");
    store
        .create_session(&NewSession::new(terminal.clone(), "cli"))
        .await
        .unwrap();
    store
        .append(&terminal, &user("at the terminal"))
        .await
        .unwrap();
    store.close().await;
    let listed = agent(&python, "list", &home, None);
    assert_eq!(listed["chats"], json!([[KEY, CHAT, "Ann", "Ann"]]));
    let mut sessions = listed["sessions"].as_array().unwrap().clone();
    sessions.sort_by_key(|session| session[0].to_string());
    assert_eq!(sessions[0][0], CHAT);
    assert_eq!(sessions[0][2], "a word about 大别山项目");
    assert_eq!(
        sessions[1],
        json!([terminal.as_str(), 1, "at the terminal"])
    );

    let read = agent(&python, "continue", &home, Some(CHAT));
    assert_eq!(
        read,
        json!([
            ["user", "a word about 大别山项目"],
            ["assistant", null],
            ["tool", "a\0b 😀"],
            ["assistant", "an answer"],
            ["user", picture()],
            ["assistant", "nice"],
        ])
    );
    // Whatever is in the file now, both read the same.
    let store = Store::open(&home, Access::ReadWrite).await.unwrap();
    let theirs = agent(&python, "dump", &home, None);
    assert_eq!(dump(&store, &theirs).await, theirs);
    let active = store.active_messages(&chat).await.unwrap();
    assert_eq!(active.len(), 8);
    assert_eq!(active[7].body.content, Some(Content::from("from Python")));
    store.append(&chat, &user("and back")).await.unwrap();
    for text in ["大别山项目", "regretted", "back"] {
        let ours = found(&store, text).await;
        assert_eq!(ours, agent(&python, "search", &home, Some(text)), "{text}");
    }
    store.close().await;
}

#[tokio::test]
async fn either_reads_what_the_other_compacted() {
    let Some(python) = python() else { return };
    let (_directory, home, store) = open_store().await;
    let chat = our_chat(&store).await;
    let active = store.active_messages(&chat).await.unwrap();
    let (last, through) = (&active[5], active[5].id);
    let lease = Duration::from_mins(1);
    assert!(store.lock_compaction(&chat, "test", lease).await.unwrap());
    store
        .compact(
            &chat,
            "test",
            through,
            &[user("[summary]"), last.body.clone()],
        )
        .await
        .unwrap();
    store.unlock_compaction(&chat, "test").await.unwrap();
    let theirs = agent(&python, "dump", &home, None);
    assert_eq!(dump(&store, &theirs).await, theirs);
    // What was summed up is still found there; what was taken back is not.
    assert_eq!(
        agent(&python, "search", &home, Some("大别山项目")),
        json!([1])
    );
    assert_eq!(
        agent(&python, "search", &home, Some("regretted")),
        json!([])
    );
    let read = agent(&python, "continue", &home, Some(CHAT));
    assert_eq!(read, json!([["user", "[summary]"], ["assistant", "nice"]]));

    assert_eq!(agent(&python, "compact", &home, Some(CHAT)), 2);
    let theirs = agent(&python, "dump", &home, None);
    assert_eq!(dump(&store, &theirs).await, theirs);
    let texts: Vec<String> = store
        .active_messages(&chat)
        .await
        .unwrap()
        .iter()
        .map(|message| message.body.content.as_ref().unwrap().text().into_owned())
        .collect();
    assert_eq!(texts, ["[summary in Python]", "from Python"]);
    let early = store.message(&chat, MessageId(1)).await.unwrap().unwrap();
    assert_eq!(early.state, MessageState::Compacted);
    store.close().await;
}
