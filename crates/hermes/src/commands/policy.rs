//! `hermes policy …` and `hermes specialization …`: documents that hold for all agents of a Hub.

use serde_json::Value;

use crate::{
    cli::{PolicyArgs, PolicyCommand, SpecializationArgs, SpecializationCommand},
    context::Context,
    failure::Failure,
    hub::{Call, HubClient, input, plain},
};

pub(super) fn run(context: &Context, args: PolicyArgs) -> Result<(), Failure> {
    let hub = &HubClient::new(context, &args.hub)?;
    let output = hub.output();
    match args.command {
        PolicyCommand::Get => {
            let answer = hub.ask(&Call::to("get_agent_policy"))?;
            output.line(pretty(&answer.value["policy"]));
        }
        PolicyCommand::Put(args) => {
            let policy = input::object(&args.file)?;
            hub.confirm(
                args.sure.yes,
                "Replace the policy that holds for all agents?",
            )?;
            let call = Call::to("put_agent_policy").with("policy", policy);
            let answer = hub.ask(&call.if_match(args.version.if_match))?;
            let (revision, tenants) = (
                plain(&answer.value["revision"]),
                plain(&answer.value["affectedTenants"]),
            );
            output.note(format!(
                "The policy is revision {revision}; it holds for {tenants} tenants."
            ));
        }
        PolicyCommand::Explain { tenant, tool } => {
            let call = Call::to("explain_policy")
                .with("tenant_id", tenant)
                .with("tool", tool);
            let answer = hub.ask(&call)?;
            output.line(format!(
                "{}: {}",
                answer.text("/decision"),
                answer.text("/rule")
            ));
        }
    }
    Ok(())
}

pub(super) fn specialization(context: &Context, args: SpecializationArgs) -> Result<(), Failure> {
    let hub = &HubClient::new(context, &args.hub)?;
    match args.command {
        SpecializationCommand::Get => {
            let answer = hub.ask(&Call::to("get_agent_specialization"))?;
            if !hub.output().is_json() {
                hub.output().raw(answer.text("/content"));
                tell(hub, &answer.value);
            }
        }
        SpecializationCommand::Put(args) => {
            let text = input::text(&args.file)?;
            hub.confirm(
                args.sure.yes,
                "Replace the text before every agent's own instructions?",
            )?;
            let call = Call::to("put_agent_specialization").with("content", text);
            let answer = hub.ask(&call.if_match(args.version.if_match))?;
            tell(hub, &answer.value);
        }
    }
    Ok(())
}

fn tell(hub: &HubClient<'_>, answer: &Value) {
    hub.output().note(format!(
        "{}: {} tenants work with it, {} will.",
        plain(&answer["status"]),
        plain(&answer["appliedTenants"]),
        plain(&answer["pendingTenants"]),
    ));
}

/// JSON as a person edits it.
pub(super) fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}
