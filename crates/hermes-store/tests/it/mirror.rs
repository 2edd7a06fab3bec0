//! The routing in the database and its copy in `sessions.json`.

use std::fs;

use hermes_store::{
    Origin, SessionKey, SessionKeyPolicy,
    mirror::{self, RoutingEntry, SessionsJson},
};
use serde_json::{Value, json};

use crate::{id, open_store};

fn entry(chat: &str) -> RoutingEntry {
    let origin = Origin {
        platform: "telegram".into(),
        chat_id: Some(chat.into()),
        chat_name: Some("Ann".into()),
        chat_type: "dm".into(),
        ..Origin::default()
    };
    let key = origin.session_key(&SessionKeyPolicy::default());
    RoutingEntry::new(key, id(&format!("session_{chat}")), origin)
}

#[tokio::test]
async fn changes_leave_the_other_entries_as_they_are() {
    let (_directory, home, store) = open_store().await;
    let all = [entry("1"), entry("2"), entry("3")];
    mirror::save_routing(&home, &store, &all, SessionsJson::Off)
        .await
        .unwrap();
    let mut changed = entry("2");
    changed.details.total_tokens = 7;
    let (added, removed) = (entry("4"), [all[2].session_key.clone()]);
    let saved = [changed.clone(), added.clone()];
    mirror::save_routing_changes(&home, &store, &saved, &removed)
        .await
        .unwrap();
    let stored = mirror::load_routing(&home, &store).await.unwrap();
    assert_eq!(stored, [all[0].clone(), changed, added]);
}

#[tokio::test]
async fn each_save_writes_database_and_file() {
    let (_directory, home, store) = open_store().await;
    let both = [entry("1"), entry("2")];
    mirror::save_routing(&home, &store, &both, SessionsJson::Written)
        .await
        .unwrap();
    assert_eq!(mirror::load_routing(&home, &store).await.unwrap(), both);
    assert_eq!(mirror::read_sessions_file(&home).unwrap(), both);

    mirror::save_routing(&home, &store, &both[..1], SessionsJson::Written)
        .await
        .unwrap();
    let text = fs::read_to_string(home.path().join("sessions/sessions.json")).unwrap();
    assert!(text.starts_with("{\n  \"_README\": "), "{text}");
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document.as_object().unwrap().len(), 2);
    let written = &document["agent:main:telegram:dm:1"];
    assert_eq!(written["session_id"], "session_1");
    assert_eq!(written["cost_status"], "unknown");
    assert_eq!(written["origin"]["chat_name"], "Ann");
    assert!(written.get("model_override").is_none());
    for key in [
        "session_key",
        "session_id",
        "created_at",
        "updated_at",
        "display_name",
        "platform",
        "chat_type",
        "input_tokens",
        "output_tokens",
        "cache_read_tokens",
        "cache_write_tokens",
        "total_tokens",
        "last_prompt_tokens",
        "estimated_cost_usd",
        "cost_status",
        "expiry_finalized",
        "suspended",
        "resume_pending",
        "resume_reason",
        "last_resume_marked_at",
        "is_fresh_reset",
        "was_auto_reset",
        "auto_reset_reason",
        "reset_had_activity",
    ] {
        assert!(written.get(key).is_some(), "{key}");
    }
    store.close().await;
}

#[tokio::test]
async fn the_file_can_be_switched_off_and_serves_when_the_database_knows_nothing() {
    let (_directory, home, store) = open_store().await;
    mirror::save_routing(&home, &store, &[entry("1")], SessionsJson::Off)
        .await
        .unwrap();
    assert!(!home.path().join("sessions").exists());
    store
        .replace_routing(&mirror::routing_scope(&home), &[])
        .await
        .unwrap();
    fs::create_dir(home.path().join("sessions")).unwrap();
    let file = json!({
        "_README": "x", "bad": 5, "k": {"session_id": "s", "memory_flushed": true},
    });
    fs::write(home.path().join("sessions/sessions.json"), file.to_string()).unwrap();
    let entries = mirror::load_routing(&home, &store).await.unwrap();
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0].session_key, SessionKey::new("k"));
    assert!(entries[0].details.expiry_finalized);
    store.close().await;
}

#[tokio::test]
async fn scopes_do_not_mix() {
    let (_directory, _home, store) = open_store().await;
    let rows = |text: &str| vec![(SessionKey::new("k"), json!({"session_id": text}))];
    store.replace_routing("/a", &rows("one")).await.unwrap();
    store.replace_routing("/b", &rows("two")).await.unwrap();
    store.replace_routing("/a", &[]).await.unwrap();
    assert_eq!(store.routing("/a").await.unwrap(), []);
    assert_eq!(store.routing("/b").await.unwrap(), rows("two"));
    store.close().await;
}
