//! The names that the documentation states, and the schemas behind them.

use hermes_mcp::ToolOrigin;
use hermes_testkit::{Behaviour, Tool};
use serde_json::json;

use crate::setup::{ALL_TRANSPORTS, RecordedServer, Setup, stdio};

fn offering(tools: &[&str]) -> serde_json::Value {
    let tools = tools.iter().map(|name| Tool::named(name).acting_as("echo"));
    stdio(&Behaviour::new().tools(tools))
}

#[tokio::test]
async fn documented_names_are_the_names_that_are_called() {
    let setup = Setup::start(json!({
        "filesystem": offering(&["read_file", "write_file", "list_directory"]),
        "github": offering(&["create-issue", "list_issues", "create_pull_request"]),
        "my-api": offering(&["query.data", "fetch-data", "list-items.v2"]),
    }))
    .await;
    for name in [
        "mcp_filesystem_read_file",
        "mcp_filesystem_write_file",
        "mcp_filesystem_list_directory",
        "mcp_github_create_issue",
        "mcp_github_list_issues",
        "mcp_github_create_pull_request",
        "mcp_my_api_query_data",
        "mcp_my_api_fetch_data",
        "mcp_my_api_list_items_v2",
        "mcp__my_api__list_items_v2",
    ] {
        let told = setup.call(name, json!({ "text": name })).await;
        assert_eq!(told, json!({ "result": name }));
    }
    let told = setup.call("mcp_github_list_resources", json!({})).await;
    assert!(told["resources"].is_array(), "{told}");
    let arguments = json!({ "name": "greet", "arguments": { "name": "Ada" } });
    let told = setup.call("mcp_github_get_prompt", arguments).await;
    assert!(told["messages"].is_array(), "{told}");
}

#[tokio::test]
async fn the_schema_is_kept_as_received_and_the_model_gets_a_plain_copy() {
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "path": { "type": "string", "pattern": "^/", "x-odd": [1, { "a": null }] },
            "mode": { "anyOf": [{ "type": "integer", "minimum": 0 }, { "type": "null" }], "title": "Mode" },
            "item": { "$ref": "#/definitions/item" },
        },
        "required": ["path", "gone"],
        "definitions": { "item": { "type": "object", "properties": { "definitions": { "type": "string" } } } },
        "oneOf": [{ "required": ["path"] }],
        "unevaluatedProperties": false,
    });
    for (wire, era) in ALL_TRANSPORTS {
        let tool = Tool::named("t").with("inputSchema", schema.clone());
        let home = hermes_testkit::TemporaryHome::new();
        let peer = RecordedServer::new(wire, Behaviour::new().era(era).tools([tool]), home.path());
        let setup = Setup::in_home(home, json!({ "s": peer.entry })).await;
        let registry = setup.host.registry();
        let tool = registry.find("mcp_s_t").unwrap();
        let ToolOrigin::Native(native) = &tool.origin else {
            panic!("a tool of the server's own")
        };
        assert_eq!(native.input_schema(), &schema, "{wire:?}, {era:?}");

        let definition = tool.definition();
        assert_eq!(definition["name"], "mcp_s_t");
        let description = definition["description"].as_str().unwrap();
        assert!(description.contains("`t`") && description.contains("`s`"));
        let parameters = &definition["parameters"];
        assert!(parameters.get("oneOf").is_none(), "{parameters}");
        assert_eq!(parameters["required"], json!(["path"]));
        assert_eq!(parameters["properties"]["mode"]["type"], "integer");
        assert_eq!(parameters["properties"]["mode"]["nullable"], true);
        assert_eq!(parameters["properties"]["item"]["$ref"], "#/$defs/item");
        let kept = &parameters["$defs"]["item"]["properties"]["definitions"];
        assert_eq!(kept, &json!({ "type": "string" }));
    }
}
