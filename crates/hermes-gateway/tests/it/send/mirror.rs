//! What was sent shows in the conversation it was sent to.

use hermes_store::{Access, NewSession, Origin, Role, SessionId, SessionKeyPolicy, Store};
use serde_json::json;

use super::SendFixture;

/// An open session of a chat, in the store of the home.
pub(super) async fn add_session(
    place: &SendFixture,
    name: &str,
    platform: &str,
    chat: &str,
    thread: Option<&str>,
    user: Option<&str>,
) -> SessionId {
    let store = Store::open(&place.home(), Access::ReadWrite).await.unwrap();
    let id = SessionId::parse(name).unwrap();
    let origin = Origin {
        platform: platform.into(),
        chat_id: Some(chat.into()),
        chat_name: Some(format!("{name} chat")),
        chat_type: "group".into(),
        user_id: user.map(str::to_owned),
        thread_id: thread.map(str::to_owned),
        ..Origin::default()
    };
    let mut session = NewSession::new(id.clone(), platform);
    session.session_key = Some(origin.session_key(&SessionKeyPolicy::default()));
    session.origin = Some(origin);
    store.create_session(&session).await.unwrap();
    store.close().await;
    id
}

async fn stored_messages(place: &SendFixture, id: &SessionId) -> Vec<(Role, String)> {
    let store = Store::open(&place.home(), Access::ReadOnly).await.unwrap();
    let messages = store.active_messages(id).await.unwrap();
    store.close().await;
    let messages = messages.into_iter().map(|message| {
        let text = message.body.content.unwrap().text().into_owned();
        (message.body.role, text)
    });
    messages.collect()
}

#[tokio::test]
async fn a_message_is_added_to_the_session_of_its_chat_and_thread() {
    let place = SendFixture::telegram();
    let chat = add_session(&place, "chat", "telegram", "5", None, Some("u1")).await;
    let topic = add_session(&place, "topic", "telegram", "5", Some("7"), Some("u1")).await;
    let other = add_session(&place, "other", "slack", "5", None, Some("u1")).await;
    let sent = place.send("telegram:5", "to the chat").await;
    assert_eq!(sent["mirrored"], true);
    place.send("telegram:5:7", "to the **topic**").await;
    assert_eq!(
        stored_messages(&place, &chat).await,
        [(Role::Assistant, "to the chat".into())]
    );
    assert_eq!(
        stored_messages(&place, &topic).await,
        [(Role::Assistant, "to the **topic**".into())]
    );
    assert_eq!(stored_messages(&place, &other).await, []);
    let sent = place
        .send("telegram:6", "to a chat without a session")
        .await;
    assert_eq!(sent["mirrored"], json!(null));
}

#[tokio::test]
async fn the_session_of_one_of_several_users_is_not_guessed() {
    let place = SendFixture::telegram();
    let one = add_session(&place, "one", "telegram", "5", None, Some("u1")).await;
    add_session(&place, "two", "telegram", "5", None, Some("u2")).await;
    let sent = place.send("telegram:5", "hi").await;
    assert_eq!(sent["mirrored"], json!(null));
    assert_eq!(stored_messages(&place, &one).await, []);
}

#[tokio::test]
async fn a_chat_given_by_name_is_known_by_its_number() {
    let place = SendFixture::telegram();
    let id = add_session(&place, "named", "telegram", "-100777", None, None).await;
    let sent = place.send("telegram:@some_channel", "hi").await;
    assert_eq!(sent["mirrored"], true);
    assert_eq!(stored_messages(&place, &id).await.len(), 1);
}

#[tokio::test]
async fn a_thread_of_discord_is_a_chat_of_its_own() {
    let place = SendFixture::discord();
    let id = add_session(&place, "thread", "discord", "43", Some("43"), None).await;
    let sent = place.send("discord:42:43", "hi").await;
    assert_eq!(sent["mirrored"], true);
    assert_eq!(stored_messages(&place, &id).await.len(), 1);
}

#[tokio::test]
async fn files_stand_in_it_as_they_would_in_an_answer() {
    let place = SendFixture::telegram();
    let id = add_session(&place, "chat", "telegram", "5", None, None).await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().canonicalize().unwrap().join("a.png");
    std::fs::write(&path, "x").unwrap();
    let tag = format!("MEDIA:{}", path.display());
    place
        .send("telegram:5", &format!("Look {tag} MEDIA:/no/such.png"))
        .await;
    assert_eq!(
        stored_messages(&place, &id).await,
        [(Role::Assistant, format!("Look\n{tag}"))]
    );
}

#[tokio::test]
async fn a_store_that_is_not_there_or_damaged_stops_nothing() {
    let place = SendFixture::telegram();
    place.send("telegram:5", "hi").await;
    assert!(!place.home.path().join("state.db").exists());
    place.home.write(
        "state.db",
        "this is no database at all, but long enough to be looked at",
    );
    let sent = place.send("telegram:5", "hi").await;
    assert_eq!(sent["success"], true);
    assert_eq!(sent["mirrored"], json!(null));
}
