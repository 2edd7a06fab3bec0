//! `hermes tenant files`: the workspace of a tenant's agent, to look at.

use std::{
    fs::File,
    io::{self, Write},
    path::Path,
};

use super::tenant_call;
use crate::{
    cli::TenantFilesArgs,
    commands::hub::client::{Column, HubCall, HubClient},
    failure::Failure,
};

/// How files are listed, here and in shares.
pub(in crate::commands) const COLUMNS: &[Column] = &[
    ("TYPE", "/type"),
    ("SIZE", "/size"),
    ("MODIFIED", "/modifiedAt"),
    ("PATH", "/path"),
];

pub(super) fn run(hub: &HubClient<'_>, args: &TenantFilesArgs) -> Result<(), Failure> {
    let call =
        |operation| tenant_call(operation, &args.tenant).with_optional("path", args.path.clone());
    if let Some(file) = &args.output {
        return save_file(hub, &download_call(args)?, file);
    }
    if args.cat {
        return print_file(hub, &call("read_file"));
    }
    let answer = hub.call(&call("list_files"))?;
    hub.show_list(&answer, "entries", COLUMNS, "There are no files.");
    Ok(())
}

/// A file as it is, or a directory as an archive.
fn download_call(args: &TenantFilesArgs) -> Result<HubCall, Failure> {
    let call = tenant_call("download_file", &args.tenant);
    if args.archive {
        let path = args.path.clone().unwrap_or_default();
        return Ok(call.with("path", path).with("format", "tar.zst"));
    }
    let path = args.path.clone().ok_or_else(|| {
        Failure::usage("`--output` needs the path of a file")
            .hint("`--archive` saves the whole workspace")
    })?;
    Ok(call.with("path", path))
}

/// Prints the text of a file, page by page; with `--json` the page that was asked for.
pub(in crate::commands) fn print_file(hub: &HubClient<'_>, call: &HubCall) -> Result<(), Failure> {
    let mut answer = hub.call(call)?;
    if hub.output().is_json() {
        return Ok(());
    }
    let wants_all = !call.has("limit");
    loop {
        hub.output().raw(answer.text("/content"));
        match answer.value["nextOffset"].as_u64() {
            Some(next) if wants_all => answer = hub.call(&call.clone().with("offset", next))?,
            _ => return Ok(()),
        }
    }
}

/// Writes what an operation gives to a file; `-` is stdout.
pub(in crate::commands) fn save_file(
    hub: &HubClient<'_>,
    call: &HubCall,
    path: &Path,
) -> Result<(), Failure> {
    if path.as_os_str() == "-" {
        let output = hub.output();
        hub.download(call, |piece| output.bytes(piece))?;
        return Ok(io::stdout().flush()?);
    }
    let failed = |error: io::Error| {
        Failure::failed(format!("`{}` cannot be written: {error}", path.display()))
    };
    // Made with the first piece: a file that is not there leaves nothing behind.
    let mut file = None;
    hub.download(call, |piece| {
        if file.is_none() {
            file = Some(File::create(path)?);
        }
        file.as_mut().map_or(Ok(()), |file| file.write_all(piece))
    })?;
    if file.is_none() {
        File::create(path).map_err(failed)?;
    }
    hub.output().note(format!("Saved `{}`.", path.display()));
    Ok(())
}
