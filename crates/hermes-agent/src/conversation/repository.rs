//! The git repository around a directory, read from `.git` and `HEAD`.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// A repository and its checked-out branch.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Repository {
    pub(super) root: PathBuf,
    /// None where no branch is checked out.
    pub(super) branch: Option<String>,
}

pub(super) fn find_repository(directory: &Path) -> Option<Repository> {
    directory.ancestors().find_map(|root| {
        let mark = root.join(".git");
        let git = match fs::read_to_string(&mark) {
            // In a linked working tree, `.git` is a file that names its state directory.
            Ok(text) => root.join(text.strip_prefix("gitdir:")?.trim()),
            Err(_) if mark.is_dir() => mark,
            Err(_) => return None,
        };
        let head = fs::read_to_string(git.join("HEAD")).unwrap_or_default();
        let branch = head.trim().strip_prefix("ref: refs/heads/");
        Some(Repository {
            root: root.to_path_buf(),
            branch: branch.map(str::to_owned),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_branch_is_found_from_below_and_from_a_further_tree() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("main");
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::create_dir_all(root.join(".git/worktrees/other")).unwrap();
        fs::write(root.join(".git/HEAD"), "ref: refs/heads/feature/x\n").unwrap();
        let other = root.join(".git/worktrees/other");
        fs::write(other.join("HEAD"), "0123456789abcdef\n").unwrap();
        let tree = directory.path().join("other");
        fs::create_dir(&tree).unwrap();
        fs::write(tree.join(".git"), format!("gitdir: {}\n", other.display())).unwrap();

        let found = find_repository(&root.join("a/b")).unwrap();
        assert_eq!(found.root, root);
        assert_eq!(found.branch.as_deref(), Some("feature/x"));
        assert_eq!(find_repository(&tree).unwrap().branch, None);
    }
}
