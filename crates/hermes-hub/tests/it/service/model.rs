//! The model of a tenant: settings of its home, within the policy, and a question to it.

use std::{fs, sync::Arc};

use hermes_protocol::AgentRequest;
use reqwest::Method;
use serde_json::json;

use crate::{agent_harness::ScriptedRuntime, test_hub::TestHub};

const MODEL: &str = "/v1/tenants/acme/model";

async fn site() -> (TestHub, Arc<ScriptedRuntime>) {
    let agents = ScriptedRuntime::new();
    let site = TestHub::with_runtime(Arc::clone(&agents) as _, |_, _| {}).await;
    site.tenant(json!({"id": "acme", "start": false, "env": {"LLM_KEY": "sk-planted-0123456789"}}))
        .await;
    (site, agents)
}

#[tokio::test]
async fn the_model_is_a_setting_of_the_home_and_comments_stay() {
    let (site, _) = site().await;
    let config = site.home("acme").join("config.yaml");
    fs::write(
        &config,
        "# Mine.\nmodel: old # short form\nskills: {disabled: [x]}\n",
    )
    .unwrap();
    let shown = site.get(MODEL).await.expect(200);
    assert_eq!(shown["model"], "old");
    let patch = json!({"model": "gpt-5", "provider": "openai", "baseUrl": "https://llm.example/v1",
        "keyEnv": "LLM_KEY", "apiMode": "chat_completions", "contextLength": 1000});
    let changed = site.patch(MODEL, &patch).await.expect(200);
    for (name, value) in patch.as_object().unwrap() {
        assert_eq!(changed[name], *value, "{changed}");
    }
    assert_eq!(site.get(MODEL).await.expect(200), changed);
    let text = fs::read_to_string(&config).unwrap();
    assert!(
        text.starts_with("# Mine.\n") && text.contains("disabled: [x]"),
        "{text}"
    );
    assert!(
        text.contains("default: gpt-5") && text.contains("key_env: LLM_KEY"),
        "{text}"
    );
    let changed = site
        .patch(MODEL, &json!({"baseUrl": null, "provider": null}))
        .await
        .expect(200);
    assert_eq!(changed["baseUrl"], json!(null));
    assert_eq!(changed["model"], "gpt-5");
}

#[tokio::test]
async fn what_makes_no_sense_or_is_not_the_tenants_is_refused() {
    let (site, _) = site().await;
    for (patch, status, reason) in [
        (json!({}), 400, None),
        (json!({"modle": "x"}), 400, None),
        (json!({"model": ""}), 422, None),
        (json!({"apiMode": "telepathy"}), 422, None),
        (json!({"contextLength": 0}), 422, None),
        (json!({"baseUrl": "file:///etc/passwd"}), 422, None),
        (
            json!({"baseUrl": "https://${HOME}/"}),
            422,
            Some("unknown_variable"),
        ),
        (
            json!({"baseUrl": "${cmd:id}"}),
            422,
            Some("reference_refused"),
        ),
        (json!({"keyEnv": "HERMES_HUB_TOKEN"}), 422, None),
        (
            json!({"keyEnv": "AWS_SECRET_ACCESS_KEY"}),
            422,
            Some("unknown_variable"),
        ),
    ] {
        let refused = site.patch(MODEL, &patch).await;
        assert_eq!(refused.status, status, "{patch}: {}", refused.text);
        assert_eq!(refused.json()["reason"], json!(reason), "{patch}");
    }
    let policy = json!({"models": {"allow": ["anthropic/*"]}});
    site.put("/v1/agent-policy", &policy).await.expect(200);
    let refused = site
        .patch(MODEL, &json!({"model": "gpt-5", "provider": "openai"}))
        .await;
    assert_eq!(refused.json()["reason"], "policy", "{}", refused.text);
    let allowed = json!({"model": "claude", "provider": "anthropic"});
    site.patch(MODEL, &allowed).await.expect(200);
}

#[tokio::test]
async fn a_name_without_effect_is_refused_while_the_tenant_has_its_own() {
    let (site, _) = site().await;
    let own = json!({"agent": {"model": "a/b"}});
    site.patch("/v1/tenants/acme", &own).await.expect(200);
    let shown = site.get(MODEL).await.expect(200);
    assert_eq!(shown["agentModel"], "a/b");
    let refused = site.patch(MODEL, &json!({"model": "c"})).await;
    assert_eq!(refused.status, 409, "{}", refused.text);
    assert_eq!(refused.json()["reason"], "agent_model_set");
    site.patch(MODEL, &json!({"keyEnv": "LLM_KEY"}))
        .await
        .expect(200);
}

#[tokio::test]
async fn who_may_not_set_variables_cannot_send_the_key_elsewhere() {
    let (site, _) = site().await;
    let token = site
        .token(json!({"name": "less", "scopes": ["tenants:read", "tenants:write"]}))
        .await;
    let change = async |body: serde_json::Value| {
        let request = site.request(&token, Method::PATCH, MODEL);
        let request = request.header("content-type", "application/json");
        site.send(request.body(body.to_string())).await
    };
    for body in [
        json!({"baseUrl": "https://evil.example"}),
        json!({"keyEnv": "LLM_KEY"}),
        json!({"provider": "x"}),
        json!({"baseUrl": null}),
    ] {
        let refused = change(body.clone()).await;
        assert_eq!(refused.status, 403, "{body}: {}", refused.text);
    }
    change(json!({"model": "m"})).await.expect(200);
}

#[tokio::test]
async fn a_test_asks_the_tenants_own_process() {
    let (site, agents) = site().await;
    let tested = site
        .post(&format!("{MODEL}/test"), &json!({}))
        .await
        .expect(200);
    assert_eq!(tested["reply"], "ready");
    let asked = agents.requests();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].1, AgentRequest::TestModel);
}
