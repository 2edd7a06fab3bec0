//! Secrets of a tenant and of the Hub, looked for in everything that a whole Hub says and writes down.

use std::{fs, path::Path};

use hermes_testkit::model::{ModelScript, ScriptedAnswer};
use reqwest::Method;
use serde_json::{Value, json};

use super::real_hub::RealHub;

const KEY: &str = "sk-planted-0123456789abcdefghij";
/// Nothing but the tenant's list of variables says that this is a secret.
const PLAIN: &str = "planted plain words";

/// The texts of all logs below a directory.
fn logs(directory: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(logs(&path));
        } else if path.to_string_lossy().contains(".log") {
            let text = fs::read(&path).unwrap_or_default();
            let name = path.to_string_lossy().into_owned();
            found.push((name, String::from_utf8_lossy(&text).into_owned()));
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn planted_secrets_are_in_no_reply_event_log_or_error() {
    let hub = RealHub::start();
    let refusal = format!("the key {KEY} is not known, and {PLAIN} is no good");
    let script = ModelScript::new([
        ScriptedAnswer::call(
            "terminal",
            &json!({"command": format!("ls '{PLAIN}' {KEY}")}),
        ),
        ScriptedAnswer::status(401, &refusal),
    ]);
    let model = hub.tenant("acme", json!({}), script).await;
    for (name, value) in [("MODEL_KEY", KEY), ("NOTE", PLAIN)] {
        let path = format!("/v1/tenants/acme/env/{name}");
        hub.request(Method::PUT, &path, &json!({"value": value}))
            .await
            .expect(204);
    }
    let config = hub.tenant_home("acme").join("config.yaml");
    let text = fs::read_to_string(&config).unwrap();
    let with_key = text.replace(
        "provider: custom,",
        "provider: custom, api_key: '${MODEL_KEY}',",
    );
    assert_ne!(text, with_key);
    fs::write(&config, with_key).unwrap();
    let run = hub.start_run("acme", "look around").await;
    let ended = hub.wait_for_end(&run).await;
    assert_eq!(ended["status"], "failed", "{ended}");
    let sent = model.requests()[0]
        .header("authorization")
        .map(str::to_owned);
    assert!(
        sent.is_some_and(|sent| sent.contains(KEY)),
        "the key did not arrive"
    );

    let mut told = logs(&hub.data());
    assert!(
        told.iter().any(|(name, _)| name.ends_with("hermes.log")),
        "{told:?}"
    );
    for path in [
        run.clone(),
        format!("{run}/events"),
        "/v1/tenants/acme".into(),
        "/v1/tenants/acme/env".into(),
        "/v1/tenants/acme/agent".into(),
        "/v1/audit?format=ndjson".into(),
        "/v1/tokens".into(),
    ] {
        let said = hub.request(Method::GET, &path, &Value::Null).await;
        assert_eq!(said.status, 200, "{path}");
        told.push((path, said.body.to_string()));
    }
    let token = fs::read_to_string(hub.data().join("admin.token")).unwrap();
    for (place, text) in &told {
        for secret in [KEY, PLAIN, token.trim()] {
            assert!(!text.contains(secret), "`{place}` holds {secret}: {text}");
        }
    }
}
