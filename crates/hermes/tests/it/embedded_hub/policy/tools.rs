//! `tools` and `approvals`: a tenant that writes a note.

use std::{fs, path::PathBuf, time::Duration};

use hermes_testkit::eventually_some;

use super::*;

fn note(hub: &RealHub) -> PathBuf {
    hub.tenant_home("acme").join("workspace/note.txt")
}

async fn writer(hub: &RealHub) -> ModelServer {
    let arguments = json!({"path": "note.txt", "content": "hello"});
    tenant_calling(hub, "write_file", &arguments).await
}

/// Lets the tenant write its note, and tells whether it did.
async fn is_written(hub: &RealHub, model: &ModelServer) -> bool {
    let _ = fs::remove_file(note(hub));
    result_of_call(hub, model).await;
    note(hub).exists()
}

#[tokio::test(flavor = "multi_thread")]
async fn only_tools_of_the_allow_list_are_offered_and_run() {
    let hub = RealHub::start();
    let model = writer(&hub).await;
    assert!(is_written(&hub, &model).await);
    put(&hub, json!({"tools": {"allow": ["read_*", "todo"]}})).await;
    assert!(!is_written(&hub, &model).await);
    assert_eq!(offered_tools(&model), ["read_file", "todo"]);
    put(&hub, json!({"tools": {"allow": ["write_*"]}})).await;
    assert!(is_written(&hub, &model).await);
    put(&hub, json!({"tools": {"allow": []}})).await;
    assert!(!is_written(&hub, &model).await);
    assert_eq!(offered_tools(&model), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_of_the_deny_list_is_neither_offered_nor_run() {
    let hub = RealHub::start();
    let model = writer(&hub).await;
    assert!(is_written(&hub, &model).await);
    put(
        &hub,
        json!({"tools": {"allow": ["*"], "deny": ["write_*"]}}),
    )
    .await;
    assert!(!is_written(&hub, &model).await);
    let offered = offered_tools(&model);
    assert!(!offered.contains(&"write_file".to_owned()), "{offered:?}");
    assert!(offered.contains(&"read_file".to_owned()), "{offered:?}");
    put(&hub, json!({})).await;
    assert!(is_written(&hub, &model).await);
}

/// Waits until the run asks, and answers.
async fn decide(hub: &RealHub, run: &str, choice: &str) {
    hub.wait_for(run, |run| run["status"] == "waiting_for_approval")
        .await;
    assert!(!note(hub).exists(), "it was done before anybody agreed");
    let inbox = hub.get("/v1/approvals").await;
    let id = inbox["approvals"][0]["approvalId"].as_str().unwrap();
    let path = format!("/v1/approvals/{id}");
    hub.request(Method::POST, &path, &json!({"choice": choice}))
        .await
        .expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_requires_approval_waits_for_it_whatever_the_tenant_has_configured() {
    let hub = RealHub::start();
    // Its own configuration asks for nothing.
    let model = writer(&hub).await;
    assert!(is_written(&hub, &model).await);
    put(&hub, json!({"tools": {"requireApproval": ["write_file"]}})).await;
    for (choice, expected) in [("deny", false), ("once", true)] {
        let _ = fs::remove_file(note(&hub));
        let run = hub.start_run("acme", "begin").await;
        decide(&hub, &run, choice).await;
        let ended = hub.wait_for_end(&run).await;
        assert_eq!(ended["status"], "completed", "{ended}");
        assert_eq!(note(&hub).exists(), expected, "{choice}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_that_nobody_gives_is_denied_after_the_policys_time() {
    let hub = RealHub::start();
    let model = writer(&hub).await;
    let asks = json!({"requireApproval": ["write_file"]});
    put(
        &hub,
        json!({"tools": asks, "approvals": {"timeoutSeconds": 1}}),
    )
    .await;
    assert!(!is_written(&hub, &model).await);
    let told = tool_results(&model);
    assert!(told.contains("nobody answered within 1 s"), "{told}");
    // Without that time it is still waiting when as long has passed.
    put(&hub, json!({"tools": asks})).await;
    let run = hub.start_run("acme", "begin").await;
    hub.wait_for(&run, |run| run["status"] == "waiting_for_approval")
        .await;
    let goes_on = async || {
        let shown = hub.get(&run).await;
        (shown["status"] != "waiting_for_approval").then_some(shown)
    };
    let gone_on = eventually_some(Duration::from_secs(2), goes_on).await;
    assert!(gone_on.is_none(), "{gone_on:?}");
    decide(&hub, &run, "once").await;
    hub.wait_for_end(&run).await;
    assert!(note(&hub).exists());
}
