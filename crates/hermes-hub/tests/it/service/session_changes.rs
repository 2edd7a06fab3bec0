//! Renaming and deleting conversations: what is asked of a tenant's own process, and who may ask.

use std::sync::Arc;

use hermes_hub::TenantId;
use hermes_protocol::{AgentReply, AgentRequest, RefusalReason, RequestRefusal};
use reqwest::Method;
use serde_json::json;

use crate::{
    agent_harness::ScriptedRuntime, tenant_fixture::write_conversation, test_hub::TestHub,
};

const ONE: &str = "/v1/tenants/acme/sessions/one";

async fn site() -> (TestHub, Arc<ScriptedRuntime>) {
    let agents = ScriptedRuntime::new();
    let site = TestHub::with_runtime(Arc::clone(&agents) as _, |_, _| {}).await;
    site.tenant(json!({"id": "acme", "start": false, "env": {"PLANTED": "sk-planted-0123456789"}}))
        .await;
    write_conversation(&site.home("acme"), "one", "Hello").await;
    (site, agents)
}

#[tokio::test]
async fn the_agent_is_woken_to_change_a_conversation_that_is_there() {
    let (site, agents) = site().await;
    let acme = TenantId::parse("acme").unwrap();
    let nobody = "/v1/tenants/acme/sessions/nobody";
    let title = json!({"title": " The  plan "});
    site.patch(nobody, &title).await.expect(404);
    site.delete(nobody).await.expect(404);
    site.delete("/v1/tenants/acme/sessions/..%2Fx")
        .await
        .expect(400);
    let long = json!({"title": "x".repeat(101)});
    let refused = site.patch(ONE, &long).await.expect(400);
    assert_eq!(refused["details"][0]["field"], "title", "{refused}");
    site.patch(ONE, &json!({})).await.expect(400);
    assert_eq!(agents.starts(&acme), 0, "nobody is woken for that");
    let renamed = site.patch(ONE, &title).await.expect(200);
    assert_eq!(renamed, json!({"sessionId": "one", "title": "The plan"}));
    let secret = json!({"title": "it is sk-planted-0123456789"});
    let renamed = site.patch(ONE, &secret).await.expect(200);
    assert!(!renamed.to_string().contains("sk-planted"), "{renamed}");
    site.delete(ONE).await.expect(204);
    let asked: Vec<AgentRequest> = agents
        .requests()
        .into_iter()
        .map(|(_, asked)| asked)
        .collect();
    let rename = |title: &str| AgentRequest::RenameSession {
        session: "one".into(),
        title: title.into(),
    };
    assert_eq!(
        asked,
        [
            rename("The plan"),
            rename("it is sk-planted-0123456789"),
            AgentRequest::DeleteSession {
                session: "one".into()
            },
        ]
    );
    let audit = site
        .get("/v1/audit?limit=500&action=delete_session")
        .await
        .expect(200);
    let entries = audit["entries"].as_array().unwrap();
    assert!(
        entries
            .iter()
            .any(|entry| entry["target"] == "one" && entry["status"] == 204),
        "{audit}"
    );
    assert!(!audit.to_string().contains("The plan"));
}

#[tokio::test]
async fn what_the_agent_refuses_is_a_conflict_with_its_reason() {
    let (site, agents) = site().await;
    for (reason, code, shown) in [
        (RefusalReason::Taken, "already_exists", json!(null)),
        (RefusalReason::Busy, "failed_precondition", json!("busy")),
    ] {
        let message = "told so".to_owned();
        agents.reply_with(AgentReply::Refused(RequestRefusal { reason, message }));
        let refused = site.delete(ONE).await.expect(409);
        assert_eq!(refused["code"], code);
        assert_eq!(refused["reason"], shown);
        assert_eq!(refused["message"], "told so");
    }
    agents.reply_with(AgentReply::Forgotten);
    site.delete(ONE).await.expect(501);
}

#[tokio::test]
async fn readers_of_conversations_do_not_change_them() {
    let (site, agents) = site().await;
    for (rights, status) in [
        (json!({"name": "v", "role": "viewer"}), 403),
        (
            json!({"name": "r", "scopes": ["sessions:read", "files:write"]}),
            403,
        ),
        (json!({"name": "w", "scopes": ["sessions:write"]}), 204),
        (
            json!({"name": "o", "role": "operator", "tenants": ["acme"]}),
            204,
        ),
        (
            json!({"name": "e", "role": "operator", "tenants": ["elsewhere"]}),
            404,
        ),
    ] {
        let token = site.token(rights.clone()).await;
        let refused = site.send(site.request(&token, Method::DELETE, ONE)).await;
        assert_eq!(refused.status, status, "{rights}: {}", refused.text);
    }
    assert_eq!(agents.requests().len(), 2);
}
