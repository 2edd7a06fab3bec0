//! Files of shares and workspaces. Operations on a share are a trait, so that the files can be in a directory or
//! elsewhere; nothing here knows the caller or the protocol.

mod archive;
mod beneath;
mod budget;
mod condition;
mod directory;
mod faults;
mod find;
mod go_glob;
mod go_regex;
mod home_directory;
mod path;
mod quota;
mod search;
mod shapes;
mod text;
mod tree;
mod walk;
mod workspace;

use async_trait::async_trait;
use bytes::Bytes;
use tokio_util::sync::CancellationToken;

use crate::Problem;
pub use archive::Pieces;
pub use condition::IfMatch;
pub use directory::{DirectoryFiles, empty_trash};
pub use find::Find;
pub use go_glob::GoGlob;
pub use go_regex::{Case, GoRegex};
pub use path::SharePath;
pub use quota::Allowance;
pub use search::Search;
pub use shapes::{
    EntryType, FileEntry, FileText, Listing, Match, Matches, Paths, Placed, Used, Written,
};
pub use text::Lines;
pub use workspace::{ByteRange, Download, Workspace};

pub(crate) use beneath::{DIRECTORY, Links, READ, open_beneath};
pub(crate) use directory::{
    atomic::{Draft, make_directories},
    blocking,
    count::{clear_below, measure},
};
pub(crate) use faults::{io_problem, problem};
pub(crate) use home_directory::HomeDirectory;
pub(crate) use tree::{Tree, names, open_directory};
pub(crate) use walk::walk;

/// Limits of operations and of a share. They may change at any time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileLimits {
    pub read_bytes: usize,
    pub write_bytes: usize,
    pub list_entries: usize,
    pub allowance: Allowance,
}

impl Default for FileLimits {
    fn default() -> Self {
        Self {
            read_bytes: 1 << 20,
            write_bytes: 8 << 20,
            list_entries: 5000,
            allowance: Allowance::default(),
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum WriteMode {
    #[default]
    Overwrite,
    Append,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Removal {
    /// A directory only if it is empty.
    #[default]
    Single,
    Recursive,
}

/// The files of one share. A read is cancelled when its caller goes away; a change that has started is completed.
#[async_trait]
pub trait Files: Send + Sync + 'static {
    /// Lists one level.
    async fn list(&self, path: &SharePath) -> Result<Listing, Problem>;

    /// Reads lines of a text file.
    async fn read(&self, path: &SharePath, lines: Lines) -> Result<FileText, Problem>;

    async fn stat(&self, path: &SharePath) -> Result<FileEntry, Problem>;

    /// Searches contents; stops early when cancelled.
    async fn grep(&self, search: Search, cancel: CancellationToken) -> Result<Matches, Problem>;

    /// Searches names; stops early when cancelled.
    async fn find(&self, find: Find, cancel: CancellationToken) -> Result<Paths, Problem>;

    /// Writes a file and creates missing parent directories.
    async fn write(
        &self,
        path: &SharePath,
        content: Bytes,
        mode: WriteMode,
        condition: Option<IfMatch>,
    ) -> Result<(Placed, Written), Problem>;

    /// Creates a directory and its parents. An existing one is not an error.
    async fn make_dir(&self, path: &SharePath) -> Result<(Placed, FileEntry), Problem>;

    /// Moves a file or directory to a path that does not exist.
    async fn relocate(
        &self,
        from: &SharePath,
        to: &SharePath,
        condition: Option<IfMatch>,
    ) -> Result<FileEntry, Problem>;

    /// Removes a file, link or directory. Anything with content goes to the trash.
    async fn remove(
        &self,
        path: &SharePath,
        removal: Removal,
        condition: Option<IfMatch>,
    ) -> Result<(), Problem>;

    async fn used(&self) -> Result<Used, Problem>;

    fn set_limits(&self, limits: FileLimits);
}
