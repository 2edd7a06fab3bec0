//! A conversation that stays open between turns, while others change its session in the store.

use hermes_agent::conversation::Conversation;
use hermes_store::{Access, NewMessage, Role, Store};
use hermes_testkit::model::ModelScript;

use super::{ConversationFixture, send};

/// The store as another process has it.
async fn other_store(fixture: &ConversationFixture) -> Store {
    Store::open(&fixture.home(), Access::ReadWrite)
        .await
        .unwrap()
}

/// Sends a message as a run does that finds the conversation open; returns what the model was sent.
async fn send_next(
    fixture: &ConversationFixture,
    conversation: &mut Conversation,
    text: &str,
) -> Vec<String> {
    conversation.apply_setup(fixture.setup());
    send(conversation, text).await.unwrap();
    let asked = fixture.asked().pop().unwrap();
    asked
        .iter()
        .map(|message| message["content"].as_str().unwrap().to_owned())
        .collect()
}

async fn started() -> (ConversationFixture, Conversation) {
    let fixture = ConversationFixture::new(ModelScript::echo()).await;
    let mut conversation = fixture.begin();
    send(&mut conversation, "one").await.unwrap();
    send_next(&fixture, &mut conversation, "two").await;
    (fixture, conversation)
}

#[tokio::test]
async fn messages_are_not_read_again_while_nobody_changes_them() {
    let (fixture, mut conversation) = started().await;
    let place = |conversation: &Conversation| {
        let first = conversation.messages().first().unwrap();
        first.content().text().as_ptr()
    };
    let before = place(&conversation);
    let asked = send_next(&fixture, &mut conversation, "three").await;
    assert_eq!(asked, ["one", "one", "two", "two", "three"]);
    assert_eq!(place(&conversation), before);
}

#[tokio::test]
async fn what_others_add_between_turns_is_sent() {
    let (fixture, mut conversation) = started().await;
    let row = NewMessage::new(Role::Assistant, "from elsewhere");
    let other = other_store(&fixture).await;
    other.append(conversation.id(), &row).await.unwrap();
    let asked = send_next(&fixture, &mut conversation, "three").await;
    assert_eq!(asked[4..], ["from elsewhere", "three"]);
    let asked = send_next(&fixture, &mut conversation, "four").await;
    assert_eq!(asked[4..], ["from elsewhere", "three", "three", "four"]);
    other.close().await;
}

#[tokio::test]
async fn a_turn_that_is_taken_back_elsewhere_is_not_sent_again() {
    let (fixture, mut conversation) = started().await;
    let other = other_store(&fixture).await;
    other.rewind_last_turn(conversation.id()).await.unwrap();
    let asked = send_next(&fixture, &mut conversation, "three").await;
    assert_eq!(asked, ["one", "one", "three"]);
    // As many rows as before, and others.
    other.rewind_last_turn(conversation.id()).await.unwrap();
    for text in ["four", "four"] {
        let row = NewMessage::new(Role::User, text);
        other.append(conversation.id(), &row).await.unwrap();
    }
    let asked = send_next(&fixture, &mut conversation, "five").await;
    assert_eq!(asked, ["one", "one", "four", "four", "five"]);
    other.close().await;
}

#[tokio::test]
async fn what_is_summed_up_elsewhere_replaces_the_messages() {
    let (fixture, mut conversation) = started().await;
    let other = other_store(&fixture).await;
    let (id, lease) = (conversation.id().clone(), std::time::Duration::from_mins(1));
    assert!(other.lock_compaction(&id, "other", lease).await.unwrap());
    let last = fixture.rows(&id).await.pop().unwrap().id;
    let summary = NewMessage::new(Role::User, "in short");
    other.compact(&id, "other", last, &[summary]).await.unwrap();
    let asked = send_next(&fixture, &mut conversation, "three").await;
    assert_eq!(asked, ["in short", "three"]);
    other.close().await;
}
