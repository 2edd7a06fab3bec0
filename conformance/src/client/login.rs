//! Logs in where the server wants it, by the product's own login. The browser alone is played: it asks for the page it is
//! sent to and follows where that leads, as if its user had consented at once.

use std::time::Duration;

use anyhow::{Context as _, bail};
use futures::future::BoxFuture;
use hermes_config::{Home, ReferencePolicy, ServerName, Settings, TransportSettings};
use hermes_mcp::{
    CallOptions, Host, LinkStatus, Outcome, RegisteredTool,
    oauth::{AuthorizationPrompt, Login, LoginUi, OAuthError, TokenFiles},
};
use hermes_testkit::authorization::ConsentingBrowser;
use serde_json::{Map, Value, json};

/// The document that the suite expects a client to be described by.
const CLIENT_METADATA: &str = "https://conformance-test.local/client-metadata.json";
/// How often a server may ask for a login before something else is wrong.
const MAX_LOGINS: usize = 5;
/// How often one call is worth a login.
const LOGINS_PER_CALL: usize = 2;

/// The keys under `oauth` that the context asks for.
pub(super) fn oauth_settings(context: &Value) -> Value {
    let mut keys = json!({"client_metadata_url": CLIENT_METADATA, "timeout": 20});
    for (given, key) in [
        ("client_id", "client_id"),
        ("client_secret", "client_secret"),
        ("private_key_pem", "private_key"),
        ("issuer", "issuer"),
        ("valid_jwt", "assertion"),
    ] {
        if let Some(value) = context.get(given) {
            keys[key] = value.clone();
        }
    }
    if let Some(id_token) = context.get("idp_id_token") {
        keys["enterprise"] = json!({
            "issuer": context["idp_issuer"],
            "token_endpoint": context["idp_token_endpoint"],
            "client_id": context["idp_client_id"],
            "id_token": id_token,
        });
    }
    keys
}

/// The login of the one server there is.
pub(super) fn login_for(home: &Home, settings: &Settings, name: &str) -> anyhow::Result<Login> {
    let entry = settings.server(name).context("the server is missing")?;
    let server = entry.server.as_ref().map_err(Clone::clone)?;
    let resolved = server.resolve(home, &settings.variables, ReferencePolicy::owner())?;
    let TransportSettings::Http(http) = resolved.transport else {
        bail!("the suite speaks HTTP");
    };
    let files = TokenFiles::new(home, [&entry.name], &entry.name);
    Ok(Login::new(entry.name.clone(), http, resolved.oauth, files))
}

/// Logs in as often as it takes until the server is connected, or has failed for another reason.
pub(super) async fn connect_with_login(
    host: &Host,
    server: &ServerName,
    login: &Login,
    limit: Duration,
) -> anyhow::Result<()> {
    let mut link = host.link(server).context("no connection")?;
    for _ in 0..MAX_LOGINS {
        let (status, attempts) = {
            let link = link.borrow_and_update();
            (link.status, link.attempts_ended)
        };
        if status != LinkStatus::NeedsAuth {
            return Ok(());
        }
        login.run(&ConsentingLoginUi::default(), None).await?;
        host.wake(server);
        let next = link.wait_for(|link| link.attempts_ended > attempts);
        tokio::time::timeout(limit, next).await??;
    }
    bail!("the server asks for one login after the other");
}

/// Calls a tool, with a login where the server wants more rights for it.
pub(super) async fn call_with_login(
    host: &Host,
    tool: &RegisteredTool,
    arguments: Map<String, Value>,
    options: &CallOptions,
    login: &Login,
) -> anyhow::Result<Outcome> {
    let mut outcome = host.call_tool(tool, arguments.clone(), options).await;
    for _ in 0..LOGINS_PER_CALL {
        let told: Value = serde_json::from_str(&outcome.to_json())?;
        if told["needs_reauth"] != true {
            break;
        }
        login.run(&ConsentingLoginUi::default(), None).await?;
        let limit = Duration::from_secs(20);
        connect_with_login(host, &tool.server, login, limit).await?;
        outcome = host.call_tool(tool, arguments.clone(), options).await;
    }
    Ok(outcome)
}

/// Somebody at a browser who agrees to everything.
#[derive(Default)]
struct ConsentingLoginUi(ConsentingBrowser);

impl LoginUi for ConsentingLoginUi {
    fn open_url<'a>(&'a self, visit: &'a AuthorizationPrompt) -> BoxFuture<'a, ()> {
        self.0.set_url(&visit.url);
        Box::pin(async {})
    }

    /// Nothing is pasted. But this runs while the callback is waited for, which is when a browser is at work.
    fn read_redirect(&self) -> BoxFuture<'_, Result<String, OAuthError>> {
        Box::pin(async {
            if let Err(error) = self.0.follow().await {
                super::log_line(&format!("the browser: {error}"));
            }
            std::future::pending().await
        })
    }
}
