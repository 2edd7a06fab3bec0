//! `hermes policy …` and `hermes specialization …`: documents that hold for all agents of a Hub.

use serde_json::Value;

use crate::{
    cli::{PolicyArgs, PolicyCommand, RevisionArgs, SpecializationArgs, SpecializationCommand},
    commands::hub::client::{Column, HubCall, HubClient, PageRequest, call, plain_text},
    context::Context,
    failure::Failure,
};

const REVISIONS: &[Column] = &[
    ("REVISION", "/revision"),
    ("WRITTEN", "/updatedAt"),
    ("BY", "/updatedBy"),
];

pub(crate) fn run(context: &Context, args: PolicyArgs) -> Result<(), Failure> {
    let hub = &HubClient::new(context, &args.hub)?;
    let output = hub.output();
    match args.command {
        PolicyCommand::Get => {
            let answer = hub.call(&HubCall::new("get_agent_policy"))?;
            output.line(pretty_json(&answer.value["policy"]));
        }
        PolicyCommand::Put(args) => {
            let policy = call::read_object(&args.file)?;
            hub.confirm(args.sure.yes, "Replace the policy of all agents?")?;
            let call = HubCall::new("put_agent_policy").with("policy", policy);
            let answer = hub.call(&call.if_match(args.version.if_match))?;
            let (revision, tenants) = (
                plain_text(&answer.value["revision"]),
                plain_text(&answer.value["affectedTenants"]),
            );
            output.note(format!(
                "The policy is revision {revision}; it applies to {tenants} tenants."
            ));
        }
        PolicyCommand::Explain { tenant, tool } => {
            let call = HubCall::new("explain_policy")
                .with("tenant_id", tenant)
                .with("tool", tool);
            let answer = hub.call(&call)?;
            output.line(format!(
                "{}: {}",
                answer.text("/decision"),
                answer.text("/rule")
            ));
        }
        PolicyCommand::Revisions(page) => {
            list_revisions(hub, "list_policy_revisions", &page.into())?;
        }
        PolicyCommand::Restore(args) => restore_revision(hub, "restore_policy", args)?,
    }
    Ok(())
}

pub(crate) fn run_specialization(
    context: &Context,
    args: SpecializationArgs,
) -> Result<(), Failure> {
    let hub = &HubClient::new(context, &args.hub)?;
    match args.command {
        SpecializationCommand::Get => {
            let answer = hub.call(&HubCall::new("get_agent_specialization"))?;
            if !hub.output().is_json() {
                hub.output().raw(answer.text("/content"));
                print_effect(hub, &answer.value);
            }
        }
        SpecializationCommand::Put(args) => {
            let text = call::read_text(&args.file)?;
            hub.confirm(
                args.sure.yes,
                "Replace the text before every agent's own instructions?",
            )?;
            let call = HubCall::new("put_agent_specialization").with("content", text);
            let answer = hub.call(&call.if_match(args.version.if_match))?;
            print_effect(hub, &answer.value);
        }
        SpecializationCommand::Revisions(page) => {
            list_revisions(hub, "list_specialization_revisions", &page.into())?;
        }
        SpecializationCommand::Restore(args) => {
            restore_revision(hub, "restore_specialization", args)?;
        }
    }
    Ok(())
}

/// Lists the revisions of a document; what each says is in `--json`.
pub(crate) fn list_revisions(
    hub: &HubClient<'_>,
    operation: &'static str,
    page: &PageRequest,
) -> Result<(), Failure> {
    let answer = hub.call_list(HubCall::new(operation), "revisions", page)?;
    hub.show_list(&answer, "revisions", REVISIONS, "It was never changed.");
    Ok(())
}

/// Writes an earlier revision of a document as a new one.
pub(crate) fn restore_revision(
    hub: &HubClient<'_>,
    operation: &'static str,
    args: RevisionArgs,
) -> Result<(), Failure> {
    let question = format!(
        "Restore revision {}? It applies to all agents.",
        args.revision
    );
    hub.confirm(args.sure.yes, &question)?;
    let call = HubCall::new(operation).with("revision", args.revision);
    let answer = hub.call(&call.if_match(args.version.if_match))?;
    hub.output().note(format!(
        "Revision {} restores revision {}.",
        plain_text(&answer.value["revision"]),
        args.revision
    ));
    Ok(())
}

fn print_effect(hub: &HubClient<'_>, answer: &Value) {
    hub.output().note(format!(
        "{}: {} tenants work with it, {} will.",
        plain_text(&answer["status"]),
        plain_text(&answer["appliedTenants"]),
        plain_text(&answer["pendingTenants"]),
    ));
}

/// JSON as a person edits it.
pub(crate) fn pretty_json(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}
