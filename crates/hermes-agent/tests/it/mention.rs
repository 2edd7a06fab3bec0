//! Mentions of resources, over real transports in both eras.

use hermes_agent::mention::{Mentions, complete_mention};
use hermes_mcp::CallOptions;
use hermes_testkit::Behaviour;
use serde_json::json;

use crate::mcp_host::{Peer, RunningHost, WIRES_AND_ERAS, Wire, eventually, server_name};

fn plainly() -> CallOptions {
    CallOptions::default()
}

#[tokio::test]
async fn a_mentioned_resource_is_attached_as_data() {
    for (wire, era) in WIRES_AND_ERAS {
        let peer = Peer::new(wire, Behaviour::new().era(era));
        let setup = RunningHost::without_handlers(&peer, &json!({})).await;
        let mut mentions = Mentions::new(setup.host.clone());
        let name = "a-name-that-makes-it-long-enough";
        let message = format!("Compare @s:test://text with @s:test://note/{name}.");
        let attached = mentions.attach_resources(&message, &plainly()).await;
        assert_eq!(attached.warnings, Vec::<String>::new());
        let text = attached.text.clone().unwrap();
        assert!(
            text.contains("@s:test://text:\ncontents of test://text"),
            "{text}"
        );
        let wrapped = format!("<untrusted_tool_result source=\"s:test://note/{name}\">");
        assert!(
            text.contains(&wrapped) && text.contains(&format!("note {name}")),
            "{text}"
        );
        let sent = attached.append_to(message.as_str().into());
        assert!(
            sent.text().starts_with(&format!("{message}\n\n")),
            "{wire:?}, {era:?}"
        );
    }
}

#[tokio::test]
async fn a_blob_is_saved_and_named() {
    let peer = Peer::new(Wire::Stdio, Behaviour::new());
    let setup = RunningHost::without_handlers(&peer, &json!({})).await;
    let attached = Mentions::new(setup.host.clone())
        .attach_resources("@s:test://blob", &plainly())
        .await;
    let text = attached.text.unwrap();
    let path = text
        .split("[resource saved: ")
        .nth(1)
        .and_then(|rest| rest.split(' ').next());
    let path = std::path::Path::new(path.unwrap_or_else(|| panic!("{text}")));
    assert!(
        path.starts_with(setup.home.directory.path().join("cache/documents")),
        "{text}"
    );
    assert_eq!(std::fs::read(path).unwrap(), [0, 1, 2, 3]);
}

#[tokio::test]
async fn what_cannot_be_attached_stays_text_with_a_warning() {
    let peer = Peer::new(Wire::Stdio, Behaviour::new());
    let setup = RunningHost::without_handlers(&peer, &json!({})).await;
    let mut mentions = Mentions::new(setup.host.clone());
    let message = "@other:test://text and @s:test://nothing, mail me @home";
    let attached = mentions.attach_resources(message, &plainly()).await;
    assert_eq!(attached.text, None);
    let [unknown, unreadable] = attached.warnings.as_slice() else {
        panic!("{attached:?}");
    };
    assert!(
        unknown.contains("there is no MCP server `other`"),
        "{unknown}"
    );
    assert!(
        unreadable.contains("`@s:test://nothing`") && unreadable.contains("not found"),
        "{unreadable}"
    );
    assert_eq!(attached.append_to(message.into()).text(), message);
    let mistyped = mentions.attach_resources("@S:readme", &plainly()).await;
    assert!(
        mistyped.warnings[0].ends_with("there is no MCP server `S`; did you mean `s`?"),
        "{mistyped:?}"
    );
}

#[tokio::test]
async fn resources_and_templates_complete_what_is_typed() {
    let peer = Peer::new(Wire::Stdio, Behaviour::new());
    let setup = RunningHost::without_handlers(&peer, &json!({})).await;
    let texts = |typed: &str| -> Vec<String> {
        let found = complete_mention(&setup.host, typed);
        found.into_iter().map(|candidate| candidate.text).collect()
    };
    let all = ["@s:test://text", "@s:test://blob", "@s:test://note/{name}"];
    assert_eq!(texts("@"), all);
    assert_eq!(texts("@S:test://T"), all[..1]);
    assert_eq!(texts("@x"), Vec::<String>::new());
    assert_eq!(
        complete_mention(&setup.host, "@s:test://text")[0].description,
        "The resource text."
    );
}

#[tokio::test]
async fn a_change_is_heard_of_and_told_once() {
    for (wire, era) in WIRES_AND_ERAS {
        let directory = tempfile::tempdir().unwrap();
        let behaviour = Behaviour::new()
            .era(era)
            .record(directory.path().join("record.jsonl"));
        let peer = Peer::new(wire, behaviour);
        let setup = RunningHost::without_handlers(&peer, &json!({})).await;
        let mut mentions = Mentions::new(setup.host.clone());
        let mut updates = setup.host.resource_updates(&server_name()).unwrap();
        mentions
            .attach_resources("@s:test://text", &plainly())
            .await
            .text
            .unwrap();
        assert_eq!(mentions.changed_since_last_turn(&plainly()).await, None);
        let is_watched = || {
            let legacy = peer.received("resources/subscribe");
            let stateless = peer.received("subscriptions/listen");
            legacy
                .iter()
                .chain(&stateless)
                .any(|asked| asked.to_string().contains("test://text"))
        };
        eventually("the server is asked for changes", is_watched).await;
        let told = async {
            loop {
                let change = json!({ "uri": "test://text", "text": "the new text" });
                setup.call("touch_resource", change).await;
                let heard =
                    tokio::time::timeout(std::time::Duration::from_millis(200), updates.recv());
                if let Ok(heard) = heard.await {
                    break heard.unwrap();
                }
            }
        };
        let uri = tokio::time::timeout(crate::mcp_host::TIMEOUT, told)
            .await
            .unwrap();
        assert_eq!(uri, "test://text", "{wire:?}, {era:?}");
        let note = mentions.changed_since_last_turn(&plainly()).await.unwrap();
        let expected = "@s:test://text has changed. It now is:\nthe new text";
        assert_eq!(note, expected, "{wire:?}, {era:?}");
        assert_eq!(mentions.changed_since_last_turn(&plainly()).await, None);
        // The same content again is not a change.
        setup
            .call("touch_resource", json!({ "uri": "test://text" }))
            .await;
        let heard = tokio::time::timeout(crate::mcp_host::TIMEOUT, updates.recv()).await;
        assert_eq!(heard.unwrap().unwrap(), "test://text");
        assert_eq!(mentions.changed_since_last_turn(&plainly()).await, None);
    }
}
