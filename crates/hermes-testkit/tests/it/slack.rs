//! Slack as clients that others wrote see it, and the faults they have to live with.

use std::{
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

use hermes_testkit::{
    platform::{PlatformFault, SLACK_BOT_USER, SlackMessage, SlackPost, SlackServer},
    wait_for, wait_until,
};
use serde_json::{Value, json};

const VARIABLE: &str = "HERMES_TEST_VENV_SLACK";
const BOT_TOKEN: &str = "xoxb-very-secret";
const APP_TOKEN: &str = "xapp-very-secret";
const USER: &str = "U0ADA0001";
const CHANNEL: &str = "C0GENERAL";
/// Far longer than anything here takes, so that a busy machine fails no test.
const LIMIT: Duration = Duration::from_mins(1);

fn python() -> Option<PathBuf> {
    if std::env::var_os("HERMES_TEST_SKIP_REAL").is_some() {
        return None;
    }
    let Some(place) = std::env::var_os(VARIABLE) else {
        panic!(
            "{VARIABLE} is not set: `./test` installs the clients and sets it; for a single test run \
             `scripts/equipment install` and `eval \"$(scripts/equipment env)\"`, or set HERMES_TEST_SKIP_REAL=1"
        );
    };
    Some(PathBuf::from(place).join("bin/python"))
}

fn workspace() -> SlackServer {
    let server = SlackServer::start(BOT_TOKEN, APP_TOKEN);
    server.add_user(USER, "Ada");
    server.add_channel(CHANNEL, "general");
    server
}

fn script(name: &str) -> String {
    format!(
        "{}/tests/it/slack/clients/{name}",
        env!("CARGO_MANIFEST_DIR")
    )
}

/// A bot in Python, and the workspace that it is in.
struct ForeignApp {
    server: SlackServer,
    process: Child,
}

impl Drop for ForeignApp {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl ForeignApp {
    /// Starts it and waits until it is connected.
    fn start(name: &str) -> Option<Self> {
        let server = workspace();
        let process = Command::new(python()?)
            .args([&script(name), &server.base_url(), BOT_TOKEN, APP_TOKEN])
            .env("NO_PROXY", "*")
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let app = Self { server, process };
        assert!(
            wait_until(LIMIT, || app.server.open_sockets() == 1),
            "{name} does not connect: {:?}",
            app.server.requests()
        );
        Some(app)
    }

    fn write(&self, channel: &str, text: &str) -> String {
        self.server.write(&SlackPost::new(USER, channel, text))
    }

    /// Waits for a message of the bot.
    fn reply(&self, channel: &str, matches: impl Fn(&SlackMessage) -> bool) -> SlackMessage {
        let found = wait_for(LIMIT, || {
            let messages = self.server.bot_messages(channel);
            messages.into_iter().find(&matches)
        });
        found.unwrap_or_else(|| panic!("{:?}", self.server.messages(channel)))
    }

    fn wait_for_acks(&self) {
        assert!(
            wait_until(LIMIT, || {
                self.server.acknowledged().len() >= self.server.sent_envelopes().len()
            }),
            "not everything is acknowledged: {:?}",
            self.server.sent_envelopes()
        );
    }
}

#[test]
fn slack_sdk_replies_in_a_thread_edits_reacts_and_presses() {
    let Some(app) = ForeignApp::start("sdk_app.py") else {
        return;
    };
    let asked = app.write(CHANNEL, "hello");
    let reply = app.reply(CHANNEL, |message| message.text == "hi there");
    assert_eq!(reply.thread_ts.as_deref(), Some(asked.as_str()));
    let has_reaction = || app.server.messages(CHANNEL)[0].reactions == ["wave"];
    assert!(wait_until(LIMIT, has_reaction));

    let direct = app.server.direct_channel(USER);
    app.write(&direct, "buttons");
    let question = app.reply(&direct, |message| !message.buttons.is_empty());
    assert_eq!(question.buttons, ["Yes"]);
    app.server.press_button(USER, &direct, &question.ts, "Yes");
    let pressed = app.reply(&direct, |message| message.text == "U0ADA0001 pressed v1");
    assert_eq!((pressed.ts, pressed.buttons), (question.ts, Vec::new()));

    app.server.run_command(USER, &direct, "/status", "of all");
    let notice = vec![(USER.to_owned(), "/status of all".to_owned())];
    assert!(wait_until(LIMIT, || app.server.ephemeral_messages(&direct) == notice));
    app.wait_for_acks();
    assert_eq!(app.server.lost_envelopes(), Vec::<Value>::new());
}

#[test]
fn slack_sdk_downloads_uploads_and_streams() {
    let Some(app) = ForeignApp::start("sdk_app.py") else {
        return;
    };
    let post = SlackPost::new(USER, CHANNEL, "look").with_file("a.txt", b"abc");
    let asked = app.server.write(&post);
    let copy = app.reply(CHANNEL, |message| !message.files.is_empty());
    assert_eq!(copy.files, ["copy.txt"]);
    assert_eq!(copy.text, "a copy");
    assert_eq!(copy.thread_ts, Some(asked));

    app.write(CHANNEL, "stream");
    let stream = app.reply(CHANNEL, |message| message.text == "one two three");
    assert!(!stream.is_streaming);
    assert_eq!(stream.tasks, [("search".to_owned(), "complete".to_owned())]);
}

#[test]
fn slack_sdk_opens_another_socket_when_it_is_told_to() {
    let Some(app) = ForeignApp::start("sdk_app.py") else {
        return;
    };
    for reason in ["warning", "refresh_requested"] {
        let before = app.server.opened_sockets();
        app.server.disconnect(reason, Duration::from_millis(500));
        let is_replaced = || app.server.opened_sockets() > before && app.server.open_sockets() == 1;
        assert!(wait_until(LIMIT, is_replaced), "{reason}");
        let asked = app.write(CHANNEL, "hello");
        app.reply(CHANNEL, |message| {
            message.thread_ts.as_deref() == Some(&asked)
        });
    }
    let before = app.server.opened_sockets();
    app.server.cut_sockets();
    assert!(wait_until(LIMIT, || app.server.opened_sockets() > before));
}

#[test]
fn slack_sdk_waits_for_the_end_of_a_limit() {
    let Some(app) = ForeignApp::start("sdk_app.py") else {
        return;
    };
    app.server
        .fail("chat.postMessage", PlatformFault::LimitedByHeader(1));
    app.write(CHANNEL, "limited");
    app.reply(CHANNEL, |message| message.text == "after the limit");
    let posts = app.server.requests();
    let posts = posts
        .iter()
        .filter(|request| request.last_segment() == "chat.postMessage");
    assert_eq!(posts.count(), 2);
}

#[test]
fn slack_bolt_hears_mentions_buttons_commands_and_stops() {
    let Some(app) = ForeignApp::start("bolt_app.py") else {
        return;
    };
    let asked = app.write(CHANNEL, &format!("<@{SLACK_BOT_USER}> do it"));
    let question = app.reply(CHANNEL, |message| message.buttons == ["Go"]);
    assert_eq!(question.thread_ts, Some(asked.clone()));
    app.server.press_button(USER, CHANNEL, &question.ts, "Go");
    app.reply(CHANNEL, |message| message.text == "going now");

    let direct = app.server.direct_channel(USER);
    app.write(&direct, "1 &lt; 2");
    app.reply(&direct, |message| message.text == "you wrote: 1 &lt; 2");

    app.server.run_command(USER, &direct, "/status", "");
    let is_answered = || {
        let acks = app.server.acknowledged();
        acks.iter()
            .any(|ack| ack["response"]["text"] == format!("all well, {USER}"))
    };
    assert!(
        wait_until(LIMIT, is_answered),
        "{:?}",
        app.server.acknowledged()
    );

    app.server.stop_answer(USER, CHANNEL, &asked);
    app.reply(CHANNEL, |message| {
        message.text == format!("stopped by {USER}")
    });

    let before = app.server.opened_sockets();
    app.server
        .disconnect("refresh_requested", Duration::from_millis(200));
    assert!(wait_until(LIMIT, || app.server.opened_sockets() > before));
    app.write(&direct, "again");
    app.reply(&direct, |message| message.text == "you wrote: again");
}

#[test]
fn slack_sdk_reads_lists_and_names_of_errors() {
    let Some(python) = python() else {
        return;
    };
    let server = workspace();
    server.add_channel("C0RANDOM1", "random");
    server.add_channel("G0SECRET1", "secret");
    server.add_channel("C0OLD0001", "old");
    server.archive_channel("C0OLD0001");
    server.remove_scope("reactions:write");
    let output = Command::new(python)
        .args([
            &script("sdk_calls.py"),
            &server.base_url(),
            BOT_TOKEN,
            APP_TOKEN,
            USER,
            CHANNEL,
        ])
        .env("NO_PROXY", "*")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let problem = String::from_utf8_lossy(&output.stderr);
    let report: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}{problem}"));
    let expected = json!({
        "who": SLACK_BOT_USER,
        "channels": ["general", "random", "secret"],
        "name": "Ada",
        "history": ["2", "1"],
        "replies": ["0", "in a thread"],
        "members": true,
        "url": true,
        "wrong token": {"error": "invalid_auth"},
        "wrong kind of token": {"error": "not_allowed_token_type"},
        "gone": {"error": "message_not_found"},
        "unknown user": {"error": "user_not_found"},
        "no channel": {"error": "channel_not_found"},
        "nothing": {"error": "unknown_method"},
        "no scope": {"error": "missing_scope", "needed": "reactions:write"},
        "bad blocks": {"error": "invalid_blocks"},
        "long edit": {"error": "msg_too_long"},
        "long Markdown": {"error": "msg_blocks_too_long"},
        "no recipient": {"error": "missing_recipient_user_id"},
        "not a stream": {"error": "message_not_in_streaming_state"},
    });
    assert_eq!(report, expected);
    let table = server.bot_messages(CHANNEL).remove(0).markdown;
    assert_eq!(table.unwrap(), "| a | b |\n|---|---|\n| **1** | 2 |");
}

#[test]
fn an_event_that_nobody_acknowledges_comes_again() {
    let server = workspace();
    server.set_ack_timeout(Duration::from_millis(50));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        use futures::StreamExt as _;
        let client = reqwest::Client::new();
        let opened = client
            .post(format!("{}/apps.connections.open", server.base_url()))
            .bearer_auth(APP_TOKEN)
            .send()
            .await
            .unwrap();
        let opened: Value = serde_json::from_slice(&opened.bytes().await.unwrap()).unwrap();
        let url = opened["url"].as_str().unwrap();
        let builder = tokio_websockets::ClientBuilder::new().uri(url).unwrap();
        let (mut socket, _) = builder.connect().await.unwrap();
        let mut next = async || -> Value {
            loop {
                let message = socket.next().await.unwrap().unwrap();
                if let Some(text) = message.as_text() {
                    return serde_json::from_str(text).unwrap();
                }
            }
        };
        assert_eq!(next().await["num_connections"], 1);
        server.write(&SlackPost::new(USER, CHANNEL, "hello"));
        let mut events = Vec::new();
        for attempt in 0..4 {
            let envelope = next().await;
            assert_eq!(envelope["retry_attempt"], attempt);
            events.push(envelope["payload"]["event_id"].clone());
        }
        events.dedup();
        assert_eq!(events.len(), 1, "{events:?}");
        // A ticket opens one socket.
        assert!(builder_refused(url).await);
    });
    assert!(wait_until(LIMIT, || server.lost_envelopes().len() == 1));
}

async fn builder_refused(url: &str) -> bool {
    let builder = tokio_websockets::ClientBuilder::new().uri(url).unwrap();
    builder.connect().await.is_err()
}
