//! `hermes hub …`: running a Hub, looking after it, and what holds for all of it.

mod audit;
mod backup;
pub(crate) mod client;
mod connect;
mod console;
mod doctor;
pub(crate) mod group;
mod migrate;
mod overview;
pub(crate) mod policy;
mod serve;
pub(crate) mod share;
pub(crate) mod skill_library;
mod status;
pub(crate) mod tenant;
pub(crate) mod token;
mod usage;
mod webhook;

use crate::{
    cli::{HubArgs, HubCommand, HubConfigArgs, HubConfigCommand},
    commands::hub::{
        client::{HubCall, HubClient, call, plain_text},
        policy::{list_revisions, pretty_json, restore_revision},
    },
    context::Context,
    failure::Failure,
};

pub(super) fn run(context: &Context, command: HubCommand) -> Result<(), Failure> {
    match command {
        HubCommand::Serve(args) => serve::run(context, &args),
        HubCommand::Status(args) => status::run(context, &args),
        HubCommand::Connect(args) => connect::run(context, &args),
        HubCommand::Doctor(args) => doctor::run(context, &args),
        HubCommand::Backup(args) => backup::run(context, &args),
        HubCommand::Restore(args) => backup::restore(context, &args),
        HubCommand::Migrate(args) => migrate::run(context, &args),
        HubCommand::Openapi(args) => run_openapi(context, &args),
        HubCommand::Config(args) => run_config(context, args),
        HubCommand::Audit(args) => audit::run(context, args),
        HubCommand::Node(args) => status::run_node(context, args),
        HubCommand::Overview(args) => overview::show_overview(context, &args),
        HubCommand::Runs(args) => overview::list_runs(context, args),
        HubCommand::Jobs(args) => overview::list_jobs(context, &args),
        HubCommand::Usage(args) => usage::run(context, args),
        HubCommand::Events(args) => audit::run_events(context, args),
        HubCommand::Webhook(args) => webhook::run(context, args),
        HubCommand::LoginLink(args) => console::print_login_link(context, &args),
        HubCommand::Session(args) => console::run_session(context, args),
    }
}

fn run_openapi(context: &Context, args: &HubArgs) -> Result<(), Failure> {
    let hub = &HubClient::new(context, args)?;
    let document = hub.call_text(&HubCall::new("openapi"))?;
    hub.output().raw(&format!("{}\n", document.trim_end()));
    Ok(())
}

/// `hermes hub config …`: the settings whose change alters running tenants.
fn run_config(context: &Context, args: HubConfigArgs) -> Result<(), Failure> {
    let hub = &HubClient::new(context, &args.hub)?;
    let output = hub.output();
    match args.command {
        HubConfigCommand::Get => {
            let answer = hub.call(&HubCall::new("get_tenant_impact_config"))?;
            output.line(pretty_json(&answer.value["config"]));
        }
        HubConfigCommand::Revisions(page) => {
            list_revisions(hub, "list_impact_revisions", &page.into())?;
        }
        HubConfigCommand::Restore(args) => restore_revision(hub, "restore_impact", args)?,
        HubConfigCommand::Patch {
            file,
            version,
            sure,
        } => {
            let patch = call::read_object(&file)?;
            hub.confirm(sure.yes, "Change the settings of all tenants?")?;
            let call = HubCall::new("patch_tenant_impact_config").with("patch", patch);
            let answer = hub.call(&call.if_match(version.if_match))?.value;
            let revision = plain_text(&answer["revision"]);
            output.note(format!(
                "Changed, revision {revision}: {}.",
                plain_text(&answer["changed"])
            ));
            if answer["restartTenants"]
                .as_array()
                .is_some_and(|tenants| !tenants.is_empty())
            {
                output.note(format!(
                    "Restarting when idle: {}.",
                    plain_text(&answer["restartTenants"])
                ));
            }
        }
    }
    Ok(())
}
