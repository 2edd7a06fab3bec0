//! `hermes mcp reload`: makes the running processes of this home read the configuration again.

use std::time::Duration;

use hermes_config::ServerName;
use hermes_mcp::{
    ReloadReport,
    control::{self, ControlRequest, ControlResponse},
};
use serde_json::json;

use crate::{
    cli::ReloadArgs,
    context::Context,
    failure::{Failure, FailureKind},
};

/// Stopping one server may take ten seconds, all of them fifteen.
const RELOAD_TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) fn run(context: &Context, args: &ReloadArgs) -> Result<(), Failure> {
    // A broken file is told from here, with its line, and reaches nobody.
    let mut settings = context.settings()?;
    context.add_built_in(&mut settings);
    if let Some(name) = &args.name {
        crate::commands::mcp::requests::probe::find_entry(&settings, name)?;
    }
    let mut processes = Vec::new();
    let mut total = ReloadReport::default();
    for reply in control::query_processes(&context.home, &ControlRequest::Reload, RELOAD_TIMEOUT) {
        match reply.response {
            ControlResponse::Reloaded { report } => merge_report(&mut total, report),
            ControlResponse::Refused { reason } => {
                return Err(Failure::new(
                    FailureKind::Failed,
                    format!("process {} refused: {reason}", reply.pid),
                ));
            }
            _ => {}
        }
        processes.push(reply.pid);
    }
    if let Some(name) = &args.name {
        let server = ServerName::new(name);
        control::query_processes(
            &context.home,
            &ControlRequest::Wake { server },
            RELOAD_TIMEOUT,
        );
    }
    let output = context.output;
    if processes.is_empty() {
        output.note(
            "No hermes process runs in this home; the next one reads the configuration as it is.",
        );
    }
    for (verb, names) in [
        ("added", &total.added),
        ("removed", &total.removed),
        ("restarted", &total.restarted),
        ("retried", &total.retried),
        ("unchanged", &total.unchanged),
    ] {
        if !names.is_empty() {
            output.line(format!("{verb:<12} {}", names.join(", ")));
        }
    }
    output.json(json!({
        "processes": processes,
        "added": total.added,
        "removed": total.removed,
        "restarted": total.restarted,
        "unchanged": total.unchanged,
        "retried": total.retried,
    }));
    Ok(())
}

/// What any of the processes did counts.
fn merge_report(total: &mut ReloadReport, report: ReloadReport) {
    let merge = |all: &mut Vec<String>, more: Vec<String>| {
        for name in more {
            if !all.contains(&name) {
                all.push(name);
            }
        }
    };
    merge(&mut total.added, report.added);
    merge(&mut total.removed, report.removed);
    merge(&mut total.restarted, report.restarted);
    merge(&mut total.unchanged, report.unchanged);
    merge(&mut total.retried, report.retried);
}
