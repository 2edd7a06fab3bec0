//! `hermes send` and `hermes channels`.

use hermes_testkit::platform::{PlatformFault, PlatformServer};
use serde_json::json;

use crate::program::Hermes;

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
        .ended(1);
    insta::assert_snapshot!(ran.stderr, @r"
    error: Could not resolve 'nobody' on telegram. Use send_message(action='list') to see available targets.

    hint: `hermes channels list` shows the chats that are known
    ");
    let ran = hermes
        .run(&["send", "-t", "slack:C12345678", "hi"])
        .ended(1);
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
        hermes.run(args).ended(2);
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
    let ran = hermes.run(&["send", "-t", "telegram:5", "hi"]).ended(1);
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
    assert!(
        ran.stderr.starts_with("No chat is known here yet."),
        "{ran:?}"
    );
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
