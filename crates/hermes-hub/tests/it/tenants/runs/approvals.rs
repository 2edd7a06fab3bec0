//! Approvals: the first decision wins, and a timeout denies.

use std::num::NonZeroU64;

use hermes_hub::{
    Problem, RunId, TenantId,
    api_types::{Approval, ApprovalState, RunStatus},
    storage::{
        audit::NewAuditEntry,
        state::{ApprovalQuery, Page},
    },
    tenants::runs::{DecisionRequest, RunRequest},
};
use hermes_protocol::ApprovalChoice;
use serde_json::json;

use crate::{
    agent_harness::{AgentHarness, ScriptedRuntime, request},
    test_hub::TestHub,
};

async fn decide(
    world: &AgentHarness,
    tenant: &TenantId,
    run: &RunId,
    choice: &str,
) -> Result<Vec<Approval>, Problem> {
    let answer = DecisionRequest {
        choice: ApprovalChoice::parse(choice).unwrap(),
        approval_id: None,
        all: false,
        reason: None,
        answer: None,
        by: "tok_1".into(),
    };
    let entry = NewAuditEntry::by_hub("respond_approval");
    world.runs.decide(tenant, run, answer, entry).await
}

async fn approvals(world: &AgentHarness) -> Vec<Approval> {
    let query = ApprovalQuery::default();
    world
        .state
        .approvals(&query, &Page::default())
        .await
        .unwrap()
        .items
}

async fn status(world: &AgentHarness, tenant: &TenantId, run: &RunId) -> RunStatus {
    world
        .state
        .run(tenant, run)
        .await
        .unwrap()
        .unwrap()
        .run
        .status
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_waits_for_a_decision_and_goes_on_with_it() {
    let world = AgentHarness::new().await;
    let tenant = world.tenant("a").await;
    let run = world.run(&tenant, "ask=reboot say=1").await.run_id;
    world
        .wait_for_event(&tenant, &run, "approval.request")
        .await;
    assert_eq!(
        status(&world, &tenant, &run).await,
        RunStatus::WaitingForApproval
    );
    let decided = decide(&world, &tenant, &run, "approve").await.unwrap();
    assert_eq!(decided[0].command, "reboot");
    assert_eq!(decided[0].choice, Some(ApprovalChoice::Once));
    let events = world.events(&tenant, &run).await;
    let ids: Vec<_> = events
        .iter()
        .filter_map(|event| event.body.get("approvalId")?.as_str())
        .collect();
    assert_eq!(
        ids,
        [decided[0].approval_id.as_str(); 2],
        "asked and answered"
    );
    let run = world.finished_run(&tenant, &run).await;
    assert_eq!(run.output.as_deref(), Some("once0"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_word_that_is_not_a_choice_decides_nothing() {
    let site = TestHub::with_runtime(ScriptedRuntime::new(), |_, _| {}).await;
    site.tenant(json!({"id": "a"})).await;
    let runs = "/v1/tenants/a/runs";
    let run = site.post(runs, &json!({"input": "ask=reboot"})).await;
    let run = format!("{runs}/{}", run.expect(202)["runId"].as_str().unwrap());
    site.wait_until(&run, |run| run["status"] == "waiting_for_approval")
        .await;
    let decide = async |choice: &str| {
        let decision = json!({"choice": choice});
        site.post(&format!("{run}/approval"), &decision).await
    };
    for wrong in ["perhaps", "", "onc"] {
        let problem = decide(wrong).await.expect(400);
        assert_eq!(problem["details"][0]["field"], "choice");
    }
    let decided = decide("approved").await.expect(200);
    assert_eq!(decided["approvals"][0]["choice"], "once");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_decisions_at_once_one_wins_and_the_other_is_a_conflict() {
    let world = AgentHarness::new().await;
    let tenant = world.tenant("a").await;
    for round in 0..10 {
        let run = world
            .run(&tenant, &format!("ask=reboot{round}"))
            .await
            .run_id;
        world
            .wait_for_event(&tenant, &run, "approval.request")
            .await;
        let (allow, deny) = tokio::join!(
            decide(&world, &tenant, &run, "once"),
            decide(&world, &tenant, &run, "deny"),
        );
        let winner = match (&allow, &deny) {
            (Ok(_), Err(problem)) => {
                assert_eq!(problem.code.status(), 409);
                "once"
            }
            (Err(problem), Ok(_)) => {
                assert_eq!(problem.code.status(), 409);
                "deny"
            }
            both => panic!("both won or lost: {both:?}"),
        };
        let run = world.finished_run(&tenant, &run).await;
        assert_eq!(run.output.as_deref(), Some(winner));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_decides_in_time_is_denied() {
    let world = AgentHarness::new().await;
    world
        .tenancy
        .change(|rules| rules.approval_timeout_seconds = NonZeroU64::MIN);
    let tenant = world.tenant("a").await;
    let run = world.run(&tenant, "ask=reboot").await.run_id;
    let ended = world.finished_run(&tenant, &run).await;
    assert_eq!(ended.output.as_deref(), Some("deny"));
    let approvals = approvals(&world).await;
    assert_eq!(approvals[0].state, ApprovalState::Expired);
    let late = decide(&world, &tenant, &run, "once").await.unwrap_err();
    assert_eq!(late.code.status(), 409);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_ends_waits_for_nothing() {
    let world = AgentHarness::new().await;
    let tenant = world.tenant("a").await;
    let run = world.run(&tenant, "ask=reboot").await.run_id;
    world
        .wait_for_event(&tenant, &run, "approval.request")
        .await;
    let entry = NewAuditEntry::by_hub("stop_run");
    world.runs.stop(&tenant, &run, entry).await.unwrap();
    let ended = world.finished_run(&tenant, &run).await;
    assert_eq!(ended.status, RunStatus::Cancelled);
    assert_eq!(approvals(&world).await[0].state, ApprovalState::Void);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_waits_for_a_decision_survives_the_hub() {
    let world = AgentHarness::new().await;
    let tenant = world.tenant("a").await;
    let run = world.run(&tenant, "ask=reboot say=1").await.run_id;
    world
        .wait_for_event(&tenant, &run, "approval.request")
        .await;
    let starts = world.agent.starts(&tenant);
    let world = world.kill_and_restart().await;
    assert_eq!(
        status(&world, &tenant, &run).await,
        RunStatus::WaitingForApproval
    );
    assert_eq!(
        world.agent.starts(&tenant),
        starts,
        "it was woken before the decision"
    );
    decide(&world, &tenant, &run, "once").await.unwrap();
    let run = world.finished_run(&tenant, &run).await;
    let events = world.events(&tenant, &run.run_id).await;
    assert_eq!(run.status, RunStatus::Completed, "{run:?} {events:?}");
    assert_eq!(run.output.as_deref(), Some("once0"));
    assert_eq!(run.attempt, 2);
}

/// A run whose agent dies after an approval was answered, so that it is retried.
async fn answered_and_cut_off(world: &AgentHarness, tenant: &TenantId, choice: &str) -> RunId {
    let again = RunRequest {
        retry_interrupted: true,
        ..request("ask=reboot die say=1")
    };
    let run = world.run_with(tenant, again).await.run_id;
    world.wait_for_event(tenant, &run, "approval.request").await;
    decide(world, tenant, &run, choice).await.unwrap();
    world.wait_for_event(tenant, &run, "run.requeued").await;
    run
}

#[tokio::test(flavor = "multi_thread")]
async fn a_denial_holds_when_the_run_begins_anew() {
    let world = AgentHarness::new().await;
    let tenant = world.tenant("a").await;
    let run = answered_and_cut_off(&world, &tenant, "deny").await;
    let ended = world.finished_run(&tenant, &run).await;
    assert_eq!(ended.output.as_deref(), Some("deny0"));
    let asked = approvals(&world).await;
    let by: Vec<_> = asked.iter().map(|asked| &asked.decided_by).collect();
    assert_eq!(by, [&Some("tok_1".to_owned()); 2], "{asked:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_allowed_once_is_asked_again_when_the_run_begins_anew() {
    let world = AgentHarness::new().await;
    let tenant = world.tenant("a").await;
    let run = answered_and_cut_off(&world, &tenant, "once").await;
    let asked = async || {
        let asked = approvals(&world).await;
        asked
            .iter()
            .any(|asked| asked.state == ApprovalState::Pending)
    };
    world.wait_until("it is asked again", asked).await;
    decide(&world, &tenant, &run, "deny").await.unwrap();
    let ended = world.finished_run(&tenant, &run).await;
    assert_eq!(ended.output.as_deref(), Some("deny0"));
}
