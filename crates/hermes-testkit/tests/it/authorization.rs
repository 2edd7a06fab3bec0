//! The authorization server and what it protects, seen by a client that does each step by hand.

mod discovery;
mod dpop;
mod faults;
mod flow;
mod noninteractive;
mod refresh;

use aws_lc_rs::digest::{SHA256, digest};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use hermes_testkit::{
    HttpServer,
    authorization::{
        AuthorizationServer, AuthorizationSetup, CallbackFault, Challenge, Discovery, Endpoint,
        EndpointFault, MetadataLocation, ProofOfPossession, RefreshTokens, RegisteredClient,
        Resource, TokenIssuer, browse,
    },
};
use reqwest::redirect::Policy;
use serde_json::{Value, json};
use url::{Url, form_urlencoded};

const VERIFIER: &str = "a-verifier-that-is-long-enough-for-the-standard";
const CALLBACK: &str = "http://127.0.0.1:9/callback";
const STATE: &str = "the-state";

fn http() -> reqwest::Client {
    let builder = reqwest::Client::builder().redirect(Policy::none());
    builder.no_proxy().build().unwrap()
}

fn hash(text: &str) -> String {
    URL_SAFE_NO_PAD.encode(digest(&SHA256, text.as_bytes()))
}

/// A status and the JSON that came with it.
#[derive(Debug)]
struct HttpReply {
    status: u16,
    body: Value,
    headers: reqwest::header::HeaderMap,
}

impl HttpReply {
    async fn read(response: reqwest::Response) -> Self {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let text = response.text().await.unwrap();
        let body = serde_json::from_str(&text).unwrap_or_default();
        Self {
            status,
            body,
            headers,
        }
    }

    #[track_caller]
    fn ok(self) -> Value {
        assert_eq!(self.status, 200, "{self:?}");
        self.body
    }

    #[track_caller]
    fn refused(&self, error: &str) {
        assert!(matches!(self.status, 400 | 401), "{self:?}");
        assert_eq!(self.body["error"], error, "{self:?}");
    }
}

async fn get(url: &str) -> HttpReply {
    HttpReply::read(http().get(url).send().await.unwrap()).await
}

fn form(url: &str, fields: &[(&str, &str)]) -> reqwest::RequestBuilder {
    let mut body = form_urlencoded::Serializer::new(String::new());
    body.extend_pairs(fields);
    http()
        .post(url)
        .header("content-type", "application/x-www-form-urlencoded")
        .body(body.finish())
}

async fn post(url: &str, fields: &[(&str, &str)]) -> HttpReply {
    HttpReply::read(form(url, fields).send().await.unwrap()).await
}

/// An authorization server, an MCP server behind it, and a public client.
struct OAuthSetup {
    server: AuthorizationServer,
    mcp: HttpServer,
}

impl OAuthSetup {
    fn new(setup: AuthorizationSetup, resource: Resource) -> Self {
        let server = AuthorizationServer::start(setup);
        server.register(RegisteredClient::public("client"));
        let mcp = server.protect(resource);
        Self { server, mcp }
    }

    fn usual() -> Self {
        Self::new(AuthorizationSetup::default(), Resource::default())
    }

    fn url(&self, name: &str) -> String {
        format!("{}/{name}", self.server.issuer())
    }

    /// The fields of a proper authorization request.
    fn request(&self) -> Vec<(&'static str, String)> {
        vec![
            ("response_type", "code".to_owned()),
            ("client_id", "client".to_owned()),
            ("redirect_uri", CALLBACK.to_owned()),
            ("state", STATE.to_owned()),
            ("code_challenge", hash(VERIFIER)),
            ("code_challenge_method", "S256".to_owned()),
            ("resource", self.mcp.url()),
        ]
    }

    /// Asks for consent: the address one is sent back to.
    async fn consent(&self, fields: &[(&str, String)]) -> Url {
        let url = Url::parse_with_params(&self.url("authorize"), fields).unwrap();
        let response = http().get(url).send().await.unwrap();
        assert_eq!(response.status(), 302);
        let location = response.headers()["location"].to_str().unwrap();
        Url::parse(location).unwrap()
    }

    async fn code(&self, scope: Option<&str>) -> String {
        let mut request = self.request();
        request.extend(scope.map(|scope| ("scope", scope.to_owned())));
        let back = self.consent(&request).await;
        assert_eq!(parameter(&back, "state").as_deref(), Some(STATE));
        parameter(&back, "code").unwrap()
    }

    /// Asks the token endpoint, for this MCP server and by the public client.
    async fn token(&self, fields: &[(&str, &str)]) -> HttpReply {
        let resource = self.mcp.url();
        let mut all = vec![("client_id", "client"), ("resource", resource.as_str())];
        all.extend(fields);
        post(&self.url("token"), &all).await
    }

    async fn redeem(&self, code: &str) -> HttpReply {
        self.token(&[
            ("grant_type", "authorization_code"),
            ("code", code),
            ("code_verifier", VERIFIER),
            ("redirect_uri", CALLBACK),
        ])
        .await
    }

    async fn refresh(&self, token: &Value) -> HttpReply {
        let token = token["refresh_token"].as_str().unwrap();
        self.token(&[("grant_type", "refresh_token"), ("refresh_token", token)])
            .await
    }

    /// Logs in as a person does.
    async fn log_in(&self, scope: Option<&str>) -> Value {
        let code = self.code(scope).await;
        self.redeem(&code).await.ok()
    }

    /// Calls a tool with a token: the status and the challenge, if there is one.
    async fn call(&self, authorization: &str, tool: &str) -> (u16, String) {
        call(&self.mcp.url(), authorization, tool).await
    }

    async fn call_with(&self, token: &Value) -> u16 {
        let (status, _) = self.call(&bearer(token), "echo").await;
        status
    }
}

fn bearer(token: &Value) -> String {
    format!("Bearer {}", token["access_token"].as_str().unwrap())
}

fn parameter(url: &Url, name: &str) -> Option<String> {
    let mut pairs = url.query_pairs();
    pairs
        .find(|(known, _)| known == name)
        .map(|(_, value)| value.into_owned())
}

/// A stateless call, which needs no session.
fn call_request(url: &str, authorization: &str, tool: &str) -> reqwest::RequestBuilder {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({ "name": tool, "arguments": { "text": "hello" }, "_meta": meta });
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    let mut request = http()
        .post(url)
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", "tools/call")
        .header("mcp-name", tool)
        .body(message.to_string());
    if !authorization.is_empty() {
        request = request.header("authorization", authorization);
    }
    request
}

async fn call(url: &str, authorization: &str, tool: &str) -> (u16, String) {
    let request = call_request(url, authorization, tool);
    let response = request.send().await.unwrap();
    let challenge = response.headers().get("www-authenticate");
    let challenge = challenge.map(|value| value.to_str().unwrap().to_owned());
    (response.status().as_u16(), challenge.unwrap_or_default())
}
