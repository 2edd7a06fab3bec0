//! What servers contribute: prompts as commands, resources as mentions, questions to the model.

use hermes_testkit::{
    Behaviour, Era,
    model::{ModelScript, ScriptedAnswer},
};
use serde_json::{Value, json};

use super::Chat;
use crate::harness::program::entry;

fn chat(script: ModelScript, era: Era) -> Chat {
    Chat::with_servers(script, &[("kit", entry(&Behaviour::new().era(era)))])
}

/// What the user said in a request, as the model got it.
fn said(chat: &Chat, request: usize) -> String {
    let last = chat.request_messages(request).pop().unwrap();
    last["content"].as_str().unwrap().to_owned()
}

#[test]
fn a_prompt_is_sent_as_the_users_message() {
    for era in [Era::Legacy, Era::Stateless] {
        let chat = chat(ModelScript::echo(), era);
        for (number, line) in [
            "/mcp_kit_greet \"Ada Lovelace\" warmly",
            "/mcp__kit__greet style=warmly name='Ada Lovelace'",
        ]
        .into_iter()
        .enumerate()
        {
            let ran = chat.run(&["-z", line]).ok();
            assert_eq!(ran.stdout, "Greet Ada Lovelace warmly.\n", "{era:?}");
            assert_eq!(said(&chat, number), "Greet Ada Lovelace warmly.");
        }
    }
}

#[test]
fn a_prompt_without_what_it_needs_is_refused_with_its_usage() {
    let chat = chat(ModelScript::echo(), Era::Both);
    let ran = chat
        .run(&["-z", "/mcp_kit_greet style=warmly"])
        .exits_with(5);
    assert!(ran.stderr.contains("the prompt needs `name`"), "{ran:?}");
    assert!(
        ran.stderr.contains("/mcp_kit_greet name=… [style=…]"),
        "{ran:?}"
    );
    let ran = chat.run(&["-z", "/mcp_kit_greet a b c"]).exits_with(2);
    assert!(ran.stderr.contains("no argument left for `c`"), "{ran:?}");
    let ran = chat.run(&["-z", "/mcp_kit_nothing"]).exits_with(3);
    assert!(ran.stderr.contains("/mcp_kit_picture"), "{ran:?}");
    let ran = chat.run(&["-z", "/mcp_kit_gret name=Ada"]).exits_with(3);
    assert!(
        ran.stderr.contains("did you mean `/mcp_kit_greet`?"),
        "{ran:?}"
    );
    assert!(chat.model.requests().is_empty());
}

#[test]
fn a_mentioned_resource_goes_with_the_message() {
    let chat = chat(ModelScript::echo(), Era::Both);
    let note = "a-note-with-a-name-long-enough-to-be-wrapped";
    let message = format!("What is in @kit:test://note/{note}, and in @other:file:///x?");
    let ran = chat.run(&["-q", &message]).ok();
    let sent = said(&chat, 0);
    assert!(
        sent.starts_with(&format!("{message}\n\n@kit:test://note/{note}:\n")),
        "{sent}"
    );
    assert!(
        sent.contains("<untrusted_tool_result source=\"kit:test://note/"),
        "{sent}"
    );
    assert!(sent.contains(&format!("note {note}")), "{sent}");
    assert!(
        ran.stderr.contains("there is no MCP server `other`"),
        "{ran:?}"
    );
}

#[test]
fn a_mentioned_resource_that_changes_is_told_with_the_next_message() {
    let chat = chat(ModelScript::echo(), Era::Legacy);
    let change = json!({"uri": "test://text", "text": "quite another text"});
    let lines = format!("look at @kit:test://text\n/call kit.touch_resource {change}\nand now?\n");
    let ran = chat.hermes.run_with_input(&["chat"], &lines).ok();
    let sent = said(&chat, 1);
    let expected = "@kit:test://text has changed. It now is:\nquite another text\n\nand now?";
    assert_eq!(sent, expected, "{ran:?}");
}

#[test]
fn a_tool_that_asks_the_model_is_answered_by_it() {
    for era in [Era::Legacy, Era::Stateless] {
        let script = ModelScript::new([
            ScriptedAnswer::call("mcp_kit_sample", &json!({"prompt": "What is the word?"})),
            ScriptedAnswer::text("Swordfish."),
            ScriptedAnswer::text("Done."),
        ]);
        let chat = chat(script, era);
        let ran = chat.run(&["-z", "use the tool"]).ok();
        assert_eq!(ran.stdout, "Done.\n", "{era:?}");
        let asked = &chat.model.requests()[1].body;
        assert_eq!(
            asked["messages"],
            json!([{"role": "user", "content": "What is the word?"}])
        );
        let result = chat.request_messages(2).pop().unwrap();
        assert!(
            result["content"].as_str().unwrap().contains("Swordfish."),
            "{result}"
        );
    }
}

#[test]
fn without_a_terminal_no_server_may_ask_a_person() {
    let script = ModelScript::new([
        ScriptedAnswer::call("mcp_kit_protocol", &json!({})),
        ScriptedAnswer::text("Done."),
    ]);
    let chat = chat(script, Era::Legacy);
    chat.run(&["-z", "look"]).ok();
    let result = chat.request_messages(1).pop().unwrap();
    let text = result["content"].as_str().unwrap();
    let start = text.find("{\"result\"").unwrap();
    let told: Value = serde_json::Deserializer::from_str(&text[start..])
        .into_iter()
        .next()
        .unwrap()
        .unwrap();
    let said: Value = serde_json::from_str(told["result"].as_str().unwrap()).unwrap();
    assert_eq!(said["capabilities"], json!({"sampling": {"tools": {}}}));
}
