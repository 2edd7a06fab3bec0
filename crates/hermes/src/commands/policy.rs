//! `hermes policy …` and `hermes specialization …`: documents that hold for all agents of a Hub.

use serde_json::Value;

use crate::{
    cli::{PolicyArgs, PolicyCommand, RevisionArgs, SpecializationArgs, SpecializationCommand},
    context::Context,
    failure::Failure,
    hub::{Call, Column, HubClient, Page, input, plain},
};

const REVISIONS: &[Column] = &[
    ("REVISION", "/revision"),
    ("WRITTEN", "/updatedAt"),
    ("BY", "/updatedBy"),
];

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
        PolicyCommand::Revisions(page) => revisions(hub, "list_policy_revisions", &page.into())?,
        PolicyCommand::Restore(args) => restore(hub, "restore_policy", args)?,
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
        SpecializationCommand::Revisions(page) => {
            revisions(hub, "list_specialization_revisions", &page.into())?;
        }
        SpecializationCommand::Restore(args) => restore(hub, "restore_specialization", args)?,
    }
    Ok(())
}

/// Lists the revisions of a document; what each says is in `--json`.
pub(super) fn revisions(
    hub: &HubClient<'_>,
    operation: &'static str,
    page: &Page,
) -> Result<(), Failure> {
    let answer = hub.ask_list(Call::to(operation), "revisions", page)?;
    hub.show_list(&answer, "revisions", REVISIONS, "It was never changed.");
    Ok(())
}

/// Writes an earlier revision of a document as a new one.
pub(super) fn restore(
    hub: &HubClient<'_>,
    operation: &'static str,
    args: RevisionArgs,
) -> Result<(), Failure> {
    let question = format!(
        "Go back to revision {}? It holds for all agents.",
        args.revision
    );
    hub.confirm(args.sure.yes, &question)?;
    let call = Call::to(operation).with("revision", args.revision);
    let answer = hub.ask(&call.if_match(args.version.if_match))?;
    hub.output().note(format!(
        "Revision {} says what revision {} said.",
        plain(&answer.value["revision"]),
        args.revision
    ));
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
