//! One message to Telegram, by its bot API.

use reqwest::{Method, header::HeaderMap};
use serde_json::{Map, Value, json};

use super::{
    chunk::Limit,
    delivery::{Channel, Limits, Piece, Receipt},
    error::Failure,
    http::{Answer, Api, Body},
    markdown::{Dialect, render},
    media::{File, Kind},
    multipart::Form,
    target::Chat,
};

/// Transient errors of Telegram's servers, before they accept a message.
const AGAIN: [u16; 3] = [502, 503, 504];
/// The default topic of every forum, which must not be named.
const GENERAL: &str = "1";

pub(super) const LIMITS: Limits = Limits {
    message: Limit {
        most: 4096,
        measure: length,
    },
    caption: Limit {
        most: 1024,
        measure: length,
    },
};

/// The length in UTF-16 units, with markup or without, whichever is more.
pub(super) fn length(text: &str) -> usize {
    let units = |text: &str| text.encode_utf16().count();
    units(text).max(units(&render(text, Dialect::Telegram)))
}

pub(super) struct Telegram<'a> {
    api: &'a Api<'a>,
    chat: Chat,
    warnings: Vec<String>,
}

/// Whether Telegram parses markup.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Text {
    Markdown,
    Plain,
}

impl<'a> Telegram<'a> {
    pub(super) fn new(api: &'a Api<'a>, chat: Chat) -> Self {
        Self {
            api,
            chat,
            warnings: Vec::new(),
        }
    }

    async fn attempt(&self, piece: &Piece, text: Text) -> Result<Answer, Failure> {
        let mut fields = Map::new();
        let chat_id = self.chat.id.parse::<i64>().map(Value::from);
        fields.insert("chat_id".into(), chat_id.unwrap_or(json!(self.chat.id)));
        if let Some(thread) = self
            .chat
            .thread
            .as_deref()
            .filter(|thread| *thread != GENERAL)
        {
            let thread = thread.parse::<i64>().map_or(json!(thread), Value::from);
            fields.insert("message_thread_id".into(), thread);
        }
        let words = match text {
            Text::Markdown => {
                render(&piece.text, Dialect::Telegram) + &render(&piece.number, Dialect::Telegram)
            }
            Text::Plain => format!("{}{}", piece.text, piece.number),
        };
        if !words.is_empty() {
            let name = if piece.file.is_some() {
                "caption"
            } else {
                "text"
            };
            fields.insert(name.into(), json!(words));
            if text == Text::Markdown {
                fields.insert("parse_mode".into(), json!("MarkdownV2"));
            }
        }
        match &piece.file {
            None => {
                self.call("sendMessage", &Body::Json(&Value::Object(fields)))
                    .await
            }
            Some(file) => {
                let (method, field) = upload(file);
                let mut form = Form::new();
                for (name, value) in &fields {
                    let text = value
                        .as_str()
                        .map_or_else(|| value.to_string(), str::to_owned);
                    form.text(name, &text);
                }
                form.file(field, &file.name, &file.content);
                self.call(method, &Body::Multipart(&form.finish())).await
            }
        }
    }

    async fn call(&self, method: &str, body: &Body<'_>) -> Result<Answer, Failure> {
        let base = self.api.base_url();
        let bot = if base.ends_with("/bot") { "" } else { "/bot" };
        let url = format!("{base}{bot}{}/{method}", self.api.token.expose());
        let headers = HeaderMap::new();
        self.api
            .call(Method::POST, &url, &headers, body, &AGAIN)
            .await
    }
}

/// The method for a file, and the field it goes into.
fn upload(file: &File) -> (&'static str, &'static str) {
    match file.kind {
        Kind::Image => ("sendPhoto", "photo"),
        Kind::Video => ("sendVideo", "video"),
        Kind::Audio => ("sendAudio", "audio"),
        Kind::Voice => ("sendVoice", "voice"),
        Kind::Document => ("sendDocument", "document"),
    }
}

impl Channel for Telegram<'_> {
    async fn post(&mut self, piece: &Piece) -> Result<Receipt, Failure> {
        let mut text = Text::Markdown;
        loop {
            let answer = self.attempt(piece, text).await?;
            if answer.is_success() && answer.body["ok"] == true {
                return Ok(receipt(&answer.body["result"]));
            }
            let reason = answer.body["description"].as_str();
            let words = reason.unwrap_or_default().to_ascii_lowercase();
            if text == Text::Markdown && words.contains("can't parse") {
                text = Text::Plain;
            } else if self.chat.thread.is_some() && words.contains("thread not found") {
                let thread = self.chat.thread.take().unwrap_or_default();
                self.warnings.push(format!(
                    "the topic {thread} was not found; the message went to the chat itself"
                ));
            } else {
                return Err(self.api.refusal(&answer, reason));
            }
        }
    }

    fn into_parts(self) -> (Chat, Vec<String>) {
        (self.chat, self.warnings)
    }
}

fn receipt(message: &Value) -> Receipt {
    let number = |value: &Value| value.as_i64().map(|number| number.to_string());
    Receipt {
        message_id: number(&message["message_id"]).unwrap_or_default(),
        // A chat given by name also has a numeric id, which its sessions use.
        chat_id: number(&message["chat"]["id"]),
    }
}
