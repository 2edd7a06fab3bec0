//! Walking a tree in byte order of its paths, without following links; each directory is opened relative to its parent.

use std::{
    cmp::Ordering,
    ffi::CStr,
    ops::ControlFlow,
    os::fd::{BorrowedFd, OwnedFd},
};

use hermes_config::beneath::{DIRECTORY_FLAGS, SymlinkPolicy, open_beneath};
use rustix::fs::{Dir, Mode};

use super::{
    path::MAX_SEGMENTS,
    tree::{DirectoryEntry, read_entries},
};
use crate::storage::files::EntryType;

pub(crate) struct WalkEntry<'a> {
    pub(crate) directory: BorrowedFd<'a>,
    pub(crate) name: &'a CStr,
    pub(crate) path: &'a str,
    pub(crate) entry_type: EntryType,
}

/// Visits everything below a directory whose path from the root is `path`, until `visit` breaks. Invalid names, entries
/// other than files, directories and links, and entries that cannot be opened are skipped.
pub(crate) fn walk_tree(
    directory: OwnedFd,
    path: &str,
    visit: &mut dyn FnMut(&WalkEntry<'_>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let depth = path.split('/').filter(|part| !part.is_empty()).count();
    let mut path = path.to_owned();
    descend(directory, &mut path, depth, visit)
}

/// A directory appears twice in the order: itself, and, as if its name ended with `/`, its contents.
struct WalkItem<'a> {
    name: &'a DirectoryEntry,
    text: &'a str,
    goes_down: bool,
}

impl WalkItem<'_> {
    fn byte(&self, at: usize) -> Option<u8> {
        let bytes = self.text.as_bytes();
        bytes
            .get(at)
            .copied()
            .or((self.goes_down && at == bytes.len()).then_some(b'/'))
    }

    fn order(&self, other: &Self) -> Ordering {
        let (left, right) = (self.text.as_bytes(), other.text.as_bytes());
        let common = left.len().min(right.len());
        left[..common]
            .cmp(&right[..common])
            .then_with(|| self.byte(common).cmp(&other.byte(common)))
    }
}

fn descend(
    directory: OwnedFd,
    path: &mut String,
    depth: usize,
    visit: &mut dyn FnMut(&WalkEntry<'_>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let Ok((directory, names)) = Dir::new(directory).and_then(read_entries) else {
        return ControlFlow::Continue(());
    };
    let Ok(descriptor) = directory.fd() else {
        return ControlFlow::Continue(());
    };
    let mut stops = Vec::with_capacity(names.len());
    for name in &names {
        let (Some(entry_type), Some(text)) = (name.kind, name.text()) else {
            continue;
        };
        for goes_down in [false, true] {
            if !goes_down || (entry_type == EntryType::Dir && depth + 1 < MAX_SEGMENTS) {
                stops.push((
                    entry_type,
                    WalkItem {
                        name,
                        text,
                        goes_down,
                    },
                ));
            }
        }
    }
    stops.sort_unstable_by(|(_, a), (_, b)| a.order(b));
    let length = path.len();
    for (entry_type, stop) in stops {
        if length > 0 {
            path.push('/');
        }
        path.push_str(stop.text);
        let flow = if stop.goes_down {
            match open_beneath(
                descriptor,
                stop.text,
                DIRECTORY_FLAGS,
                Mode::empty(),
                SymlinkPolicy::Refuse,
            ) {
                Ok(below) => descend(below, path, depth + 1, visit),
                Err(_) => ControlFlow::Continue(()),
            }
        } else {
            visit(&WalkEntry {
                directory: descriptor,
                name: &stop.name.name,
                path,
                entry_type,
            })
        };
        path.truncate(length);
        flow?;
    }
    ControlFlow::Continue(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::storage::files::tree::Tree;

    #[test]
    fn the_order_is_that_of_the_paths_as_bytes() {
        let directory = tempfile::tempdir().unwrap();
        for path in ["a/b/c", "a/b.txt", "a.txt", "a-b/x", "z", "B"] {
            let path = directory.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let tree = Tree::open(directory.path()).unwrap();
        let root = tree
            .open_dir(
                &crate::storage::files::SharePath::root(),
                SymlinkPolicy::Refuse,
            )
            .unwrap();
        let mut paths = Vec::new();
        let flow = walk_tree(root, "", &mut |entry| {
            paths.push(entry.path.to_owned());
            ControlFlow::Continue(())
        });
        assert!(flow.is_continue());
        let mut sorted = paths.clone();
        sorted.sort();
        assert_eq!(paths, sorted);
        assert_eq!(paths.len(), 9);
    }
}
