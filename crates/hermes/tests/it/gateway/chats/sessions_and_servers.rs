//! Commands that change more than a line: summaries, background work, and the servers of the home.

use std::time::{Duration, Instant};

use hermes_testkit::{
    Behaviour,
    platform::{DiscordServer, PlatformFault, SlackServer, TelegramMessage},
};

use super::*;
use crate::harness::program::entry;

#[test]
fn a_conversation_is_summarized_on_request_and_goes_on_with_the_summary() {
    let script = ModelScript::echo().rule(
        "Sum up this transcript",
        ScriptedAnswer::text("They named fruit."),
    );
    let compression = "compression: {protect_first_n: 1, protect_last_n: 2}";
    let home = ChatHome::with_more(script, compression);
    let _gateway = home.start();
    home.telegram.say(ADA, "/compress");
    let answer = home.wait_for_answers(ADA, 1).remove(0);
    assert_eq!(answer, "There is nothing to summarize yet.");
    let fruit = ["apples", "pears", "plums", "cherries", "figs", "dates"];
    for (number, name) in fruit.into_iter().enumerate() {
        home.telegram.say(ADA, name);
        home.wait_for_answers(ADA, number + 2);
    }
    home.telegram.say(ADA, "/compress");
    let answer = home.wait_for_answers(ADA, 8).pop().unwrap();
    assert!(answer.contains("messages now instead of 12"), "{answer}");
    home.telegram.say(ADA, "go on");
    assert_eq!(home.wait_for_answers(ADA, 9)[8], "go on");
    let told = home.last_turn().to_string();
    assert!(told.contains("They named fruit."), "{told}");
    assert!(!told.contains("plums"), "{told}");
}

#[test]
fn work_in_the_background_holds_up_nothing_and_is_answered_in_the_chat() {
    let slow = ScriptedAnswer::text("The survey is done.").with(|reply| reply.delay_ms = 6000);
    let script = ModelScript::default()
        .rule("survey", slow)
        .rule("hello", ScriptedAnswer::text("Good day."));
    let home = ChatHome::new(script);
    let gateway = home.start();
    home.telegram.say(ADA, "/background make a survey");
    assert!(home.wait_for_answers(ADA, 1)[0].contains("in the background"));
    wait_until("the model is asked", || home.turns().len() == 1);
    home.telegram.say(ADA, "hello");
    // The message neither waits for that work nor ends it, and knows nothing of it.
    assert_eq!(home.wait_for_answers(ADA, 2)[1], "Good day.");
    assert!(!home.last_turn().to_string().contains("survey"));
    assert_eq!(home.wait_for_answers(ADA, 3)[2], "The survey is done.");
    home.telegram.say(ADA, "hello again");
    home.wait_for_answers(ADA, 4);
    assert!(!home.last_turn().to_string().contains("survey"));
    let sessions = gateway.get("/api/sessions");
    let count = sessions["sessions"].as_array().unwrap().len();
    assert_eq!(count, 2, "{sessions}");
}

#[test]
fn work_in_the_background_is_ended_by_its_name() {
    let slow = ScriptedAnswer::text("The survey is done.").with(|reply| reply.delay_ms = 600_000);
    let left = json!({"command": "sleep 600", "background": true});
    let script = ModelScript::default()
        .rule("survey", slow)
        .rule("proc_", ScriptedAnswer::text("It runs."))
        .rule("begin", ScriptedAnswer::call("terminal", &left));
    let home = ChatHome::new(script);
    let _gateway = home.start();
    home.telegram.say(ADA, "/background make a survey");
    assert!(home.wait_for_answers(ADA, 1)[0].contains("/stop bg1"));
    home.telegram.say(ADA, "begin");
    assert_eq!(home.wait_for_answers(ADA, 2)[1], "It runs.");
    home.telegram.say(ADA, "/status");
    let status = home.wait_for_answers(ADA, 3).remove(2);
    assert!(status.contains("make a survey"), "{status}");
    assert!(status.contains("sleep 600"), "{status}");
    // A plain stop leaves it alone, and says that it is there.
    home.telegram.say(ADA, "/stop");
    let told = home.wait_for_answers(ADA, 4).remove(3);
    assert!(told.contains("bg1") && told.contains("sleep 600"), "{told}");
    home.telegram.say(ADA, "/stop bg1");
    let ended = home.wait_for_answers(ADA, 5).remove(4);
    assert!(ended.contains("bg1") && !ended.contains("sleep"), "{ended}");
    home.telegram.say(ADA, "/stop all");
    let ended = home.wait_for_answers(ADA, 6).remove(5);
    assert!(ended.contains("sleep 600"), "{ended}");
    home.telegram.say(ADA, "/status");
    let status = home.wait_for_answers(ADA, 7).remove(6);
    assert!(!status.contains("background"), "{status}");
}

#[test]
fn background_work_that_a_killed_gateway_began_is_done_once() {
    let slow = ScriptedAnswer::text("The survey is done.").with(|reply| reply.delay_ms = 1500);
    let home = ChatHome::new(ModelScript::default().rule("survey", slow));
    let mut gateway = home.start();
    home.telegram.say(ADA, "/background make a survey");
    wait_until("the model is asked", || home.turns().len() == 1);
    gateway.process.kill();
    let gateway = home.start();
    home.wait_for_text("The survey is done.");
    home.telegram.say(ADA, "/whoami");
    home.wait_for_text("7001");
    let answers = home.telegram.answers(ADA);
    let done = answers.iter().filter(|answer| answer.contains("done"));
    assert_eq!(done.count(), 1, "{answers:?}");
    // It went on where it was, in its own session.
    let sessions = gateway.get("/api/sessions");
    assert_eq!(
        sessions["sessions"].as_array().unwrap().len(),
        1,
        "{sessions}"
    );
}

/// A home whose configuration is applied on request alone, with a comment that stays.
fn with_servers_on_request() -> ChatHome {
    ChatHome::with_more(
        ModelScript::echo(),
        "# Kept by hand.\nmcp: {auto_reload_on_config_change: false} # not by itself",
    )
}

impl ChatHome {
    /// Adds a server to the configuration.
    fn add_server(&self, name: &str) {
        let config = std::fs::read_to_string(self.gateway.home.config()).unwrap();
        let kit = entry(&Behaviour::new());
        let servers = match config.split_once("mcp_servers:\n") {
            Some((before, after)) => format!("{before}mcp_servers:\n  {name}: {kit}\n{after}"),
            None => format!("{config}mcp_servers:\n  {name}: {kit}\n"),
        };
        self.gateway.home.write_config(&servers);
    }

    fn config_text(&self) -> String {
        std::fs::read_to_string(self.gateway.home.config()).unwrap()
    }

    /// Asks for a reload, and waits for the question.
    #[track_caller]
    fn ask_for_reload(&self) -> TelegramMessage {
        let asked = || {
            let mut messages = self.telegram.messages(ADA).into_iter();
            messages.rfind(|message| !message.buttons.is_empty())
        };
        let before = asked().map(|message| message.id);
        self.telegram.say(ADA, "/reload_mcp");
        wait_until("a question", || asked().map(|message| message.id) != before);
        asked().unwrap()
    }

    fn press(&self, message: &TelegramMessage, label: &str) {
        let mut buttons = message.buttons.iter().flatten();
        let (_, data) = buttons.find(|(shown, _)| shown == label).unwrap();
        let query = self.telegram.press(ADA, ADA, message.id, data);
        wait_until("it is confirmed", || {
            self.telegram.button_answer(&query).is_some()
        });
    }

    #[track_caller]
    fn wait_for_text(&self, expected: &str) {
        wait_until(expected, || {
            let answers = self.telegram.answers(ADA);
            answers.iter().any(|answer| answer.contains(expected))
        });
    }
}

fn servers(gateway: &GatewayProcess) -> Value {
    gateway.get("/health/detailed")["mcp_servers"].clone()
}

#[test]
fn servers_are_reloaded_once_always_or_not_at_all_by_button() {
    let home = with_servers_on_request();
    let gateway = home.start();
    home.add_server("one");
    let question = home.ask_for_reload();
    let labels: Vec<&str> = question
        .buttons
        .iter()
        .flatten()
        .map(|(label, _)| label.as_str())
        .collect();
    assert_eq!(labels, ["Once", "Always", "Cancel"]);
    assert!(question.text.contains("added: one"), "{}", question.text);
    home.press(&question, "Cancel");
    home.wait_for_text("Nothing was reloaded.");
    assert!(
        !servers(&gateway).to_string().contains("\"one\""),
        "{}",
        servers(&gateway)
    );
    let question = home.ask_for_reload();
    home.press(&question, "Once");
    home.wait_for_text("now: ");
    wait_until("the server is ready", || {
        let known = servers(&gateway);
        let mut known = known.as_array().unwrap().iter();
        known.any(|server| server["name"] == "one" && server["status"] == "ready")
    });
    assert!(!home.config_text().contains("mcp_reload_confirm"));
    home.add_server("two");
    let question = home.ask_for_reload();
    home.press(&question, "Always");
    home.wait_for_text("added: two");
    wait_until("the choice is written", || {
        home.config_text().contains("mcp_reload_confirm: false")
    });
    let config = home.config_text();
    for kept in ["# Kept by hand.", "# not by itself", "  two:"] {
        assert!(config.contains(kept), "{config}");
    }
    // Nobody is asked any more.
    home.add_server("three");
    home.telegram.say(ADA, "/reload_mcp");
    home.wait_for_text("added: three");
    let questions = home.telegram.messages(ADA);
    let asked = questions
        .iter()
        .filter(|message| message.text.contains("Reload?"))
        .count();
    assert_eq!(asked, 3);
}

#[test]
fn a_press_that_waited_for_a_gateway_does_nothing_and_says_so() {
    let home = with_servers_on_request();
    let mut gateway = home.start();
    home.add_server("one");
    let (question, other) = (home.ask_for_reload(), home.ask_for_reload());
    gateway.process.kill();
    let mut buttons = question.buttons.iter().flatten();
    let (_, always) = buttons.find(|(shown, _)| shown == "Always").unwrap();
    let query = home.telegram.press(ADA, ADA, question.id, always);
    home.telegram.expire_press(&query);
    // After an outage the first requests may fail.
    let failing = json!({"ok": false, "error_code": 502, "description": "Bad Gateway"});
    let fault = PlatformFault::Status(502, failing);
    home.telegram.fail("answerCallbackQuery", fault);
    let _gateway = home.start();
    let is_expired = || {
        let messages = home.telegram.messages(ADA);
        let mut messages = messages.iter();
        messages.any(|message| {
            message.id == question.id && message.text.contains("This request has expired.")
        })
    };
    wait_until("it says so", is_expired);
    assert!(!home.config_text().contains("mcp_reload_confirm"));
    // A button of an earlier process that is pressed now works.
    home.press(&other, "Cancel");
    home.wait_for_text("Nothing was reloaded.");
}

#[test]
fn platforms_follow_the_configuration_even_where_servers_do_not() {
    let home = with_servers_on_request();
    let gateway = home.start();
    let discord = DiscordServer::start("discord-token-of-the-tests");
    let (bob, eve) = (discord.add_user("bob"), discord.add_user("eve"));
    let slack = SlackServer::start("xoxb-of-the-tests", "xapp-of-the-tests");
    let write_env = |users: &str, more: &str| {
        let env = format!(
            "DISCORD_BOT_TOKEN=discord-token-of-the-tests\nDISCORD_BASE_URL={}\nDISCORD_ALLOWED_USERS={users}\n{more}",
            discord.base_url()
        );
        std::fs::write(home.gateway.home.path().join(".env"), env).unwrap();
    };
    let wait_for_platform = |name: &str| {
        wait_until(name, || gateway.platform(name)["state"] == "connected");
    };
    home.add_server("one");
    write_env(&bob, "");
    wait_for_platform("discord");
    let more = format!(
        "SLACK_BOT_TOKEN=xoxb-of-the-tests\nSLACK_APP_TOKEN=xapp-of-the-tests\nSLACK_BASE_URL={}\nSLACK_ALLOWED_USERS=U1\n",
        slack.base_url()
    );
    write_env(&format!("{bob},{eve}"), &more);
    wait_for_platform("slack");
    // It was stopped before Slack was started, and has its new allow-list.
    wait_for_platform("discord");
    let dm = discord.open_dm(&eve);
    discord.say(&dm, &eve, "apples");
    wait_until("an answer", || !discord.answers(&dm).is_empty());
    assert_eq!(discord.answers(&dm)[0].text, "apples");
    let known = servers(&gateway);
    assert!(!known.to_string().contains("\"one\""), "{known}");
    let question = home.ask_for_reload();
    assert!(question.text.contains("added: one"), "{}", question.text);
}

#[test]
fn a_server_that_never_answers_makes_nobody_wait_after_the_start() {
    let never = json!({"dead": {"command": "sleep", "args": ["600"]}});
    let home = ChatHome::with_more(ModelScript::echo(), &format!("mcp_servers: {never}"));
    let gateway = home.start();
    // The first moments of a gateway may be waited for, too.
    let mut round = 0;
    assert_once_within(Duration::from_millis(1200), || {
        round += 1;
        let asked = Instant::now();
        home.telegram.say(ADA, "hello");
        home.wait_for_answers(ADA, round);
        asked.elapsed()
    });
    let states = servers(&gateway).to_string();
    assert!(states.contains("connecting"), "{states}");
}
