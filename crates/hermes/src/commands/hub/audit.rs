//! `hermes hub audit …`: who did what; and `hermes hub events`: what happens to tenants.

use serde_json::Value;

use crate::{
    cli::{AuditFilter, HubAuditArgs, HubAuditCommand, HubEventsArgs},
    commands::hub::{
        client::{Column, EventFeed, HubCall, HubClient, plain_text},
        tenant::files::save_file,
    },
    context::Context,
    failure::Failure,
};

const COLUMNS: &[Column] = &[
    ("SEQ", "/seq"),
    ("TIME", "/time"),
    ("ACTOR", "/actor"),
    ("VIA", "/via"),
    ("ACTION", "/action"),
    ("TENANT", "/tenant"),
    ("TARGET", "/target"),
    // What changes files is noted before and after.
    ("PHASE", "/phase"),
    ("DECISION", "/decision"),
    ("STATUS", "/status"),
];

pub(super) fn run(context: &Context, args: HubAuditArgs) -> Result<(), Failure> {
    let hub = &HubClient::new(context, &args.hub)?;
    match args.command {
        HubAuditCommand::Tail { filter, limit } => {
            let answer = hub.call(&audit_call(filter).with("limit", limit))?;
            let mut entries = answer.value["entries"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            // As a log reads: the newest at the end.
            entries.reverse();
            hub.show_items(&entries, COLUMNS, "There are no such entries.");
            Ok(())
        }
        HubAuditCommand::Export { file, filter } => {
            save_file(hub, &audit_call(filter).with("format", "ndjson"), &file)
        }
        HubAuditCommand::Verify => verify_log(hub),
    }
}

fn audit_call(filter: AuditFilter) -> HubCall {
    HubCall::new("list_audit")
        .with_optional("tenant", filter.tenant)
        .with_optional("actor", filter.actor)
        .with_optional("action", filter.action)
        .with_optional("decision", filter.decision)
        .with_optional("since", filter.since)
        .with_optional("until", filter.until)
}

fn verify_log(hub: &HubClient<'_>) -> Result<(), Failure> {
    let answer = hub.call(&HubCall::new("verify_audit"))?.value;
    let chains = answer["chains"].as_array().cloned().unwrap_or_default();
    let broken = chains
        .iter()
        .find(|chain| !chain["firstBrokenSeq"].is_null());
    if let Some(chain) = broken {
        let failure = Failure::failed(format!(
            "entry {} of chain `{}` was changed: {}",
            plain_text(&chain["firstBrokenSeq"]),
            plain_text(&chain["chain"]),
            plain_text(&chain["reason"]),
        ));
        let is_told = hub.output().is_json();
        return Err(if is_told {
            failure.mark_printed()
        } else {
            failure
        });
    }
    let entries: u64 = chains
        .iter()
        .filter_map(|chain| chain["entries"].as_u64())
        .sum();
    hub.output()
        .line(format!("{entries} entries verified, none was changed."));
    debug_assert!(answer["ok"] == Value::Bool(true));
    Ok(())
}

/// What happens to tenants.
pub(super) fn run_events(context: &Context, args: HubEventsArgs) -> Result<(), Failure> {
    let hub = &HubClient::new(context, &args.hub)?;
    let mut call = HubCall::new("watch_events").with_optional("tenant", args.tenant);
    if !args.types.is_empty() {
        call = call.with("type", args.types.join(","));
    }
    EventFeed::new(hub, call, args.after).show(args.follow)
}
