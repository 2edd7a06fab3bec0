//! Groups, tokens and the audit log.

use super::super::{
    Gate,
    HttpMethod::{Delete, Get, Patch, Post, Put},
    Operation,
};
use crate::{
    api_types::{Group, GroupMember, Scope},
    service::{audit, groups, tokens},
};

#[expect(clippy::too_many_lines, reason = "a table")]
pub(super) fn rows() -> Vec<Operation> {
    vec![
        Operation::new("list_groups", &[Get], "/v1/groups", groups::list)
            .docs("List groups", "Lists the groups whose members share files.")
            .extended_tool()
            .scope(Scope::GroupsRead)
            .read_only()
            .command("group list")
            .returns::<groups::GroupList>(),
        Operation::new("create_group", &[Post], "/v1/groups", groups::create)
            .docs("Create a group", "Creates a group. Its members share files.")
            .extended_tool()
            .scope(Scope::GroupsWrite)
            .gate(Gate::WholeHub)
            .command("group create")
            .success(&[201])
            .errors(&[409])
            .returns::<Group>(),
        Operation::new("get_group", &[Get], "/v1/groups/{group_id}", groups::get)
            .docs("Get a group", "Shows one group.")
            .extended_tool()
            .scope(Scope::GroupsRead)
            .read_only()
            .versioned()
            .command("group get")
            .returns::<Group>(),
        Operation::new("update_group", &[Patch], "/v1/groups/{group_id}", groups::update)
            .docs("Update a group", "Changes the name, the kind or the quota of a group.")
            .extended_tool()
            .scope(Scope::GroupsWrite)
            .gate(Gate::WholeHub)
            .idempotent()
            .command("group update")
            .errors(&[412])
            .returns::<Group>(),
        Operation::new("delete_group", &[Delete], "/v1/groups/{group_id}", groups::delete)
            .docs("Delete a group", "Deletes a group. One with members or files needs `force`; its files go to the trash.")
            .extended_tool()
            .scope(Scope::GroupsWrite)
            .gate(Gate::WholeHub)
            .destructive()
            .idempotent()
            .command("group delete")
            .errors(&[409, 412])
            .returns_nothing(),
        Operation::new("list_members", &[Get], "/v1/groups/{group_id}/members", groups::list_members)
            .docs("List members", "Lists the members of a group and what each may do with its files.")
            .extended_tool()
            .scope(Scope::GroupsRead)
            .read_only()
            .command("group member list")
            .returns::<groups::MemberList>(),
        Operation::new("put_member", &[Put], "/v1/groups/{group_id}/members/{member_id}", groups::put_member)
            .docs("Add or change a member", "Makes a tenant a member of a group, or changes what it may do.")
            .extended_tool()
            .scope(Scope::GroupsWrite)
            .gate(Gate::WholeHub)
            .idempotent()
            .command("group member add")
            .returns::<GroupMember>(),
        Operation::new("remove_member", &[Delete], "/v1/groups/{group_id}/members/{member_id}", groups::remove_member)
            .docs("Remove a member", "Ends a tenant's membership in a group.")
            .extended_tool()
            .scope(Scope::GroupsWrite)
            .gate(Gate::WholeHub)
            .destructive()
            .idempotent()
            .command("group member remove")
            .returns_nothing(),
        Operation::new("get_group_skills", &[Get], "/v1/groups/{group_id}/skills", groups::skills::get)
            .docs("List the skills of a group", "Lists the skills of the library that the members of a group get.")
            .scope(Scope::GroupsRead)
            .read_only()
            .extended_tool()
            .command("group skill list")
            .returns::<groups::skills::GroupSkills>(),
        Operation::new("put_group_skills", &[Put], "/v1/groups/{group_id}/skills", groups::skills::put)
            .docs(
                "Set the skills of a group",
                "Sets the skills of the library that the members of a group get. Running agents get them at once, others \
                 when they start; what a tenant is no longer given is removed. A tenant's own skills stay.",
            )
            .scope(Scope::GroupsWrite)
            .gate(Gate::WholeHub)
            .destructive()
            .idempotent()
            .extended_tool()
            .command("group skill set")
            .errors(&[422])
            .returns::<groups::skills::GroupSkills>(),
        Operation::new("list_tokens", &[Get], "/v1/tokens", tokens::list)
            .docs("List tokens", "Lists the management tokens, without their secrets.")
            .extended_tool()
            .scope(Scope::TokensAdmin)
            .gate(Gate::WholeHub)
            .read_only()
            .command("token list")
            .returns::<tokens::TokenList>(),
        Operation::new("create_token", &[Post], "/v1/tokens", tokens::create)
            .docs("Create a token", "Creates a management token within your own rights. The reply shows its secret, once.")
            .scope(Scope::TokensAdmin)
            .gate(Gate::WholeHub)
            .command("token create")
            .success(&[201])
            .returns::<tokens::TokenReply>(),
        Operation::new("rotate_token", &[Post], "/v1/tokens/{token_id}/rotate", tokens::rotate)
            .docs("Rotate a token", "Gives a token another secret, shown once. The old one stays valid for `grace` seconds.")
            .scope(Scope::TokensAdmin)
            .gate(Gate::WholeHub)
            .destructive()
            .in_query(&["grace"])
            .command("token rotate")
            .returns::<tokens::TokenReply>(),
        Operation::new("revoke_token", &[Delete], "/v1/tokens/{token_id}", tokens::revoke)
            .docs("Revoke a token", "Revokes a token and ends its streams and MCP sessions. The last admin token cannot be revoked.")
            .extended_tool()
            .scope(Scope::TokensAdmin)
            .gate(Gate::WholeHub)
            .destructive()
            .idempotent()
            .command("token revoke")
            .errors(&[409])
            .returns_nothing(),
        Operation::new("list_audit", &[Get], "/v1/audit", audit::list)
            .docs("Read the audit log", "Lists entries of the audit log, newest first; `format=ndjson` exports all, oldest first.")
            .extended_tool()
            .scope(Scope::AuditRead)
            .read_only()
            .command("hub audit tail")
            .returns::<audit::AuditList>()
            .rest_only(&["format"])
            .also_returns("application/x-ndjson"),
        Operation::new("verify_audit", &[Get], "/v1/audit/verify", audit::verify)
            .docs("Verify the audit log", "Verifies every entry of the audit log and names the first one that was changed; with `limit`, in parts.")
            .extended_tool()
            .scope(Scope::AuditRead)
            .read_only()
            .command("hub audit verify")
            .returns::<audit::AuditCheck>(),
    ]
}
