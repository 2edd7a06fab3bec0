//! A store full of chats.

use anyhow::Result;
use hermes_config::Home;
use hermes_store::{
    Access, NewMessage, NewSession, Origin, Role, SessionId, SessionKey, SessionKeyPolicy, Store,
};

/// Every so many messages have the word `needle`.
const NEEDLE_INTERVAL: usize = 100;
const WORDS: usize = 30;
/// As long as what a session tells its model at the beginning.
const PROMPT: usize = 15_000;

/// How much is in a store.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StoreSize {
    pub(crate) chats: usize,
    pub(crate) messages: usize,
}

/// Fills a home's store. Every chat has equally many messages, which came in turns with those of all others, as they do
/// in life: what belongs together is strewn over the whole file.
pub(crate) async fn fill_store(home: &Home, size: StoreSize) -> Result<()> {
    let store = Store::open(home, Access::ReadWrite).await?;
    for number in 0..size.chats {
        store.create_session(&session(number)?).await?;
    }
    let of_each = size.messages / size.chats;
    for at in 0..of_each {
        for chat in 0..size.chats {
            let message = message(chat * of_each + at);
            store.append(&session_id(chat)?, &message).await?;
        }
    }
    store.close().await;
    Ok(())
}

/// The session a chat is in.
pub(crate) fn session_id(chat: usize) -> Result<SessionId> {
    Ok(SessionId::parse(&format!("session{chat:04}"))?)
}

/// The key of a chat.
pub(crate) fn session_key(chat: usize) -> SessionKey {
    origin(chat).session_key(&SessionKeyPolicy::default())
}

fn origin(chat: usize) -> Origin {
    Origin {
        platform: "telegram".into(),
        chat_id: Some(chat.to_string()),
        chat_name: Some(format!("Chat {chat}")),
        chat_type: "dm".into(),
        user_id: Some(chat.to_string()),
        user_name: Some(format!("Person {chat}")),
        ..Origin::default()
    }
}

fn session(chat: usize) -> Result<NewSession> {
    let mut session = NewSession::new(session_id(chat)?, "telegram");
    session.session_key = Some(session_key(chat));
    session.origin = Some(origin(chat));
    session.system_prompt = Some("You are helpful. ".repeat(PROMPT / 17));
    Ok(session)
}

fn message(number: usize) -> NewMessage {
    let role = if number.is_multiple_of(2) {
        Role::User
    } else {
        Role::Assistant
    };
    NewMessage::new(role, text(number))
}

/// Words as a conversation has them: a few often, many seldom.
fn text(number: usize) -> String {
    let mut state = number as u64;
    let mut random = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    let mut words: Vec<String> = (0..WORDS)
        .map(|_| {
            let rank = random() % 20_000;
            format!("word{}", rank * rank / 20_000)
        })
        .collect();
    if number.is_multiple_of(NEEDLE_INTERVAL) {
        words[7] = "needle".into();
    }
    words.join(" ")
}
