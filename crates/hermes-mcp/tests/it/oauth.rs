//! Servers with `auth: oauth` behind a host that runs: what it does by itself, and what it leaves to people.

use std::{fs::Permissions, os::unix::fs::PermissionsExt as _, sync::Mutex, time::Duration};

use futures::future::BoxFuture;
use hermes_config::{Home, ReferencePolicy, ServerName, Settings, TransportSettings};
use hermes_mcp::{
    LinkStatus,
    oauth::{AuthorizationPrompt, Login, LoginFlow, LoginSummary, LoginUi, OAuthError, TokenFiles},
};
use hermes_testkit::{
    Behaviour, Era, HttpServer,
    authorization::{
        AuthorizationServer, AuthorizationSetup, ConsentingBrowser, Endpoint, Resource,
    },
};
use serde_json::{Value, json};

use crate::setup::{Log, Setup, TIMEOUT};

/// A host with one server, `s`, that needs a login.
struct OAuthFixture {
    setup: Setup,
    authorization: AuthorizationServer,
    mcp: HttpServer,
}

impl OAuthFixture {
    async fn new(offer: AuthorizationSetup, resource: Resource) -> Self {
        let authorization = AuthorizationServer::start(offer);
        let mcp = authorization.protect(resource);
        let setup = Setup::start(json!({ "s": {"url": mcp.url(), "auth": "oauth"} })).await;
        Self {
            setup,
            authorization,
            mcp,
        }
    }

    async fn usual() -> Self {
        Self::new(AuthorizationSetup::default(), Resource::default()).await
    }

    fn login(&self) -> Login {
        let home = Home::at(self.setup.home.path());
        let settings = Settings::load(&home).unwrap();
        let entry = settings.server("s").unwrap();
        let server = entry.server.as_ref().unwrap();
        let resolved = server
            .resolve(&home, &settings.variables, ReferencePolicy::owner())
            .unwrap();
        let TransportSettings::Http(http) = resolved.transport else {
            panic!("no HTTP server");
        };
        let files = TokenFiles::new(&home, [&entry.name], &entry.name);
        Login::new(entry.name.clone(), http, resolved.oauth, files)
    }

    async fn log_in(&self) -> Result<LoginSummary, OAuthError> {
        self.login().run(&ConsentingUi::default(), None).await
    }

    /// Logs in as another process would: the host hears of it by the file alone.
    async fn log_in_and_connect(&self) {
        self.log_in().await.unwrap();
        self.setup
            .until("s", |link| link.status == LinkStatus::Ready)
            .await;
    }

    async fn echo(&self) -> Value {
        self.setup.call("mcp_s_echo", json!({ "text": "hi" })).await
    }

    fn grants(&self, kind: &str) -> usize {
        let requests = self.authorization.requests_to(Endpoint::Token);
        let wanted = |request: &&hermes_testkit::HttpRequest| {
            request.parameter("grant_type").as_deref() == Some(kind)
        };
        requests.iter().filter(wanted).count()
    }
}

/// A person whose browser follows wherever it is sent.
#[derive(Default)]
struct ConsentingUi(ConsentingBrowser);

impl LoginUi for ConsentingUi {
    fn open_url<'a>(&'a self, visit: &'a AuthorizationPrompt) -> BoxFuture<'a, ()> {
        self.0.set_url(&visit.url);
        Box::pin(async {})
    }

    fn read_redirect(&self) -> BoxFuture<'_, Result<String, OAuthError>> {
        Box::pin(async {
            self.0.follow().await.unwrap();
            std::future::pending().await
        })
    }
}

#[tokio::test]
async fn a_server_without_a_login_waits_for_one_and_a_running_host_takes_it_up() {
    for era in [Era::Legacy, Era::Stateless] {
        let behaviour = Behaviour::new().era(era);
        let resource = Resource::with(|resource| resource.behaviour = behaviour);
        let place = OAuthFixture::new(AuthorizationSetup::default(), resource).await;
        let status = place.setup.status("s");
        assert_eq!(status.status, LinkStatus::NeedsAuth, "{:?}", status.error);
        let error = status.error.unwrap();
        assert!(error.contains("there is no login yet"), "{error}");
        assert!(error.contains("hermes mcp login s"), "{error}");
        assert_eq!(status.next_attempt_at, None);
        // Nobody is asked, and nothing is opened.
        assert!(place.authorization.requests().is_empty());

        place.log_in_and_connect().await;
        assert_eq!(place.echo().await, json!({ "result": "hi" }));
    }
}

#[tokio::test]
async fn an_expired_token_is_renewed_once_for_all_calls_that_meet_it() {
    let resource = Resource::default();
    let authorization = AuthorizationServer::start(AuthorizationSetup::default());
    let mcp = authorization.protect(resource);
    let entry = json!({
        "url": mcp.url(), "auth": "oauth", "supports_parallel_tool_calls": true,
    });
    let setup = Setup::start(json!({ "s": entry })).await;
    let place = OAuthFixture {
        setup,
        authorization,
        mcp,
    };
    place.log_in_and_connect().await;
    let sessions = place.setup.status("s").restarts;
    place.authorization.expire_access_tokens();
    let calls = (0..8).map(|_| place.echo());
    for told in futures::future::join_all(calls).await {
        assert_eq!(told, json!({ "result": "hi" }));
    }
    assert_eq!(place.grants("refresh_token"), 1);
    let after = place.setup.status("s").restarts;
    assert_eq!(after, sessions, "the session goes on");
}

#[tokio::test]
async fn a_login_that_is_withdrawn_is_asked_for_again() {
    let place = OAuthFixture::usual().await;
    place.log_in_and_connect().await;
    place.authorization.revoke_everything();
    let told = place.echo().await;
    assert_eq!(told["needs_reauth"], true, "{told}");
    assert_eq!(told["server"], "s");
    let error = told["error"].as_str().unwrap();
    assert!(error.contains("`hermes mcp login s`"), "{error}");
    place
        .setup
        .until("s", |link| link.status == LinkStatus::NeedsAuth)
        .await;
    let error = place.setup.status("s").error.unwrap();
    assert!(error.contains("invalid_grant"), "{error}");
    place.log_in_and_connect().await;
    assert_eq!(place.echo().await, json!({ "result": "hi" }));
}

#[tokio::test]
async fn a_tool_that_needs_more_rights_leaves_the_others_at_work() {
    let resource = Resource::with(|resource| {
        resource.scope = Some("mcp:read".to_owned());
        resource.tool_scopes = vec![("counter".to_owned(), "mcp:write".to_owned())];
    });
    let place = OAuthFixture::new(AuthorizationSetup::default(), resource).await;
    place.log_in_and_connect().await;
    let told = place.setup.call("mcp_s_counter", json!({})).await;
    assert_eq!(told["needs_reauth"], true, "{told}");
    assert_eq!(place.echo().await, json!({ "result": "hi" }));
    assert_eq!(place.setup.status("s").status, LinkStatus::Ready);

    let logged_in = place.log_in().await.unwrap();
    let scope = logged_in.scope.unwrap();
    assert!(
        scope.contains("mcp:read") && scope.contains("mcp:write"),
        "{scope}"
    );
    let told = place.setup.call("mcp_s_counter", json!({})).await;
    assert!(told.get("error").is_none(), "{told}");
}

#[tokio::test]
async fn a_token_that_somebody_else_wrote_is_used_for_the_next_request() {
    let place = OAuthFixture::usual().await;
    place.log_in_and_connect().await;
    let old = place.login().files().tokens().unwrap();
    place.log_in().await.unwrap();
    let new = place.login().files().tokens().unwrap();
    assert_ne!(old.access_token, new.access_token);
    place.echo().await;
    let last = place.mcp.requests().pop().unwrap();
    let sent = format!("Bearer {}", new.access_token);
    assert_eq!(last.header("authorization"), Some(sent.as_str()));
}

#[tokio::test]
async fn a_logout_elsewhere_ends_the_use_of_its_token() {
    let place = OAuthFixture::usual().await;
    place.log_in_and_connect().await;
    let login = place.login();
    login
        .files()
        .delete(hermes_mcp::oauth::ForgetScope::Login)
        .unwrap();
    let told = place.echo().await;
    assert_eq!(told["needs_reauth"], true, "{told}");
}

#[tokio::test]
async fn a_token_file_that_is_damaged_while_it_is_used_asks_for_a_login_and_takes_the_next() {
    let place = OAuthFixture::usual().await;
    place.log_in_and_connect().await;
    let file = place.setup.path("mcp-tokens/s.json");
    for damage in ["", "{\"access_token\": \"half of i", "[1]"] {
        std::fs::write(&file, damage).unwrap();
        let told = place.echo().await;
        assert_eq!(told["needs_reauth"], true, "{damage}: {told}");
        place
            .setup
            .until("s", |link| link.status == LinkStatus::NeedsAuth)
            .await;
        let error = place.setup.status("s").error.unwrap();
        assert!(error.contains("s.json is damaged"), "{error}");
        place.log_in_and_connect().await;
        let told = place.echo().await;
        assert!(told.get("error").is_none(), "{damage}: {told}");
    }
}

#[tokio::test]
async fn a_token_file_that_is_opened_to_others_while_it_is_used_is_closed_again() {
    let log = Log::default();
    let _capturing = log.capture();
    let place = OAuthFixture::usual().await;
    place.log_in_and_connect().await;
    let file = place.setup.path("mcp-tokens/s.json");
    std::fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    assert_eq!(place.echo().await, json!({ "result": "hi" }));
    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let text = log.text();
    assert!(text.contains("others on this machine could read"), "{text}");
}

/// A person who copies the last address out of the browser.
#[derive(Default)]
struct PastingUi(Mutex<Option<AuthorizationPrompt>>);
impl LoginUi for PastingUi {
    fn open_url<'a>(&'a self, visit: &'a AuthorizationPrompt) -> BoxFuture<'a, ()> {
        assert!(!visit.has_listener);
        *self.0.lock().unwrap() = Some(visit.clone());
        Box::pin(async {})
    }
    fn read_redirect(&self) -> BoxFuture<'_, Result<String, OAuthError>> {
        Box::pin(async {
            let visit = self.0.lock().unwrap().take().unwrap();
            let back = tokio::task::spawn_blocking(move || {
                hermes_testkit::authorization::first_redirect(&visit.url).unwrap()
            });
            Ok(back.await.unwrap())
        })
    }
}

#[tokio::test]
async fn a_paste_flow_opens_no_port() {
    let place = OAuthFixture::usual().await;
    let login = place.login();
    login
        .run(&PastingUi::default(), Some(LoginFlow::Paste))
        .await
        .unwrap();
    place
        .setup
        .until("s", |link| link.status == LinkStatus::Ready)
        .await;
}

#[tokio::test]
async fn start_up_does_not_wait_for_an_authorization_server() {
    let mut authorization = AuthorizationServer::start(AuthorizationSetup::default());
    let mcp = authorization.protect(Resource::default());
    authorization.stop();
    let began = std::time::Instant::now();
    let setup = Setup::start(json!({ "s": {"url": mcp.url(), "auth": "oauth"} })).await;
    assert!(began.elapsed() < TIMEOUT / 2);
    assert_eq!(setup.status("s").status, LinkStatus::NeedsAuth);
    let limit = Duration::from_secs(30);
    let host = &setup.host;
    let name = ServerName::new("s");
    assert!(host.wait_until_settled(limit).await.contains(&name));
}
