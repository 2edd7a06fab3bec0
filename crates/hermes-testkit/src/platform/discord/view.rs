//! What people see now.

use serde_json::Value;

use super::DiscordServer;

/// A message as it looks now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiscordMessage {
    pub id: String,
    pub author: String,
    pub text: String,
    pub buttons: Vec<DiscordButton>,
    /// Names of its files.
    pub files: Vec<String>,
    /// How long it takes, in milliseconds, if it is something spoken.
    pub spoken_ms: Option<u64>,
    pub reply_to: Option<String>,
    pub reactions: Vec<String>,
    pub is_edited: bool,
    /// People and roles that were told.
    pub mentions: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiscordButton {
    pub label: String,
    /// The custom id, or the address of a link.
    pub target: String,
    pub is_link: bool,
}

/// What became of a pressed button or a used command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiscordAnswer {
    /// The type of the first reply; `None` if there was none.
    pub callback: Option<u64>,
    /// What only whoever did it sees.
    pub notices: Vec<String>,
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

impl DiscordMessage {
    fn from_value(message: &Value) -> Self {
        let buttons = list(&message["components"]).flat_map(|row| list(&row["components"]));
        Self {
            id: text(&message["id"]),
            author: text(&message["author"]["id"]),
            text: text(&message["content"]),
            buttons: buttons
                .map(|button| DiscordButton {
                    label: text(&button["label"]),
                    target: text(&button["custom_id"]) + &text(&button["url"]),
                    is_link: button["style"] == 5,
                })
                .collect(),
            files: list(&message["attachments"])
                .map(|file| text(&file["filename"]))
                .collect(),
            spoken_ms: spoken_milliseconds(message),
            reply_to: message["message_reference"]["message_id"]
                .as_str()
                .map(str::to_owned),
            reactions: list(&message["reactions"])
                .map(|reaction| text(&reaction["emoji"]["name"]))
                .collect(),
            is_edited: !message["edited_timestamp"].is_null(),
            mentions: list(&message["mentions"])
                .map(|user| text(&user["id"]))
                .chain(list(&message["mention_roles"]).map(text))
                .collect(),
        }
    }
}

fn spoken_milliseconds(message: &Value) -> Option<u64> {
    let is_voice = message["flags"].as_u64().unwrap_or_default() & (1 << 13) != 0;
    let seconds = message["attachments"][0]["duration_secs"].as_f64()?;
    let length = std::time::Duration::try_from_secs_f64(seconds).ok()?;
    is_voice.then(|| u64::try_from(length.as_millis()).unwrap_or(u64::MAX))
}

impl DiscordServer {
    /// The messages of a channel, oldest first.
    pub fn messages(&self, channel: &str) -> Vec<DiscordMessage> {
        let data = self.data();
        let messages = data.channels.get(channel).map(|record| &record.messages);
        let messages = messages.into_iter().flatten();
        messages.map(DiscordMessage::from_value).collect()
    }

    /// Messages of the bot only.
    pub fn answers(&self, channel: &str) -> Vec<DiscordMessage> {
        let mut messages = self.messages(channel);
        messages.retain(|message| message.author == super::DISCORD_BOT);
        messages
    }

    /// The threads of a channel: their numbers and names.
    pub fn threads(&self, channel: &str) -> Vec<(String, String)> {
        let data = self.data();
        let records = data.channels.values();
        records
            .filter(|record| record.value["parent_id"] == channel)
            .map(|record| (text(&record.value["id"]), text(&record.value["name"])))
            .collect()
    }

    /// What became of an interaction, by its token.
    pub fn interaction(&self, token: &str) -> DiscordAnswer {
        let data = self.data();
        let known = &data.interactions[token];
        let notices = known.ephemeral.iter();
        DiscordAnswer {
            callback: known.callback,
            notices: notices.map(|message| text(&message["content"])).collect(),
        }
    }

    /// The content of a file of a message.
    pub fn file(&self, name: &str) -> Option<Vec<u8>> {
        let data = self.data();
        let mut files = data.files.iter().rev();
        let (_, content) = files.find(|(path, _)| path.ends_with(&format!("/{name}")))?;
        Some(content.clone())
    }

    /// How often the bot showed that it is typing in a channel.
    pub fn typing_count(&self, channel: &str) -> usize {
        let data = self.data();
        data.typing.iter().filter(|place| *place == channel).count()
    }

    /// The names of the registered commands.
    pub fn commands(&self) -> Vec<String> {
        let data = self.data();
        data.commands
            .iter()
            .map(|command| text(&command["name"]))
            .collect()
    }
}
