//! What the model gets of the messages that a turn answers: their text and their files.

use hermes_agent::{message::Content, model::ModelOverrides};
use hermes_store::{NewMessage, Role, SessionId, StoreError};

use super::{
    InboundCore,
    chat::Chat,
    media::{FileReceiver, ReceivedFile},
    session_worker::WorkerInput,
    user_content::{self, Audience, ReceivedMessage, UserContent},
};

/// Why there is nothing to ask the model, as the user is told.
#[derive(Debug, thiserror::Error)]
pub(super) enum UnreadableInput {
    /// Voice that could not be listened to, and nothing else.
    #[error("{notice}")]
    Unheard {
        notice: String,
        /// What later turns know of it.
        content: Content,
    },
}

impl InboundCore {
    /// Downloads the files of messages and joins what they say.
    pub(super) async fn read_inputs(
        &self,
        chat: &Chat,
        inputs: &[WorkerInput],
    ) -> Result<UserContent, UnreadableInput> {
        let received = self.receive_messages(chat, inputs).await;
        let audience = Audience {
            is_shared: chat.is_shared,
            supports_images: self.supports_images(chat, &received).await,
        };
        let now = chat.platform_time();
        let built = user_content::build_content(&received, audience, now);
        match built.notice {
            Some(notice) if user_content::is_unheard_alone(&received) => {
                Err(UnreadableInput::Unheard {
                    notice,
                    content: built.content,
                })
            }
            notice => Ok(UserContent { notice, ..built }),
        }
    }

    /// Stores what the model was not asked about, with the answer, so that later turns know of it.
    pub(super) async fn record_unread(
        &self,
        chat: &Chat,
        session: &SessionId,
        message_id: Option<String>,
        unread: &UnreadableInput,
    ) -> Result<(), StoreError> {
        let UnreadableInput::Unheard { notice, content } = unread;
        let store = self.gateway.agent().store();
        let row = chat.session_row(session.clone());
        store.create_session(&row).await?;
        let message = NewMessage {
            platform_message_id: message_id,
            ..NewMessage::new(Role::User, content.text().into_owned())
        };
        store.append(session, &message).await?;
        let answer = NewMessage::new(Role::Assistant, notice.clone());
        store.append(session, &answer).await?;
        Ok(())
    }

    async fn receive_messages<'i>(
        &self,
        chat: &Chat,
        inputs: &'i [WorkerInput],
    ) -> Vec<ReceivedMessage<'i>> {
        let download = FileReceiver {
            client: &*chat.account.client,
            agent: self.gateway.agent(),
            transcriptions: &self.transcriptions,
        };
        let mut received = Vec::with_capacity(inputs.len());
        for input in inputs {
            let Some(message) = input.message() else {
                continue;
            };
            let files = download.receive_files(&message.attachments).await;
            received.push(ReceivedMessage {
                event: &input.event,
                message,
                files,
            });
        }
        received
    }

    /// Whether the model of a chat sees pictures; only asked if there is one.
    async fn supports_images(&self, chat: &Chat, received: &[ReceivedMessage<'_>]) -> bool {
        let is_image = |file: &ReceivedFile| matches!(file, ReceivedFile::Image { .. });
        if !received
            .iter()
            .any(|message| message.files.iter().any(is_image))
        {
            return false;
        }
        let (model, provider) = self.chosen_model(&chat.key);
        let overrides = ModelOverrides {
            model,
            provider,
            ..ModelOverrides::default()
        };
        let found = self.gateway.agent().find_model(&overrides).await;
        found.is_ok_and(|selection| selection.endpoint.supports_images)
    }
}
