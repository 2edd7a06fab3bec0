//! Groups, tokens and the audit log.

use super::super::{
    Gate, Operation,
    Verb::{Delete, Get, Patch, Post, Put},
};
use crate::{
    auth::Scope,
    service::{audit, groups, tokens},
    shapes::{Group, Member},
};

#[expect(clippy::too_many_lines, reason = "a table")]
pub(super) fn rows() -> Vec<Operation> {
    vec![
        Operation::new("list_groups", &[Get], "/v1/groups", groups::list)
            .says("List groups", "Lists the groups whose members share files.")
            .scope(Scope::GroupsRead)
            .reads()
            .command("group list")
            .gives::<groups::GroupList>(),
        Operation::new("create_group", &[Post], "/v1/groups", groups::create)
            .says("Create a group", "Creates a group. Its members share files.")
            .scope(Scope::GroupsWrite)
            .gate(Gate::WholeHub)
            .command("group create")
            .success(&[201])
            .errors(&[409])
            .gives::<Group>(),
        Operation::new("get_group", &[Get], "/v1/groups/{group_id}", groups::get)
            .says("Get a group", "Shows one group.")
            .scope(Scope::GroupsRead)
            .reads()
            .versioned()
            .command("group get")
            .gives::<Group>(),
        Operation::new("update_group", &[Patch], "/v1/groups/{group_id}", groups::update)
            .says("Update a group", "Changes the name, the kind or the quota of a group.")
            .scope(Scope::GroupsWrite)
            .gate(Gate::WholeHub)
            .idempotent()
            .command("group update")
            .errors(&[412])
            .gives::<Group>(),
        Operation::new("delete_group", &[Delete], "/v1/groups/{group_id}", groups::delete)
            .says("Delete a group", "Deletes a group. One with members or files needs `force`; its files go to the trash.")
            .scope(Scope::GroupsWrite)
            .gate(Gate::WholeHub)
            .destroys()
            .idempotent()
            .command("group delete")
            .errors(&[409, 412])
            .gives_nothing(),
        Operation::new("list_members", &[Get], "/v1/groups/{group_id}/members", groups::members)
            .says("List members", "Lists the members of a group and what each may do with its files.")
            .scope(Scope::GroupsRead)
            .reads()
            .command("group member list")
            .gives::<groups::MemberList>(),
        Operation::new("put_member", &[Put], "/v1/groups/{group_id}/members/{member_id}", groups::put_member)
            .says("Add or change a member", "Makes a tenant a member of a group, or changes what it may do.")
            .scope(Scope::GroupsWrite)
            .gate(Gate::WholeHub)
            .idempotent()
            .command("group member add")
            .gives::<Member>(),
        Operation::new("remove_member", &[Delete], "/v1/groups/{group_id}/members/{member_id}", groups::remove_member)
            .says("Remove a member", "Ends a tenant's membership in a group.")
            .scope(Scope::GroupsWrite)
            .gate(Gate::WholeHub)
            .destroys()
            .idempotent()
            .command("group member remove")
            .gives_nothing(),
        Operation::new("list_tokens", &[Get], "/v1/tokens", tokens::list)
            .says("List tokens", "Lists the management tokens, without their secrets.")
            .scope(Scope::TokensAdmin)
            .gate(Gate::WholeHub)
            .reads()
            .command("token list")
            .gives::<tokens::TokenList>(),
        Operation::new("create_token", &[Post], "/v1/tokens", tokens::create)
            .says("Create a token", "Creates a management token within your own rights. The reply shows its secret, once.")
            .scope(Scope::TokensAdmin)
            .gate(Gate::WholeHub)
            .command("token create")
            .success(&[201])
            .gives::<tokens::ShownToken>(),
        Operation::new("rotate_token", &[Post], "/v1/tokens/{token_id}/rotate", tokens::rotate)
            .says("Rotate a token", "Gives a token another secret, shown once. The old one lives on for `grace` seconds.")
            .scope(Scope::TokensAdmin)
            .gate(Gate::WholeHub)
            .destroys()
            .in_query(&["grace"])
            .command("token rotate")
            .gives::<tokens::ShownToken>(),
        Operation::new("revoke_token", &[Delete], "/v1/tokens/{token_id}", tokens::revoke)
            .says("Revoke a token", "Ends a token, its streams and its MCP sessions. The last admin token stays.")
            .scope(Scope::TokensAdmin)
            .gate(Gate::WholeHub)
            .destroys()
            .idempotent()
            .command("token revoke")
            .errors(&[409])
            .gives_nothing(),
        Operation::new("list_audit", &[Get], "/v1/audit", audit::list)
            .says("Read the audit log", "Lists entries of the audit log, newest first; `format=ndjson` exports all, oldest first.")
            .scope(Scope::AuditRead)
            .reads()
            .command("hub audit tail")
            .gives::<audit::AuditList>()
            .also_gives("application/x-ndjson"),
        Operation::new("verify_audit", &[Get], "/v1/audit/verify", audit::verify)
            .says("Verify the audit log", "Looks at every entry of the audit log and names the first that is not as it was written.")
            .scope(Scope::AuditRead)
            .reads()
            .command("hub audit verify")
            .gives::<audit::AuditCheck>(),
    ]
}
