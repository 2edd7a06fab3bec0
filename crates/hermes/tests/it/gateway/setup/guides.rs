//! The guides of Discord and Slack, followed from a home without a bot to the first answer.

use hermes_testkit::platform::{DiscordServer, SlackPost, SlackServer};

use super::*;

const DISCORD_TOKEN: &str = "discord-AAsecret";
const SLACK_USER: &str = "U0ANN0001";
const SLACK_CHANNEL: &str = "C0GENERAL";

/// A gateway that the setup has started.
struct StartedGateway<'a>(&'a GatewayHome);

impl Drop for StartedGateway<'_> {
    fn drop(&mut self) {
        let _ = self.0.home.command(&["gateway", "stop"]).output();
    }
}

/// Somebody in a private conversation with the bot.
trait PrivateChat {
    fn say(&self, text: &str);
    fn answers(&self) -> Vec<String>;

    #[track_caller]
    fn wait_for_answer(&self, index: usize) -> String {
        wait_until("an answer", || self.answers().len() > index);
        self.answers().remove(index)
    }
}

/// Answers the questions after the tokens: no allow-list, a start in the background, the code of whoever writes.
fn follow_to_first_answer(terminal: &mut Terminal, chat: &impl PrivateChat) {
    terminal
        .wait_for("empty: by pairing code")
        .send("\n")
        .wait_for("a direct message first gets a code")
        .wait_for("Start it now, in the background? [Y/n]")
        .send("\n")
        .wait_for("Wait here for the first message? [Y/n]")
        .send("\n")
        .wait_for("Waiting for a message");
    chat.say("hello");
    terminal
        .wait_for("wrote to the bot and got a code")
        .wait_for("empty: not now");
    let offer = chat.wait_for_answer(0);
    let mut words = offer.split(|letter: char| !letter.is_ascii_alphanumeric());
    let code = words.find(|word| word.len() == 8 && *word == word.to_uppercase());
    let code = code.unwrap_or_else(|| panic!("no code in {offer}"));
    terminal
        .send(&format!("{code}\n"))
        .wait_for("has to write again");
    chat.say("hello again");
    terminal.wait_for("got an answer: it works");
    assert_eq!(chat.wait_for_answer(1), "hello again");
    let (code, screen) = terminal.end();
    assert_eq!(code, 0, "{screen}");
    assert!(!screen.contains("AAsecret"), "{screen}");
}

/// The state of an account as `hermes gateway status` tells it.
fn shown_state(place: &GatewayHome, label: &str) -> String {
    let shown = place.home.run(&["gateway", "status"]).ok().stdout;
    let line = shown.lines().find(|line| line.starts_with(label));
    line.unwrap_or_else(|| panic!("no {label}: {shown}"))
        .to_owned()
}

struct DiscordChat<'a> {
    server: &'a DiscordServer,
    user: String,
    channel: String,
}

impl PrivateChat for DiscordChat<'_> {
    fn say(&self, text: &str) {
        self.server.say(&self.channel, &self.user, text);
    }

    fn answers(&self) -> Vec<String> {
        let messages = self.server.answers(&self.channel).into_iter();
        messages.map(|message| message.text).collect()
    }
}

#[test]
fn the_guide_of_discord_leads_to_the_first_answer() {
    let server = DiscordServer::start(DISCORD_TOKEN);
    let ann = server.add_user("ann");
    let guild = server.add_guild("Home");
    let general = server.add_channel(&guild, "general");
    let base = server.base_url();
    let more = format!("discord: {{extra: {{base_url: '{base}'}}}}");
    let place = GatewayHome::with_more(ModelScript::echo(), &more);
    let setup = ["gateway", "setup", "--platform", "discord"];
    let mut terminal = Terminal::start(place.home.command(&setup));
    let _gateway = StartedGateway(&place);
    terminal
        .wait_for("New Application")
        .wait_for("Message Content Intent")
        .wait_for("it is not shown")
        .send(&format!("{DISCORD_TOKEN}\n"));
    let chat = DiscordChat {
        server: &server,
        channel: server.open_dm(&ann),
        user: ann.clone(),
    };
    follow_to_first_answer(&mut terminal, &chat);
    let screen = terminal.screen();
    assert!(screen.contains("Invite it into your server"), "{screen}");
    assert!(shown_state(&place, "discord").contains("connected"));

    let mention = DiscordServer::mention_of_bot();
    server.say(&general, &ann, &format!("{mention} in a channel"));
    wait_until("a thread", || !server.threads(&general).is_empty());
    let (thread, _) = server.threads(&general).remove(0);
    wait_until("an answer in it", || {
        let answers = server.answers(&thread);
        answers
            .iter()
            .any(|answer| answer.text.ends_with("in a channel"))
    });
}

impl PrivateChat for SlackServer {
    fn say(&self, text: &str) {
        let direct = self.direct_channel(SLACK_USER);
        self.write(&SlackPost::new(SLACK_USER, &direct, text));
    }

    fn answers(&self) -> Vec<String> {
        let messages = self.bot_messages(&self.direct_channel(SLACK_USER));
        messages.into_iter().map(|message| message.text).collect()
    }
}

#[test]
fn the_guide_of_slack_leads_to_the_first_answer() {
    let server = SlackServer::start("xoxb-AAsecret", "xapp-AAsecret");
    server.add_user(SLACK_USER, "ann");
    server.add_channel(SLACK_CHANNEL, "general");
    let base = server.base_url();
    let more = format!("slack: {{extra: {{base_url: '{base}'}}}}");
    let place = GatewayHome::with_more(ModelScript::echo(), &more);
    let setup = ["gateway", "setup", "--platform", "slack"];
    let mut terminal = Terminal::start(place.home.command(&setup));
    let _gateway = StartedGateway(&place);
    terminal
        .wait_for("From a manifest")
        .wait_for("socket_mode_enabled")
        .wait_for("it is not shown")
        .send("xoxb-AAsecret\n")
        .wait_for("it is not shown; empty: later")
        .send("xapp-AAsecret\n");
    follow_to_first_answer(&mut terminal, &server);
    assert!(shown_state(&place, "slack").contains("connected"));

    let mention = format!(
        "<@{}> in a channel",
        hermes_testkit::platform::SLACK_BOT_USER
    );
    let asked = server.write(&SlackPost::new(SLACK_USER, SLACK_CHANNEL, &mention));
    let answer = || server.bot_messages(SLACK_CHANNEL).into_iter().next();
    wait_until("an answer in the thread", || {
        answer().is_some_and(|answer| answer.text.ends_with("in a channel") && !answer.is_streaming)
    });
    assert_eq!(answer().unwrap().thread_ts, Some(asked));
}
