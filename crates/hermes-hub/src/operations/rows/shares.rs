//! Shares of groups, and copying a tenant's context.

use super::super::{
    Gate, Operation,
    Verb::{Delete, Get, Post, Put},
};
use crate::{
    auth::Scope,
    files::{FileEntry, FileText, Listing, Matches, Paths, Written},
    service::{shares, sync},
    sync::SyncReport,
};

pub(super) fn tools() -> Vec<Operation> {
    vec![
        Operation::new("list_shares", &[Get], "/v1/tenants/{tenant_id}/shares", shares::list)
            .says("List shares", "Lists the shares of departments and teams that a tenant can access, and how.")
            .scope(Scope::SharesRead)
            .reads()
            .tool()
            .command("share list")
            .gives::<shares::ShareList>(),
        Operation::new("list_share_files", &[Get], "/v1/tenants/{tenant_id}/shares/{group_id}/files", shares::list_files)
            .says("List files of a share", "Lists one level of a share, directories first. `path` is relative to the share; empty means its root.")
            .scope(Scope::SharesRead)
            .reads()
            .tool()
            .untrusted()
            .command("share ls")
            .errors(&[409])
            .gives::<Listing>(),
        Operation::new("read_share_file", &[Get], "/v1/tenants/{tenant_id}/shares/{group_id}/files/content", shares::read)
            .says(
                "Read a file of a share",
                "Reads a text file of a share. `offset` and `limit` count lines; without a limit, or with 0, comes all \
                 that the Hub sends at once, and `nextOffset` leads on.",
            )
            .scope(Scope::SharesRead)
            .reads()
            .versioned()
            .tool()
            .untrusted()
            .command("share cat")
            .errors(&[409, 415])
            .gives::<FileText>(),
        Operation::new("stat_share_path", &[Get], "/v1/tenants/{tenant_id}/shares/{group_id}/stat", shares::stat)
            .says("Look at a path of a share", "Tells what is at a path of a share: type, size, time and version.")
            .scope(Scope::SharesRead)
            .reads()
            .versioned()
            .tool()
            .command("share stat")
            .errors(&[409])
            .gives::<FileEntry>(),
        Operation::new("grep_share", &[Get, Post], "/v1/tenants/{tenant_id}/shares/{group_id}/grep", shares::grep)
            .says("Search a share", "Searches the text files of a share, line by line, with a regular expression in Go's syntax.")
            .scope(Scope::SharesRead)
            .reads()
            .tool()
            .untrusted()
            .command("share grep")
            .errors(&[409])
            .gives::<Matches>(),
        Operation::new("find_share_files", &[Get], "/v1/tenants/{tenant_id}/shares/{group_id}/find", shares::find)
            .says("Find files in a share", "Finds paths of a share by a pattern such as `*.md`; without one, all of them.")
            .scope(Scope::SharesRead)
            .reads()
            .tool()
            .untrusted()
            .command("share find")
            .errors(&[409])
            .gives::<Paths>(),
        Operation::new("write_share_file", &[Put], "/v1/tenants/{tenant_id}/shares/{group_id}/files/content", shares::write)
            .says("Write a file of a share", "Writes a text file of a share, or appends to it with `mode: append`. The tenant needs write access.")
            .scope(Scope::SharesWrite)
            .gate(Gate::Writer)
            .destroys()
            .tool()
            .command("share write")
            .success(&[200, 201])
            .errors(&[409, 412, 507])
            .gives::<Written>(),
        Operation::new("make_share_dir", &[Put], "/v1/tenants/{tenant_id}/shares/{group_id}/dirs", shares::make_dir)
            .says("Make a directory in a share", "Makes a directory of a share, with those on the way to it. The tenant needs write access.")
            .scope(Scope::SharesWrite)
            .gate(Gate::Writer)
            .idempotent()
            .tool()
            .command("share mkdir")
            .success(&[200, 201])
            .errors(&[409, 507])
            .gives::<FileEntry>(),
        Operation::new("move_share_path", &[Post], "/v1/tenants/{tenant_id}/shares/{group_id}/move", shares::move_path)
            .says("Move a path of a share", "Moves a file or directory within a share. Nothing is overwritten. The tenant needs write access.")
            .scope(Scope::SharesWrite)
            .gate(Gate::Writer)
            .destroys()
            .tool()
            .command("share mv")
            .errors(&[409, 412])
            .gives::<FileEntry>(),
        Operation::new("remove_share_path", &[Delete], "/v1/tenants/{tenant_id}/shares/{group_id}/files", shares::remove)
            .says("Remove a path of a share", "Removes a file or directory of a share. A directory that is not empty needs `recursive`. The tenant needs write access.")
            .scope(Scope::SharesWrite)
            .gate(Gate::Writer)
            .destroys()
            .idempotent()
            .tool()
            .command("share rm")
            .errors(&[409, 412])
            .gives_nothing(),
    ]
}

pub(super) fn sync() -> Vec<Operation> {
    vec![
        Operation::new(
            "sync_context",
            &[Post],
            "/v1/tenants/{tenant_id}/context/sync",
            sync::run,
        )
        .says(
            "Copy a tenant's context",
            "Copies what a tenant's home says about itself (its soul, context, memories, skills) to a directory on the \
             Hub's machine, beneath an allowed root. `dry_run` shows what would be done. `delete` removes files that \
             an earlier copy made and that the home no longer has; it needs the scope `sync:delete` and a configured \
             root.",
        )
        .scope(Scope::SyncRun)
        .destroys()
        .tool()
        .command("tenant sync")
        .errors(&[409, 507])
        .gives::<SyncReport>(),
    ]
}
