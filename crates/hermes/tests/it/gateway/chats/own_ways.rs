//! What platforms have of their own: reactions as receipts, their signs to stop an answer, webhooks, toolsets, files.

use hermes_testkit::{
    Behaviour, Era, ReservedPort,
    platform::{DiscordDraft, SLACK_BOT_USER, SlackPost, TelegramFile},
};

use super::{three_platforms::*, *};
use crate::harness::program::entry;

#[test]
fn a_message_gets_a_reaction_where_that_is_wanted() {
    let more = "telegram: {reactions: true}\ndiscord: {reactions: true}\nslack: {reactions: true}";
    let all = ThreePlatformHome::with_more(ModelScript::echo(), more);
    let _gateway = all.start();
    for place in ChatPlatform::ALL {
        all.say(place, "hello");
        wait_until("a reaction", || match place {
            ChatPlatform::Telegram => all.home.telegram.messages(ADA)[0].reactions == ["👀"],
            ChatPlatform::Discord => all.discord.messages(&all.discord_chat)[0].reactions == ["👀"],
            ChatPlatform::Slack => all.slack.messages(&all.slack_chat)[0].reactions == ["eyes"],
        });
        all.wait_for_answers(place, 1);
    }
    // Nobody asked for one here.
    let quiet = ChatHome::new(ModelScript::echo());
    let _gateway = quiet.start();
    quiet.telegram.say(ADA, "hello");
    quiet.wait_for_answers(ADA, 1);
    assert!(quiet.telegram.messages(ADA)[0].reactions.is_empty());
}

/// A home whose model says something and then calls a tool that takes very long.
fn with_endless_call() -> ThreePlatformHome {
    let kit = entry(&Behaviour::new().era(Era::Legacy));
    let call = ScriptedAnswer::call("mcp_kit_sleep", &json!({"ms": 600_000}));
    let call = call.with(|reply| reply.text = vec!["Let me see.".into()]);
    let servers = format!("mcp_servers: {}", json!({"kit": kit}));
    ThreePlatformHome::with_more(ModelScript::default().rule("work", call), &servers)
}

#[track_caller]
fn wait_for_call(gateway: &GatewayProcess) {
    wait_until("a turn", || {
        gateway.get("/health/detailed")["queues"]["turns"] == 1
    });
}

#[track_caller]
fn wait_for_end(gateway: &GatewayProcess) {
    wait_until("the turn and its call have ended", || {
        gateway.get("/health/detailed")["queues"]["runs"] == 0
    });
}

#[test]
fn the_stop_of_telegram_ends_the_turn_and_its_call() {
    let all = with_endless_call();
    let gateway = all.start();
    all.say(ChatPlatform::Telegram, "work");
    wait_for_call(&gateway);
    let telegram = &all.home.telegram;
    wait_until("a draft with a Stop", || !telegram.drafts(ADA).is_empty());
    assert!(telegram.press_stop(ADA));
    wait_for_end(&gateway);
    wait_until("what was said stays", || {
        telegram.answers(ADA) == ["Let me see. … (stopped)"]
    });
}

#[test]
fn the_stop_of_slack_ends_the_turn_and_its_call() {
    let all = with_endless_call();
    all.slack.add_channel("C1", "general");
    let gateway = all.start();
    let asked = all.slack.write(&SlackPost::new(
        "U1",
        "C1",
        &format!("<@{SLACK_BOT_USER}> work"),
    ));
    wait_for_call(&gateway);
    wait_until("the answer grows", || {
        !all.slack.bot_messages("C1").is_empty()
    });
    all.slack.stop_answer("U1", "C1", &asked);
    wait_for_end(&gateway);
    wait_until("it says so", || {
        let messages = all.slack.bot_messages("C1");
        messages.len() == 1 && messages[0].text.contains("(stopped)")
    });
}

#[test]
fn a_platform_has_the_tools_that_its_list_names() {
    let kit = entry(&Behaviour::new().era(Era::Legacy));
    let tools_with = |toolsets: &str| -> Vec<String> {
        let more = format!(
            "mcp_servers: {}\nplatform_toolsets: {{telegram: {toolsets}}}",
            json!({"kit": kit})
        );
        let home = ChatHome::with_more(ModelScript::echo(), &more);
        let gateway = home.start();
        wait_until("the server is ready", || {
            let known = gateway.get("/health/detailed")["mcp_servers"].clone();
            known.to_string().contains("\"ready\"")
        });
        home.telegram.say(ADA, "hello");
        home.wait_for_answers(ADA, 1);
        let tools = home.turns()[0].body["tools"].clone();
        let names = tools.as_array().into_iter().flatten();
        names
            .map(|tool| tool["function"]["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let all = tools_with("[hermes-telegram]");
    for name in ["mcp_kit_echo", "read_file", "terminal", "send_message"] {
        assert!(all.iter().any(|tool| tool == name), "{name}: {all:?}");
    }
    assert_eq!(tools_with("[todo, no_mcp]"), ["todo"]);
}

const HOOK_SECRET: &str = "s3cret_of_the_hook";

/// A gateway whose Telegram calls it at this port.
fn start_with_webhook(home: &ChatHome, port: &ReservedPort) -> GatewayProcess {
    let mut command = home.gateway.home.command(&["gateway", "run"]);
    command
        .env("TELEGRAM_WEBHOOK_URL", "https://bot.example/hook")
        .env("TELEGRAM_WEBHOOK_SECRET", HOOK_SECRET)
        .env("TELEGRAM_WEBHOOK_PORT", port.number().to_string());
    home.start_command(command)
}

#[test]
fn by_webhook_an_update_that_comes_many_times_at_once_is_answered_once() {
    let home = ChatHome::new(ModelScript::echo());
    let port = ReservedPort::reserve().unwrap();
    let _gateway = start_with_webhook(&home, &port);
    let number = port.number();
    // A bot cannot write to somebody who never wrote to it.
    home.telegram.say(ADA, "hello");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let listener = ([127, 0, 0, 1], number).into();
    runtime.block_on(home.telegram.deliver_to_webhook(listener));
    home.wait_for_answers(ADA, 1);
    let ada = json!({"id": ADA, "is_bot": false, "first_name": "Ada"});
    let chat = json!({"id": ADA, "type": "private", "first_name": "Ada"});
    let headers = format!(
        "Content-Type: application/json\r\nX-Telegram-Bot-Api-Secret-Token: {HOOK_SECRET}\r\n"
    );
    for (id, text, count) in [(9_000_000, "apples", 2), (9_000_001, "pears", 3)] {
        let update = json!({"update_id": id, "message": {
            "message_id": id, "date": 1_900_000_000, "text": text, "from": ada, "chat": chat,
        }});
        let deliver = || {
            let stream = TcpStream::connect(("127.0.0.1", number)).unwrap();
            send_request(stream, "POST", "/hook", &headers, &update).0
        };
        let statuses: Vec<u16> = std::thread::scope(|scope| {
            let deliveries: Vec<_> = (0..8).map(|_| scope.spawn(deliver)).collect();
            let ended = deliveries.into_iter().map(|thread| thread.join().unwrap());
            ended.collect()
        });
        assert_eq!(statuses, [200; 8]);
        home.wait_for_answers(ADA, count);
    }
    // What the first one caused was said before the second was answered.
    assert_eq!(home.telegram.answers(ADA), ["hello", "apples", "pears"]);
    assert_eq!(home.turns().len(), 3);
}

#[test]
fn by_webhook_a_message_is_answered_too() {
    let home = ChatHome::new(ModelScript::echo());
    let port = ReservedPort::reserve().unwrap();
    let _gateway = start_with_webhook(&home, &port);
    home.telegram.say(ADA, "hello");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let listener = ([127, 0, 0, 1], port.number()).into();
    let statuses = runtime.block_on(home.telegram.deliver_to_webhook(listener));
    assert_eq!(statuses, [200]);
    assert_eq!(home.wait_for_answers(ADA, 1), ["hello"]);
}

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n and the rest of a picture";

#[test]
fn files_go_in_and_out_on_every_platform() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.txt");
    std::fs::write(&path, "a report").unwrap();
    let answer = format!("Here it is.\nMEDIA:{}", path.display());
    let script = ModelScript::default().rule("look", ScriptedAnswer::text(&answer));
    let all = ThreePlatformHome::new(script);
    let _gateway = all.start();
    for place in ChatPlatform::ALL {
        let before = all.home.turns().len();
        match place {
            ChatPlatform::Telegram => {
                let message = all.home.telegram.message(ADA, ADA).text("look");
                message.file(TelegramFile::Photo, "p.png", PNG).send();
            }
            ChatPlatform::Discord => {
                let draft = DiscordDraft {
                    files: vec![("p.png".into(), PNG.to_vec())],
                    ..DiscordDraft::text("look")
                };
                all.discord
                    .write(&all.discord_chat, &all.discord_user, &draft);
            }
            ChatPlatform::Slack => {
                let post = SlackPost::new("U1", &all.slack_chat, "look").with_file("p.png", PNG);
                all.slack.write(&post);
            }
        }
        wait_until("the file of the answer", || match place {
            ChatPlatform::Telegram => {
                let messages = all.home.telegram.messages(ADA);
                let mut own = messages.iter().filter(|message| message.is_from_bot);
                own.any(|message| message.file == Some("document"))
            }
            ChatPlatform::Discord => {
                let answers = all.discord.answers(&all.discord_chat);
                answers.iter().any(|answer| answer.files == ["report.txt"])
            }
            ChatPlatform::Slack => {
                let answers = all.slack.bot_messages(&all.slack_chat);
                answers.iter().any(|answer| answer.files == ["report.txt"])
            }
        });
        let told = all.home.turns()[before].body["messages"].to_string();
        assert!(told.contains("cache/images/"), "{place:?}: {told}");
    }
}
