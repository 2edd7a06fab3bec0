//! What servers ask in a chat, and what people take from them there.

use std::time::Duration;

use hermes_testkit::{
    Behaviour, Era, ExitAtStart,
    model::{ModelScript, ScriptedAnswer},
    wait_until,
};
use serde_json::{Value, json};

use super::CTRL_C;
use crate::harness::chat_terminal::{ChatHome, ChatTerminal};

/// What the user or a tool said last in a request.
fn last(place: &ChatHome, request: usize) -> String {
    let body = &place.model.as_ref().unwrap().requests()[request].body;
    let message = body["messages"].as_array().unwrap().last().unwrap();
    message["content"].as_str().unwrap().to_owned()
}

fn asking(era: Era) -> ChatHome {
    let schema = json!({
        "type": "object",
        "properties": {
            "name": {"type": "string", "title": "Your name"},
            "size": {"type": "string", "enum": ["small", "large"]},
            "days": {"type": "array", "items": {"type": "string", "enum": ["mon", "tue"]}},
        },
        "required": ["name"],
    });
    let params = json!({"mode": "form", "message": "Who are you?", "requestedSchema": schema});
    let script = ModelScript::new([
        ScriptedAnswer::call("mcp_kit_elicit", &json!({"params": params})),
        ScriptedAnswer::text("Thank you."),
    ]);
    ChatHome::with_model(script, &[("kit", &Behaviour::new().era(era))])
}

/// A chat whose server is there.
fn talk(place: &ChatHome) -> ChatTerminal {
    let talk = place.start_chat(&[]);
    talk.wait_until_ready("kit");
    talk
}

#[test]
fn a_form_is_filled_in_in_the_chat() {
    for era in [Era::Legacy, Era::Stateless] {
        let place = asking(era);
        let talk = talk(&place);
        talk.line("ask me");
        talk.wait_for("The MCP server `kit` asks:\n  Who are you?");
        talk.wait_for("Your name:");
        talk.keys("Ada\r");
        talk.wait_for("Number or name (may be left empty):");
        talk.keys("2\r");
        talk.wait_for("> [ ] mon");
        talk.keys("j \r");
        talk.wait_for("Send this to `kit`?");
        talk.keys("y\r");
        talk.wait_for("Thank you.");
        talk.prompt();
        let result = last(&place, 1);
        let content = r#"{\"action\":\"accept\",\"content\":{\"name\":\"Ada\",\"size\":\"large\",\"days\":[\"tue\"]}}"#;
        assert!(result.contains(content), "{era:?}: {result}");
    }
}

#[test]
fn leaving_a_form_leaves_the_turn_running() {
    let place = asking(Era::Stateless);
    let talk = talk(&place);
    talk.line("ask me");
    talk.wait_for("Your name:");
    talk.keys(CTRL_C);
    talk.wait_for("Thank you.");
    let result = last(&place, 1);
    assert!(result.contains(r#"{\"action\":\"cancel\"}"#), "{result}");
}

#[test]
fn a_call_by_hand_may_ask_too() {
    let place = ChatHome::without_model(&[("kit", &Behaviour::new())]);
    let talk = talk(&place);
    talk.line("/call kit.elicit");
    talk.wait_for("What is your name?");
    talk.wait_for("name:");
    talk.keys("Ada\r");
    talk.wait_for("Send this to `kit`?");
    talk.keys("y\r");
    talk.wait_for(r#"{"action":"accept","content":{"name":"Ada"}}"#);
}

#[test]
fn the_chats_own_model_answers_a_server() {
    let script = ModelScript::new([
        ScriptedAnswer::call("mcp_kit_sample", &json!({"prompt": "What is the word?"})),
        ScriptedAnswer::text("Swordfish."),
        ScriptedAnswer::text("All done."),
    ]);
    let place = ChatHome::with_model(script, &[("kit", &Behaviour::new())]);
    let talk = talk(&place);
    talk.line("find out");
    talk.wait_for("All done.");
    assert!(last(&place, 2).contains("Swordfish."));
    let asked: Value = place.model.as_ref().unwrap().requests()[1].body["messages"].clone();
    assert_eq!(
        asked,
        json!([{"role": "user", "content": "What is the word?"}])
    );
}

#[test]
fn a_prompt_asks_for_what_it_needs() {
    let place = ChatHome::with_model(ModelScript::echo(), &[("kit", &Behaviour::new())]);
    let talk = talk(&place);
    talk.line("/mcp_kit_greet style=warmly");
    talk.wait_for("Who is greeted.");
    talk.keys("\r");
    talk.keys("Ada\r");
    talk.wait_until("answer", |screen| {
        screen.matches("Greet Ada warmly.").count() == 2
    });
    assert_eq!(last(&place, 0), "Greet Ada warmly.");
    talk.line("/mcp_kit_greets");
    talk.wait_for("there is no prompt `/mcp_kit_greets`");
}

#[test]
fn a_mention_is_completed_attached_and_watched() {
    let place = ChatHome::with_model(ModelScript::echo(), &[("kit", &Behaviour::new())]);
    let talk = talk(&place);
    talk.prompt();
    talk.keys("look at @kit:test://te\t");
    // Resources are listed a moment after the tools: then the last letter is typed once more.
    let is_complete = || talk.screen().contains("@kit:test://text");
    let mut tries = 0..10;
    while !wait_until(Duration::from_secs(3), is_complete) {
        assert!(tries.next().is_some(), "no resource in:\n{}", talk.screen());
        talk.keys("\u{7f}e\t");
    }
    talk.keys(" and @no:x://y\r");
    talk.wait_for("there is no MCP server `no`");
    talk.prompt();
    assert!(last(&place, 0).contains("@kit:test://text:\ncontents of test://text"));
    let change = json!({"uri": "test://text", "text": "quite another text"});
    talk.line(&format!("/call kit.touch_resource {change}"));
    talk.wait_for("announced");
    talk.line("and now?");
    talk.wait_until("second answer", |_| {
        place.model.as_ref().unwrap().requests().len() == 2
    });
    let expected = "@kit:test://text has changed. It now is:\nquite another text\n\nand now?";
    assert_eq!(last(&place, 1), expected);
}

#[test]
fn a_change_that_touches_no_server_counts_for_servers_that_ask() {
    let place = ChatHome::with_model(ModelScript::echo(), &[("kit", &Behaviour::new())]);
    let talk = talk(&place);
    talk.line("hello");
    talk.wait_until("answer", |screen| screen.matches("hello").count() == 2);
    let model = || {
        let requests = place.model.as_ref().unwrap().requests();
        requests.last().unwrap().body["model"].clone()
    };
    talk.line("/call kit.sample prompt=one");
    talk.wait_for("endTurn");
    assert_eq!(model(), "test-model");
    let file = place.home.path().join("config.yaml");
    let config = std::fs::read_to_string(file).unwrap();
    let config = config.replace("auxiliary: {", "auxiliary: {mcp: {model: small}, ");
    place.home.write_config(&config);
    // Nothing is shown of it, so it is tried until it counts. Not without a pause: a server may ask ten times a minute.
    for _ in 0..100 {
        talk.line("/call kit.sample prompt=two");
        talk.prompt();
        if model() == "small" {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("still {}", model());
}

#[test]
fn what_servers_asked_is_counted_for_other_processes() {
    let script = ModelScript::new([
        ScriptedAnswer::call("mcp_kit_sample", &json!({"prompt": "What is the word?"})),
        ScriptedAnswer::text("Swordfish."),
        ScriptedAnswer::text("All done."),
    ]);
    let place = ChatHome::with_model(script, &[("kit", &Behaviour::new())]);
    let talk = talk(&place);
    talk.line("find out");
    talk.wait_for("All done.");
    talk.line("/call kit.elicit");
    talk.wait_for("What is your name?");
    talk.keys("Ada\r");
    talk.wait_for("Send this to `kit`?");
    talk.keys("y\r");
    talk.wait_for("accept");
    talk.prompt();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_hermes"))
        .args(["mcp", "status", "--json"])
        .env("HERMES_HOME", place.home.path())
        .output()
        .unwrap();
    let status: Value = serde_json::from_slice(&output.stdout).unwrap();
    let kit = &status["servers"][0];
    assert_eq!(kit["status"], "ready", "{status}");
    assert_eq!(kit["sampling"]["requests"], 1, "{status}");
    assert_eq!(kit["elicitation"]["requests"], 1, "{status}");
    assert_eq!(kit["elicitation"]["accepted"], 1, "{status}");
}

#[test]
fn a_mention_of_a_server_that_connects_says_whom_it_waits_for() {
    let late = Behaviour::new().process(|process| process.start_delay_ms = 5_000);
    let place = ChatHome::new(
        Some(ModelScript::echo()),
        &[("late", &late)],
        "mcp_discovery_timeout: 0\n",
    );
    let talk = place.start_chat(&[]);
    talk.line("look at @late:test://text");
    talk.wait_for("waiting for late");
    talk.wait_until("answer", |_| {
        !place.model.as_ref().unwrap().requests().is_empty()
    });
    assert!(last(&place, 0).contains("contents of test://text"));
}

#[test]
fn a_single_question_at_a_terminal_says_whom_it_waits_for() {
    let late = Behaviour::new().process(|process| process.start_delay_ms = 5_000);
    let place = ChatHome::without_model(&[("late", &late)]);
    // The second time its tools are known, and it is waited for all the same.
    for _ in 0..2 {
        let talk = place.start_chat_with(&["-q", "/call late.echo text=hello"], &[]);
        talk.wait_for("waiting for late");
        let (code, screen) = talk.end();
        assert_eq!(code, Some(0), "{screen}");
        assert!(screen.contains("hello"), "{screen}");
    }
}

#[test]
fn the_last_words_of_a_server_are_shown_whole() {
    let dying = Behaviour::new().process(|process| {
        process.exit_at_start = Some(ExitAtStart {
            code: 3,
            stderr: "Traceback:\nboom: there is no index".into(),
        });
    });
    let place = ChatHome::without_model(&[("dying", &dying)]);
    let talk = place.start_chat(&[]);
    talk.wait_for("its last stderr lines:\n  Traceback:\n  boom: there is no index");
}

#[test]
fn the_first_turn_waits_so_long_for_servers_and_no_longer() {
    let tools = |place: &ChatHome| {
        let body = &place.model.as_ref().unwrap().requests()[0].body;
        body["tools"].to_string()
    };
    // It never gets ready while somebody waits.
    let never = Behaviour::new().process(|process| process.start_delay_ms = 600_000);
    let place = ChatHome::new(
        Some(ModelScript::echo()),
        &[("slow", &never)],
        "mcp_discovery_timeout: 0.2\n",
    );
    let talk = place.start_chat(&[]);
    talk.line("hello");
    talk.wait_until("answer", |screen| screen.matches("hello").count() == 2);
    assert!(!tools(&place).contains("mcp_slow_"));
    let prompt = place.model.as_ref().unwrap().requests()[0].body["messages"][0].to_string();
    assert!(prompt.contains("slow"), "{prompt}");

    let late = Behaviour::new().process(|process| process.start_delay_ms = 1_500);
    let place = ChatHome::new(
        Some(ModelScript::echo()),
        &[("slow", &late)],
        "mcp_discovery_timeout: 25\n",
    );
    let talk = place.start_chat(&[]);
    talk.line("hello");
    talk.wait_until("answer", |screen| screen.matches("hello").count() == 2);
    assert!(tools(&place).contains("mcp_slow_"));
}
