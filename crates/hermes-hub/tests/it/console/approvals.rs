//! The inbox of approvals.

use std::collections::BTreeSet;

use hermes_hub::{
    ApprovalId, RunId, TenantId,
    storage::state::{NewApproval, RunUpdate},
};
use hermes_protocol::ApprovalChoice;
use serde_json::json;

use super::{
    ConsoleBrowser,
    runs::{reach, scripted_hub, start_run},
};
use crate::test_hub::TestHub;

#[tokio::test]
async fn an_approval_is_decided_with_a_reason_and_is_gone() {
    let (hub, _) = scripted_hub().await;
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let empty = admin.get("/approvals").await.expect_status(200);
    empty.assert_shows("No run waits");
    let run = start_run(&hub, "acme", "ask=rm<b>").await;
    let page = reach(&hub, "acme", &run, "waiting_for_approval").await;
    let inbox = admin.get("/approvals").await.expect_status(200);
    inbox.assert_shows("rm&#60;b&#62;");
    for choice in ["once", "session", "always", "deny"] {
        inbox.assert_shows(&format!("value=\"{choice}\""));
    }
    inbox.assert_shows(&page);
    let waiting = hub.get("/v1/approvals").await.expect(200);
    let waiting = &waiting["approvals"][0];
    assert_eq!(
        waiting["choices"],
        json!(["once", "session", "always", "deny"])
    );
    let id = waiting["approvalId"].as_str().unwrap();
    let fields = [
        ("approval_id", id),
        ("choice", "deny"),
        ("reason", "not now"),
        ("next", "/approvals"),
    ];
    let after = admin.submit("/do/respond_approval", &fields).await;
    let after = after.expect_status(200);
    after.assert_shows("No run waits");
    reach(&hub, "acme", &run, "completed").await;
    admin.get(&page).await.assert_shows("Denied");
    // Somebody else was first.
    let late = admin.submit("/do/respond_approval", &fields).await;
    late.expect_status(409);
}

#[tokio::test]
async fn the_same_command_of_several_runs_is_decided_at_once() {
    let (hub, _) = scripted_hub().await;
    let runs = [
        start_run(&hub, "acme", "ask=rm").await,
        start_run(&hub, "acme", "ask=rm say=1").await,
        start_run(&hub, "acme", "ask=mv").await,
    ];
    for run in &runs {
        reach(&hub, "acme", run, "waiting_for_approval").await;
    }
    let admin = ConsoleBrowser::as_admin(&hub).await;
    let inbox = admin.get("/approvals").await.expect_status(200);
    inbox.assert_shows("2 times");
    inbox.assert_shows("Allow all of these once");
    let waiting = hub.get("/v1/approvals").await.expect(200);
    let waiting = waiting["approvals"].as_array().unwrap().clone();
    let ids: Vec<_> = waiting
        .iter()
        .filter(|approval| approval["command"] == "rm")
        .map(|approval| approval["approvalId"].as_str().unwrap())
        .collect();
    let ids = ids.join("\n");
    assert!(inbox.attributes("value").contains(&ids), "{ids}");
    let fields = [
        ("each", "approval_id"),
        ("approval_id", ids.as_str()),
        ("choice", "once"),
        ("next", "/approvals"),
    ];
    let after = admin.submit("/do/respond_approval", &fields).await;
    after.expect_status(200).assert_shows("mv");
    for run in &runs[..2] {
        reach(&hub, "acme", run, "completed").await;
    }
    // What was decided in the meantime is passed over; what is not there is said.
    let again = admin.submit("/do/respond_approval", &fields).await;
    again.expect_status(200);
    let unknown = [("each", "approval_id"), ("choice", "once")];
    let unknown = admin.submit("/do/respond_approval", &unknown).await;
    unknown.expect_status(400);
}

#[tokio::test]
async fn nobody_sees_a_choice_that_is_not_theirs() {
    let (hub, _) = scripted_hub().await;
    hub.tenant(json!({"id": "globex"})).await;
    let run = start_run(&hub, "acme", "ask=rm").await;
    reach(&hub, "acme", &run, "waiting_for_approval").await;
    let viewer = ConsoleBrowser::with_rights(&hub, json!({"role": "viewer"})).await;
    let shown = viewer.get("/approvals").await.expect_status(200);
    shown.assert_shows("rm");
    shown.assert_lacks("/do/respond_approval");
    let rights = json!({"role": "operator", "tenants": ["globex"]});
    let foreign = ConsoleBrowser::with_rights(&hub, rights).await;
    let inbox = foreign.get("/approvals").await.expect_status(200);
    inbox.assert_shows("No run waits");
}

/// Lets a run wait for so many approvals, of a command each.
async fn ask_for_many(hub: &TestHub, run: &str, number: usize) {
    let asked = (0..number).map(|number| NewApproval {
        id: ApprovalId::random().unwrap(),
        agent_id: Some(number.to_string()),
        command: format!("<i>command-{number:04}"),
        description: String::new(),
        choices: vec![ApprovalChoice::Once, ApprovalChoice::Deny],
        form: None,
        expires_at: None,
        carried: None,
    });
    let update = RunUpdate {
        new_approvals: asked.collect(),
        ..RunUpdate::default()
    };
    let (tenant, run) = (TenantId::parse("acme"), RunId::parse(run));
    let (tenant, run) = (tenant.unwrap(), run.unwrap());
    let updated = hub.hub.state().update_run(&tenant, &run, update);
    updated.await.unwrap();
}

#[tokio::test]
async fn a_thousand_approvals_at_once_are_read_in_pages_and_each_can_be_decided() {
    let (hub, _) = scripted_hub().await;
    let asking = start_run(&hub, "acme", "ask=rm").await;
    reach(&hub, "acme", &asking, "waiting_for_approval").await;
    let busy = start_run(&hub, "acme", "wait").await;
    reach(&hub, "acme", &busy, "running").await;
    ask_for_many(&hub, &busy, 999).await;

    let admin = ConsoleBrowser::as_admin(&hub).await;
    let overview = admin.get("/").await.expect_status(200);
    overview.assert_shows("All approvals");
    assert!(overview.text.len() < 100_000, "{}", overview.text.len());
    let first = admin.get("/approvals").await.expect_status(200);
    first.assert_shows("100 decisions wait");
    first.assert_shows("More wait on the next page.");
    let mut seen = BTreeSet::new();
    let mut next = Some("/approvals".to_owned());
    let mut pages = 0;
    while let Some(address) = next {
        let page = admin.get(&address).await.expect_status(200);
        assert!(page.text.len() < 300_000, "{}", page.text.len());
        page.assert_lacks("<i>command");
        let commands = page.text.split("command-").skip(1);
        let commands = commands.map(|rest| rest[..4].to_owned());
        let before = seen.len();
        seen.extend(commands);
        assert!(seen.len() > before, "{address} shows the same again");
        pages += 1;
        next = page
            .links()
            .into_iter()
            .find(|link| link.contains("cursor="));
    }
    assert_eq!((seen.len(), pages), (999, 10));

    // The oldest is on the first page, and is decided as if it were alone.
    let ids = first.attributes("value");
    let waiting = hub.get("/v1/approvals?limit=1").await.expect(200);
    let oldest = waiting["approvals"][0]["approvalId"].as_str().unwrap();
    assert!(ids.iter().any(|id| id == oldest), "{oldest}");
    let fields = [
        ("approval_id", oldest),
        ("choice", "once"),
        ("next", "/approvals"),
    ];
    let after = admin.submit("/do/respond_approval", &fields).await;
    after.expect_status(200).assert_lacks(oldest);
    reach(&hub, "acme", &asking, "completed").await;
}
