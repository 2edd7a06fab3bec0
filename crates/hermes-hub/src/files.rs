//! Files that tenants share and files of their workspaces. What can be done with them is a trait, so that they may lie
//! in directories or elsewhere; nothing here knows who asks, or over which protocol.

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

/// What operations may take and what a share may hold. May change at any time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileLimits {
    /// Most bytes of one read.
    pub read_bytes: usize,
    /// Most bytes of one write.
    pub write_bytes: usize,
    /// Most entries of one listing.
    pub list_entries: usize,
    /// Most of everything.
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

/// How content meets what is there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum WriteMode {
    /// It takes its place.
    #[default]
    Overwrite,
    /// It follows it.
    Append,
}

/// Whether a directory is removed with what is in it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Removal {
    /// Only if it is empty.
    #[default]
    Single,
    /// With everything below.
    Recursive,
}

/// The files of one share. Reads end when nobody waits for them any more; a change that has begun is completed.
#[async_trait]
pub trait Files: Send + Sync + 'static {
    /// One level.
    async fn list(&self, path: &SharePath) -> Result<Listing, Problem>;

    /// Lines of a text file.
    async fn read(&self, path: &SharePath, lines: Lines) -> Result<FileText, Problem>;

    /// What is at a path.
    async fn stat(&self, path: &SharePath) -> Result<FileEntry, Problem>;

    /// Searches contents; ends early when cancelled.
    async fn grep(&self, search: Search, cancel: CancellationToken) -> Result<Matches, Problem>;

    /// Searches names; ends early when cancelled.
    async fn find(&self, find: Find, cancel: CancellationToken) -> Result<Paths, Problem>;

    /// Writes a file, and makes the directories it needs.
    async fn write(
        &self,
        path: &SharePath,
        content: Bytes,
        mode: WriteMode,
        condition: Option<IfMatch>,
    ) -> Result<(Placed, Written), Problem>;

    /// Makes a directory, and those it needs. One that exists is no fault.
    async fn make_dir(&self, path: &SharePath) -> Result<(Placed, FileEntry), Problem>;

    /// Moves a file or directory to where nothing is.
    async fn relocate(
        &self,
        from: &SharePath,
        to: &SharePath,
        condition: Option<IfMatch>,
    ) -> Result<FileEntry, Problem>;

    /// Removes a file, link or directory. What had content can be found in the trash.
    async fn remove(
        &self,
        path: &SharePath,
        removal: Removal,
        condition: Option<IfMatch>,
    ) -> Result<(), Problem>;

    /// How much there is.
    async fn used(&self) -> Result<Used, Problem>;

    /// Sets other limits, from now on.
    fn set_limits(&self, limits: FileLimits);
}
