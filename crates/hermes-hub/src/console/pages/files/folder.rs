//! One directory: its entries sorted and in pages, and what can be made in it.

use askama::Template;
use serde_json::json;

use super::{Crumb, FileTree, MemberShare, MemberShareList, TreeFacts, last_segment, parent_of};
use crate::{
    Problem,
    api_types::Time,
    console::{frame::Frame, pages::render, request::PageRequest},
    storage::files::{EntryType, FileEntry, Listing},
};

const PAGE_SIZE: usize = 200;

#[derive(Template)]
#[template(path = "pages/files/folder.html")]
struct FolderPage<'a> {
    page: Frame,
    tree: &'a FileTree,
    facts: TreeFacts,
    crumbs: Vec<Crumb>,
    path: String,
    /// What new paths begin with.
    prefix: String,
    columns: Vec<SortColumn>,
    entries: Vec<EntryRow>,
    total: u64,
    is_cut: bool,
    earlier: Option<String>,
    later: Option<String>,
    upload: String,
    trash: Option<String>,
    was_removed: bool,
    archive: Option<String>,
    may_unpack: bool,
    shares: Vec<(MemberShare, String)>,
}

impl FolderPage<'_> {
    fn after_move(&self) -> String {
        self.tree.address_of(parent_of(&self.path))
    }

    fn after_remove(&self) -> String {
        self.after_move()
    }
}

/// A heading that sorts.
struct SortColumn {
    text: &'static str,
    address: String,
    /// As in `aria-sort`.
    order: Option<&'static str>,
}

struct EntryRow {
    name: String,
    address: String,
    kind: &'static str,
    is_file: bool,
    size: u64,
    changed: Option<Time>,
}

/// An order of entries, as in the address: a leading `-` is the other way round.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SortKey {
    Name,
    Size,
    Time,
}

const SORT_KEYS: [(SortKey, &str, &str); 3] = [
    (SortKey::Name, "name", "files.name"),
    (SortKey::Size, "size", "files.size"),
    (SortKey::Time, "time", "files.changed"),
];

pub(super) async fn show(
    request: &PageRequest,
    tree: &FileTree,
    facts: TreeFacts,
    listing: Listing,
) -> Result<String, Problem> {
    let wanted = request.query("sort").unwrap_or("name");
    let (word, is_reversed) = match wanted.strip_prefix('-') {
        Some(word) => (word, true),
        None => (wanted, false),
    };
    let key = SORT_KEYS.iter().find(|(_, name, _)| *name == word);
    let key = key.map_or(SortKey::Name, |(key, ..)| *key);
    let mut entries = listing.entries;
    sort_entries(&mut entries, key, is_reversed);
    let number: usize = request
        .query("page")
        .and_then(|page| page.parse().ok())
        .unwrap_or(1);
    let number = number.clamp(1, entries.len().div_ceil(PAGE_SIZE).max(1));
    let first = (number - 1) * PAGE_SIZE;
    let to_page = |number: usize| request.address_with("page", &number.to_string());
    let total = entries.len();
    let rows = entries.iter().skip(first).take(PAGE_SIZE);
    let path = listing.path;
    let title = if path.is_empty() {
        facts.title.clone()
    } else {
        last_segment(&path).to_owned()
    };
    let is_workspace = tree.group.is_none();
    render(&FolderPage {
        page: Frame::new(request, title),
        crumbs: tree.crumbs(&path, &facts.title),
        prefix: if path.is_empty() {
            String::new()
        } else {
            format!("{path}/")
        },
        columns: sort_columns(request, key, is_reversed),
        entries: rows.map(|entry| entry_row(tree, entry)).collect(),
        total: total as u64,
        is_cut: listing.truncated,
        earlier: (number > 1).then(|| to_page(number - 1)),
        later: (first + PAGE_SIZE < total).then(|| to_page(number + 1)),
        upload: tree.address("files/upload", &[]),
        trash: (!is_workspace).then(|| tree.address("trash", &[])),
        was_removed: request.query("done") == Some("remove_share_path"),
        may_unpack: request.may("upload_archive"),
        archive: is_workspace.then(|| tree.address("files/raw", &[("path", &path), ("pack", "1")])),
        shares: if is_workspace && path.is_empty() && request.may("list_shares") {
            shares_of(request, tree).await?
        } else {
            Vec::new()
        },
        tree,
        facts,
        path,
    })
}

fn sort_entries(entries: &mut [FileEntry], key: SortKey, is_reversed: bool) {
    entries.sort_by(|one, other| {
        let is_file = |entry: &FileEntry| entry.entry_type != EntryType::Dir;
        let order = match key {
            SortKey::Name => one.name.to_lowercase().cmp(&other.name.to_lowercase()),
            SortKey::Size => one.size.cmp(&other.size),
            SortKey::Time => one.modified_at.cmp(&other.modified_at),
        };
        let order = if is_reversed { order.reverse() } else { order };
        is_file(one)
            .cmp(&is_file(other))
            .then(order)
            .then_with(|| one.name.cmp(&other.name))
    });
}

/// What a click on a heading does: its order, and the other way round if it is the order already.
fn sort_columns(request: &PageRequest, key: SortKey, is_reversed: bool) -> Vec<SortColumn> {
    let columns = SORT_KEYS.iter().map(|(column, name, text)| {
        let is_current = *column == key;
        let value = match (is_current && !is_reversed, *name) {
            (true, name) => format!("-{name}"),
            (false, "name") => String::new(),
            (false, name) => name.to_owned(),
        };
        SortColumn {
            text: request.texts.find(text).unwrap_or(text),
            address: request.address_with("sort", &value),
            order: is_current.then_some(if is_reversed {
                "descending"
            } else {
                "ascending"
            }),
        }
    });
    columns.collect()
}

fn entry_row(tree: &FileTree, entry: &FileEntry) -> EntryRow {
    EntryRow {
        name: entry.name.clone(),
        address: tree.address_of(&entry.path),
        kind: match entry.entry_type {
            EntryType::Dir => "files.folder",
            EntryType::File => "files.file",
            EntryType::Symlink => "files.link",
        },
        is_file: entry.entry_type == EntryType::File,
        size: entry.size,
        changed: read_time(&entry.modified_at),
    }
}

pub(super) fn read_time(text: &str) -> Option<Time> {
    text.parse::<jiff::Timestamp>().ok().map(Time::from)
}

/// The shares of the tenant, and where they are.
async fn shares_of(
    request: &PageRequest,
    tree: &FileTree,
) -> Result<Vec<(MemberShare, String)>, Problem> {
    let seen: MemberShareList = request
        .read("list_shares", json!({"tenant_id": tree.tenant}))
        .await?;
    let shares = seen.shares.into_iter().map(|share| {
        let share_tree = FileTree {
            tenant: tree.tenant.clone(),
            group: Some(share.group_id.clone()),
            operations: &super::SHARE,
        };
        let address = share_tree.address_of("");
        (share, address)
    });
    Ok(shares.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, entry_type: EntryType, size: u64) -> FileEntry {
        FileEntry {
            name: name.to_owned(),
            path: name.to_owned(),
            entry_type,
            size,
            modified_at: format!("2026-01-0{size}T00:00:00Z"),
            etag: None,
        }
    }

    #[test]
    fn directories_stay_first_in_every_order() {
        let mut entries = vec![
            entry("B", EntryType::File, 1),
            entry("a", EntryType::File, 2),
            entry("z", EntryType::Dir, 3),
        ];
        let mut names = |key, is_reversed| {
            sort_entries(&mut entries, key, is_reversed);
            entries
                .iter()
                .map(|entry| entry.name.clone())
                .collect::<String>()
        };
        assert_eq!(names(SortKey::Name, false), "zaB");
        assert_eq!(names(SortKey::Name, true), "zBa");
        assert_eq!(names(SortKey::Size, false), "zBa");
        assert_eq!(names(SortKey::Time, true), "zaB");
    }
}
