//! Which tools a turn has.

use std::collections::BTreeSet;

use hermes_agent::{
    conversation::{
        Agent, Conversation, ConversationSetup, ToolsetKind, ToolsetSwitch, unknown_toolsets,
    },
    tools,
};
use hermes_testkit::model::ModelScript;

use super::{ConversationFixture, settings};

fn names(conversation: &Conversation) -> BTreeSet<String> {
    let toolbox = conversation.toolbox();
    let definitions = toolbox.definitions().iter();
    definitions
        .map(|definition| definition.name.clone())
        .collect()
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// All that a home without a search engine and messaging platforms has.
fn everything() -> BTreeSet<String> {
    let mut names = set(&tools::TOOL_NAMES);
    assert!(names.remove("web_search"));
    assert!(names.remove("send_message"));
    names
}

const FILE: [&str; 4] = ["read_file", "write_file", "patch", "search_files"];

#[tokio::test]
async fn every_built_in_name_and_toolset_is_listed() {
    let command = ConversationFixture::new(ModelScript::echo()).await;
    let conversation = command.begin();
    assert_eq!(names(&conversation), everything());
    let reserved: BTreeSet<String> = Agent::reserved_names().into_iter().collect();
    assert!(reserved.is_superset(&set(&tools::TOOL_NAMES)));
    assert!(reserved.contains("tool_search"));
    let listed: BTreeSet<String> = conversation
        .toolsets()
        .into_iter()
        .map(|entry| {
            assert!(matches!(entry.kind, ToolsetKind::BuiltIn) && entry.is_offered);
            entry.name
        })
        .collect();
    // Nobody is there to send messages.
    let mut known = set(&tools::TOOLSETS);
    known.remove("messaging");
    assert_eq!(listed, known);
}

#[tokio::test]
async fn toolsets_of_a_run_are_exactly_those_named() {
    let command = ConversationFixture::new(ModelScript::echo()).await;
    let with = |words: &[&str]| {
        let setup = ConversationSetup {
            toolsets: Some(words.iter().map(|word| (*word).to_owned()).collect()),
            ..command.setup()
        };
        names(&Conversation::new_cli(command.agent.clone(), setup))
    };
    assert_eq!(with(&["file"]), set(&FILE));
    assert_eq!(with(&["file", "no_mcp"]), set(&FILE));
    assert_eq!(with(&["some_server"]), set(&[]));
    assert_eq!(with(&["no_mcp"]), everything());
    assert_eq!(with(&["hermes-cli"]), everything());
    assert_eq!(with(&["all"]), everything());
}

#[tokio::test]
async fn the_configuration_chooses_and_disables() {
    let config = "platform_toolsets: {cli: [file, memory], telegram: [todo]}\n\
                  agent: {disabled_toolsets: [memory]}\n";
    let command = ConversationFixture::with_config(ModelScript::echo(), config).await;
    assert_eq!(names(&command.begin()), set(&FILE));
    // A list of servers alone says nothing about built-in tools.
    let command = ConversationFixture::with_config(
        ModelScript::echo(),
        "platform_toolsets: {cli: [time]}\nagent: {disabled_toolsets: [memory]}\n",
    )
    .await;
    let mut expected = everything();
    expected.remove("memory");
    assert_eq!(names(&command.begin()), expected);
}

#[tokio::test]
async fn a_surface_withholds_toolsets_and_the_user_switches_them() {
    let command = ConversationFixture::new(ModelScript::echo()).await;
    let setup = ConversationSetup {
        toolsets: Some(vec!["file".into()]),
        excluded_toolsets: vec!["cronjob".into()],
        ..command.setup()
    };
    let mut conversation = Conversation::new_cli(command.agent.clone(), setup);
    assert!(conversation.switch_toolset("todo", ToolsetSwitch::On));
    assert!(conversation.switch_toolset("cronjob", ToolsetSwitch::On));
    assert!(conversation.switch_toolset("file", ToolsetSwitch::Off));
    assert!(!conversation.switch_toolset("nothing", ToolsetSwitch::Off));
    assert_eq!(names(&conversation), set(&["todo"]));
}

#[tokio::test]
async fn words_that_mean_nothing_are_told() {
    let command = ConversationFixture::with_config(
        ModelScript::echo(),
        "mcp_servers: {time: {command: x, enabled: false}}\n",
    )
    .await;
    let settings = settings(&command.home());
    let words: Vec<String> = ["file", "time", "mcp-time", "all", "no_mcp", "fly"]
        .map(str::to_owned)
        .into();
    assert_eq!(unknown_toolsets(&settings, "cli", &words), ["fly"]);
}
