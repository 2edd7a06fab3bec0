//! Finding files, directories and links by name.

use std::ops::ControlFlow;

use hermes_config::beneath::SymlinkPolicy;
use rustix::fs::{AtFlags, statat};

use super::{
    budget::SearchBudget,
    go_glob::GoGlob,
    search::clamp_max_results,
    tree::{self, Tree},
    walk::walk_tree,
};
use crate::{
    Problem,
    storage::files::{FindResult, SharePath, problems},
};

#[derive(Debug, Clone, Default)]
pub struct FindQuery {
    pub path: Option<SharePath>,
    /// A pattern in the syntax of Go's `path.Match`; all files if absent.
    pub name: Option<String>,
    /// Most results: 1 to 1000, 100 by default.
    pub max: Option<u64>,
}

impl FindQuery {
    /// As a request asks for it.
    pub(crate) fn parse(
        path: Option<&str>,
        name: Option<String>,
        max: Option<u64>,
    ) -> Result<Self, Problem> {
        Ok(Self {
            path: path.map(SharePath::parse).transpose()?,
            name,
            max,
        })
    }

    /// What is found where there are no files. A pattern that is wrong stays so.
    pub(crate) fn search_nothing(&self) -> Result<FindResult, Problem> {
        self.name.as_deref().map(GoGlob::compile).transpose()?;
        Ok(FindResult::default())
    }
}

pub(crate) fn find_paths(
    tree: &Tree,
    find: &FindQuery,
    mut budget: SearchBudget,
) -> Result<FindResult, Problem> {
    let glob = find.name.as_deref().map(GoGlob::compile).transpose()?;
    let most = clamp_max_results(find.max);
    let root = SharePath::root();
    let path = find.path.as_ref().unwrap_or(&root);
    let directory = match tree.open_dir(path, SymlinkPolicy::Follow) {
        Err(rustix::io::Errno::NOTDIR) => {
            tree.stat(path)?;
            return Err(problems::not_a_directory(path));
        }
        other => other.map_err(|error| problems::problem_from_errno(error, path))?,
    };
    let prefix = if path.is_root() {
        0
    } else {
        path.as_str().len() + 1
    };
    let mut paths = Vec::new();
    let flow = walk_tree(directory, path.as_str(), &mut |entry| {
        if !budget.take_file() {
            return ControlFlow::Break(());
        }
        if glob
            .as_ref()
            .is_some_and(|glob| !glob.matches(&entry.path[prefix..]))
        {
            return ControlFlow::Continue(());
        }
        if paths.len() == most {
            return ControlFlow::Break(());
        }
        let stat = statat(entry.directory, entry.name, AtFlags::SYMLINK_NOFOLLOW);
        paths.extend(
            stat.ok()
                .and_then(|stat| tree::file_entry(entry.path.to_owned(), &stat)),
        );
        ControlFlow::Continue(())
    });
    Ok(FindResult {
        paths,
        truncated: flow.is_break(),
    })
}
