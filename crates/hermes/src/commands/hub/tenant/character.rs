//! `hermes tenant soul|memory`: what a tenant's agent is and knows.

use std::path::PathBuf;

use super::tenant_call;
use crate::{
    cli::{TenantMemoryArgs, TenantSoulArgs},
    commands::hub::client::{HubCall, HubClient, call::read_text},
    failure::Failure,
};

pub(super) fn run_soul(hub: &HubClient<'_>, args: TenantSoulArgs) -> Result<(), Failure> {
    let call = |operation| tenant_call(operation, &args.tenant);
    let version = args.version.if_match;
    show_or_write(hub, &call("get_soul"), call("put_soul"), args.file, version)
}

pub(super) fn run_memory(hub: &HubClient<'_>, args: TenantMemoryArgs) -> Result<(), Failure> {
    let call = |operation| tenant_call(operation, &args.tenant).with("kind", args.kind.clone());
    let version = args.version.if_match;
    show_or_write(
        hub,
        &call("get_memory"),
        call("put_memory"),
        args.file,
        version,
    )
}

fn show_or_write(
    hub: &HubClient<'_>,
    get: &HubCall,
    put: HubCall,
    file: Option<PathBuf>,
    version: Option<String>,
) -> Result<(), Failure> {
    let Some(file) = file else {
        let answer = hub.call(get)?;
        if !hub.output().is_json() {
            hub.output().raw(answer.text("/content"));
        }
        return Ok(());
    };
    let text = read_text(&file)?;
    hub.call(&put.with("content", text).if_match(version))?;
    hub.output().note("New conversations begin with this text.");
    Ok(())
}
