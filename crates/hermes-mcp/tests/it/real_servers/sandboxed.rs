//! `server-filesystem` in a sandbox that is narrower than what it was told itself.

use std::path::Path;

use hermes_testkit::TemporaryHome;
use serde_json::json;

use super::{installed, node, own_tools};
use crate::{process::sandbox::can_confine, setup::Setup};

#[tokio::test]
async fn the_filesystem_server_is_kept_to_its_lists_whatever_it_allows_itself() {
    let Some(program) = installed("HERMES_TEST_NPM", "mcp-server-filesystem") else {
        return;
    };
    if !can_confine() {
        return;
    }
    let home = TemporaryHome::new();
    let directory = |name: &str| {
        let path = home.path().join(name);
        std::fs::create_dir(&path).unwrap();
        let path = path.canonicalize().unwrap();
        std::fs::write(path.join("note.txt"), format!("from {name}")).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (notes, work, private) = (directory("notes"), directory("work"), directory("private"));
    let node = node().unwrap();
    let node_directory = Path::new(&node).parent().unwrap().to_str().unwrap();
    let entry = json!({
        "command": program,
        // It would serve all three.
        "args": [notes, work, private],
        "env": { "PATH": format!("{node_directory}:/usr/bin:/bin") },
        "sandbox": {
            "enabled": true,
            "required": true,
            "read": [notes],
            "write": [work],
            "network": "deny",
        },
    });
    let setup = Setup::in_home(home, json!({ "fs": entry })).await;
    setup.assert_ready("fs");
    assert_eq!(own_tools(&setup).len(), 14);

    let read = async |directory: &str| {
        let arguments = json!({ "path": format!("{directory}/note.txt") });
        setup.call("mcp_fs_read_text_file", arguments).await
    };
    let told = read(&notes).await;
    assert!(
        told["result"].as_str().unwrap().contains("from notes"),
        "{told}"
    );
    let told = read(&private).await;
    let error = told["error"].as_str().unwrap();
    assert!(
        error.contains("EACCES") && error.contains("runs in a sandbox"),
        "{error}"
    );

    let write = async |directory: &str| {
        let arguments = json!({ "path": format!("{directory}/new.txt"), "content": "new" });
        setup.call("mcp_fs_write_file", arguments).await
    };
    let told = write(&work).await;
    assert!(told["error"].is_null(), "{told}");
    for closed in [&notes, &private] {
        let told = write(closed).await;
        assert!(
            told["error"].as_str().unwrap().contains("sandbox"),
            "{told}"
        );
        assert!(!Path::new(closed).join("new.txt").exists());
    }
    setup.host.shutdown().await;
}
