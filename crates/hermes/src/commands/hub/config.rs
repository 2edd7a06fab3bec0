//! `hermes hub config …`: the settings whose change alters running tenants.

use super::super::policy::{pretty, restore, revisions};
use crate::{
    cli::{HubConfigArgs, HubConfigCommand},
    context::Context,
    failure::Failure,
    hub::{Call, HubClient, input, plain},
};

pub(super) fn run(context: &Context, args: HubConfigArgs) -> Result<(), Failure> {
    let hub = &HubClient::new(context, &args.hub)?;
    let output = hub.output();
    match args.command {
        HubConfigCommand::Get => {
            let answer = hub.ask(&Call::to("get_tenant_impact_config"))?;
            output.line(pretty(&answer.value["config"]));
        }
        HubConfigCommand::Revisions(page) => {
            revisions(hub, "list_impact_revisions", &page.into())?;
        }
        HubConfigCommand::Restore(args) => restore(hub, "restore_impact", args)?,
        HubConfigCommand::Patch {
            file,
            version,
            sure,
        } => {
            let patch = input::object(&file)?;
            hub.confirm(sure.yes, "Change the settings of all tenants?")?;
            let call = Call::to("patch_tenant_impact_config").with("patch", patch);
            let answer = hub.ask(&call.if_match(version.if_match))?.value;
            let revision = plain(&answer["revision"]);
            output.note(format!(
                "Changed, revision {revision}: {}.",
                plain(&answer["changed"])
            ));
            if answer["restartTenants"]
                .as_array()
                .is_some_and(|tenants| !tenants.is_empty())
            {
                output.note(format!(
                    "Restarting when idle: {}.",
                    plain(&answer["restartTenants"])
                ));
            }
        }
    }
    Ok(())
}
