//! `hermes tenant sync`: a tenant's context, copied to a directory of the Hub's machine.

use serde_json::Value;

use super::tenant_call;
use crate::{
    cli::TenantSyncArgs,
    commands::hub::client::{HubClient, plain_text},
    failure::Failure,
};

pub(super) fn run(hub: &HubClient<'_>, args: &TenantSyncArgs) -> Result<(), Failure> {
    let (tenant, destination) = (&args.tenant, &args.destination);
    if args.delete && !args.dry_run {
        let question = format!(
            "Copy the context of `{tenant}` to `{destination}`, and delete there what it no longer has?"
        );
        hub.confirm(args.sure.yes, &question)?;
    }
    let call = tenant_call("sync_context", tenant)
        .with("destination", destination.clone())
        .with_flag("dry_run", args.dry_run)
        .with_flag("delete", args.delete);
    let answer = hub.call(&call)?;
    let output = hub.output();
    for (list, sign) in [
        ("copied", '+'),
        ("updated", '~'),
        ("deleted", '-'),
        ("kept", '='),
    ] {
        for path in answer
            .value
            .get(list)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            output.line(format!("{sign} {}", plain_text(path)));
        }
    }
    for skipped in answer
        .value
        .get("skipped")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        let reason = plain_text(&skipped["reason"]);
        output.line(format!("! {} ({reason})", plain_text(&skipped["path"])));
    }
    let count = |name: &str| answer.value["counts"][name].as_u64().unwrap_or(0);
    let did = if args.dry_run { "Would copy" } else { "Copied" };
    output.note(format!(
        "{did} {}, update {}, delete {}; {} unchanged.",
        count("copied"),
        count("updated"),
        count("deleted"),
        plain_text(&answer.value["unchanged"]),
    ));
    Ok(())
}
