use std::{collections::HashSet, fmt::Write as _};

use hermes_config::{Home, Platform};

use super::{table::COMMANDS, *};
use crate::platform::{Account, Button, ChatAddress, ChatKind, CommandCall};

mod deciding;
mod fake_gateway;

use fake_gateway::FakeGateway;

/// Types a command at Telegram and returns what is said.
async fn say(gateway: &FakeGateway, text: &str) -> CommandReply {
    match parse_command(text, Platform::Telegram, Some("hermes_bot")).unwrap() {
        TypedCommand::Known(request) => execute(&request, gateway).await,
        TypedCommand::Unknown { name, arguments } => {
            execute_unknown(&name, &arguments, gateway).await
        }
        TypedCommand::ForAnotherBot => panic!("{text}"),
    }
}

#[test]
fn every_command_is_in_the_table_once_and_fits_every_platform() {
    let mut words = HashSet::new();
    for command in COMMANDS {
        assert_eq!(command.name.row().word, command.word);
        for word in [command.word].iter().chain(command.aliases) {
            assert!(words.insert(*word), "{word}");
            assert_eq!(find_command(word), Some(command.name));
        }
        assert_eq!(find_command(command.underscored), Some(command.name));
    }
    for platform in Platform::ALL {
        let specs = command_specs(platform);
        assert_eq!(specs.len(), COMMANDS.len());
        // Telegram takes 60 and 256 characters, Discord 100 and 100.
        assert!(specs.len() <= 60);
        for spec in specs {
            let is_allowed = |c: char| {
                c.is_ascii_lowercase()
                    || c.is_ascii_digit()
                    || c == '_'
                    || (c == '-' && platform != Platform::Telegram)
            };
            assert!(spec.name.chars().all(is_allowed), "{}", spec.name);
            assert!((1..=32).contains(&spec.name.len()));
            let argument = spec.argument.unwrap_or("none");
            assert!(
                argument.chars().all(|c| c.is_ascii_lowercase()),
                "{argument}"
            );
            assert!((3..=100).contains(&spec.description.chars().count()));
        }
    }
}

#[test]
fn commands_are_read_in_every_spelling() {
    let known = |text: &str, platform| match parse_command(text, platform, Some("Hermes_Bot")) {
        Some(TypedCommand::Known(request)) => Some((request.name, request.arguments)),
        _ => None,
    };
    for (text, platform, name, arguments) in [
        ("/status", Platform::Telegram, CommandName::Status, ""),
        (
            "/STATUS@hermes_bot",
            Platform::Telegram,
            CommandName::Status,
            "",
        ),
        (
            "/new  My plans ",
            Platform::Discord,
            CommandName::New,
            "My plans",
        ),
        ("/reset", Platform::Telegram, CommandName::New, ""),
        ("/start", Platform::Telegram, CommandName::Help, ""),
        (
            "/reload_mcp",
            Platform::Telegram,
            CommandName::ReloadMcp,
            "",
        ),
        (
            "/reload-mcp now",
            Platform::Slack,
            CommandName::ReloadMcp,
            "now",
        ),
        ("!stop", Platform::Slack, CommandName::Stop, ""),
        (
            "/deny all too\nrisky",
            Platform::Telegram,
            CommandName::Deny,
            "all too\nrisky",
        ),
        (
            "/queue\nfirst line",
            Platform::Telegram,
            CommandName::Queue,
            "first line",
        ),
    ] {
        assert_eq!(
            known(text, platform),
            Some((name, arguments.to_owned())),
            "{text}"
        );
    }
}

#[test]
fn what_only_looks_like_a_command_is_a_message() {
    for (text, platform) in [
        ("status", Platform::Telegram),
        ("/", Platform::Telegram),
        ("/etc/passwd is gone", Platform::Telegram),
        ("// comment", Platform::Telegram),
        ("/42", Platform::Telegram),
        ("!stop", Platform::Telegram),
        ("!important", Platform::Slack),
        ("! stop", Platform::Slack),
        ("", Platform::Slack),
        ("é/stop", Platform::Slack),
    ] {
        assert_eq!(parse_command(text, platform, None), None, "{text}");
    }
}

#[test]
fn a_command_for_another_bot_is_not_ours() {
    let parse = |bot| parse_command("/status@other_bot", Platform::Telegram, bot);
    assert_eq!(parse(Some("hermes_bot")), Some(TypedCommand::ForAnotherBot));
    assert!(matches!(parse(None), Some(TypedCommand::Known(_))));
}

#[test]
fn commands_that_the_platform_parsed_and_buttons_are_the_same_commands() {
    let call = |name: &str| CommandCall {
        name: name.into(),
        arguments: " 2 ".into(),
        token: String::new(),
    };
    let TypedCommand::Known(request) = TypedCommand::from_call(&call("help")) else {
        panic!();
    };
    assert_eq!(Some(request), parse_button("cmd:help:2"));
    let stop = parse_button(&Button::stop().data).unwrap();
    assert_eq!(
        (stop.name, stop.arguments.as_str()),
        (CommandName::Stop, "")
    );
    assert!(matches!(
        TypedCommand::from_call(&call("nonsense")),
        TypedCommand::Unknown { .. }
    ));
    assert_eq!(parse_button("ea:once:ap_1"), None);
    assert_eq!(parse_button("cmd:nonsense:1"), None);
}

#[test]
fn a_command_that_acts_does_nothing_after_a_minute() {
    for command in COMMANDS {
        let acts = command.effect == CommandEffect::Acts;
        assert!(!is_stale(command.name, Some(1000.0), 1060.0));
        assert_eq!(is_stale(command.name, Some(1000.0), 1060.5), acts);
        assert!(!is_stale(command.name, None, 1e9));
    }
    for name in [CommandName::Stop, CommandName::Approve, CommandName::Deny] {
        assert!(is_stale(name, Some(0.0), 61.0));
    }
}

#[tokio::test]
async fn an_unknown_command_is_a_skill_or_one_line_with_the_nearest_name() {
    let gateway = FakeGateway::default();
    assert_eq!(
        say(&gateway, "/stauts").await.text,
        "There is no command `/stauts`. Did you mean `/status`?"
    );
    assert_eq!(
        say(&gateway, "/reload_mpc").await.text,
        "There is no command `/reload_mpc`. Did you mean `/reload-mcp`?"
    );
    assert_eq!(
        say(&gateway, "/qwertz").await.text,
        "There is no command `/qwertz`. `/help` lists them."
    );
    gateway.done();
    assert!(say(&gateway, "/haiku about rain").await.is_empty());
    assert_eq!(gateway.done(), ["skill haiku about rain"]);
}

#[tokio::test]
async fn each_command_says_what_it_did() {
    let gateway = FakeGateway {
        is_busy: true,
        ..FakeGateway::default()
    };
    let mut told = String::new();
    for text in [
        "/new",
        "/new Trip to Bern",
        "/stop",
        "/model",
        "/model gpt-5 --provider openai",
        "/model gpt-5 --global",
        "/sessions",
        "/resume s1",
        "/undo",
        "/undo 3",
        "/title",
        "/title Plans",
        "/usage",
        "/whoami",
        "/sethome",
        "/compress",
        "/queue and then this",
        "/background look it up",
        "/mcp",
        "/skills",
        "/reload_skills",
        "/status",
    ] {
        let reply = say(&gateway, text).await.text;
        let _ = write!(told, "{text}\n{reply}\n\n");
    }
    insta::assert_snapshot!(told.trim_end(), @r#"
    /new
    This is a new conversation (`20260505_120000_ab12cd34`).

    /new Trip to Bern
    This is a new conversation, "Trip to Bern" (`20260505_120000_ab12cd34`).

    /stop
    Stopped; 2 messages that waited were dropped.

    /model
    No model is chosen yet; it is searched with the first message.

    /model gpt-5 --provider openai
    gpt-5 (openai) is used in this conversation.

    /model gpt-5 --global
    gpt-5 (openai) is used from now on.

    /sessions
    `s2` "what is the plan?", 4 messages, 2 h ago (this one)
    "Plans" (`s1`), 4 messages, 2 h ago
    `/resume ID` goes back to one.

    /resume s1
    This is "Plans" (`s1`) again, with 1 message.

    /undo
    Took back: "delete it"

    /undo 3
    Took back 3 turns, from "delete it" on.

    /title
    The conversation has no title; `/title TEXT` gives it one.

    /title Plans
    The conversation is called "Plans" now.

    /usage
    this conversation: 1 call, 10 in, 5 out, about $0.0123

    /whoami
    platform: telegram
    user: `42` (Ann)
    chat: `42` (dm)
    access: you were paired
    commands: all

    /sethome
    This chat is the home channel of telegram now.

    /compress
    The conversation has 6 messages now instead of 40.

    /queue and then this
    Queued, place 2.

    /background look it up
    Working on it in the background. The answer comes here; `/stop bg1` ends it.

    /mcp
    `time` ready: 2 tools
    `files` parked: connection refused

    /skills
    `/haiku` Writes haiku

    /reload_skills
    There are 3 skills.

    /status
    session: `20260505_120000_ab12cd34` "Plans", 3 messages
    model: sonnet (anthropic)
    tokens: 1200 in (200 of them cached), 30 out
    turn: running, 1 queued, 1 waiting for approval
    servers: 1 ready (2 tools), 1 parked (files)
    platforms: telegram connected, slack deaf
    "#);
    let version = say(&gateway, "/version").await.text;
    assert_eq!(version, format!("hermes {}", env!("CARGO_PKG_VERSION")));
}

#[tokio::test]
async fn wrong_arguments_do_nothing_and_are_explained() {
    let gateway = FakeGateway::default();
    for (text, expected) in [
        ("/undo x", "Use it as `/undo` or `/undo 2`."),
        ("/undo 0", "Use it as `/undo` or `/undo 2`."),
        ("/queue", "Use it as `/queue TEXT`."),
        ("/background", "Use it as `/background TEXT`."),
        (
            "/approve perhaps",
            "Use it as `/approve [all] [session|always]`.",
        ),
        (
            "/model a b",
            "Use it as `/model [name] [--provider p] [--global|--session]`.",
        ),
        (
            "/model --provider openai",
            "Use it as `/model [name] [--provider p] [--global|--session]`.",
        ),
        (
            "/reload_mcp maybe",
            "Use it as `/reload-mcp [once|always|cancel]`.",
        ),
        ("/help 99", "There are pages 1 to 2."),
    ] {
        assert_eq!(say(&gateway, text).await.text, expected, "{text}");
        assert_eq!(gateway.done(), [] as [String; 0], "{text}");
    }
}

#[tokio::test]
async fn nothing_to_stop_is_said_and_a_failure_too() {
    let gateway = FakeGateway::default();
    assert_eq!(say(&gateway, "/stop").await.text, "Nothing is running.");
    let failing = FakeGateway {
        fails: true,
        ..FakeGateway::default()
    };
    assert_eq!(
        say(&failing, "/new").await.text,
        "The store cannot be reached."
    );
}

#[tokio::test]
async fn a_retry_and_a_queued_message_that_starts_are_followed_by_their_answer_alone() {
    let gateway = FakeGateway::default();
    assert!(say(&gateway, "/retry").await.is_empty());
    assert!(say(&gateway, "/queue hi").await.is_empty());
    assert_eq!(gateway.done(), ["retry", "queue hi"]);
}

#[tokio::test]
async fn only_an_administrator_chooses_the_model_for_all() {
    let mut gateway = FakeGateway::default();
    gateway.caller.is_admin = false;
    let refused = say(&gateway, "/model gpt-5 --global").await;
    assert!(
        refused.text.starts_with("Only an administrator"),
        "{}",
        refused.text
    );
    assert_eq!(gateway.done(), [] as [String; 0]);
    say(&gateway, "/model gpt-5 —provider openai").await;
    assert!(gateway.done()[0].contains("Session"));
}

#[tokio::test]
async fn a_reload_asks_first_and_remembers_always() {
    let gateway = FakeGateway::default();
    let question = say(&gateway, "/reload_mcp").await;
    assert_eq!(gateway.done(), ["plan"]);
    assert!(
        question.text.contains("added: time\nunchanged: files"),
        "{}",
        question.text
    );
    let choices: Vec<_> = question.buttons[0]
        .iter()
        .map(|button| button.data.as_str())
        .collect();
    assert_eq!(
        choices,
        [
            "cmd:reload-mcp:once",
            "cmd:reload-mcp:always",
            "cmd:reload-mcp:cancel"
        ]
    );
    let press = |data: &str| parse_button(data).unwrap();
    let reply = execute(&press(choices[1]), &gateway).await;
    assert_eq!(
        reply.text,
        "added: time\nnow: 1 ready (2 tools), 1 parked (files)"
    );
    assert_eq!(gateway.done(), ["reload true", "servers"]);
    let reply = execute(&press(choices[2]), &gateway).await;
    assert_eq!(reply.text, "Nothing was reloaded.");
    assert_eq!(gateway.done(), [] as [String; 0]);
    let unasked = FakeGateway {
        asks_reload: false,
        ..FakeGateway::default()
    };
    say(&unasked, "/reload-mcp").await;
    assert_eq!(unasked.done(), ["plan", "reload false", "servers"]);
}

#[tokio::test]
async fn work_in_the_background_is_named_when_the_turn_is_stopped_and_ended_by_name() {
    let line = |name: &str, subject: &str| BackgroundLine {
        name: name.into(),
        subject: subject.into(),
    };
    let gateway = FakeGateway::default();
    *gateway.background.lock() = vec![line("bg1", "look it up"), line("proc_7", "sleep 60")];
    assert_eq!(
        say(&gateway, "/stop").await.text,
        "Nothing is running. In the background: `bg1` (look it up), `proc_7` (sleep 60); `/stop NAME` or `/stop all` ends it."
    );
    assert_eq!(
        say(&gateway, "/stop bg1").await.text,
        "Ended: `bg1` (look it up)."
    );
    assert_eq!(
        say(&gateway, "/stop bg1").await.text,
        "Nothing in the background is called `bg1`: `proc_7` (sleep 60)."
    );
    assert_eq!(
        say(&gateway, "/stop all").await.text,
        "Nothing is running. Ended: `proc_7` (sleep 60)."
    );
    assert_eq!(say(&gateway, "/stop all").await.text, "Nothing is running.");
}

#[tokio::test]
async fn help_has_pages_and_lists_what_the_user_may_use() {
    let gateway = FakeGateway::default();
    let first = say(&gateway, "/help").await;
    assert_eq!(first.buttons[0][0].data, "cmd:help:2");
    let second = say(&gateway, "/help 2").await;
    assert!(second.buttons.is_empty());
    insta::assert_snapshot!(format!("{}\n---\n{}", first.text, second.text), @r#"
    Write a message, or use a command:
    `/new [title]` Begin a new conversation
    `/stop [NAME|all]` Stop the answer and its tool calls; or work in the background, by its name
    `/approve [all] [session|always]` Allow what waits for approval, or all of it; for the session or always
    `/deny [all] [reason]` Refuse what waits for approval, or all of it; the reason goes to the agent
    `/status` Show session, model, tokens, servers and platforms
    `/help [page]` List the commands
    `/model [name] [--provider p] [--global|--session]` Show the model, or use another one
    `/sessions` List earlier conversations of this chat
    `/resume [id or title]` Go back to an earlier conversation
    `/undo [n]` Take back the last turns
    `/retry` Take back the last answer and try again
    `/title [text]` Show the title of the conversation, or set it

    Page 1 of 2; `/help 2` shows the next one.
    ---
    Write a message, or use a command:
    `/usage` Show tokens and cost
    `/whoami` Show your ids and what you may do
    `/sethome` Make this chat the home channel
    `/compress` Summarize the conversation to free context
    `/queue TEXT` Answer this after the current turn
    `/background TEXT` Work on this in a conversation of its own
    `/mcp` Show the MCP servers
    `/reload-mcp [once|always|cancel]` Read the configuration again and restart MCP servers that changed
    `/skills` List skills; /name uses one
    `/reload-skills` Look for skills again
    `/commands [page]` List all commands and skills
    `/version` Show the version

    Page 2 of 2.
    "#);
    let limited = FakeGateway {
        allowed: Some(&["help", "status"]),
        ..FakeGateway::default()
    };
    assert_eq!(
        say(&limited, "/help").await.text,
        "Write a message, or use a command:\n`/status` Show session, model, tokens, servers and platforms\n`/help [page]` List the commands"
    );
    let all = say(&gateway, "/commands 3").await;
    assert!(all.text.contains("`/haiku` Writes haiku"), "{}", all.text);
}

#[test]
fn the_home_channel_is_written_beside_what_stands_in_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let home = Home::at(directory.path());
    let file = home.env_file();
    std::fs::write(
        &file,
        "# mine\nTELEGRAM_HOME_CHANNEL=1 # old\nTELEGRAM_HOME_CHANNEL_THREAD_ID=7\nA=b\n",
    )
    .unwrap();
    let mut chat = ChatAddress::new("-100", ChatKind::Group);
    chat.name = Some("Team #1".into());
    write_home_channel(&home, &Account::first(Platform::Telegram), &chat).unwrap();
    assert_eq!(
        std::fs::read_to_string(&file).unwrap(),
        "# mine\nTELEGRAM_HOME_CHANNEL=-100\nA=b\nTELEGRAM_HOME_CHANNEL_NAME='Team #1'\n"
    );
    let work = Account {
        platform: Platform::Telegram,
        name: "my-work".into(),
    };
    chat.thread_id = Some("9".into());
    write_home_channel(&home, &work, &chat).unwrap();
    let settings = hermes_config::Settings::load(&home).unwrap();
    let account = settings.gateway.account(Platform::Telegram, "");
    assert_eq!(
        account.unwrap().home_channel.as_ref().unwrap().thread_id,
        None
    );
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(
        text.contains("TELEGRAM_HOME_CHANNEL_MY_WORK=-100"),
        "{text}"
    );
    assert!(
        text.contains("TELEGRAM_HOME_CHANNEL_THREAD_ID_MY_WORK=9"),
        "{text}"
    );
}
