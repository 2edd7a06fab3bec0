//! The platforms' ids of messages: stored with them, and used when somebody replies.

use hermes_config::Home;
use hermes_store::{Access, Role, SessionQuery, Store, StoredMessage};
use hermes_testkit::platform::{
    DiscordDraft, DiscordServer, SLACK_BOT_USER, SlackPost, SlackServer,
};

use super::*;

const DISCORD_TOKEN: &str = "discord-token-of-the-tests";

impl ChatHome {
    /// The messages of all sessions, oldest first.
    pub(super) fn stored_messages(&self) -> Vec<StoredMessage> {
        let home = Home::at(self.gateway.home.path());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let store = Store::open(&home, Access::ReadOnly).await.unwrap();
            let mut messages = Vec::new();
            let sessions = store.list_sessions(&SessionQuery::default()).await;
            for session in sessions.unwrap() {
                let id = &session.session.id;
                messages.extend(store.active_messages(id).await.unwrap());
            }
            store.close().await;
            messages.sort_by_key(|message| message.id);
            messages
        })
    }

    /// The platform's ids of the messages with this role, as they are stored.
    fn stored_ids(&self, role: &Role) -> Vec<Option<String>> {
        let messages = self.stored_messages().into_iter();
        messages
            .filter(|message| message.body.role == *role)
            .map(|message| message.body.platform_message_id)
            .collect()
    }

    #[track_caller]
    fn wait_for_stored_ids(&self, asked: &str, answered: &str) {
        let expected = vec![Some(answered.to_owned())];
        wait_until("the id of the answer", || {
            self.stored_ids(&Role::Assistant) == expected
        });
        assert_eq!(self.stored_ids(&Role::User), [Some(asked.to_owned())]);
    }
}

fn slow_answer() -> ModelScript {
    let pieces = ScriptedAnswer::pieces(["Good", " day."]).with(|reply| reply.pause_ms = 300);
    ModelScript::default().rule("hello", pieces)
}

#[test]
fn on_telegram_an_answer_is_stored_with_its_id() {
    let home = ChatHome::new(slow_answer());
    let _gateway = home.start();
    let asked = home.telegram.say(ADA, "hello");
    assert_eq!(home.wait_for_answers(ADA, 1), ["Good day."]);
    let shown = home.telegram.messages(ADA);
    let answer = shown.iter().find(|message| message.is_from_bot).unwrap();
    home.wait_for_stored_ids(&asked.to_string(), &answer.id.to_string());
}

fn with_discord(script: ModelScript) -> (ChatHome, DiscordServer, String) {
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

#[test]
fn on_discord_an_answer_is_stored_with_its_id_and_a_reply_to_it_is_recognised() {
    let (home, discord, bob) = with_discord(slow_answer());
    std::fs::write(
        home.gateway.home.config(),
        std::fs::read_to_string(home.gateway.home.config()).unwrap()
            + "\ndiscord: {auto_thread: false}\n",
    )
    .unwrap();
    let guild = discord.add_guild("Guild");
    let channel = discord.add_channel(&guild, "general");
    let gateway = home.start();
    wait_until("Discord", || {
        gateway.platform("discord")["state"] == "connected"
    });
    let mention = DiscordServer::mention_of_bot();
    let asked = discord.say(&channel, &bob, &format!("{mention} hello"));
    wait_until("an answer", || {
        discord
            .answers(&channel)
            .iter()
            .any(|message| message.text == "Good day.")
    });
    let answer = discord.answers(&channel).remove(0);
    home.wait_for_stored_ids(&asked, &answer.id);
    // Discord does not always deliver what is replied to, and its author with it.
    let reply = DiscordDraft {
        reply_to: Some(answer.id),
        extra: json!({"referenced_message": null}),
        ..DiscordDraft::text("hello again")
    };
    discord.write(&channel, &bob, &reply);
    wait_until("another answer", || discord.answers(&channel).len() == 2);
    let told = home.last_turn().to_string();
    assert!(told.contains("replies to one by you"), "{told}");
    assert!(told.contains("> Good day."), "{told}");
}

#[test]
fn on_slack_an_answer_is_stored_with_its_id_and_its_thread_means_the_bot() {
    let home = ChatHome::with_more(slow_answer(), "slack: {reply_in_thread: false}");
    let slack = SlackServer::start("xoxb-of-the-tests", "xapp-of-the-tests");
    slack.add_user("U1", "carol");
    slack.add_channel("C1", "general");
    let env = format!(
        "SLACK_BOT_TOKEN=xoxb-of-the-tests\nSLACK_APP_TOKEN=xapp-of-the-tests\nSLACK_BASE_URL={}\nSLACK_ALLOWED_USERS=U1\n",
        slack.base_url()
    );
    std::fs::write(home.gateway.home.path().join(".env"), env).unwrap();
    let gateway = home.start();
    wait_until("Slack", || {
        gateway.platform("slack")["state"] == "connected"
    });
    let talk = slack.write(&SlackPost::new("U1", "C1", "just talking"));
    let text = format!("<@{SLACK_BOT_USER}> hello");
    let asked = slack.write(&SlackPost::new("U1", "C1", &text));
    let answers = || {
        let mut answers = slack.bot_messages("C1");
        answers.retain(|message| message.text == "Good day." && !message.is_streaming);
        answers
    };
    wait_until("an answer", || answers().len() == 1);
    let answer = answers().remove(0);
    home.wait_for_stored_ids(&asked, &answer.ts);
    // A thread below its message means the bot, one below another message does not.
    slack.write(&SlackPost::new("U1", "C1", "hello you").in_thread(&talk));
    slack.write(&SlackPost::new("U1", "C1", "hello there").in_thread(&answer.ts));
    wait_until("another answer", || answers().len() == 2);
    assert_eq!(answers()[1].thread_ts.as_deref(), Some(answer.ts.as_str()));
    assert_eq!(home.turns().len(), 2);
    assert!(home.last_turn().to_string().contains("hello there"));
}
