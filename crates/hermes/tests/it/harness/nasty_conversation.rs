//! A stored conversation whose texts would steer a terminal.

use std::path::Path;

use hermes_config::Home;
use hermes_store::{Access, NewMessage, NewSession, Role, SessionId, Store};
use serde_json::json;

use super::terminal::NASTY;

pub(crate) const CONVERSATION: &str = "20260304_050607_abcdef";

/// Stores it in a home: all of its messages have the word `needle`.
pub(crate) fn store_nasty_conversation(home: &Path) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let text = format!("needle {NASTY}");
    let call = NewMessage {
        tool_calls: Some(json!([{
            "id": "call_1",
            "type": "function",
            "function": {"name": NASTY, "arguments": json!({"path": NASTY}).to_string()},
        }])),
        ..NewMessage::new(Role::Assistant, text.as_str())
    };
    let result = NewMessage {
        tool_call_id: Some("call_1".into()),
        tool_name: Some(NASTY.into()),
        ..NewMessage::new(Role::Tool, text.as_str())
    };
    let messages = [NewMessage::new(Role::User, text.as_str()), call, result];
    runtime.block_on(async {
        let home = Home::at(home);
        let store = Store::open(&home, Access::ReadWrite).await.unwrap();
        let id = SessionId::parse(CONVERSATION).unwrap();
        let session = NewSession {
            model: Some(NASTY.into()),
            display_name: Some(NASTY.into()),
            ..NewSession::new(id.clone(), "cli")
        };
        store.create_session(&session).await.unwrap();
        store.append_all(&id, &messages).await.unwrap();
        store.close().await;
    });
}
