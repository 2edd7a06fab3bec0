//! `hermes tenant …`: tenants of a Hub, over its REST interface.

use crate::{
    cli::{RotateKeyArgs, TenantArgs, TenantCommand},
    context::Context,
    failure::Failure,
    hub::{Call, Column, HubClient},
};

mod agent;
mod cron;
mod describe;
mod env;
pub(super) mod files;
mod runs;
mod skill;
mod sync;

const COLUMNS: &[Column] = &[
    ("ID", "/id"),
    ("NAME", "/displayName"),
    ("STATUS", "/status"),
    ("ACCESS", "/access/status"),
    ("FLAVOR", "/flavor"),
    ("MODEL", "/agent/model"),
];

pub(super) fn run(context: &Context, args: TenantArgs) -> Result<(), Failure> {
    let hub = &HubClient::new(context, &args.hub)?;
    match args.command {
        TenantCommand::List(args) => {
            let call = Call::to("list_tenants")
                .maybe("status", args.status)
                .maybe("search", args.search);
            let answer = hub.ask_list(call, "tenants", &args.page.into())?;
            hub.show_list(
                &answer,
                "tenants",
                COLUMNS,
                "There are no tenants. `hermes tenant create` makes one.",
            );
            Ok(())
        }
        TenantCommand::Get(args) => get(hub, &args.tenant),
        TenantCommand::Create(args) => describe::create(hub, *args),
        TenantCommand::Update(args) => describe::update(hub, *args),
        TenantCommand::Delete(args) => {
            let tenant = &args.tenant;
            let question = if args.purge {
                format!("Delete `{tenant}` with its home, for ever?")
            } else {
                format!("Delete `{tenant}`, which can be restored for some days?")
            };
            hub.confirm(args.sure.yes, &question)?;
            hub.ask(&of("delete_tenant", tenant).flag("purge", args.purge))?;
            hub.output().note(format!("Deleted `{tenant}`."));
            Ok(())
        }
        TenantCommand::Restore(args) => {
            hub.ask(&of("restore_tenant", &args.tenant))?;
            hub.output().note(format!("Restored `{}`.", args.tenant));
            Ok(())
        }
        TenantCommand::Block(args) => {
            let tenant = &args.tenant;
            let question =
                format!("Block `{tenant}`? Its runs are stopped, and its jobs do not run.");
            hub.confirm(args.sure.yes, &question)?;
            let call = of("set_tenant_access", tenant).with("status", "blocked");
            hub.ask(
                &call
                    .maybe("message", args.message)
                    .maybe("reason", args.reason),
            )?;
            hub.output().note(format!("Blocked `{tenant}`."));
            Ok(())
        }
        TenantCommand::Unblock(args) => {
            hub.ask(&of("set_tenant_access", &args.tenant).with("status", "active"))?;
            hub.output()
                .note(format!("`{}` may work again.", args.tenant));
            Ok(())
        }
        TenantCommand::Start(args) => agent::change(hub, "start_tenant_agent", &args.tenant),
        TenantCommand::Restart(args) => agent::change(hub, "restart_tenant_agent", &args.tenant),
        TenantCommand::Stop(args) => match args.run {
            Some(run) => runs::stop(hub, &args.tenant, &run),
            None => agent::change(hub, "stop_tenant_agent", &args.tenant),
        },
        TenantCommand::Run(args) => runs::start(hub, args),
        TenantCommand::Runs(args) => match args.run {
            Some(run) => runs::get(hub, &args.tenant, &run),
            None => runs::list(hub, args),
        },
        TenantCommand::Watch(args) => {
            crate::hub::Watch::new(hub, &args.tenant, &args.run, args.after).follow()
        }
        TenantCommand::Approve(args) => runs::approve(hub, args),
        TenantCommand::RotateKey(args) => rotate_key(hub, &args),
        TenantCommand::Sync(args) => sync::run(hub, &args),
        TenantCommand::Files(args) => files::run(hub, &args),
        TenantCommand::Cron { command } => cron::run(hub, command),
        TenantCommand::Skill { command } => skill::run(hub, command),
        TenantCommand::Env { command } => env::run(hub, command),
    }
}

/// A call about a tenant.
fn of(operation: &'static str, tenant: &str) -> Call {
    Call::to(operation).with("tenant_id", tenant)
}

fn rotate_key(hub: &HubClient<'_>, args: &RotateKeyArgs) -> Result<(), Failure> {
    let tenant = &args.tenant;
    let question =
        format!("Give `{tenant}` another runtime key? Its agent takes it at its next start.");
    hub.confirm(args.sure.yes, &question)?;
    let call = of("rotate_runtime_key", tenant).maybe("grace", args.grace);
    let answer = hub.ask(&call)?;
    if !hub.output().is_json() {
        hub.output()
            .note(format!("The runtime key of `{tenant}` is shown this once:"));
        hub.output().line(answer.text("/runtimeKey"));
    }
    Ok(())
}

fn get(hub: &HubClient<'_>, tenant: &str) -> Result<(), Failure> {
    let answer = hub.ask(&of("get_tenant", tenant))?;
    if hub.output().is_json() {
        return Ok(());
    }
    hub.show_members(&answer.value);
    // A tenant is worth seeing though its agent cannot be asked.
    if let Ok(agent) = hub.ask_quietly(&of("get_tenant_agent", tenant)) {
        hub.output()
            .line(format!("agent.state: {}", agent.text("/state")));
    }
    Ok(())
}
