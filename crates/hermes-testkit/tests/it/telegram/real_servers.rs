//! Bots on libraries that others wrote, pinned to a version: python-telegram-bot and aiogram.

use std::{
    path::PathBuf,
    process::{Command, Output, Stdio},
    time::Duration,
};

use hermes_testkit::{
    platform::{PlatformFault, TelegramFile, TelegramServer},
    wait_for, wait_until,
};
use serde_json::{Value, json};

use super::{ANN, BOB, FORUM, GROUP, TOKEN, telegram};

const VARIABLE: &str = "HERMES_TEST_VENV_TELEGRAM";
const LIMIT: Duration = Duration::from_secs(30);

fn python() -> Option<PathBuf> {
    if std::env::var_os("HERMES_TEST_SKIP_REAL").is_some_and(|value| value == "1") {
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

/// Starts a bot, does what people do meanwhile, and returns its report. `None` where such tests are skipped.
fn run_bot(
    server: &TelegramServer,
    script: &str,
    arguments: &[i64],
    people: impl FnOnce() -> Option<()>,
) -> Option<Value> {
    let python = python()?;
    let path = format!("{}/tests/it/telegram/{script}", env!("CARGO_MANIFEST_DIR"));
    let mut bot = Command::new(python)
        .args([&path, &server.base_url(), TOKEN])
        .args(arguments.iter().map(ToString::to_string))
        .env("NO_PROXY", "*")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let is_done = people().is_some();
    if !is_done {
        bot.kill().unwrap();
    }
    let Output { stdout, stderr, .. } = bot.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&stdout);
    let problem = String::from_utf8_lossy(&stderr);
    assert!(is_done, "people waited in vain: {text}{problem}");
    Some(serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}{problem}")))
}

/// The message of the bot that has a button.
fn message_with_button(server: &TelegramServer, chat: i64) -> Option<i64> {
    wait_for(LIMIT, || {
        let mut messages = server.messages(chat).into_iter();
        Some(messages.find(|message| !message.buttons.is_empty())?.id)
    })
}

fn wait(condition: impl FnMut() -> bool) -> Option<()> {
    wait_until(LIMIT, condition).then_some(())
}

#[test]
fn python_telegram_bot_receives_replies_edits_uploads_and_is_limited() {
    let server = telegram();
    let topic = server.add_topic(FORUM, "Deploys");
    server.set_blocked(BOB, true);
    server.fail_after("sendMessage", 1, PlatformFault::LimitedByBody(7));
    let report = run_bot(&server, "ptb_bot.py", &[FORUM, BOB], || {
        wait(|| server.calls("getUpdates") > 0)?;
        server
            .message(FORUM, ANN)
            .topic(topic)
            .text("please")
            .send();
        let question = message_with_button(&server, FORUM)?;
        let document =
            server
                .message(ANN, ANN)
                .file(TelegramFile::Document, "a.txt", b"its content");
        document.text("this").send();
        let query = server.press(FORUM, ANN, question, "yes");
        wait(|| server.button_answer(&query).as_deref() == Some("taken"))
    });
    let Some(report) = report else {
        return;
    };
    let bad = |reason: &str| json!(["BadRequest", reason]);
    assert_eq!(
        report,
        json!({
            "name": "hermes_test_bot",
            "heard": [["please", "supergroup", true], ["this", "private", false]],
            "same_topic": true,
            "replied": true,
            "edited": "Sure?",
            "not_modified": bad(
                "Message is not modified: specified new message content and reply markup are exactly the same as a \
                 current content and reply markup of the message"
            ),
            "downloaded": "its content",
            "pressed": ["yes", "Ann"],
            "uploaded": ["notes.txt", 10, "Notes"],
            "album": [2, 1],
            "retry_after": 7,
            "unparsable": bad("Can't parse entities: character '.' is reserved and must be escaped"),
            "too_long": bad("Message is too long"),
            "no_topic": bad("Message thread not found"),
            "blocked": ["Forbidden", "Forbidden: bot was blocked by the user"],
            "conflict": "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running",
            "wrong_token": ["InvalidToken", "Unauthorized"],
        })
    );
    assert_eq!(server.commands(), ["stop", "help"]);
}

#[test]
fn aiogram_streams_drafts_is_stopped_and_sends_rich_messages() {
    let server = telegram();
    let new_group = server.migrate_group(GROUP);
    server.fail("sendMessage", PlatformFault::LimitedByBody(9));
    let report = run_bot(&server, "aiogram_bot.py", &[GROUP], || {
        let first = server.say(ANN, "begin");
        wait(|| {
            server
                .drafts(ANN)
                .iter()
                .any(|draft| draft.text.contains("Half"))
        })?;
        assert_eq!(server.messages(ANN)[0].reactions, ["👀"], "{first}");
        assert!(server.press_stop(ANN));
        assert_eq!(server.drafts(ANN), []);
        let answer = message_with_button(&server, ANN)?;
        server.press(ANN, ANN, answer, "go");
        Some(())
    });
    let Some(report) = report else {
        return;
    };
    let bad = |reason: &str| {
        let text = format!("Telegram server says - Bad Request: {reason}");
        json!(["TelegramBadRequest", text])
    };
    assert_eq!(
        report,
        json!({
            "name": "hermes_test_bot",
            "heard": [["begin", "private", false]],
            "stopped": [ANN, 5],
            "blocks": ["paragraph", "paragraph", "pre"],
            "voice": 5,
            "downloaded": "voice",
            "retry_after": 9,
            "migrated_to": new_group,
            "zero_draft": bad("DRAFT_ID_INVALID"),
            "lost_reply": bad("message to be replied not found"),
            "conflict": [
                "TelegramConflictError",
                "Telegram server says - Conflict: terminated by other getUpdates request; make sure that only one \
                 bot instance is running",
            ],
        })
    );
    assert_eq!(server.answers(ANN), ["Pressed", ""]);
}
