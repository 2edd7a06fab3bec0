//! Messages with buttons on every platform, and people who press them.

use hermes_config::Home;
use hermes_store::runtime::RuntimeStore;

use super::{three_platforms::*, *};

/// A message of the bot as somebody sees it.
#[derive(Debug, Clone)]
pub(super) struct SeenMessage {
    pub(super) id: String,
    pub(super) text: String,
    /// The labels of its buttons, and where they lead or what they carry, as far as people see that.
    pub(super) buttons: Vec<(String, String)>,
}

impl SeenMessage {
    pub(super) fn labels(&self) -> Vec<&str> {
        self.buttons
            .iter()
            .map(|(label, _)| label.as_str())
            .collect()
    }
}

impl ThreePlatformHome {
    /// What the bot has written, as it is now.
    pub(super) fn seen(&self, platform: ChatPlatform) -> Vec<SeenMessage> {
        match platform {
            ChatPlatform::Telegram => self.home.seen(),
            ChatPlatform::Discord => {
                let messages = self.discord.answers(&self.discord_chat).into_iter();
                let seen = messages.map(|message| SeenMessage {
                    id: message.id,
                    text: message.text,
                    buttons: message
                        .buttons
                        .into_iter()
                        .map(|button| (button.label, button.target))
                        .collect(),
                });
                seen.collect()
            }
            ChatPlatform::Slack => {
                let messages = self.slack.bot_messages(&self.slack_chat).into_iter();
                let seen = messages.map(|message| SeenMessage {
                    id: message.ts,
                    text: message.text,
                    buttons: message
                        .buttons
                        .into_iter()
                        .map(|label| (label, String::new()))
                        .collect(),
                });
                seen.collect()
            }
        }
    }

    /// Waits for a message with this text and buttons.
    #[track_caller]
    pub(super) fn wait_for_question(&self, platform: ChatPlatform, text: &str) -> SeenMessage {
        let find = || {
            let mut seen = self.seen(platform).into_iter();
            seen.rfind(|message| message.text.contains(text) && !message.buttons.is_empty())
        };
        wait_until(text, || find().is_some());
        find().unwrap()
    }

    /// Waits until a message has this text.
    #[track_caller]
    pub(super) fn wait_for_change(&self, platform: ChatPlatform, id: &str, text: &str) {
        wait_until(text, || {
            let seen = self.seen(platform);
            seen.iter()
                .any(|message| message.id == id && message.text.contains(text))
        });
    }

    #[track_caller]
    pub(super) fn press(&self, platform: ChatPlatform, message: &SeenMessage, label: &str) {
        match platform {
            ChatPlatform::Telegram => {
                self.home.press_label(message, label);
            }
            ChatPlatform::Discord => {
                let (_, data) = message
                    .buttons
                    .iter()
                    .find(|(known, _)| known == label)
                    .unwrap();
                let chat = &self.discord_chat;
                let token = self
                    .discord
                    .press(chat, &message.id, data, &self.discord_user);
                wait_until("it is confirmed", || {
                    self.discord.interaction(&token).callback.is_some()
                });
            }
            ChatPlatform::Slack => {
                let chat = &self.slack_chat;
                self.slack.press_button("U1", chat, &message.id, label);
            }
        }
    }
}

impl ChatHome {
    /// What the bot has written to Ada, as it is now.
    pub(super) fn seen(&self) -> Vec<SeenMessage> {
        self.seen_in(ADA)
    }

    pub(super) fn seen_in(&self, chat: i64) -> Vec<SeenMessage> {
        let messages = self.telegram.messages(chat).into_iter();
        let own = messages.filter(|message| message.is_from_bot);
        own.map(|message| SeenMessage {
            id: message.id.to_string(),
            text: message.text,
            buttons: message.buttons.into_iter().flatten().collect(),
        })
        .collect()
    }

    /// Waits for a message to Ada with this text and buttons.
    #[track_caller]
    pub(super) fn wait_for_question(&self, text: &str) -> SeenMessage {
        self.wait_for_question_in(ADA, text)
    }

    #[track_caller]
    pub(super) fn wait_for_question_in(&self, chat: i64, text: &str) -> SeenMessage {
        let find = || {
            let mut seen = self.seen_in(chat).into_iter();
            seen.rfind(|message| message.text.contains(text) && !message.buttons.is_empty())
        };
        wait_until(text, || find().is_some());
        find().unwrap()
    }

    /// Waits until a message has this text, and returns it.
    #[track_caller]
    pub(super) fn wait_for_change(&self, id: &str, text: &str) -> SeenMessage {
        let find = || {
            let mut seen = self.seen().into_iter();
            seen.find(|message| message.id == id && message.text.contains(text))
        };
        wait_until(text, || find().is_some());
        find().unwrap()
    }

    /// Ada presses a button. Returns what she is told.
    #[track_caller]
    pub(super) fn press_label(&self, message: &SeenMessage, label: &str) -> String {
        self.press_label_as(ADA, ADA, message, label)
    }

    #[track_caller]
    pub(super) fn press_label_as(
        &self,
        chat: i64,
        user: i64,
        message: &SeenMessage,
        label: &str,
    ) -> String {
        let found = message.buttons.iter().find(|(known, _)| known == label);
        let (_, data) = found.unwrap_or_else(|| panic!("no button `{label}`: {message:?}"));
        let id = message.id.parse().unwrap();
        let pressed = self.telegram.press(chat, user, id, data);
        wait_until("it is confirmed", || {
            self.telegram.button_answer(&pressed).is_some()
        });
        self.telegram.button_answer(&pressed).unwrap()
    }

    /// The results of tools that the model was told, without spaces.
    pub(super) fn results(&self) -> Vec<String> {
        let turns = self.turns();
        let Some(last) = turns.last() else {
            return Vec::new();
        };
        let messages = last.body["messages"].as_array().unwrap().iter();
        messages
            .filter(|message| message["role"] == "tool")
            .map(|message| message["content"].to_string())
            .map(|text| text.replace('\\', "").split_whitespace().collect())
            .collect()
    }

    /// Waits until the model is told so many results in one conversation, and returns the last one.
    #[track_caller]
    pub(super) fn wait_for_result(&self, count: usize) -> String {
        wait_until("a result", || self.results().len() >= count);
        self.results().pop().unwrap()
    }
}

impl GatewayHome {
    /// The run that waits for an approval.
    pub(super) fn run_of_approval(&self, id: &str) -> String {
        let home = Home::at(self.home.path());
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let store = RuntimeStore::open(&home).await.unwrap();
            let found = store.approval(id).await.unwrap();
            store.close().await;
            found.unwrap().run_id.unwrap()
        })
    }
}
