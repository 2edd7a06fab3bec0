//! One message to Slack, by its web API.

use reqwest::{
    Method,
    header::{AUTHORIZATION, HeaderMap, HeaderValue},
};
use serde_json::{Value, json};

use super::{
    chunk::LengthLimit,
    delivery::{MessageLimits, MessagePiece, PlatformChannel, PostReceipt},
    error::PlatformFailure,
    http::{PlatformApi, RequestBody},
    markdown::{Dialect, render_markdown},
    media::MediaFile,
    target::ChatTarget,
};

const LIMIT: LengthLimit = LengthLimit {
    max: 39_000,
    measure: count_chars,
};

pub(super) const LIMITS: MessageLimits = MessageLimits {
    message: LIMIT,
    caption: LIMIT,
};

/// The length in characters, with markup or without, whichever is more.
fn count_chars(text: &str) -> usize {
    let rendered = render_markdown(text, Dialect::Slack);
    text.chars().count().max(rendered.chars().count())
}

pub(super) struct SlackChannel<'a> {
    api: &'a PlatformApi<'a>,
    headers: HeaderMap,
    chat: ChatTarget,
}

impl<'a> SlackChannel<'a> {
    /// Opens the conversation with a user, if one is named.
    pub(super) async fn open(
        api: &'a PlatformApi<'a>,
        chat: ChatTarget,
    ) -> Result<Self, PlatformFailure> {
        let mut headers = HeaderMap::new();
        let token = HeaderValue::try_from(format!("Bearer {}", api.token.expose()));
        let mut token = token.map_err(|_| api.refused("the token has invalid characters"))?;
        token.set_sensitive(true);
        headers.insert(AUTHORIZATION, token);
        let mut slack = Self { api, headers, chat };
        // Ids of people of several workspaces begin with W.
        if slack.chat.id.starts_with(['U', 'W']) {
            let body = json!({"users": slack.chat.id});
            let opened = slack
                .call("conversations.open", &RequestBody::Json(&body))
                .await?;
            let id = opened["channel"]["id"].as_str();
            slack.chat.id = id
                .ok_or_else(|| api.refused("channel_not_found"))?
                .to_owned();
        }
        Ok(slack)
    }

    async fn call(&self, method: &str, body: &RequestBody<'_>) -> Result<Value, PlatformFailure> {
        let url = format!("{}/{method}", self.api.base_url());
        let answer = self
            .api
            .call(Method::POST, &url, &self.headers, body, &[])
            .await?;
        match (answer.body["ok"].as_bool(), answer.body["error"].as_str()) {
            (Some(true), _) if answer.is_success() => Ok(answer.body),
            (Some(false), Some(error)) => Err(self.api.refused(error)),
            _ => Err(self.api.refusal(&answer, None)),
        }
    }

    /// Requests an upload URL and uploads a file. Returns its id.
    async fn upload(&self, file: &MediaFile) -> Result<String, PlatformFailure> {
        let length = file.content.len().to_string();
        let fields = [("filename", file.name.clone()), ("length", length)];
        let place = self
            .call("files.getUploadURLExternal", &RequestBody::Fields(&fields))
            .await?;
        let text = |name: &str| place[name].as_str().unwrap_or_default().to_owned();
        let (url, id) = (text("upload_url"), text("file_id"));
        self.api.check_url(&url)?;
        let content = RequestBody::Bytes(file.content.clone());
        // The URL itself is secret; the token must not be sent to it.
        let answer = self
            .api
            .call(Method::POST, &url, &HeaderMap::new(), &content, &[])
            .await?;
        if !answer.is_success() {
            return Err(self.api.refusal(&answer, Some("the upload failed")));
        }
        Ok(id)
    }

    /// Uploads files and shares them in the conversation, as one message.
    async fn share(
        &self,
        files: &[MediaFile],
        comment: &str,
    ) -> Result<PostReceipt, PlatformFailure> {
        let mut uploaded = Vec::new();
        for file in files {
            uploaded.push((self.upload(file).await?, &file.name));
        }
        let shared = uploaded.iter();
        let shared: Value = shared
            .map(|(id, name)| json!({"id": id, "title": name}))
            .collect();
        let mut body = json!({"files": shared, "channel_id": self.chat.id});
        if !comment.is_empty() {
            body["initial_comment"] = json!(comment);
        }
        if let Some(thread) = &self.chat.thread {
            body["thread_ts"] = json!(thread);
        }
        self.call("files.completeUploadExternal", &RequestBody::Json(&body))
            .await?;
        let first = uploaded.into_iter().next();
        Ok(PostReceipt {
            message_id: first.map(|(id, _)| id).unwrap_or_default(),
            chat_id: None,
        })
    }
}

impl PlatformChannel for SlackChannel<'_> {
    async fn post(&mut self, piece: &MessagePiece) -> Result<PostReceipt, PlatformFailure> {
        let text = render_markdown(&piece.text, Dialect::Slack) + &piece.number;
        if !piece.files.is_empty() {
            return self.share(&piece.files, &text).await;
        }
        let mut body = json!({"channel": self.chat.id, "text": text, "mrkdwn": true});
        if let Some(thread) = &self.chat.thread {
            body["thread_ts"] = json!(thread);
        }
        let posted = self
            .call("chat.postMessage", &RequestBody::Json(&body))
            .await?;
        Ok(PostReceipt {
            message_id: posted["ts"].as_str().unwrap_or_default().to_owned(),
            chat_id: None,
        })
    }

    fn into_parts(self) -> (ChatTarget, Vec<String>) {
        (self.chat, Vec::new())
    }
}
