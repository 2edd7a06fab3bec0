//! Our own MCP host as a client of our own Hub, in both eras.

use serde_json::{Value, json};

use super::examples::{EMPTY, examples, refused};
use crate::{harness::test_home::TestHome, hub::hub_process::HubProcess};

/// A home whose only server is this Hub.
fn client(hub: &HubProcess, era: &str) -> TestHome {
    let authorization = format!("Bearer {}", hub.token());
    TestHome::with_servers(&[(
        "hub",
        json!({
            "url": format!("{}/mcp", hub.url), "protocol": era,
            "headers": {"Authorization": authorization},
        }),
    )])
}

#[test]
fn every_example_works_and_what_must_not_is_told() {
    for era in ["legacy", "stateless"] {
        let hub = HubProcess::with_examples(&["sync.allowed_roots=/sync"]);
        let home = client(&hub, era);
        let listed = home.run(&["mcp", "tools", "hub", "--json"]).ok();
        assert_eq!(listed.json()["tools"].as_array().unwrap().len(), 34);
        let call = |tool: &str, arguments: &Value| {
            let arguments = arguments.to_string();
            home.run(&[
                "mcp",
                "call",
                "hub",
                tool,
                "--args-json",
                &arguments,
                "--raw",
            ])
        };
        for (tool, arguments, code, _) in refused() {
            let ran = call(&tool, &arguments);
            assert_ne!(ran.code, 0, "{tool}: {ran:?}");
            let told = format!("{}{}", ran.stdout, ran.stderr);
            assert!(told.contains(code), "{tool}: {ran:?}");
        }
        for (tool, arguments) in examples() {
            let ran = call(&tool, &arguments).ok();
            let is_empty = ran.stdout.contains(r#"{\"ok\": true}"#);
            assert_eq!(is_empty, EMPTY.contains(&tool.as_str()), "{tool}: {ran:?}");
        }
    }
}
