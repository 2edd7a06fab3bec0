//! `hermes tenant run`, `runs` and `approve`: what a tenant's agent works on; `start`, `stop` and `restart` of the agent.

use serde_json::{Map, Value};

use super::tenant_call;
use crate::{
    cli::{TenantApproveArgs, TenantRunArgs, TenantRunsArgs},
    commands::hub::client::{Column, HubCall, HubClient, PageRequest, RunWatcher, call},
    failure::Failure,
    output::printable,
};

const COLUMNS: &[Column] = &[
    ("RUN", "/runId"),
    ("STATUS", "/status"),
    ("TRIGGER", "/trigger"),
    ("CREATED", "/createdAt"),
    ("OUTPUT", "/output"),
];
const WAITING: &[Column] = &[
    ("TENANT", "/tenantId"),
    ("RUN", "/runId"),
    ("APPROVAL", "/approvalId"),
    ("SINCE", "/createdAt"),
    ("WHAT", "/command"),
];

pub(super) fn start(hub: &HubClient<'_>, args: TenantRunArgs) -> Result<(), Failure> {
    let text = match args.text.as_str() {
        "-" => call::read_stdin()?,
        _ => args.text,
    };
    let call = tenant_call("create_run", &args.tenant)
        .with("input", text)
        .with_optional("session_id", args.session)
        .with_optional("instructions", args.instructions)
        .with_optional("timeout_seconds", args.timeout)
        .with_flag("retry_interrupted", args.retry_interrupted);
    if !args.watch {
        let answer = hub.call(&call)?;
        print_started(hub, &args.tenant, answer.text("/runId"));
        return Ok(());
    }
    // With `--json` the events are the output; one of them has all that the first answer says.
    let answer = hub.call_quietly(&call)?;
    RunWatcher::new(hub, &args.tenant, answer.text("/runId"), 0).follow()
}

/// Says which run began, and how to see what becomes of it.
pub(super) fn print_started(hub: &HubClient<'_>, tenant: &str, run: &str) {
    let run = printable(run);
    hub.output().line(&run);
    hub.output()
        .note(format!("`hermes tenant watch {tenant} {run}` follows it."));
}

pub(super) fn list(hub: &HubClient<'_>, args: TenantRunsArgs) -> Result<(), Failure> {
    let call = tenant_call("list_runs", &args.tenant)
        .with_optional("status", args.status)
        .with_optional("trigger", args.trigger);
    let answer = hub.call_list(call, "runs", &args.page.into())?;
    hub.show_list(
        &answer,
        "runs",
        COLUMNS,
        "There are no runs. `hermes tenant run` begins one.",
    );
    Ok(())
}

pub(super) fn get(hub: &HubClient<'_>, tenant: &str, run: &str) -> Result<(), Failure> {
    let answer = hub.call(&tenant_call("get_run", tenant).with("run_id", run))?;
    hub.show_members(&answer.value);
    Ok(())
}

pub(super) fn stop(hub: &HubClient<'_>, tenant: &str, run: &str) -> Result<(), Failure> {
    hub.call(&tenant_call("stop_run", tenant).with("run_id", run))?;
    hub.output().note(format!("Stopping `{run}`."));
    Ok(())
}

pub(super) fn approve(hub: &HubClient<'_>, args: TenantApproveArgs) -> Result<(), Failure> {
    let choice = if args.deny || args.cancel {
        "deny"
    } else {
        args.choice.as_str()
    };
    let content = args.content.as_deref().map(parse_content).transpose()?;
    match (&args.tenant, &args.run, &args.approval) {
        (Some(tenant), Some(run), approval) => {
            let call = tenant_call("decide_run", tenant)
                .with("run_id", run.clone())
                .with("choice", choice)
                .with_optional("approval_id", approval.clone())
                .with_flag("all", args.all)
                .with_flag("cancel", args.cancel)
                .with_optional("content", content);
            hub.call(&call.with_optional("reason", args.reason))?;
        }
        (None, _, Some(approval)) => {
            let call = HubCall::new("respond_approval")
                .with("approval_id", approval.clone())
                .with("choice", choice)
                .with_flag("cancel", args.cancel)
                .with_optional("content", content);
            hub.call(&call.with_optional("reason", args.reason))?;
        }
        (tenant, _, _) => return list_pending_approvals(hub, tenant.as_deref()),
    }
    let outcome = match (&args.content, args.cancel, args.deny) {
        (Some(_), ..) => "Sent.",
        (None, true, _) => "Left without a decision.",
        (None, false, true) => "Denied.",
        (None, false, false) => "Allowed.",
    };
    hub.output().note(outcome);
    Ok(())
}

fn parse_content(text: &str) -> Result<Map<String, Value>, Failure> {
    serde_json::from_str(text).map_err(|error| {
        Failure::usage(format!("`--content` is not a JSON object: {error}"))
            .hint("write it as `--content '{\"name\": \"Ada\"}'`")
    })
}

/// Everything that waits for a decision.
fn list_pending_approvals(hub: &HubClient<'_>, tenant: Option<&str>) -> Result<(), Failure> {
    let answer = hub.call_list(
        HubCall::new("list_approvals"),
        "approvals",
        &PageRequest::default(),
    )?;
    let all = answer
        .value
        .get("approvals")
        .and_then(Value::as_array)
        .cloned();
    let mut shown = all.unwrap_or_default();
    shown.retain(|approval| tenant.is_none_or(|tenant| approval["tenantId"] == tenant));
    hub.show_items(&shown, WAITING, "No decision is pending.");
    Ok(())
}

pub(super) fn change(
    hub: &HubClient<'_>,
    operation: &'static str,
    tenant: &str,
) -> Result<(), Failure> {
    let answer = hub.call(&tenant_call(operation, tenant))?;
    let state = answer.text("/state");
    hub.output()
        .note(format!("The agent of `{tenant}` is {state}."));
    Ok(())
}
