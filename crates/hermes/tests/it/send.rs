//! `hermes send` and `hermes channels`.

use hermes_testkit::{
    model::{ModelScript, ModelServer, ScriptedAnswer},
    platform::{PlatformFault, PlatformServer},
};
use serde_json::json;

use crate::harness::program::{CommandOutput, Hermes};

const TOKEN: &str = "123456:AAF-very-secret";

fn telegram() -> (Hermes, PlatformServer) {
    let hermes = Hermes::new();
    let server = PlatformServer::telegram(TOKEN);
    hermes.home.write_env(&format!(
        "TELEGRAM_BOT_TOKEN={TOKEN}\nTELEGRAM_BASE_URL={}\n",
        server.base_url()
    ));
    (hermes, server)
}

const DIRECTORY: &str = r#"{"platforms": {
    "telegram": [{"id": "-1001", "name": "Family", "type": "group"}, {"id": "55", "name": "Ada", "type": "dm"}],
    "discord": [{"id": "42", "name": "general", "type": "channel", "guild": "Team"}]}}"#;

fn texts(server: &PlatformServer) -> Vec<String> {
    let requests = server.requests();
    requests
        .iter()
        .map(|request| request.field("text"))
        .collect()
}

#[test]
fn a_message_is_sent_and_its_receipt_printed() {
    let (hermes, server) = telegram();
    let ran = hermes.run(&["send", "-t", "telegram:5", "hello"]).ok();
    assert_eq!(ran.stdout, "Sent to telegram:5 (message 101).\n");
    assert_eq!(ran.stderr, "");
    let ran = hermes
        .run(&["send", "-t", "telegram:5:7", "hello", "--json"])
        .ok();
    assert_eq!(
        ran.json(),
        json!({
            "ok": true,
            "success": true,
            "platform": "telegram",
            "chat_id": "5",
            "message_id": "102",
            "thread_id": "7",
        })
    );
    let ran = hermes
        .run(&["send", "-q", "--to", "telegram:5", "hello"])
        .ok();
    assert_eq!(ran.stdout + &ran.stderr, "");
    assert_eq!(server.requests().len(), 3);
}

#[test]
fn the_message_may_come_from_a_file_or_stdin_with_a_subject() {
    let (hermes, server) = telegram();
    let file = hermes.home.write("build.log", "all green\n");
    let file = file.to_str().unwrap();
    hermes
        .run(&["send", "-t", "telegram:5", "-f", file, "-s", "CI"])
        .ok();
    hermes
        .run_with_input(&["send", "-t", "telegram:5"], "from stdin\n")
        .ok();
    hermes
        .run_with_input(&["send", "-t", "telegram:5", "-f", "-"], "again")
        .ok();
    assert_eq!(texts(&server), ["CI\n\nall green", "from stdin", "again"]);
}

#[test]
fn the_home_channel_is_named_and_warnings_are_shown() {
    let (hermes, _server) = telegram();
    hermes
        .home
        .write_config("telegram: {home_channel: -1001}\n");
    let ran = hermes
        .run(&["send", "-t", "telegram", "hi MEDIA:/no/such.png"])
        .ok();
    assert_eq!(
        ran.stdout,
        "Sent to telegram home channel (chat_id: -1001).\n"
    );
    assert!(
        ran.stderr
            .starts_with("warning: `/no/such.png` was not sent"),
        "{ran:?}"
    );
}

#[test]
fn what_was_not_sent_is_a_failure_and_wrong_usage_another() {
    let (hermes, server) = telegram();
    let ran = hermes
        .run(&["send", "-t", "telegram:nobody", "hi"])
        .exits_with(1);
    insta::assert_snapshot!(ran.stderr, @r"
    error: Could not resolve 'nobody' on telegram. Use send_message(action='list') to see available targets.

    hint: `hermes channels list` shows the chats that are known
    ");
    let ran = hermes
        .run(&["send", "-t", "slack:C12345678", "hi"])
        .exits_with(1);
    insta::assert_snapshot!(ran.stderr, @r"
    error: Platform 'slack' is not configured. Set up credentials in ~/.hermes/config.yaml or environment variables.

    hint: put `SLACK_BOT_TOKEN=…` into `.env` of the home
    ");
    for args in [
        &["send", "hi"][..],
        &["send", "-t", "telegram:5", ""],
        &["send", "-t", "telegram:5", "hi", "-f", "x"],
        &["send", "-t", "telegram:5", "-f", "/no/such/file"],
        &["send", "-t", "telegram:5", "-l"],
        &["send", "-t", "telegram:5"],
    ] {
        hermes.run(args).exits_with(2);
    }
    assert_eq!(server.requests().len(), 0);
}

#[test]
fn a_failure_shows_what_went_out_and_no_token() {
    let (hermes, server) = telegram();
    let refused = json!({"ok": false, "description": format!("no {TOKEN} here")});
    server.fail_after("sendMessage", 1, PlatformFault::Status(403, refused));
    let long = "word ".repeat(2000);
    let ran = hermes.run(&["send", "-t", "telegram:5", &long, "--json"]);
    let ran = ran.refused(1, "failed").hides(&["very-secret"]);
    assert_eq!(ran.json()["sent_chunks"], 1);
    let mut server = server;
    server.stop();
    let ran = hermes
        .run(&["send", "-t", "telegram:5", "hi"])
        .exits_with(1);
    let ran = ran.hides(&["very-secret", "http://"]);
    assert!(
        ran.stderr
            .starts_with("error: Telegram could not be reached: "),
        "{ran:?}"
    );
}

#[test]
fn known_chats_are_listed_in_two_ways() {
    let hermes = Hermes::new();
    let ran = hermes.run(&["channels", "list"]).ok();
    assert!(ran.stderr.starts_with("No chat is known yet."), "{ran:?}");
    hermes.home.write("channel_directory.json", DIRECTORY);
    let ran = hermes.run(&["channels", "list"]).ok();
    insta::assert_snapshot!(ran.stdout, @r"
    TARGET          TYPE     NAME
    telegram:-1001  group    Family
    telegram:55     dm       Ada
    discord:42      channel  general
    ");
    assert_eq!(hermes.run(&["send", "-l"]).ok().stdout, ran.stdout);
    let json = hermes
        .run(&["send", "--list", "Discord", "--json"])
        .ok()
        .json();
    let expected = json!({
        "ok": true,
        "count": 1,
        "channels": [
            {"target": "discord:42", "platform": "discord", "name": "general", "chat_type": "channel"},
        ],
    });
    assert_eq!(json, expected);
    assert_eq!(
        hermes
            .run(&["channels", "list", "discord", "--json"])
            .ok()
            .json(),
        expected
    );
}

/// A chat whose model makes one call, with a platform it may write to.
fn chat_with(call: ScriptedAnswer, variables: &str) -> (Hermes, ModelServer, CommandOutput) {
    let model = ModelServer::start(ModelScript::new([call, ScriptedAnswer::text("done")]));
    let config = json!({
        "model": {"default": "m", "base_url": model.base_url(), "api_key": "key-main"},
    });
    let hermes = Hermes::with_config(&config.to_string());
    hermes.home.write_env(variables);
    hermes.home.write("channel_directory.json", DIRECTORY);
    hermes.home.write("chart.png", "\u{0}not really");
    let ran = hermes.run(&["-z", "go"]).ok();
    (hermes, model, ran)
}

/// What the model got back for its call.
fn result(model: &ModelServer) -> serde_json::Value {
    let requests = model.requests();
    let messages = requests[1].body["messages"].as_array().unwrap();
    let text = messages.last().unwrap()["content"].as_str().unwrap();
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn offers_sending(model: &ModelServer) -> bool {
    let tools = model.requests()[0].body["tools"].clone();
    let tools = tools.as_array().unwrap().clone();
    tools
        .iter()
        .any(|tool| tool["function"]["name"] == "send_message")
}

#[test]
fn the_agent_sends_messages_where_a_platform_has_a_token() {
    let server = PlatformServer::telegram(TOKEN);
    let token = format!(
        "TELEGRAM_BOT_TOKEN={TOKEN}\nTELEGRAM_BASE_URL={}\n",
        server.base_url()
    );
    let send = json!({"action": "send", "target": "telegram:family", "message": "**hi**"});
    let (_hermes, model, _) = chat_with(ScriptedAnswer::call("send_message", &send), &token);
    assert!(offers_sending(&model));
    let receipt = result(&model);
    assert_eq!(
        (&receipt["success"], &receipt["chat_id"]),
        (&json!(true), &json!("-1001"))
    );
    assert_eq!(server.requests().len(), 1);
    assert_eq!(server.requests()[0].field("chat_id"), "-1001");

    let list = json!({"action": "list", "target": "telegram"});
    let (_hermes, model, _) = chat_with(ScriptedAnswer::call("send_message", &list), &token);
    let listed = result(&model);
    assert_eq!(listed["count"], 2, "{listed}");
    assert_eq!(
        listed["channels"][0]["target"], "telegram:-1001",
        "{listed}"
    );

    let nobody = json!({"action": "send", "target": "telegram:nobody", "message": "x"});
    let (_hermes, model, _) = chat_with(ScriptedAnswer::call("send_message", &nobody), &token);
    let refused = result(&model)["error"].as_str().unwrap().to_owned();
    assert!(refused.contains("send_message(action='list')"), "{refused}");
}

#[test]
fn the_agent_sends_files_along() {
    let server = PlatformServer::telegram(TOKEN);
    let token = format!(
        "TELEGRAM_BOT_TOKEN={TOKEN}\nTELEGRAM_BASE_URL={}\n",
        server.base_url()
    );
    let home = Hermes::new();
    let picture = home.user().join("chart.png");
    std::fs::write(&picture, b"\x89PNG\r\n\x1a\n").unwrap();
    let send = json!({
        "action": "send", "target": "telegram:5", "message": "see", "media": [picture],
    });
    let (_hermes, model, _) = chat_with(ScriptedAnswer::call("send_message", &send), &token);
    assert_eq!(result(&model)["success"], true, "{}", result(&model));
    let paths: Vec<String> = server.requests().iter().map(|it| it.path.clone()).collect();
    assert!(
        paths.iter().any(|path| path.contains("sendPhoto")),
        "{paths:?}"
    );
}

#[test]
fn without_a_token_the_agent_has_no_tool_for_messages() {
    let (_hermes, model, _) = chat_with(ScriptedAnswer::text("hello"), "");
    assert!(!offers_sending(&model));
}
