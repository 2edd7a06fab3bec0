//! `hermes hub audit …`: who did what.

use serde_json::Value;

use super::super::tenant::files::save;
use crate::{
    cli::{AuditFilter, HubAuditArgs, HubAuditCommand},
    context::Context,
    failure::Failure,
    hub::{Call, Column, HubClient, plain},
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
            let answer = hub.ask(&filtered(filter).with("limit", limit))?;
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
            save(hub, &filtered(filter).with("format", "ndjson"), &file)
        }
        HubAuditCommand::Verify => verify(hub),
    }
}

fn filtered(filter: AuditFilter) -> Call {
    Call::to("list_audit")
        .maybe("tenant", filter.tenant)
        .maybe("actor", filter.actor)
        .maybe("action", filter.action)
        .maybe("decision", filter.decision)
        .maybe("since", filter.since)
        .maybe("until", filter.until)
}

fn verify(hub: &HubClient<'_>) -> Result<(), Failure> {
    let answer = hub.ask(&Call::to("verify_audit"))?.value;
    let chains = answer["chains"].as_array().cloned().unwrap_or_default();
    let broken = chains
        .iter()
        .find(|chain| !chain["firstBrokenSeq"].is_null());
    if let Some(chain) = broken {
        let failure = Failure::failed(format!(
            "entry {} of chain `{}` is not as it was written: {}",
            plain(&chain["firstBrokenSeq"]),
            plain(&chain["chain"]),
            plain(&chain["reason"]),
        ));
        let is_told = hub.output().is_json();
        return Err(if is_told { failure.told() } else { failure });
    }
    let entries: u64 = chains
        .iter()
        .filter_map(|chain| chain["entries"].as_u64())
        .sum();
    hub.output()
        .line(format!("{entries} entries are as they were written."));
    debug_assert!(answer["ok"] == Value::Bool(true));
    Ok(())
}
