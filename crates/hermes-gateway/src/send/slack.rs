//! One message to Slack, by its web API.

use reqwest::{
    Method,
    header::{AUTHORIZATION, HeaderMap, HeaderValue},
};
use serde_json::{Value, json};

use super::{
    chunk::Limit,
    delivery::{Channel, Limits, Piece, Receipt},
    error::Failure,
    http::{Api, Body},
    markdown::{Dialect, render},
    media::File,
    target::Chat,
};

const LIMIT: Limit = Limit {
    most: 39_000,
    measure: length,
};

pub(super) const LIMITS: Limits = Limits {
    message: LIMIT,
    caption: LIMIT,
};

/// The length in characters, with markup or without, whichever is more.
fn length(text: &str) -> usize {
    let rendered = render(text, Dialect::Slack);
    text.chars().count().max(rendered.chars().count())
}

pub(super) struct Slack<'a> {
    api: &'a Api<'a>,
    headers: HeaderMap,
    chat: Chat,
}

impl<'a> Slack<'a> {
    /// Opens the conversation with a user, if one is named.
    pub(super) async fn open(api: &'a Api<'a>, chat: Chat) -> Result<Self, Failure> {
        let mut headers = HeaderMap::new();
        let token = HeaderValue::try_from(format!("Bearer {}", api.token.expose()));
        let mut token = token.map_err(|_| api.refused("the token has invalid characters"))?;
        token.set_sensitive(true);
        headers.insert(AUTHORIZATION, token);
        let mut slack = Self { api, headers, chat };
        if slack.chat.id.starts_with('U') {
            let body = json!({"users": slack.chat.id});
            let opened = slack.call("conversations.open", &Body::Json(&body)).await?;
            let id = opened["channel"]["id"].as_str();
            slack.chat.id = id
                .ok_or_else(|| api.refused("channel_not_found"))?
                .to_owned();
        }
        Ok(slack)
    }

    async fn call(&self, method: &str, body: &Body<'_>) -> Result<Value, Failure> {
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

    /// Requests an upload URL, uploads the file, and shares it in the conversation.
    async fn upload(&self, file: &File, comment: &str) -> Result<Receipt, Failure> {
        let length = file.content.len().to_string();
        let fields = [("filename", file.name.clone()), ("length", length)];
        let place = self
            .call("files.getUploadURLExternal", &Body::Fields(&fields))
            .await?;
        let text = |name: &str| place[name].as_str().unwrap_or_default().to_owned();
        let (url, id) = (text("upload_url"), text("file_id"));
        self.api.check(&url)?;
        let content = Body::Bytes(file.content.clone());
        // The URL itself is secret; the token must not be sent to it.
        let answer = self
            .api
            .call(Method::POST, &url, &HeaderMap::new(), &content, &[])
            .await?;
        if !answer.is_success() {
            return Err(self.api.refusal(&answer, Some("the upload failed")));
        }
        let mut body = json!({
            "files": [{"id": id, "title": file.name}],
            "channel_id": self.chat.id,
        });
        if !comment.is_empty() {
            body["initial_comment"] = json!(comment);
        }
        if let Some(thread) = &self.chat.thread {
            body["thread_ts"] = json!(thread);
        }
        self.call("files.completeUploadExternal", &Body::Json(&body))
            .await?;
        Ok(Receipt {
            message_id: id,
            chat_id: None,
        })
    }
}

impl Channel for Slack<'_> {
    async fn post(&mut self, piece: &Piece) -> Result<Receipt, Failure> {
        let text = render(&piece.text, Dialect::Slack) + &piece.number;
        if let Some(file) = &piece.file {
            return self.upload(file, &text).await;
        }
        let mut body = json!({"channel": self.chat.id, "text": text, "mrkdwn": true});
        if let Some(thread) = &self.chat.thread {
            body["thread_ts"] = json!(thread);
        }
        let posted = self.call("chat.postMessage", &Body::Json(&body)).await?;
        Ok(Receipt {
            message_id: posted["ts"].as_str().unwrap_or_default().to_owned(),
            chat_id: None,
        })
    }

    fn into_parts(self) -> (Chat, Vec<String>) {
        (self.chat, Vec::new())
    }
}
