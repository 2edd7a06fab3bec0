//! Conversations on a platform: a bot on a fake Telegram, a gateway process, a model that answers by script.

mod answers;
mod approvals;
mod bridge;
mod commands;
mod cron_delivery;
mod deciding;
mod elicitation;
mod everywhere;
mod faults;
mod groups;
mod hostile_text;
mod isolation;
mod kills;
mod media;
mod menu_commands;
mod message_ids;
mod network;
mod own_ways;
mod platforms;
mod pressing;
mod real_servers;
mod recovery;
mod sessions_and_servers;
mod steering;
mod three_platforms;
mod under_up;

use hermes_testkit::{
    model::{ModelCall, ModelScript, ScriptedAnswer},
    platform::TelegramServer,
};
use serde_json::Value;

use super::*;
use crate::harness::test_home::{assert_once_within, wait_until};

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
        self.start_command(self.gateway.home.command(&["gateway", "run"]))
    }

    /// The same for a gateway that survives [`limit_files`].
    fn start_with_limits(&self) -> GatewayProcess {
        let program = self.gateway.home.command(&[]);
        let mut command = std::process::Command::new("sh");
        // The limit is an error then, and not the end.
        command.args(["-c", "trap '' XFSZ; exec \"$0\" gateway run -v"]);
        command.arg(program.get_program()).env_clear();
        command.envs(
            program
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        );
        command.stdin(std::process::Stdio::null());
        self.start_command(command)
    }

    fn start_command(&self, mut command: std::process::Command) -> GatewayProcess {
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

    fn config(&self) -> String {
        std::fs::read_to_string(self.gateway.home.config()).unwrap()
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

/// The largest file that a gateway may write; `None` for no limit. With 0 it is as if the disk were full.
fn limit_files(gateway: &GatewayProcess, bytes: Option<u64>) {
    let pid = i32::try_from(gateway.process.pid()).unwrap();
    let limit = rustix::process::Rlimit {
        current: bytes,
        maximum: None,
    };
    let pid = rustix::process::Pid::from_raw(pid);
    rustix::process::prlimit(pid, rustix::process::Resource::Fsize, limit).unwrap();
}
