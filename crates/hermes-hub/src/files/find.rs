//! Finding files, directories and links by name.

use std::ops::ControlFlow;

use rustix::fs::{AtFlags, statat};

use super::{
    beneath::Links, budget::Budget, faults, go_glob::GoGlob, search::clamp, tree, tree::Tree,
    walk::walk,
};
use crate::{
    Problem,
    files::{Paths, SharePath},
};

#[derive(Debug, Clone, Default)]
pub struct Find {
    pub path: Option<SharePath>,
    /// A pattern in the syntax of Go's `path.Match`; all files if absent.
    pub name: Option<String>,
    /// Most results: 1 to 1000, 100 by default.
    pub max: Option<u64>,
}

pub(crate) fn find(tree: &Tree, find: &Find, mut budget: Budget) -> Result<Paths, Problem> {
    let glob = find.name.as_deref().map(GoGlob::compile).transpose()?;
    let most = clamp(find.max);
    let root = SharePath::root();
    let path = find.path.as_ref().unwrap_or(&root);
    let directory = match tree.directory(path, Links::Follow) {
        Err(rustix::io::Errno::NOTDIR) => {
            tree.stat(path)?;
            return Err(faults::not_directory(path));
        }
        other => other.map_err(|error| faults::problem(error, path))?,
    };
    let prefix = if path.is_root() {
        0
    } else {
        path.as_str().len() + 1
    };
    let mut paths = Vec::new();
    let flow = walk(directory, path.as_str(), &mut |found| {
        if !budget.take_file() {
            return ControlFlow::Break(());
        }
        if glob
            .as_ref()
            .is_some_and(|glob| !glob.matches(&found.path[prefix..]))
        {
            return ControlFlow::Continue(());
        }
        if paths.len() == most {
            return ControlFlow::Break(());
        }
        let stat = statat(found.directory, found.name, AtFlags::SYMLINK_NOFOLLOW);
        paths.extend(
            stat.ok()
                .and_then(|stat| tree::entry(found.path.to_owned(), &stat)),
        );
        ControlFlow::Continue(())
    });
    Ok(Paths {
        paths,
        truncated: flow.is_break(),
    })
}
