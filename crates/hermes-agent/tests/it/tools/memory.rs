//! Notes that outlive a session.

use std::fs;

use hermes_agent::tools::home::memory::{Memories, MemoryLimits, MemoryTool};
use serde_json::{Value, json};

use crate::tool_session::ToolSession;

async fn change(session: &ToolSession, arguments: Value) -> Value {
    let text = session.succeed(&MemoryTool::default(), arguments).await;
    serde_json::from_str(&text).unwrap()
}

#[tokio::test]
async fn notes_are_added_replaced_and_removed() {
    let session = ToolSession::new();
    change(
        &session,
        json!({"action": "add", "target": "user", "content": "likes tea"}),
    )
    .await;
    change(
        &session,
        json!({"action": "add", "target": "memory", "content": "builds with cargo"}),
    )
    .await;
    let result = change(
        &session,
        json!({"action": "add", "target": "memory", "content": "lives in Bern"}),
    )
    .await;
    assert_eq!(
        result["entries"],
        json!(["builds with cargo", "lives in Bern"])
    );
    change(&session, json!({"action": "replace", "target": "memory", "old_text": "cargo", "content": "builds with just"})).await;
    change(
        &session,
        json!({"action": "remove", "target": "memory", "old_text": "Bern"}),
    )
    .await;
    let memories = Memories::load(&session.context.home).unwrap();
    assert_eq!(memories.memory, ["builds with just"]);
    assert_eq!(memories.user, ["likes tea"]);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = fs::metadata(session.root.join("home/memories/USER.md"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

#[tokio::test]
async fn several_changes_are_made_all_or_none() {
    let session = ToolSession::new();
    let operations = json!([{"action": "add", "content": "a"}, {"action": "add", "content": "b"}]);
    change(
        &session,
        json!({"target": "memory", "operations": operations}),
    )
    .await;
    let operations =
        json!([{"action": "remove", "old_text": "a"}, {"action": "remove", "old_text": "missing"}]);
    let problem = session
        .fail(
            &MemoryTool::default(),
            json!({"target": "memory", "operations": operations}),
        )
        .await;
    assert!(problem.contains("missing"), "{problem}");
    assert_eq!(
        Memories::load(&session.context.home).unwrap().memory,
        ["a", "b"]
    );
}

#[tokio::test]
async fn the_room_is_limited_and_a_list_too_long_may_shrink() {
    let session = ToolSession::new();
    let tool = MemoryTool::new(MemoryLimits {
        memory: 20,
        user: 20,
    });
    session
        .succeed(
            &tool,
            json!({"action": "add", "target": "memory", "content": "ten letter"}),
        )
        .await;
    let problem = session
        .fail(
            &tool,
            json!({"action": "add", "target": "memory", "content": "ten more"}),
        )
        .await;
    assert!(
        problem.contains("20 are the limit") && problem.contains("ten letter"),
        "{problem}"
    );
    let path = session.root.join("home/memories/MEMORY.md");
    fs::write(
        &path,
        "first entry that is long\n§\nsecond entry that is long",
    )
    .unwrap();
    session
        .succeed(
            &tool,
            json!({"action": "remove", "target": "memory", "old_text": "second"}),
        )
        .await;
    assert_eq!(
        fs::read_to_string(path).unwrap(),
        "first entry that is long"
    );
}

#[tokio::test]
async fn changes_from_several_sides_are_all_kept() {
    let session = ToolSession::new();
    let tool = MemoryTool::default();
    let calls = (0..20).map(|number| {
        session.call(
            &tool,
            json!({"action": "add", "target": "memory", "content": format!("entry {number:02}")}),
        )
    });
    for output in futures::future::join_all(calls).await {
        assert!(!output.is_error, "{}", output.text);
    }
    assert_eq!(
        Memories::load(&session.context.home).unwrap().memory.len(),
        20
    );
}
