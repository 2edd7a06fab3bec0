//! `hermes share …`: files that tenants of a group share.

use serde_json::Value;

use super::tenant::files::{COLUMNS, print_file, save_file};
use crate::{
    cli::{
        FileFindArgs, FileGrepArgs, ShareArgs, ShareCommand, ShareRmArgs, ShareUploadArgs,
        ShareWriteArgs,
    },
    commands::hub::client::{Column, HubCall, HubClient, call, plain_text, upload::read_bytes},
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

const TRASH: &[Column] = &[
    ("ID", "/id"),
    ("TYPE", "/type"),
    ("SIZE", "/size"),
    ("REMOVED", "/removedAt"),
    ("PATH", "/path"),
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
            let call = of("grep_share", &args.group);
            search_text(hub, call, args.query)?;
        }
        ShareCommand::Find(args) => {
            let call = of("find_share_files", &args.group);
            find_paths(hub, call, args.query)?;
        }
        ShareCommand::Write(args) => {
            let call = of("write_share_file", &args.group);
            write_text(hub, call, args)?;
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
            let call = of("remove_share_path", &args.group);
            remove_path(hub, call, &args)?;
        }
        ShareCommand::Download { group, path, file } => {
            let call = of("download_share_file", &group).with("path", path);
            save_file(hub, &call, &file)?;
        }
        ShareCommand::Upload(args) => {
            let call = of("upload_share_file", &args.group);
            upload_file(hub, call, args)?;
        }
        ShareCommand::Trash { group } => {
            let answer = hub.call(&of("list_share_trash", &group))?;
            hub.show_list(&answer, "entries", TRASH, "The trash is empty.");
        }
        ShareCommand::Restore { group, id } => {
            let answer = hub.call(&of("restore_share_path", &group).with("id", id))?;
            let path = plain_text(&answer.value["path"]);
            output.note(format!("`{path}` is there again."));
        }
    }
    Ok(())
}

fn remove_path(hub: &HubClient<'_>, call: HubCall, args: &ShareRmArgs) -> Result<(), Failure> {
    let path = &args.path;
    let all = if args.recursive {
        " with all that is in it"
    } else {
        ""
    };
    hub.confirm(args.sure.yes, &format!("Remove `{path}`{all}?"))?;
    let call = call.with("path", path.clone());
    hub.call(&call.with_flag("recursive", args.recursive))?;
    hub.output().note(format!("Removed `{path}`."));
    Ok(())
}

fn write_text(hub: &HubClient<'_>, call: HubCall, args: ShareWriteArgs) -> Result<(), Failure> {
    let text = match &args.from {
        Some(file) => call::read_text(file)?,
        None => call::read_stdin()?,
    };
    let call = call
        .with("path", args.path)
        .with("content", text)
        .with_optional("mode", args.append.then_some("append"));
    note_written(hub, &call.if_match(args.version.if_match))
}

fn upload_file(hub: &HubClient<'_>, call: HubCall, args: ShareUploadArgs) -> Result<(), Failure> {
    let call = call
        .with("path", args.path)
        .with_optional("mode", args.append.then_some("append"))
        .with_bytes("application/octet-stream", read_bytes(&args.file)?);
    note_written(hub, &call.if_match(args.version.if_match))
}

/// Writes a file and says how much of it was written.
fn note_written(hub: &HubClient<'_>, call: &HubCall) -> Result<(), Failure> {
    let written = hub.call(call)?.value;
    let (bytes, path) = (
        plain_text(&written["bytesWritten"]),
        plain_text(&written["path"]),
    );
    hub.output()
        .note(format!("Wrote {bytes} bytes to `{path}`."));
    Ok(())
}

/// Prints the lines that an operation finds.
pub(in crate::commands) fn search_text(
    hub: &HubClient<'_>,
    call: HubCall,
    args: FileGrepArgs,
) -> Result<(), Failure> {
    let call = call
        .with("pattern", args.pattern)
        .with_optional("path", args.path)
        .with_optional("max", args.max)
        .with_flag("ignore_case", args.ignore_case);
    let answer = hub.call(&call)?;
    show_matches(hub, &answer.value);
    warn_truncated(hub, &answer.value);
    Ok(())
}

/// Prints the paths that an operation finds.
pub(in crate::commands) fn find_paths(
    hub: &HubClient<'_>,
    call: HubCall,
    args: FileFindArgs,
) -> Result<(), Failure> {
    let call = call
        .with_optional("path", args.path)
        .with_optional("name", args.name)
        .with_optional("max", args.max);
    let answer = hub.call(&call)?;
    for entry in answer.value["paths"].as_array().into_iter().flatten() {
        hub.output().line(plain_text(&entry["path"]));
    }
    warn_truncated(hub, &answer.value);
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
