//! One message to Discord, by its REST API.

use reqwest::{
    Method,
    header::{AUTHORIZATION, HeaderMap, HeaderValue},
};
use serde_json::{Value, json};

use super::{
    MentionScope,
    chunk::LengthLimit,
    delivery::{MessageLimits, MessagePiece, PlatformChannel, PostReceipt},
    error::PlatformFailure,
    http::{PlatformApi, PlatformReply, RequestBody},
    multipart::UploadForm,
    target::ChatTarget,
};

/// Channels that hold threads only, and files only.
const FORUM_TYPES: [u64; 2] = [15, 16];
const MAX_TITLE_CHARS: usize = 100;

const LIMIT: LengthLimit = LengthLimit {
    max: 2000,
    measure: count_chars,
};

pub(super) const LIMITS: MessageLimits = MessageLimits {
    message: LIMIT,
    caption: LIMIT,
};

fn count_chars(text: &str) -> usize {
    text.chars().count()
}

/// A channel with the bot in it.
pub(super) struct DiscordChannel<'a> {
    api: &'a PlatformApi<'a>,
    headers: HeaderMap,
    chat: ChatTarget,
    target: PostTarget,
    mentions: MentionScope,
}

enum PostTarget {
    Channel(String),
    /// A forum, in which the message opens a thread.
    Forum(String),
}

impl<'a> DiscordChannel<'a> {
    /// Checks the type of the channel.
    pub(super) async fn open(
        api: &'a PlatformApi<'a>,
        chat: ChatTarget,
        mentions: MentionScope,
    ) -> Result<Self, PlatformFailure> {
        let mut headers = HeaderMap::new();
        let token = HeaderValue::try_from(format!("Bot {}", api.token.expose()));
        let mut token = token.map_err(|_| api.refused("the token has invalid characters"))?;
        token.set_sensitive(true);
        headers.insert(AUTHORIZATION, token);
        let mut discord = Self {
            target: PostTarget::Channel(chat.thread.clone().unwrap_or_else(|| chat.id.clone())),
            api,
            headers,
            chat,
            mentions,
        };
        if discord.chat.thread.is_none() {
            let path = format!("/channels/{}", discord.chat.id);
            let channel = discord
                .call(Method::GET, &path, &RequestBody::Nothing)
                .await?;
            let kind = channel["type"].as_u64().unwrap_or_default();
            if FORUM_TYPES.contains(&kind) {
                discord.target = PostTarget::Forum(discord.chat.id.clone());
            }
        }
        Ok(discord)
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        body: &RequestBody<'_>,
    ) -> Result<Value, PlatformFailure> {
        let url = format!("{}{path}", self.api.base_url());
        let answer = self
            .api
            .call(method, &url, &self.headers, body, &[])
            .await?;
        self.check_reply(answer)
    }

    fn check_reply(&self, answer: PlatformReply) -> Result<Value, PlatformFailure> {
        if answer.is_success() && answer.body.is_object() {
            return Ok(answer.body);
        }
        Err(self.api.refusal(&answer, answer.body["message"].as_str()))
    }
}

impl PlatformChannel for DiscordChannel<'_> {
    async fn post(&mut self, piece: &MessagePiece) -> Result<PostReceipt, PlatformFailure> {
        let mut message = json!({"content": format!("{}{}", piece.text, piece.number)});
        if self.mentions == MentionScope::People {
            message["allowed_mentions"] = json!({"parse": ["users"]});
        }
        if !piece.files.is_empty() {
            let files = piece.files.iter().enumerate();
            let described = files.map(|(id, file)| json!({"id": id, "filename": file.name}));
            message["attachments"] = described.collect();
        }
        let (path, body) = match &self.target {
            PostTarget::Channel(id) => (format!("/channels/{id}/messages"), message),
            PostTarget::Forum(id) => {
                let body = json!({"name": thread_title(piece), "message": message});
                (format!("/channels/{id}/threads"), body)
            }
        };
        let made = if piece.files.is_empty() {
            self.call(Method::POST, &path, &RequestBody::Json(&body))
                .await?
        } else {
            let mut form = UploadForm::default();
            for (id, file) in piece.files.iter().enumerate() {
                form.add_file(format!("files[{id}]"), file);
            }
            form.add_text("payload_json", body.to_string());
            self.call(Method::POST, &path, &RequestBody::Upload(&form))
                .await?
        };
        let id = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut message_id = id(&made["id"]);
        if let PostTarget::Forum(_) = self.target {
            // The reply is the thread, and its first message has the same id.
            self.chat.thread = Some(message_id.clone());
            self.target = PostTarget::Channel(message_id.clone());
            if made["message"]["id"].is_string() {
                message_id = id(&made["message"]["id"]);
            }
        }
        Ok(PostReceipt {
            message_id,
            chat_id: None,
        })
    }

    fn into_parts(self) -> (ChatTarget, Vec<String>) {
        (self.chat, Vec::new())
    }
}

/// The title of a thread: the first line of the message.
fn thread_title(piece: &MessagePiece) -> String {
    let mut lines = piece
        .text
        .lines()
        .map(|line| line.trim_start_matches('#').trim());
    let line = lines.find(|line| !line.is_empty());
    let name = line.or(piece.files.first().map(|file| file.name.as_str()));
    name.unwrap_or("New post")
        .chars()
        .take(MAX_TITLE_CHARS)
        .collect()
}
