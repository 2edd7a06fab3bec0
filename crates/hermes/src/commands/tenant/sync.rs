//! `hermes tenant sync`: a tenant's context, copied to a directory of the Hub's machine.

use serde_json::Value;

use super::of;
use crate::{
    cli::SyncArgs,
    failure::Failure,
    hub::{HubClient, plain},
};

pub(super) fn run(hub: &HubClient<'_>, args: &SyncArgs) -> Result<(), Failure> {
    let (tenant, destination) = (&args.tenant, &args.destination);
    if args.delete && !args.dry_run {
        let question = format!(
            "Copy the context of `{tenant}` to `{destination}`, and delete there what it no longer has?"
        );
        hub.confirm(args.sure.yes, &question)?;
    }
    let call = of("sync_context", tenant)
        .with("destination", destination.clone())
        .flag("dry_run", args.dry_run)
        .flag("delete", args.delete);
    let answer = hub.ask(&call)?;
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
            output.line(format!("{sign} {}", plain(path)));
        }
    }
    for skipped in answer
        .value
        .get("skipped")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        let reason = plain(&skipped["reason"]);
        output.line(format!("! {} ({reason})", plain(&skipped["path"])));
    }
    let count = |name: &str| answer.value["counts"][name].as_u64().unwrap_or(0);
    let did = if args.dry_run { "Would copy" } else { "Copied" };
    output.note(format!(
        "{did} {}, update {}, delete {}; {} are as they were.",
        count("copied"),
        count("updated"),
        count("deleted"),
        plain(&answer.value["unchanged"]),
    ));
    Ok(())
}
