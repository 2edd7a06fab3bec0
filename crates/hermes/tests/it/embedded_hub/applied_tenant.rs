//! A tenant made by one document: model, sandboxed MCP server, skill, bots and share, at work from its first message on.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use hermes_testkit::{
    eventually,
    model::{ModelScript, ModelServer, ScriptedAnswer, ScriptedUsage},
    platform::{DiscordServer, SlackPost, SlackServer, TelegramServer},
};
use serde_json::{Value, json};

use super::real_hub::{RealHub, TIMEOUT};
use crate::harness::program::installed;

const TELEGRAM_TOKEN: &str = "123456:bot-of-acme";
const DISCORD_TOKEN: &str = "discord-token-of-acme";
const SLACK_TOKENS: [&str; 2] = ["xoxb-of-acme", "xapp-of-acme"];
/// Somebody on Telegram, and somebody on Slack, who may write to the bot.
const ADA: i64 = 7001;
const CAROL: &str = "U1";

/// The people of a chat on each platform, and what they are told.
struct Chats {
    telegram: TelegramServer,
    discord: DiscordServer,
    discord_user: String,
    discord_chat: String,
    slack: SlackServer,
    slack_chat: String,
}

impl Chats {
    fn new() -> Self {
        let telegram = TelegramServer::start(TELEGRAM_TOKEN);
        telegram.add_user(ADA, "Ada");
        let discord = DiscordServer::start(DISCORD_TOKEN);
        let discord_user = discord.add_user("bob");
        let [bot, app] = SLACK_TOKENS;
        let slack = SlackServer::start(bot, app);
        slack.add_user(CAROL, "carol");
        Self {
            discord_chat: discord.open_dm(&discord_user),
            slack_chat: slack.direct_channel(CAROL),
            telegram,
            discord,
            discord_user,
            slack,
        }
    }

    fn say(&self, platform: &str, text: &str) {
        match platform {
            "telegram" => {
                self.telegram.say(ADA, text);
            }
            "discord" => {
                self.discord
                    .say(&self.discord_chat, &self.discord_user, text);
            }
            _ => {
                let post = SlackPost::new(CAROL, &self.slack_chat, text);
                self.slack.write(&post);
            }
        }
    }

    fn answers(&self, platform: &str) -> String {
        match platform {
            "telegram" => self.telegram.answers(ADA).join("\n"),
            "discord" => {
                let messages = self.discord.answers(&self.discord_chat).into_iter();
                messages.map(|message| message.text + "\n").collect()
            }
            _ => {
                let messages = self.slack.bot_messages(&self.slack_chat).into_iter();
                messages.map(|message| message.text + "\n").collect()
            }
        }
    }

    async fn wait_for_answer(&self, platform: &str, text: &str) {
        let is_there = || self.answers(platform).contains(text);
        assert!(
            eventually(TIMEOUT, is_there).await,
            "no `{text}` on {platform} in {:?}",
            self.answers(platform)
        );
    }
}

/// A server that others wrote, where a tenant's own user can read it: `node`, and the script.
fn everything_server(place: &Path) -> Option<[PathBuf; 2]> {
    let script = installed("HERMES_TEST_NPM", "mcp-server-everything")?;
    let node = installed("HERMES_TEST_NODE", "")?;
    fs::create_dir(place).unwrap();
    fs::set_permissions(place, fs::Permissions::from_mode(0o755)).unwrap();
    let own = [place.join("node"), place.join("node_modules")];
    if fs::hard_link(&node, &own[0]).is_err() {
        fs::copy(&node, &own[0]).unwrap();
    }
    let script = script.canonicalize().unwrap();
    let modules = script
        .ancestors()
        .find(|path| path.ends_with("node_modules"))
        .unwrap();
    let copied = Command::new("cp")
        .arg("-a")
        .args([modules, &own[1]])
        .output();
    let copied = copied.unwrap();
    assert!(copied.status.success(), "{copied:?}");
    let script = own[1].join(script.strip_prefix(modules).unwrap());
    let [node, _] = own;
    Some([node, script])
}

/// Writes the document and the files beside it.
fn write_document(
    directory: &Path,
    chats: &Chats,
    model: &ModelServer,
    [node, script]: &[PathBuf; 2],
) -> PathBuf {
    let skill = directory.join("skills/review");
    fs::create_dir_all(&skill).unwrap();
    let text =
        "---\nname: review\ndescription: Reviews contracts line by line.\n---\nRead twice.\n";
    fs::write(skill.join("SKILL.md"), text).unwrap();
    let place = node.parent().unwrap();
    let text = format!(
        "id: acme
name: Acme Ltd
groups: {{ division1: write }}
env:
  TELEGRAM_BOT_TOKEN: \"${{env:ACME_TELEGRAM}}\"
  TELEGRAM_BASE_URL: {telegram}
  DISCORD_BOT_TOKEN: {DISCORD_TOKEN}
  DISCORD_BASE_URL: {discord}
  SLACK_BOT_TOKEN: {bot}
  SLACK_APP_TOKEN: {app}
  SLACK_BASE_URL: {slack}
model: {{ model: m, provider: custom, baseUrl: '{model}' }}
mcpServers:
  all:
    command: {node}
    args: ['{script}', stdio]
    connect_timeout: 100
    sandbox: {{ enabled: true, network: deny, read: ['{place}'] }}
skills: [ {{ name: review, path: ./skills/review }} ]
soul: You work for Acme.
files: [ {{ path: notes/start.md, content: Begin here. }} ]
platforms:
  telegram: {{ tokenEnv: TELEGRAM_BOT_TOKEN, allowFrom: ['{ADA}'] }}
  discord: {{ tokenEnv: DISCORD_BOT_TOKEN, allowFrom: ['{bob}'] }}
  slack: {{ tokenEnv: SLACK_BOT_TOKEN, allowFrom: [{CAROL}] }}
limits: {{ runsPerDay: 3 }}
",
        telegram = chats.telegram.base_url(),
        discord = chats.discord.base_url(),
        slack = chats.slack.base_url(),
        model = model.base_url(),
        node = node.display(),
        script = script.display(),
        place = place.display(),
        bob = chats.discord_user,
        bot = SLACK_TOKENS[0],
        app = SLACK_TOKENS[1],
    );
    let file = directory.join("tenant.yaml");
    fs::write(&file, text).unwrap();
    file
}

/// The agent starts while the document is being applied, and reads the rest of its configuration a moment later. The last
/// that is written is about Telegram, whose bot connects anew then.
async fn wait_for_reload(home: &Path) {
    let connected_at = || {
        let state = fs::read_to_string(home.join("gateway_state.json")).ok()?;
        let state: Value = serde_json::from_str(&state).ok()?;
        let telegram = &state["platforms"]["telegram"];
        let is_connected = telegram["state"] == "connected";
        let since = telegram["updated_at"].as_str()?;
        is_connected.then(|| since.parse::<jiff::Timestamp>().ok())?
    };
    let is_reloaded = || {
        let written = fs::metadata(home.join("config.yaml")).unwrap().modified();
        let written = jiff::Timestamp::try_from(written.unwrap()).unwrap();
        connected_at().is_some_and(|connected_at| connected_at >= written)
    };
    assert!(
        eventually(TIMEOUT, is_reloaded).await,
        "the configuration is not read"
    );
}

fn run(hub: &RealHub, arguments: &[&str]) -> String {
    let mut command = hub.command(arguments);
    command.env("ACME_TELEGRAM", TELEGRAM_TOKEN);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::too_many_lines, reason = "one story")]
async fn one_document_makes_a_tenant_that_works_on_all_platforms_from_the_first_message_on() {
    let home = RealHub::fresh_home();
    let place = home.beside("everything");
    let Some(server) = everything_server(&place) else {
        return;
    };
    let directory = home.beside("documents");
    let readable = format!("isolation.read_paths={}", place.display());
    let hub = RealHub::with_arguments(home, &["--set", &readable]);
    let usage = ScriptedUsage {
        prompt: 100,
        cached: 40,
        completion: 10,
    };
    let words = json!({"message": "words of others"});
    let notes = json!({"path": "teams/division1/notes.md"});
    let script = ModelScript::echo()
        .rule(
            "budget is 42",
            ScriptedAnswer::text("It was said, and noted.").with(|reply| {
                reply.usage = Some(usage);
            }),
        )
        .rule(
            "say it",
            ScriptedAnswer::calls([("mcp_all_echo", words), ("read_file", notes)]),
        );
    let model = ModelServer::start(script);
    let chats = Chats::new();
    let file = write_document(&directory, &chats, &model, &server);
    let file = file.to_str().unwrap();

    run(&hub, &["group", "create", "division1"]);
    let planned = run(&hub, &["tenant", "apply", "-f", file, "--diff"]);
    assert!(planned.contains("+ acme: skills.review"), "{planned}");
    run(&hub, &["tenant", "apply", "-f", file]);
    let share = "/v1/tenants/acme/shares/division1/files/content";
    let note = json!({"path": "notes.md", "content": "The budget is 42.\n"});
    hub.request(reqwest::Method::PUT, share, &note)
        .await
        .expect(201);
    hub.wait_for("/v1/tenants/acme/mcp-servers", |shown| {
        shown["mcpServers"][0]["status"] == "ready"
    })
    .await;
    for platform in ["telegram", "discord", "slack"] {
        let path = format!("/v1/tenants/acme/platforms/{platform}");
        hub.wait_for(&path, |shown| shown["bots"][0]["state"] == "connected")
            .await;
    }

    wait_for_reload(&hub.tenant_home("acme")).await;
    chats.say("telegram", "Please say it.");
    chats
        .wait_for_answer("telegram", "It was said, and noted.")
        .await;
    let requests = model.requests();
    let first = &requests[0].body;
    let system = first["messages"][0]["content"].as_str().unwrap();
    for told in ["You work for Acme.", "review", "Reviews contracts"] {
        assert!(system.contains(told), "`{told}` is not in {system}");
    }
    let tools = first["tools"].to_string();
    assert!(tools.contains("\"mcp_all_echo\""), "{tools}");
    let results = requests[1].body["messages"].to_string();
    assert!(results.contains("Echo: words of others"), "{results}");
    assert!(results.contains("The budget is 42"), "{results}");

    chats.say("discord", "hello from discord");
    chats.wait_for_answer("discord", "hello from discord").await;
    chats.say("slack", "hello from slack");
    chats.wait_for_answer("slack", "hello from slack").await;

    // What chats use is counted, and the limit of the day holds for them.
    let counted = hub
        .wait_for("/v1/usage", |report| report["total"]["runs"] == 3)
        .await;
    let row = &counted["usage"][0];
    assert_eq!(row["key"], "acme", "{counted}");
    assert_eq!(row["toolCalls"], 2, "{counted}");
    assert!(row["inputTokens"].as_u64() >= Some(100), "{counted}");
    assert!(row["cachedTokens"].as_u64() >= Some(40), "{counted}");
    let asked = model.requests().len();
    for platform in ["telegram", "slack"] {
        chats.say(platform, "once more");
        chats
            .wait_for_answer(platform, "my limit of 3 answers a day")
            .await;
    }
    assert_eq!(model.requests().len(), asked);
    let refused = hub
        .request(
            reqwest::Method::POST,
            "/v1/tenants/acme/runs",
            &json!({"input": "hi"}),
        )
        .await;
    assert_eq!(refused.status, 429, "{refused:?}");
    run(
        &hub,
        &["tenant", "update", "acme", "--runs-per-day", "none"],
    );
    chats.say("discord", "and now");
    chats.wait_for_answer("discord", "and now").await;

    // A second time, nothing is left to be done but the limit.
    let again = run(&hub, &["tenant", "apply", "-f", file]);
    assert_eq!(again.lines().count(), 1, "{again}");
    assert!(again.contains("acme: limits"), "{again}");
    let listed: Value = serde_json::from_str(&run(&hub, &["hub", "usage", "--json"])).unwrap();
    assert!(listed["total"]["runs"].as_u64() >= Some(3), "{listed}");
}
