//! `hermes share …`: files that tenants of a group share.

use serde_json::Value;

use super::tenant::files::{COLUMNS, cat};
use crate::{
    cli::{ShareArgs, ShareCommand},
    context::Context,
    failure::Failure,
    hub::{Call, Column, HubClient, input, plain},
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

pub(super) fn run(context: &Context, args: ShareArgs) -> Result<(), Failure> {
    let hub = &HubClient::new(context, &args.hub)?;
    let tenant = args.tenant.ok_or_else(|| {
        Failure::usage("`hermes share` needs a tenant")
            .hint("`--tenant` says in whose place; `hermes tenant list` shows all")
    })?;
    let of = |operation, group: &str| {
        Call::to(operation)
            .with("tenant_id", tenant.as_str())
            .with("group_id", group)
    };
    let output = hub.output();
    match args.command {
        ShareCommand::List => {
            let answer = hub.ask(&Call::to("list_shares").with("tenant_id", tenant.as_str()))?;
            hub.show_list(
                &answer,
                "shares",
                SHARES,
                "It is a member of no group. `hermes group member add` changes that.",
            );
        }
        ShareCommand::Ls { group, path } => {
            let answer = hub.ask(&of("list_share_files", &group).maybe("path", path))?;
            hub.show_list(&answer, "entries", COLUMNS, "There are no files.");
            tell_cut(hub, &answer.value);
        }
        ShareCommand::Cat(args) => {
            let call = of("read_share_file", &args.group).with("path", args.path);
            cat(
                hub,
                &call.maybe("offset", args.offset).maybe("limit", args.limit),
            )?;
        }
        ShareCommand::Stat { group, path } => {
            let answer = hub.ask(&of("stat_share_path", &group).with("path", path))?;
            hub.show_members(&answer.value);
        }
        ShareCommand::Grep(args) => {
            let call = of("grep_share", &args.group)
                .with("pattern", args.pattern)
                .maybe("path", args.path)
                .maybe("max", args.max)
                .flag("ignore_case", args.ignore_case);
            let answer = hub.ask(&call)?;
            show_matches(hub, &answer.value);
            tell_cut(hub, &answer.value);
        }
        ShareCommand::Find(args) => {
            let call = of("find_share_files", &args.group)
                .maybe("path", args.path)
                .maybe("name", args.name)
                .maybe("max", args.max);
            let answer = hub.ask(&call)?;
            for found in answer.value["paths"].as_array().into_iter().flatten() {
                output.line(plain(&found["path"]));
            }
            tell_cut(hub, &answer.value);
        }
        ShareCommand::Write(args) => {
            let text = match &args.from {
                Some(file) => input::text(file)?,
                None => input::stdin()?,
            };
            let call = of("write_share_file", &args.group)
                .with("path", args.path.clone())
                .with("content", text)
                .maybe("mode", args.append.then_some("append"));
            let answer = hub.ask(&call.if_match(args.version.if_match))?;
            let bytes = plain(&answer.value["bytesWritten"]);
            output.note(format!("Wrote {bytes} bytes to `{}`.", args.path));
        }
        ShareCommand::Mkdir { group, path } => {
            hub.ask(&of("make_share_dir", &group).with("path", path.clone()))?;
            output.note(format!("`{path}` is there."));
        }
        ShareCommand::Mv { group, from, to } => {
            hub.ask(
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
            hub.ask(&call.flag("recursive", args.recursive))?;
            output.note(format!("Removed `{path}`."));
        }
    }
    Ok(())
}

fn show_matches(hub: &HubClient<'_>, answer: &Value) {
    for found in answer["matches"].as_array().into_iter().flatten() {
        let text = printable(found["text"].as_str().unwrap_or_default());
        let (path, line) = (plain(&found["path"]), plain(&found["line"]));
        hub.output().line(format!("{path}:{line}: {text}"));
    }
}

/// Says that there is more than was shown.
fn tell_cut(hub: &HubClient<'_>, answer: &Value) {
    if answer["truncated"] == true {
        hub.output()
            .warning("there is more than this; name a narrower path or pattern, or raise `--max`");
    }
}
