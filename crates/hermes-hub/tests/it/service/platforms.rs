//! Messaging platforms of tenants: tokens are variables, the rest is in the home's configuration, and comments stay.

use std::fs;

use reqwest::Method;
use serde_json::{Value, json};

use crate::test_hub::TestHub;

const TELEGRAM: &str = "/v1/tenants/acme/platforms/telegram";
const TOKEN: &str = "123456:secret-token-abcd";

async fn site() -> TestHub {
    let site = TestHub::new().await;
    site.tenant(json!({"id": "acme", "start": false})).await;
    site
}

fn config(site: &TestHub) -> String {
    fs::read_to_string(site.home("acme").join("config.yaml")).unwrap_or_default()
}

#[tokio::test]
async fn a_platform_is_set_up_without_a_shell_and_its_token_is_never_shown() {
    let site = site().await;
    fs::write(site.home("acme").join("config.yaml"), "# mine\nmodel: m\n").unwrap();
    let off = site.get(TELEGRAM).await.expect(200);
    assert_eq!(
        (&off["enabled"], &off["tokenEnv"]),
        (&json!(false), &Value::Null)
    );
    let body = json!({"token": TOKEN, "allowFrom": ["12345"], "homeChannel": "12345"});
    let answer = site.put(TELEGRAM, &body).await;
    assert!(!answer.text.contains(TOKEN), "{}", answer.text);
    let set = answer.expect(200);
    assert_eq!(set["enabled"], true);
    assert_eq!(set["tokenEnv"], "TELEGRAM_BOT_TOKEN");
    assert_eq!(set["tokenLast4"], "abcd");
    assert_eq!(set["allowFrom"], json!(["12345"]));
    assert_eq!(set["homeChannel"], "12345");
    let text = config(&site);
    assert!(text.contains("# mine") && text.contains("12345"), "{text}");
    assert!(!text.contains(TOKEN), "{text}");
    // It does not sleep from now on.
    site.wait_until("/v1/tenants/acme/agent", |agent| agent["state"] == "idle")
        .await;
    // Without a token in the request, the token stays; the lists are what the request says.
    let set = site
        .put(TELEGRAM, &json!({"allowAllUsers": true}))
        .await
        .expect(200);
    assert_eq!(
        (&set["enabled"], &set["allowAllUsers"]),
        (&json!(true), &json!(true))
    );
    assert_eq!(set["allowFrom"], json!([]));
    let listed = site.get("/v1/tenants/acme/platforms").await.expect(200);
    assert_eq!(listed["platforms"].as_array().unwrap().len(), 3);
    assert_eq!(listed["platforms"][0]["platform"], "telegram");
    let turned_off = site
        .put(TELEGRAM, &json!({"enabled": false}))
        .await
        .expect(200);
    assert_eq!(turned_off["enabled"], false);
    site.delete(TELEGRAM).await.expect(204);
    let env = site.get("/v1/tenants/acme/env").await.expect(200);
    assert_eq!(env["env"], json!([]));
    let text = config(&site);
    assert!(
        !text.contains("telegram") && text.contains("# mine"),
        "{text}"
    );
    let audit = site.get("/v1/audit?format=ndjson").await.text;
    assert!(audit.contains("put_platform") && !audit.contains(TOKEN));
}

#[tokio::test]
async fn slack_has_two_tokens_and_a_token_may_be_in_another_variable() {
    let site = site().await;
    let slack = "/v1/tenants/acme/platforms/slack";
    let body = json!({"token": "xoxb-1-abcd", "appToken": "xapp-1-efgh"});
    let set = site.put(slack, &body).await.expect(200);
    assert_eq!(
        (&set["enabled"], &set["hasAppToken"]),
        (&json!(true), &json!(true))
    );
    site.delete(slack).await.expect(204);
    let missing = site.put(TELEGRAM, &json!({"tokenEnv": "BOT"})).await;
    assert_eq!(missing.status, 422, "{}", missing.text);
    site.put("/v1/tenants/acme/env/BOT", &json!({"value": TOKEN}))
        .await
        .expect(204);
    let set = site
        .put(TELEGRAM, &json!({"tokenEnv": "BOT"}))
        .await
        .expect(200);
    assert_eq!(
        (&set["enabled"], &set["tokenEnv"]),
        (&json!(true), &json!("BOT"))
    );
    assert!(config(&site).contains("${BOT}"));
}

#[tokio::test]
async fn what_would_have_no_effect_is_refused_with_the_reason() {
    let site = site().await;
    let env = "/v1/tenants/acme/env/TELEGRAM_ALLOWED_USERS";
    site.put(env, &json!({"value": "1"})).await.expect(204);
    let refused = site.put(TELEGRAM, &json!({"allowFrom": ["5"]})).await;
    assert_eq!(refused.status, 422, "{}", refused.text);
    assert_eq!(refused.json()["reason"], "no_effect");
    assert!(
        refused.text.contains("TELEGRAM_ALLOWED_USERS"),
        "{}",
        refused.text
    );
    for wrong in [
        json!({"token": ""}),
        json!({"token": "a b"}),
        json!({"token": "1:a", "tokenEnv": "X"}),
        json!({"appToken": "xapp-1"}),
        json!({"allowedRoles": ["1"]}),
        json!({"allowFrom": ["1,2"]}),
        json!({"allowFrom": [5]}),
        json!({"unauthorizedDm": "shout"}),
        json!({"tokn": "x"}),
    ] {
        let refused = site.put(TELEGRAM, &wrong).await;
        assert_eq!(refused.status, 400, "{wrong}: {}", refused.text);
    }
    let unknown = site.get("/v1/tenants/acme/platforms/fax").await;
    assert_eq!(unknown.status, 400, "{}", unknown.text);
}

#[tokio::test]
async fn a_token_needs_the_right_to_set_variables() {
    let site = site().await;
    let less = json!({"name": "less", "scopes": ["tenants:read", "tenants:write"]});
    let less = site.token(less).await;
    let put = async |body: Value| {
        let request = site.request(&less, Method::PUT, TELEGRAM);
        let request = request.header("content-type", "application/json");
        site.send(request.body(body.to_string())).await
    };
    for body in [
        json!({"token": TOKEN}),
        json!({"tokenEnv": "OPENAI_API_KEY"}),
    ] {
        let refused = put(body).await;
        assert_eq!(refused.status, 403, "{}", refused.text);
    }
    put(json!({"allowFrom": ["5"]})).await.expect(200);
    let removed = site
        .send(site.request(&less, Method::DELETE, TELEGRAM))
        .await;
    assert_eq!(removed.status, 403, "{}", removed.text);
}
