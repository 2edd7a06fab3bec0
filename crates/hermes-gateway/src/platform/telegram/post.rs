//! Messages to a chat: posted, edited, with buttons and files.

use serde_json::{Map, Value, json};

use super::{
    super::{
        AttachmentKind, ChatAddress, OutboundFile, OutboundMessage, PostError, Posted, TextFormat,
    },
    TelegramClient,
    api::BotApiError,
    decode::GENERAL_TOPIC,
    text::{has_cjk, to_rich_markdown},
};
use crate::send::{Dialect, render_markdown};

/// Larger pictures are sent as files: Telegram takes no more as a photo.
const MAX_PHOTO_BYTES: u64 = 10 << 20;

/// The fields that say where a request goes. The general topic must not be named when something is sent.
pub(super) fn address_fields(chat: &ChatAddress) -> Map<String, Value> {
    let mut fields = Map::from_iter([("chat_id".to_owned(), chat_id(chat))]);
    let topic = chat.thread_id.as_deref().filter(|id| *id != GENERAL_TOPIC);
    if let Some(topic) = topic {
        fields.insert("message_thread_id".into(), number_or_text(topic));
    }
    fields
}

pub(super) fn chat_id(chat: &ChatAddress) -> Value {
    number_or_text(&chat.id)
}

pub(super) fn number_or_text(text: &str) -> Value {
    text.parse::<i64>()
        .map_or_else(|_| json!(text), Value::from)
}

/// Whether a refusal of a rich message concerns its markup rather than the chat.
fn is_about_markup(error: &BotApiError) -> bool {
    let about_chat = [
        "chat not found",
        "thread not found",
        "upgraded to a supergroup",
        "replied not found",
        "not enough rights",
        "button_",
        "too long",
    ];
    error.status() == Some(400) && !about_chat.iter().any(|words| error.says(words))
}

impl TelegramClient {
    pub(super) async fn post_message(
        &self,
        chat: &ChatAddress,
        message: &OutboundMessage,
    ) -> Result<Posted, PostError> {
        let mut fields = address_fields(chat);
        self.add_frame(&mut fields, message);
        let error = match self.post_fields(&fields, message).await {
            Ok(posted) => return Ok(read_posted(&posted, None)),
            Err(error) => error,
        };
        let topic = fields.remove("message_thread_id");
        match topic {
            Some(topic) if error.says("thread not found") => {
                tracing::warn!(chat = %chat.id, %topic, "Telegram topic not found, posting to the chat itself");
                let posted = self
                    .post_fields(&fields, message)
                    .await
                    .map_err(BotApiError::into_post_error)?;
                let warning =
                    format!("the topic {topic} was not found; the message went to the chat itself");
                Ok(read_posted(&posted, Some(warning)))
            }
            _ => Err(error.into_post_error()),
        }
    }

    fn add_frame(&self, fields: &mut Map<String, Value>, message: &OutboundMessage) {
        if let Some(reply_to) = &message.reply_to {
            let id = number_or_text(reply_to);
            let reply = json!({"message_id": id, "allow_sending_without_reply": true});
            fields.insert("reply_parameters".into(), reply);
        }
        if !message.buttons.is_empty() {
            fields.insert("reply_markup".into(), keyboard(message));
        }
        if message.is_silent {
            fields.insert("disable_notification".into(), json!(true));
        }
    }

    async fn post_fields(
        &self,
        fields: &Map<String, Value>,
        message: &OutboundMessage,
    ) -> Result<Value, BotApiError> {
        match message.files.as_slice() {
            [] => self.post_text(fields, message).await,
            [file] => self.post_file(fields, message, file).await,
            files => self.post_album(fields, message, files).await,
        }
    }

    async fn post_text(
        &self,
        fields: &Map<String, Value>,
        message: &OutboundMessage,
    ) -> Result<Value, BotApiError> {
        if self.wants_rich(message) {
            let mut rich = fields.clone();
            rich.insert("rich_message".into(), rich_content(message));
            match self.api.call("sendRichMessage", &rich.into()).await {
                Ok(posted) => {
                    self.rich_messages.record_supported();
                    return Ok(posted);
                }
                Err(error) if error.is_unknown_method() => {
                    self.rich_messages.record_missing("sendRichMessage");
                }
                Err(error) if is_about_markup(&error) => {
                    tracing::debug!(%error, "Telegram refused a rich message");
                }
                Err(error) => return Err(error),
            }
        }
        let mut fields = fields.clone();
        add_words(&mut fields, "text", message);
        self.api.call("sendMessage", &fields.into()).await
    }

    fn wants_rich(&self, message: &OutboundMessage) -> bool {
        message.format == TextFormat::Markdown
            && !self.rich_messages.is_missing()
            && !has_cjk(&message.text)
    }

    async fn post_file(
        &self,
        fields: &Map<String, Value>,
        message: &OutboundMessage,
        file: &OutboundFile,
    ) -> Result<Value, BotApiError> {
        let kind = upload_kind(file).await;
        let (method, field) = match kind {
            AttachmentKind::Image => ("sendPhoto", "photo"),
            AttachmentKind::Video => ("sendVideo", "video"),
            AttachmentKind::Audio => ("sendAudio", "audio"),
            AttachmentKind::Voice => ("sendVoice", "voice"),
            AttachmentKind::Document => ("sendDocument", "document"),
        };
        let mut fields = fields.clone();
        add_words(&mut fields, "caption", message);
        let files = [(field.to_owned(), file)];
        match self.api.upload(method, &fields, &files).await {
            // A picture with odd measures, or one that is none.
            Err(error) if kind == AttachmentKind::Image && is_about_picture(&error) => {
                let files = [("document".to_owned(), file)];
                self.api.upload("sendDocument", &fields, &files).await
            }
            // Some people take no voice messages.
            Err(error)
                if kind == AttachmentKind::Voice && error.says("voice_messages_forbidden") =>
            {
                let files = [("document".to_owned(), file)];
                self.api.upload("sendDocument", &fields, &files).await
            }
            result => result,
        }
    }

    async fn post_album(
        &self,
        fields: &Map<String, Value>,
        message: &OutboundMessage,
        files: &[OutboundFile],
    ) -> Result<Value, BotApiError> {
        let mut kinds = Vec::new();
        for file in files {
            kinds.push(upload_kind(file).await);
        }
        let is_visual =
            |kind: &AttachmentKind| matches!(kind, AttachmentKind::Image | AttachmentKind::Video);
        let is_audio = |kind: &AttachmentKind| *kind == AttachmentKind::Audio;
        // Only pictures and videos may be mixed; everything may be sent as a document.
        let keeps_kinds = kinds.iter().all(is_visual) || kinds.iter().all(is_audio);
        let mut media = Vec::new();
        let mut parts = Vec::new();
        for (index, (file, kind)) in files.iter().zip(kinds).enumerate() {
            let part = format!("file{index}");
            let kind = match kind {
                AttachmentKind::Image if keeps_kinds => "photo",
                AttachmentKind::Video if keeps_kinds => "video",
                AttachmentKind::Audio if keeps_kinds => "audio",
                _ => "document",
            };
            let mut item = Map::from_iter([
                ("type".to_owned(), json!(kind)),
                ("media".to_owned(), json!(format!("attach://{part}"))),
            ]);
            // The caption of the first one is shown below all of them.
            if index == 0 {
                add_words(&mut item, "caption", message);
            }
            media.push(Value::Object(item));
            parts.push((part, file));
        }
        let mut fields = fields.clone();
        fields.remove("reply_markup");
        fields.insert("media".into(), media.into());
        let posted = self.api.upload("sendMediaGroup", &fields, &parts).await?;
        Ok(posted[0].clone())
    }

    pub(super) async fn edit_message(
        &self,
        chat: &ChatAddress,
        message_id: &str,
        message: &OutboundMessage,
    ) -> Result<(), PostError> {
        let mut fields = Map::from_iter([
            ("chat_id".to_owned(), chat_id(chat)),
            ("message_id".to_owned(), number_or_text(message_id)),
        ]);
        if !message.buttons.is_empty() {
            fields.insert("reply_markup".into(), keyboard(message));
        }
        let mut edited = self.edit_text(&fields, message).await;
        if let Err(error) = &edited
            && error.says("no text in the message to edit")
        {
            let mut caption = fields.clone();
            add_words(&mut caption, "caption", message);
            edited = self.api.call("editMessageCaption", &caption.into()).await;
        }
        match edited {
            Ok(_) => Ok(()),
            Err(error) if error.says("message is not modified") => Ok(()),
            Err(error) => Err(error.into_post_error()),
        }
    }

    async fn edit_text(
        &self,
        fields: &Map<String, Value>,
        message: &OutboundMessage,
    ) -> Result<Value, BotApiError> {
        // An older server would take the rich content for an edit without text.
        if self.wants_rich(message) && self.rich_messages.is_supported() {
            let mut rich = fields.clone();
            rich.insert("rich_message".into(), rich_content(message));
            match self.api.call("editMessageText", &rich.into()).await {
                Err(error)
                    if is_about_markup(&error)
                        && !error.says("not modified")
                        && !error.says("not found")
                        && !error.says("no text in the message") =>
                {
                    tracing::debug!(%error, "Telegram refused a rich edit");
                }
                result => return result,
            }
        }
        let mut fields = fields.clone();
        add_words(&mut fields, "text", message);
        self.api.call("editMessageText", &fields.into()).await
    }
}

/// Whether a refusal concerns a picture, which as a file would be taken.
fn is_about_picture(error: &BotApiError) -> bool {
    let reasons = [
        "photo_invalid_dimensions",
        "image_process_failed",
        "photo_save_file_invalid",
        "photo_ext_invalid",
    ];
    reasons.iter().any(|words| error.says(words))
}

/// The text or caption, rendered.
fn add_words(fields: &mut Map<String, Value>, name: &str, message: &OutboundMessage) {
    if message.text.is_empty() {
        return;
    }
    match message.format {
        TextFormat::Markdown => {
            let text = render_markdown(&message.text, Dialect::Telegram);
            fields.insert(name.into(), text.into());
            fields.insert("parse_mode".into(), json!("MarkdownV2"));
        }
        TextFormat::Plain => {
            fields.insert(name.into(), json!(message.text));
        }
    }
}

fn rich_content(message: &OutboundMessage) -> Value {
    json!({"markdown": to_rich_markdown(&message.text)})
}

fn keyboard(message: &OutboundMessage) -> Value {
    let rows = message.buttons.iter().map(|row| {
        let buttons = row.iter().map(|button| {
            let field = if button.is_link {
                "url"
            } else {
                "callback_data"
            };
            json!({"text": button.label, field: button.data})
        });
        buttons.collect::<Vec<Value>>()
    });
    json!({"inline_keyboard": rows.collect::<Vec<_>>()})
}

/// How a file is sent: as what it is, or as a document if it is too large for that.
async fn upload_kind(file: &OutboundFile) -> AttachmentKind {
    if file.kind != AttachmentKind::Image {
        return file.kind;
    }
    match tokio::fs::metadata(&file.path).await {
        Ok(metadata) if metadata.len() > MAX_PHOTO_BYTES => AttachmentKind::Document,
        _ => AttachmentKind::Image,
    }
}

fn read_posted(message: &Value, warning: Option<String>) -> Posted {
    let id = message["message_id"].as_i64();
    Posted {
        message_id: id.map(|id| id.to_string()).unwrap_or_default(),
        warning,
    }
}
