//! `hermes hub overview`, `runs` and `jobs`: what goes on in the whole Hub.

use serde_json::Value;

use crate::{
    cli::{HubArgs, HubJobsArgs, HubRunsArgs},
    commands::hub::client::{Column, HubCall, HubClient, plain_text},
    context::Context,
    failure::Failure,
};

const TROUBLES: &[Column] = &[
    ("TENANT", "/tenantId"),
    ("KIND", "/kind"),
    ("SINCE", "/since"),
    ("WHAT", "/message"),
];
const FAILED_RUNS: &[Column] = &[
    ("TENANT", "/tenantId"),
    ("FAILED RUN", "/runId"),
    ("ENDED", "/endedAt"),
    ("WHY", "/message"),
];
const RUNS: &[Column] = &[
    ("TENANT", "/tenantId"),
    ("RUN", "/runId"),
    ("STATUS", "/status"),
    ("TRIGGER", "/trigger"),
    ("CREATED", "/createdAt"),
    ("OUTPUT", "/output"),
];
const JOBS: &[Column] = &[
    ("NEXT", "/nextRunAt"),
    ("TENANT", "/tenantId"),
    ("JOB", "/jobId"),
];

pub(super) fn show_overview(context: &Context, args: &HubArgs) -> Result<(), Failure> {
    let hub = &HubClient::new(context, args)?;
    let overview = hub.call(&HubCall::new("get_overview"))?.value;
    let output = hub.output();
    if output.is_json() {
        return Ok(());
    }
    output.line(format!("tenants: {}", tenant_counts(&overview["tenants"])));
    // Who may not read runs is not told of any.
    if let Some(steps) = overview["activity"]["steps"].as_array() {
        let sum = |member: &str| steps.iter().filter_map(|step| step[member].as_u64()).sum();
        let (runs, failed, tokens): (u64, u64, u64) = (sum("runs"), sum("failed"), sum("tokens"));
        let since = plain_text(&overview["activity"]["since"]);
        output.line(format!(
            "runs since {since}: {runs}, failed {failed}, tokens {tokens}"
        ));
    }
    for (list, columns, none) in [
        ("troubles", TROUBLES, "Nothing needs somebody."),
        ("failedRuns", FAILED_RUNS, "No run has failed."),
    ] {
        if let Some(items) = overview[list].as_array() {
            if !items.is_empty() {
                output.line("");
            }
            hub.show_items(items, columns, none);
        }
    }
    Ok(())
}

/// How many tenants are in each state, in one line.
fn tenant_counts(counts: &Value) -> String {
    let counts = counts.as_array().into_iter().flatten();
    let parts: Vec<String> = counts
        .map(|count| format!("{} {}", count["count"], plain_text(&count["status"])))
        .collect();
    match parts.as_slice() {
        [] => "none".into(),
        parts => parts.join(", "),
    }
}

pub(super) fn list_runs(context: &Context, args: HubRunsArgs) -> Result<(), Failure> {
    let hub = &HubClient::new(context, &args.hub)?;
    let call = HubCall::new("list_all_runs")
        .with_optional("status", args.status)
        .with_optional("trigger", args.trigger)
        .with_optional("model", args.model)
        .with_optional("since", args.since)
        .with_optional("until", args.until);
    let answer = hub.call_list(call, "runs", &args.page.into())?;
    hub.show_list(&answer, "runs", RUNS, "There are no runs.");
    Ok(())
}

pub(super) fn list_jobs(context: &Context, args: &HubJobsArgs) -> Result<(), Failure> {
    let hub = &HubClient::new(context, &args.hub)?;
    let call = HubCall::new("list_upcoming_crons")
        .with_optional("limit", args.limit)
        .with_flag("all", args.all);
    let answer = hub.call(&call)?;
    let none = if args.all {
        "There are no jobs."
    } else {
        "No job has a next time."
    };
    hub.show_list(&answer, "jobs", JOBS, none);
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tenants_are_counted_by_state() {
        let counts = json!([{"status": "ready", "count": 3}, {"status": "failed", "count": 1}]);
        assert_eq!(tenant_counts(&counts), "3 ready, 1 failed");
        assert_eq!(tenant_counts(&json!([])), "none");
    }
}
