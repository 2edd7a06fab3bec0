//! What tests do in a workspace: people write and press buttons, sockets break, rights are taken away; and what people
//! see in their channels.

use std::{ops::Deref, time::Duration};

use serde_json::{Value, json};

use super::{
    events, files,
    sockets::repeat_envelope,
    workspace::{SLACK_APP, SLACK_TEAM, SlackChannel, SlackFile},
};
use crate::platform::PlatformServer;

/// A Slack workspace with an app that is installed in it, on a loopback port. Requests and faults are those of
/// [`PlatformServer`].
pub struct SlackServer {
    server: PlatformServer,
}

impl Deref for SlackServer {
    type Target = PlatformServer;

    fn deref(&self) -> &PlatformServer {
        &self.server
    }
}

/// What somebody writes.
#[derive(Debug, Clone)]
pub struct SlackPost {
    user: String,
    channel: String,
    text: String,
    thread: Option<String>,
    files: Vec<(String, Vec<u8>)>,
    others: Value,
}

impl SlackPost {
    pub fn new(user: &str, channel: &str, text: &str) -> Self {
        Self {
            user: user.to_owned(),
            channel: channel.to_owned(),
            text: text.to_owned(),
            thread: None,
            files: Vec::new(),
            others: json!({}),
        }
    }

    /// A reply in the thread of this message.
    #[must_use]
    pub fn in_thread(mut self, ts: &str) -> Self {
        self.thread = Some(ts.to_owned());
        self
    }

    #[must_use]
    pub fn with_file(mut self, name: &str, content: &[u8]) -> Self {
        self.files.push((name.to_owned(), content.to_vec()));
        self
    }

    /// Another member of the message, such as a `subtype`, or one that nobody knows.
    #[must_use]
    pub fn with_member(mut self, name: &str, value: Value) -> Self {
        self.others[name] = value;
        self
    }
}

/// A message as people see it now.
#[derive(Debug, Clone, PartialEq)]
pub struct SlackMessage {
    pub ts: String,
    pub user: String,
    pub text: String,
    /// Its standard Markdown: that of a stream or of blocks, which is shown in place of the text.
    pub markdown: Option<String>,
    pub thread_ts: Option<String>,
    /// The labels of its buttons.
    pub buttons: Vec<String>,
    /// The names of its files.
    pub files: Vec<String>,
    /// Titles and states of the steps that a stream shows.
    pub tasks: Vec<(String, String)>,
    pub reactions: Vec<String>,
    /// Whether it is still growing.
    pub is_streaming: bool,
}

impl SlackMessage {
    fn from_value(message: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let all = |list: &Value, name: &str| -> Vec<String> {
            let items = list.as_array().map_or(&[][..], Vec::as_slice);
            items.iter().map(|item| text(&item[name])).collect()
        };
        let tasks = message["tasks"].as_array().map_or(&[][..], Vec::as_slice);
        let blocks = message["blocks"].as_array().map_or(&[][..], Vec::as_slice);
        let block = blocks.iter().find(|block| block["type"] == "markdown");
        let markdown = block.map_or(&message["stream_markdown"], |block| &block["text"]);
        Self {
            ts: text(&message["ts"]),
            user: text(&message["user"]),
            text: text(&message["text"]),
            markdown: markdown.as_str().map(str::to_owned),
            thread_ts: message["thread_ts"].as_str().map(str::to_owned),
            buttons: buttons(message)
                .map(|(_, button)| text(&button["text"]["text"]))
                .collect(),
            files: all(&message["files"], "name"),
            tasks: tasks
                .iter()
                .map(|task| (text(&task["title"]), text(&task["status"])))
                .collect(),
            reactions: all(&message["reactions"], "name"),
            is_streaming: message["is_streaming"] == true,
        }
    }

    /// Whether it notifies many people at once. Slack looks for such references in Markdown, too.
    #[must_use]
    pub fn calls_many(&self) -> bool {
        let shown = self.markdown.as_ref().unwrap_or(&self.text);
        ["<!channel", "<!here", "<!everyone", "<!subteam"]
            .iter()
            .any(|reference| shown.contains(reference))
    }
}

/// The buttons of a message, each with the id of its block.
fn buttons(message: &Value) -> impl Iterator<Item = (Value, &Value)> {
    let blocks = message["blocks"].as_array().map_or(&[][..], Vec::as_slice);
    blocks.iter().flat_map(|block| {
        let elements = block["elements"].as_array().map_or(&[][..], Vec::as_slice);
        let is_button = |element: &&Value| element["type"] == "button";
        let id = block["block_id"].clone();
        elements
            .iter()
            .filter(is_button)
            .map(move |button| (id.clone(), button))
    })
}

impl SlackServer {
    /// Slack, for the bot with this token and the app with that one.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    pub fn start(bot_token: &str, app_token: &str) -> Self {
        let server = PlatformServer::slack(bot_token);
        server.server.slack.lock().install_app(app_token);
        Self { server }
    }

    /// Closes all connections and the listener: an outage.
    pub fn stop(&mut self) {
        self.server.stop();
        self.state().sockets.forget_open();
    }

    /// The end of an outage.
    pub fn resume(&mut self) {
        self.server.resume();
    }

    fn state(&self) -> std::sync::MutexGuard<'_, super::workspace::SlackWorkspaceState> {
        self.server.server.slack.lock()
    }

    pub fn add_user(&self, id: &str, name: &str) {
        let user = json!({
            "id": id, "team_id": SLACK_TEAM, "name": name.to_lowercase(), "real_name": name, "is_bot": false,
            "profile": {"display_name": name, "real_name": name},
        });
        self.state().users.insert(id.to_owned(), user);
    }

    pub fn add_channel(&self, id: &str, name: &str) {
        let record = SlackChannel::new(id, name);
        self.state().channels.insert(id.to_owned(), record);
    }

    pub fn archive_channel(&self, id: &str) {
        if let Some(record) = self.state().channels.get_mut(id) {
            record.info["is_archived"] = json!(true);
        }
    }

    /// The channel of the bot and a user.
    pub fn direct_channel(&self, user: &str) -> String {
        self.state().open_direct(user)
    }

    /// Somebody writes. Returns the time of the message, which is its id.
    ///
    /// # Panics
    ///
    /// If the channel cannot be written to.
    pub fn write(&self, post: &SlackPost) -> String {
        let address = self.server.server.address;
        let mut state = self.state();
        let ts = state.next_ts(|| self.server.server.next_id());
        let mut message = json!({
            "type": "message", "user": post.user, "text": post.text, "ts": ts, "team": SLACK_TEAM,
            "client_msg_id": state.next_name("client-"),
        });
        if let Some(thread) = &post.thread {
            message["thread_ts"] = json!(thread);
        }
        let mut described = Vec::new();
        for (name, content) in &post.files {
            let id = state.next_name("F");
            let file = SlackFile {
                name: name.clone(),
                title: name.clone(),
                mime_type: files::guess_type(name).to_owned(),
                length: content.len(),
                content: Some(content.clone()),
            };
            described.push(file.describe(&id, address));
            state.files.insert(id, file);
        }
        if !described.is_empty() {
            message["files"] = json!(described);
            message["subtype"] = json!("file_share");
        }
        for (name, value) in post.others.as_object().into_iter().flatten() {
            message[name.as_str()] = value.clone();
        }
        let added = state.add_message(&post.channel, message.clone());
        added.unwrap_or_else(|error| panic!("{}: {error}", post.channel));
        events::send_message_event(&mut state, &post.channel, &message);
        ts
    }

    /// Somebody changes a message.
    ///
    /// # Panics
    ///
    /// If there is no such message.
    pub fn change_message(&self, channel: &str, ts: &str, text: &str) {
        let mut state = self.state();
        let message = state
            .message(channel, ts)
            .unwrap_or_else(|error| panic!("{ts}: {error}"));
        let before = message.clone();
        message["text"] = json!(text);
        let after = message.clone();
        events::send_change_event(&mut state, channel, &before, &after);
    }

    /// Somebody presses a button, by its label.
    ///
    /// # Panics
    ///
    /// If the message has no such button.
    pub fn press_button(&self, user: &str, channel: &str, ts: &str, label: &str) {
        let mut state = self.state();
        let message = state
            .message(channel, ts)
            .unwrap_or_else(|error| panic!("{ts}: {error}"))
            .clone();
        let found = buttons(&message).find(|(_, button)| button["text"]["text"] == label);
        let (block_id, button) = found.unwrap_or_else(|| panic!("no button `{label}`: {message}"));
        let now = state.next_ts(|| 0);
        let mut action = button.clone();
        action["block_id"] = block_id;
        action["action_ts"] = json!(now);
        let name = state
            .channel(channel)
            .map(|record| record.info["name"].clone());
        let mut container = json!({
            "type": "message", "message_ts": ts, "channel_id": channel, "is_ephemeral": false,
        });
        if !message["thread_ts"].is_null() {
            container["thread_ts"] = message["thread_ts"].clone();
        }
        let payload = json!({
            "type": "block_actions",
            "user": {"id": user, "username": state.users.get(user).map(|user| user["name"].clone()),
                     "name": state.users.get(user).map(|user| user["name"].clone()), "team_id": SLACK_TEAM},
            "api_app_id": SLACK_APP, "token": "verification-token", "container": container,
            "trigger_id": state.next_name("trigger-"), "team": {"id": SLACK_TEAM, "domain": "testers"},
            "channel": {"id": channel, "name": name.unwrap_or_default()}, "message": message,
            "response_url": format!("http://{}/actions/secret", self.server.server.address),
            "state": {"values": {}}, "actions": [action],
        });
        events::send_interaction(&mut state, "interactive", &payload);
    }

    /// Somebody types a command, with its slash.
    pub fn run_command(&self, user: &str, channel: &str, command: &str, text: &str) {
        let mut state = self.state();
        let name = match state
            .channel(channel)
            .map(|record| record.info["name"].clone())
        {
            Ok(Value::String(name)) => name,
            _ => "directmessage".to_owned(),
        };
        let payload = json!({
            "token": "verification-token", "team_id": SLACK_TEAM, "team_domain": "testers", "channel_id": channel,
            "channel_name": name, "user_id": user,
            "user_name": state.users.get(user).map(|user| user["name"].clone()),
            "command": command, "text": text, "api_app_id": SLACK_APP, "is_enterprise_install": "false",
            "response_url": format!("http://{}/commands/secret", self.server.server.address),
            "trigger_id": state.next_name("trigger-"),
        });
        events::send_interaction(&mut state, "slash_commands", &payload);
    }

    /// Somebody presses the button that stops the answer in a thread. Streams in it end at once.
    pub fn stop_answer(&self, user: &str, channel: &str, thread: &str) {
        let mut state = self.state();
        let mut stopped = Vec::new();
        if let Ok(record) = state.channel(channel) {
            let is_stopped =
                |message: &Value| message["thread_ts"] == thread && message["is_streaming"] == true;
            for message in record
                .messages
                .iter_mut()
                .filter(|message| is_stopped(message))
            {
                message["is_streaming"] = json!(false);
                stopped.push(message["ts"].clone());
            }
        }
        let now = state.next_ts(|| 0);
        let event = json!({
            "type": "agent_session_stopped", "channel": channel, "thread_ts": thread, "user": user,
            "streaming_message_ts": stopped, "event_ts": now,
        });
        events::send_event(&mut state, &event);
    }

    /// Sends an event as it is.
    pub fn send_event(&self, event: &Value) {
        events::send_event(&mut self.state(), event);
    }

    /// Sends anything over a socket.
    pub fn send_envelope(&self, envelope: Value) {
        self.state().sockets.deliver(envelope);
    }

    /// Sends the last event again, as if it had not been acknowledged.
    pub fn redeliver_last(&self) {
        let mut state = self.state();
        let is_event = |envelope: &&Value| envelope["type"] == "events_api";
        let last = state.sockets.sent.iter().rev().find(is_event).cloned();
        if let Some(envelope) = last {
            let again = repeat_envelope(&mut state, &envelope, "http_timeout");
            state.sockets.deliver(again);
        }
    }

    /// What people see in a channel, oldest first.
    pub fn messages(&self, channel: &str) -> Vec<SlackMessage> {
        let state = self.state();
        let record = state.channels.get(channel);
        let messages = record.map_or(&[][..], |record| record.messages.as_slice());
        messages.iter().map(SlackMessage::from_value).collect()
    }

    /// What the bot wrote in a channel.
    pub fn bot_messages(&self, channel: &str) -> Vec<SlackMessage> {
        let mut messages = self.messages(channel);
        messages.retain(|message| message.user == super::SLACK_BOT_USER);
        messages
    }

    /// What only one person sees: who, and the text.
    pub fn ephemeral_messages(&self, channel: &str) -> Vec<(String, String)> {
        let state = self.state();
        let record = state.channels.get(channel);
        let messages = record.map_or(&[][..], |record| record.ephemeral.as_slice());
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        messages
            .iter()
            .map(|message| (text(&message["ephemeral_for"]), text(&message["text"])))
            .collect()
    }

    /// The status that is shown in a thread.
    pub fn session_status(&self, channel: &str, thread: &str) -> Option<String> {
        let key = (channel.to_owned(), thread.to_owned());
        self.state().session_status.get(&key).cloned()
    }

    /// How many sockets are open.
    pub fn open_sockets(&self) -> usize {
        self.state().sockets.open_count()
    }

    /// How many sockets were opened so far.
    pub fn opened_sockets(&self) -> u64 {
        self.state().sockets.opened
    }

    /// The envelopes that were acknowledged; `response` is what came with it.
    pub fn acknowledged(&self) -> Vec<Value> {
        self.state().sockets.acknowledged.clone()
    }

    /// The envelopes that were sent over sockets.
    pub fn sent_envelopes(&self) -> Vec<Value> {
        self.state().sockets.sent.clone()
    }

    /// The envelopes that nobody was there for, or that nobody acknowledged in the end.
    pub fn lost_envelopes(&self) -> Vec<Value> {
        self.state().sockets.lost.clone()
    }

    /// Tells every open socket to go: `warning`, `refresh_requested` or `link_disabled`. They are closed after a while.
    pub fn disconnect(&self, reason: &str, close_after: Duration) {
        self.state().sockets.disconnect_all(reason, close_after);
    }

    /// Cuts every connection without a word.
    pub fn cut_sockets(&self) {
        self.state().sockets.cut_all();
    }

    /// Lets every socket hang: it stays open, and nothing comes or is answered.
    pub fn freeze_sockets(&self) {
        self.state().sockets.freeze_all();
    }

    /// Another time to wait for acknowledgements than 3 s.
    pub fn set_ack_timeout(&self, timeout: Duration) {
        self.state().ack_timeout = timeout;
    }

    /// The bot's token is not valid any more.
    pub fn revoke_token(&self) {
        self.state().is_revoked = true;
    }

    /// Takes a scope away.
    pub fn remove_scope(&self, scope: &str) {
        self.state().scopes.remove(scope);
    }

    /// Lets a method be unknown, as it is to an older Slack.
    pub fn forget_method(&self, method: &str) {
        self.state().unknown_methods.insert(method.to_owned());
    }
}
