//! One process: what fails holds up nothing else.

use hermes_config::Home;
use hermes_store::runtime::{InboxCounts, RuntimeStore};
use hermes_testkit::{
    Behaviour, ExitAtStart, OversizedLine,
    platform::{DiscordServer, SlackPost, SlackServer},
};

use super::*;
use crate::harness::program::entry;

#[test]
fn a_server_that_hangs_delays_no_platform() {
    let servers = json!({"dead": {"command": "sleep", "args": ["600"]}});
    let home = ChatHome::with_more(ModelScript::echo(), &format!("mcp_servers: {servers}"));
    let _gateway = home.start();
    let asked = std::time::Instant::now();
    home.telegram.say(ADA, "hello");
    home.wait_for_answers(ADA, 1);
    assert!(
        asked.elapsed() < std::time::Duration::from_secs(30),
        "{:?}",
        asked.elapsed()
    );
}

#[test]
fn servers_that_crash_die_or_flood_hold_up_no_chat() {
    let crashing = Behaviour::new().process(|process| {
        process.exit_at_start = Some(ExitAtStart {
            code: 3,
            stderr: "boom".into(),
        });
    });
    let flooding = Behaviour::new().process(|process| {
        process.stderr_flood = 4 << 20;
        process.oversized_line = Some(OversizedLine {
            bytes: 17 << 20,
            instead_of: "big".into(),
        });
    });
    let dying = Behaviour::new().calls(|calls| calls.die_after = Some(1));
    let servers = json!({
        "crash": entry(&crashing), "flood": entry(&flooding), "dying": entry(&dying),
    });
    let more =
        format!("mcp_servers: {servers}\nauxiliary: {{title_generation: {{enabled: false}}}}");
    let script = ModelScript::default()
        .rule(
            "flood me",
            ScriptedAnswer::call("mcp_flood_big", &json!({})),
        )
        .rule("16 MiB", ScriptedAnswer::text("That was too much."))
        .rule(
            "greet",
            ScriptedAnswer::call("mcp_dying_echo", &json!({"text": "plums"})),
        )
        .rule("plums", ScriptedAnswer::text("It said plums."));
    let home = ChatHome::with_more(script, &more);
    let gateway = home.start();
    for name in ["flood", "dying"] {
        wait_until(name, || {
            let health = gateway.get("/health/detailed");
            let mut servers = health["mcp_servers"].as_array().unwrap().iter();
            servers.any(|server| server["name"] == name && server["status"] == "ready")
        });
    }
    let ask = |text: &str| {
        let before = home.telegram.answers(ADA).len();
        home.telegram.say(ADA, text);
        home.wait_for_answers(ADA, before + 1).remove(before)
    };
    assert_eq!(ask("flood me"), "That was too much.");
    assert_eq!(ask("greet"), "It said plums.");
    // It is gone, or comes back just now: whatever the call gives, there is an answer.
    ask("greet once more");
    assert_eq!(ask("flood me again"), "That was too much.");
    assert_eq!(ask("hello"), "hello");
}

#[test]
fn three_platforms_are_answered_by_one_process() {
    let home = ChatHome::new(ModelScript::echo());
    let discord = DiscordServer::start("discord-token-of-the-tests");
    let bob = discord.add_user("bob");
    let slack = SlackServer::start("xoxb-of-the-tests", "xapp-of-the-tests");
    slack.add_user("U1", "carol");
    let env = format!(
        "DISCORD_BOT_TOKEN=discord-token-of-the-tests\nDISCORD_BASE_URL={}\nDISCORD_ALLOWED_USERS={bob}\n\
         SLACK_BOT_TOKEN=xoxb-of-the-tests\nSLACK_APP_TOKEN=xapp-of-the-tests\nSLACK_BASE_URL={}\nSLACK_ALLOWED_USERS=U1\n",
        discord.base_url(),
        slack.base_url()
    );
    std::fs::write(home.gateway.home.path().join(".env"), env).unwrap();
    let gateway = home.start();
    for platform in ["discord", "slack"] {
        wait_until(platform, || {
            gateway.platform(platform)["state"] == "connected"
        });
    }
    let dm = discord.open_dm(&bob);
    discord.say(&dm, &bob, "from discord");
    let channel = slack.direct_channel("U1");
    slack.write(&SlackPost::new("U1", &channel, "from slack"));
    home.telegram.say(ADA, "from telegram");
    home.wait_for_answers(ADA, 1);
    wait_until("Discord's answer", || {
        discord
            .answers(&dm)
            .iter()
            .any(|message| message.text.contains("from discord"))
    });
    wait_until("Slack's answer", || {
        slack
            .bot_messages(&channel)
            .iter()
            .any(|message| message.text.contains("from slack"))
    });
    let sessions = gateway.get("/api/sessions");
    let mut sources: Vec<&str> = sessions["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|session| session["source"].as_str().unwrap())
        .collect();
    sources.sort_unstable();
    assert_eq!(sources, ["discord", "slack", "telegram"]);
}

#[test]
fn a_wrong_token_is_told_and_holds_up_nothing() {
    let home = ChatHome::new(ModelScript::echo());
    let discord = DiscordServer::start("the-right-token");
    let env = format!(
        "DISCORD_BOT_TOKEN=a-wrong-token\nDISCORD_BASE_URL={}\n",
        discord.base_url()
    );
    std::fs::write(home.gateway.home.path().join(".env"), env).unwrap();
    let gateway = home.start();
    wait_until("it is told", || {
        gateway.platform("discord")["state"] == "fatal"
    });
    assert_eq!(gateway.platform("discord")["error_code"], "bad_token");
    home.telegram.say(ADA, "hello");
    home.wait_for_answers(ADA, 1);
}

#[test]
fn the_same_bot_is_refused_for_a_second_home() {
    let home = ChatHome::new(ModelScript::echo());
    let _gateway = home.start();
    let other = GatewayHome::new(ModelScript::echo());
    let mut command = other.home.command(&["gateway", "run"]);
    command
        .env("API_SERVER_KEY", KEY)
        .env("TELEGRAM_BOT_TOKEN", TOKEN)
        .env("TELEGRAM_BASE_URL", home.telegram.base_url())
        .env("TELEGRAM_ALLOWED_USERS", ADA.to_string());
    let mut process = BackgroundProcess::start(command);
    let line = process.wait_for("HTTP API on http://");
    let address = line.split("http://").nth(1).unwrap().trim().to_owned();
    let second = GatewayProcess { process, address };
    wait_until("it is told", || {
        second.platform("telegram")["error_code"] == "token_in_use"
    });
    home.telegram.say(ADA, "hello");
    home.wait_for_answers(ADA, 1);
    assert_eq!(other.model.requests().len(), 0);
}

impl GatewayHome {
    fn inbox_counts(&self) -> InboxCounts {
        let home = Home::at(self.home.path());
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let store = RuntimeStore::open(&home).await.unwrap();
            let counts = store.inbox_counts().await.unwrap();
            store.close().await;
            counts
        })
    }
}

#[test]
fn a_stranger_gets_a_code_and_is_let_in_by_it() {
    let home = ChatHome::new(ModelScript::echo());
    let mut command = home.gateway.home.command(&["gateway", "run"]);
    command
        .env("API_SERVER_KEY", KEY)
        .env("TELEGRAM_BOT_TOKEN", TOKEN)
        .env("TELEGRAM_BASE_URL", home.telegram.base_url());
    let mut process = BackgroundProcess::start(command);
    process.wait_for("HTTP API on http://");
    home.telegram.say(EVE, "hello");
    let offer = home.wait_for_answers(EVE, 1).pop().unwrap();
    assert_eq!(home.turns().len(), 0);
    let mut words = offer.split(|letter: char| !letter.is_ascii_alphanumeric());
    let code = words.find(|word| word.len() == 8 && *word == word.to_uppercase());
    let code = code.unwrap_or_else(|| panic!("no code in {offer}"));
    home.gateway
        .home
        .run(&["pairing", "approve", "telegram", code])
        .ok();
    home.telegram.say(EVE, "hello again");
    let answers = home.wait_for_answers(EVE, 2);
    assert!(answers[1].contains("hello again"), "{answers:?}");
    home.gateway
        .home
        .run(&["pairing", "revoke", "telegram", &EVE.to_string()])
        .ok();
    home.telegram.say(EVE, "and now");
    home.telegram.say(EVE, "still there");
    wait_until("the updates are read", || {
        home.telegram.waiting_updates().is_empty()
    });
    // An update waits in the inbox until its turn has ended.
    wait_until("nothing is left to do", || {
        home.gateway.inbox_counts() == InboxCounts::default()
    });
    assert_eq!(home.turns().len(), 1);
}

#[test]
fn accounts_follow_the_settings_while_the_gateway_runs() {
    let home = ChatHome::new(ModelScript::echo());
    let gateway = home.start();
    let discord = DiscordServer::start("the-right-token");
    assert_eq!(gateway.platform("discord"), Value::Null);
    let config = std::fs::read_to_string(home.gateway.home.config()).unwrap();
    let more = format!(
        "{config}\ndiscord: {{token: the-right-token, extra: {{base_url: '{}'}}}}\n",
        discord.base_url()
    );
    home.gateway.home.write_config(&more);
    wait_until("Discord is connected", || {
        gateway.platform("discord")["state"] == "connected"
    });
    home.gateway.home.write_config(&config);
    wait_until("Discord is gone", || {
        gateway.platform("discord") == Value::Null
    });
    assert_eq!(
        home.telegram.calls("getMe"),
        1,
        "Telegram was not restarted"
    );
    home.telegram.say(ADA, "hello");
    home.wait_for_answers(ADA, 1);
}
