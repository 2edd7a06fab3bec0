//! The chat box.

use hermes_store::{Access, NewMessage, Role, SessionId, Store};
use serde_json::json;

use super::{
    ConsoleBrowser,
    runs::{reach, scripted_hub},
};
use crate::tenant_fixture::write_conversation;

#[tokio::test]
async fn a_message_begins_a_run_in_the_conversation_of_the_address() {
    let (hub, _) = scripted_hub().await;
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let empty = admin.get("/tenants/acme/chat").await.expect_status(200);
    empty.assert_shows("name=\"session_id\"");
    let sent = empty.attributes("value");
    let next = sent.iter().find(|value| value.contains("{runId}")).unwrap();
    let session = sent
        .iter()
        .find(|value| value.starts_with("chat-"))
        .unwrap();
    assert!(next.contains(session.as_str()), "{next}");
    let fields = [
        ("tenant_id", "acme"),
        ("session_id", session.as_str()),
        ("input:text", "ask=rm"),
        ("next", next.as_str()),
    ];
    let live = admin.submit("/do/create_run", &fields).await;
    let live = live.expect_status(200);
    live.assert_shows("data-events");
    live.assert_shows("ask=rm");
    live.assert_shows("/do/stop_run");
    let run = live.address.split("run=").nth(1).unwrap();
    let run = run.split('&').next().unwrap().to_owned();
    reach(&hub, "acme", &run, "waiting_for_approval").await;
    let stored = format!("/v1/tenants/acme/runs/{run}");
    let stored = hub.get(&stored).await.expect(200);
    assert_eq!(stored["sessionId"], json!(session));
    let address = live.address.replace("&done=create_run", "");
    let waits = admin.get(&address).await.expect_status(200);
    waits.assert_shows("/do/respond_approval");
    // Another page of the same conversation has the run no more.
    admin
        .get("/tenants/acme/chat")
        .await
        .assert_lacks("data-events");
}

#[tokio::test]
async fn a_conversation_is_shown_as_text_with_its_tool_calls() {
    let (hub, _) = scripted_hub().await;
    let path = hub.home("acme");
    write_conversation(&path, "one", "Hello <script>alert(1)</script>").await;
    let home = hermes_config::Home::at(&path);
    let store = Store::open(&home, Access::ReadWrite).await.unwrap();
    let one = SessionId::parse("one").unwrap();
    let long = NewMessage::new(
        Role::Assistant,
        format!("{} end\u{202e}", "x".repeat(50_000)),
    );
    store.append(&one, &long).await.unwrap();
    store.close().await;
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let shown = admin.get("/tenants/acme/chat?session=one").await;
    let shown = shown.expect_status(200);
    shown.assert_shows("Hello &#60;script&#62;");
    shown.assert_lacks("<script>alert");
    shown.assert_shows("class=\"rest\"");
    shown.assert_shows(" end");
}

#[tokio::test]
async fn the_chat_box_is_there_for_those_who_may_run_the_agent() {
    let (hub, _) = scripted_hub().await;
    hub.tenant(json!({"id": "globex"})).await;
    let viewer = ConsoleBrowser::with_rights(&hub, json!({"role": "viewer"})).await;
    viewer.get("/tenants/acme/chat").await.expect_status(404);
    let rights = json!({"role": "operator", "tenants": ["globex"]});
    let foreign = ConsoleBrowser::with_rights(&hub, rights).await;
    foreign.get("/tenants/acme/chat").await.expect_status(404);
    foreign.get("/tenants/globex/chat").await.expect_status(200);
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let bad = admin.get("/tenants/acme/chat?session=..%2Fx").await;
    bad.expect_status(400);
    let gone = admin.get("/tenants/acme/chat?session=a&run=run_00").await;
    assert!(matches!(gone.status, 400 | 404), "{}", gone.status);
}
