//! `hermes gateway setup` and what `hermes doctor --probe` says about bots: with platforms that answer over real sockets.

use hermes_testkit::{
    model::{ModelScript, ScriptedAnswer},
    platform::TelegramServer,
};
use serde_json::{Value, json};

use super::GatewayHome;
use crate::harness::{
    json_server::{JsonRoute, JsonServer},
    program::{Hermes, assert_private},
    terminal::Terminal,
    test_home::{BackgroundProcess, wait_until},
};

mod guides;

const TOKEN: &str = "123456789:AAsecretsecretsecret";
/// Of another bot.
const WORK_TOKEN: &str = "987654321:AAsecretsecretsecret";

fn telegram(me: &Value) -> JsonServer {
    let mut bot = json!({"id": 123_456_789, "is_bot": true, "username": "my_bot", "can_read_all_group_messages": true});
    bot.as_object_mut()
        .unwrap()
        .extend(me.as_object().unwrap().clone());
    JsonServer::start(vec![
        JsonRoute::new(
            "/bot123456789:AAsecretsecretsecret/getMe",
            json!({"ok": true, "result": bot}),
        ),
        JsonRoute::new(
            "/bot987654321:AAsecretsecretsecret/getMe",
            json!({"ok": true, "result": {
                "id": 987_654_321, "is_bot": true, "username": "work_bot", "can_read_all_group_messages": true,
            }}),
        ),
        JsonRoute::new(
            "/getWebhookInfo",
            json!({"ok": true, "result": {"url": ""}}),
        ),
        JsonRoute::new(
            "/getMe",
            json!({"ok": false, "error_code": 401, "description": "Unauthorized"}),
        )
        .with_status(401),
    ])
}

fn set_up(
    hermes: &Hermes,
    arguments: &[&str],
    input: &str,
) -> crate::harness::program::CommandOutput {
    let mut words = vec!["gateway", "setup"];
    words.extend(arguments);
    hermes
        .run_with_input(&words, input)
        .hides(&["AAsecret", "xoxb-secret", "xapp-secret"])
}

fn with_base_url(platform: &str, server: &JsonServer) -> Hermes {
    Hermes::with_config(&format!(
        "model: {{autodetect: false}}\n{platform}: {{extra: {{base_url: '{}'}}}}\n",
        server.base_url
    ))
}

#[test]
fn a_script_sets_up_telegram_and_comments_stay() {
    let server = telegram(&json!({}));
    let hermes = with_base_url("telegram", &server);
    std::fs::write(hermes.home.path().join(".env"), "# mine\nOTHER=1\n").unwrap();
    let arguments = [
        "--platform",
        "telegram",
        "--token-stdin",
        "--allow",
        "42,43",
        "--json",
    ];
    let done = set_up(&hermes, &arguments, &format!("{TOKEN}\n"))
        .ok()
        .json();
    assert_eq!(done["account"], "telegram");
    assert_eq!(done["bot"], "@my_bot");
    assert_eq!(done["write_to"], "https://t.me/my_bot");
    assert_eq!(done["problems"], json!([]));
    assert_eq!(
        hermes.env(),
        format!("# mine\nOTHER=1\nTELEGRAM_BOT_TOKEN={TOKEN}\nTELEGRAM_ALLOWED_USERS=42,43\n")
    );
    assert_private(&hermes.home.path().join(".env"));
    assert!(server.seen().iter().any(|line| line.contains("/getMe")));

    // A further bot of the same platform.
    let arguments = [
        "--platform",
        "telegram",
        "--account",
        "work",
        "--token-stdin",
        "--home-channel",
        "-100",
    ];
    let told = set_up(&hermes, &arguments, WORK_TOKEN).ok();
    assert!(
        told.stdout
            .contains("telegram@work is set up: the bot is @work_bot"),
        "{told:?}"
    );
    assert!(
        told.stdout
            .contains("Write to your bot: https://t.me/work_bot"),
        "{told:?}"
    );
    assert!(
        told.stdout
            .contains("hermes pairing approve telegram@work CODE"),
        "{told:?}"
    );
    assert!(
        hermes
            .env()
            .contains(&format!("TELEGRAM_BOT_TOKEN_WORK={WORK_TOKEN}\n"))
    );
    assert!(hermes.env().contains("TELEGRAM_HOME_CHANNEL_WORK=-100\n"));
}

#[test]
fn a_wrong_token_is_not_written_and_the_fix_is_named() {
    let server = telegram(&json!({}));
    let hermes = with_base_url("telegram", &server);
    let arguments = ["--platform", "telegram", "--token-stdin"];
    let refused = set_up(&hermes, &arguments, "1:wrong\n").exits_with(1);
    assert!(refused.stderr.contains("Unauthorized"), "{refused:?}");
    assert!(refused.stderr.contains("@BotFather"), "{refused:?}");
    assert_eq!(hermes.env(), "");
    let refused = set_up(&hermes, &arguments, "hello\n").exits_with(2);
    assert!(refused.stderr.contains("123456789:AA"), "{refused:?}");
    set_up(&hermes, &arguments, "").exits_with(2);
    // Nobody to ask, and nothing given.
    set_up(&hermes, &[], "").exits_with(5);
    let arguments = ["--platform", "telegram", "--token-stdin", "--no-check"];
    set_up(&hermes, &arguments, "1:wrong\n").ok();
    assert!(hermes.env().contains("TELEGRAM_BOT_TOKEN=1:wrong"));
}

#[test]
fn discord_gives_an_invitation_and_names_what_the_portal_lacks() {
    let server = JsonServer::start(vec![
        JsonRoute::new("/users/@me", json!({"id": "7", "username": "helper"})),
        JsonRoute::new(
            "/applications/@me",
            json!({"id": "77", "flags": 0, "interactions_endpoint_url": "https://example.com/i"}),
        ),
    ]);
    let hermes = with_base_url("discord", &server);
    let arguments = ["--platform", "discord", "--token-stdin", "--allow", "1"];
    let told = set_up(&hermes, &arguments, "discord-token-secret").ok();
    assert!(
        told.stdout.contains("https://discord.com/oauth2/authorize?client_id=77&scope=bot%20applications.commands&permissions="),
        "{told:?}"
    );
    assert!(told.stderr.contains("Message Content Intent"), "{told:?}");
    assert!(
        told.stderr.contains("Interactions Endpoint URL"),
        "{told:?}"
    );

    let report = hermes.run(&["doctor", "--probe", "--json"]).json();
    let discord = check(&report, "discord");
    assert_eq!(discord["level"], "fail");
    let message = discord["message"].as_str().unwrap();
    assert!(message.contains("Message Content Intent"), "{message}");
    assert!(message.contains("interactions_endpoint"), "{message}");
}

fn check<'a>(report: &'a Value, id: &str) -> &'a Value {
    let checks = report["checks"].as_array().unwrap();
    let found = checks.iter().find(|check| check["id"] == id);
    found.unwrap_or_else(|| panic!("no {id}: {report}"))
}

#[test]
fn slack_has_a_manifest_needs_two_tokens_and_names_missing_scopes() {
    let hermes = Hermes::new();
    let manifest = set_up(&hermes, &["--platform", "slack", "--manifest"], "").ok();
    let manifest: Value = serde_json::from_str(&manifest.stdout).unwrap();
    assert_eq!(manifest["settings"]["socket_mode_enabled"], true);
    let scopes = manifest["oauth_config"]["scopes"]["bot"]
        .as_array()
        .unwrap();
    assert!(scopes.contains(&json!("app_mentions:read")));
    set_up(&hermes, &["--platform", "discord", "--manifest"], "").exits_with(2);

    let server = JsonServer::start(vec![
        JsonRoute::new(
            "/auth.test",
            json!({"ok": true, "user": "hermes", "user_id": "U1", "team": "Work"}),
        )
        .with_header("x-oauth-scopes: chat:write,im:history"),
        JsonRoute::new(
            "/apps.connections.open",
            json!({"ok": false, "error": "invalid_auth"}),
        ),
    ]);
    let hermes = with_base_url("slack", &server);
    let arguments = ["--platform", "slack", "--token-stdin", "--json"];
    let done = set_up(&hermes, &arguments, "xoxb-secret\nxapp-secret\n")
        .ok()
        .json();
    let codes: Vec<&Value> = done["problems"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["code"])
        .collect();
    assert_eq!(codes, [&json!("missing_scope"), &json!("bad_app_token")]);
    let missing = done["problems"][0]["message"].as_str().unwrap();
    assert!(
        missing.contains("`users:read`") && !missing.contains("`chat:write`"),
        "{missing}"
    );
    assert!(hermes.env().contains("SLACK_APP_TOKEN=xapp-secret"));
    let swapped = set_up(&hermes, &arguments, "xapp-secret\nxoxb-secret\n").exits_with(2);
    assert!(swapped.stdout.contains("comes first"), "{swapped:?}");

    let report = hermes.run(&["doctor", "--probe", "--json"]).json();
    assert_eq!(check(&report, "slack")["level"], "fail");
}

#[test]
fn a_person_is_led_through_it() {
    let server = telegram(&json!({"can_read_all_group_messages": false}));
    let hermes = with_base_url("telegram", &server);
    let mut terminal = Terminal::start(hermes.command(&["gateway", "setup"]));
    terminal
        .wait_for("telegram, discord or slack?")
        .send("telegram\n")
        .wait_for("@BotFather")
        .wait_for("it is not shown")
        .send("1:wrong\n")
        .wait_for("Unauthorized")
        .wait_for("it is not shown")
        .send(&format!("{TOKEN}\n"))
        .wait_for("empty: by pairing code")
        .send("42\n")
        .wait_for("Write to your bot: https://t.me/my_bot")
        .wait_for("Start it now, in the background? [Y/n]")
        .send("n\n");
    let (code, screen) = terminal.end();
    assert_eq!(code, 0, "{screen}");
    assert!(screen.contains("privacy mode is on"), "{screen}");
    assert!(!screen.contains("AAsecret"), "{screen}");
    assert!(hermes.env().contains("TELEGRAM_ALLOWED_USERS=42"));
}

#[test]
fn the_doctor_asks_platforms_only_when_told_to() {
    let server = telegram(&json!({"can_read_all_group_messages": false}));
    let hermes = with_base_url("telegram", &server);
    std::fs::write(
        hermes.home.path().join(".env"),
        format!("TELEGRAM_BOT_TOKEN={TOKEN}\nSLACK_BOT_TOKEN=xoxb-1\n"),
    )
    .unwrap();
    let report = hermes.run(&["doctor", "--json"]).json();
    assert!(server.seen().is_empty(), "{:?}", server.seen());
    let slack = check(&report, "slack");
    assert_eq!(slack["level"], "fail");
    assert!(
        slack["message"]
            .as_str()
            .unwrap()
            .contains("SLACK_APP_TOKEN"),
        "{slack}"
    );
    assert_eq!(check(&report, "telegram")["level"], "warn");
    let status = hermes.run(&["status"]).ok();
    assert!(status.stdout.contains("telegram"), "{status:?}");
    assert!(server.seen().is_empty());

    std::fs::write(
        hermes.home.path().join(".env"),
        "TELEGRAM_BOT_TOKEN=1:wrong\n",
    )
    .unwrap();
    let report = hermes
        .run(&["doctor", "--probe", "--json"])
        .hides(&["1:wrong"])
        .json();
    let telegram = check(&report, "telegram");
    assert_eq!(telegram["level"], "fail");
    assert!(
        telegram["message"]
            .as_str()
            .unwrap()
            .contains("Unauthorized"),
        "{telegram}"
    );
    assert!(
        telegram["fix"]
            .as_str()
            .unwrap()
            .contains("hermes gateway setup --platform telegram"),
        "{telegram}"
    );
}

#[test]
fn a_further_account_with_the_bot_of_another_one_is_refused() {
    let server = telegram(&json!({}));
    let hermes = with_base_url("telegram", &server);
    let arguments = ["--platform", "telegram", "--token-stdin"];
    set_up(&hermes, &arguments, TOKEN).ok();
    let before = hermes.env();
    let further = [&arguments[..], &["--account", "work"]].concat();
    let refused = set_up(&hermes, &further, TOKEN).exits_with(2);
    let told = &refused.stderr;
    assert!(told.contains("`telegram` of this home"), "{told}");
    assert!(told.contains("a bot of its own"), "{told}");
    assert_eq!(hermes.env(), before);
    // The same account may be set up again.
    set_up(&hermes, &arguments, TOKEN).ok();
}

/// Somebody who writes to the bot.
const ANN: i64 = 7001;

/// A home without a bot, and a Telegram that has one.
fn with_real_bot(script: ModelScript) -> (GatewayHome, TelegramServer) {
    let telegram = TelegramServer::start(TOKEN);
    telegram.add_user(ANN, "Ann");
    let base = telegram.base_url();
    let more = format!("telegram: {{extra: {{base_url: '{base}'}}}}");
    (GatewayHome::with_more(script, &more), telegram)
}

#[test]
fn a_person_is_led_to_the_first_answer_by_way_of_a_code() {
    let (place, telegram) = with_real_bot(ModelScript::echo());
    let _gateway = place.start();
    let setup = ["gateway", "setup", "--platform", "telegram"];
    let mut terminal = Terminal::start(place.home.command(&setup));
    terminal
        .wait_for("it is not shown")
        .send(&format!("{TOKEN}\n"))
        .wait_for("empty: by pairing code")
        .send("\n")
        .wait_for("Wait here for the first message? [Y/n]")
        .send("\n")
        .wait_for("Waiting for a message");
    telegram.say(ANN, "hello");
    terminal.wait_for("wrote to the bot and got a code");
    wait_until("a code", || !telegram.answers(ANN).is_empty());
    let offer = telegram.answers(ANN).remove(0);
    let mut words = offer.split(|letter: char| !letter.is_ascii_alphanumeric());
    let code = words.find(|word| word.len() == 8 && *word == word.to_uppercase());
    let code = code.unwrap_or_else(|| panic!("no code in {offer}"));
    terminal
        .wait_for("empty: not now")
        .send("WRONGONE\n")
        .wait_for("the code is not known")
        .wait_for("empty: not now")
        .send(&format!("{code}\n"))
        .wait_for("has to write again");
    telegram.say(ANN, "hello again");
    terminal.wait_for("got an answer: it works");
    assert_eq!(telegram.answers(ANN)[1], "hello again");
    let (code, screen) = terminal.end();
    assert_eq!(code, 0, "{screen}");
}

#[test]
fn a_bot_that_gives_no_answer_does_not_work() {
    let refusal = ScriptedAnswer::Status {
        status: 401,
        message: "no such key".into(),
        code: None,
        retry_after: None,
    };
    let (place, telegram) = with_real_bot(ModelScript::default().rule("hello", refusal));
    let _gateway = place.start();
    let token = place.home.beside("token");
    std::fs::write(&token, TOKEN).unwrap();
    let user = ANN.to_string();
    let setup = [
        "gateway",
        "setup",
        "--platform",
        "telegram",
        "--token-stdin",
    ];
    let arguments = [&setup[..], &["--allow", &user, "--wait"]].concat();
    let mut command = place.home.command(&arguments);
    command.stdin(std::fs::File::open(&token).unwrap());
    let mut process = BackgroundProcess::start(command);
    process.wait_for("Waiting for a message");
    telegram.say(ANN, "hello");
    process.wait_for("got no answer");
    assert_eq!(process.wait(), Some(1));
    assert_eq!(telegram.answers(ANN).len(), 1);
}
