//! Telegram's bot API, with the people at the other end.
//!
//! One handler per method serves both one-shot tests, for which every chat exists ([`PlatformServer::telegram`]), and
//! [`TelegramServer`], where chats, people and updates are what a test made them.

mod call;
mod chats;
mod formatting;
mod incoming;
mod media;
mod messages;
mod people;
mod updates;
mod view;
mod webhook;
mod world;

use std::{ops::Deref, time::Duration};

use axum::response::Response;
use percent_encoding::percent_decode_str;
use serde_json::json;

use super::{PlatformRequest, PlatformServer, server::PlatformState};
use call::{BotCall, BotError, BotResult, respond};

pub use incoming::TelegramDraftedMessage;
pub use media::TelegramFile;
pub use view::{TelegramDraft, TelegramMessage};
pub(super) use world::TelegramWorld;

/// Telegram with people, for one bot. Recording and faults are those of [`PlatformServer`].
pub struct TelegramServer {
    platform: PlatformServer,
}

impl Deref for TelegramServer {
    type Target = PlatformServer;

    fn deref(&self) -> &PlatformServer {
        &self.platform
    }
}

impl TelegramServer {
    /// Telegram for the bot with this token, without any chat.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    pub fn start(token: &str) -> Self {
        let platform = PlatformServer::telegram(token);
        platform.server.telegram.lock().has_every_chat = false;
        Self { platform }
    }

    /// The address of file downloads, without the token.
    pub fn file_url(&self) -> String {
        format!("{}/file/bot", self.platform.base_url())
    }

    /// Refuses connections until [`Self::come_back`].
    pub fn go_offline(&mut self) {
        self.platform.stop();
    }

    /// Listens again on the same port. Nothing was forgotten.
    ///
    /// # Panics
    ///
    /// If the port is taken.
    pub fn come_back(&mut self) {
        self.platform.resume();
    }

    /// An older server, which does not know this method.
    pub fn forget_method(&self, method: &str) {
        let mut state = self.world().lock();
        state.unknown_methods.push(method.to_owned());
    }

    /// With privacy mode, the bot gets only commands, mentions and replies in groups.
    pub fn set_privacy_mode(&self, is_on: bool) {
        self.world().lock().bot["can_read_all_group_messages"] = json!(!is_on);
    }

    /// How long drafts are seen: 30 s otherwise.
    pub fn set_draft_lifetime(&self, lifetime: Duration) {
        self.world().lock().draft_lifetime = lifetime;
    }

    /// The bot's name in mentions, without `@`.
    pub fn bot_username(&self) -> String {
        let state = self.world().lock();
        state.bot["username"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    /// How often a method was called.
    pub fn calls(&self, method: &str) -> usize {
        let requests = self.platform.requests();
        let is_method = |request: &&PlatformRequest| request.last_segment() == method;
        requests.iter().filter(is_method).count()
    }

    fn world(&self) -> &TelegramWorld {
        &self.platform.server.telegram
    }
}

/// Answers one request.
pub(super) async fn handle_request(server: &PlatformState, request: &PlatformRequest) -> Response {
    let world = &server.telegram;
    // Some libraries encode the colon of the token.
    let path = percent_decode_str(&request.path).decode_utf8_lossy();
    let files = format!("/file/bot{}/", server.token);
    if let Some(file) = path.strip_prefix(&files) {
        return media::download(world, file);
    }
    let method = request.last_segment();
    if path != format!("/bot{}/{method}", server.token) {
        return respond(Err(BotError::new(401, "Unauthorized")));
    }
    let call = BotCall::new(method, request);
    respond(call_method(world, &call).await)
}

async fn call_method(world: &TelegramWorld, call: &BotCall<'_>) -> BotResult {
    let is_unknown = {
        let state = world.lock();
        state.unknown_methods.iter().any(|name| name == call.method)
    };
    if is_unknown {
        return Err(BotError::new(404, "Not Found"));
    }
    match call.method {
        "getMe" => Ok(chats::get_me(world)),
        "getUpdates" => updates::get_updates(world, call).await,
        "setWebhook" => updates::set_webhook(world, call),
        "deleteWebhook" => Ok(updates::delete_webhook(world, call)),
        "getWebhookInfo" => Ok(updates::get_webhook_info(world)),
        "sendMessage" => messages::send_message(world, call),
        "sendRichMessage" => messages::send_rich_message(world, call),
        "sendMessageDraft" | "sendRichMessageDraft" => chats::send_draft(world, call),
        "editMessageText" => messages::edit_text(world, call),
        "editMessageCaption" => messages::edit_caption(world, call),
        "editMessageReplyMarkup" => messages::edit_reply_markup(world, call),
        "deleteMessage" => messages::delete_message(world, call),
        "sendChatAction" => chats::send_chat_action(world, call),
        "sendMediaGroup" => media::send_media_group(world, call),
        "getFile" => media::get_file(world, call),
        "setMyCommands" => chats::set_commands(world, call),
        "getMyCommands" => Ok(chats::get_commands(world)),
        "answerCallbackQuery" => chats::answer_callback(world, call),
        "setMessageReaction" => chats::set_reaction(world, call),
        "getChat" => chats::get_chat(world, call),
        "createForumTopic" => chats::create_topic(world, call),
        "logOut" | "close" => Ok(json!(true)),
        method => match method.strip_prefix("send").and_then(file_kind) {
            Some(kind) => media::send_file(world, call, kind),
            None => Err(BotError::new(404, "Not Found")),
        },
    }
}

fn file_kind(name: &str) -> Option<TelegramFile> {
    TelegramFile::from_field(&name.to_lowercase())
}
