//! One message to Telegram, by its bot API.

use reqwest::{Method, header::HeaderMap};
use serde_json::{Map, Value, json};

use super::{
    chunk::LengthLimit,
    delivery::{MessageLimits, MessagePiece, PlatformChannel, PostReceipt},
    error::PlatformFailure,
    http::{PlatformApi, PlatformReply, RequestBody},
    markdown::{Dialect, render_markdown},
    media::{MediaFile, MediaKind},
    multipart::UploadForm,
    target::ChatTarget,
};

/// Transient errors of Telegram's servers, before they accept a message.
const RETRY_STATUSES: [u16; 3] = [502, 503, 504];
/// The default topic of every forum, which must not be named.
const GENERAL_TOPIC: &str = "1";

pub(super) const LIMITS: MessageLimits = MessageLimits {
    message: LengthLimit {
        max: 4096,
        measure: count_utf16,
    },
    caption: LengthLimit {
        max: 1024,
        measure: count_utf16,
    },
};

/// The length in UTF-16 units, with markup or without, whichever is more.
pub(crate) fn count_utf16(text: &str) -> usize {
    let units = |text: &str| text.encode_utf16().count();
    units(text).max(units(&render_markdown(text, Dialect::Telegram)))
}

pub(super) struct TelegramChannel<'a> {
    api: &'a PlatformApi<'a>,
    chat: ChatTarget,
    warnings: Vec<String>,
}

/// Whether Telegram parses markup.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TextMode {
    Markdown,
    Plain,
}

impl<'a> TelegramChannel<'a> {
    pub(super) fn new(api: &'a PlatformApi<'a>, chat: ChatTarget) -> Self {
        Self {
            api,
            chat,
            warnings: Vec::new(),
        }
    }

    async fn attempt(
        &self,
        piece: &MessagePiece,
        text: TextMode,
    ) -> Result<PlatformReply, PlatformFailure> {
        let mut fields = Map::new();
        let chat_id = self.chat.id.parse::<i64>().map(Value::from);
        fields.insert("chat_id".into(), chat_id.unwrap_or(json!(self.chat.id)));
        if let Some(thread) = self
            .chat
            .thread
            .as_deref()
            .filter(|thread| *thread != GENERAL_TOPIC)
        {
            let thread = thread.parse::<i64>().map_or(json!(thread), Value::from);
            fields.insert("message_thread_id".into(), thread);
        }
        let words = match text {
            TextMode::Markdown => {
                render_markdown(&piece.text, Dialect::Telegram)
                    + &render_markdown(&piece.number, Dialect::Telegram)
            }
            TextMode::Plain => format!("{}{}", piece.text, piece.number),
        };
        let mut shown = Map::new();
        if !words.is_empty() {
            let name = if piece.files.is_empty() {
                "text"
            } else {
                "caption"
            };
            shown.insert(name.into(), json!(words));
            if text == TextMode::Markdown {
                shown.insert("parse_mode".into(), json!("MarkdownV2"));
            }
        }
        let mut form = UploadForm::default();
        let method = match piece.files.as_slice() {
            [] => {
                fields.append(&mut shown);
                let body = Value::Object(fields);
                return self.call("sendMessage", &RequestBody::Json(&body)).await;
            }
            [file] => {
                let (method, field) = upload_method(file);
                fields.append(&mut shown);
                form.add_file(field, file);
                method
            }
            files => {
                fields.insert("media".into(), add_album(&mut form, files, shown));
                "sendMediaGroup"
            }
        };
        for (name, value) in &fields {
            let text = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            form.add_text(name, text);
        }
        self.call(method, &RequestBody::Upload(&form)).await
    }

    async fn call(
        &self,
        method: &str,
        body: &RequestBody<'_>,
    ) -> Result<PlatformReply, PlatformFailure> {
        let base = self.api.base_url();
        let bot = if base.ends_with("/bot") { "" } else { "/bot" };
        let url = format!("{base}{bot}{}/{method}", self.api.token.expose());
        let headers = HeaderMap::new();
        self.api
            .call(Method::POST, &url, &headers, body, &RETRY_STATUSES)
            .await
    }
}

/// Adds the files of an album to a form. Returns how they are shown: the caption of the first one is below all of them.
fn add_album(form: &mut UploadForm, files: &[MediaFile], caption: Map<String, Value>) -> Value {
    let mut caption = Some(caption);
    let items = files.iter().enumerate().map(|(index, file)| {
        let field = format!("file{index}");
        form.add_file(field.clone(), file);
        let (_, kind) = upload_method(file);
        let mut item = caption.take().unwrap_or_default();
        item.insert("type".into(), json!(kind));
        item.insert("media".into(), json!(format!("attach://{field}")));
        Value::Object(item)
    });
    items.collect()
}

/// The method for a file, and the field it goes into.
fn upload_method(file: &MediaFile) -> (&'static str, &'static str) {
    match file.kind {
        MediaKind::Image => ("sendPhoto", "photo"),
        MediaKind::Video => ("sendVideo", "video"),
        MediaKind::Audio => ("sendAudio", "audio"),
        MediaKind::Voice => ("sendVoice", "voice"),
        MediaKind::Document => ("sendDocument", "document"),
    }
}

impl PlatformChannel for TelegramChannel<'_> {
    async fn post(&mut self, piece: &MessagePiece) -> Result<PostReceipt, PlatformFailure> {
        let mut text = TextMode::Markdown;
        loop {
            let answer = self.attempt(piece, text).await?;
            if answer.is_success() && answer.body["ok"] == true {
                // An album is several messages; the first one has its caption.
                let result = &answer.body["result"];
                let first = result.get(0).unwrap_or(result);
                return Ok(parse_receipt(first));
            }
            let reason = answer.body["description"].as_str();
            let words = reason.unwrap_or_default().to_ascii_lowercase();
            if text == TextMode::Markdown && words.contains("can't parse") {
                text = TextMode::Plain;
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

    fn into_parts(self) -> (ChatTarget, Vec<String>) {
        (self.chat, self.warnings)
    }
}

fn parse_receipt(message: &Value) -> PostReceipt {
    let number = |value: &Value| value.as_i64().map(|number| number.to_string());
    PostReceipt {
        message_id: number(&message["message_id"]).unwrap_or_default(),
        // A chat given by name also has a numeric id, which its sessions use.
        chat_id: number(&message["chat"]["id"]),
    }
}
