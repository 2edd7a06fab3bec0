//! What is particular to Discord and Slack, and to several bots.

use hermes_testkit::{
    model::ReplyEnding,
    platform::{DiscordServer, SLACK_BOT_USER, SlackPost, SlackServer, TelegramServer},
};

use super::*;

const DISCORD_TOKEN: &str = "discord-token-of-the-tests";

/// A home whose bot is on Discord too.
pub(super) fn with_discord(script: ModelScript) -> (ChatHome, DiscordServer, String) {
    let home = ChatHome::new(script);
    let discord = DiscordServer::start(DISCORD_TOKEN);
    let bob = discord.add_user("bob");
    let env = format!(
        "DISCORD_BOT_TOKEN={DISCORD_TOKEN}\nDISCORD_BASE_URL={}\nDISCORD_ALLOWED_USERS={bob}\n",
        discord.base_url()
    );
    std::fs::write(home.gateway.home.path().join(".env"), env).unwrap();
    (home, discord, bob)
}

/// A home whose bot is on Slack too.
pub(super) fn with_slack(script: ModelScript) -> (ChatHome, SlackServer) {
    let home = ChatHome::new(script);
    let slack = SlackServer::start("xoxb-of-the-tests", "xapp-of-the-tests");
    slack.add_user("U1", "carol");
    slack.add_channel("C1", "general");
    let env = format!(
        "SLACK_BOT_TOKEN=xoxb-of-the-tests\nSLACK_APP_TOKEN=xapp-of-the-tests\nSLACK_BASE_URL={}\nSLACK_ALLOWED_USERS=U1\n",
        slack.base_url()
    );
    std::fs::write(home.gateway.home.path().join(".env"), env).unwrap();
    (home, slack)
}

impl ChatHome {
    pub(super) fn start_with(&self, platform: &str) -> GatewayProcess {
        let gateway = self.start();
        wait_until(platform, || {
            gateway.platform(platform)["state"] == "connected"
        });
        gateway
    }
}

#[test]
fn on_discord_a_mention_is_answered_in_a_thread_and_the_thread_goes_on_without_one() {
    let (home, discord, bob) = with_discord(ModelScript::echo());
    let guild = discord.add_guild("Guild");
    let channel = discord.add_channel(&guild, "general");
    let _gateway = home.start_with("discord");
    let mention = DiscordServer::mention_of_bot();
    discord.say(&channel, &bob, "just talking");
    discord.say(&channel, &bob, &format!("{mention} apples"));
    wait_until("a thread", || !discord.threads(&channel).is_empty());
    let (thread, name) = discord.threads(&channel).remove(0);
    assert!(name.contains("apples"), "{name}");
    wait_until("an answer in it", || !discord.answers(&thread).is_empty());
    discord.say(&thread, &bob, "pears");
    wait_until("another answer", || discord.answers(&thread).len() == 2);
    let asked = home.last_turn().to_string();
    assert!(
        asked.contains("apples") && asked.contains("pears"),
        "{asked}"
    );
    assert!(!asked.contains("just talking"), "{asked}");
    assert_eq!(home.turns().len(), 2);
}

#[test]
fn on_discord_a_button_and_a_command_of_the_platform_work() {
    let (home, discord, bob) = with_discord(ModelScript::new([
        ScriptedAnswer::call(
            "terminal",
            &json!({"command": "rm -r /tmp/none-of-the-tests"}),
        ),
        ScriptedAnswer::text("Finished."),
    ]));
    let _gateway = home.start_with("discord");
    wait_until("commands", || {
        discord.commands().contains(&"stop".to_owned())
    });
    let dm = discord.open_dm(&bob);
    discord.say(&dm, &bob, "clean up");
    let request = || {
        discord
            .answers(&dm)
            .into_iter()
            .find(|message| !message.buttons.is_empty())
    };
    wait_until("a request", || request().is_some());
    let message = request().unwrap();
    let deny = message
        .buttons
        .iter()
        .find(|button| button.label == "Deny")
        .unwrap();
    let token = discord.press(&dm, &message.id, &deny.target, &bob);
    wait_until("it is confirmed", || {
        discord.interaction(&token).callback.is_some()
    });
    wait_until("an answer", || {
        discord
            .answers(&dm)
            .iter()
            .any(|message| message.text == "Finished.")
    });
    wait_until("who decided", || {
        discord
            .answers(&dm)
            .iter()
            .any(|message| message.text.contains("Denied by bob"))
    });
    let token = discord.use_command(&dm, &bob, "whoami", &json!({}));
    wait_until("it is confirmed", || {
        discord.interaction(&token).callback.is_some()
    });
    wait_until("an answer", || {
        discord
            .answers(&dm)
            .iter()
            .any(|message| message.text.contains(&bob))
    });
}

#[test]
fn on_discord_a_growing_answer_has_a_button_that_stops_it() {
    let (home, discord, bob) =
        with_discord(ModelScript::new([ScriptedAnswer::pieces(["One", " two"])
            .with(|reply| reply.ending = ReplyEnding::Stalled)]));
    let _gateway = home.start_with("discord");
    let dm = discord.open_dm(&bob);
    discord.say(&dm, &bob, "count");
    let growing = || {
        let mut answers = discord.answers(&dm).into_iter();
        answers.find(|message| message.text.contains("One two"))
    };
    wait_until("a button", || {
        growing().is_some_and(|message| !message.buttons.is_empty())
    });
    let shown = growing().unwrap();
    assert_eq!(shown.buttons[0].label, "Stop");
    let token = discord.press(&dm, &shown.id, &shown.buttons[0].target, &bob);
    wait_until("it is confirmed", || {
        discord.interaction(&token).callback.is_some()
    });
    wait_until("the answer is final", || {
        growing()
            .is_some_and(|message| message.text.contains("(stopped)") && message.buttons.is_empty())
    });
    assert_eq!(growing().unwrap().id, shown.id);
}

#[test]
fn on_discord_what_was_said_during_an_outage_is_fetched_once() {
    let (home, discord, bob) = with_discord(ModelScript::echo());
    let gateway = home.start_with("discord");
    let dm = discord.open_dm(&bob);
    discord.say(&dm, &bob, "before");
    wait_until("an answer", || discord.answers(&dm).len() == 1);
    drop(gateway);
    discord.say(&dm, &bob, "meanwhile");
    discord.expire_sessions();
    let _gateway = home.start_with("discord");
    wait_until("an answer", || {
        discord
            .answers(&dm)
            .iter()
            .any(|message| message.text.contains("meanwhile"))
    });
    discord.say(&dm, &bob, "after");
    wait_until("an answer", || {
        discord
            .answers(&dm)
            .iter()
            .any(|message| message.text.contains("after"))
    });
    assert_eq!(discord.answers(&dm).len(), 3);
}

#[test]
fn on_slack_a_mention_is_answered_in_its_thread_and_the_thread_goes_on_without_one() {
    let (home, slack) = with_slack(ModelScript::echo());
    let _gateway = home.start_with("slack");
    slack.write(&SlackPost::new("U1", "C1", "just talking"));
    let asked = slack.write(&SlackPost::new(
        "U1",
        "C1",
        &format!("<@{SLACK_BOT_USER}> apples"),
    ));
    wait_until("an answer", || slack.bot_messages("C1").len() == 1);
    let answer = slack.bot_messages("C1").remove(0);
    assert_eq!(
        answer.thread_ts.as_deref(),
        Some(asked.as_str()),
        "{answer:?}"
    );
    slack.write(&SlackPost::new("U1", "C1", "pears").in_thread(&asked));
    wait_until("another answer", || slack.bot_messages("C1").len() == 2);
    let told = home.last_turn().to_string();
    assert!(told.contains("apples") && told.contains("pears"), "{told}");
    assert_eq!(home.turns().len(), 2);
}

#[test]
fn on_slack_a_thread_in_which_only_a_command_was_answered_goes_on_after_a_restart() {
    let (home, slack) = with_slack(ModelScript::echo());
    let mut gateway = home.start_with("slack");
    let asked = slack.write(&SlackPost::new("U1", "C1", "!whoami"));
    let other = slack.write(&SlackPost::new("U1", "C1", "another subject"));
    wait_until("an answer", || slack.bot_messages("C1").len() == 1);
    gateway.process.signal(rustix::process::Signal::TERM);
    assert_eq!(gateway.process.wait(), Some(0));
    let _gateway = home.start_with("slack");
    slack.write(&SlackPost::new("U1", "C1", "plums").in_thread(&other));
    slack.write(&SlackPost::new("U1", "C1", "apples").in_thread(&asked));
    let answer = || {
        let mut messages = slack.bot_messages("C1").into_iter();
        messages.find(|message| message.text.contains("apples"))
    };
    wait_until("another answer", || answer().is_some());
    assert_eq!(answer().unwrap().thread_ts, Some(asked));
    // A thread of which the bot knows nothing is none of its own.
    assert_eq!(home.turns().len(), 1);
}

#[test]
fn on_slack_what_was_said_in_a_thread_during_an_outage_is_fetched_once() {
    let (home, slack) = with_slack(ModelScript::echo());
    let gateway = home.start_with("slack");
    let mention = format!("<@{SLACK_BOT_USER}> before");
    let asked = slack.write(&SlackPost::new("U1", "C1", &mention));
    wait_until("an answer", || slack.bot_messages("C1").len() == 1);
    drop(gateway);
    wait_until("no socket", || slack.open_sockets() == 0);
    slack.write(&SlackPost::new("U1", "C1", "meanwhile").in_thread(&asked));
    let _gateway = home.start_with("slack");
    let is_answered = |text: &str| {
        let mut answers = slack.bot_messages("C1").into_iter();
        answers.any(|message| message.text.contains(text))
    };
    wait_until("an answer", || is_answered("meanwhile"));
    slack.write(&SlackPost::new("U1", "C1", "after").in_thread(&asked));
    wait_until("a later answer", || is_answered("after"));
    let answers = slack.bot_messages("C1");
    assert_eq!(answers.len(), 3, "{answers:?}");
}

#[test]
fn on_slack_the_home_channel_is_the_channel_and_not_the_thread_of_the_command() {
    let (home, slack) = with_slack(ModelScript::echo());
    let _gateway = home.start_with("slack");
    slack.write(&SlackPost::new("U1", "C1", "!sethome"));
    wait_until("an answer", || slack.bot_messages("C1").len() == 1);
    let env = std::fs::read_to_string(home.gateway.home.path().join(".env")).unwrap();
    assert!(env.contains("SLACK_HOME_CHANNEL=C1\n"), "{env}");
    assert!(!env.contains("SLACK_HOME_CHANNEL_THREAD_ID"), "{env}");
}

#[test]
fn on_slack_a_button_decides() {
    let (home, slack) = with_slack(ModelScript::new([
        ScriptedAnswer::call(
            "terminal",
            &json!({"command": "rm -r /tmp/none-of-the-tests"}),
        ),
        ScriptedAnswer::text("Finished."),
    ]));
    let _gateway = home.start_with("slack");
    let channel = slack.direct_channel("U1");
    slack.write(&SlackPost::new("U1", &channel, "clean up"));
    let request = || {
        slack
            .bot_messages(&channel)
            .into_iter()
            .find(|message| !message.buttons.is_empty())
    };
    wait_until("a request", || request().is_some());
    slack.press_button("U1", &channel, &request().unwrap().ts, "Deny");
    wait_until("an answer", || {
        slack
            .bot_messages(&channel)
            .iter()
            .any(|message| message.text == "Finished.")
    });
    wait_until("who decided", || {
        slack
            .bot_messages(&channel)
            .iter()
            .any(|message| message.text.contains("Denied by carol"))
    });
    slack.write(&SlackPost::new("U1", &channel, "!status"));
    wait_until("a command", || {
        slack
            .bot_messages(&channel)
            .iter()
            .any(|message| message.text.contains("slack"))
    });
}

#[test]
fn two_bots_of_one_platform_have_conversations_of_their_own() {
    let home = ChatHome::new(ModelScript::echo());
    let work = TelegramServer::start("654321:the-other-bot");
    work.add_user(ADA, "Ada");
    let config = std::fs::read_to_string(home.gateway.home.config()).unwrap();
    let accounts = format!(
        "telegram: {{accounts: {{work: {{token: '654321:the-other-bot', allow_from: ['{ADA}'], extra: {{base_url: '{}'}}}}}}}}\n",
        work.base_url()
    );
    home.gateway
        .home
        .write_config(&format!("{config}\n{accounts}"));
    let gateway = home.start_with("telegram@work");
    home.telegram.say(ADA, "apples");
    home.wait_for_answers(ADA, 1);
    work.say(ADA, "pears");
    wait_until("an answer", || work.answers(ADA).len() == 1);
    assert!(!home.last_turn().to_string().contains("apples"));
    let sessions = gateway.get("/api/sessions");
    let mut sources: Vec<&str> = sessions["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|session| session["source"].as_str().unwrap())
        .collect();
    sources.sort_unstable();
    assert_eq!(sources, ["telegram", "telegram@work"]);
}
