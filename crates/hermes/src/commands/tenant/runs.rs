//! `hermes tenant run`, `runs`, `stop` and `approve`: what a tenant's agent works on.

use serde_json::Value;

use super::of;
use crate::{
    cli::{ApproveArgs, RunArgs, TenantRunsArgs},
    failure::Failure,
    hub::{Call, Column, HubClient, Page, Watch, input},
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

pub(super) fn start(hub: &HubClient<'_>, args: RunArgs) -> Result<(), Failure> {
    let text = match args.text.as_str() {
        "-" => input::stdin()?,
        _ => args.text,
    };
    let call = of("create_run", &args.tenant)
        .with("input", text)
        .maybe("session_id", args.session)
        .maybe("instructions", args.instructions)
        .maybe("timeout_seconds", args.timeout)
        .flag("retry_interrupted", args.retry_interrupted);
    if !args.watch {
        let answer = hub.ask(&call)?;
        begun(hub, &args.tenant, answer.text("/runId"));
        return Ok(());
    }
    // With `--json` the events are the output; one of them has all that the first answer says.
    let answer = hub.ask_quietly(&call)?;
    Watch::new(hub, &args.tenant, answer.text("/runId"), 0).follow()
}

/// Says which run began, and how to see what becomes of it.
pub(super) fn begun(hub: &HubClient<'_>, tenant: &str, run: &str) {
    let run = printable(run);
    hub.output().line(&run);
    hub.output()
        .note(format!("`hermes tenant watch {tenant} {run}` follows it."));
}

pub(super) fn list(hub: &HubClient<'_>, args: TenantRunsArgs) -> Result<(), Failure> {
    let call = of("list_runs", &args.tenant)
        .maybe("status", args.status)
        .maybe("trigger", args.trigger);
    let answer = hub.ask_list(call, "runs", &args.page.into())?;
    hub.show_list(
        &answer,
        "runs",
        COLUMNS,
        "There are no runs. `hermes tenant run` begins one.",
    );
    Ok(())
}

pub(super) fn get(hub: &HubClient<'_>, tenant: &str, run: &str) -> Result<(), Failure> {
    let answer = hub.ask(&of("get_run", tenant).with("run_id", run))?;
    hub.show_members(&answer.value);
    Ok(())
}

pub(super) fn stop(hub: &HubClient<'_>, tenant: &str, run: &str) -> Result<(), Failure> {
    hub.ask(&of("stop_run", tenant).with("run_id", run))?;
    hub.output().note(format!("Stopping `{run}`."));
    Ok(())
}

pub(super) fn approve(hub: &HubClient<'_>, args: ApproveArgs) -> Result<(), Failure> {
    let choice = if args.deny {
        "deny"
    } else {
        args.choice.as_str()
    };
    match (&args.tenant, &args.run, &args.approval) {
        (Some(tenant), Some(run), approval) => {
            let call = of("decide_run", tenant)
                .with("run_id", run.clone())
                .with("choice", choice)
                .maybe("approval_id", approval.clone())
                .flag("all", args.all);
            hub.ask(&call.maybe("reason", args.reason))?;
        }
        (None, _, Some(approval)) => {
            let call = Call::to("respond_approval")
                .with("approval_id", approval.clone())
                .with("choice", choice);
            hub.ask(&call.maybe("reason", args.reason))?;
        }
        (tenant, _, _) => return waiting(hub, tenant.as_deref()),
    }
    let said = if args.deny { "Denied." } else { "Allowed." };
    hub.output().note(said);
    Ok(())
}

/// Everything that waits for a decision.
fn waiting(hub: &HubClient<'_>, tenant: Option<&str>) -> Result<(), Failure> {
    let answer = hub.ask_list(Call::to("list_approvals"), "approvals", &Page::default())?;
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
