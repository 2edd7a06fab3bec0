//! What happens at the other end: people, their chats, and what they do besides writing.

use serde_json::{Value, json};

use super::{
    TelegramServer,
    incoming::TelegramDraftedMessage,
    world::{BotMembership, CallbackRecord, ChatRecord, WorldState, now},
};

impl TelegramServer {
    /// Somebody with an account. A private chat begins when they write first.
    pub fn add_user(&self, id: i64, first_name: &str) {
        self.add_account(id, first_name, false);
    }

    /// Another bot.
    pub fn add_bot(&self, id: i64, first_name: &str) {
        self.add_account(id, first_name, true);
    }

    fn add_account(&self, id: i64, first_name: &str, is_bot: bool) {
        let username = first_name.to_lowercase().replace(' ', "_");
        let user = json!({
            "id": id, "is_bot": is_bot, "first_name": first_name, "username": username, "language_code": "en",
        });
        self.world().lock().users.insert(id, user);
    }

    pub fn add_group(&self, id: i64, title: &str) {
        self.add_chat(json!({"id": id, "type": "group", "title": title}));
    }

    pub fn add_supergroup(&self, id: i64, title: &str) {
        self.add_chat(json!({"id": id, "type": "supergroup", "title": title}));
    }

    pub fn add_forum(&self, id: i64, title: &str) {
        self.add_chat(json!({"id": id, "type": "supergroup", "title": title, "is_forum": true}));
    }

    pub fn add_channel(&self, id: i64, title: &str) {
        self.add_chat(json!({"id": id, "type": "channel", "title": title}));
    }

    fn add_chat(&self, info: Value) {
        let record = ChatRecord::new(info);
        self.world().lock().chats.insert(record.id(), record);
    }

    /// A topic of a forum, or of a private chat. Returns its number.
    ///
    /// # Panics
    ///
    /// If there is no such chat.
    pub fn add_topic(&self, chat: i64, name: &str) -> i64 {
        let mut state = self.world().lock();
        if state.users.contains_key(&chat) {
            state.open_private_chat(chat);
        }
        let id = state.next_id();
        let Ok(record) = state.chat(chat) else {
            panic!("the chat {chat} was not added");
        };
        record.topics.insert(id, name.to_owned());
        id
    }

    pub fn delete_topic(&self, chat: i64, topic: i64) {
        if let Ok(record) = self.world().lock().chat(chat) {
            record.topics.remove(&topic);
        }
    }

    /// A message of somebody to a chat; a private chat has the number of its user.
    pub fn message(&self, chat: i64, user: i64) -> TelegramDraftedMessage<'_> {
        TelegramDraftedMessage::new(self, chat, user)
    }

    /// A text in a private chat. Returns the number of the message.
    pub fn say(&self, user: i64, text: &str) -> i64 {
        self.message(user, user).text(text).send()
    }

    /// Somebody changes a message of theirs.
    pub fn edit(&self, chat: i64, message: i64, text: &str) {
        let mut state = self.world().lock();
        let Ok(record) = state.chat(chat) else {
            return;
        };
        if let Some(stored) = record.messages.get_mut(&message) {
            stored["text"] = json!(text);
            stored["edit_date"] = json!(now());
            let edited = stored.clone();
            state.updates.add("edited_message", &edited);
        }
        drop(state);
        self.world().changed.notify_waiters();
    }

    /// Somebody presses a button of a message. Returns the number of the query.
    ///
    /// # Panics
    ///
    /// If no button of that message carries this.
    pub fn press(&self, chat: i64, user: i64, message: i64, data: &str) -> String {
        let mut state = self.world().lock();
        let from = self.user(&state, user);
        let query = format!("cq{}", state.next_id());
        let Ok(record) = state.chat(chat) else {
            panic!("the chat {chat} was not added");
        };
        let stored = record.messages.get(&message).cloned().unwrap_or_default();
        let has_button = stored["reply_markup"]["inline_keyboard"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|row| row.as_array())
            .flatten()
            .any(|button| button["callback_data"] == data);
        assert!(has_button, "no button carries {data}: {stored}");
        let update = json!({
            "id": query, "from": from, "message": super::messages::visible(stored), "chat_instance": "42",
            "data": data,
        });
        state
            .callbacks
            .insert(query.clone(), CallbackRecord::default());
        state.updates.add("callback_query", &update);
        drop(state);
        self.world().changed.notify_waiters();
        query
    }

    /// Telegram does not wait for an answer to a pressed button any more.
    pub fn expire_press(&self, query: &str) {
        self.world().lock().callbacks.remove(query);
    }

    /// What the bot answered to a pressed button: empty without a notice; `None` if it has not answered.
    pub fn button_answer(&self, query: &str) -> Option<String> {
        self.world().lock().callbacks.get(query)?.answer.clone()
    }

    /// Somebody presses Stop below a draft that has it. Returns whether there was one.
    pub fn press_stop(&self, chat: i64) -> bool {
        let mut state = self.world().lock();
        let Ok(record) = state.chat(chat) else {
            return false;
        };
        let Some(at) = record.drafts.iter().position(|draft| draft.can_stop) else {
            return false;
        };
        let draft = record.drafts.remove(at);
        let mut update = json!({"chat": record.info, "draft_id": draft.id});
        if let Some(thread) = draft.thread {
            update["message_thread_id"] = json!(thread);
        }
        state.updates.add("stopped_message_generation", &update);
        drop(state);
        self.world().changed.notify_waiters();
        true
    }

    /// Somebody blocks the bot, or lets it write again.
    pub fn set_blocked(&self, user: i64, is_blocked: bool) {
        let standing = if is_blocked {
            BotMembership::Blocked
        } else {
            BotMembership::Member
        };
        let mut state = self.world().lock();
        state.open_private_chat(user);
        self.change_standing(&mut state, user, user, standing);
        drop(state);
        self.world().changed.notify_waiters();
    }

    /// The bot is removed from a group.
    pub fn kick(&self, chat: i64, by: i64) {
        let mut state = self.world().lock();
        self.change_standing(&mut state, chat, by, BotMembership::Kicked);
        drop(state);
        self.world().changed.notify_waiters();
    }

    fn change_standing(&self, state: &mut WorldState, chat: i64, by: i64, standing: BotMembership) {
        let from = self.user(state, by);
        let bot = state.bot_user();
        let status = |standing: &BotMembership| match standing {
            BotMembership::Member => json!({"status": "member", "user": bot}),
            _ => json!({"status": "kicked", "user": bot, "until_date": 0}),
        };
        let Ok(record) = state.chat(chat) else {
            return;
        };
        let update = json!({
            "chat": record.info, "from": from, "date": now(),
            "old_chat_member": status(&record.standing), "new_chat_member": status(&standing),
        });
        record.standing = standing;
        state.updates.add("my_chat_member", &update);
    }

    /// A group becomes a supergroup. Returns its new number.
    ///
    /// # Panics
    ///
    /// If there is no such group.
    pub fn migrate_group(&self, old: i64) -> i64 {
        let new = -1_000_000_000_000 + old;
        let mut state = self.world().lock();
        let (first, second) = (state.next_id(), state.next_id());
        let bot = state.bot_user();
        let Ok(record) = state.chat(old) else {
            panic!("the group {old} was not added");
        };
        record.standing = BotMembership::MigratedTo(new);
        let old_info = record.info.clone();
        let mut new_info = old_info.clone();
        new_info["id"] = json!(new);
        new_info["type"] = json!("supergroup");
        state.chats.insert(new, ChatRecord::new(new_info.clone()));
        state.updates.add(
            "message",
            &json!({"message_id": first, "from": bot, "chat": old_info, "date": now(), "migrate_to_chat_id": new}),
        );
        state.updates.add(
            "message",
            &json!({"message_id": second, "from": bot, "chat": new_info, "date": now(), "migrate_from_chat_id": old}),
        );
        drop(state);
        self.world().changed.notify_waiters();
        new
    }

    /// An update as it is; without a number it gets the next one. Twice the same is delivered twice.
    pub fn deliver(&self, mut update: Value) {
        let mut state = self.world().lock();
        if update["update_id"].is_null() {
            let id = state.updates.next_id();
            update["update_id"] = json!(id);
        }
        state.updates.add_raw(update);
        drop(state);
        self.world().changed.notify_waiters();
    }

    /// The account of somebody, in a message.
    pub(super) fn user(&self, state: &WorldState, id: i64) -> Value {
        match state.users.get(&id) {
            Some(user) => user.clone(),
            None => panic!("the user {id} was not added"),
        }
    }
}

impl WorldState {
    /// A private chat exists once its user has written.
    pub(super) fn open_private_chat(&mut self, user: i64) {
        let Some(account) = self.users.get(&user) else {
            return;
        };
        let info = json!({
            "id": user, "type": "private", "first_name": account["first_name"], "username": account["username"],
        });
        self.chats
            .entry(user)
            .or_insert_with(|| ChatRecord::new(info));
    }
}
