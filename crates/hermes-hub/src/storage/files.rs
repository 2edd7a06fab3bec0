//! Files of shares and workspaces. Operations on a share are a trait, so that the files can be in a directory or
//! elsewhere; nothing here knows the caller or the protocol.

mod api_types;
mod archive;
mod archive_reader;
mod budget;
mod directory;
mod find;
mod go_glob;
mod go_regex;
mod home_directory;
mod objects;
mod path;
mod problems;
mod quota;
mod search;
mod text;
mod tree;
mod walk;
mod workspace;

use async_trait::async_trait;
use bytes::Bytes;
use tokio_util::sync::CancellationToken;

use crate::{Problem, ProblemCode};

pub use crate::storage::files::api_types::{
    CreateOutcome, EntryType, FileEntry, FileText, FindResult, GrepMatch, GrepResult, Listing,
    TrashedEntry, TreeUsage, WrittenFile,
};
pub(crate) use crate::storage::files::problems::{problem_from_errno, problem_from_io};
pub use archive::ArchiveChunks;
pub(crate) use archive_reader::{ArchiveEntry, ArchiveLimits, read_archive};
pub use directory::{DirectoryFiles, UnpackedArchive, empty_trash, forget_origins};
pub(crate) use directory::{
    count::{measure_directory, remove_temp_files_below},
    run_blocking,
    write::{create_temp_file, make_directories, persist},
};
pub use find::FindQuery;
pub use go_glob::GoGlob;
pub use go_regex::{CaseMatching, GoRegex};
pub(crate) use home_directory::HomeDirectory;
pub use objects::{BlobStore, ObjectFiles};
pub use path::SharePath;
pub(crate) use quota::Quota;
pub use quota::QuotaLimits;
pub use search::GrepQuery;
pub use text::LineRange;
pub(crate) use tree::{Tree, read_entries};
pub(crate) use walk::walk_tree;
pub use workspace::{ByteRange, Download, Workspace};

/// How many removed things a list has.
pub const TRASH_ENTRIES: usize = 500;

/// Limits of operations and of a share. They may change at any time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileLimits {
    pub read_bytes: usize,
    pub write_bytes: usize,
    pub list_entries: usize,
    pub quota: QuotaLimits,
}

impl Default for FileLimits {
    fn default() -> Self {
        Self {
            read_bytes: 1 << 20,
            write_bytes: 8 << 20,
            list_entries: 5000,
            quota: QuotaLimits::default(),
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
pub enum RemoveMode {
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
    async fn read(&self, path: &SharePath, lines: LineRange) -> Result<FileText, Problem>;

    /// Bytes of any file from a position on, at most so many; none behind its end.
    async fn read_part(
        &self,
        path: &SharePath,
        start: u64,
        most: usize,
    ) -> Result<(FileEntry, Bytes), Problem>;

    async fn stat(&self, path: &SharePath) -> Result<FileEntry, Problem>;

    /// Searches contents; stops early when cancelled.
    async fn grep(
        &self,
        search: GrepQuery,
        cancel: CancellationToken,
    ) -> Result<GrepResult, Problem>;

    /// Searches names; stops early when cancelled.
    async fn find(&self, find: FindQuery, cancel: CancellationToken)
    -> Result<FindResult, Problem>;

    /// Writes a file and creates missing parent directories.
    async fn write(
        &self,
        path: &SharePath,
        content: Bytes,
        mode: WriteMode,
        condition: Option<IfMatch>,
    ) -> Result<(CreateOutcome, WrittenFile), Problem>;

    /// Creates a directory and its parents. An existing one is not an error.
    async fn make_dir(&self, path: &SharePath) -> Result<(CreateOutcome, FileEntry), Problem>;

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
        removal: RemoveMode,
        condition: Option<IfMatch>,
    ) -> Result<(), Problem>;

    /// What was removed and can be restored, the newest first, at most [`TRASH_ENTRIES`].
    async fn list_trash(&self) -> Result<Vec<TrashedEntry>, Problem>;

    /// Moves something from the trash back to where it was, if nothing is there now.
    async fn restore(&self, id: &str) -> Result<FileEntry, Problem>;

    async fn usage(&self) -> Result<TreeUsage, Problem>;

    /// Removes what interrupted writes have left in a directory.
    async fn clear_interrupted(&self, directory: &SharePath) -> Result<(), Problem>;

    fn set_limits(&self, limits: FileLimits);
}

/// `If-Match`: a write on condition that the version is still the expected one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IfMatch {
    /// Any version, but it must exist.
    Any,
    /// One of these strong tags, including their quotes.
    OneOf(Vec<String>),
}

impl IfMatch {
    /// Parses the header. A weak tag is accepted and matches nothing.
    pub fn parse(header: &str) -> Result<Self, Problem> {
        if header.trim() == "*" {
            return Ok(Self::Any);
        }
        let tags: Vec<String> = header.split(',').map(|tag| tag.trim().to_owned()).collect();
        let is_tag = |tag: &String| {
            let opaque = tag.strip_prefix("W/").unwrap_or(tag);
            opaque.len() >= 2 && opaque.starts_with('"') && opaque.ends_with('"')
        };
        if tags.iter().all(is_tag) {
            Ok(Self::OneOf(tags))
        } else {
            Err(
                Problem::invalid("`If-Match` is `*` or a list of quoted tags, such as `\"b3\"`")
                    .with_detail("If-Match", "malformed"),
            )
        }
    }

    pub fn check(&self, current: Option<&str>) -> Result<(), Problem> {
        let holds = match (self, current) {
            (_, None) => false,
            (Self::Any, Some(_)) => true,
            (Self::OneOf(tags), Some(current)) => tags.iter().any(|tag| tag == current),
        };
        if holds {
            return Ok(());
        }
        Err(Problem::new(
            ProblemCode::PreconditionFailed,
            "it is no longer the version that `If-Match` names: read it again",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_wants_any_version_and_a_list_one_of_its_own() {
        assert!(IfMatch::parse("*").unwrap().check(Some("\"a\"")).is_ok());
        assert!(IfMatch::parse("*").unwrap().check(None).is_err());
        let list = IfMatch::parse("\"a\", \"b\"").unwrap();
        assert!(list.check(Some("\"b\"")).is_ok());
        assert_eq!(list.check(Some("\"c\"")).unwrap_err().code.status(), 412);
        assert!(list.check(None).is_err());
    }

    #[test]
    fn a_weak_tag_never_matches_and_a_bare_word_is_not_a_tag() {
        let weak = IfMatch::parse("W/\"a\"").unwrap();
        assert!(weak.check(Some("\"a\"")).is_err());
        assert_eq!(IfMatch::parse("a").unwrap_err().code.status(), 400);
        assert_eq!(IfMatch::parse("").unwrap_err().code.status(), 400);
    }
}
