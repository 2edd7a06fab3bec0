//! Messaging platforms of tenants, and who may write to their bots; daily limits.

use super::super::{
    Gate,
    HttpMethod::{Delete, Get, Patch, Post, Put},
    Operation,
};
use crate::{
    api_types::{LimitUse, Scope},
    service::{limits, pairing, platforms},
};

pub(super) fn rows() -> Vec<Operation> {
    let mut rows = platform_rows();
    rows.extend(pairing_and_limits());
    rows
}

fn platform_rows() -> Vec<Operation> {
    vec![
        Operation::new("list_platforms", &[Get], "/v1/tenants/{tenant_id}/platforms", platforms::list)
            .docs(
                "List messaging platforms",
                "Shows the messaging platforms of a tenant, who may use its bots, and how these are.",
            )
            .scope(Scope::TenantsRead)
            .read_only()
            .untrusted()
            .extended_tool()
            .command("tenant platform list")
            .errors(&[409])
            .returns::<platforms::TenantPlatforms>(),
        Operation::new("get_platform", &[Get], "/v1/tenants/{tenant_id}/platforms/{platform}", platforms::get)
            .docs(
                "Get a messaging platform",
                "Shows one messaging platform of a tenant, who may use its bot, and how that is.",
            )
            .scope(Scope::TenantsRead)
            .read_only()
            .untrusted()
            .extended_tool()
            .command("tenant platform get")
            .errors(&[409])
            .returns::<platforms::TenantPlatform>(),
        Operation::new("put_platform", &[Put], "/v1/tenants/{tenant_id}/platforms/{platform}", platforms::put)
            .docs(
                "Set up a messaging platform",
                "Makes a messaging platform of a tenant what the request says. A token that is absent stays as it is; \
                 everything else that is absent goes back to its default. A tenant with a platform does not sleep.",
            )
            .scope(Scope::TenantsWrite)
            .destructive()
            .idempotent()
            .extended_tool()
            .command("tenant platform set")
            .errors(&[409, 422])
            .returns::<platforms::TenantPlatform>(),
        Operation::new("delete_platform", &[Delete], "/v1/tenants/{tenant_id}/platforms/{platform}", platforms::delete)
            .docs(
                "Remove a messaging platform",
                "Removes a messaging platform of a tenant with its token and its settings. Conversations stay.",
            )
            .scope(Scope::EnvWrite)
            .destructive()
            .idempotent()
            .extended_tool()
            .command("tenant platform remove")
            .errors(&[409])
            .returns_nothing(),
    ]
}

/// Who may write to bots, and daily limits.
fn pairing_and_limits() -> Vec<Operation> {
    vec![
        Operation::new("list_pairing", &[Get], "/v1/tenants/{tenant_id}/pairing", pairing::list)
            .docs(
                "List pairing",
                "Lists who was let in to a tenant's bots by a code, and who waits for that. Codes are not shown: only \
                 those who wait have them.",
            )
            .scope(Scope::TenantsRead)
            .read_only()
            .untrusted()
            .extended_tool()
            .command("tenant pairing list")
            .returns::<pairing::PairingList>(),
        Operation::new("approve_pairing", &[Post], "/v1/tenants/{tenant_id}/pairing/approve", pairing::approve)
            .docs(
                "Let somebody in",
                "Approves the user who was sent this code for a tenant's bot. After five wrong codes no code is accepted for an hour.",
            )
            .scope(Scope::TenantsWrite)
            .extended_tool()
            .command("tenant pairing approve")
            .errors(&[409])
            .returns::<pairing::ApprovedUser>(),
        Operation::new(
            "revoke_pairing",
            &[Delete],
            "/v1/tenants/{tenant_id}/pairing/{account}/{user_id}",
            pairing::revoke,
        )
        .docs(
            "Shut somebody out",
            "Revokes the approval of a user of a tenant's bot. It takes effect with their next message.",
        )
        .scope(Scope::TenantsWrite)
        .destructive()
        .extended_tool()
        .command("tenant pairing revoke")
        .errors(&[409])
        .returns_nothing(),
        Operation::new("get_limits", &[Get], "/v1/tenants/{tenant_id}/limits", limits::get)
            .docs("Get a tenant's limits", "Shows what a tenant may use a day, and what it used today.")
            .scope(Scope::TenantsRead)
            .read_only()
            .extended_tool()
            .command("tenant limits")
            .returns::<LimitUse>(),
        Operation::new("patch_limits", &[Patch], "/v1/tenants/{tenant_id}/limits", limits::patch)
            .docs(
                "Change a tenant's limits",
                "Sets what a tenant may use a day; `null` removes the limit. Above a limit runs are refused, cron jobs are \
                 skipped and chats are told so until the next day begins, in UTC. Runs that have begun go on.",
            )
            .scope(Scope::TenantsWrite)
            .gate(Gate::Tenant)
            .idempotent()
            .extended_tool()
            .returns::<LimitUse>(),
    ]
}
