//! One trace through everything: a request, the Hub, its run, the agent's process, its model and its MCP servers.

use std::path::PathBuf;

use hermes_testkit::{
    Behaviour, HttpServer, PhoenixServer,
    model::{ModelScript, ModelServer, ScriptedAnswer},
    recorded,
};
use reqwest::Method;
use serde_json::{Value, json};

use super::real_hub::{RealHub, TIMEOUT};
use crate::harness::{
    program::{entry, installed, with_tools},
    test_home::wait_until,
    trace_receiver::{ReceivedSpan, ReceiverMode, TraceReceiver},
};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";
/// Said by people, models and servers, and so in no span.
const SAID: &str = "planted-words";

/// A tenant with a model and two servers, whose run is over.
struct TracedRun {
    hub: RealHub,
    _model: ModelServer,
    http: HttpServer,
    record: PathBuf,
    run: Value,
}

fn server() -> Behaviour {
    with_tools(&["look"])
}

async fn run_traced(endpoint: &str) -> TracedRun {
    let home = RealHub::fresh_home();
    let record = home.beside("messages.jsonl");
    let setting = format!("telemetry.endpoint={endpoint}");
    let arguments = ["--set", &setting, "--set", "isolation.mode=off"];
    let hub = RealHub::with_arguments(home, &arguments);
    let words = json!({"text": SAID});
    let script = ModelScript::echo().rule(
        "begin",
        ScriptedAnswer::calls([
            ("mcp_local_look", words.clone()),
            ("mcp_remote_look", words),
        ]),
    );
    let model = hub.tenant("acme", json!({}), script).await;
    let http = HttpServer::start(server());
    let local = entry(&server().record(&record));
    for (name, config) in [("local", local), ("remote", json!({"url": http.url()}))] {
        let path = format!("/v1/tenants/acme/mcp-servers/{name}");
        hub.request(Method::PUT, &path, &config).await.expect(201);
        let path = format!("{path}/test");
        let tested = hub
            .request(Method::POST, &path, &json!({}))
            .await
            .expect(200);
        assert_eq!(tested["ok"], true, "{tested}");
    }
    let started = hub
        .authorized(Method::POST, "/v1/tenants/acme/runs")
        .header("traceparent", format!("00-{TRACE}-{PARENT}-01"))
        .header("content-type", "application/json")
        .body(json!({"input": format!("begin {SAID}")}).to_string())
        .send();
    let started = started.await.unwrap();
    assert_eq!(started.status(), 202);
    let started: Value = serde_json::from_str(&started.text().await.unwrap()).unwrap();
    let path = format!(
        "/v1/tenants/acme/runs/{}",
        started["runId"].as_str().unwrap()
    );
    let run = hub.wait_for_end(&path).await;
    assert_eq!(run["status"], "completed", "{run}");
    TracedRun {
        hub,
        _model: model,
        http,
        record,
        run,
    }
}

impl TracedRun {
    /// Both servers were told where in the trace they are.
    fn check_servers(&self) {
        let is_ours = |value: &str| value.starts_with(&format!("00-{TRACE}-"));
        let calls = recorded(&self.record, "tools/call");
        let of_run = |call: &&Value| call["params"]["arguments"]["text"] == SAID;
        let call = calls.iter().find(of_run).unwrap();
        let told = call["params"]["_meta"]["traceparent"].as_str();
        assert!(told.is_some_and(is_ours), "{call}");
        assert!(call["params"]["_meta"].get("baggage").is_none(), "{call}");
        let requests = self.http.requests();
        let of_run = |body: &str| body.contains("tools/call") && body.contains(SAID);
        let request = requests.iter().find(|it| of_run(&it.body)).unwrap();
        let body: Value = serde_json::from_str(&request.body).unwrap();
        let told = body["params"]["_meta"]["traceparent"].as_str().unwrap();
        assert!(is_ours(told), "{body}");
        let header = request
            .headers
            .iter()
            .find(|(name, _)| name == "traceparent");
        assert_eq!(header.map(|(_, value)| value.as_str()), Some(told));
    }
}

/// The spans of the trace by name, and how many there are of each at least.
const ENDED: [(&str, usize); 9] = [
    ("POST /v1/tenants/{tenant_id}/runs", 1),
    ("create_run", 1),
    ("run", 2),
    ("POST /v1/runs", 1),
    ("invoke_agent hermes", 1),
    ("execute_tool mcp_local_look", 1),
    ("execute_tool mcp_remote_look", 1),
    ("tools/call look", 2),
    ("chat m", 2),
];

/// From a span up to the one that has no parent here, by name.
fn way_up(spans: &[ReceivedSpan], from: &ReceivedSpan) -> Vec<String> {
    let mut way = vec![from.name.clone()];
    let mut at = from;
    while let Some(parent) = spans.iter().find(|span| span.id == at.parent) {
        way.push(parent.name.clone());
        at = parent;
    }
    way
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trace_goes_from_a_request_to_the_agents_servers() {
    let receiver = TraceReceiver::start(ReceiverMode::Accepts);
    let traced = run_traced(&receiver.url).await;
    traced.check_servers();
    let of_trace = || -> Vec<_> {
        let spans = receiver.spans().into_iter();
        spans.filter(|span| span.trace == TRACE).collect()
    };
    // The Hub and the agent send theirs when they end, each at its own time.
    wait_until("the trace is complete", || {
        let spans = of_trace();
        let count = |name: &str| spans.iter().filter(|span| span.name == name).count();
        ENDED.iter().all(|(name, least)| count(name) >= *least)
    });
    let spans = of_trace();
    let of_server = |server: &str| {
        let found = spans.iter().find(|span| {
            let servers = span.attributes.get("hermes.mcp.server");
            servers.is_some_and(|it| it == server)
        });
        found.unwrap_or_else(|| panic!("{server}: {spans:#?}"))
    };
    for server in ["local", "remote"] {
        let call = of_server(server);
        assert_eq!(call.resource["service.name"], "hermes-agent");
        assert_eq!(call.resource["hermes.tenant.id"], "acme");
        let way = way_up(&spans, call);
        let tool = format!("execute_tool mcp_{server}_look");
        assert_eq!(
            way,
            [
                "tools/call look",
                &tool,
                "invoke_agent hermes",
                "run",
                "POST /v1/runs",
                "run",
                "create_run",
                "POST /v1/tenants/{tenant_id}/runs",
            ]
        );
    }
    let id = traced.run["runId"].as_str().unwrap();
    let runs = spans.iter().filter(|span| span.name == "run");
    assert!(
        runs.clone()
            .any(|span| span.attributes["hermes.run.id"] == id),
        "{spans:#?}"
    );
    let asked = spans.iter().filter(|span| span.name == "chat m");
    assert_eq!(asked.clone().count(), 2);
    for chat in asked {
        assert_eq!(chat.attributes["gen_ai.operation.name"], "chat");
        assert_eq!(chat.attributes["gen_ai.request.model"], "m");
    }
    let told = format!("{spans:?}");
    assert!(!told.contains(SAID), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_of_others_shows_the_whole_trace() {
    let Some(program) = installed("HERMES_TEST_PHOENIX", "phoenix") else {
        return;
    };
    let collector = PhoenixServer::start(&program);
    let traced = run_traced(&collector.url()).await;
    traced.check_servers();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let list = format!(
        "{}/v1/projects/default/spans?limit=1000&trace_id={TRACE}",
        collector.url()
    );
    let spans = hermes_testkit::eventually_some(TIMEOUT, async || {
        let reply = client.get(&list).send().await.ok()?;
        let page: Value = serde_json::from_str(&reply.text().await.ok()?).ok()?;
        let spans = page["data"].as_array()?.clone();
        let ended = ["invoke_agent hermes", "POST /v1/tenants/{tenant_id}/runs"];
        let has = |name: &str| spans.iter().any(|span| span["name"] == name);
        (ended.into_iter().all(has) && spans.iter().filter(|it| it["name"] == "run").count() == 2)
            .then_some(spans)
    });
    let spans = spans.await.expect("the trace is complete");
    for span in &spans {
        assert_eq!(span["context"]["trace_id"], TRACE, "{span}");
        // Every span but the first has its parent in the trace.
        let parent = &span["parent_id"];
        let is_there = spans.iter().any(|it| it["context"]["span_id"] == *parent);
        assert!(is_there || parent == PARENT, "{span}");
    }
    for name in ["execute_tool mcp_local_look", "tools/call look", "chat m"] {
        assert!(
            spans.iter().any(|span| span["name"] == name),
            "{name}: {spans:#?}"
        );
    }
    let told = json!(spans).to_string();
    assert!(!told.contains(SAID), "{told}");
    drop(traced.hub);
}
