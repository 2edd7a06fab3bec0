//! Traces of a Hub: what a collector receives, and that nobody suffers from one that is out of order.

mod inside;

use std::time::{Duration, Instant};

use reqwest::{Client, Method, RequestBuilder};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    harness::{
        test_home::{BackgroundProcess, TestHome, wait_until},
        trace_receiver::{ReceivedSpan, ReceiverMode, TraceReceiver},
    },
    hub::hub_process::HubProcess,
};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

fn fresh_home() -> TestHome {
    let home = TestHome::fresh();
    std::fs::create_dir(home.path()).unwrap();
    home
}

fn hub_with(settings: &[&str]) -> HubProcess {
    HubProcess::with_settings(fresh_home(), settings)
}

fn request(hub: &HubProcess, method: Method, path: &str) -> RequestBuilder {
    let client = Client::builder().no_proxy().build().unwrap();
    let url = format!("{}{path}", hub.url);
    client.request(method, url).bearer_auth(hub.token())
}

fn attribute<'a>(span: &'a ReceivedSpan, name: &str) -> &'a str {
    let value = span.attributes.get(name);
    value.unwrap_or_else(|| panic!("no `{name}` in {span:?}"))
}

/// The Hub's metrics, whose address it has printed.
async fn metrics(process: &BackgroundProcess) -> String {
    let line = process.seen.iter().find(|line| line.contains("Metrics:"));
    let url = line.unwrap().split_whitespace().last().unwrap().to_owned();
    let client = Client::builder().no_proxy().build().unwrap();
    client.get(url).send().await.unwrap().text().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_continues_the_trace_of_its_caller() {
    let receiver = TraceReceiver::start(ReceiverMode::Accepts);
    let endpoint = format!("telemetry.endpoint={}", receiver.url);
    let hub = hub_with(&[&endpoint, "telemetry.headers=authorization=Bearer planted"]);
    let listed = request(&hub, Method::GET, "/v1/tenants?limit=5")
        .header("traceparent", format!("00-{TRACE}-{PARENT}-01"))
        .header("tracestate", "vendor=1")
        .header("baggage", "user=lovelace")
        .header("x-request-id", "asked-by-test")
        .send();
    assert_eq!(listed.await.unwrap().status(), 200);
    let span = receiver.wait_for("GET /v1/tenants", Some(TRACE));
    assert_eq!(span.parent, PARENT);
    assert_eq!(attribute(&span, "http.route"), "/v1/tenants");
    assert_eq!(attribute(&span, "http.response.status_code"), "200");
    assert_eq!(attribute(&span, "hermes.request.id"), "asked-by-test");
    assert_eq!(span.resource["service.name"], "hermes-hub");
    let operation = receiver.wait_for("list_tenants", Some(TRACE));
    assert_eq!(operation.parent, span.id);
    assert_eq!(attribute(&operation, "hermes.via"), "rest");

    // One that is malformed is nobody's parent.
    let health = request(&hub, Method::GET, "/v1/healthz").header("traceparent", "00-zz-1-01");
    assert_eq!(health.send().await.unwrap().status(), 200);
    let span = receiver.wait_for("GET /v1/healthz", None);
    assert_eq!(span.parent, "");
    assert_ne!(span.trace, TRACE);

    // What is not there has no route, and its path is not told.
    let lost = request(&hub, Method::GET, "/v1/planted-path");
    assert_eq!(lost.send().await.unwrap().status(), 404);
    let span = receiver.wait_for("GET", None);
    assert_eq!(attribute(&span, "http.response.status_code"), "404");
    let heads = receiver.heads();
    assert!(
        heads[0].starts_with("post /v1/traces http/1.1"),
        "{heads:?}"
    );
    assert!(heads[0].contains("authorization: bearer planted"));
    let said = format!("{:?}", receiver.spans());
    for secret in ["planted", "lovelace", &hub.token()] {
        assert!(!said.contains(secret), "{secret} is in {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_call_continues_the_trace_that_its_meta_names() {
    let receiver = TraceReceiver::start(ReceiverMode::Accepts);
    let hub = hub_with(&[&format!("telemetry.endpoint={}", receiver.url)]);
    let other = "4bf92f3577b34da6a3ce929d0e0e4736";
    // What asks for progress is answered by rmcp, and everything else on the fast path.
    for (trace, more) in [(TRACE, json!({})), (other, json!({"progressToken": 7}))] {
        let mut meta = json!({
            "io.modelcontextprotocol/protocolVersion": hermes_testkit::STATELESS,
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "traceparent": format!("00-{trace}-{PARENT}-01"),
        });
        let members = more.as_object().unwrap().clone();
        meta.as_object_mut().unwrap().extend(members);
        let params = json!({"name": "list_tenants", "arguments": {}, "_meta": meta});
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let answer = request(&hub, Method::POST, "/mcp")
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", hermes_testkit::STATELESS)
            .header("mcp-method", "tools/call")
            .header("mcp-name", "list_tenants")
            .body(call.to_string());
        let answer = answer.send().await.unwrap();
        assert_eq!(answer.status(), 200);
        let text = answer.text().await.unwrap();
        assert!(text.contains("tenants"), "{text}");
        let span = receiver.wait_for("tools/call list_tenants", Some(trace));
        assert_eq!(span.parent, PARENT);
        assert_eq!(attribute(&span, "mcp.method.name"), "tools/call");
        let operation = receiver.wait_for("list_tenants", Some(trace));
        assert_eq!(operation.parent, span.id);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_gone_slow_or_mad_hurts_nobody() {
    let closed = hermes_testkit::ReservedPort::reserve().unwrap();
    let address = format!("http://127.0.0.1:{}", closed.number());
    let mad = [
        ReceiverMode::Silent,
        ReceiverMode::Garbage,
        ReceiverMode::Fails,
    ]
    .map(TraceReceiver::start);
    let mut endpoints = vec![address];
    endpoints.extend(mad.iter().map(|receiver| receiver.url.clone()));
    for endpoint in endpoints {
        let setting = format!("telemetry.endpoint={endpoint}");
        let mut hub = hub_with(&[&setting, "metrics.listen=127.0.0.1:0"]);
        for _ in 0..20 {
            let listed = request(&hub, Method::GET, "/v1/tenants").send().await;
            assert_eq!(listed.unwrap().status(), 200);
        }
        let dropped = hermes_testkit::eventually_some(Duration::from_mins(1), async || {
            let text = metrics(&hub.process).await;
            let line = text
                .lines()
                .find(|line| line.starts_with("hermes_hub_spans_dropped_total"))?;
            line.split(' ')
                .next_back()?
                .parse::<u64>()
                .ok()
                .filter(|count| *count > 0)
        });
        assert!(dropped.await.is_some(), "{endpoint}: nothing is dropped");
        let stopping = Instant::now();
        hub.process.signal(Signal::TERM);
        assert_eq!(hub.process.wait(), Some(0));
        // Two seconds for the last spans, and the rest for a loaded machine.
        assert!(stopping.elapsed() < Duration::from_secs(20), "{endpoint}");
        let log = std::fs::read_to_string(hub.data().join("logs/hub.log")).unwrap();
        let warnings = log.lines().filter(|line| line.contains("spans dropped"));
        assert_eq!(warnings.count(), 1, "{log}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_endpoint_nothing_is_traced() {
    let hub = hub_with(&["metrics.listen=127.0.0.1:0"]);
    let listed = request(&hub, Method::GET, "/v1/tenants").send().await;
    assert_eq!(listed.unwrap().status(), 200);
    let text = metrics(&hub.process).await;
    assert!(text.contains("hermes_hub_requests_total"), "{text}");
    assert!(!text.contains("spans"), "{text}");
}

/// A Hub with these variables, until it listens.
fn hub_with_variables(variables: &[(&str, &str)]) -> (TestHome, BackgroundProcess, String) {
    let home = fresh_home();
    let settings = [
        "--set",
        "runtime=mock",
        "--set",
        "metrics.listen=127.0.0.1:0",
    ];
    let mut command = home.command(&[&["hub", "serve"], &settings[..]].concat());
    command.envs(variables.iter().copied());
    let mut process = BackgroundProcess::start(command);
    let line = process.wait_for("listens on http://");
    let url = line.split_whitespace().last().unwrap().to_owned();
    process.wait_for("Isolation:");
    (home, process, url)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_standard_variables_turn_it_on_and_off() {
    let receiver = TraceReceiver::start(ReceiverMode::Accepts);
    let on = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url.as_str()),
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-key=a%20b"),
        ("OTEL_SERVICE_NAME", "front"),
        (
            "OTEL_RESOURCE_ATTRIBUTES",
            "deployment.environment.name=test",
        ),
    ];
    let (_home, _hub, url) = hub_with_variables(&on);
    let client = Client::builder().no_proxy().build().unwrap();
    let health = client.get(format!("{url}/v1/healthz")).send().await;
    assert_eq!(health.unwrap().status(), 200);
    let span = receiver.wait_for("GET /v1/healthz", None);
    assert_eq!(span.resource["service.name"], "front");
    assert_eq!(span.resource["deployment.environment.name"], "test");
    assert!(
        receiver.heads()[0].contains("x-key: a b"),
        "{:?}",
        receiver.heads()
    );

    let off = [&on[..], &[("OTEL_SDK_DISABLED", "true")]].concat();
    let (_home, hub, url) = hub_with_variables(&off);
    let health = client.get(format!("{url}/v1/healthz")).send().await;
    assert_eq!(health.unwrap().status(), 200);
    assert!(!metrics(&hub).await.contains("spans"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_of_the_traces_is_recorded_if_that_is_wanted() {
    let receiver = TraceReceiver::start(ReceiverMode::Accepts);
    let endpoint = format!("telemetry.endpoint={}", receiver.url);
    let hub = hub_with(&[&endpoint, "telemetry.sample_ratio=0"]);
    let health = request(&hub, Method::GET, "/v1/healthz").send().await;
    assert_eq!(health.unwrap().status(), 200);
    // A caller who records has decided for the whole trace.
    let listed = request(&hub, Method::GET, "/v1/tenants")
        .header("traceparent", format!("00-{TRACE}-{PARENT}-01"))
        .send();
    assert_eq!(listed.await.unwrap().status(), 200);
    receiver.wait_for("GET /v1/tenants", Some(TRACE));
    let names: Vec<_> = receiver.spans().into_iter().map(|span| span.name).collect();
    assert!(!names.contains(&"GET /v1/healthz".to_owned()), "{names:?}");
}

#[test]
fn settings_that_cannot_work_are_refused_and_keep_secrets() {
    let home = fresh_home();
    for (setting, told) in [
        (
            "telemetry.endpoint=localhost:4318",
            "such as `http://localhost:4318`",
        ),
        ("telemetry.sample_ratio=1.5", "a number from 0 to 1"),
    ] {
        let refused = home.run(&["hub", "serve", "--set", setting]).exits_with(2);
        assert!(refused.stderr.contains(told), "{refused:?}");
    }
    let wrong = "telemetry.headers=hunter2-hunter2";
    let endpoint = "telemetry.endpoint=http://127.0.0.1:1";
    let refused = home.run(&["hub", "serve", "--set", endpoint, "--set", wrong]);
    let refused = refused.exits_with(2).hides(&["hunter2"]);
    assert!(refused.stderr.contains("telemetry.headers"), "{refused:?}");
}

#[test]
fn a_client_of_the_bridge_is_continued_too() {
    use std::io::Write as _;
    let receiver = TraceReceiver::start(ReceiverMode::Accepts);
    let home = fresh_home();
    let mut command = home.command(&["mcp", "serve"]);
    command
        .env(
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
            format!("{}/v1/traces", receiver.url),
        )
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null());
    let mut bridge = command.spawn().unwrap();
    let mut input = bridge.stdin.take().unwrap();
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"}});
    let meta = json!({"traceparent": format!("00-{TRACE}-{PARENT}-01")});
    let call = json!({"name": "conversations_list", "arguments": {}, "_meta": meta});
    let messages: [Value; 3] = [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}),
    ];
    for message in messages {
        writeln!(input, "{message}").unwrap();
    }
    let span = receiver.wait_for("tools/call conversations_list", Some(TRACE));
    assert_eq!(span.parent, PARENT);
    assert_eq!(span.resource["service.name"], "hermes-bridge");
    drop(input);
    wait_until("the bridge ends", || bridge.try_wait().unwrap().is_some());
}

#[test]
fn up_takes_the_settings_of_its_hub() {
    let receiver = TraceReceiver::start(ReceiverMode::Accepts);
    let home = fresh_home();
    let data = home.beside(".local/share/hermes-hub");
    std::fs::create_dir_all(&data).unwrap();
    let settings = json!({"telemetry": {"endpoint": receiver.url, "service_name": "mine"}});
    std::fs::write(data.join("hub.yaml"), settings.to_string()).unwrap();
    let mut up = home.start(&["up", "--no-open"]);
    let line = up.wait_for("Hub: http://");
    let mut words = line.split_whitespace();
    let url = words.find(|word| word.starts_with("http://")).unwrap();
    home.run(&["hub", "status", "--hub", url]).ok();
    let span = receiver.wait_for("GET /v1/readyz", None);
    assert_eq!(span.resource["service.name"], "mine");
}
