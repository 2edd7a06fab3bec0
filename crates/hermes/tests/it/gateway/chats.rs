//! Conversations on a platform: a bot on a fake Telegram, a gateway process, a model that answers by script.

mod answers;
mod approvals;
mod bridge;
mod commands;
mod groups;
mod isolation;
mod media;
mod platforms;
mod recovery;

use hermes_testkit::{
    model::{ModelCall, ModelScript, ScriptedAnswer},
    platform::TelegramServer,
};
use serde_json::Value;

use super::*;
use crate::harness::test_home::wait_until;

const TOKEN: &str = "123456:bot-token-of-the-tests";
/// Somebody who may use the bot.
const ADA: i64 = 7001;
/// Somebody who may not.
const EVE: i64 = 7666;

/// A home whose bot is on Telegram.
struct ChatHome {
    gateway: GatewayHome,
    telegram: TelegramServer,
}

impl ChatHome {
    fn new(script: ModelScript) -> Self {
        Self::with_more(script, "")
    }

    fn with_more(script: ModelScript, more: &str) -> Self {
        let gateway = GatewayHome::with_more(script, more);
        let telegram = TelegramServer::start(TOKEN);
        telegram.add_user(ADA, "Ada");
        telegram.add_user(EVE, "Eve");
        Self { gateway, telegram }
    }

    /// Starts a gateway and waits until it listens to Telegram.
    fn start(&self) -> GatewayProcess {
        let mut command = self.gateway.home.command(&["gateway", "run"]);
        command
            .env("API_SERVER_KEY", KEY)
            .env("TELEGRAM_BOT_TOKEN", TOKEN)
            .env("TELEGRAM_BASE_URL", self.telegram.base_url())
            .env("TELEGRAM_ALLOWED_USERS", ADA.to_string());
        let mut process = BackgroundProcess::start(command);
        let line = process.wait_for("HTTP API on http://");
        let address = line.split("http://").nth(1).unwrap().trim().to_owned();
        let gateway = GatewayProcess { process, address };
        wait_until("Telegram is connected", || {
            gateway.platform("telegram")["state"] == "connected"
        });
        gateway
    }

    /// Waits until the bot has written so many messages in a chat, and returns them.
    #[track_caller]
    fn wait_for_answers(&self, chat: i64, count: usize) -> Vec<String> {
        wait_until("answers", || self.telegram.answers(chat).len() >= count);
        self.telegram.answers(chat)
    }

    /// What the model was asked, without titles.
    fn turns(&self) -> Vec<ModelCall> {
        let calls = self.gateway.model.requests().into_iter();
        calls
            .filter(|call| !call.body.to_string().contains("Write a title"))
            .collect()
    }

    /// The messages of the last request of a turn.
    fn last_turn(&self) -> Value {
        self.turns().pop().unwrap().body["messages"].clone()
    }
}

impl GatewayProcess {
    fn platform(&self, label: &str) -> Value {
        self.get("/health/detailed")["platforms"][label].clone()
    }
}
