//! What happens inside a Hub: commits, due times, and requests that another node does.

use hermes_testkit::postgres::TestDatabase;
use jiff::Timestamp;
use reqwest::{Client, Method};
use serde_json::json;

use super::{PARENT, TRACE, attribute, fresh_home, hub_with, request};
use crate::{
    harness::{
        test_home::wait_until,
        trace_receiver::{ReceiverMode, TraceReceiver},
    },
    hub::hub_process::HubProcess,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_change_tells_of_its_commit_and_a_due_time_of_its_run() {
    let receiver = TraceReceiver::start(ReceiverMode::Accepts);
    let hub = hub_with(&[&format!("telemetry.endpoint={}", receiver.url)]);
    let made = request(&hub, Method::POST, "/v1/tenants")
        .header("traceparent", format!("00-{TRACE}-{PARENT}-01"))
        .header("content-type", "application/json")
        .body(json!({"id": "acme"}).to_string())
        .send();
    assert_eq!(made.await.unwrap().status(), 201);
    let operation = receiver.wait_for("create_tenant", Some(TRACE));
    let find = || {
        let mut spans = receiver.spans().into_iter();
        spans.find(|span| span.name == "commit" && span.parent == operation.id)
    };
    wait_until("the commit of the change is told", || find().is_some());
    let commit = find().unwrap();
    assert_eq!(attribute(&commit, "db.system.name"), "sqlite");
    let writes: u32 = attribute(&commit, "db.operation.batch.size")
        .parse()
        .unwrap();
    assert!(writes >= 1, "{commit:?}");

    wait_until("the tenant is ready", || {
        hub.json(&["tenant", "get", "acme"])["status"] == "ready"
    });
    let due = Timestamp::from_second(Timestamp::now().as_second() + 5).unwrap();
    let due = due.to_string();
    hub.run(&["tenant", "cron", "create", "acme", &due, "Look around"])
        .ok();
    let fire = receiver.wait_for("cron_fire", None);
    assert_eq!(fire.parent, "");
    assert_eq!(attribute(&fire, "hermes.tenant.id"), "acme");
    assert_eq!(attribute(&fire, "hermes.fire.outcome"), "run");
    let run = receiver.wait_for("run", Some(&fire.trace));
    assert_eq!(run.parent, fire.id);
    assert_eq!(
        attribute(&run, "hermes.job.id"),
        attribute(&fire, "hermes.job.id")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_another_node_does_stays_in_its_trace() {
    let receiver = TraceReceiver::start(ReceiverMode::Accepts);
    let database = TestDatabase::create();
    let shared = tempfile::tempdir().unwrap();
    let place = |name: &str| shared.path().join(name).display().to_string();
    let start = |node: &str| {
        let settings = [
            format!("database.url={}", database.url()),
            format!("objects.url=file://{}", place("objects")),
            format!("secrets.key_file={}", place("secret.key")),
            format!("admin_token_file={}", place("admin.token")),
            format!("node.id={node}"),
            format!("telemetry.endpoint={}", receiver.url),
        ];
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        HubProcess::with_settings(fresh_home(), &settings)
    };
    std::fs::create_dir(place("objects")).unwrap();
    let one = start("n1");
    let token = std::fs::read_to_string(place("admin.token")).unwrap();
    let client = Client::builder().no_proxy().build().unwrap();
    let ask = |hub: &HubProcess, method: Method, path: &str| {
        let request = client.request(method, format!("{}{path}", hub.url));
        request.bearer_auth(token.trim())
    };
    let made = ask(&one, Method::POST, "/v1/tenants")
        .header("content-type", "application/json")
        .body(json!({"id": "acme"}).to_string());
    assert_eq!(made.send().await.unwrap().status(), 201);
    // The first node works for it from then on.
    let has_soul =
        hermes_testkit::eventually_some(crate::harness::test_home::TIMEOUT, async || {
            let soul = ask(&one, Method::GET, "/v1/tenants/acme/soul").send().await;
            (soul.unwrap().status() == 200).then_some(())
        });
    assert!(has_soul.await.is_some(), "the home is not made");
    let other = start("n2");
    let soul = ask(&one, Method::GET, "/v1/tenants/acme/soul").send().await;
    assert_eq!(soul.unwrap().status(), 200);
    let soul = ask(&other, Method::GET, "/v1/tenants/acme/soul")
        .header("traceparent", format!("00-{TRACE}-{PARENT}-01"))
        .send();
    assert_eq!(soul.await.unwrap().status(), 200);

    let sent = receiver.wait_for("forward get_soul", Some(TRACE));
    assert_eq!(attribute(&sent, "hermes.node"), "n1");
    let passed_on = receiver.wait_for("forwarded get_soul", Some(TRACE));
    assert_eq!(passed_on.parent, sent.id);
    assert_eq!(attribute(&passed_on, "hermes.node"), "n2");
    let is_done = || {
        let mut spans = receiver.spans().into_iter();
        spans.any(|span| span.name == "get_soul" && span.parent == passed_on.id)
    };
    wait_until("the operation on the other node is told", is_done);
}
