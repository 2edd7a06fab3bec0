//! `hermes hub config …`: the settings whose change alters running tenants.

use crate::{
    cli::{HubConfigArgs, HubConfigCommand},
    commands::hub::{
        client::{HubCall, HubClient, call, plain_text},
        policy::{list_revisions, pretty_json, restore_revision},
    },
    context::Context,
    failure::Failure,
};

pub(super) fn run(context: &Context, args: HubConfigArgs) -> Result<(), Failure> {
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
