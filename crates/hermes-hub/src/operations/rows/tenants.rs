//! Tenants, their access, their skills, their variables.

use super::super::{
    Gate, Operation,
    Verb::{Delete, Get, Patch, Post, Put},
};
use crate::{
    auth::Scope,
    service::{access, env, files, skills, tenants},
    shapes::{Access, Tenant},
};

#[expect(clippy::too_many_lines, reason = "a table")]
pub(super) fn tools() -> Vec<Operation> {
    vec![
        Operation::new("list_tenants", &[Get], "/v1/tenants", tenants::list)
            .says("List tenants", "Lists all tenants that you may see. Secret keys are redacted.")
            .scope(Scope::TenantsRead)
            .reads()
            .tool()
            .rest_only(&["status", "search", "limit", "cursor"])
            .command("tenant list")
            .gives::<tenants::TenantList>(),
        Operation::new("get_tenant", &[Get], "/v1/tenants/{tenant_id}", tenants::get)
            .says("Get a tenant", "Shows one tenant: its state, settings, groups and conditions. Secret keys are redacted.")
            .scope(Scope::TenantsRead)
            .reads()
            .versioned()
            .tool()
            .command("tenant get")
            .gives::<Tenant>(),
        Operation::new("create_tenant", &[Post], "/v1/tenants", tenants::create)
            .says(
                "Create a tenant",
                "Creates a tenant: an agent with a home of its own. Everything is optional; what is absent comes from \
                 the flavor. The home is made in the background: `status` turns from `provisioning` to `ready`.",
            )
            .scope(Scope::TenantsWrite)
            .gate(Gate::WholeHub)
            .tool()
            .command("tenant create")
            .success(&[201])
            .errors(&[409, 422])
            .gives::<Tenant>(),
        Operation::new("update_tenant", &[Patch], "/v1/tenants/{tenant_id}", tenants::update)
            .says(
                "Update a tenant",
                "Changes settings of a tenant. Only what is given is changed; `null` goes back to the flavor's \
                 default. `observedGeneration` reaches `generation` when the agent works with the change.",
            )
            .scope(Scope::TenantsWrite)
            .idempotent()
            .tool()
            .command("tenant update")
            .errors(&[409, 412, 422])
            .gives::<Tenant>(),
        Operation::new("delete_tenant", &[Delete], "/v1/tenants/{tenant_id}", tenants::delete)
            .says(
                "Delete a tenant",
                "Deletes one tenant: its agent stops and it is hidden. It can be restored for some days; after that \
                 its home is removed.",
            )
            .scope(Scope::TenantsDelete)
            .gate(Gate::DeletedTenant)
            .destroys()
            .idempotent()
            .tool()
            .rest_only(&["purge"])
            .command("tenant delete")
            .errors(&[412])
            .gives_nothing(),
        Operation::new("set_tenant_access", &[Put], "/v1/tenants/{tenant_id}/access", access::set)
            .says(
                "Block or unblock a tenant",
                "Sets a tenant's access to `active` or `blocked`. Blocking stops its runs and cron jobs and refuses \
                 changes of its shares. `message` is for its users, `reason` for operators.",
            )
            .scope(Scope::AccessWrite)
            .destroys()
            .idempotent()
            .tool()
            .command("tenant block")
            .gives::<Access>(),
        Operation::new("list_tenant_skills", &[Get], "/v1/tenants/{tenant_id}/skills", skills::list)
            .says("List skills", "Lists the skills installed for a tenant, by category. Those without one have the category `-`.")
            .scope(Scope::SkillsRead)
            .reads()
            .tool()
            .untrusted()
            .command("tenant skill list")
            .errors(&[409])
            .gives::<skills::SkillList>(),
        Operation::new(
            "list_tenant_skill_files",
            &[Get],
            "/v1/tenants/{tenant_id}/skills/{category}/{skill}/files",
            skills::files,
        )
        .says("List files of a skill", "Lists the files of one skill, with paths that get_tenant_skill_file takes.")
        .scope(Scope::SkillsRead)
        .reads()
        .tool()
        .untrusted()
        .command("tenant skill files")
        .errors(&[409])
        .gives::<skills::SkillFiles>(),
        Operation::new("get_tenant_skill_file", &[Get], "/v1/tenants/{tenant_id}/skill-files/{*path}", skills::read_file)
            .says("Read a file of a skill", "Reads one text file of a tenant's skills.")
            .scope(Scope::SkillsRead)
            .reads()
            .versioned()
            .tool()
            .untrusted()
            .command("tenant skill show")
            .errors(&[409, 415])
            .gives::<skills::SkillFileText>(),
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
        .says(
            "Get a tenant's access",
            "Shows whether a tenant is blocked, since when and why.",
        )
        .scope(Scope::TenantsRead)
        .reads()
        .extended_tool()
        .gives::<Access>(),
        Operation::new(
            "restore_tenant",
            &[Post],
            "/v1/tenants/{tenant_id}/restore",
            tenants::restore,
        )
        .says(
            "Restore a tenant",
            "Takes the deletion of a tenant back, with its home, jobs, variables and groups.",
        )
        .scope(Scope::TenantsDelete)
        .gate(Gate::DeletedTenant)
        .command("tenant restore")
        .errors(&[409])
        .gives::<Tenant>(),
        Operation::new(
            "rotate_runtime_key",
            &[Post],
            "/v1/tenants/{tenant_id}/runtime-key/rotate",
            tenants::runtime_key::rotate,
        )
        .says(
            "Rotate a runtime key",
            "Gives a tenant's agent another key. The reply shows it, once.",
        )
        .scope(Scope::TokensAdmin)
        .in_query(&["grace"])
        .command("tenant rotate-key")
        .gives::<tenants::runtime_key::ShownRuntimeKey>(),
        Operation::new(
            "set_skill_state",
            &[Put],
            "/v1/tenants/{tenant_id}/skills/{skill}/state",
            skills::set_state,
        )
        .says(
            "Turn a skill on or off",
            "Sets whether a skill is offered to the agent, and whether it is kept as it is.",
        )
        .scope(Scope::SkillsWrite)
        .idempotent()
        .command("tenant skill enable")
        .errors(&[409])
        .gives::<skills::SkillShape>(),
        Operation::new("list_env", &[Get], "/v1/tenants/{tenant_id}/env", env::list)
            .says(
                "List variables",
                "Lists the variables of a tenant's environment, without their values.",
            )
            .scope(Scope::EnvRead)
            .reads()
            .command("tenant env list")
            .gives::<env::EnvList>(),
        Operation::new(
            "set_env",
            &[Put],
            "/v1/tenants/{tenant_id}/env/{name}",
            env::set,
        )
        .says(
            "Set a variable",
            "Sets a variable of a tenant's environment. Its value is never shown again.",
        )
        .scope(Scope::EnvWrite)
        .destroys()
        .idempotent()
        .command("tenant env set")
        .errors(&[422])
        .gives_nothing(),
        Operation::new(
            "unset_env",
            &[Delete],
            "/v1/tenants/{tenant_id}/env/{name}",
            env::unset,
        )
        .says(
            "Remove a variable",
            "Removes a variable of a tenant's environment.",
        )
        .scope(Scope::EnvWrite)
        .destroys()
        .idempotent()
        .command("tenant env unset")
        .gives_nothing(),
        Operation::new(
            "list_files",
            &[Get],
            "/v1/tenants/{tenant_id}/files",
            files::list,
        )
        .says(
            "List the workspace",
            "Lists one level of a tenant's workspace.",
        )
        .scope(Scope::FilesRead)
        .reads()
        .untrusted()
        .command("tenant files")
        .errors(&[409])
        .gives::<crate::files::Listing>(),
        Operation::new(
            "read_file",
            &[Get],
            "/v1/tenants/{tenant_id}/files/content",
            files::read,
        )
        .says(
            "Read a file of the workspace",
            "Reads lines of a text file in a tenant's workspace.",
        )
        .scope(Scope::FilesRead)
        .reads()
        .versioned()
        .untrusted()
        .errors(&[409, 415])
        .gives::<crate::files::FileText>(),
        Operation::new(
            "download_file",
            &[Get],
            "/v1/tenants/{tenant_id}/files/download",
            files::download,
        )
        .says(
            "Download a file of the workspace",
            "Sends a file of a tenant's workspace as it is; `Range` asks for a part. With `tar.zst`, a directory or the \
             whole workspace as one archive, without links.",
        )
        .scope(Scope::FilesRead)
        .reads()
        .versioned()
        .untrusted()
        .success(&[200, 206])
        .errors(&[409])
        .gives_bytes(&["application/octet-stream", "application/zstd"]),
    ]
}
