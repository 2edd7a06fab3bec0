//! Variables of tenants: those that decide what code programs load are refused, and secret values appear nowhere.

use hermes_hub::storage::state::NewVariable;
use reqwest::Method;
use serde_json::json;

use crate::test_hub::TestHub;

#[tokio::test]
async fn a_variable_that_loads_code_is_refused_with_the_reason() {
    let site = TestHub::new().await;
    site.tenant(json!({"id": "acme"})).await;
    for name in [
        "GCONV_PATH",
        "PERL5OPT",
        "PERL5LIB",
        "RUBYOPT",
        "JAVA_TOOL_OPTIONS",
        "ENV",
        "IFS",
        "GIT_SSH_COMMAND",
        "LD_PRELOAD",
        "BASH_ENV",
        "NODE_OPTIONS",
        "PROMPT_COMMAND",
    ] {
        let path = format!("/v1/tenants/acme/env/{name}");
        let refused = site.put(&path, &json!({"value": "x"})).await;
        assert_eq!(refused.status, 422, "{name}: {}", refused.text);
        let problem = refused.json();
        assert_eq!(problem["reason"], "reserved_variable");
        let message = problem["message"].as_str().unwrap();
        assert!(message.contains("what code is loaded"), "{message}");
        let change = json!({"env": {name: "x"}});
        let refused = site.patch("/v1/tenants/acme", &change).await;
        assert_eq!(refused.status, 422, "{name}: {}", refused.text);
        let made = json!({"id": "other", "env": {name: "x"}});
        let refused = site.post("/v1/tenants", &made).await;
        assert_eq!(refused.status, 422, "{name}: {}", refused.text);
    }
    let path = "/v1/tenants/acme/env/OPENAI_API_KEY";
    site.put(path, &json!({"value": "x"})).await.expect(204);
}

#[tokio::test]
async fn one_that_was_set_before_is_left_out_and_a_condition_tells() {
    let site = TestHub::new().await;
    site.tenant(json!({"id": "acme", "start": false, "env": {"API_KEY": "x"}}))
        .await;
    let own = "/v1/tenants/acme";
    let id = hermes_hub::TenantId::parse("acme").unwrap();
    let record = site.hub.state().tenant(&id).await.unwrap().unwrap();
    // As an earlier version would have stored it.
    let entry = hermes_hub::storage::audit::NewAuditEntry::by_hub("set_env");
    let old = NewVariable::encrypt(site.hub.key(), &record.uid, "PERL5OPT", "-Mevil").unwrap();
    site.hub.state().set_env(&id, old, entry).await.unwrap();
    let start = site.request(&site.admin, Method::POST, &format!("{own}/agent/start"));
    site.send(start).await.expect(202);
    let in_force = |tenant: &serde_json::Value| {
        let conditions = tenant["conditions"].as_array().unwrap();
        let mut found = conditions.iter();
        let found = found.find(|condition| condition["type"] == "VariablesInForce");
        found.cloned()
    };
    let tenant = site
        .wait_until(own, |tenant| in_force(tenant).is_some())
        .await;
    let condition = in_force(&tenant).unwrap();
    assert_eq!(condition["status"], "False", "{condition}");
    let message = condition["message"].as_str().unwrap();
    assert!(message.contains("`PERL5OPT`"), "{message}");
    let env = site
        .hub
        .agents()
        .tenant_lookup()
        .agent_spec(&id)
        .await
        .unwrap()
        .launch
        .env;
    let names: Vec<_> = env.keys().collect();
    assert_eq!(names, ["API_KEY"]);
    // It can still be unset, which clears the condition.
    site.delete(&format!("{own}/env/PERL5OPT"))
        .await
        .expect(204);
    let start = site.request(&site.admin, Method::POST, &format!("{own}/agent/restart"));
    site.send(start).await.expect(202);
    site.wait_until(own, |tenant| {
        in_force(tenant).is_some_and(|condition| condition["status"] == "True")
    })
    .await;
}

#[tokio::test]
async fn planted_secrets_appear_nowhere() {
    let site = TestHub::new().await.with_examples().await;
    let secret = "sk-planted-0123456789abcdef";
    site.put(
        "/v1/tenants/tenant_123/env/API_KEY",
        &json!({"value": secret}),
    )
    .await
    .expect(204);
    let made = site
        .tenant(json!({"id": "second", "env": {"API_KEY": secret}}))
        .await;
    let runtime_key = made["runtimeKey"].as_str().unwrap().to_owned();
    let env = site.get("/v1/tenants/tenant_123/env").await.expect(200);
    assert_eq!(env["env"][0]["name"], "API_KEY");
    assert_eq!(env["env"][0]["last4"], "cdef");
    site.put("/v1/tenants/tenant_123/env/PATH", &json!({"value": secret}))
        .await
        .expect(422);
    site.put("/v1/tenants/tenant_123/env/API_KEY", &json!({"value": 5}))
        .await
        .expect(400);
    let wrong = site
        .put("/v1/tenants/tenant_123/access", &json!({"status": secret}))
        .await;
    assert_eq!(wrong.status, 400);
    assert!(!wrong.text.contains(secret), "{}", wrong.text);
    let token = &site.admin;
    let astray = site.get(&format!("/v1/tenants/{token}")).await;
    assert_eq!(astray.status, 400);
    assert!(!astray.text.contains(token.as_str()), "{}", astray.text);
    for path in [
        "/v1/tenants",
        "/v1/tenants/tenant_123",
        "/v1/tenants/second",
        "/v1/audit?format=ndjson",
        "/v1/tokens",
    ] {
        let answer = site.get(path).await;
        for hidden in [secret, runtime_key.as_str(), token.as_str()] {
            assert!(!answer.text.contains(hidden), "{path} shows a secret");
        }
    }
    // What is still to be logged of reads is written when the Hub ends.
    site.hub.close().await;
    site.hub.state().close().await;
    for hidden in [secret, runtime_key.as_str(), token.as_str()] {
        assert!(!site.stores(hidden), "the database holds a secret");
    }
}
