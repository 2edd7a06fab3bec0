//! The tools over a server's resources and prompts.

use std::{path::Path, time::Duration};

use hermes_mcp::CallOptions;
use hermes_testkit::{Behaviour, TemporaryHome};
use serde_json::{Value, json};

use crate::{
    setup::{ALL_TRANSPORTS, RecordedServer, Setup, stdio, with_neighbour},
    transport::http::{server, server::Server},
};

async fn start() -> Setup {
    let setup = Setup::start(json!({ "s": stdio(&Behaviour::new()) })).await;
    setup.assert_ready("s");
    setup
}

#[tokio::test]
async fn resources_and_templates_are_listed_on_every_wire_page_by_page() {
    for (wire, era) in ALL_TRANSPORTS {
        let behaviour = Behaviour::new()
            .era(era)
            .lists(|lists| lists.page_size = Some(1));
        let home = TemporaryHome::new();
        let peer = RecordedServer::new(wire, behaviour, home.path());
        let setup = Setup::in_home(home, json!({ "s": peer.entry })).await;
        let told = setup.call("mcp_s_list_resources", json!({})).await;
        let expected = json!({
            "resources": [
                {
                    "uri": "test://text", "name": "text",
                    "description": "The resource text.", "mimeType": "text/plain",
                },
                {
                    "uri": "test://blob", "name": "blob",
                    "description": "The resource blob.", "mimeType": "application/octet-stream",
                },
            ],
            "resourceTemplates": [{
                "uriTemplate": "test://note/{name}", "name": "note",
                "description": "A note by its name.", "mimeType": "text/plain",
            }],
        });
        assert_eq!(told, expected, "{wire:?}, {era:?}");
    }
}

#[tokio::test]
async fn resources_are_read_by_their_uri_or_through_a_template() {
    for (wire, era) in ALL_TRANSPORTS {
        let home = TemporaryHome::new();
        let peer = RecordedServer::new(wire, Behaviour::new().era(era), home.path());
        let setup = Setup::in_home(home, json!({ "s": peer.entry })).await;
        let read = |uri: &str| setup.call("mcp_s_read_resource", json!({ "uri": uri }));
        assert_eq!(
            read("test://text").await,
            json!({ "result": "contents of test://text" })
        );
        assert_eq!(
            read("test://note/Grüße").await,
            json!({ "result": "note Grüße" })
        );
        let told = read("test://blob").await;
        let note = told["result"].as_str().unwrap();
        let path = note
            .strip_prefix("[resource saved: ")
            .and_then(|rest| rest.strip_suffix(" (application/octet-stream, 4 bytes)]"))
            .unwrap_or_else(|| panic!("{note}"));
        assert!(Path::new(path).starts_with(setup.path("cache/documents")));
        assert_eq!(std::fs::read(path).unwrap(), [0, 1, 2, 3]);
        let told = read("test://nowhere").await;
        assert_eq!(
            told,
            json!({ "error": "resource not found" }),
            "{wire:?}, {era:?}"
        );
    }
}

#[tokio::test]
async fn prompts_are_listed_and_filled_in_on_every_wire() {
    for (wire, era) in ALL_TRANSPORTS {
        let home = TemporaryHome::new();
        let peer = RecordedServer::new(wire, Behaviour::new().era(era), home.path());
        let setup = Setup::in_home(home, json!({ "s": peer.entry })).await;
        let told = setup.call("mcp_s_list_prompts", json!({})).await;
        let expected = json!({ "prompts": [
            {
                "name": "greet",
                "description": "Greets somebody.",
                "arguments": [
                    { "name": "name", "description": "Who is greeted.", "required": true },
                    { "name": "style", "description": "How.", "required": false },
                ],
            },
            { "name": "picture", "description": "The prompt picture." },
        ] });
        assert_eq!(told, expected, "{wire:?}, {era:?}");

        let arguments = json!({ "name": "greet", "arguments": { "name": "Ada" } });
        let told = setup.call("mcp_s_get_prompt", arguments).await;
        let expected = json!({
            "messages": [{ "role": "user", "content": "Greet Ada kindly." }],
            "description": "The prompt greet.",
        });
        assert_eq!(told, expected, "{wire:?}, {era:?}");
    }
}

#[tokio::test]
async fn a_prompts_picture_becomes_a_file() {
    let setup = start().await;
    let told = setup
        .call("mcp_s_get_prompt", json!({ "name": "picture" }))
        .await;
    let content = told["messages"][0]["content"].as_str().unwrap();
    let path = Path::new(content.strip_prefix("MEDIA:").unwrap());
    assert!(path.starts_with(setup.path("cache/images")) && path.exists());
}

#[tokio::test]
async fn a_missing_parameter_is_named() {
    let setup = start().await;
    for (tool, parameter) in [("mcp_s_read_resource", "uri"), ("mcp_s_get_prompt", "name")] {
        for arguments in [
            json!({}),
            json!({ parameter: "" }),
            json!({ parameter: null }),
        ] {
            let error = setup.error(tool, arguments).await;
            assert_eq!(error, format!("missing required parameter `{parameter}`"));
        }
    }
    let error = setup
        .error("mcp_s_get_prompt", json!({ "name": "greet" }))
        .await;
    assert_eq!(error, "missing argument `name`");
    let error = setup
        .error("mcp_s_get_prompt", json!({ "name": "nope" }))
        .await;
    assert_eq!(error, "unknown prompt nope");
}

#[tokio::test]
async fn content_of_an_unknown_kind_leaves_a_note_in_prompts_and_resources_of_every_form() {
    for (is_stream, is_stateless) in [(false, false), (true, false), (false, true), (true, true)] {
        let odd = Server::answering(move |request| {
            let hologram = json!({ "type": "hologram", "data": "AAAA" });
            let mut result = match request.what().as_str() {
                "server/discover" if is_stateless => json!({
                    "supportedVersions": ["2026-07-28"],
                    "capabilities": { "resources": {}, "prompts": {} },
                    "ttlMs": 0,
                    "cacheScope": "private",
                }),
                "initialize" if !is_stateless => {
                    let mut result = server::initialized();
                    result["capabilities"] = json!({ "resources": {}, "prompts": {} });
                    result
                }
                "resources/list" => json!({ "resources": [
                    { "uri": 5, "name": "bad" }, { "uri": "x://good", "name": "good" },
                ] }),
                "resources/templates/list" => json!({ "resourceTemplates": [] }),
                "prompts/list" => json!({ "prompts": [
                    { "name": "p" }, { "description": "has no name" },
                ] }),
                "resources/read" => json!({ "contents": [
                    { "uri": "x://y", "hologram": "AAAA" }, { "uri": "x://y", "text": "after" },
                ] }),
                "prompts/get" => json!({ "messages": [
                    { "role": "user", "content": hologram },
                    { "role": "user", "content": { "type": "text", "text": "after" } },
                ] }),
                _ => {
                    return server::status(if request.json()["id"].is_null() {
                        202
                    } else {
                        404
                    });
                }
            };
            if is_stateless {
                result["resultType"] = json!("complete");
            }
            result["_meta"] = json!({ "x/y": 1 });
            if is_stream {
                let reply =
                    json!({ "jsonrpc": "2.0", "id": request.json()["id"], "result": result });
                server::typed(200, "text/event-stream", format!("data: {reply}\n\n"))
            } else {
                server::result(request, &result)
            }
        })
        .await;
        let entry = json!({ "url": odd.url("/mcp"), "skip_preflight": true });
        let setup = Setup::start(json!({ "s": entry })).await;
        setup.assert_ready("s");
        let context = format!("stream: {is_stream}, stateless: {is_stateless}");

        let told = setup.call("mcp_s_list_resources", json!({})).await;
        let expected = json!({ "resources": [{ "uri": "x://good", "name": "good" }] });
        assert_eq!(told, expected, "{context}");
        let told = setup.call("mcp_s_list_prompts", json!({})).await;
        assert_eq!(told, json!({ "prompts": [{ "name": "p" }] }), "{context}");
        let told = setup
            .call("mcp_s_read_resource", json!({ "uri": "x://y" }))
            .await;
        let note = "[content of an unknown type cannot be shown]\nafter";
        assert_eq!(told, json!({ "result": note }), "{context}");
        let told = setup.call("mcp_s_get_prompt", json!({ "name": "p" })).await;
        let contents = [
            &told["messages"][0]["content"],
            &told["messages"][1]["content"],
        ];
        let note = "[content of type `hologram` cannot be shown]";
        assert_eq!(contents, [note, "after"], "{context}");
    }
}

/// A server that never answers one method.
async fn silent_on(method: &'static str) -> Server {
    let capabilities = json!({ "tools": {}, "resources": {}, "prompts": {} });
    let app = axum::Router::new().fallback(axum::routing::post(
        move |body: axum::Json<Value>| async move {
            let asked = body.0["method"].as_str().unwrap_or_default().to_owned();
            let result = match asked.as_str() {
                asked if asked == method => std::future::pending().await,
                "initialize" => {
                    let mut result = server::initialized();
                    result["capabilities"] = capabilities;
                    result
                }
                "tools/list" => json!({ "tools": [] }),
                "resources/list" => json!({ "resources": [] }),
                "resources/templates/list" => json!({ "resourceTemplates": [] }),
                "prompts/list" => json!({ "prompts": [] }),
                _ => return server::status(if body.0["id"].is_null() { 202 } else { 400 }),
            };
            let reply = json!({ "jsonrpc": "2.0", "id": body.0["id"], "result": result });
            server::typed(200, "application/json", reply.to_string())
        },
    ));
    Server::serving(app).await
}

#[tokio::test]
async fn a_listing_that_never_comes_ends_with_the_timeout_of_the_call() {
    for (method, tool) in [
        ("resources/list", "mcp_s_list_resources"),
        ("resources/templates/list", "mcp_s_list_resources"),
        ("prompts/list", "mcp_s_list_prompts"),
    ] {
        let silent = silent_on(method).await;
        let entry =
            json!({ "url": silent.url("/mcp"), "protocol": "legacy", "skip_preflight": true });
        let setup = Setup::start(with_neighbour(json!({ "s": entry }))).await;
        setup.assert_ready("s");
        let options = CallOptions {
            timeout: Some(Duration::from_secs(1)),
            ..CallOptions::default()
        };
        let told = setup.call_with(tool, json!({}), &options).await;
        let error = told["error"].as_str().unwrap();
        assert!(error.contains("timed out"), "{method}: {error}");
        assert!(error.contains("allowed: 1 s"), "{method}: {error}");
        setup.assert_neighbour_is_well().await;
    }
}
