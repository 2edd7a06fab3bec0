//! Sixteen bots on three platforms, with four MCP servers and nothing to do.

use std::{thread, time::Duration};

use anyhow::{Context, Result};
use hermes_mcp::Era;
use hermes_testkit::{
    TemporaryHome,
    platform::{DiscordServer, SlackServer, TelegramServer},
};
use serde_json::{Map, Value, json};

use super::gateway_process::GatewayProcess;
use crate::{
    environment::{Effort, Programs, light_server},
    report::{Quantity, Report, ReportRow, Target},
};

/// 45 MB in KiB.
const MEMORY: Target = Target::Below(Quantity::Memory(43_945));
const PROCESSOR: Target = Target::Below(Quantity::Share(0.5));
const SETTLE_TIME: Duration = Duration::from_secs(5);
const SERVERS: usize = 4;

/// The platforms' servers, which stop when dropped.
struct IdlePlatforms {
    telegram: Vec<TelegramServer>,
    discord: Vec<DiscordServer>,
    slack: Vec<SlackServer>,
}

impl IdlePlatforms {
    fn start() -> Self {
        let token = |platform: &str, number: usize| format!("{}:{platform}", 1_000 + number);
        Self {
            telegram: (0..6)
                .map(|number| TelegramServer::start(&token("telegram", number)))
                .collect(),
            discord: (0..5)
                .map(|number| DiscordServer::start(&token("discord", number)))
                .collect(),
            slack: (0..5)
                .map(|number| {
                    SlackServer::start(&format!("xoxb-{number}"), &format!("xapp-{number}"))
                })
                .collect(),
        }
    }

    /// The blocks of the configuration: the first bot of each platform, the others as accounts.
    fn config(&self) -> Map<String, Value> {
        let telegram = self.telegram.iter().enumerate().map(|(number, server)| {
            json!({
                "token": format!("{}:telegram", 1_000 + number),
                "extra": {"base_url": server.base_url()},
            })
        });
        let discord = self.discord.iter().enumerate().map(|(number, server)| {
            json!({
                "token": format!("{}:discord", 1_000 + number),
                "extra": {"base_url": server.base_url()},
            })
        });
        let slack = self.slack.iter().enumerate().map(|(number, server)| {
            json!({
                "token": format!("xoxb-{number}"), "app_token": format!("xapp-{number}"),
                "extra": {"base_url": server.base_url()},
            })
        });
        let mut config = Map::new();
        config.insert("telegram".into(), account_block(telegram));
        config.insert("discord".into(), account_block(discord));
        config.insert("slack".into(), account_block(slack));
        config
    }
}

fn account_block(accounts: impl Iterator<Item = Value>) -> Value {
    let mut block = json!({});
    let mut further = Map::new();
    for (number, account) in accounts.enumerate() {
        if number == 0 {
            block = account;
        } else {
            further.insert(format!("bot{number}"), account);
        }
    }
    block["accounts"] = Value::Object(further);
    block
}

pub(super) fn measure(programs: &Programs, effort: Effort, report: &mut Report) -> Result<()> {
    let time = match effort {
        Effort::Full => Duration::from_mins(1),
        Effort::Quick => Duration::from_secs(3),
    };
    let platforms = IdlePlatforms::start();
    let port = hermes_testkit::ReservedPort::reserve()?;
    let mut config = platforms.config();
    let entry = programs.stdio_entry(&light_server(Era::Legacy));
    let servers: Map<String, Value> = (0..SERVERS)
        .map(|number| (format!("s{number}"), entry.clone()))
        .collect();
    config.insert("mcp_servers".into(), Value::Object(servers));
    config.insert("api_server".into(), json!({"port": port.number()}));
    let home = TemporaryHome::with_config(&Value::Object(config).to_string());
    home.write_env("API_SERVER_KEY=0123456789abcdef0123\n");
    let gateway = GatewayProcess::start(programs, home.path(), port.number())?;
    thread::sleep(SETTLE_TIME);
    let state = std::fs::read_to_string(home.path().join("gateway_state.json"))?;
    let state: Value = serde_json::from_str(&state)?;
    let states = state["platforms"].as_object().context("no platforms")?;
    let connected = states
        .values()
        .filter(|platform| platform["state"] == "connected");
    // The API is listed with the platforms.
    let connected = u32::try_from(connected.count())?.saturating_sub(1);
    report.add(ReportRow::new(
        "idle bots that are connected",
        Quantity::Count(connected),
        Some(Quantity::Count(16)),
        Target::Equal,
    ));
    let before = gateway.processor_time()?;
    thread::sleep(time);
    let used = gateway.processor_time()?.saturating_sub(before);
    report.add(ReportRow::new(
        "16 idle bots, 4 MCP servers: RSS",
        Quantity::Memory(gateway.memory("VmRSS")?),
        None,
        MEMORY,
    ));
    report.add(ReportRow::new(
        "the same, processor",
        Quantity::Share(100.0 * used.as_secs_f64() / time.as_secs_f64()),
        None,
        PROCESSOR,
    ));
    gateway.stop()
}
