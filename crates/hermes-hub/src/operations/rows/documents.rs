//! Policy, tenant-impact configuration, specialization.

use super::super::{
    Gate,
    HttpMethod::{Get, Patch, Post, Put},
    Operation,
};
use crate::{api_types::Scope, service::documents};

pub(super) fn tools() -> Vec<Operation> {
    vec![
        Operation::new("get_tenant_impact_config", &[Get], "/v1/config/tenant-impact", documents::get_impact)
            .docs("Get the tenant-impact configuration", "Shows the settings that affect running tenants, and their schema.")
            .scope(Scope::ConfigRead)
            .read_only()
            .versioned()
            .tool()
            .command("hub config get")
            .returns::<documents::ImpactReply>(),
        Operation::new("patch_tenant_impact_config", &[Patch], "/v1/config/tenant-impact", documents::patch_impact)
            .docs(
                "Patch the tenant-impact configuration",
                "Changes settings that affect running tenants, by a JSON merge patch. The whole result is checked; if \
                 it is invalid, nothing is changed.",
            )
            .scope(Scope::ConfigWrite)
            .gate(Gate::WholeHub)
            .destructive()
            .idempotent()
            .tool()
            .whole_body("patch")
            .in_query(&["dry_run"])
            .command("hub config patch")
            .errors(&[412, 422])
            .returns::<documents::ImpactReply>(),
        Operation::new("get_agent_policy", &[Get], "/v1/agent-policy", documents::get_policy)
            .docs("Get the agent policy", "Shows the policy of all agents.")
            .scope(Scope::PolicyRead)
            .read_only()
            .versioned()
            .tool()
            .command("policy get")
            .returns::<documents::PolicyReply>(),
        Operation::new("put_agent_policy", &[Put], "/v1/agent-policy", documents::put_policy)
            .docs("Replace the agent policy", "Replaces the policy of all agents. It applies from their next tool call on.")
            .scope(Scope::PolicyWrite)
            .gate(Gate::WholeHub)
            .destructive()
            .idempotent()
            .tool()
            .whole_body("policy")
            .in_query(&["dry_run"])
            .command("policy put")
            .errors(&[412, 422])
            .returns::<documents::PolicyReply>(),
        Operation::new("get_agent_specialization", &[Get], "/v1/agent-specialization", documents::get_specialization)
            .docs("Get the specialization", "Shows the text before every hosted agent's own instructions, and how many agents have applied it.")
            .scope(Scope::PolicyRead)
            .read_only()
            .versioned()
            .tool()
            .command("specialization get")
            .returns::<documents::Specialization>(),
        Operation::new("put_agent_specialization", &[Put], "/v1/agent-specialization", documents::put_specialization)
            .docs("Set the specialization", "Sets the text before every hosted agent's own instructions. An empty text removes it.")
            .scope(Scope::PolicyWrite)
            .gate(Gate::WholeHub)
            .destructive()
            .idempotent()
            .tool()
            .in_query(&["dry_run"])
            .command("specialization put")
            .errors(&[412])
            .returns::<documents::Specialization>(),
    ]
}

#[expect(clippy::too_many_lines, reason = "a table")]
pub(super) fn others() -> Vec<Operation> {
    vec![
        Operation::new(
            "list_policy_revisions",
            &[Get],
            "/v1/agent-policy/revisions",
            documents::policy_revisions,
        )
        .docs(
            "List revisions of the policy",
            "Lists all revisions of the policy, newest first.",
        )
        .extended_tool()
        .scope(Scope::PolicyRead)
        .read_only()
        .command("policy revisions")
        .returns::<documents::RevisionList>(),
        Operation::new(
            "restore_policy",
            &[Post],
            "/v1/agent-policy/revisions/{revision}/restore",
            documents::restore_policy,
        )
        .docs(
            "Restore a revision of the policy",
            "Writes the content of an earlier revision as a new one.",
        )
        .extended_tool()
        .scope(Scope::PolicyWrite)
        .gate(Gate::WholeHub)
        .destructive()
        .idempotent()
        .errors(&[412])
        .command("policy restore")
        .returns::<documents::Revision>(),
        Operation::new(
            "list_impact_revisions",
            &[Get],
            "/v1/config/tenant-impact/revisions",
            documents::impact_revisions,
        )
        .docs(
            "List revisions of the configuration",
            "Lists all revisions of the configuration, newest first.",
        )
        .extended_tool()
        .scope(Scope::ConfigRead)
        .read_only()
        .command("hub config revisions")
        .returns::<documents::RevisionList>(),
        Operation::new(
            "restore_impact",
            &[Post],
            "/v1/config/tenant-impact/revisions/{revision}/restore",
            documents::restore_impact,
        )
        .docs(
            "Restore a revision of the configuration",
            "Writes the content of an earlier revision as a new one.",
        )
        .extended_tool()
        .scope(Scope::ConfigWrite)
        .gate(Gate::WholeHub)
        .destructive()
        .idempotent()
        .errors(&[412])
        .command("hub config restore")
        .returns::<documents::Revision>(),
        Operation::new(
            "list_specialization_revisions",
            &[Get],
            "/v1/agent-specialization/revisions",
            documents::specialization_revisions,
        )
        .docs(
            "List revisions of the specialization",
            "Lists all revisions of the specialization, newest first.",
        )
        .extended_tool()
        .scope(Scope::PolicyRead)
        .read_only()
        .command("specialization revisions")
        .returns::<documents::RevisionList>(),
        Operation::new(
            "restore_specialization",
            &[Post],
            "/v1/agent-specialization/revisions/{revision}/restore",
            documents::restore_specialization,
        )
        .docs(
            "Restore a revision of the specialization",
            "Writes the content of an earlier revision as a new one.",
        )
        .extended_tool()
        .scope(Scope::PolicyWrite)
        .gate(Gate::WholeHub)
        .destructive()
        .idempotent()
        .errors(&[412])
        .command("specialization restore")
        .returns::<documents::Revision>(),
        Operation::new(
            "explain_policy",
            &[Post],
            "/v1/agent-policy/explain",
            documents::explain_policy,
        )
        .docs(
            "Explain the policy",
            "Explains whether a tenant may use a tool, and which rule decides.",
        )
        .extended_tool()
        .scope(Scope::PolicyRead)
        .read_only()
        .command("policy explain")
        .returns::<documents::ToolDecision>(),
    ]
}
