//! The HTTP front end, in the test's own process and as a program.

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use hermes_testkit::{
    Behaviour, DiscoverBehaviour, Era, Fault, FaultKind, HttpServer, HttpTransport, ReplyFormat,
    STATELESS, Tls, binary, eventually,
};
use reqwest::{Client, Response};
use serde_json::{Value, json};

const ACCEPT: &str = "application/json, text/event-stream";

/// Far longer than anything here takes, so that a busy machine fails no test.
const TIMEOUT: Duration = Duration::from_secs(30);

struct LegacyClient {
    client: Client,
    url: String,
    session: String,
}

impl LegacyClient {
    async fn connect(server: &HttpServer) -> Self {
        let client = Client::new();
        let url = server.url();
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {} });
        let response = post(&client, &url, &request("initialize", &params)).await;
        let session = response.headers()["mcp-session-id"]
            .to_str()
            .unwrap()
            .to_owned();
        assert!(message(response).await.get("result").is_some());
        Self {
            client,
            url,
            session,
        }
    }

    async fn request(&self, method: &str, params: &Value) -> Response {
        self.client
            .post(&self.url)
            .header("accept", ACCEPT)
            .header("mcp-session-id", &self.session)
            .body(request(method, params).to_string())
            .send()
            .await
            .unwrap()
    }

    async fn call(&self, tool: &str, arguments: Value) -> Response {
        self.request(
            "tools/call",
            &json!({ "name": tool, "arguments": arguments }),
        )
        .await
    }
}

fn request(method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })
}

async fn post(client: &Client, url: &str, body: &Value) -> Response {
    let request = client
        .post(url)
        .header("accept", ACCEPT)
        .body(body.to_string());
    request.send().await.unwrap()
}

/// Sends a stateless request with the headers it needs.
fn stateless(
    url: &str,
    method: &str,
    name: Option<&str>,
    params: Value,
) -> reqwest::RequestBuilder {
    let mut params = params;
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": STATELESS,
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let mut builder = Client::new()
        .post(url)
        .header("accept", ACCEPT)
        .header("mcp-protocol-version", STATELESS)
        .header("mcp-method", method)
        .body(request(method, &params).to_string());
    if let Some(name) = name {
        builder = builder.header("mcp-name", name);
    }
    builder
}

/// The last message of a reply, whatever its form.
async fn message(response: Response) -> Value {
    let is_json = response.headers()["content-type"] == "application/json";
    let body = response.text().await.unwrap();
    let data = if is_json {
        body.as_str()
    } else {
        let last = body
            .lines()
            .rfind(|line| line.starts_with("data: "))
            .unwrap();
        last.strip_prefix("data: ").unwrap()
    };
    serde_json::from_str(data).unwrap()
}

fn with_fault(fault: Fault) -> Behaviour {
    Behaviour::new().http(|http| http.faults.push(fault))
}

#[tokio::test]
async fn a_legacy_session_lives_from_initialize_to_delete() {
    let server = HttpServer::start(Behaviour::new());
    let client = LegacyClient::connect(&server).await;
    let answer = message(client.call("echo", json!({ "text": "hello" })).await).await;
    assert_eq!(answer["result"]["content"][0]["text"], "hello");

    let delete = client
        .client
        .delete(&client.url)
        .header("mcp-session-id", &client.session);
    assert_eq!(delete.send().await.unwrap().status(), 204);
    assert_eq!(client.call("echo", json!({})).await.status(), 404);
    let methods: Vec<String> = server.requests().into_iter().map(|r| r.method).collect();
    assert_eq!(methods, ["POST", "POST", "DELETE", "POST"]);
}

#[tokio::test]
async fn a_legacy_request_without_session_is_refused() {
    let server = HttpServer::start(Behaviour::new().era(Era::Legacy));
    let response = post(
        &Client::new(),
        &server.url(),
        &request("tools/list", &json!({})),
    )
    .await;
    assert_eq!(response.status(), 400);
    let probe = stateless(&server.url(), "server/discover", None, json!({}));
    assert_eq!(probe.send().await.unwrap().status(), 400);
}

#[tokio::test]
async fn replies_are_streams_or_json() {
    for (reply, kind) in [
        (ReplyFormat::Sse, "text/event-stream"),
        (ReplyFormat::Json, "application/json"),
    ] {
        let server = HttpServer::start(Behaviour::new().http(|http| http.reply = reply));
        let client = LegacyClient::connect(&server).await;
        let response = client.call("echo", json!({ "text": "a" })).await;
        assert_eq!(response.headers()["content-type"], kind);
        assert_eq!(message(response).await["result"]["content"][0]["text"], "a");
    }
}

#[tokio::test]
async fn a_stateless_request_stands_alone() {
    let server = HttpServer::start(Behaviour::new());
    let discover = stateless(&server.url(), "server/discover", None, json!({}));
    let answer = message(discover.send().await.unwrap()).await;
    assert_eq!(answer["result"]["supportedVersions"][0], STATELESS);
    let params = json!({ "name": "echo", "arguments": { "text": "hi" } });
    let call = stateless(&server.url(), "tools/call", Some("echo"), params);
    let response = call.send().await.unwrap();
    assert!(response.headers().get("mcp-session-id").is_none());
    assert_eq!(
        message(response).await["result"]["content"][0]["text"],
        "hi"
    );
    assert_eq!(server.requests()[1].header("Mcp-Name"), Some("echo"));
}

#[tokio::test]
async fn headers_of_a_stateless_request_must_fit_its_body() {
    let server = HttpServer::start(Behaviour::new());
    let params = json!({ "name": "echo", "arguments": {} });
    for name in [None, Some("add")] {
        let response = stateless(&server.url(), "tools/call", name, params.clone());
        let response = response.send().await.unwrap();
        assert_eq!(response.status(), 400);
        assert_eq!(message(response).await["error"]["code"], -32020);
    }
    // A name that cannot be a header travels encoded: this is "echo".
    let encoded = stateless(
        &server.url(),
        "tools/call",
        Some("=?base64?ZWNobw==?="),
        params,
    );
    assert_eq!(encoded.send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn stateless_errors_have_their_status() {
    let server =
        HttpServer::start(Behaviour::new().discover(DiscoverBehaviour::UnsupportedVersion));
    let probe = stateless(&server.url(), "server/discover", None, json!({}));
    let response = probe.send().await.unwrap();
    assert_eq!(response.status(), 400);
    assert_eq!(message(response).await["error"]["code"], -32022);
    let unknown = stateless(&server.url(), "no/such", None, json!({}));
    assert_eq!(unknown.send().await.unwrap().status(), 404);
    let missing = json!({ "uri": "test://none" });
    let missing = stateless(
        &server.url(),
        "resources/read",
        Some("test://none"),
        missing,
    );
    assert_eq!(missing.send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn leaving_a_stateless_call_cancels_it() {
    let server = HttpServer::start(Behaviour::new());
    let params = json!({ "name": "sleep", "arguments": { "ms": 60_000 } });
    let call = stateless(&server.url(), "tools/call", Some("sleep"), params);
    let arrived = eventually(TIMEOUT, || !server.requests().is_empty());
    tokio::select! {
        answer = call.send() => panic!("{answer:?}"),
        has_arrived = arrived => assert!(has_arrived),
    }
    assert!(eventually(TIMEOUT, || server.requests()[0].abandoned).await);
}

#[tokio::test]
async fn a_subscription_streams_changes() {
    let server = HttpServer::start(Behaviour::new());
    let params = json!({ "notifications": { "toolsListChanged": true } });
    let listen = stateless(&server.url(), "subscriptions/listen", None, params);
    let mut stream = listen.send().await.unwrap();
    let next = async |stream: &mut Response| {
        String::from_utf8(stream.chunk().await.unwrap().unwrap().to_vec()).unwrap()
    };
    assert!(
        next(&mut stream)
            .await
            .contains("notifications/subscriptions/acknowledged")
    );
    let change = json!({ "name": "change_tools", "arguments": {} });
    let call = stateless(&server.url(), "tools/call", Some("change_tools"), change);
    call.send().await.unwrap();
    assert!(
        next(&mut stream)
            .await
            .contains("notifications/tools/list_changed")
    );
}

#[tokio::test]
async fn the_get_stream_carries_changes_to_legacy_clients() {
    let server = HttpServer::start(Behaviour::new().http(|http| http.retry_ms = Some(500)));
    let client = LegacyClient::connect(&server).await;
    let get = client
        .client
        .get(&client.url)
        .header("mcp-session-id", &client.session);
    let mut stream = get.send().await.unwrap();
    let opening = stream.chunk().await.unwrap().unwrap();
    assert!(String::from_utf8_lossy(&opening).contains("retry: 500"));
    client.call("burst", json!({ "n": 1 })).await;
    let event = stream.chunk().await.unwrap().unwrap();
    assert!(String::from_utf8_lossy(&event).contains("notifications/tools/list_changed"));

    let without = HttpServer::start(Behaviour::new().http(|http| http.get_stream = false));
    assert_eq!(reqwest::get(without.url()).await.unwrap().status(), 405);
}

#[tokio::test]
async fn the_first_session_is_forgotten_after_some_requests() {
    let server =
        HttpServer::start(Behaviour::new().http(|http| http.forget_session_after = Some(2)));
    let first = LegacyClient::connect(&server).await;
    for status in [200, 200, 404, 404] {
        assert_eq!(first.call("echo", json!({})).await.status(), status);
    }
    let second = LegacyClient::connect(&server).await;
    for _ in 0..4 {
        assert_eq!(second.call("echo", json!({})).await.status(), 200);
    }
}

#[tokio::test]
async fn a_stream_can_be_cut_inside_an_event() {
    let server = HttpServer::start(with_fault(Fault::on("echo", FaultKind::Cut)));
    let client = LegacyClient::connect(&server).await;
    let mut response = client.call("echo", json!({ "text": "hello" })).await;
    assert_eq!(response.status(), 200);
    let half = response.chunk().await.unwrap().unwrap();
    assert!(half.starts_with(b"event: message\ndata: {") && !half.ends_with(b"\n\n"));
    assert!(response.chunk().await.is_err());
}

#[tokio::test]
async fn an_answer_can_wait_for_the_client_to_return() {
    let server = HttpServer::start(with_fault(Fault::on("echo", FaultKind::Postpone(50))));
    let client = LegacyClient::connect(&server).await;
    let first = client.call("echo", json!({ "text": "later" })).await;
    let first = first.text().await.unwrap();
    let id = first.lines().next().unwrap().strip_prefix("id: ").unwrap();
    assert!(first.contains("retry: 50"));
    let fetch = client
        .client
        .get(&client.url)
        .header("mcp-session-id", &client.session)
        .header("last-event-id", id);
    let answer = message(fetch.send().await.unwrap()).await;
    assert_eq!(answer["result"]["content"][0]["text"], "later");
}

#[tokio::test]
async fn a_redirect_can_lead_to_another_origin() {
    let target = HttpServer::start(Behaviour::new());
    let server = HttpServer::start(with_fault(Fault::always(FaultKind::Redirect(target.url()))));
    let client = Client::new();
    let request = client
        .post(server.url())
        .header("accept", ACCEPT)
        .header("x-secret", "s");
    let initialize = self::request("initialize", &json!({ "protocolVersion": "2025-11-25" }));
    let response = request.body(initialize.to_string()).send().await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(server.requests().len(), 1);
    assert_eq!(target.requests()[0].header("x-secret"), Some("s"));
    assert_eq!(target.requests()[0].rpc_method(), "initialize");
}

#[tokio::test]
async fn statuses_and_challenges_come_when_they_should() {
    let cases = [
        (FaultKind::Status(503), 503, None),
        (
            FaultKind::Unauthorized("Bearer realm=\"x\"".into()),
            401,
            Some("realm"),
        ),
        (
            FaultKind::InsufficientScope("write".into()),
            403,
            Some("scope=\"write\""),
        ),
        (FaultKind::Html, 200, None),
    ];
    for (trouble, status, challenge) in cases {
        let is_page = trouble == FaultKind::Html;
        let server = HttpServer::start(with_fault(Fault::always(trouble).after(1).times(1)));
        let client = LegacyClient::connect(&server).await;
        let struck = client.call("echo", json!({})).await;
        assert_eq!(struck.status(), status);
        if let Some(challenge) = challenge {
            let header = struck.headers()["www-authenticate"].to_str().unwrap();
            assert!(header.contains(challenge));
        }
        if is_page {
            assert!(struck.text().await.unwrap().contains("<h1>"));
        }
        let spared = client.call("echo", json!({})).await;
        assert_eq!(spared.headers()["content-type"], "text/event-stream");
    }
}

#[tokio::test]
async fn a_token_can_be_required() {
    let server = HttpServer::start(Behaviour::new().http(|http| http.bearer = Some("t".into())));
    let probe = || stateless(&server.url(), "server/discover", None, json!({}));
    assert_eq!(probe().send().await.unwrap().status(), 401);
    assert_eq!(probe().bearer_auth("t").send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn replies_can_be_huge_late_slow_or_missing() {
    let huge = HttpServer::start(with_fault(Fault::always(FaultKind::Oversized(1 << 20))));
    let body = reqwest::get(huge.url())
        .await
        .unwrap()
        .bytes()
        .await
        .unwrap();
    assert_eq!(body.len(), (1 << 20) + "data: \n\n".len());

    let initialize = request("initialize", &json!({ "protocolVersion": "2025-11-25" }));
    for trouble in [FaultKind::Delay(200), FaultKind::Trickle(100, 100)] {
        let slow = HttpServer::start(with_fault(Fault::always(trouble)));
        let begun = Instant::now();
        let answer = message(post(&Client::new(), &slow.url(), &initialize).await).await;
        assert!(answer.get("result").is_some());
        assert!(begun.elapsed() >= Duration::from_millis(200));
    }

    let rude = HttpServer::start(with_fault(Fault::always(FaultKind::Hangup)));
    assert!(reqwest::get(rude.url()).await.is_err());
}

#[tokio::test]
async fn a_crash_closes_the_port_and_another_server_can_take_it() {
    let mut server = HttpServer::start(Behaviour::new());
    let client = LegacyClient::connect(&server).await;
    let params = json!({ "name": "crash" });
    let crash = client.client.post(&client.url).header("accept", ACCEPT);
    let crash = crash.header("mcp-session-id", &client.session);
    let crash = crash.body(request("tools/call", &params).to_string());
    assert!(crash.send().await.is_err());
    server.wait();
    assert!(reqwest::get(server.url()).await.is_err());
    let again = HttpServer::start_on(server.port(), Behaviour::new());
    assert_eq!(again.url(), server.url());
    LegacyClient::connect(&again).await;
}

#[tokio::test]
async fn the_last_answer_arrives_before_the_server_dies() {
    let mut server = HttpServer::start(Behaviour::new().calls(|calls| calls.die_after = Some(1)));
    let client = LegacyClient::connect(&server).await;
    let answer = message(client.call("echo", json!({ "text": "last" })).await).await;
    assert_eq!(answer["result"]["content"][0]["text"], "last");
    server.wait();
    assert!(reqwest::get(server.url()).await.is_err());
}

#[tokio::test]
async fn the_older_transport_names_where_to_post() {
    let server =
        HttpServer::start(Behaviour::new().http(|http| http.transport = HttpTransport::Sse));
    assert!(server.url().ends_with("/sse"));
    let mut stream = reqwest::get(server.url()).await.unwrap();
    let opening = String::from_utf8(stream.chunk().await.unwrap().unwrap().to_vec()).unwrap();
    let endpoint = opening
        .strip_prefix("event: endpoint\ndata: ")
        .unwrap()
        .trim_end();
    let url = format!("{}{endpoint}", server.origin());
    let initialize = request("initialize", &json!({ "protocolVersion": "2024-11-05" }));
    assert_eq!(post(&Client::new(), &url, &initialize).await.status(), 202);
    let event = String::from_utf8(stream.chunk().await.unwrap().unwrap().to_vec()).unwrap();
    assert!(event.contains(r#""protocolVersion":"2024-11-05""#));
}

#[tokio::test]
async fn tls_can_demand_a_certificate_of_the_client() {
    let server = HttpServer::start(Behaviour::new().http(|http| {
        http.tls = Some(Tls {
            require_client_certificate: true,
            directory: None,
        });
    }));
    let certificates = server.certificates().unwrap();
    let authority = reqwest::Certificate::from_pem(certificates.authority.as_bytes()).unwrap();
    let identity = format!(
        "{}{}",
        certificates.client_certificate, certificates.client_key
    );
    let identity = reqwest::Identity::from_pem(identity.as_bytes()).unwrap();
    let builder = || Client::builder().tls_certs_only([authority.clone()]);

    let stranger = builder().build().unwrap().get(server.url()).send().await;
    assert!(stranger.is_err());
    let known = builder().identity(identity).build().unwrap();
    assert_eq!(known.get(server.url()).send().await.unwrap().status(), 400);
    assert!(Client::new().get(server.url()).send().await.is_err());
}

#[tokio::test]
async fn the_program_prints_its_url_first() {
    let mut child = Command::new(binary("testkit-http"))
        .arg(r#"{"name":"outside"}"#)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut url = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut url)
        .unwrap();
    let initialize = request("initialize", &json!({ "protocolVersion": "2025-11-25" }));
    let answer = message(post(&Client::new(), url.trim(), &initialize).await).await;
    assert_eq!(answer["result"]["serverInfo"]["name"], "outside");
    child.kill().unwrap();
    child.wait().unwrap();
}
