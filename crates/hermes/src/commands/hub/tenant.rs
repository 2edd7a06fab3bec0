//! `hermes tenant …`: tenants of a Hub, over its REST interface.

mod apply;
mod character;
mod cron;
mod describe;
pub(super) mod env;
mod file_changes;
pub(crate) mod files;
mod mcp;
mod messaging;
mod model;
mod runs;
mod sessions;
mod skill;

use serde_json::Value;

use crate::{
    cli::{RotateKeyArgs, TenantArgs, TenantCommand, TenantSyncArgs},
    commands::hub::client::{Column, HubCall, HubClient, plain_text},
    context::Context,
    failure::Failure,
};

const COLUMNS: &[Column] = &[
    ("ID", "/id"),
    ("NAME", "/displayName"),
    ("STATUS", "/status"),
    ("ACCESS", "/access/status"),
    ("FLAVOR", "/flavor"),
    ("MODEL", "/agent/model"),
];

pub(crate) fn run(context: &Context, args: TenantArgs) -> Result<(), Failure> {
    let hub = &HubClient::new(context, &args.hub)?;
    match args.command {
        TenantCommand::List(args) => {
            let call = HubCall::new("list_tenants")
                .with_optional("status", args.status)
                .with_optional("search", args.search);
            let answer = hub.call_list(call, "tenants", &args.page.into())?;
            hub.show_list(
                &answer,
                "tenants",
                COLUMNS,
                "There are no tenants. `hermes tenant create` makes one.",
            );
            Ok(())
        }
        TenantCommand::Get(args) => show_tenant(hub, &args.tenant),
        TenantCommand::Create(args) => describe::create_tenant(hub, *args),
        TenantCommand::Update(args) => describe::update_tenant(hub, *args),
        TenantCommand::Delete(args) => {
            let tenant = &args.tenant;
            let question = if args.purge {
                format!("Delete `{tenant}` with its home, permanently?")
            } else {
                format!("Delete `{tenant}`, which can be restored for some days?")
            };
            hub.confirm(args.sure.yes, &question)?;
            hub.call(&tenant_call("delete_tenant", tenant).with_flag("purge", args.purge))?;
            hub.output().note(format!("Deleted `{tenant}`."));
            Ok(())
        }
        TenantCommand::Restore(args) => {
            hub.call(&tenant_call("restore_tenant", &args.tenant))?;
            hub.output().note(format!("Restored `{}`.", args.tenant));
            Ok(())
        }
        TenantCommand::Block(args) => {
            let tenant = &args.tenant;
            let question =
                format!("Block `{tenant}`? Its runs are stopped, and its jobs do not run.");
            hub.confirm(args.sure.yes, &question)?;
            let call = tenant_call("set_tenant_access", tenant).with("status", "blocked");
            hub.call(
                &call
                    .with_optional("message", args.message)
                    .with_optional("reason", args.reason),
            )?;
            hub.output().note(format!("Blocked `{tenant}`."));
            Ok(())
        }
        TenantCommand::Unblock(args) => {
            hub.call(&tenant_call("set_tenant_access", &args.tenant).with("status", "active"))?;
            hub.output().note(format!("Unblocked `{}`.", args.tenant));
            Ok(())
        }
        TenantCommand::Start(args) => runs::change(hub, "start_tenant_agent", &args.tenant),
        TenantCommand::Restart(args) => runs::change(hub, "restart_tenant_agent", &args.tenant),
        TenantCommand::Stop(args) => match args.run {
            Some(run) => runs::stop(hub, &args.tenant, &run),
            None => runs::change(hub, "stop_tenant_agent", &args.tenant),
        },
        TenantCommand::Run(args) => runs::start(hub, args),
        TenantCommand::Runs(args) => match args.run {
            Some(run) => runs::get(hub, &args.tenant, &run),
            None => runs::list(hub, args),
        },
        TenantCommand::Watch(args) => {
            crate::commands::hub::client::RunWatcher::new(hub, &args.tenant, &args.run, args.after)
                .follow()
        }
        TenantCommand::Approve(args) => runs::approve(hub, args),
        TenantCommand::RotateKey(args) => rotate_key(hub, &args),
        TenantCommand::Sync(args) => sync_context(hub, &args),
        TenantCommand::Files(mut args) => match args.command.take() {
            Some(command) => file_changes::run(hub, &args.tenant, command),
            None => files::run(hub, &args),
        },
        TenantCommand::Soul(args) => character::run_soul(hub, args),
        TenantCommand::Memory(args) => character::run_memory(hub, args),
        TenantCommand::Sessions(args) => sessions::run(hub, args),
        TenantCommand::Apply(args) => apply::run(hub, &args),
        TenantCommand::Manifest(args) => apply::show_manifest(hub, &args.tenant),
        TenantCommand::Model(args) => model::run(hub, args),
        TenantCommand::Mcp(args) => mcp::run(hub, args),
        TenantCommand::Platform(args) => messaging::run_platform(hub, args),
        TenantCommand::Pairing(args) => messaging::run_pairing(hub, args),
        TenantCommand::Limits(args) => messaging::show_limits(hub, &args.tenant),
        TenantCommand::Cron { command } => cron::run(hub, command),
        TenantCommand::Skill { command } => skill::run(hub, command),
        TenantCommand::Env { command } => env::run(hub, command),
    }
}

/// A call about a tenant.
fn tenant_call(operation: &'static str, tenant: &str) -> HubCall {
    HubCall::new(operation).with("tenant_id", tenant)
}

fn rotate_key(hub: &HubClient<'_>, args: &RotateKeyArgs) -> Result<(), Failure> {
    let tenant = &args.tenant;
    let question =
        format!("Give `{tenant}` another runtime key? Its agent takes it at its next start.");
    hub.confirm(args.sure.yes, &question)?;
    let call = tenant_call("rotate_runtime_key", tenant).with_optional("grace", args.grace);
    let answer = hub.call(&call)?;
    if !hub.output().is_json() {
        hub.output()
            .note(format!("The runtime key of `{tenant}` is shown this once:"));
        hub.output().line(answer.text("/runtimeKey"));
    }
    Ok(())
}

fn show_tenant(hub: &HubClient<'_>, tenant: &str) -> Result<(), Failure> {
    let answer = hub.call(&tenant_call("get_tenant", tenant))?;
    if hub.output().is_json() {
        return Ok(());
    }
    hub.show_members(&answer.value);
    // A tenant is worth seeing though its agent cannot be asked.
    if let Ok(agent) = hub.call_quietly(&tenant_call("get_tenant_agent", tenant)) {
        hub.output()
            .line(format!("agent.state: {}", agent.text("/state")));
    }
    Ok(())
}

/// Copies a tenant's context to a directory of the Hub's machine.
fn sync_context(hub: &HubClient<'_>, args: &TenantSyncArgs) -> Result<(), Failure> {
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
