//! What an earlier process already did for a message.

use hermes_store::{SessionId, Store, StoreError};

/// A message is begun so often at most.
const MAX_ATTEMPTS: i64 = 2;

#[derive(Debug, PartialEq, Eq)]
pub(in crate::inbound) enum StoredProgress {
    /// The message is not stored: the turn begins.
    Nothing,
    /// The turn was complete: the answer only has to be sent.
    Answered(String),
    /// The turn goes on where it was.
    Interrupted,
    /// The conversation went on without it.
    Superseded,
    /// It ended every process that tried.
    TooOften,
}

/// How far the turn of a message got. `attempts` is how often it was begun before.
pub(in crate::inbound) async fn find_progress(
    store: &Store,
    session: &SessionId,
    message_id: Option<&str>,
    attempts: i64,
) -> Result<StoredProgress, StoreError> {
    let turn = match message_id {
        Some(message_id) => store.platform_turn(session, message_id).await?,
        None => None,
    };
    let answer = turn.as_ref().and_then(|turn| turn.answer.clone());
    Ok(match (turn, answer) {
        (_, Some(answer)) => StoredProgress::Answered(answer),
        (Some(turn), None) if turn.has_later => StoredProgress::Superseded,
        _ if attempts >= MAX_ATTEMPTS => StoredProgress::TooOften,
        (Some(turn), None) => {
            store.rewind_partial_answer(session, turn.prompt).await?;
            StoredProgress::Interrupted
        }
        (None, _) => StoredProgress::Nothing,
    })
}

#[cfg(test)]
mod tests {
    use hermes_config::Home;
    use hermes_store::{Access, NewMessage, NewSession, Role};

    use super::*;

    fn message(role: Role, text: &str, id: Option<&str>) -> NewMessage {
        NewMessage {
            platform_message_id: id.map(str::to_owned),
            ..NewMessage::new(role, text)
        }
    }

    #[tokio::test]
    async fn what_was_stored_decides_what_is_left_to_do() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(&Home::at(directory.path()), Access::ReadWrite)
            .await
            .unwrap();
        let session = SessionId::parse("s").unwrap();
        store
            .create_session(&NewSession::new(session.clone(), "telegram"))
            .await
            .unwrap();
        let progress = async |id: &str, attempts| {
            find_progress(&store, &session, Some(id), attempts)
                .await
                .unwrap()
        };
        assert_eq!(progress("1", 1).await, StoredProgress::Nothing);
        store
            .append(&session, &message(Role::User, "hi", Some("1")))
            .await
            .unwrap();
        assert_eq!(progress("1", 1).await, StoredProgress::Interrupted);
        assert_eq!(progress("1", 2).await, StoredProgress::TooOften);
        let call = NewMessage {
            tool_calls: Some(serde_json::json!([{"id": "a"}])),
            ..message(Role::Assistant, "I look", None)
        };
        store.append(&session, &call).await.unwrap();
        assert_eq!(progress("1", 1).await, StoredProgress::Interrupted);
        store
            .append(&session, &message(Role::Assistant, "hello", None))
            .await
            .unwrap();
        assert_eq!(
            progress("1", 2).await,
            StoredProgress::Answered("hello".into())
        );
        store
            .append(&session, &message(Role::User, "a", Some("2")))
            .await
            .unwrap();
        store
            .append(&session, &message(Role::User, "b", Some("3")))
            .await
            .unwrap();
        assert_eq!(progress("2", 1).await, StoredProgress::Superseded);
        assert_eq!(progress("3", 1).await, StoredProgress::Interrupted);
    }
}
