//! What agents, models and servers report to the Hub: what waits for somebody, why something failed, how a tenant is.

use hermes_hub::{
    ApprovalId, RunId, TenantId,
    api_types::{Condition, ConditionStatus, RunError, RunStatus, RunUsage, Time},
    storage::state::{NewApproval, RunChange, RunUpdate, TenantObservation},
};
use hermes_protocol::{ApprovalChoice, RequestedForm};
use serde_json::json;

use super::{TestHub, Writing, start_run};

/// Writes it. Returns the fields.
pub(super) async fn write_reports(hub: &TestHub, writing: Writing) -> Vec<&'static str> {
    let mut written = write_condition(hub, writing).await.to_vec();
    written.extend(write_questions(hub, writing).await);
    written.extend(write_failure(hub, writing).await);
    written
}

async fn write_condition(hub: &TestHub, writing: Writing) -> [&'static str; 1] {
    let condition = Condition {
        kind: "PlatformsConnected".into(),
        status: ConditionStatus::False,
        reason: "x".into(),
        message: writing.text("condition"),
        last_transition_time: Time::now(),
    };
    let observation = TenantObservation {
        conditions: vec![condition],
        ..TenantObservation::default()
    };
    let tenant = TenantId::parse("closed").unwrap();
    let state = hub.hub.state();
    state.observe_tenant(&tenant, observation).await.unwrap();
    ["condition"]
}

async fn update(hub: &TestHub, run: &RunId, update: RunUpdate) {
    let tenant = TenantId::parse("acme").unwrap();
    let state = hub.hub.state();
    state.update_run(&tenant, run, update).await.unwrap();
}

/// A command with its reason, and a form of a server, of a run that waits already.
async fn write_questions(hub: &TestHub, writing: Writing) -> [&'static str; 6] {
    let listed = hub.get("/v1/approvals").await.expect(200);
    let run = listed["approvals"][0]["runId"].as_str().unwrap();
    let run = RunId::parse(run).unwrap();
    // An agent has an id for each: a question with one that is there already is the same question.
    let question = |agent_id: &str, command: &str, description: String, form| NewApproval {
        id: ApprovalId::random().unwrap(),
        agent_id: Some(agent_id.into()),
        command: command.into(),
        description,
        choices: vec![ApprovalChoice::Once, ApprovalChoice::Deny],
        form,
        expires_at: None,
        carried: None,
    };
    // The schema stands in the page twice, in the form and as it was asked for: each text of it is short.
    let short = |field: &str| Writing::Short.text(field);
    let schema = json!({"type": "object", "properties": {
        "one": {"type": "string", "title": short("formtitle"), "default": short("formdefault")},
        "two": {"type": "string", "oneOf": [{"const": short("formvalue"), "title": short("formchoice")}]},
    }});
    let form = RequestedForm {
        server: "people".into(),
        message: writing.text("formmessage"),
        schema: schema.as_object().unwrap().clone(),
        url: None,
    };
    let new_approvals = vec![
        question("command", "true", writing.text("why"), None),
        question("form", "a form", String::new(), Some(form)),
    ];
    let asked = RunUpdate {
        new_approvals,
        ..RunUpdate::default()
    };
    update(hub, &run, asked).await;
    [
        "why",
        "formmessage",
        "formtitle",
        "formdefault",
        "formvalue",
        "formchoice",
    ]
}

/// A run that failed, with what the provider said and the model that it named.
async fn write_failure(hub: &TestHub, writing: Writing) -> [&'static str; 2] {
    let run = start_run(hub, "acme", "ask=failure").await;
    let path = format!("/v1/tenants/acme/runs/{run}");
    hub.wait_until(&path, |run| run["status"] == "waiting_for_approval")
        .await;
    let run = RunId::parse(&run).unwrap();
    let usage = RunUsage {
        input_tokens: 1,
        output_tokens: 2,
        total_tokens: 3,
        cached_tokens: 0,
    };
    let change = RunChange {
        status: Some(RunStatus::Failed),
        error: Some(RunError {
            code: "model_error".into(),
            message: writing.text("failure"),
        }),
        model: Some(writing.text("usedmodel")),
        usage: Some(usage),
        ..RunChange::default()
    };
    let failed = RunUpdate {
        change,
        ..RunUpdate::default()
    };
    update(hub, &run, failed).await;
    ["failure", "usedmodel"]
}
