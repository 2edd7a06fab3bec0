use axum::{
    Router,
    extract::Request,
    http::{HeaderMap, StatusCode, header},
    middleware::{self, Next},
    response::Response,
};
use hermes_config::Secret;
use reqwest::{Client, RequestBuilder};
use rmcp::{
    ClientLifecycleMode, ClientServiceExt,
    model::{CallToolRequestParams, ClientConfig, ProtocolVersion},
    transport::{
        StreamableHttpClientTransport, streamable_http_client::StreamableHttpClientTransportConfig,
    },
};
use serde_json::json;
use tokio::net::TcpListener;

use super::*;
use crate::{HttpServeOptions, Principal, http};

const TOKEN: &str = "s3cret";

/// The demo server on a socket.
struct Site {
    url: String,
    client: Client,
    stop: CancellationToken,
    server: JoinSet<Result<(), ServeError>>,
}

impl Drop for Site {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Site {
    async fn new(options: HttpServeOptions) -> Self {
        let token = Secret::new(TOKEN.to_owned());
        let guard = |router| http::with_bearer(router, &token, Principal::new("ada"));
        Self::guarded(options, guard).await
    }

    async fn guarded(options: HttpServeOptions, guard: impl FnOnce(Router) -> Router) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let stop = CancellationToken::new();
        let router = guard(http::router(|| Demo, options, &stop));
        let mut server = JoinSet::new();
        server.spawn(http::serve(listener, router, stop.clone()));
        Self {
            url,
            client: Client::builder().no_proxy().build().unwrap(),
            stop,
            server,
        }
    }

    fn post(&self, message: &Value) -> RequestBuilder {
        self.client
            .post(&self.url)
            .header(header::ACCEPT, "application/json, text/event-stream")
            .header(header::CONTENT_TYPE, "application/json")
            .body(message.to_string())
    }

    fn open(&self) -> RequestBuilder {
        self.post(
            &json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
                "protocolVersion": "2025-11-25", "capabilities": {},
                "clientInfo": {"name": "test", "version": "1"},
            }}),
        )
    }

    fn ping(&self, session: &str) -> RequestBuilder {
        self.post(&json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}))
            .header("mcp-session-id", session)
    }

    async fn session(&self, token: &str) -> String {
        let opened = self.open().bearer_auth(token).send().await.unwrap();
        assert_eq!(opened.status(), StatusCode::OK);
        let id = opened.headers()["mcp-session-id"].to_str().unwrap();
        id.to_owned()
    }
}

async fn status(request: RequestBuilder) -> StatusCode {
    request.send().await.unwrap().status()
}

#[tokio::test]
async fn every_request_needs_the_token() {
    let site = Site::new(HttpServeOptions::default()).await;
    let id = site.session(TOKEN).await;
    let ways: [fn(RequestBuilder) -> RequestBuilder; 4] = [
        |request| request,
        |request| request.bearer_auth("wrong"),
        |request| request.bearer_auth("s3cret2"),
        |request| request.header(header::AUTHORIZATION, "Basic czNjcmV0"),
    ];
    for request in [
        site.open(),
        site.ping(&id),
        site.client.get(&site.url).header("mcp-session-id", &id),
        site.client.delete(&site.url).header("mcp-session-id", &id),
    ] {
        for way in ways {
            let refused = way(request.try_clone().unwrap()).send().await.unwrap();
            assert_eq!(refused.status(), StatusCode::UNAUTHORIZED);
            let challenge = &refused.headers()[header::WWW_AUTHENTICATE];
            assert!(challenge.to_str().unwrap().starts_with("Bearer"));
        }
    }
    assert_eq!(
        status(site.ping(&id).bearer_auth(TOKEN)).await,
        StatusCode::OK
    );
}

#[tokio::test]
async fn only_known_hosts_and_origins_are_answered() {
    let options = HttpServeOptions {
        allowed_hosts: vec!["bridge.example.com".into()],
        allowed_origins: vec!["https://app.example.com:443".into()],
        ..HttpServeOptions::default()
    };
    let site = Site::new(options).await;
    for (name, value, expected) in [
        ("host", "localhost:1234", StatusCode::OK),
        ("host", "bridge.example.com", StatusCode::OK),
        ("host", "evil.example.com", StatusCode::FORBIDDEN),
        ("origin", "http://localhost:3000", StatusCode::OK),
        ("origin", "https://app.example.com", StatusCode::OK),
        ("origin", "https://evil.example.com", StatusCode::FORBIDDEN),
        ("origin", "null", StatusCode::FORBIDDEN),
    ] {
        let request = site.open().bearer_auth(TOKEN).header(name, value);
        assert_eq!(status(request).await, expected, "{name}: {value}");
    }
}

/// Two people, each with a token that is their name.
async fn by_name(mut request: Request, next: Next) -> Response {
    let name = |headers: &HeaderMap| {
        let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
        Some(value.strip_prefix("Bearer ")?.to_owned())
    };
    if let Some(name) = name(request.headers()) {
        request.extensions_mut().insert(Principal::new(name));
    }
    next.run(request).await
}

#[tokio::test]
async fn a_session_is_its_owners_alone() {
    let guard = |router: Router| router.layer(middleware::from_fn(by_name));
    let site = Site::guarded(HttpServeOptions::default(), guard).await;
    let id = site.session("ada").await;
    assert_eq!(
        status(site.ping(&id).bearer_auth("ada")).await,
        StatusCode::OK
    );
    assert_eq!(
        status(site.ping(&id).bearer_auth("bob")).await,
        StatusCode::NOT_FOUND
    );
    let delete = site.client.delete(&site.url).header("mcp-session-id", &id);
    assert_eq!(
        status(delete.bearer_auth("bob")).await,
        StatusCode::NOT_FOUND
    );
    assert_eq!(
        status(site.ping(&id).bearer_auth("ada")).await,
        StatusCode::OK
    );
    let delete = site.client.delete(&site.url).header("mcp-session-id", &id);
    assert_eq!(
        status(delete.bearer_auth("ada")).await,
        StatusCode::NO_CONTENT
    );
    // Who is nobody gets nothing.
    assert_eq!(status(site.open()).await, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn sessions_are_limited_in_number_and_end_when_nobody_uses_them() {
    let options = HttpServeOptions {
        max_sessions: 2,
        session_idle_timeout: Duration::from_secs(1),
        ..HttpServeOptions::default()
    };
    let site = Site::new(options).await;
    let first = site.session(TOKEN).await;
    site.session(TOKEN).await;
    // The third is refused, unless a busy machine took so long that the first has ended.
    let refused = hermes_testkit::eventually_some(TIMEOUT, async || {
        let opened = status(site.open().bearer_auth(TOKEN)).await;
        (opened == StatusCode::SERVICE_UNAVAILABLE).then_some(())
    });
    assert!(refused.await.is_some(), "they are not limited");
    // A request to a session counts as use, so a place for another one is what is waited for.
    let opened = hermes_testkit::eventually_some(TIMEOUT, async || {
        let opened = status(site.open().bearer_auth(TOKEN)).await;
        (opened == StatusCode::OK).then_some(())
    });
    assert!(opened.await.is_some(), "no session ends");
    let gone = status(site.ping(&first).bearer_auth(TOKEN)).await;
    assert_eq!(gone, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_request_that_is_too_large_is_refused() {
    let options = HttpServeOptions {
        max_body_bytes: 2000,
        ..HttpServeOptions::default()
    };
    let site = Site::new(options).await;
    let large = call(1, "echo", &json!({"text": "x".repeat(3000)}));
    let refused = status(site.post(&large).bearer_auth(TOKEN)).await;
    assert_eq!(refused, StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test]
async fn a_fixed_principal_needs_no_token() {
    let guard = |router| http::with_principal(router, Principal::new("everybody"));
    let site = Site::guarded(HttpServeOptions::default(), guard).await;
    assert_eq!(status(site.open()).await, StatusCode::OK);
}

#[tokio::test]
async fn both_eras_are_served() {
    let site = Site::new(HttpServeOptions::default()).await;
    let stateless = ClientLifecycleMode::Discover {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
    };
    for (lifecycle, version) in [
        (
            ClientLifecycleMode::Initialize,
            ProtocolVersion::V_2025_11_25,
        ),
        (stateless, ProtocolVersion::V_2026_07_28),
    ] {
        let config =
            StreamableHttpClientTransportConfig::with_uri(site.url.clone()).auth_header(TOKEN);
        let transport = StreamableHttpClientTransport::with_client(site.client.clone(), config);
        let client =
            ClientConfig::default().with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE);
        let client = client
            .serve_with_lifecycle(transport, lifecycle)
            .await
            .unwrap();
        assert_eq!(client.peer_info().unwrap().protocol_version, version);
        let arguments = json!({"a": 40, "b": 2}).as_object().unwrap().clone();
        let sum = client.call_tool(CallToolRequestParams::new("add").with_arguments(arguments));
        assert_eq!(
            sum.await.unwrap().structured_content,
            Some(json!({"sum": 42}))
        );
    }
}

#[tokio::test]
async fn it_ends_with_streams_open() {
    let site = Site::new(HttpServeOptions::default()).await;
    let id = site.session(TOKEN).await;
    let stream = site.client.get(&site.url).bearer_auth(TOKEN);
    let stream = stream
        .header("mcp-session-id", &id)
        .header(header::ACCEPT, "text/event-stream");
    let _stream = stream.send().await.unwrap();
    let mut site = site;
    site.stop.cancel();
    let ended = tokio::time::timeout(TIMEOUT, site.server.join_next()).await;
    ended.unwrap().unwrap().unwrap().unwrap();
}

#[tokio::test]
async fn beyond_a_principals_number_the_session_longest_idle_gives_way() {
    let options = HttpServeOptions {
        max_sessions_per_principal: 2,
        ..HttpServeOptions::default()
    };
    let site = Site::new(options).await;
    let (first, second) = (site.session(TOKEN).await, site.session(TOKEN).await);
    assert_eq!(
        status(site.ping(&first).bearer_auth(TOKEN)).await,
        StatusCode::OK
    );
    let third = site.session(TOKEN).await;
    for (id, expected) in [
        (&first, StatusCode::OK),
        (&second, StatusCode::NOT_FOUND),
        (&third, StatusCode::OK),
    ] {
        assert_eq!(status(site.ping(id).bearer_auth(TOKEN)).await, expected);
    }
}

#[tokio::test]
async fn sessions_with_an_open_stream_do_not_give_way() {
    let options = HttpServeOptions {
        max_sessions_per_principal: 1,
        ..HttpServeOptions::default()
    };
    let site = Site::new(options).await;
    let id = site.session(TOKEN).await;
    let initialized = site.post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    let initialized = initialized.header("mcp-session-id", &id).bearer_auth(TOKEN);
    assert_eq!(status(initialized).await, StatusCode::ACCEPTED);
    let stream = site
        .client
        .get(&site.url)
        .bearer_auth(TOKEN)
        .header("mcp-session-id", &id);
    let stream = stream
        .header(header::ACCEPT, "text/event-stream")
        .send()
        .await
        .unwrap();
    assert_eq!(stream.status(), StatusCode::OK);
    assert_eq!(
        status(site.open().bearer_auth(TOKEN)).await,
        StatusCode::TOO_MANY_REQUESTS
    );
    assert_eq!(
        status(site.ping(&id).bearer_auth(TOKEN)).await,
        StatusCode::OK
    );
}

#[tokio::test]
async fn ending_a_principals_sessions_ends_their_streams() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let stop = CancellationToken::new();
    let (router, sessions) = http::mount(
        || Demo,
        HttpServeOptions::default(),
        &stop,
        std::convert::identity,
    );
    let (ada, token) = (Principal::new("ada"), Secret::new(TOKEN.to_owned()));
    let router = http::with_bearer(router, &token, ada.clone());
    let mut server = JoinSet::new();
    server.spawn(http::serve(listener, router, stop.clone()));
    let site = Site {
        url,
        client: Client::builder().no_proxy().build().unwrap(),
        stop,
        server,
    };
    let id = site.session(TOKEN).await;
    assert_eq!(id.len(), 64);
    let stream = site
        .client
        .get(&site.url)
        .bearer_auth(TOKEN)
        .header("mcp-session-id", &id);
    let stream = stream
        .header(header::ACCEPT, "text/event-stream")
        .send()
        .await
        .unwrap();
    sessions.end_sessions_of(&Principal::new("bob")).await;
    assert_eq!(sessions.count().await, 1);
    sessions.end_sessions_of(&ada).await;
    let rest = tokio::time::timeout(TIMEOUT, stream.text()).await;
    rest.expect("the stream goes on").unwrap();
    assert_eq!(
        status(site.ping(&id).bearer_auth(TOKEN)).await,
        StatusCode::NOT_FOUND
    );
    assert_eq!(sessions.count().await, 0);
}
