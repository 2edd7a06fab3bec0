//! Conversations: listed, searched, read.

use hermes_store::{Access, Content, NewMessage, NewSession, Role, SessionId, Store};
use serde_json::json;

use super::ConsoleBrowser;
use crate::test_hub::TestHub;

const PAGE: &str = "/tenants/tenant_123/conversations";

/// A conversation of one message, in the home of a tenant.
pub(super) async fn add_conversation(hub: &TestHub, tenant: &str, text: &str) {
    let home = hermes_config::Home::at(hub.home(tenant));
    let store = Store::open(&home, Access::ReadWrite).await.unwrap();
    let session = SessionId::parse("one_message").unwrap();
    let new = NewSession::new(session.clone(), "telegram");
    store.create_session(&new).await.unwrap();
    let message = NewMessage::new(Role::User, text);
    store.append(&session, &message).await.unwrap();
    store.close().await;
}

async fn hub_with_conversations() -> TestHub {
    let hub = TestHub::new().await.with_examples().await;
    let home = hermes_config::Home::at(hub.home("tenant_123"));
    let store = Store::open(&home, Access::ReadWrite).await.unwrap();
    for (id, source, text) in [
        ("talk", "telegram", "Where is the <b>invoice</b>?"),
        ("nightly", "cron", "Check the invoice"),
    ] {
        let session = SessionId::parse(id).unwrap();
        let new = NewSession::new(session.clone(), source);
        store.create_session(&new).await.unwrap();
        let message = NewMessage::new(Role::User, text);
        store.append(&session, &message).await.unwrap();
    }
    let talk = SessionId::parse("talk").unwrap();
    let call = json!([{"id": "c1", "type": "function",
        "function": {"name": "read_file", "arguments": "{\"path\": \"<i>a</i>\"}"}}]);
    let called = NewMessage {
        tool_calls: Some(call),
        ..NewMessage::new(Role::Assistant, "")
    };
    store.append(&talk, &called).await.unwrap();
    let result = NewMessage {
        tool_name: Some("read_file".into()),
        tool_call_id: Some("c1".into()),
        ..NewMessage::new(Role::Tool, Content::Text("x".repeat(9000)))
    };
    store.append(&talk, &result).await.unwrap();
    for number in 0..60 {
        let reply = NewMessage::new(Role::Assistant, format!("reply number {number} ends"));
        store.append(&talk, &reply).await.unwrap();
    }
    store.close().await;
    hub
}

#[tokio::test]
async fn those_of_jobs_are_hidden_until_they_are_asked_for() {
    let hub = hub_with_conversations().await;
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let page = admin.get(PAGE).await.expect_status(200);
    page.assert_shows("/conversations/talk\"");
    page.assert_lacks("/conversations/nightly\"");
    page.assert_lacks("<b>invoice");
    let page = admin.get(&format!("{PAGE}?cron=1")).await;
    page.assert_shows("/conversations/nightly\"");
    let found = admin.get(&format!("{PAGE}?search=invoice")).await;
    found.assert_shows("<mark>invoice</mark>");
    found.assert_shows("/conversations/talk?from=");
    found.assert_lacks("/conversations/nightly?");
    let found = admin.get(&format!("{PAGE}?search=invoice&cron=1")).await;
    found.assert_shows("/conversations/nightly?from=");
    let found = admin
        .get(&format!("{PAGE}?search=invoice&source=cron"))
        .await;
    found.assert_shows("/conversations/nightly?from=");
    found.assert_lacks("/conversations/talk?from=");
    found.assert_shows("<option value=\"cron\" selected>");
    found.assert_shows("<option value=\"telegram\">");
    let nothing = admin
        .get(&format!("{PAGE}?search=invoice&source=slack"))
        .await;
    nothing.assert_shows("No message has these words.");
    let nothing = admin.get(&format!("{PAGE}?search=zebra")).await;
    nothing.assert_shows("No message has these words.");
}

#[tokio::test]
async fn a_conversation_is_read_from_its_end_with_its_tool_calls_folded() {
    let hub = hub_with_conversations().await;
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let newest = admin.get(&format!("{PAGE}/talk")).await.expect_status(200);
    newest.assert_shows("reply number 59 ends");
    newest.assert_lacks("reply number 5 ends");
    let links = newest.links();
    let older = links.iter().find(|link| link.contains("cursor=")).unwrap();
    let older = admin.get(older).await.expect_status(200);
    older.assert_shows("reply number 5 ends");
    older.assert_lacks("reply number 59 ends");
    older.assert_shows("Where is the &#60;b&#62;invoice&#60;/b&#62;?");
    older.assert_shows("<code>read_file</code>");
    older.assert_shows("&#60;i&#62;a&#60;/i&#62;");
    older.assert_lacks(&"x".repeat(8001));
    let whole = older.links();
    let whole = whole.iter().find(|link| link.contains("whole=")).unwrap();
    let whole = admin.get(whole).await.expect_status(200);
    whole.assert_shows(&"x".repeat(9000));
    admin
        .get(&format!("{PAGE}/nobody"))
        .await
        .expect_status(404);
}

#[tokio::test]
async fn without_the_right_to_read_them_there_are_none() {
    let hub = hub_with_conversations().await;
    let rights = json!({"scopes": ["tenants:read", "runs:read"]});
    let reader = ConsoleBrowser::with_rights(&hub, rights).await;
    let page = reader.get("/tenants/tenant_123").await.expect_status(200);
    page.assert_lacks("/conversations");
    reader.get(PAGE).await.expect_status(404);
    reader.get(&format!("{PAGE}/talk")).await.expect_status(404);
}

#[tokio::test]
async fn those_who_may_rename_and_delete_a_conversation_after_they_were_asked() {
    let hub = hub_with_conversations().await;
    let viewer = ConsoleBrowser::with_rights(&hub, json!({"role": "viewer"})).await;
    let page = viewer.get(&format!("{PAGE}/talk")).await.expect_status(200);
    page.assert_lacks("/do/rename_session");
    page.assert_lacks("/do/delete_session");
    viewer
        .submit(
            "/do/delete_session",
            &[("tenant_id", "tenant_123"), ("session_id", "talk")],
        )
        .await
        .expect_status(403);
    let operator = ConsoleBrowser::with_rights(&hub, json!({"role": "operator"})).await;
    let page = operator
        .get(&format!("{PAGE}/talk"))
        .await
        .expect_status(200);
    page.assert_shows("<details class=\"danger\"><summary>Delete this conversation</summary>");
    page.assert_shows("with its messages, for good");
    let this = [("tenant_id", "tenant_123"), ("session_id", "talk")];
    let address = format!("{PAGE}/talk");
    let fields = [this[0], this[1], ("title", "The plan"), ("next", &address)];
    let renamed = operator
        .submit("/do/rename_session", &fields)
        .await
        .expect_status(200);
    renamed.assert_shows("The conversation has its new title.");
    let fields = [this[0], this[1], ("next", PAGE)];
    let deleted = operator
        .submit("/do/delete_session", &fields)
        .await
        .expect_status(200);
    deleted.assert_shows("The conversation is deleted.");
    let german = operator.speaking("de");
    let page = german.get(&address).await.expect_status(200);
    page.assert_shows("Dieses Gespräch löschen");
    page.assert_shows("Umbenennen");
}
