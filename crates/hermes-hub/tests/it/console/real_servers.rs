//! Signing in at an identity provider that others wrote: `oidc-provider` of npm.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use hermes_hub::{api_types::Role, settings::OidcSettings};
use reqwest::{Client, Method, header, redirect};
use serde_json::Value;
use tokio::net::TcpListener;

use super::ConsoleBrowser;
use crate::test_hub::TestHub;

/// The provider, until it is dropped.
struct RealProvider {
    process: Child,
    issuer: String,
}

impl RealProvider {
    fn start(hub: &str) -> Option<Self> {
        if std::env::var_os("HERMES_TEST_SKIP_REAL").is_some_and(|value| value == "1") {
            println!("SKIPPED: HERMES_TEST_SKIP_REAL is set");
            return None;
        }
        let packages = std::env::var_os("HERMES_TEST_OAUTH").expect(
            "HERMES_TEST_OAUTH is not set: `./test` sets it; or run `eval \"$(scripts/equipment env)\"`",
        );
        let script = Path::new(env!("CARGO_MANIFEST_DIR"));
        let script = script.join("tests/it/console/real_servers/provider.mjs");
        let mut process = Command::new(PathBuf::from(packages).join("node/bin/node"))
            .arg(script)
            .arg(hub)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        let told: Value = serde_json::from_str(&line).unwrap();
        Some(Self {
            process,
            issuer: told["issuer"].as_str().unwrap().to_owned(),
        })
    }
}

impl Drop for RealProvider {
    fn drop(&mut self) {
        // The end of stdin ends it.
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

/// Follows the provider's redirects with its cookies, until it sends the browser back.
async fn visit(issuer: &str, mut address: String) -> String {
    let client = Client::builder()
        .no_proxy()
        .redirect(redirect::Policy::none())
        .build()
        .unwrap();
    let mut cookies = BTreeMap::new();
    while address.starts_with(issuer) {
        let sent: Vec<String> = cookies
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let request = client.get(&address).header(header::COOKIE, sent.join("; "));
        let answer = request.send().await.unwrap();
        for cookie in answer.headers().get_all(header::SET_COOKIE) {
            let pair = cookie.to_str().unwrap().split(';').next().unwrap();
            let (name, value) = pair.split_once('=').unwrap();
            cookies.insert(name.to_owned(), value.to_owned());
        }
        let next = answer.headers().get(header::LOCATION).cloned();
        let next = next.unwrap_or_else(|| panic!("{address}: {}", answer.status()));
        let next = next.to_str().unwrap();
        address = match next.strip_prefix('/') {
            Some(path) => format!("{issuer}/{path}"),
            None => next.to_owned(),
        };
    }
    address
}

#[tokio::test]
async fn somebody_signs_in_at_a_real_provider_and_has_the_role_of_their_groups() {
    // The provider has to know the Hub's address before the Hub knows the provider's.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let public_url = format!("http://localhost:{}", listener.local_addr().unwrap().port());
    let Some(provider) = RealProvider::start(&public_url) else {
        return;
    };
    let hub = TestHub::with_settings(|settings, _| {
        settings.public_url.clone_from(&public_url);
        settings.oidc = Some(OidcSettings {
            issuer: provider.issuer.clone(),
            client_id: "hermes".into(),
            client_secret: Some("a secret: of/the hub+".to_owned().into()),
            scopes: ["openid", "profile", "groups"].map(str::to_owned).into(),
            groups_claim: "groups".into(),
            roles: BTreeMap::from([
                ("support".to_owned(), Role::Operator),
                ("*".to_owned(), Role::Viewer),
            ]),
        });
    })
    .await;
    let browser = ConsoleBrowser::stranger(&hub);
    let begun = browser.request(Method::GET, "/sign-in/provider");
    let begun = browser.send(begun).await.expect_status(303);
    let pending = begun.headers[header::SET_COOKIE].to_str().unwrap();
    let pending = pending.split(';').next().unwrap();
    let address = begun.headers[header::LOCATION].to_str().unwrap();
    let back = visit(&provider.issuer, address.to_owned()).await;
    let path = back.strip_prefix(&public_url).unwrap();

    let browser = browser.with_cookie(pending);
    let page = browser.send(browser.request(Method::GET, path)).await;
    let page = page.expect_status(200);
    let cookies = page.headers.get_all(header::SET_COOKIE).iter();
    let mut cookies = cookies.map(|cookie| cookie.to_str().unwrap());
    let session = cookies.find(|cookie| !cookie.contains("_pending="));
    let session = session.unwrap().split(';').next().unwrap();
    let ada = ConsoleBrowser::stranger(&hub).with_cookie(session);
    let page = ada.get("/tenants").await.expect_status(200);
    page.assert_shows("Ada Lovelace");
    page.assert_shows("/do/create_tenant");
    // An operator mints no tokens.
    assert_eq!(ada.get("/tokens").await.status, 404);

    let csrf = page.attributes("data-csrf")[0].clone();
    let page = ada.post("/sign-out", &[("csrf", &csrf)]).await;
    let away = page.expect_status(200).attributes("href");
    let away = away.iter().find(|link| link.starts_with(&provider.issuer));
    let answer = Client::builder().no_proxy().build().unwrap();
    let answer = answer.get(away.unwrap()).send().await.unwrap();
    assert_eq!(
        answer.status(),
        200,
        "the provider asks whether to sign out"
    );
}
