//! `hermes tenant files T grep|find|put|rm|mv|mkdir|upload`: searching and changing the workspace of a tenant.

use super::tenant_call;
use crate::{
    cli::TenantFilesCommand,
    commands::hub::{
        client::{
            HubClient, plain_text,
            upload::{pack_directory, read_bytes},
        },
        share::{find_paths, search_text},
    },
    failure::Failure,
};

pub(super) fn run(
    hub: &HubClient<'_>,
    tenant: &str,
    command: TenantFilesCommand,
) -> Result<(), Failure> {
    let output = hub.output();
    match command {
        TenantFilesCommand::Grep(query) => {
            search_text(hub, tenant_call("grep_files", tenant), query)?;
        }
        TenantFilesCommand::Find(query) => {
            find_paths(hub, tenant_call("find_files", tenant), query)?;
        }
        TenantFilesCommand::Put {
            file,
            path,
            append,
            version,
        } => {
            let bytes = read_bytes(&file)?;
            let call = tenant_call("write_file", tenant)
                .with("path", path.clone())
                .with_optional("mode", append.then_some("append"))
                .with_bytes("application/octet-stream", bytes);
            let answer = hub.call(&call.if_match(version.if_match))?;
            let size = plain_text(&answer.value["size"]);
            output.note(format!("Wrote `{path}`, which has {size} bytes now."));
        }
        TenantFilesCommand::Rm {
            path,
            recursive,
            sure,
        } => {
            hub.confirm(
                sure.yes,
                &format!("Remove `{path}` of `{tenant}`, for good?"),
            )?;
            let call = tenant_call("remove_file", tenant)
                .with("path", path.clone())
                .with_flag("recursive", recursive);
            hub.call(&call)?;
            output.note(format!("Removed `{path}`."));
        }
        TenantFilesCommand::Mv { from, to } => {
            let call = tenant_call("move_file", tenant)
                .with("from", from.clone())
                .with("to", to.clone());
            hub.call(&call)?;
            output.note(format!("Moved `{from}` to `{to}`."));
        }
        TenantFilesCommand::Mkdir { path } => {
            hub.call(&tenant_call("make_directory", tenant).with("path", path.clone()))?;
            output.note(format!("`{path}` is there."));
        }
        TenantFilesCommand::Upload { source, path } => {
            let archive = if source.is_dir() {
                pack_directory(&source)?
            } else {
                read_bytes(&source)?
            };
            let call = tenant_call("upload_archive", tenant)
                .with_optional("path", path)
                .with_bytes("application/octet-stream", archive);
            let answer = hub.call(&call)?;
            output.note(format!(
                "Wrote {} files with {} bytes.",
                plain_text(&answer.value["files"]),
                plain_text(&answer.value["bytes"]),
            ));
        }
    }
    Ok(())
}
