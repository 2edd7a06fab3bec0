//! Tenants, their access, their skills, their variables.

use super::super::{
    Gate,
    HttpMethod::{Delete, Get, Patch, Post, Put},
    Operation,
};
use crate::{
    api_types::{Scope, Tenant, TenantAccess},
    service::{access, env, files, skills, tenants},
};

#[expect(clippy::too_many_lines, reason = "a table")]
pub(super) fn tools() -> Vec<Operation> {
    vec![
        Operation::new("list_tenants", &[Get], "/v1/tenants", tenants::list)
            .docs("List tenants", "Lists all tenants that you may see. Secret keys are redacted.")
            .scope(Scope::TenantsRead)
            .read_only()
            .tool()
            .rest_only(&["status", "search", "flavor", "label", "limit", "cursor"])
            .command("tenant list")
            .returns::<tenants::TenantList>(),
        Operation::new("get_tenant", &[Get], "/v1/tenants/{tenant_id}", tenants::get)
            .docs("Get a tenant", "Shows one tenant: its state, settings, groups and conditions. Secret keys are redacted.")
            .scope(Scope::TenantsRead)
            .read_only()
            .versioned()
            .tool()
            .command("tenant get")
            .returns::<Tenant>(),
        Operation::new("create_tenant", &[Post], "/v1/tenants", tenants::create)
            .docs(
                "Create a tenant",
                "Creates a tenant: an agent with a home of its own. Everything is optional; what is absent comes from \
                 the flavor. The home is created in the background: `status` turns from `provisioning` to `ready`.",
            )
            .scope(Scope::TenantsWrite)
            .gate(Gate::WholeHub)
            .tool()
            .command("tenant create")
            .success(&[201])
            .errors(&[409, 422])
            .returns::<Tenant>(),
        Operation::new("update_tenant", &[Patch], "/v1/tenants/{tenant_id}", tenants::update)
            .docs(
                "Update a tenant",
                "Changes settings of a tenant. Only what is given is changed; `null` goes back to the flavor's \
                 default. `observedGeneration` reaches `generation` when the agent has applied the change.",
            )
            .scope(Scope::TenantsWrite)
            .idempotent()
            .tool()
            .command("tenant update")
            .errors(&[409, 412, 422])
            .returns::<Tenant>(),
        Operation::new("delete_tenant", &[Delete], "/v1/tenants/{tenant_id}", tenants::delete)
            .docs(
                "Delete a tenant",
                "Deletes one tenant: its agent stops and it is hidden. It can be restored for some days; after that \
                 its home is removed.",
            )
            .scope(Scope::TenantsDelete)
            .gate(Gate::AnyTenant)
            .destructive()
            .idempotent()
            .tool()
            .rest_only(&["purge"])
            .command("tenant delete")
            .errors(&[412])
            .returns_nothing(),
        Operation::new("set_tenant_access", &[Put], "/v1/tenants/{tenant_id}/access", access::set)
            .docs(
                "Block or unblock a tenant",
                "Sets a tenant's access to `active` or `blocked`. Blocking stops its runs and cron jobs and refuses \
                 changes of its shares. `message` is for its users, `reason` for operators.",
            )
            .scope(Scope::AccessWrite)
            .destructive()
            .idempotent()
            .tool()
            .command("tenant block")
            .returns::<TenantAccess>(),
        Operation::new("list_tenant_skills", &[Get], "/v1/tenants/{tenant_id}/skills", skills::list)
            .docs("List skills", "Lists the skills installed for a tenant, by category. Those without one have the category `-`.")
            .scope(Scope::SkillsRead)
            .read_only()
            .tool()
            .untrusted()
            .command("tenant skill list")
            .errors(&[409])
            .returns::<skills::SkillList>(),
        Operation::new(
            "list_tenant_skill_files",
            &[Get],
            "/v1/tenants/{tenant_id}/skills/{category}/{skill}/files",
            skills::files,
        )
        .docs("List files of a skill", "Lists the files of one skill, with paths that get_tenant_skill_file takes.")
        .scope(Scope::SkillsRead)
        .read_only()
        .tool()
        .untrusted()
        .command("tenant skill files")
        .errors(&[409])
        .returns::<skills::SkillFiles>(),
        Operation::new("get_tenant_skill_file", &[Get], "/v1/tenants/{tenant_id}/skill-files/{*path}", skills::read_file)
            .docs("Read a file of a skill", "Reads one text file of a tenant's skills.")
            .scope(Scope::SkillsRead)
            .read_only()
            .versioned()
            .tool()
            .untrusted()
            .command("tenant skill show")
            .errors(&[409, 415])
            .returns::<skills::SkillFileText>(),
    ]
}

#[expect(clippy::too_many_lines, reason = "a table")]
pub(super) fn others() -> Vec<Operation> {
    vec![
        Operation::new(
            "get_tenant_access",
            &[Get],
            "/v1/tenants/{tenant_id}/access",
            access::get,
        )
        .docs(
            "Get a tenant's access",
            "Shows whether a tenant is blocked, since when and why.",
        )
        .scope(Scope::TenantsRead)
        .read_only()
        .extended_tool()
        .returns::<TenantAccess>(),
        Operation::new(
            "restore_tenant",
            &[Post],
            "/v1/tenants/{tenant_id}/restore",
            tenants::restore,
        )
        .docs(
            "Restore a tenant",
            "Undoes the deletion of a tenant, with its home, jobs, variables and groups.",
        )
        .extended_tool()
        .scope(Scope::TenantsDelete)
        .gate(Gate::AnyTenant)
        .command("tenant restore")
        .errors(&[409])
        .returns::<Tenant>(),
        Operation::new(
            "rotate_runtime_key",
            &[Post],
            "/v1/tenants/{tenant_id}/runtime-key/rotate",
            access::rotate_runtime_key,
        )
        .docs(
            "Rotate a runtime key",
            "Gives a tenant's agent a new runtime key. The reply shows it, once.",
        )
        .scope(Scope::TokensAdmin)
        .in_query(&["grace"])
        .command("tenant rotate-key")
        .returns::<access::RuntimeKeyReply>(),
        Operation::new(
            "set_skill_state",
            &[Put],
            "/v1/tenants/{tenant_id}/skills/{skill}/state",
            skills::set_state,
        )
        .docs(
            "Turn a skill on or off",
            "Sets whether a skill is offered to the agent, and whether the agent may change it.",
        )
        .extended_tool()
        .scope(Scope::SkillsWrite)
        .idempotent()
        .command("tenant skill enable")
        .errors(&[409])
        .returns::<skills::SkillSummary>(),
        Operation::new("list_env", &[Get], "/v1/tenants/{tenant_id}/env", env::list)
            .docs(
                "List variables",
                "Lists the variables of a tenant's environment, without their values.",
            )
            .extended_tool()
            .scope(Scope::EnvRead)
            .read_only()
            .command("tenant env list")
            .returns::<env::EnvList>(),
        Operation::new(
            "set_env",
            &[Put],
            "/v1/tenants/{tenant_id}/env/{name}",
            env::set,
        )
        .docs(
            "Set a variable",
            "Sets a variable of a tenant's environment. Its value is never shown again.",
        )
        .extended_tool()
        .scope(Scope::EnvWrite)
        .destructive()
        .idempotent()
        .command("tenant env set")
        .errors(&[422])
        .returns_nothing(),
        Operation::new(
            "unset_env",
            &[Delete],
            "/v1/tenants/{tenant_id}/env/{name}",
            env::unset,
        )
        .docs(
            "Remove a variable",
            "Removes a variable of a tenant's environment.",
        )
        .extended_tool()
        .scope(Scope::EnvWrite)
        .destructive()
        .idempotent()
        .command("tenant env unset")
        .returns_nothing(),
        Operation::new(
            "list_files",
            &[Get],
            "/v1/tenants/{tenant_id}/files",
            files::list,
        )
        .docs(
            "List the workspace",
            "Lists one level of a tenant's workspace.",
        )
        .extended_tool()
        .scope(Scope::FilesRead)
        .read_only()
        .untrusted()
        .command("tenant files")
        .errors(&[409])
        .returns::<crate::storage::files::Listing>(),
        Operation::new(
            "grep_files",
            &[Get, Post],
            "/v1/tenants/{tenant_id}/files/grep",
            files::grep,
        )
        .docs(
            "Search the workspace",
            "Searches the text files of a tenant's workspace, line by line, with a regular expression in Go's syntax.",
        )
        .extended_tool()
        .scope(Scope::FilesRead)
        .read_only()
        .untrusted()
        .command("tenant files grep")
        .errors(&[409])
        .returns::<crate::storage::files::GrepResult>(),
        Operation::new(
            "find_files",
            &[Get],
            "/v1/tenants/{tenant_id}/files/find",
            files::find,
        )
        .docs(
            "Find files in the workspace",
            "Finds paths of a tenant's workspace by a pattern such as `*.md`; without one, all of them.",
        )
        .extended_tool()
        .scope(Scope::FilesRead)
        .read_only()
        .untrusted()
        .command("tenant files find")
        .errors(&[409])
        .returns::<crate::storage::files::FindResult>(),
        Operation::new(
            "read_file",
            &[Get],
            "/v1/tenants/{tenant_id}/files/content",
            files::read,
        )
        .docs(
            "Read a file of the workspace",
            "Reads lines of a text file in a tenant's workspace.",
        )
        .extended_tool()
        .scope(Scope::FilesRead)
        .read_only()
        .versioned()
        .untrusted()
        .errors(&[409, 415])
        .returns::<crate::storage::files::FileText>(),
        Operation::new(
            "download_file",
            &[Get],
            "/v1/tenants/{tenant_id}/files/download",
            files::download,
        )
        .docs(
            "Download a file of the workspace",
            "Sends a file of a tenant's workspace unchanged; `Range` requests a part. With `tar.zst`, sends a directory \
             or the whole workspace as one archive, without links.",
        )
        .scope(Scope::FilesRead)
        .read_only()
        .versioned()
        .untrusted()
        .success(&[200, 206])
        .errors(&[409])
        .returns_bytes(&["application/octet-stream", "application/zstd"]),
    ]
}
