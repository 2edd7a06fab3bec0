//! Approvals: the first decision counts.

use std::time::Duration;

use hermes_hub::{
    ApprovalId, RunId, TenantId,
    api_types::{ApprovalState, RunStatus, Time},
    storage::state::{
        ApprovalQuery, CarriedDecision, NewApproval, NewDecision, Page, RunChange, RunUpdate,
        StateError,
    },
};
use hermes_protocol::{ApprovalChoice, FormAnswer, RequestedForm};
use serde_json::{Map, json};

use super::{StateFixture, entry, tenant_id};

fn new_approval(agent_id: &str) -> NewApproval {
    NewApproval {
        id: ApprovalId::random().unwrap(),
        agent_id: Some(agent_id.into()),
        command: "rm -r build".into(),
        description: "removes files".into(),
        choices: vec![ApprovalChoice::Once, ApprovalChoice::Deny],
        form: None,
        expires_at: Some(Time::now().after(Duration::from_mins(15))),
        carried: None,
    }
}

fn decision(choice: ApprovalChoice) -> NewDecision {
    NewDecision {
        choice,
        by: Some("tok_7".into()),
        reason: None,
        answer: None,
    }
}

async fn add_approvals(
    fresh: &StateFixture,
    tenant: &TenantId,
    run: &RunId,
    asked: Vec<NewApproval>,
) {
    let update = RunUpdate {
        change: RunChange {
            status: Some(RunStatus::WaitingForApproval),
            ..RunChange::default()
        },
        new_approvals: asked,
        ..RunUpdate::default()
    };
    fresh.state.update_run(tenant, run, update).await.unwrap();
}

async fn waiting_run(fresh: &StateFixture) -> (TenantId, RunId, ApprovalId) {
    let tenant = fresh.tenant("a").await.id;
    let run = fresh.run(&tenant).await;
    let approval = new_approval("theirs");
    let id = approval.id.clone();
    add_approvals(fresh, &tenant, &run, vec![approval]).await;
    (tenant, run, id)
}

#[tokio::test]
async fn of_two_decisions_at_once_one_wins_and_one_is_told() {
    let fresh = StateFixture::new().await;
    let (_, _, id) = waiting_run(&fresh).await;
    let other = fresh.another_node("n2").await;
    let (one, two) = tokio::join!(
        fresh.state.decide(
            &id,
            decision(ApprovalChoice::Once),
            entry("respond_approval")
        ),
        other.decide(
            &id,
            decision(ApprovalChoice::Deny),
            entry("respond_approval")
        )
    );
    let (won, lost) = match (one, two) {
        (Ok(won), Err(lost)) | (Err(lost), Ok(won)) => (won, lost),
        both => panic!("{both:?}"),
    };
    assert!(matches!(
        lost,
        StateError::Conflict {
            reason: "not_pending",
            ..
        }
    ));
    let found = fresh.state.approval(&id).await.unwrap().unwrap();
    assert_eq!(found, won);
    assert_eq!(found.state, ApprovalState::Decided);
}

#[tokio::test]
async fn an_approval_is_asked_for_once_though_the_stream_repeats_it() {
    let fresh = StateFixture::new().await;
    let (tenant, run, id) = waiting_run(&fresh).await;
    add_approvals(
        &fresh,
        &tenant,
        &run,
        vec![new_approval("theirs"), new_approval("second")],
    )
    .await;
    let query = ApprovalQuery {
        run: Some(run),
        ..ApprovalQuery::default()
    };
    let listed = fresh
        .state
        .approvals(&query, &Page::default())
        .await
        .unwrap();
    assert_eq!(listed.items.len(), 2);
    assert_eq!(listed.items[0].approval_id, id, "the oldest comes first");
    let agent_id = fresh.state.agent_approval(&id).await.unwrap();
    assert_eq!(agent_id.as_deref(), Some("theirs"));
}

#[tokio::test]
async fn the_inbox_holds_what_is_pending_of_covered_tenants() {
    let fresh = StateFixture::new().await;
    let (tenant, _, id) = waiting_run(&fresh).await;
    let inbox = async |only| {
        let query = ApprovalQuery {
            only: Some(vec![only]),
            pending: true,
            ..ApprovalQuery::default()
        };
        let listed = fresh
            .state
            .approvals(&query, &Page::default())
            .await
            .unwrap();
        listed.items.len()
    };
    assert_eq!(inbox(tenant.clone()).await, 1);
    assert_eq!(inbox(tenant_id("other")).await, 0);
    let decide = fresh.state.decide(
        &id,
        decision(ApprovalChoice::Once),
        entry("respond_approval"),
    );
    decide.await.unwrap();
    assert_eq!(inbox(tenant).await, 0);
}

#[tokio::test]
async fn a_decision_is_kept_until_the_agent_knows_of_it() {
    let mut fresh = StateFixture::new().await;
    let (_, _, id) = waiting_run(&fresh).await;
    let undelivered = ApprovalQuery {
        undelivered: true,
        ..ApprovalQuery::default()
    };
    let none = fresh.state.approvals(&undelivered, &Page::default()).await;
    assert!(none.unwrap().items.is_empty());
    let decide = fresh.state.decide(
        &id,
        decision(ApprovalChoice::Once),
        entry("respond_approval"),
    );
    decide.await.unwrap();
    fresh.reopen().await;
    let one = fresh.state.approvals(&undelivered, &Page::default()).await;
    assert_eq!(one.unwrap().items[0].choice, Some(ApprovalChoice::Once));
    fresh.state.mark_delivered(&id).await.unwrap();
    let none = fresh.state.approvals(&undelivered, &Page::default()).await;
    assert!(none.unwrap().items.is_empty());
}

#[tokio::test]
async fn an_approval_that_was_decided_before_it_was_asked_never_waits() {
    let fresh = StateFixture::new().await;
    let (tenant, run, earlier) = waiting_run(&fresh).await;
    let decide = fresh.state.decide(
        &earlier,
        decision(ApprovalChoice::Deny),
        entry("respond_approval"),
    );
    decide.await.unwrap();
    let mut again = new_approval("again");
    again.carried = Some(CarriedDecision {
        from: earlier.clone(),
        entry: entry("approval_carried"),
    });
    let id = again.id.clone();
    add_approvals(&fresh, &tenant, &run, vec![again]).await;
    let found = fresh.state.approval(&id).await.unwrap().unwrap();
    assert_eq!(found.state, ApprovalState::Decided);
    assert_eq!(found.choice, Some(ApprovalChoice::Deny));
    assert_eq!(found.decided_by.as_deref(), Some("tok_7"));
    let undelivered = ApprovalQuery {
        undelivered: true,
        ..ApprovalQuery::default()
    };
    let left = fresh
        .state
        .approvals(&undelivered, &Page::default())
        .await
        .unwrap();
    assert_eq!(left.items, [found], "the earlier one is used up");
}

#[tokio::test]
async fn the_answers_of_a_form_are_kept_until_the_agent_has_them() {
    let mut fresh = StateFixture::new().await;
    let (tenant, run, _) = waiting_run(&fresh).await;
    let form = RequestedForm {
        server: "people".into(),
        message: "Who?".into(),
        schema: Map::from_iter([("type".to_owned(), json!("object"))]),
        url: None,
    };
    let mut asked = new_approval("form");
    asked.form = Some(form.clone());
    let id = asked.id.clone();
    add_approvals(&fresh, &tenant, &run, vec![asked]).await;
    let answer = FormAnswer::Content(Map::from_iter([("name".to_owned(), json!("Ada\0"))]));
    let decided = NewDecision {
        answer: Some(answer.clone()),
        ..decision(ApprovalChoice::Once)
    };
    let decided = fresh.state.decide(&id, decided, entry("respond_approval"));
    assert_eq!(decided.await.unwrap().form, Some(form));
    fresh.reopen().await;
    let stored = fresh.state.form_answer(&id).await.unwrap();
    assert_eq!(stored, Some(answer.clone()));
    // The next attempt asks the same.
    let mut again = new_approval("again");
    again.carried = Some(CarriedDecision {
        from: id.clone(),
        entry: entry("approval_carried"),
    });
    let later = again.id.clone();
    add_approvals(&fresh, &tenant, &run, vec![again]).await;
    assert_eq!(fresh.state.form_answer(&id).await.unwrap(), None);
    let carried = fresh.state.form_answer(&later).await.unwrap();
    assert_eq!(carried, Some(answer));
    fresh.state.mark_delivered(&later).await.unwrap();
    assert_eq!(fresh.state.form_answer(&later).await.unwrap(), None);
}

#[tokio::test]
async fn what_nobody_decided_in_time_is_found_and_closed() {
    let fresh = StateFixture::new().await;
    let (_, _, id) = waiting_run(&fresh).await;
    let expired = async |minutes| {
        let query = ApprovalQuery {
            expired_before: Some(Time::now().after(Duration::from_mins(minutes))),
            ..ApprovalQuery::default()
        };
        let listed = fresh
            .state
            .approvals(&query, &Page::default())
            .await
            .unwrap();
        listed.items.len()
    };
    assert_eq!(expired(10).await, 0);
    assert_eq!(expired(20).await, 1);
    let nobody = NewDecision {
        by: None,
        ..decision(ApprovalChoice::Deny)
    };
    let closed = fresh
        .state
        .decide(&id, nobody, entry("expire_approval"))
        .await;
    assert_eq!(closed.unwrap().state, ApprovalState::Expired);
    assert_eq!(expired(20).await, 0);
}

#[tokio::test]
async fn the_end_of_a_run_voids_what_it_waited_for() {
    let fresh = StateFixture::new().await;
    let (tenant, run, id) = waiting_run(&fresh).await;
    let end = RunUpdate {
        change: RunChange {
            status: Some(RunStatus::Cancelled),
            ..RunChange::default()
        },
        ..RunUpdate::default()
    };
    fresh.state.update_run(&tenant, &run, end).await.unwrap();
    let found = fresh.state.approval(&id).await.unwrap().unwrap();
    assert_eq!(found.state, ApprovalState::Void);
    let late = fresh.state.decide(
        &id,
        decision(ApprovalChoice::Once),
        entry("respond_approval"),
    );
    assert!(matches!(late.await, Err(StateError::Conflict { .. })));
}
