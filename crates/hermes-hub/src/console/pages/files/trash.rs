//! What was removed from a share, and how it comes back.

use askama::Template;
use serde::Deserialize;

use super::{FileTree, TreeFacts, UNFINISHED, folder::read_time, last_segment};
use crate::{
    Problem,
    api_types::Time,
    console::{frame::Frame, pages::render, request::PageRequest},
    storage::files::{EntryType, TrashedEntry},
};

#[derive(Template)]
#[template(path = "pages/files/trash.html")]
struct TrashPage<'a> {
    page: Frame,
    tree: &'a FileTree,
    share: String,
    files: String,
    removed: Vec<RemovedRow>,
    may_restore: bool,
}

struct RemovedRow {
    id: String,
    path: String,
    kind: &'static str,
    is_file: bool,
    size: u64,
    at: Option<Time>,
}

#[derive(Deserialize)]
struct TrashList {
    entries: Vec<TrashedEntry>,
}

pub(in crate::console::pages) async fn show(request: PageRequest) -> Result<String, Problem> {
    let tree = FileTree::of_request(&request)?;
    let facts = TreeFacts::read(&request, &tree).await?;
    let list: TrashList = request.read("list_share_trash", tree.arguments()).await?;
    let entries = list.entries.into_iter();
    let whole = entries.filter(|entry| !last_segment(&entry.path).starts_with(UNFINISHED));
    let removed = whole.map(|entry| RemovedRow {
        kind: match entry.entry_type {
            EntryType::Dir => "files.folder",
            EntryType::File => "files.file",
            EntryType::Symlink => "files.link",
        },
        is_file: entry.entry_type == EntryType::File,
        size: entry.size,
        at: read_time(&entry.removed_at),
        id: entry.id,
        path: entry.path,
    });
    render(&TrashPage {
        page: Frame::new(&request, request.texts.get("files.trash")),
        files: tree.address_of(""),
        removed: removed.collect(),
        may_restore: facts.may_write && request.may("restore_share_path"),
        share: facts.title,
        tree: &tree,
    })
}
