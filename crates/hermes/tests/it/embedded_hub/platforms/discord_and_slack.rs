//! Bots of a tenant on Discord and Slack.

use hermes_testkit::platform::{DiscordServer, SLACK_BOT_USER, SlackPost, SlackServer};

use super::*;

const DISCORD_TOKEN: &str = "discord-bot-of-acme";
const SLACK_TOKEN: &str = "xoxb-bot-of-acme";
const SLACK_APP_TOKEN: &str = "xapp-bot-of-acme";
const SLACK_USER: &str = "U1";
const LABELS: [&str; 2] = ["discord", "slack"];

/// Both platforms, and a private chat with the bot on each.
struct BothPlatforms {
    discord: DiscordServer,
    slack: SlackServer,
    bob: String,
    discord_chat: String,
    slack_chat: String,
}

impl BothPlatforms {
    fn start() -> Self {
        let discord = DiscordServer::start(DISCORD_TOKEN);
        let bob = discord.add_user("bob");
        let slack = SlackServer::start(SLACK_TOKEN, SLACK_APP_TOKEN);
        slack.add_user(SLACK_USER, "carol");
        slack.add_channel("C1", "general");
        Self {
            discord_chat: discord.open_dm(&bob),
            slack_chat: slack.direct_channel(SLACK_USER),
            discord,
            slack,
            bob,
        }
    }

    /// What an operator sets for the bots.
    fn variables(&self) -> Value {
        json!({
            "DISCORD_BOT_TOKEN": DISCORD_TOKEN, "DISCORD_BASE_URL": self.discord.base_url(),
            "DISCORD_ALLOWED_USERS": self.bob,
            "SLACK_BOT_TOKEN": SLACK_TOKEN, "SLACK_APP_TOKEN": SLACK_APP_TOKEN,
            "SLACK_BASE_URL": self.slack.base_url(), "SLACK_ALLOWED_USERS": SLACK_USER,
        })
    }

    /// Says the same on both.
    fn say(&self, text: &str) {
        self.discord.say(&self.discord_chat, &self.bob, text);
        let post = SlackPost::new(SLACK_USER, &self.slack_chat, text);
        self.slack.write(&post);
    }

    /// How often the bots have said something with this text: on Discord, and on Slack.
    fn count(&self, text: &str) -> [usize; 2] {
        let discord = self.discord.answers(&self.discord_chat).into_iter();
        let slack = self.slack.bot_messages(&self.slack_chat).into_iter();
        [
            discord.filter(|said| said.text.contains(text)).count(),
            slack.filter(|said| said.text.contains(text)).count(),
        ]
    }

    async fn wait_for_answers(&self, text: &str) {
        let are_there = || !self.count(text).contains(&0);
        assert!(
            eventually(TIMEOUT, are_there).await,
            "{text}: {:?}",
            self.count(text)
        );
    }
}

/// Waits until a tenant's process says this of both bots.
async fn wait_for_both(hub: &RealHub, id: &str, is_so: impl Fn(&Value) -> bool) -> [Value; 2] {
    let file = hub.tenant_home(id).join("gateway_state.json");
    let read = || {
        let text = fs::read_to_string(&file).unwrap_or_default();
        let state: Value = serde_json::from_str(&text).unwrap_or_default();
        LABELS.map(|label| state["platforms"][label].clone())
    };
    let found = eventually_some(TIMEOUT, async || {
        Some(read()).filter(|both| both.iter().all(&is_so))
    });
    found
        .await
        .unwrap_or_else(|| panic!("the bots of {id} stay {:?}", read()))
}

fn is_connected(platform: &Value) -> bool {
    platform["state"] == "connected"
}

#[tokio::test(flavor = "multi_thread")]
async fn on_discord_and_slack_a_tenants_bot_answers_and_loses_nothing_while_it_is_blocked() {
    let hub = RealHub::start();
    let model = tenant(&hub, "acme").await;
    let both = BothPlatforms::start();
    set_variables(&hub, "acme", both.variables()).await;
    wait_for_both(&hub, "acme", is_connected).await;
    both.say("apples");
    both.wait_for_answers("apples").await;
    // In a channel it is mentioned, and answers in a thread.
    let mention = format!("<@{SLACK_BOT_USER}> figs");
    let asked = both
        .slack
        .write(&SlackPost::new(SLACK_USER, "C1", &mention));
    let is_in_thread = || {
        let mut said = both.slack.bot_messages("C1").into_iter();
        said.any(|said| {
            said.thread_ts.as_deref() == Some(asked.as_str()) && said.text.contains("figs")
        })
    };
    assert!(eventually(TIMEOUT, is_in_thread).await);

    let first = pid(&hub, "acme").await;
    let access = "/v1/tenants/acme/access";
    hub.request(Method::PUT, access, &json!({"status": "blocked"}))
        .await
        .expect(200);
    assert_gone(&[first], TIMEOUT);
    let asked_before = model.requests().len();
    both.say("meanwhile");
    hub.request(Method::PUT, access, &json!({"status": "active"}))
        .await
        .expect(200);
    both.wait_for_answers("meanwhile").await;
    assert!(model.requests().len() > asked_before);
    both.say("afterwards");
    both.wait_for_answers("afterwards").await;
    assert_eq!(both.count("meanwhile"), [1, 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn on_discord_and_slack_a_policy_disconnects_a_tenants_bot_and_connects_it_again() {
    let hub = RealHub::start();
    let _model = tenant(&hub, "acme").await;
    // What keeps it awake is gone with the bots.
    let awake = json!({"agent": {"idleStopSeconds": 3600}});
    hub.request(Method::PATCH, "/v1/tenants/acme", &awake)
        .await
        .expect(200);
    let both = BothPlatforms::start();
    set_variables(&hub, "acme", both.variables()).await;
    wait_for_both(&hub, "acme", is_connected).await;
    for (policy, code, afterwards) in [
        (
            json!({"features": {"enabled": ["mcp"]}}),
            "messaging_off",
            "apples",
        ),
        (
            json!({"egress": {"allowHosts": ["discord.com", "slack.com"]}}),
            "egress_denied",
            "pears",
        ),
    ] {
        put_policy(&hub, policy).await;
        let told = wait_for_both(&hub, "acme", |platform| platform["error_code"] == code).await;
        for told in told {
            assert_eq!(told["state"], "stopped", "{told}");
        }
        let is_closed = || both.discord.open_sockets() == 0 && both.slack.open_sockets() == 0;
        assert!(eventually(TIMEOUT, is_closed).await);
        put_policy(&hub, json!({})).await;
        wait_for_both(&hub, "acme", is_connected).await;
        both.say(afterwards);
        both.wait_for_answers(afterwards).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn on_discord_and_slack_a_bot_is_for_one_tenant() {
    let hub = RealHub::start();
    let _acme = tenant(&hub, "acme").await;
    let both = BothPlatforms::start();
    set_variables(&hub, "acme", both.variables()).await;
    wait_for_both(&hub, "acme", is_connected).await;
    let umbra = tenant(&hub, "umbra").await;
    set_variables(&hub, "umbra", both.variables()).await;
    let told = wait_for_both(&hub, "umbra", |platform| {
        platform["error_code"] == "token_in_use"
    })
    .await;
    for told in told {
        let message = told["error_message"].as_str().unwrap();
        assert!(!message.contains("acme"), "{told}");
        assert!(!told.to_string().contains("bot-of-acme"), "{told}");
    }
    both.say("who is there");
    both.wait_for_answers("who is there").await;
    assert!(umbra.requests().is_empty());
}
