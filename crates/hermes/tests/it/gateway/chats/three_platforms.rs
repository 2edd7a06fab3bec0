//! A home whose bot is on Telegram, Discord and Slack, and somebody on each who may write to it in private.

use hermes_testkit::platform::{DiscordServer, SlackPost, SlackServer};

use super::*;

const DISCORD_TOKEN: &str = "discord-token-of-the-tests";
const SLACK_USER: &str = "U1";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChatPlatform {
    Telegram,
    Discord,
    Slack,
}

impl ChatPlatform {
    pub(super) const ALL: [Self; 3] = [Self::Telegram, Self::Discord, Self::Slack];

    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Telegram => "telegram",
            Self::Discord => "discord",
            Self::Slack => "slack",
        }
    }
}

pub(super) struct ThreePlatformHome {
    pub(super) home: ChatHome,
    pub(super) discord: DiscordServer,
    pub(super) slack: SlackServer,
    pub(super) discord_user: String,
    /// The private channels.
    pub(super) discord_chat: String,
    pub(super) slack_chat: String,
}

impl ThreePlatformHome {
    pub(super) fn new(script: ModelScript) -> Self {
        Self::with_more(script, "")
    }

    pub(super) fn with_more(script: ModelScript, more: &str) -> Self {
        let home = ChatHome::with_more(script, more);
        let discord = DiscordServer::start(DISCORD_TOKEN);
        let discord_user = discord.add_user("bob");
        let slack = SlackServer::start("xoxb-of-the-tests", "xapp-of-the-tests");
        slack.add_user(SLACK_USER, "carol");
        let env = format!(
            "DISCORD_BOT_TOKEN={DISCORD_TOKEN}\nDISCORD_BASE_URL={}\nDISCORD_ALLOWED_USERS={discord_user}\n\
             SLACK_BOT_TOKEN=xoxb-of-the-tests\nSLACK_APP_TOKEN=xapp-of-the-tests\nSLACK_BASE_URL={}\n\
             SLACK_ALLOWED_USERS={SLACK_USER}\n",
            discord.base_url(),
            slack.base_url()
        );
        std::fs::write(home.gateway.home.path().join(".env"), env).unwrap();
        Self {
            discord_chat: discord.open_dm(&discord_user),
            slack_chat: slack.direct_channel(SLACK_USER),
            home,
            discord,
            slack,
            discord_user,
        }
    }

    /// Starts a gateway and waits until it listens to all of them.
    pub(super) fn start(&self) -> GatewayProcess {
        let gateway = self.home.start();
        for platform in ChatPlatform::ALL {
            wait_until(platform.label(), || {
                gateway.platform(platform.label())["state"] == "connected"
            });
        }
        gateway
    }

    pub(super) fn say(&self, platform: ChatPlatform, text: &str) {
        match platform {
            ChatPlatform::Telegram => {
                self.home.telegram.say(ADA, text);
            }
            ChatPlatform::Discord => {
                self.discord
                    .say(&self.discord_chat, &self.discord_user, text);
            }
            ChatPlatform::Slack => {
                let post = SlackPost::new(SLACK_USER, &self.slack_chat, text);
                self.slack.write(&post);
            }
        }
    }

    /// The texts that the bot has written, as they are now.
    pub(super) fn answers(&self, platform: ChatPlatform) -> Vec<String> {
        match platform {
            ChatPlatform::Telegram => self.home.telegram.answers(ADA),
            ChatPlatform::Discord => {
                let messages = self.discord.answers(&self.discord_chat).into_iter();
                messages.map(|message| message.text).collect()
            }
            ChatPlatform::Slack => {
                let messages = self.slack.bot_messages(&self.slack_chat).into_iter();
                messages.map(|message| message.text).collect()
            }
        }
    }

    /// Waits until the bot has written so many messages, and returns them.
    #[track_caller]
    pub(super) fn wait_for_answers(&self, platform: ChatPlatform, count: usize) -> Vec<String> {
        wait_until(platform.label(), || self.answers(platform).len() >= count);
        self.answers(platform)
    }
}
