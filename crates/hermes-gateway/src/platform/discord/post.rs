//! Messages out: text, buttons, replies, files; edits, reactions and threads.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{
    Body, Method,
    multipart::{Form, Part},
};
use serde_json::{Value, json};
use tokio_util::io::ReaderStream;

use super::{
    DiscordClient,
    rest::{DiscordFailure, RestBody},
    voice,
};
use crate::{
    platform::{Button, ChatAddress, ChatKind, OutboundFile, OutboundMessage, PostError, Posted},
    send::encode_file_name,
};

/// Buttons in a row, and rows in a message.
const MAX_BUTTONS: usize = 5;
const MAX_ROWS: usize = 5;
const MAX_LABEL_CHARS: usize = 80;
const MAX_NONCE_CHARS: usize = 25;
const MAX_THREAD_NAME_CHARS: usize = 100;
/// Arrives without a sound.
const SUPPRESS_NOTIFICATIONS: u64 = 1 << 12;
const PRIMARY: u64 = 1;
const LINK: u64 = 5;
/// There is a thread on this message already.
const THREAD_EXISTS: u64 = 160_004;
const CANNOT_SEND_IN_FORUM: u64 = 50_008;

/// The channel that messages go to: a thread is one.
pub(super) fn channel_of(chat: &ChatAddress) -> &str {
    chat.thread_id.as_deref().unwrap_or(&chat.id)
}

/// Nobody is told by what an agent writes.
fn no_mentions() -> Value {
    json!({"parse": [], "replied_user": false})
}

fn build_content(message: &OutboundMessage) -> Value {
    json!({
        "content": message.text,
        "allowed_mentions": no_mentions(),
        "components": build_rows(&message.buttons),
    })
}

fn build_rows(rows: &[Vec<Button>]) -> Vec<Value> {
    let rows = rows.iter().flat_map(|row| row.chunks(MAX_BUTTONS));
    rows.take(MAX_ROWS)
        .map(|row| {
            let buttons: Vec<Value> = row.iter().map(build_button).collect();
            json!({"type": 1, "components": buttons})
        })
        .collect()
}

fn build_button(button: &Button) -> Value {
    let label: String = button.label.chars().take(MAX_LABEL_CHARS).collect();
    if button.is_link {
        return json!({"type": 2, "style": LINK, "label": label, "url": button.data});
    }
    json!({"type": 2, "style": PRIMARY, "label": label, "custom_id": button.data})
}

/// A name for a thread: the first line of a text.
fn thread_name(text: &str) -> String {
    let lines = text.lines().map(|line| line.trim_start_matches('#').trim());
    let line = lines.into_iter().find(|line| !line.is_empty());
    let name = line.unwrap_or("New conversation");
    name.chars().take(MAX_THREAD_NAME_CHARS).collect()
}

impl DiscordClient {
    pub(super) async fn post_message(
        &self,
        chat: &ChatAddress,
        message: &OutboundMessage,
    ) -> Result<Posted, PostError> {
        let mut content = build_content(message);
        if message.is_silent {
            content["flags"] = json!(SUPPRESS_NOTIFICATIONS);
        }
        if !message.files.is_empty() {
            let described = message.files.iter().enumerate();
            content["attachments"] = described
                .map(|(index, file)| json!({"id": index, "filename": file.name}))
                .collect();
        }
        if chat.kind == ChatKind::Forum && chat.thread_id.is_none() {
            return self.post_to_forum(&chat.id, message, &content).await;
        }
        let channel = channel_of(chat);
        if let Some(original) = &message.reply_to {
            content["message_reference"] =
                json!({"message_id": original, "fail_if_not_exists": false});
        }
        if let Some(nonce) = &message.nonce {
            let nonce: String = nonce.chars().take(MAX_NONCE_CHARS).collect();
            content["nonce"] = json!(nonce);
            content["enforce_nonce"] = json!(true);
        }
        let path = format!("/channels/{channel}/messages");
        if let Some(posted) = self.post_voice(&path, &content, message).await? {
            return Ok(posted);
        }
        match self.send_content(&path, &content, &message.files).await {
            Ok(posted) => {
                let message_id = text_of(&posted["id"]);
                if message.nonce.is_some() && is_other(&posted, message) {
                    // Discord knew the nonce, from when less of the answer was there.
                    self.edit_message(chat, &message_id, message).await?;
                }
                Ok(Posted {
                    message_id,
                    warning: None,
                })
            }
            // Targets of configurations do not say that a channel is a forum.
            Err(SendContentError::Discord(failure)) if failure.has_code(CANNOT_SEND_IN_FORUM) => {
                self.post_to_forum(channel, message, &content).await
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Posts something spoken. `None` if it is not, or if it has to be a file like others.
    async fn post_voice(
        &self,
        path: &str,
        content: &Value,
        message: &OutboundMessage,
    ) -> Result<Option<Posted>, PostError> {
        let Some(recording) = voice::describe_recording(message).await else {
            return Ok(None);
        };
        let mut content = content.clone();
        let flags = content["flags"].as_u64().unwrap_or_default();
        content["flags"] = json!(flags | voice::VOICE_MESSAGE);
        content["attachments"] = json!([recording]);
        if let Some(fields) = content.as_object_mut() {
            // It has nothing else.
            fields.retain(|key, _| !matches!(key.as_str(), "content" | "components"));
        }
        match self.send_content(path, &content, &message.files).await {
            Ok(posted) => Ok(Some(Posted {
                message_id: text_of(&posted["id"]),
                warning: None,
            })),
            Err(SendContentError::Discord(failure)) if voice::is_refused(&failure) => {
                tracing::info!(platform = %self.account, %failure, "a voice message is sent as a file");
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Opens a thread in a forum, named after the first line.
    async fn post_to_forum(
        &self,
        forum: &str,
        message: &OutboundMessage,
        content: &Value,
    ) -> Result<Posted, PostError> {
        let mut content = content.clone();
        if let Some(fields) = content.as_object_mut() {
            fields.retain(|key, _| {
                !matches!(
                    key.as_str(),
                    "nonce" | "enforce_nonce" | "message_reference"
                )
            });
        }
        let body = json!({"name": thread_name(&message.text), "message": content});
        let path = format!("/channels/{forum}/threads");
        let thread = self.send_content(&path, &body, &message.files).await?;
        let id = text_of(&thread["id"]);
        let first = thread["message"]["id"].as_str();
        Ok(Posted {
            message_id: first.unwrap_or(&id).to_owned(),
            warning: Some(format!("posted as the thread {id} of the forum")),
        })
    }

    async fn send_content(
        &self,
        path: &str,
        content: &Value,
        files: &[OutboundFile],
    ) -> Result<Value, SendContentError> {
        if files.is_empty() {
            return Ok(self.rest.post(path, content).await?);
        }
        let mut form = Form::new().text("payload_json", content.to_string());
        for (index, file) in files.iter().enumerate() {
            form = form.part(format!("files[{index}]"), open_part(file).await?);
        }
        let body = RestBody::Form(form);
        Ok(self.rest.call(Method::POST, path, body).await?)
    }

    pub(super) async fn edit_message(
        &self,
        chat: &ChatAddress,
        message_id: &str,
        message: &OutboundMessage,
    ) -> Result<(), PostError> {
        let path = format!("/channels/{}/messages/{message_id}", channel_of(chat));
        let content = build_content(message);
        let body = RestBody::Json(&content);
        self.rest.call(Method::PATCH, &path, body).await?;
        Ok(())
    }

    pub(super) async fn delete_message(
        &self,
        chat: &ChatAddress,
        message_id: &str,
    ) -> Result<(), PostError> {
        let path = format!("/channels/{}/messages/{message_id}", channel_of(chat));
        self.rest
            .call(Method::DELETE, &path, RestBody::Nothing)
            .await?;
        Ok(())
    }

    pub(super) async fn add_reaction(
        &self,
        chat: &ChatAddress,
        message_id: &str,
        reaction: &str,
    ) -> Result<(), PostError> {
        let channel = channel_of(chat);
        let emoji = utf8_percent_encode(reaction, NON_ALPHANUMERIC);
        let path = format!("/channels/{channel}/messages/{message_id}/reactions/{emoji}/@me");
        self.rest
            .call(Method::PUT, &path, RestBody::Nothing)
            .await?;
        Ok(())
    }

    /// Opens a thread on a message. There is at most one: its number is the message's.
    pub(super) async fn create_thread(
        &self,
        chat: &ChatAddress,
        message_id: &str,
        name: &str,
    ) -> Result<Option<ChatAddress>, PostError> {
        if chat.kind != ChatKind::Group && chat.kind != ChatKind::Channel {
            return Ok(None);
        }
        let name = thread_name(name);
        let path = format!("/channels/{}/messages/{message_id}/threads", chat.id);
        let made = self.rest.post(&path, &json!({"name": name})).await;
        let id = match made {
            Ok(thread) => text_of(&thread["id"]),
            // Asked for twice, after a lost reply.
            Err(failure) if failure.has_code(THREAD_EXISTS) => message_id.to_owned(),
            Err(failure) => return Err(failure.into()),
        };
        let joined = |base: &String| format!("{base} / {name}");
        Ok(Some(ChatAddress {
            id: id.clone(),
            kind: ChatKind::Thread,
            thread_id: Some(id),
            name: chat.name.as_ref().map(joined),
            topic: Some(name.clone()),
            scope_id: chat.scope_id.clone(),
            parent_id: Some(chat.id.clone()),
        }))
    }
}

/// Whether a message has another text, which Discord trims, or buttons that this one has not.
fn is_other(posted: &Value, message: &OutboundMessage) -> bool {
    let has_buttons = |rows: &Value| rows.as_array().is_some_and(|rows| !rows.is_empty());
    posted["content"].as_str().is_some_and(|content| {
        let same_text = content
            .split_whitespace()
            .eq(message.text.split_whitespace());
        !same_text || has_buttons(&posted["components"]) && message.buttons.is_empty()
    })
}

fn text_of(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Why content could not be sent: Discord's reason, or ours.
enum SendContentError {
    Discord(DiscordFailure),
    File(PostError),
}

impl From<DiscordFailure> for SendContentError {
    fn from(failure: DiscordFailure) -> Self {
        Self::Discord(failure)
    }
}

impl From<SendContentError> for PostError {
    fn from(error: SendContentError) -> Self {
        match error {
            SendContentError::Discord(failure) => failure.into(),
            SendContentError::File(error) => error,
        }
    }
}

/// A file as part of a form. Its length is known, so that it is not sent in chunks.
async fn open_part(file: &OutboundFile) -> Result<Part, SendContentError> {
    let unreadable = |error: std::io::Error| {
        SendContentError::File(PostError::Refused {
            reason: format!("the file `{}` cannot be read: {error}", file.name),
        })
    };
    let opened = tokio::fs::File::open(&file.path)
        .await
        .map_err(unreadable)?;
    let length = opened.metadata().await.map_err(unreadable)?.len();
    let body = Body::wrap_stream(ReaderStream::new(opened));
    Ok(Part::stream_with_length(body, length).file_name(encode_file_name(&file.name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buttons_stand_in_rows_of_five() {
        let button = |index: usize| Button {
            label: format!("{index}"),
            data: format!("b:{index}"),
            is_link: false,
        };
        let rows = build_rows(&[(0..7).map(button).collect()]);
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[1]["components"].as_array().unwrap().len(), 2);
        let link = build_button(&Button {
            label: "x".repeat(100),
            data: "https://example.org".into(),
            is_link: true,
        });
        assert_eq!(link["style"], 5);
        assert_eq!(link["label"].as_str().unwrap().len(), 80);
        assert!(link["custom_id"].is_null());
    }

    #[test]
    fn a_thread_is_named_after_the_first_line() {
        assert_eq!(thread_name("\n## Plan \nmore"), "Plan");
        assert_eq!(thread_name(&"é".repeat(120)).chars().count(), 100);
        assert_eq!(thread_name(" \n"), "New conversation");
    }
}
