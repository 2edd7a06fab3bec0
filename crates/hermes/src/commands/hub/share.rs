//! `hermes share …`: files that tenants of a group share.

use serde_json::Value;

use super::tenant::files::{COLUMNS, print_file};
use crate::{
    cli::{ShareArgs, ShareCommand},
    commands::hub::client::{Column, HubCall, HubClient, call, plain_text},
    context::Context,
    failure::Failure,
    output::printable,
};

const SHARES: &[Column] = &[
    ("GROUP", "/groupId"),
    ("NAME", "/displayName"),
    ("KIND", "/kind"),
    ("ACCESS", "/access"),
    ("USED", "/usedBytes"),
    ("QUOTA", "/quotaBytes"),
];

pub(crate) fn run(context: &Context, args: ShareArgs) -> Result<(), Failure> {
    let hub = &HubClient::new(context, &args.hub)?;
    let tenant = args.tenant.ok_or_else(|| {
        Failure::usage("`hermes share` needs a tenant")
            .hint("`--tenant` names the tenant to act as; `hermes tenant list` lists all")
    })?;
    let of = |operation, group: &str| {
        HubCall::new(operation)
            .with("tenant_id", tenant.as_str())
            .with("group_id", group)
    };
    let output = hub.output();
    match args.command {
        ShareCommand::List => {
            let answer =
                hub.call(&HubCall::new("list_shares").with("tenant_id", tenant.as_str()))?;
            hub.show_list(
                &answer,
                "shares",
                SHARES,
                "The tenant is not a member of any group. `hermes group member add` adds it to one.",
            );
        }
        ShareCommand::Ls { group, path } => {
            let answer = hub.call(&of("list_share_files", &group).with_optional("path", path))?;
            hub.show_list(&answer, "entries", COLUMNS, "There are no files.");
            warn_truncated(hub, &answer.value);
        }
        ShareCommand::Cat(args) => {
            let call = of("read_share_file", &args.group).with("path", args.path);
            print_file(
                hub,
                &call
                    .with_optional("offset", args.offset)
                    .with_optional("limit", args.limit),
            )?;
        }
        ShareCommand::Stat { group, path } => {
            let answer = hub.call(&of("stat_share_path", &group).with("path", path))?;
            hub.show_members(&answer.value);
        }
        ShareCommand::Grep(args) => {
            let call = of("grep_share", &args.group)
                .with("pattern", args.pattern)
                .with_optional("path", args.path)
                .with_optional("max", args.max)
                .with_flag("ignore_case", args.ignore_case);
            let answer = hub.call(&call)?;
            show_matches(hub, &answer.value);
            warn_truncated(hub, &answer.value);
        }
        ShareCommand::Find(args) => {
            let call = of("find_share_files", &args.group)
                .with_optional("path", args.path)
                .with_optional("name", args.name)
                .with_optional("max", args.max);
            let answer = hub.call(&call)?;
            for entry in answer.value["paths"].as_array().into_iter().flatten() {
                output.line(plain_text(&entry["path"]));
            }
            warn_truncated(hub, &answer.value);
        }
        ShareCommand::Write(args) => {
            let text = match &args.from {
                Some(file) => call::read_text(file)?,
                None => call::read_stdin()?,
            };
            let call = of("write_share_file", &args.group)
                .with("path", args.path.clone())
                .with("content", text)
                .with_optional("mode", args.append.then_some("append"));
            let answer = hub.call(&call.if_match(args.version.if_match))?;
            let bytes = plain_text(&answer.value["bytesWritten"]);
            output.note(format!("Wrote {bytes} bytes to `{}`.", args.path));
        }
        ShareCommand::Mkdir { group, path } => {
            hub.call(&of("make_share_dir", &group).with("path", path.clone()))?;
            output.note(format!("`{path}` exists."));
        }
        ShareCommand::Mv { group, from, to } => {
            hub.call(
                &of("move_share_path", &group)
                    .with("from", from.clone())
                    .with("to", to.clone()),
            )?;
            output.note(format!("Moved `{from}` to `{to}`."));
        }
        ShareCommand::Rm(args) => {
            let path = &args.path;
            let all = if args.recursive {
                " with all that is in it"
            } else {
                ""
            };
            hub.confirm(args.sure.yes, &format!("Remove `{path}`{all}?"))?;
            let call = of("remove_share_path", &args.group).with("path", path.clone());
            hub.call(&call.with_flag("recursive", args.recursive))?;
            output.note(format!("Removed `{path}`."));
        }
    }
    Ok(())
}

fn show_matches(hub: &HubClient<'_>, answer: &Value) {
    for line_match in answer["matches"].as_array().into_iter().flatten() {
        let text = printable(line_match["text"].as_str().unwrap_or_default());
        let (path, line) = (
            plain_text(&line_match["path"]),
            plain_text(&line_match["line"]),
        );
        hub.output().line(format!("{path}:{line}: {text}"));
    }
}

/// Says that there is more than was shown.
fn warn_truncated(hub: &HubClient<'_>, answer: &Value) {
    if answer["truncated"] == true {
        hub.output()
            .warning("there is more than this; name a narrower path or pattern, or raise `--max`");
    }
}
