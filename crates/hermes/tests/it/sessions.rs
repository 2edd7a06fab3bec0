//! `hermes sessions …`.

use std::{fs, os::unix::fs::PermissionsExt as _};

use hermes_config::Home;
use hermes_store::{Access, Content, NewMessage, NewSession, Role, SessionId, Store};
use serde_json::json;

use crate::harness::{
    program::{Hermes, assert_private},
    terminal::Terminal,
};

const TRIP: &str = "20260304_050607_abcdef";
const CHAT: &str = "20260305_101112_12345678";
/// 2026-03-04 05:06:07 UTC.
const START: f64 = 1_772_600_767.0;

fn message(role: Role, text: &str, second: f64) -> NewMessage {
    NewMessage {
        timestamp: Some(START + second),
        ..NewMessage::new(role, text)
    }
}

/// Runs something on the store of a home.
fn with_store<T>(hermes: &Hermes, work: impl AsyncFnOnce(&Store) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let home = Home::at(hermes.home.path());
        let store = Store::open(&home, Access::ReadWrite).await.unwrap();
        let result = work(&store).await;
        store.close().await;
        result
    })
}

async fn add_session(store: &Store, id: &str, source: &str, messages: &[NewMessage]) -> SessionId {
    let id = SessionId::parse(id).unwrap();
    let session = NewSession {
        model: Some("gpt-5".into()),
        started_at: messages.first().and_then(|message| message.timestamp),
        ..NewSession::new(id.clone(), source)
    };
    store.create_session(&session).await.unwrap();
    store.append_all(&id, messages).await.unwrap();
    id
}

/// A home with two conversations, one of them with everything a message can have.
fn filled() -> Hermes {
    let hermes = Hermes::new();
    with_store(&hermes, async |store| {
        let call = NewMessage {
            tool_calls: Some(json!([{
                "id": "call_1",
                "type": "function",
                "function": {"name": "read_file", "arguments": "{\"path\": \"trip.txt\"}"},
            }])),
            ..message(Role::Assistant, "I look it up.", 1.0)
        };
        let lines: Vec<String> = (1..=15).map(|number| format!("line {number}")).collect();
        let result = NewMessage {
            tool_call_id: Some("call_1".into()),
            tool_name: Some("read_file".into()),
            ..message(Role::Tool, &lines.join("\n"), 2.0)
        };
        let messages = [
            message(Role::User, "Where do we \x1b[2Jgo?", 0.0),
            call,
            result,
            message(Role::Assistant, "To **Bern**.\x07", 3.0),
        ];
        let id = add_session(store, TRIP, "cli", &messages).await;
        store.set_title(&id, "Plan the trip").await.unwrap();
        let picture = NewMessage {
            content: Some(Content::Parts(json!([
                {"type": "text", "text": "Look at the bridge in Bern"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
            ]))),
            ..message(Role::User, "", 104_705.0)
        };
        add_session(store, CHAT, "telegram", &[picture]).await;
    });
    hermes
}

#[test]
fn reading_an_empty_home_makes_nothing() {
    let hermes = Hermes::new();
    let home = hermes.user().join("none");
    let run = |args: &[&str]| {
        let mut command = hermes.command(args);
        command.env("HERMES_HOME", &home);
        crate::harness::program::run(command, "")
    };
    let ran = run(&["sessions", "list"]).ok();
    assert_eq!(ran.stdout, "");
    assert!(ran.stderr.contains("`hermes chat` begins one"), "{ran:?}");
    assert_eq!(
        run(&["sessions", "list", "--json"]).ok().json(),
        json!({"ok": true, "sessions": []})
    );
    assert_eq!(
        run(&["sessions", "search", "x", "--json"]).ok().json(),
        json!({"ok": true, "hits": []})
    );
    for verb in ["show", "export", "delete"] {
        run(&["sessions", verb, "x", "--json"]).refused(3, "not_found");
    }
    assert!(!home.exists());
}

#[test]
fn conversations_are_listed_the_last_used_first() {
    let hermes = filled();
    insta::assert_snapshot!(hermes.run(&["sessions", "list"]).ok().stdout, @r"
    ID                        SOURCE    MESSAGES  LAST USED         TITLE
    20260305_101112_12345678  telegram  1         2026-03-05 10:11  Look at the bridge in Bern
    20260304_050607_abcdef    cli       4         2026-03-04 05:06  Plan the trip
    ");
    let ran = hermes.run(&["sessions", "list", "--source", "cli", "--json"]);
    let json = ran.ok().json();
    assert_eq!(json["sessions"].as_array().unwrap().len(), 1);
    assert_eq!(json["sessions"][0]["id"], TRIP);
    assert_eq!(json["sessions"][0]["message_count"], 4);
    assert_eq!(json["sessions"][0]["last_active"], START + 3.0);
    let one = hermes.run(&["sessions", "list", "--limit", "1", "--json"]);
    assert_eq!(one.ok().json()["sessions"][0]["id"], CHAT);
}

#[test]
fn what_was_continued_elsewhere_is_listed_only_with_all() {
    let hermes = filled();
    with_store(&hermes, async |store| {
        let old = SessionId::parse(TRIP).unwrap();
        let reason = hermes_store::EndReason::Compression;
        store.end_session(&old, reason).await.unwrap();
        let next = NewSession {
            parent: Some(old),
            ..NewSession::new(SessionId::parse("next").unwrap(), "cli")
        };
        store.create_session(&next).await.unwrap();
    });
    let count = |args: &[&str]| {
        let json = hermes.run(args).ok().json();
        json["sessions"].as_array().unwrap().len()
    };
    assert_eq!(count(&["sessions", "list", "--json"]), 2);
    assert_eq!(count(&["sessions", "list", "--all", "--json"]), 3);
}

#[test]
fn a_conversation_is_shown_without_what_would_steer_the_terminal() {
    let hermes = filled();
    let ran = hermes.run(&["sessions", "show", "Plan the trip"]).ok();
    insta::assert_snapshot!(ran.stdout, @r#"
    20260304_050607_abcdef  Plan the trip
    cli, gpt-5, 2026-03-04 05:06, 4 messages

    user  2026-03-04 05:06
      Where do we go?

    assistant  2026-03-04 05:06
      I look it up.
      → read_file {"path": "trip.txt"}

    tool read_file  2026-03-04 05:06
      line 1
      line 2
      line 3
      line 4
      line 5
      line 6
      line 7
      line 8
      line 9
      line 10
      … 5 more lines; `hermes sessions export` has all

    assistant  2026-03-04 05:06
      To **Bern**.
    "#);
    assert!(ran.stderr.contains("hermes chat --resume"), "{ran:?}");
}

#[test]
fn an_id_may_be_cut_short_while_it_is_the_only_one() {
    let hermes = filled();
    for reference in ["20260304", TRIP, "Plan the trip"] {
        let json = hermes.run(&["sessions", "show", reference, "--json"]);
        assert_eq!(json.ok().json()["session"]["id"], TRIP, "{reference}");
    }
    hermes
        .run(&["sessions", "show", "2026030", "--json"])
        .refused(2, "usage");
    let ran = hermes.run(&["sessions", "show", "2027"]).exits_with(3);
    assert!(ran.stderr.contains("hermes sessions list"), "{ran:?}");
}

#[test]
fn a_compacted_conversation_is_shown_whole_and_once() {
    let hermes = filled();
    with_store(&hermes, async |store| {
        let id = SessionId::parse(TRIP).unwrap();
        let live = store.active_messages(&id).await.unwrap();
        let summary = message(Role::User, "Summary: we go to Bern.", 10.0);
        let kept = [live[0].body.clone(), summary, live[3].body.clone()];
        assert!(
            store
                .lock_compaction(&id, "me", std::time::Duration::from_secs(9))
                .await
                .unwrap()
        );
        store.compact(&id, "me", live[3].id, &kept).await.unwrap();
    });
    let json = hermes
        .run(&["sessions", "show", TRIP, "--json"])
        .ok()
        .json();
    let shown: Vec<_> = json["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| (message["role"].as_str().unwrap(), message["state"].as_str()))
        .collect();
    let old = Some("compacted");
    assert_eq!(
        shown,
        [
            ("user", old),
            ("assistant", old),
            ("tool", old),
            ("assistant", old),
            ("user", None)
        ]
    );
}

#[test]
fn words_are_found_with_the_place_where_they_stand() {
    let hermes = filled();
    insta::assert_snapshot!(hermes.run(&["sessions", "search", "bern"]).ok().stdout, @r#"
    20260305_101112_12345678  2026-03-05 10:11  user
      >>>Bern<<<"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}}]
    20260304_050607_abcdef  2026-03-04 05:06  assistant  Plan the trip
      To **>>>Bern<<<**.
    "#);
    let json = hermes
        .run(&["sessions", "search", "bern", "--source", "cli", "--json"])
        .ok()
        .json();
    assert_eq!(json["hits"].as_array().unwrap().len(), 1);
    assert_eq!(json["hits"][0]["session_id"], TRIP);
    let none = hermes.run(&["sessions", "search", "zürich"]).ok();
    assert!(none.stderr.contains("`zürich`"), "{none:?}");
}

#[test]
fn an_export_has_every_message_on_its_line() {
    let hermes = filled();
    let ran = hermes.run(&["sessions", "export", TRIP]).ok();
    let lines: Vec<serde_json::Value> = ran
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 5);
    assert_eq!(lines[0]["session"]["title"], "Plan the trip");
    assert_eq!(lines[1]["content"], "Where do we \x1b[2Jgo?");
    assert_eq!(lines[2]["tool_calls"][0]["function"]["name"], "read_file");
    assert_eq!(lines[3]["tool_name"], "read_file");
    let parts = hermes
        .run(&["sessions", "export", CHAT, "--json"])
        .ok()
        .json();
    assert_eq!(parts["messages"][0]["content"][1]["type"], "image_url");
}

#[test]
fn an_export_replaces_what_was_there_and_follows_no_link() {
    let hermes = filled();
    let (file, theirs) = (
        hermes.user().join("trip.jsonl"),
        hermes.user().join("theirs"),
    );
    fs::write(&theirs, "theirs").unwrap();
    std::os::unix::fs::symlink(&theirs, &file).unwrap();
    let export = ["sessions", "export", TRIP, "-o", file.to_str().unwrap()];
    hermes.run(&export).ok();
    assert!(!file.is_symlink());
    assert_eq!(fs::read_to_string(&theirs).unwrap(), "theirs");
    // What was open to others is private from then on.
    fs::copy(&theirs, &file).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    hermes.run(&export).ok();
    assert_private(&file);
    // What is not a file stays what it is.
    let through = ["sessions", "export", TRIP, "-o", "/dev/stdout"];
    let ran = hermes.run(&through).ok();
    assert_eq!(ran.stdout, fs::read_to_string(&file).unwrap());
    assert!(std::path::Path::new("/dev/stdout").is_symlink());
}

#[test]
fn a_markdown_export_goes_to_a_private_file() {
    let hermes = filled();
    let file = hermes.user().join("trip.md");
    let path = file.to_str().unwrap();
    let ran = hermes.run(&[
        "sessions", "export", TRIP, "--format", "markdown", "-o", path,
    ]);
    assert_eq!(ran.ok().stdout, "");
    assert_private(&file);
    let text = fs::read_to_string(&file).unwrap();
    let (before, result) = text.split_once("line 1\n").unwrap();
    let (_, after) = result.split_once("line 15\n").unwrap();
    insta::assert_snapshot!(format!("{before}…\n{after}"), @r#"
    # Plan the trip

    `20260304_050607_abcdef`, cli, gpt-5, 2026-03-04 05:06

    ## User

    Where do we go?

    ## Assistant

    I look it up.

    Calls `read_file`:

    ```json
    {"path": "trip.txt"}
    ```

    ## Result of `read_file`

    ```
    …
    ```

    ## Assistant

    To **Bern**.
    "#);
}

#[test]
fn deleting_needs_a_word() {
    let hermes = filled();
    hermes
        .run(&["sessions", "delete", TRIP, "--json"])
        .refused(5, "answer_needed");
    let mut terminal = Terminal::start(hermes.command(&["sessions", "delete", TRIP]));
    terminal
        .wait_for("(Plan the trip) with 4 messages?")
        .wait_for("[y/N]")
        .send("\n");
    let (code, screen) = terminal.end();
    assert_eq!(code, 1, "{screen}");
    assert!(screen.contains("stays"), "{screen}");

    let mut terminal = Terminal::start(hermes.command(&["sessions", "delete", "Plan the trip"]));
    terminal.wait_for("[y/N]").send("y\n");
    assert_eq!(terminal.end().0, 0);
    hermes
        .run(&["sessions", "delete", CHAT, "--yes", "--json"])
        .ok();
    let json = hermes.run(&["sessions", "list", "--all", "--json"]).ok();
    assert_eq!(json.json()["sessions"], json!([]));
}

#[test]
fn a_title_is_given_once() {
    let hermes = filled();
    let ran = hermes.run(&["sessions", "rename", CHAT, " The\x07 bridge ", "--json"]);
    assert_eq!(ran.ok().json()["title"], "The bridge");
    let ran = hermes
        .run(&["sessions", "rename", CHAT, "Plan the trip", "--json"])
        .refused(2, "usage");
    assert!(ran.stdout.contains(TRIP), "{ran:?}");
    let ran = hermes.run(&["sessions", "rename", CHAT, "", "--json"]);
    assert_eq!(ran.ok().json()["title"], json!(null));
}

#[test]
fn a_newer_database_is_read_and_a_damaged_one_is_named() {
    let hermes = filled();
    let database = hermes.home.path().join("state.db");
    let python = std::process::Command::new("python3")
        .args(["-c", "import sqlite3,sys; c=sqlite3.connect(sys.argv[1]); c.execute('update schema_version set version=99'); c.commit()"])
        .arg(&database)
        .status();
    if python.is_ok_and(|status| status.success()) {
        let json = hermes.run(&["sessions", "list", "--json"]).ok().json();
        assert_eq!(json["sessions"].as_array().unwrap().len(), 2);
    }
    let other = Hermes::new();
    other.home.write("state.db", &"no database ".repeat(1000));
    let ran = other
        .run(&["sessions", "list", "--json"])
        .refused(1, "failed");
    assert!(ran.stdout.contains("state.db"), "{ran:?}");
    assert!(ran.stdout.contains("damaged"), "{ran:?}");
}

#[test]
fn a_mistyped_session_gets_the_one_that_was_meant_and_ids_are_completed() {
    let hermes = filled();
    let missed = "20260304_050607_abcdeg";
    let shown = hermes.run(&["sessions", "show", missed]).exits_with(3);
    let asked = format!("did you mean `{TRIP}`?");
    assert!(shown.stderr.contains(&asked), "{shown:?}");
    let mut command = hermes.command(&["--", "hermes", "sessions", "show", "20260304"]);
    command.env("HERMES_COMPLETE", "fish");
    let offered = crate::harness::program::run(command, "").ok();
    assert!(offered.stdout.starts_with(TRIP), "{offered:?}");
}
