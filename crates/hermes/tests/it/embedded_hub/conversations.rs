//! Conversations of a tenant, changed by its own process.

use std::fs;

use hermes_testkit::{
    eventually_some,
    model::{ModelScript, ScriptedAnswer},
};
use reqwest::Method;
use serde_json::{Value, json};

use super::real_hub::{HubReply, RealHub, TIMEOUT};

const SESSIONS: &str = "/v1/tenants/acme/sessions";

async fn rename(hub: &RealHub, session: &str, title: &str) -> HubReply {
    let path = format!("{SESSIONS}/{session}");
    hub.request(Method::PATCH, &path, &json!({"title": title}))
        .await
}

async fn delete(hub: &RealHub, session: &str) -> HubReply {
    let path = format!("{SESSIONS}/{session}");
    hub.request(Method::DELETE, &path, &Value::Null).await
}

async fn messages(hub: &RealHub, session: &str) -> HubReply {
    let path = format!("{SESSIONS}/{session}/messages");
    hub.request(Method::GET, &path, &Value::Null).await
}

/// Begins a run in a conversation.
async fn start_run(hub: &RealHub, session: &str, input: &str) -> String {
    let wanted = json!({"input": input, "sessionId": session});
    let run = hub
        .request(Method::POST, "/v1/tenants/acme/runs", &wanted)
        .await
        .expect(202);
    format!("/v1/tenants/acme/runs/{}", run["runId"].as_str().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_is_renamed_and_deleted_but_not_while_a_run_goes_on_in_it() {
    let hub = RealHub::start();
    let script = ModelScript::echo().rule(
        "clear up",
        ScriptedAnswer::call("terminal", &json!({"command": "rm -r old"})),
    );
    let _model = hub.tenant("acme", json!({}), script).await;
    let home = hub.tenant_home("acme");
    let config = fs::read_to_string(home.join("config.yaml")).unwrap();
    let asking = config.replace("mode: 'off'", "mode: manual");
    fs::write(home.join("config.yaml"), asking).unwrap();
    fs::create_dir(home.join("workspace/old")).unwrap();
    let (first, second, busy) = ("first", "second", "busy");
    for (session, input) in [(first, "hello"), (second, "good evening")] {
        let run = start_run(&hub, session, input).await;
        hub.wait_for_end(&run).await;
    }

    let renamed = rename(&hub, first, "  The\n plan ").await.expect(200);
    assert_eq!(renamed, json!({"sessionId": first, "title": "The plan"}));
    let shown = messages(&hub, first).await.expect(200);
    assert_eq!(shown["title"], "The plan");
    let taken = rename(&hub, second, "The plan").await.expect(409);
    assert_eq!(taken["code"], "already_exists", "{taken}");
    rename(&hub, second, &"x".repeat(101)).await.expect(400);
    let untitled = rename(&hub, first, "").await.expect(200);
    assert_eq!(untitled["title"], Value::Null);
    rename(&hub, "nobody", "x").await.expect(404);

    let run = start_run(&hub, busy, "clear up").await;
    hub.wait_for(&run, |run| run["status"] == "waiting_for_approval")
        .await;
    let refused = delete(&hub, busy).await.expect(409);
    assert_eq!(refused["reason"], "busy", "{refused}");
    messages(&hub, busy).await.expect(200);
    let inbox = hub.get("/v1/approvals").await;
    let approval = inbox["approvals"][0]["approvalId"].as_str().unwrap();
    let decision = json!({"choice": "deny"});
    hub.request(
        Method::POST,
        &format!("/v1/approvals/{approval}"),
        &decision,
    )
    .await
    .expect(200);
    hub.wait_for_end(&run).await;

    // The run is over in the Hub a moment before the agent has put the conversation away.
    for session in [busy, first] {
        let deleted = eventually_some(TIMEOUT, async || {
            let reply = delete(&hub, session).await;
            (reply.status != 409).then_some(reply)
        });
        deleted.await.unwrap().expect(204);
        messages(&hub, session).await.expect(404);
        delete(&hub, session).await.expect(404);
    }
    let left = hub.get(SESSIONS).await;
    assert_eq!(left["sessions"].as_array().unwrap().len(), 1, "{left}");
    // The agent has forgotten what it had in memory of it, too: the conversation begins anew.
    let run = start_run(&hub, first, "and now?").await;
    hub.wait_for_end(&run).await;
    let shown = messages(&hub, first).await.expect(200);
    assert_eq!(shown["messages"][0]["text"], "and now?", "{shown}");
    let audit = hub.get("/v1/audit?limit=500&action=delete_session").await;
    let entries = audit["entries"].as_array().unwrap();
    assert!(
        entries.iter().any(|entry| entry["target"] == busy),
        "{audit}"
    );
}
