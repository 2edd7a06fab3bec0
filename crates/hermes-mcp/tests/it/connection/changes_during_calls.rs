//! Servers that change their tools while calls are under way.

use std::time::Duration;

use hermes_mcp::CallOptions;
use hermes_testkit::{Behaviour, TemporaryHome};
use serde_json::json;

use crate::setup::{
    RecordedServer, Setup, eventually, object, over_every_transport, with, with_neighbour,
};

#[tokio::test]
async fn a_tool_that_vanishes_during_its_call_still_answers_it() {
    over_every_transport(async |wire, era| {
        let home = TemporaryHome::new();
        let peer = RecordedServer::new(wire, Behaviour::new().era(era), home.path());
        let entry = with(
            peer.entry.clone(),
            json!({ "supports_parallel_tool_calls": true }),
        );
        let setup = Setup::in_home(home, with_neighbour(json!({ "s": entry }))).await;
        let before = setup.host.registry();
        let has = |name: &str| setup.host.registry().find(name).is_some();

        let running = setup.call("mcp_s_sleep", json!({ "ms": 4000 }));
        let change = async {
            eventually("the call is under way", || peer.calls("sleep").len() == 1).await;
            // It is recorded a moment before the server looks for its tool.
            setup.call("mcp_s_echo", json!({ "text": "hi" })).await;
            // The stream on which a server tells of changes may open a moment after the session.
            let mut round = 0;
            let changed = hermes_testkit::eventually_some(Duration::from_secs(30), async || {
                round += 1;
                let arguments = json!({ "remove": ["sleep", "fresh"], "add": [
                    { "name": "fresh", "description": format!("Round {round}."), "inputSchema": { "type": "object" } },
                ] });
                setup.call("mcp_s_change_tools", arguments).await;
                let is_seen = || !has("mcp_s_sleep") && has("mcp_s_fresh");
                hermes_testkit::eventually(Duration::from_millis(200), is_seen)
                    .await
                    .then_some(())
            });
            let seen = changed.await.is_some();
            assert!(seen, "{wire:?}, {era:?}: the change is never seen");
        };
        let (told, ()) = tokio::join!(running, change);
        assert_eq!(
            told,
            json!({ "result": "slept 4000 ms" }),
            "{wire:?}, {era:?}"
        );

        let told = setup.call("mcp_s_sleep", json!({ "ms": 1 })).await;
        assert_eq!(told, json!({ "error": "Unknown tool: mcp_s_sleep" }));
        let told = setup.call("mcp_s_fresh", json!({ "text": "new" })).await;
        assert_eq!(told, json!({ "result": "new" }));
        // A turn that began earlier keeps its list; the server itself refuses.
        let arguments = object(json!({ "ms": 1 }));
        let outcome = setup
            .host
            .call_in(&before, "mcp_s_sleep", arguments, &CallOptions::default())
            .await;
        assert_eq!(outcome.to_json(), r#"{"error":"unknown tool sleep"}"#);
        setup.assert_neighbour_is_well().await;
    })
    .await;
}
