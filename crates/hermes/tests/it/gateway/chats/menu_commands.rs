//! Commands and signs that platforms bring themselves: Discord's commands, Slack's menu, Telegram's Stop.

use hermes_testkit::{
    model::ReplyEnding,
    platform::{SLACK_BOT_USER, SlackPost, SlackServer},
};

use super::{
    platforms::{with_discord, with_slack},
    *,
};

/// An answer that has begun and does not end by itself.
fn endless() -> ScriptedAnswer {
    ScriptedAnswer::pieces(["One", " two"]).with(|reply| reply.ending = ReplyEnding::Stalled)
}

#[test]
fn on_discord_a_command_is_confirmed_while_another_one_takes_long() {
    let slow = ScriptedAnswer::text("Fruit.").with(|reply| reply.delay_ms = 600_000);
    let (home, discord, bob) =
        with_discord(ModelScript::echo().rule("Sum up this transcript", slow));
    let config = home.config();
    let compression = "compression: {protect_first_n: 1, protect_last_n: 2}";
    home.gateway
        .home
        .write_config(&format!("{config}\n{compression}\n"));
    let _gateway = home.start_with("discord");
    let dm = discord.open_dm(&bob);
    let fruit = ["apples", "pears", "plums", "cherries", "figs", "dates"];
    for (number, name) in fruit.into_iter().enumerate() {
        discord.say(&dm, &bob, name);
        wait_until("an answer", || discord.answers(&dm).len() > number);
    }
    discord.use_command(&dm, &bob, "compress", &json!({}));
    wait_until("a summary is asked for", || {
        let asked = home.turns();
        asked
            .iter()
            .any(|call| call.body.to_string().contains("Sum up this transcript"))
    });
    let token = discord.use_command(&dm, &bob, "whoami", &json!({}));
    wait_until("it is confirmed", || {
        discord.interaction(&token).callback.is_some()
    });
    // It is executed after the other one.
    assert_eq!(discord.answers(&dm).len(), fruit.len());
}

#[test]
fn on_discord_the_command_of_a_stranger_is_confirmed_and_answered_with_a_code() {
    let (home, discord, _) = with_discord(ModelScript::echo());
    // Codes are for bots of which nobody wrote down who may use them.
    let file = home.gateway.home.path().join(".env");
    let env = std::fs::read_to_string(&file).unwrap();
    let (open, _) = env.split_once("DISCORD_ALLOWED_USERS").unwrap();
    std::fs::write(&file, open).unwrap();
    let _gateway = home.start_with("discord");
    let eve = discord.add_user("eve");
    let dm = discord.open_dm(&eve);
    let token = discord.use_command(&dm, &eve, "status", &json!({}));
    wait_until("a code", || !discord.answers(&dm).is_empty());
    let answer = discord.answers(&dm).remove(0);
    assert!(answer.text.contains("pairing approve"), "{answer:?}");
    wait_until("it is confirmed", || {
        discord.interaction(&token).callback.is_some()
    });
    assert!(discord.interaction(&token).notices.is_empty());
}

/// Begins an answer in a thread of the channel, and waits until it is shown. Returns the thread.
fn begin_answer(slack: &SlackServer, text: &str) -> String {
    let text = format!("<@{SLACK_BOT_USER}> {text}");
    let thread = slack.write(&SlackPost::new("U1", "C1", &text));
    wait_until("an answer that grows", || {
        in_thread(slack, &thread).contains("One two")
    });
    thread
}

/// What the bot has written in a thread.
fn in_thread(slack: &SlackServer, thread: &str) -> String {
    let messages = slack.bot_messages("C1").into_iter();
    let own = messages.filter(|message| message.thread_ts.as_deref() == Some(thread));
    own.map(|message| message.text).collect()
}

#[test]
fn on_slack_stop_of_the_menu_ends_the_only_answer_of_the_channel() {
    let (home, slack) = with_slack(ModelScript::default().rule("count", endless()));
    let _gateway = home.start_with("slack");
    let thread = begin_answer(&slack, "count");
    slack.run_command("U1", "C1", "/stop", "");
    wait_until("it is stopped", || {
        in_thread(&slack, &thread).contains("(stopped)")
    });
}

#[test]
fn on_slack_stop_of_the_menu_ends_nothing_where_several_answers_are_under_way() {
    let (home, slack) = with_slack(ModelScript::default().rule("count", endless()));
    let _gateway = home.start_with("slack");
    let one = begin_answer(&slack, "count");
    let two = begin_answer(&slack, "count again");
    slack.run_command("U1", "C1", "/stop", "");
    wait_until("an answer to the command", || {
        let messages = slack.bot_messages("C1");
        messages.iter().any(|message| message.thread_ts.is_none())
    });
    // A stop in the thread says which one is meant.
    slack.write(&SlackPost::new("U1", "C1", "!stop").in_thread(&two));
    wait_until("it is stopped", || {
        in_thread(&slack, &two).contains("(stopped)")
    });
    assert!(!in_thread(&slack, &one).contains("(stopped)"));
}

#[test]
fn on_slack_deny_of_the_menu_decides_the_only_request_of_the_channel() {
    let script = ModelScript::new([
        ScriptedAnswer::call(
            "terminal",
            &json!({"command": "rm -r /tmp/none-of-the-tests"}),
        ),
        ScriptedAnswer::text("Finished."),
    ]);
    let (home, slack) = with_slack(script);
    let _gateway = home.start_with("slack");
    let text = format!("<@{SLACK_BOT_USER}> clean up");
    let thread = slack.write(&SlackPost::new("U1", "C1", &text));
    wait_until("a request", || {
        let messages = slack.bot_messages("C1");
        messages.iter().any(|message| !message.buttons.is_empty())
    });
    slack.run_command("U1", "C1", "/deny", "");
    wait_until("an answer", || {
        in_thread(&slack, &thread).contains("Finished.")
    });
}

#[test]
fn on_telegram_stop_ends_the_answer_that_it_is_below_and_no_other() {
    let home = ChatHome::new(ModelScript::default().rule("count", endless()));
    let _gateway = home.start();
    home.telegram.say(ADA, "count");
    let draft = || {
        let mut drafts = home.telegram.drafts(ADA).into_iter();
        drafts.find(|draft| draft.text.contains("One two"))
    };
    wait_until("a draft", || draft().is_some());
    let shown = draft().unwrap().id;
    let stop = |id: i64| {
        let chat = json!({"id": ADA, "type": "private", "first_name": "Ada"});
        let stopped = json!({"chat": chat, "draft_id": id});
        home.telegram
            .deliver(json!({"stopped_message_generation": stopped}));
    };
    stop(shown - 1);
    // Answered after that was taken.
    home.telegram.say(ADA, "/status");
    let status = home.wait_for_answers(ADA, 1).remove(0);
    assert!(!status.contains("(stopped)"), "{status}");
    stop(shown);
    wait_until("it is stopped", || {
        let answers = home.telegram.answers(ADA);
        answers.iter().any(|answer| answer.contains("(stopped)"))
    });
}
