//! Prompt commands, over real transports in both eras.

use std::time::Duration;

use hermes_agent::{message::Content, prompt_command::PromptCommand};
use hermes_mcp::CallOptions;
use hermes_testkit::{Behaviour, Era};
use serde_json::json;

use crate::mcp_host::{Peer, RunningHost, WIRES_AND_ERAS, Wire};

async fn find(setup: &RunningHost, typed: &str) -> Option<PromptCommand> {
    PromptCommand::find(&setup.host, typed, Duration::from_secs(30)).await
}

async fn turn(setup: &RunningHost, typed: &str, rest: &str) -> Result<Content, String> {
    let command = find(setup, typed).await.unwrap();
    let arguments = command.parse_arguments(rest).unwrap();
    let options = CallOptions::default();
    let turn = command.render(&setup.host, &arguments, &options).await;
    turn.map_err(|error| error.to_string())
}

#[tokio::test]
async fn a_prompt_becomes_the_users_turn() {
    for (wire, era) in WIRES_AND_ERAS {
        let peer = Peer::new(wire, Behaviour::new().era(era));
        let setup = RunningHost::without_handlers(&peer, &json!({})).await;
        for typed in ["/mcp_s_greet", "/mcp__s__greet", "mcp_s_greet"] {
            let said = turn(&setup, typed, "\"Ada Lovelace\" style=warmly").await;
            let expected = Content::Text("Greet Ada Lovelace warmly.".into());
            assert_eq!(said, Ok(expected), "{wire:?}, {era:?}");
        }
        for typed in ["/mcp_s_nothing", "/help", "/mcp", "greet"] {
            assert!(find(&setup, typed).await.is_none(), "{typed}");
        }
    }
}

#[tokio::test]
async fn missing_arguments_are_known_before_the_server_is_asked() {
    let peer = Peer::new(Wire::Stdio, Behaviour::new());
    let setup = RunningHost::without_handlers(&peer, &json!({})).await;
    let command = find(&setup, "/mcp_s_greet").await.unwrap();
    let mut arguments = command.parse_arguments("style=warmly").unwrap();
    let missing = &arguments.missing[0];
    assert_eq!(
        (missing.name.as_str(), missing.description.as_deref()),
        ("name", Some("Who is greeted."))
    );
    arguments.add("name", "Ada");
    let said = command
        .render(&setup.host, &arguments, &CallOptions::default())
        .await;
    assert_eq!(said.unwrap(), Content::Text("Greet Ada warmly.".into()));
}

#[tokio::test]
async fn an_image_stays_an_image() {
    let peer = Peer::new(Wire::Stdio, Behaviour::new().era(Era::Stateless));
    let setup = RunningHost::without_handlers(&peer, &json!({})).await;
    let said = turn(&setup, "/mcp_s_picture", "").await.unwrap();
    let said = serde_json::to_value(said).unwrap();
    assert_eq!(said[0]["type"], "image_url", "{said}");
    let url = said[0]["image_url"]["url"].as_str().unwrap();
    assert!(url.starts_with("data:image/png;base64,"), "{url}");
}

#[tokio::test]
async fn prompts_that_are_switched_off_are_not_commands() {
    let peer = Peer::new(Wire::Stdio, Behaviour::new());
    let setup =
        RunningHost::without_handlers(&peer, &json!({ "tools": { "prompts": false } })).await;
    assert!(PromptCommand::list(&setup.host).is_empty());
    assert!(find(&setup, "/mcp_s_greet").await.is_none());
}

#[tokio::test]
async fn a_server_that_refuses_says_why() {
    let peer = Peer::new(Wire::Stdio, Behaviour::new());
    let setup = RunningHost::without_handlers(&peer, &json!({})).await;
    let error = turn(&setup, "/mcp_s_greet", "style=x").await.unwrap_err();
    assert!(
        error.contains("`mcp_s_greet`") && error.contains("missing argument `name`"),
        "{error}"
    );
}

#[tokio::test]
async fn new_prompts_are_commands_too() {
    for era in [Era::Legacy, Era::Stateless] {
        let peer = Peer::new(Wire::Stdio, Behaviour::new().era(era));
        let setup = RunningHost::without_handlers(&peer, &json!({})).await;
        setup
            .call("change_prompts", json!({ "add": ["late"] }))
            .await;
        let is_there = || {
            PromptCommand::list(&setup.host)
                .iter()
                .any(|command| command.name.as_str() == "mcp_s_late")
        };
        crate::mcp_host::eventually("the new prompt is a command", is_there).await;
        assert_eq!(
            turn(&setup, "/mcp_s_late", "").await,
            Ok("This is late.".into())
        );
    }
}
