//! Walks the files below a directory, without ignored and protected ones.

use std::{
    cell::Cell,
    fs::File,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use globset::{GlobBuilder, GlobMatcher};
use ignore::WalkBuilder;
use tokio_util::sync::CancellationToken;

use crate::tools::{
    ToolError,
    files::path_access::{AccessPurpose, PathPermission, PathRules},
};

const SEARCH_TIMEOUT: Duration = Duration::from_mins(1);
const VCS_DIRECTORIES: [&str; 4] = [".git", ".hg", ".jj", ".svn"];
/// Virtual file systems.
const VIRTUAL_FILESYSTEMS: [&str; 3] = ["/proc", "/sys", "/dev"];

pub(super) struct FileWalk {
    rules: PathRules,
    root: PathBuf,
    /// The root as the model wrote it.
    shown: PathBuf,
    glob: Option<NamePattern>,
    cancel: CancellationToken,
    deadline: Instant,
    protected: Cell<usize>,
    unreadable: Cell<usize>,
    is_cut_short: Cell<bool>,
}

impl FileWalk {
    pub(super) fn new(
        map: PathRules,
        root: PathBuf,
        shown: &str,
        glob: Option<&str>,
        cancel: CancellationToken,
    ) -> Result<Self, ToolError> {
        Ok(Self {
            rules: map,
            root,
            shown: PathBuf::from(shown),
            glob: glob.map(NamePattern::new).transpose()?,
            cancel,
            deadline: Instant::now() + SEARCH_TIMEOUT,
            protected: Cell::new(0),
            unreadable: Cell::new(0),
            is_cut_short: Cell::new(false),
        })
    }

    /// The files ordered by path: the real path, and the path to show.
    pub(super) fn files(&self) -> impl Iterator<Item = (PathBuf, PathBuf)> + '_ {
        let root = self.root.clone();
        let walk = WalkBuilder::new(&self.root)
            .hidden(false)
            .require_git(false)
            .follow_links(false)
            .sort_by_file_path(Path::cmp)
            .filter_entry(move |entry| {
                let name = entry.file_name();
                let is_store = VCS_DIRECTORIES.iter().any(|store| name == *store);
                let is_no_disk = entry.path() != root
                    && VIRTUAL_FILESYSTEMS
                        .iter()
                        .any(|path| entry.path() == Path::new(path));
                entry.depth() == 0 || !(is_store || is_no_disk)
            })
            .build();
        walk.map_while(|entry| {
            if self.must_stop() {
                self.is_cut_short.set(true);
                return None;
            }
            Some(entry)
        })
        .filter_map(|entry| {
            let Ok(entry) = entry else {
                self.unreadable.set(self.unreadable.get() + 1);
                return None;
            };
            let is_file = entry.file_type().is_some_and(|kind| kind.is_file());
            let path = entry.into_path();
            let relative = path.strip_prefix(&self.root).unwrap_or(&path).to_path_buf();
            let name = if relative.as_os_str().is_empty() {
                path.file_name().map(PathBuf::from)
            } else {
                Some(relative.clone())
            };
            if !is_file
                || !self
                    .glob
                    .as_ref()
                    .is_none_or(|glob| name.is_some_and(|name| glob.matches(&name)))
            {
                return None;
            }
            if self.rules.permission(&path, AccessPurpose::Read) != PathPermission::Allow
                && path != self.root
            {
                self.protected.set(self.protected.get() + 1);
                return None;
            }
            let shown = match (
                self.shown.as_os_str() == ".",
                relative.as_os_str().is_empty(),
            ) {
                (true, false) => relative,
                (_, true) => self.shown.clone(),
                (false, false) => self.shown.join(relative),
            };
            Some((path, shown))
        })
    }

    /// The part of a shown path that lies below the root.
    pub(super) fn below_root<'a>(&self, shown: &'a Path) -> &'a Path {
        match shown.strip_prefix(&self.shown) {
            Ok(rest) if !rest.as_os_str().is_empty() => rest,
            _ => shown,
        }
    }

    pub(super) fn open(&self, path: &Path) -> Option<File> {
        let file = self.rules.open(path).ok();
        if file.is_none() {
            self.unreadable.set(self.unreadable.get() + 1);
        }
        file
    }

    pub(super) fn must_stop(&self) -> bool {
        self.cancel.is_cancelled() || Instant::now() > self.deadline
    }

    /// Notes for the model about the search.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.is_cut_short.get() {
            notes
                .push("the search was cut short; narrow it down with path or file_glob".to_owned());
        }
        if self.protected.get() > 0 {
            notes.push(format!(
                "{} protected files were left out",
                self.protected.get()
            ));
        }
        if self.unreadable.get() > 0 {
            notes.push(format!(
                "{} files or directories could not be read",
                self.unreadable.get()
            ));
        }
        notes
    }
}

/// A glob: without a separator it matches names, else paths below the root.
pub(super) struct NamePattern {
    matcher: GlobMatcher,
    is_for_names: bool,
}

impl NamePattern {
    pub(super) fn new(glob: &str) -> Result<Self, ToolError> {
        let is_for_names = !glob.contains('/');
        let pattern = glob.trim_start_matches("./");
        let matcher = GlobBuilder::new(pattern)
            .literal_separator(true)
            .build()
            .map_err(|error| {
                ToolError::new(format!("`{glob}` is not a valid glob: {}", error.kind()))
            })?
            .compile_matcher();
        Ok(Self {
            matcher,
            is_for_names,
        })
    }

    /// Whether a path below the root matches.
    pub(super) fn matches(&self, path: &Path) -> bool {
        match path.file_name() {
            Some(name) if self.is_for_names => self.matcher.is_match(name),
            _ => self.matcher.is_match(path),
        }
    }
}
