//! MCP servers in a conversation: whose tools it has, and when.

use std::{os::unix::fs::symlink, path::PathBuf};

use hermes_agent::{
    conversation::{
        Agent, AgentParts, Consent, Conversation, ConversationSetup, TitleSource, ToolsetSwitch,
    },
    turn::TurnEvent,
};
use hermes_config::{Home, ServerName, Settings, Variables};
use hermes_mcp::{Host, HostOptions, LinkStatus, process::GuardProgram};
use hermes_store::{Access, Store};
use hermes_testkit::{
    Behaviour, TemporaryHome, binary, binary_of,
    model::{ModelScript, ModelServer, ScriptedAnswer},
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::send;
use crate::mcp_host::{TIMEOUT, eventually};

/// A home with two servers, `here` and `there`. The second runs a program that can be taken away.
struct ServersFixture {
    home: TemporaryHome,
    model: ModelServer,
    host: Host,
    store: Store,
}

impl ServersFixture {
    /// With or without the program of `there`.
    async fn new(script: ModelScript, has_program: bool) -> Self {
        let home = TemporaryHome::new();
        let model = ModelServer::start(script);
        let place = Home::at(home.path());
        let guard = GuardProgram {
            path: binary_of("hermes-mcp", "hermes-mcp-guard"),
            args: Vec::new(),
        };
        let store = Store::open(&place, Access::ReadWrite).await.unwrap();
        if has_program {
            bring_back(&home);
        }
        let settings = settings(&home, &model, json!({}));
        let host = Host::start(HostOptions::new(place, guard), &settings).await;
        host.wait_until_settled(TIMEOUT).await;
        Self {
            home,
            model,
            host,
            store,
        }
    }

    /// A conversation with more in its configuration than the servers.
    fn begin(&self, config: Value, toolsets: &[&str]) -> Conversation {
        let parts = AgentParts {
            host: Some(self.host.clone()),
            ..AgentParts::new(Home::at(self.home.path()), self.store.clone())
        };
        let agent = Agent::new(parts, settings(&self.home, &self.model, config));
        let words: Vec<String> = toolsets.iter().map(|word| (*word).to_owned()).collect();
        let setup = ConversationSetup {
            titles: TitleSource::Manual,
            toolsets: (!words.is_empty()).then_some(words),
            ..ConversationSetup::for_cli(self.home.path().to_owned(), Consent::AllowAll)
        };
        Conversation::new_cli(agent, setup)
    }

    /// Takes the program of `there` away and lets every attempt to start it fail.
    async fn park(&self) {
        std::fs::remove_file(program(&self.home)).unwrap();
        let there = ServerName::new("there");
        let crash = self.host.registry().find("mcp_there_crash").cloned();
        let options = hermes_mcp::CallOptions::default();
        self.host
            .call_tool(&crash.unwrap(), serde_json::Map::new(), &options)
            .await;
        let link = self.host.link(&there).unwrap();
        eventually("`there` is parked", || {
            self.host.retry_failed();
            link.borrow().status == LinkStatus::Parked
        })
        .await;
    }

    /// The names of the tools in a request.
    fn tools(&self, request: usize) -> Vec<String> {
        let body = &self.model.requests()[request].body;
        let tools = body["tools"].as_array().unwrap().iter();
        tools
            .map(|tool| tool["function"]["name"].as_str().unwrap().to_owned())
            .collect()
    }
}

fn program(home: &TemporaryHome) -> PathBuf {
    home.path().join("server-program")
}

fn bring_back(home: &TemporaryHome) {
    symlink(binary("testkit-stdio"), program(home)).unwrap();
}

fn settings(home: &TemporaryHome, model: &ModelServer, mut config: Value) -> Settings {
    let entry = |program: PathBuf| {
        let (command, args) = Behaviour::new().stdio_command(&program);
        json!({"command": command, "args": args})
    };
    config["model"] = json!({"default": "scripted", "base_url": model.base_url()});
    config["mcp_servers"] = json!({
        "here": entry(binary("testkit-stdio")),
        "there": entry(program(home)),
    });
    Settings::parse(&config.to_string(), Variables::default()).unwrap()
}

/// What becomes of a call of each server's tool.
fn callable(conversation: &Conversation) -> [bool; 2] {
    let toolbox = conversation.toolbox();
    ["mcp_here_echo", "mcp_there_echo"].map(|name| toolbox.find(name).is_some())
}

/// Every way to leave `there` out, and one that leaves it in.
fn choices(place: &ServersFixture) -> Vec<(&'static str, Conversation, [bool; 2])> {
    let all = json!({});
    let mut switched = place.begin(all.clone(), &[]);
    assert!(switched.switch_toolset("there", ToolsetSwitch::Off));
    let mut switched_on = place.begin(json!({"platform_toolsets": {"cli": ["no_mcp"]}}), &[]);
    assert!(switched_on.switch_toolset("mcp-there", ToolsetSwitch::On));
    let platform = |words: Value| json!({"platform_toolsets": {"cli": words}});
    let disabled = json!({"agent": {"disabled_toolsets": ["mcp-there"]}});
    vec![
        ("all", place.begin(all.clone(), &[]), [true, true]),
        (
            "-t no_mcp",
            place.begin(all.clone(), &["no_mcp"]),
            [false, false],
        ),
        (
            "-t here",
            place.begin(all.clone(), &["here"]),
            [true, false],
        ),
        ("-t file", place.begin(all, &["file"]), [false, false]),
        (
            "no_mcp",
            place.begin(platform(json!(["no_mcp"])), &[]),
            [false, false],
        ),
        (
            "named",
            place.begin(platform(json!(["mcp-here"])), &[]),
            [true, false],
        ),
        ("disabled", place.begin(disabled, &[]), [true, false]),
        ("switched off", switched, [true, false]),
        ("switched on", switched_on, [false, true]),
    ]
}

#[tokio::test]
async fn toolsets_hold_for_servers_that_are_there_and_for_parked_ones() {
    let place = ServersFixture::new(ModelScript::echo(), true).await;
    for (choice, conversation, expected) in choices(&place) {
        assert_eq!(callable(&conversation), expected, "{choice}");
        let toolbox = conversation.toolbox();
        let offered = ["here", "there"].map(|server| {
            let mut tools = toolbox.offered();
            tools.any(|tool| tool.server.as_str() == server)
        });
        assert_eq!(offered, expected, "{choice}");
    }
    place.park().await;
    for (choice, conversation, expected) in choices(&place) {
        assert_eq!(callable(&conversation), expected, "parked: {choice}");
        let toolbox = conversation.toolbox();
        assert!(toolbox.offered().all(|tool| tool.server.as_str() == "here"));
    }
    place.host.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_server_joins_at_the_next_turn_and_not_within_one() {
    let place = ServersFixture::new(
        ModelScript::new([
            ScriptedAnswer::call("todo", &json!({})),
            ScriptedAnswer::call("mcp_there_echo", &json!({"text": "hi"})),
            ScriptedAnswer::text("one"),
            ScriptedAnswer::text("two"),
        ]),
        false,
    )
    .await;
    let mut conversation = place.begin(json!({"tools": {"tool_search": {"enabled": "off"}}}), &[]);
    let (home, host) = (&place.home, &place.host);
    let mut display = |event: TurnEvent| {
        if !matches!(&event, TurnEvent::CallEnded { call, .. } if call.name == "todo") {
            return;
        }
        // It arrives while the turn runs.
        bring_back(home);
        let arrived = hermes_testkit::wait_until(TIMEOUT, || {
            let is_there = host.registry().find("mcp_there_echo").is_some();
            if !is_there {
                host.retry_failed();
            }
            is_there
        });
        assert!(arrived, "{:?}", host.status());
    };
    let cancel = CancellationToken::new();
    conversation
        .send_user_message("go", &mut display, cancel)
        .await
        .unwrap();
    send(&mut conversation, "again").await.unwrap();
    let has = |request: usize, server: &str| {
        let start = format!("mcp_{server}_");
        let tools = place.tools(request);
        tools.iter().any(|name| name.starts_with(&start))
    };
    for request in 0..3 {
        assert!(has(request, "here") && !has(request, "there"), "{request}");
    }
    assert!(has(3, "there"), "{:?}", place.tools(3));
    // Nor can it be called before.
    let result = place.model.requests()[2].body["messages"]
        .as_array()
        .unwrap()
        .last()
        .unwrap()
        .to_string();
    assert!(result.contains("Unknown tool"), "{result}");
    place.host.shutdown().await;
}
