//! `server-filesystem` and `server-memory`.

use std::sync::Arc;

use hermes_mcp::{Era, protocol};
use hermes_testkit::TemporaryHome;
use serde_json::{Value, json};

use super::{installed, node, own_tools};
use crate::{
    server_request::scripted_handler::ScriptedHandler,
    setup::{Setup, TIMEOUT},
};

#[tokio::test]
async fn the_filesystem_server_works_where_the_roots_allow_it() {
    let Some(script) = installed("HERMES_TEST_NPM", "mcp-server-filesystem") else {
        return;
    };
    let home = TemporaryHome::new();
    let project = home.path().join("project");
    std::fs::create_dir(&project).unwrap();
    let project = project.canonicalize().unwrap();
    let place = project.to_str().unwrap();
    #[expect(deprecated, reason = "older revisions need roots")]
    let root = protocol::Root::new(format!("file://{place}"));
    let mut desk = ScriptedHandler::new();
    desk.roots = vec![root];
    // Without a directory on its command line it has only the roots to go by.
    let entry = json!({ "command": node().unwrap(), "args": [script] });
    let setup = Setup::with_handler(home, json!({ "fs": entry }), Arc::new(desk)).await;
    setup.assert_ready("fs");
    assert_eq!(setup.status("fs").era, Some(Era::Legacy));
    assert_eq!(own_tools(&setup).len(), 14);

    let allowed = hermes_testkit::eventually_some(TIMEOUT, async || {
        let list = setup.call("mcp_fs_list_allowed_directories", json!({}));
        list.await.to_string().contains(place).then_some(())
    });
    assert!(allowed.await.is_some(), "{place} is not allowed");
    let file = format!("{place}/note.txt");
    let arguments = json!({ "path": file, "content": "Grüße" });
    let told = setup.call("mcp_fs_write_file", arguments).await;
    assert!(told["error"].is_null(), "{told}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "Grüße");
    let told = setup
        .call("mcp_fs_read_text_file", json!({ "path": file }))
        .await;
    assert!(told["result"].as_str().unwrap().contains("Grüße"), "{told}");
    let told = setup
        .call("mcp_fs_list_directory", json!({ "path": place }))
        .await;
    assert!(
        told["result"].as_str().unwrap().contains("note.txt"),
        "{told}"
    );
    let error = setup
        .error("mcp_fs_read_text_file", json!({ "path": "/etc/hostname" }))
        .await;
    assert!(error.contains("denied"), "{error}");
}

#[tokio::test]
async fn the_memory_server_remembers_over_a_restart() {
    let Some(script) = installed("HERMES_TEST_NPM", "mcp-server-memory") else {
        return;
    };
    let home = TemporaryHome::new();
    let memory = home.path().join("memory.jsonl");
    let entry = json!({
        "command": node().unwrap(),
        "args": [script],
        "env": { "MEMORY_FILE_PATH": memory.to_str().unwrap() },
    });
    let setup = Setup::in_home(home, json!({ "m": entry })).await;
    setup.assert_ready("m");
    let entity = json!({
        "name": "Ada", "entityType": "person", "observations": ["writes programs"],
    });
    let told = setup
        .call("mcp_m_create_entities", json!({ "entities": [entity] }))
        .await;
    assert!(told["error"].is_null(), "{told}");

    let again = Setup::start(json!({ "m": entry })).await;
    setup.host.shutdown().await;
    let told = again
        .call("mcp_m_search_nodes", json!({ "query": "programs" }))
        .await;
    let graph: Value = serde_json::from_str(told["result"].as_str().unwrap()).unwrap();
    assert_eq!(graph["entities"][0]["name"], "Ada");
}
