//! Lists without an end, with repeated pages, and with definitions that are none.

use hermes_testkit::{Behaviour, Era, HttpServer, OddTool, TemporaryHome, Tool, recorded};
use serde_json::{Value, json};

use crate::setup::{
    ALL_TRANSPORTS, Log, RecordedServer, Setup, TransportKind, http, stdio, with_neighbour,
};

async fn listed(wire: TransportKind, behaviour: Behaviour) -> (Setup, RecordedServer) {
    let home = TemporaryHome::new();
    let peer = RecordedServer::new(wire, behaviour, home.path());
    let setup = Setup::in_home(home, with_neighbour(json!({ "s": peer.entry }))).await;
    setup.assert_ready("s");
    (setup, peer)
}

fn parameters(setup: &Setup, name: &str) -> Value {
    let registry = setup.host.registry();
    let tool = registry.find(name);
    tool.unwrap_or_else(|| panic!("no tool `{name}`"))
        .parameters()
}

#[tokio::test]
async fn pages_without_end_are_cut_with_a_warning() {
    for (wire, era) in ALL_TRANSPORTS {
        let behaviour = Behaviour::new()
            .era(era)
            .without_resources()
            .without_prompts()
            .lists(|lists| lists.endless_pages = true);
        let (setup, peer) = listed(wire, behaviour).await;
        let status = setup.status("s");
        assert_eq!(status.tools, 50, "{wire:?}, {era:?}");
        let warnings = status.warnings.join("\n");
        assert!(warnings.contains("50 pages"), "{warnings}");
        assert_eq!(recorded(&peer.record, "tools/list").len(), 50);
        setup.assert_neighbour_is_well().await;
    }
}

#[tokio::test]
async fn more_tools_than_anybody_needs_are_cut_with_a_warning_that_names_the_bound() {
    for (wire, era) in [
        (TransportKind::Stdio, Era::Legacy),
        (TransportKind::Http, Era::Stateless),
    ] {
        let mut behaviour = Behaviour::new()
            .era(era)
            .tools([])
            .without_resources()
            .without_prompts()
            .lists(|lists| lists.page_size = Some(4_000));
        behaviour.generate_tools = 20_000;
        let (setup, peer) = listed(wire, behaviour).await;
        let status = setup.status("s");
        assert_eq!(status.tools, 10_000, "{wire:?}, {era:?}");
        let warnings = status.warnings.join("\n");
        assert!(warnings.contains("more than 10000 tools"), "{warnings}");
        assert_eq!(recorded(&peer.record, "tools/list").len(), 3);
        let told = setup.call("mcp_s_tool_9999", json!({ "text": "hi" })).await;
        assert_eq!(told, json!({ "result": "hi" }));
    }
}

#[tokio::test]
async fn a_cursor_that_repeats_itself_ends_the_list() {
    for (wire, era) in ALL_TRANSPORTS {
        let behaviour = Behaviour::new()
            .era(era)
            .tools([Tool::named("one"), Tool::named("two")])
            .without_prompts()
            .lists(|lists| lists.repeat_cursor = true);
        let (setup, peer) = listed(wire, behaviour).await;
        let status = setup.status("s");
        let names: Vec<String> = setup
            .host
            .registry()
            .tools()
            .filter(|tool| tool.server.as_str() == "s")
            .map(|tool| tool.original_name().to_owned())
            .collect();
        assert_eq!(
            names,
            ["one", "two", "list_resources", "read_resource"],
            "{wire:?}, {era:?}"
        );
        let warnings = status.warnings.join("\n");
        assert!(warnings.contains("repeats"), "{warnings}");
        assert!(recorded(&peer.record, "tools/list").len() <= 3);
        let told = setup.call("mcp_s_one", json!({ "text": "hi" })).await;
        assert_eq!(told, json!({ "result": "hi" }));
        let told = setup.call("mcp_s_list_resources", json!({})).await;
        let resources = told["resources"].as_array().unwrap();
        assert!(resources.len() >= 2, "{told}");
        setup.assert_neighbour_is_well().await;
    }
}

#[tokio::test]
async fn a_schema_that_is_none_costs_neither_its_tool_nor_the_others() {
    for (wire, era) in ALL_TRANSPORTS {
        let behaviour = Behaviour::new()
            .era(era)
            .lists(|lists| lists.odd_tools = vec![OddTool::NoSchema]);
        let (setup, _peer) = listed(wire, behaviour).await;
        let warnings = setup.status("s").warnings.join("\n");
        assert!(warnings.contains("no_schema"), "{warnings}");
        assert_eq!(
            parameters(&setup, "mcp_s_no_schema"),
            json!({ "type": "object", "properties": {} }),
            "{wire:?}, {era:?}"
        );
        let told = setup
            .call("mcp_s_no_schema", json!({ "text": "all the same" }))
            .await;
        assert_eq!(told, json!({ "result": "all the same" }));
        let told = setup.call("mcp_s_echo", json!({ "text": "hi" })).await;
        assert_eq!(told, json!({ "result": "hi" }));
        setup.assert_neighbour_is_well().await;
    }
}

#[tokio::test]
async fn schemas_of_every_wrong_shape_leave_a_usable_list() {
    let shapes = [
        json!(null),
        json!([]),
        json!(7),
        json!({}),
        json!({ "type": "string" }),
        json!({ "type": 5 }),
        json!({ "type": "object", "properties": [] }),
        json!({ "type": "object", "properties": { "a": 3, "b": "string", "c": null } }),
        json!({ "type": "object", "required": "a" }),
        json!({ "$ref": "#/$defs/missing" }),
        json!({ "type": "object", "properties": { "a": { "$ref": "#" } } }),
        json!({ "anyOf": [{ "type": "object" }, { "type": "null" }] }),
    ];
    let tools: Vec<Tool> = shapes
        .iter()
        .enumerate()
        .map(|(number, shape)| {
            Tool::named(&format!("shape_{number}"))
                .with("inputSchema", shape.clone())
                .acting_as("echo")
        })
        .chain([Tool::named("good").acting_as("echo")])
        .collect();
    for era in [Era::Legacy, Era::Stateless] {
        let behaviour = Behaviour::new().era(era).tools(tools.clone());
        let (setup, _peer) = listed(TransportKind::Stdio, behaviour).await;
        let registry = setup.host.registry();
        for tool in registry.tools().filter(|tool| tool.server.as_str() == "s") {
            let parameters = tool.parameters();
            assert_eq!(parameters["type"], "object", "{}: {parameters}", tool.name);
        }
        for (number, shape) in shapes.iter().enumerate() {
            let name = format!("mcp_s_shape_{number}");
            let told = setup.call(&name, json!({ "text": "hi" })).await;
            assert_eq!(told, json!({ "result": "hi" }), "{era:?}: {shape}");
        }
        let told = setup.call("mcp_s_good", json!({ "text": "hi" })).await;
        assert_eq!(told, json!({ "result": "hi" }));
        setup.assert_neighbour_is_well().await;
    }
}

#[tokio::test]
async fn remote_references_are_never_fetched() {
    let elsewhere = HttpServer::start(Behaviour::new());
    let reference = format!("{}/schema.json", elsewhere.origin());
    let tool = Tool::named("remote")
        .with(
            "inputSchema",
            json!({
                "type": "object",
                "properties": { "item": { "$ref": reference }, "count": { "type": "integer" } },
            }),
        )
        .with(
            "outputSchema",
            json!({ "type": "object", "$ref": reference }),
        )
        .acting_as("content");
    for (wire, era) in ALL_TRANSPORTS {
        let behaviour = Behaviour::new().era(era).tools([tool.clone()]);
        let (setup, _peer) = listed(wire, behaviour).await;
        parameters(&setup, "mcp_s_remote");
        setup.status("s");
        let result = json!({ "content": [], "structuredContent": { "a": 1 } });
        let told = setup
            .call("mcp_s_remote", json!({ "result": result, "item": "x" }))
            .await;
        assert_eq!(told, json!({ "result": { "a": 1 } }), "{wire:?}, {era:?}");
        setup.assert_neighbour_is_well().await;
    }
    let asked = elsewhere.requests();
    assert!(asked.is_empty(), "{asked:?}");
}

#[tokio::test]
async fn a_tool_with_an_unusable_header_is_left_out_over_stateless_http() {
    let behaviour = Behaviour::new()
        .era(Era::Stateless)
        .lists(|lists| lists.odd_tools = vec![OddTool::BadHeader]);
    let server = HttpServer::start(behaviour.clone());
    let servers = json!({ "remote": http(&server), "local": stdio(&behaviour) });
    let log = Log::default();
    let _capturing = log.capture();
    let setup = Setup::start(with_neighbour(servers)).await;
    setup.assert_ready("remote");
    let registry = setup.host.registry();
    assert!(registry.find("mcp_remote_bad_header").is_none());
    assert!(registry.find("mcp_remote_echo").is_some());
    let text = log.text();
    let warning = text.lines().find(|line| line.contains("bad_header"));
    assert!(warning.is_some_and(|line| line.contains("WARN")), "{text}");
    // Headers mean nothing on stdio.
    assert!(registry.find("mcp_local_bad_header").is_some());
    setup.assert_neighbour_is_well().await;
}

#[tokio::test]
async fn an_argument_that_belongs_in_a_header_is_mirrored_there() {
    let tool = Tool::named("regional")
        .with(
            "inputSchema",
            json!({
                "type": "object",
                "properties": { "region": { "type": "string", "x-mcp-header": "Region" } },
            }),
        )
        .acting_as("echo");
    let server = HttpServer::start(Behaviour::new().era(Era::Stateless).tools([tool]));
    let setup = Setup::start(json!({ "s": http(&server) })).await;
    setup
        .call("mcp_s_regional", json!({ "region": "eu-west" }))
        .await;
    let requests = server.requests();
    let call = requests
        .iter()
        .find(|request| request.rpc_method() == "tools/call")
        .unwrap();
    assert_eq!(call.header("Mcp-Param-Region"), Some("eu-west"));
    assert_eq!(call.header("Mcp-Method"), Some("tools/call"));
    assert_eq!(call.header("Mcp-Name"), Some("regional"));
}
