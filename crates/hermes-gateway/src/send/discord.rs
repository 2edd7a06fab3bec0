//! One message to Discord, by its REST API.

use reqwest::{
    Method,
    header::{AUTHORIZATION, HeaderMap, HeaderValue},
};
use serde_json::{Value, json};

use super::{
    chunk::Limit,
    delivery::{Channel, Limits, Piece, Receipt},
    error::Failure,
    http::{Answer, Api, Body},
    multipart::Form,
    target::Chat,
};

/// Channels that hold threads only, and files only.
const FORUM: [u64; 2] = [15, 16];
const LONGEST_TITLE: usize = 100;

const LIMIT: Limit = Limit {
    most: 2000,
    measure: length,
};

pub(super) const LIMITS: Limits = Limits {
    message: LIMIT,
    caption: LIMIT,
};

fn length(text: &str) -> usize {
    text.chars().count()
}

/// A channel with the bot in it.
pub(super) struct Discord<'a> {
    api: &'a Api<'a>,
    headers: HeaderMap,
    chat: Chat,
    place: Place,
}

enum Place {
    Channel(String),
    /// A forum, in which the message opens a thread.
    Forum(String),
}

impl<'a> Discord<'a> {
    /// Checks the type of the channel.
    pub(super) async fn open(api: &'a Api<'a>, chat: Chat) -> Result<Self, Failure> {
        let mut headers = HeaderMap::new();
        let token = HeaderValue::try_from(format!("Bot {}", api.token.expose()));
        let mut token = token.map_err(|_| api.refused("the token has invalid characters"))?;
        token.set_sensitive(true);
        headers.insert(AUTHORIZATION, token);
        let mut discord = Self {
            place: Place::Channel(chat.thread.clone().unwrap_or_else(|| chat.id.clone())),
            api,
            headers,
            chat,
        };
        if discord.chat.thread.is_none() {
            let path = format!("/channels/{}", discord.chat.id);
            let channel = discord.call(Method::GET, &path, &Body::Nothing).await?;
            let kind = channel["type"].as_u64().unwrap_or_default();
            if FORUM.contains(&kind) {
                discord.place = Place::Forum(discord.chat.id.clone());
            }
        }
        Ok(discord)
    }

    async fn call(&self, method: Method, path: &str, body: &Body<'_>) -> Result<Value, Failure> {
        let url = format!("{}{path}", self.api.base_url());
        let answer = self
            .api
            .call(method, &url, &self.headers, body, &[])
            .await?;
        self.checked(answer)
    }

    fn checked(&self, answer: Answer) -> Result<Value, Failure> {
        if answer.is_success() && answer.body.is_object() {
            return Ok(answer.body);
        }
        Err(self.api.refusal(&answer, answer.body["message"].as_str()))
    }
}

impl Channel for Discord<'_> {
    async fn post(&mut self, piece: &Piece) -> Result<Receipt, Failure> {
        let mut message = json!({"content": format!("{}{}", piece.text, piece.number)});
        if let Some(file) = &piece.file {
            message["attachments"] = json!([{"id": 0, "filename": file.name}]);
        }
        let (path, body) = match &self.place {
            Place::Channel(id) => (format!("/channels/{id}/messages"), message),
            Place::Forum(id) => {
                let body = json!({"name": title(piece), "message": message});
                (format!("/channels/{id}/threads"), body)
            }
        };
        let made = match &piece.file {
            None => self.call(Method::POST, &path, &Body::Json(&body)).await?,
            Some(file) => {
                let mut form = Form::new();
                form.text("payload_json", &body.to_string());
                form.file("files[0]", &file.name, &file.content);
                let form = form.finish();
                self.call(Method::POST, &path, &Body::Multipart(&form))
                    .await?
            }
        };
        let id = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut message_id = id(&made["id"]);
        if let Place::Forum(_) = self.place {
            // The reply is the thread, and its first message has the same id.
            self.chat.thread = Some(message_id.clone());
            self.place = Place::Channel(message_id.clone());
            if made["message"]["id"].is_string() {
                message_id = id(&made["message"]["id"]);
            }
        }
        Ok(Receipt {
            message_id,
            chat_id: None,
        })
    }

    fn into_parts(self) -> (Chat, Vec<String>) {
        (self.chat, Vec::new())
    }
}

/// The title of a thread: the first line of the message.
fn title(piece: &Piece) -> String {
    let mut lines = piece
        .text
        .lines()
        .map(|line| line.trim_start_matches('#').trim());
    let line = lines.find(|line| !line.is_empty());
    let name = line.or(piece.file.as_ref().map(|file| file.name.as_str()));
    name.unwrap_or("New post")
        .chars()
        .take(LONGEST_TITLE)
        .collect()
}
