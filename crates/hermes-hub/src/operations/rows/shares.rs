//! Shares of groups, and copying a tenant's context.

use super::super::{
    Gate,
    HttpMethod::{Delete, Get, Post, Put},
    Operation,
};
use crate::{
    api_types::{Scope, ShareList},
    service::{share_bytes, shares, sync},
    storage::{
        files::{FileEntry, FileText, FindResult, GrepResult, Listing, WrittenFile},
        sync::SyncReport,
    },
};

pub(super) fn tools() -> Vec<Operation> {
    vec![
        Operation::new("list_shares", &[Get], "/v1/tenants/{tenant_id}/shares", shares::list)
            .docs("List shares", "Lists the shares of departments and teams that a tenant can access, and how.")
            .scope(Scope::SharesRead)
            .read_only()
            .tool()
            .command("share list")
            .returns::<ShareList>(),
        Operation::new("list_share_files", &[Get], "/v1/tenants/{tenant_id}/shares/{group_id}/files", shares::list_files)
            .docs("List files of a share", "Lists one level of a share, directories first. `path` is relative to the share; empty means its root.")
            .scope(Scope::SharesRead)
            .read_only()
            .tool()
            .untrusted()
            .command("share ls")
            .errors(&[409])
            .returns::<Listing>(),
        Operation::new("read_share_file", &[Get], "/v1/tenants/{tenant_id}/shares/{group_id}/files/content", shares::read)
            .docs(
                "Read a file of a share",
                "Reads a text file of a share. `offset` and `limit` count lines. Without a limit, or with 0, the reply \
                 has as much as the Hub sends at once; continue at `nextOffset`.",
            )
            .scope(Scope::SharesRead)
            .read_only()
            .versioned()
            .tool()
            .untrusted()
            .command("share cat")
            .errors(&[409, 415])
            .returns::<FileText>(),
        Operation::new("stat_share_path", &[Get], "/v1/tenants/{tenant_id}/shares/{group_id}/stat", shares::stat)
            .docs("Look at a path of a share", "Shows what is at a path of a share: type, size, time and version.")
            .scope(Scope::SharesRead)
            .read_only()
            .versioned()
            .tool()
            .command("share stat")
            .errors(&[409])
            .returns::<FileEntry>(),
        Operation::new("grep_share", &[Get, Post], "/v1/tenants/{tenant_id}/shares/{group_id}/grep", shares::grep)
            .docs("Search a share", "Searches the text files of a share, line by line, with a regular expression in Go's syntax.")
            .scope(Scope::SharesRead)
            .read_only()
            .tool()
            .untrusted()
            .command("share grep")
            .errors(&[409])
            .returns::<GrepResult>(),
        Operation::new("find_share_files", &[Get], "/v1/tenants/{tenant_id}/shares/{group_id}/find", shares::find)
            .docs("Find files in a share", "Finds paths of a share by a pattern such as `*.md`; without one, all of them.")
            .scope(Scope::SharesRead)
            .read_only()
            .tool()
            .untrusted()
            .command("share find")
            .errors(&[409])
            .returns::<FindResult>(),
        Operation::new("write_share_file", &[Put], "/v1/tenants/{tenant_id}/shares/{group_id}/files/content", shares::write)
            .docs("Write a file of a share", "Writes a text file of a share, or appends to it with `mode: append`. The tenant needs write access.")
            .scope(Scope::SharesWrite)
            .gate(Gate::Writer)
            .destructive()
            .tool()
            .command("share write")
            .success(&[200, 201])
            .errors(&[409, 412, 507])
            .returns::<WrittenFile>(),
        Operation::new("make_share_dir", &[Put], "/v1/tenants/{tenant_id}/shares/{group_id}/dirs", shares::make_dir)
            .docs("Create a directory in a share", "Creates a directory of a share, with its missing parents. The tenant needs write access.")
            .scope(Scope::SharesWrite)
            .gate(Gate::Writer)
            .idempotent()
            .tool()
            .command("share mkdir")
            .success(&[200, 201])
            .errors(&[409, 507])
            .returns::<FileEntry>(),
        Operation::new("move_share_path", &[Post], "/v1/tenants/{tenant_id}/shares/{group_id}/move", shares::move_path)
            .docs("Move a path of a share", "Moves a file or directory within a share. Nothing is overwritten. The tenant needs write access.")
            .scope(Scope::SharesWrite)
            .gate(Gate::Writer)
            .destructive()
            .tool()
            .command("share mv")
            .errors(&[409, 412])
            .returns::<FileEntry>(),
        Operation::new("remove_share_path", &[Delete], "/v1/tenants/{tenant_id}/shares/{group_id}/files", shares::remove)
            .docs("Remove a path of a share", "Removes a file or directory of a share. A directory that is not empty needs `recursive`. The tenant needs write access.")
            .scope(Scope::SharesWrite)
            .gate(Gate::Writer)
            .destructive()
            .idempotent()
            .tool()
            .command("share rm")
            .errors(&[409, 412])
            .returns_nothing(),
    ]
}

/// What tools do not need: files of any kind, and what was removed.
pub(super) fn files() -> Vec<Operation> {
    vec![
        Operation::new(
            "download_share_file",
            &[Get],
            "/v1/tenants/{tenant_id}/shares/{group_id}/files/download",
            share_bytes::download,
        )
        .docs(
            "Download a file of a share",
            "Sends a file of a share unchanged, whatever it contains; `Range` requests a part.",
        )
        .scope(Scope::SharesRead)
        .read_only()
        .versioned()
        .untrusted()
        .command("share download")
        .success(&[200, 206])
        .errors(&[409])
        .returns_bytes(&["application/octet-stream"]),
        Operation::new(
            "upload_share_file",
            &[Put],
            "/v1/tenants/{tenant_id}/shares/{group_id}/files/bytes",
            share_bytes::upload,
        )
        .docs(
            "Write a file of any kind to a share",
            "Writes a file of a share, or appends to it with `mode: append`. A body of type `application/octet-stream` is \
             the file itself, and `path` and `mode` are in the query. The tenant needs write access.",
        )
        .extended_tool()
        .scope(Scope::SharesWrite)
        .gate(Gate::Writer)
        .destructive()
        .takes_bytes("content_base64", &["application/octet-stream"])
        .command("share upload")
        .success(&[200, 201])
        .errors(&[409, 412, 507])
        .returns::<WrittenFile>(),
        Operation::new(
            "list_share_trash",
            &[Get],
            "/v1/tenants/{tenant_id}/shares/{group_id}/trash",
            share_bytes::list_trash,
        )
        .docs(
            "List the trash of a share",
            "Lists what was removed from a share and can be restored, the newest first, at most 500.",
        )
        .extended_tool()
        .scope(Scope::SharesRead)
        .read_only()
        .untrusted()
        .command("share trash")
        .errors(&[409])
        .returns::<share_bytes::ShareTrash>(),
        Operation::new(
            "restore_share_path",
            &[Post],
            "/v1/tenants/{tenant_id}/shares/{group_id}/trash/{id}/restore",
            share_bytes::restore,
        )
        .docs(
            "Restore a path of a share",
            "Moves something from the trash of a share back to where it was, if nothing is there now. The tenant needs \
             write access.",
        )
        .extended_tool()
        .scope(Scope::SharesWrite)
        .gate(Gate::Writer)
        .command("share restore")
        .errors(&[409, 507])
        .returns::<FileEntry>(),
    ]
}

pub(super) fn sync() -> Vec<Operation> {
    vec![
        Operation::new(
            "sync_context",
            &[Post],
            "/v1/tenants/{tenant_id}/context/sync",
            sync::run_sync,
        )
        .docs(
            "Copy a tenant's context",
            "Copies a tenant's context (SOUL.md, context, memories, skills) to a directory on the Hub's machine, below an \
             allowed root. `dry_run` shows what would be done. `delete` removes files that an earlier copy made and that \
             the home no longer has; it needs the scope `sync:delete` and a configured root.",
        )
        .scope(Scope::SyncRun)
        .destructive()
        .tool()
        .command("tenant sync")
        .errors(&[409, 507])
        .returns::<SyncReport>(),
    ]
}
