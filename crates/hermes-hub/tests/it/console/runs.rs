//! The list of runs and the page of one.

use std::sync::Arc;

use serde_json::json;

use super::ConsoleBrowser;
use crate::{agent_harness::ScriptedRuntime, test_hub::TestHub};

/// A Hub with a tenant whose agent does what it is told.
pub(super) async fn scripted_hub() -> (TestHub, Arc<ScriptedRuntime>) {
    let agent = ScriptedRuntime::new();
    let hub = TestHub::with_runtime(agent.clone(), |_, _| {}).await;
    hub.tenant(json!({"id": "acme"})).await;
    (hub, agent)
}

/// Starts a run; its id.
pub(super) async fn start_run(hub: &TestHub, tenant: &str, input: &str) -> String {
    let path = format!("/v1/tenants/{tenant}/runs");
    let run = hub.post(&path, &json!({"input": input})).await.expect(202);
    run["runId"].as_str().unwrap().to_owned()
}

/// Waits until a run has this status; its page's address.
pub(super) async fn reach(hub: &TestHub, tenant: &str, run: &str, status: &str) -> String {
    hub.wait_until(&format!("/v1/tenants/{tenant}/runs/{run}"), |run| {
        run["status"] == status
    })
    .await;
    format!("/tenants/{tenant}/runs/{run}")
}

#[tokio::test]
async fn the_page_of_a_run_shows_its_steps_by_the_filter_of_the_address() {
    let (hub, _) = scripted_hub().await;
    let run = start_run(&hub, "acme", "say=2 tool").await;
    let page = reach(&hub, "acme", &run, "completed").await;
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let shown = admin.get(&page).await.expect_status(200);
    for text in [
        "scripted",
        "1 + 2",
        "<code>terminal</code>",
        "0.50 s",
        "bar-tool",
        "say=2 tool",
        "/do/create_run",
    ] {
        shown.assert_shows(text);
    }
    shown.assert_lacks("data-events");
    shown.assert_lacks("/do/stop_run");
    let tools = admin.get(&format!("{page}?only=tools")).await;
    tools.assert_shows("<code>terminal</code>");
    tools.assert_lacks("class=\"text-step");
    let approvals = admin.get(&format!("{page}?only=approvals")).await;
    approvals.assert_lacks("<code>terminal</code>");
    let german = admin.speaking("de").get(&page).await;
    german.assert_shows("Noch einmal ausführen");
}

#[tokio::test]
async fn a_run_is_started_stopped_and_run_again_from_its_page() {
    let (hub, _) = scripted_hub().await;
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let next = "/tenants/acme/runs/{runId}";
    let fields = [
        ("tenant_id", "acme"),
        ("input:text", "wait"),
        ("next", next),
    ];
    let live = admin.submit("/do/create_run", &fields).await;
    let live = live.expect_status(200);
    assert!(
        live.address.starts_with("/tenants/acme/runs/run_"),
        "{}",
        live.address
    );
    live.assert_shows("/do/stop_run");
    live.assert_shows("data-events");
    let run = live.address.split(['/', '?']).nth(4).unwrap().to_owned();
    let fields = [("tenant_id", "acme"), ("run_id", run.as_str())];
    admin.submit("/do/stop_run", &fields).await;
    let page = reach(&hub, "acme", &run, "cancelled").await;
    let ended = admin.get(&page).await.expect_status(200);
    ended.assert_lacks("/do/stop_run");
    let again = ended.attributes("value");
    assert!(again.iter().any(|value| value == next), "{again:?}");
    ended.assert_shows("name=\"input:text\"");
}

#[tokio::test]
async fn what_a_run_says_is_text_however_it_looks() {
    let (hub, _) = scripted_hub().await;
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let hostile = "</pre><script>alert(1)</script><img/src=x/onerror=alert(2)>\u{202e}evil";
    let run = start_run(&hub, "acme", &format!("leak={hostile}")).await;
    let page = reach(&hub, "acme", &run, "completed").await;
    for path in [page.as_str(), "/tenants/acme/runs", "/runs"] {
        let shown = admin.get(path).await.expect_status(200);
        shown.assert_lacks("<script>alert");
        shown.assert_lacks("<img/src");
    }
    // About 100 KB in one text: its end is there, folded.
    let run = start_run(&hub, "acme", "say=20000 tool").await;
    let page = reach(&hub, "acme", &run, "completed").await;
    let shown = admin.get(&page).await.expect_status(200);
    shown.assert_shows("class=\"rest\"");
    shown.assert_shows(" 19999");
    let list = admin.get("/tenants/acme/runs").await;
    list.assert_lacks(" 19999");
    assert!(list.text.len() < 40_000, "{}", list.text.len());
}

#[tokio::test]
async fn roles_see_what_they_may_do_and_tenants_what_is_theirs() {
    let (hub, _) = scripted_hub().await;
    hub.tenant(json!({"id": "globex"})).await;
    let run = start_run(&hub, "acme", "ask=rm").await;
    let page = reach(&hub, "acme", &run, "waiting_for_approval").await;
    let viewer = ConsoleBrowser::with_rights(&hub, json!({"role": "viewer"})).await;
    let shown = viewer.get(&page).await.expect_status(200);
    shown.assert_shows("rm");
    for action in ["/do/stop_run", "/do/respond_approval", "/do/create_run"] {
        shown.assert_lacks(action);
    }
    let rights = json!({"role": "operator", "tenants": ["globex"]});
    let foreign = ConsoleBrowser::with_rights(&hub, rights).await;
    foreign.get(&page).await.expect_status(404);
    let events = foreign.get(&format!("{page}/events")).await;
    assert_eq!(events.status, 404);
    let all = foreign.get("/runs").await.expect_status(200);
    all.assert_lacks(&run);
    let admin = ConsoleBrowser::as_admin(&hub).await;
    admin.get("/runs").await.assert_shows(&run);
    // A run of one tenant is not found under another.
    let moved = page.replace("/acme/", "/globex/");
    admin.get(&moved).await.expect_status(404);
}

#[tokio::test]
async fn lists_of_runs_are_filtered_and_paged_by_their_address() {
    let (hub, _) = scripted_hub().await;
    hub.tenant(json!({"id": "globex"})).await;
    let first = start_run(&hub, "acme", "say=1").await;
    reach(&hub, "acme", &first, "completed").await;
    for _ in 0..51 {
        let run = start_run(&hub, "globex", "say=1").await;
        reach(&hub, "globex", &run, "completed").await;
    }
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let newest = admin.get("/runs?status=completed").await;
    newest.assert_lacks(&first);
    let links = newest.links();
    let more = links.iter().find(|link| link.contains("cursor=")).unwrap();
    assert!(more.contains("status=completed"), "{more}");
    admin.get(more).await.assert_shows(&first);
    let found = async |query: &str| admin.get(&format!("/tenants/acme/runs?{query}")).await;
    for query in [
        "status=completed",
        "trigger=api",
        "model=scripted",
        "since=2020-01-01",
    ] {
        found(query).await.expect_status(200).assert_shows(&first);
    }
    for query in [
        "status=failed",
        "trigger=cron",
        "model=other",
        "until=2020-01-01",
        "since=2999-01-01",
    ] {
        let page = found(query).await.expect_status(200);
        page.assert_lacks(&first);
        page.assert_shows("Remove a filter");
    }
    found("since=yesterday").await.expect_status(400);
    found("status=nonsense").await.expect_status(400);
}

#[tokio::test]
async fn forms_that_are_sent_at_the_same_time_are_one_run_and_lead_to_it() {
    let (hub, _) = scripted_hub().await;
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let fields = [
        ("csrf", admin.csrf.as_str()),
        ("once", "two-clicks"),
        ("tenant_id", "acme"),
        ("input", "say=1"),
        ("next", "/tenants/acme/runs/{runId}"),
    ];
    let sent = (0..8).map(|_| admin.post("/do/create_run", &fields));
    let replies = futures::future::join_all(sent).await;
    let places: Vec<_> = replies.iter().map(super::ConsolePage::location).collect();
    assert!(places[0].is_some(), "{places:?}");
    assert!(places.iter().all(|place| *place == places[0]), "{places:?}");
    let runs = hub.get("/v1/tenants/acme/runs").await.expect(200);
    assert_eq!(runs["runs"].as_array().unwrap().len(), 1, "{runs}");
}
