//! What is in a tenant's home: files of its workspace, its character, its skills, its conversations; and the library
//! that skills are taken from.

use super::super::{
    Gate,
    HttpMethod::{Delete, Get, Patch, Post, Put},
    Operation,
};
use crate::{
    api_types::Scope,
    service::{character, manifest, sessions, skills, workspace},
    storage::files::{FileEntry, UnpackedArchive, WrittenFile},
};

const ARCHIVE_TYPES: &[&str] = &[
    "application/zstd",
    "application/x-tar",
    "application/octet-stream",
];

pub(super) fn workspace() -> Vec<Operation> {
    vec![
        Operation::new("write_file", &[Put], "/v1/tenants/{tenant_id}/files/content", workspace::write)
            .docs(
                "Write a file of the workspace",
                "Writes a file of a tenant's workspace, or appends to it with `mode: append`. Over REST, a body of type \
                 `application/octet-stream` is the file itself, and `path` and `mode` are in the query.",
            )
            .scope(Scope::FilesWrite)
            .destructive()
            .extended_tool()
            .takes_bytes("content_base64", &["application/octet-stream"])
            .command("tenant files put")
            .success(&[200, 201])
            .errors(&[409, 412, 507])
            .returns::<WrittenFile>(),
        Operation::new("remove_file", &[Delete], "/v1/tenants/{tenant_id}/files/content", workspace::remove)
            .docs(
                "Remove a path of the workspace",
                "Removes a file or directory of a tenant's workspace, for good. A directory that is not empty needs \
                 `recursive`.",
            )
            .scope(Scope::FilesWrite)
            .destructive()
            .idempotent()
            .extended_tool()
            .command("tenant files rm")
            .errors(&[409, 412])
            .returns_nothing(),
        Operation::new("make_directory", &[Post], "/v1/tenants/{tenant_id}/files/directories", workspace::make_directory)
            .docs(
                "Create a directory in the workspace",
                "Creates a directory of a tenant's workspace, with its missing parents.",
            )
            .scope(Scope::FilesWrite)
            .idempotent()
            .extended_tool()
            .command("tenant files mkdir")
            .success(&[200, 201])
            .errors(&[409, 507])
            .returns::<FileEntry>(),
        Operation::new("move_file", &[Post], "/v1/tenants/{tenant_id}/files/move", workspace::move_path)
            .docs(
                "Move a path of the workspace",
                "Moves a file or directory within a tenant's workspace. Nothing is overwritten.",
            )
            .scope(Scope::FilesWrite)
            .destructive()
            .extended_tool()
            .command("tenant files mv")
            .errors(&[409, 412])
            .returns::<FileEntry>(),
        Operation::new("upload_archive", &[Post], "/v1/tenants/{tenant_id}/files/archive", workspace::upload)
            .docs(
                "Unpack an archive in the workspace",
                "Unpacks a `tar` or `tar.zst` in a tenant's workspace: all of it, or nothing if an entry is refused. It \
                 has at most 10,000 files and directories, and no links. Files that exist are replaced. Over REST, the \
                 archive can be the body, and `path` is in the query.",
            )
            .extended_tool()
            .scope(Scope::FilesWrite)
            .destructive()
            .takes_bytes("archive", ARCHIVE_TYPES)
            .command("tenant files upload")
            .errors(&[409, 415, 507])
            .returns::<UnpackedArchive>(),
    ]
}

pub(super) fn character() -> Vec<Operation> {
    vec![
        Operation::new("get_soul", &[Get], "/v1/tenants/{tenant_id}/soul", character::get_soul)
            .docs("Get an agent's character", "Shows the `SOUL.md` of a tenant: who its agent is.")
            .scope(Scope::TenantsRead)
            .read_only()
            .versioned()
            .untrusted()
            .extended_tool()
            .errors(&[409])
            .returns::<character::AgentText>(),
        Operation::new("put_soul", &[Put], "/v1/tenants/{tenant_id}/soul", character::put_soul)
            .docs(
                "Set an agent's character",
                "Replaces the `SOUL.md` of a tenant. New conversations begin with it; an empty text removes it.",
            )
            .scope(Scope::TenantsWrite)
            .destructive()
            .idempotent()
            .extended_tool()
            .command("tenant soul")
            .errors(&[409, 412])
            .returns::<character::AgentText>(),
        Operation::new("get_memory", &[Get], "/v1/tenants/{tenant_id}/memory/{kind}", character::get_memory)
            .docs(
                "Get an agent's memory",
                "Shows what a tenant's agent noted about its work (`memory`) or about its users (`user`).",
            )
            .scope(Scope::TenantsRead)
            .read_only()
            .versioned()
            .untrusted()
            .extended_tool()
            .errors(&[409])
            .returns::<character::AgentText>(),
        Operation::new("put_memory", &[Put], "/v1/tenants/{tenant_id}/memory/{kind}", character::put_memory)
            .docs(
                "Set an agent's memory",
                "Replaces what a tenant's agent knows about its work (`memory`) or about its users (`user`). New \
                 conversations begin with it.",
            )
            .scope(Scope::TenantsWrite)
            .destructive()
            .idempotent()
            .extended_tool()
            .command("tenant memory")
            .errors(&[409, 412])
            .returns::<character::AgentText>(),
    ]
}

pub(super) fn skills() -> Vec<Operation> {
    vec![
        Operation::new("put_skill", &[Put], "/v1/tenants/{tenant_id}/skills/{name}", skills::install::install)
            .docs(
                "Install a skill",
                "Installs a skill for a tenant, or replaces the one of that name: from its files, from an archive of its \
                 directory, or from the Hub's library with `library: true`. It must keep the rules of the Agent Skills \
                 format. The next run has it.",
            )
            .scope(Scope::SkillsWrite)
            .destructive()
            .idempotent()
            .extended_tool()
            .takes_bytes("archive", ARCHIVE_TYPES)
            .command("tenant skill install")
            .success(&[200, 201])
            .errors(&[409, 415, 422, 507])
            .returns::<skills::SkillSummary>(),
        Operation::new("remove_skill", &[Delete], "/v1/tenants/{tenant_id}/skills/{name}", skills::install::remove)
            .docs("Remove a skill", "Removes a skill of a tenant with its files, for good.")
            .scope(Scope::SkillsWrite)
            .destructive()
            .idempotent()
            .extended_tool()
            .command("tenant skill remove")
            .errors(&[409])
            .returns_nothing(),
        Operation::new("list_library_skills", &[Get], "/v1/skills", skills::library::list)
            .docs("List the library of skills", "Lists the skills that tenants can take from the Hub.")
            .scope(Scope::SkillsRead)
            .read_only()
            .extended_tool()
            .rest_only(&["limit", "cursor"])
            .command("skill-library list")
            .returns::<skills::library::LibrarySkillList>(),
        Operation::new("get_library_skill", &[Get], "/v1/skills/{name}", skills::library::get)
            .docs("Get a skill of the library", "Shows a skill of the Hub's library with its files.")
            .scope(Scope::SkillsRead)
            .read_only()
            .versioned()
            .extended_tool()
            .command("skill-library show")
            .returns::<skills::library::LibrarySkillDetails>(),
        Operation::new("put_library_skill", &[Put], "/v1/skills/{name}", skills::library::put)
            .docs(
                "Put a skill into the library",
                "Adds a skill to the Hub's library, or replaces the one of that name. Tenants that took it before keep \
                 what they have until they take it again.",
            )
            .scope(Scope::SkillsWrite)
            .gate(Gate::WholeHub)
            .destructive()
            .idempotent()
            .extended_tool()
            .takes_bytes("archive", ARCHIVE_TYPES)
            .command("skill-library put")
            .success(&[200, 201])
            .errors(&[412, 415, 422])
            .returns::<skills::library::LibrarySkill>(),
        Operation::new("delete_library_skill", &[Delete], "/v1/skills/{name}", skills::library::delete)
            .docs(
                "Remove a skill from the library",
                "Removes a skill from the Hub's library. Tenants that took it keep it.",
            )
            .scope(Scope::SkillsWrite)
            .gate(Gate::WholeHub)
            .destructive()
            .idempotent()
            .extended_tool()
            .command("skill-library remove")
            .errors(&[412])
            .returns_nothing(),
    ]
}

pub(super) fn sessions() -> Vec<Operation> {
    vec![
        Operation::new("list_sessions", &[Get], "/v1/tenants/{tenant_id}/sessions", sessions::list)
            .docs(
                "List conversations",
                "Lists the conversations of a tenant's agent, the last used first. Its agent is not woken.",
            )
            .scope(Scope::SessionsRead)
            .read_only()
            .untrusted()
            .extended_tool()
            .command("tenant sessions list")
            .errors(&[409, 504])
            .returns::<sessions::ConversationList>(),
        Operation::new("search_sessions", &[Get], "/v1/tenants/{tenant_id}/sessions/search", sessions::search)
            .docs("Search conversations", "Searches the messages of a tenant's conversations, newest first.")
            .scope(Scope::SessionsRead)
            .read_only()
            .untrusted()
            .extended_tool()
            .command("tenant sessions search")
            .errors(&[409, 504])
            .returns::<sessions::ConversationMatches>(),
        Operation::new(
            "list_session_messages",
            &[Get],
            "/v1/tenants/{tenant_id}/sessions/{session_id}/messages",
            sessions::messages,
        )
        .docs("Read a conversation", "Lists the messages of one conversation, in order. Secrets are redacted.")
        .scope(Scope::SessionsRead)
        .read_only()
        .untrusted()
        .extended_tool()
        .command("tenant sessions show")
        .errors(&[409, 504])
        .returns::<sessions::ConversationMessages>(),
        Operation::new(
            "rename_session",
            &[Patch],
            "/v1/tenants/{tenant_id}/sessions/{session_id}",
            sessions::change::rename,
        )
        .docs(
            "Rename a conversation",
            "Gives a conversation a title, or takes it away with an empty one. No two conversations of a tenant have the \
             same. Its agent does it, and is woken for it.",
        )
        .scope(Scope::SessionsWrite)
        .idempotent()
        .untrusted()
        .extended_tool()
        .command("tenant sessions rename")
        .errors(&[409, 504])
        .returns::<sessions::change::RenamedSession>(),
        Operation::new(
            "delete_session",
            &[Delete],
            "/v1/tenants/{tenant_id}/sessions/{session_id}",
            sessions::change::delete,
        )
        .docs(
            "Delete a conversation",
            "Deletes a conversation with its messages, for good, and ends its background processes. Its agent does it, and \
             is woken for it. A conversation in which a run goes on is not deleted.",
        )
        .scope(Scope::SessionsWrite)
        .destructive()
        .idempotent()
        .extended_tool()
        .command("tenant sessions delete")
        .errors(&[409, 504])
        .returns_nothing(),
    ]
}

pub(super) fn manifest() -> Vec<Operation> {
    vec![
        Operation::new("get_manifest", &[Get], "/v1/tenants/{tenant_id}/manifest", manifest::get)
            .docs(
                "Get a tenant as a document",
                "Shows all that a tenant consists of as one document, without secrets and without the files of its \
                 workspace. What the token may not read is left out.",
            )
            .scope(Scope::TenantsRead)
            .read_only()
            .untrusted()
            .extended_tool()
            .command("tenant manifest")
            .errors(&[409])
            .returns::<manifest::ManifestView>(),
        Operation::new("put_manifest", &[Put], "/v1/tenants/{tenant_id}/manifest", manifest::put)
            .docs(
                "Make a tenant what a document says",
                "Creates a tenant or changes it, so that it is what the document says. What the document does not name \
                 stays as it is. Each member needs the right of the operation that changes it alone. All of it is checked \
                 first; then the record changes at once, and the other parts one after the other.",
            )
            .scope(Scope::TenantsWrite)
            .gate(Gate::TenantOrNew)
            .destructive()
            .idempotent()
            .extended_tool()
            .whole_body("manifest")
            .takes_yaml()
            .in_query(&["dry_run"])
            .command("tenant apply")
            .success(&[200, 201])
            .errors(&[409, 412, 415, 422, 507])
            .returns::<manifest::ManifestReport>(),
    ]
}
