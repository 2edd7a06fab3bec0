//! What file operations answer, as it is serialised.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The kind of a path. Pipes, sockets and devices are not shown.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum EntryType {
    /// A directory.
    Dir,
    /// A regular file.
    File,
    /// A symbolic link; its target is not shown.
    Symlink,
}

/// A file, a directory or a link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileEntry {
    /// The last segment of its path; empty for the root.
    pub name: String,
    /// From the root; empty for the root.
    pub path: String,
    /// Its kind.
    #[serde(rename = "type")]
    pub entry_type: EntryType,
    /// Bytes of a file; 0 otherwise.
    pub size: u64,
    /// RFC 3339, UTC.
    pub modified_at: String,
    /// The version of a file's content; only files have one.
    pub etag: Option<String>,
}

/// One level of a tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Listing {
    /// The directory.
    pub path: String,
    /// Directories first, each in byte order.
    pub entries: Vec<FileEntry>,
    /// Whether the list was cut.
    pub truncated: bool,
}

/// Lines of a text file, with their line ends: parts that follow each other join to the whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileText {
    /// The file.
    pub path: String,
    /// The lines.
    pub content: String,
    /// The number of the first line, from 0.
    pub offset: u64,
    /// The number of lines in this reply.
    pub lines: u64,
    /// The number of lines of the file.
    pub total_lines: u64,
    /// Bytes of the file.
    pub size: u64,
    /// Whether more lines follow.
    pub truncated: bool,
    /// The offset of the next line.
    pub next_offset: Option<u64>,
    /// The version that was read.
    pub etag: String,
}

/// A line that matches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GrepMatch {
    /// The file.
    pub path: String,
    /// The line's number, from 1.
    pub line: u64,
    /// The column of the first match, in characters from 1.
    pub column: u64,
    /// The line, cut after 500 characters.
    pub text: String,
    /// Whether it was cut.
    pub text_truncated: bool,
}

/// The matches of a search, by path and line.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GrepResult {
    /// The lines.
    pub matches: Vec<GrepMatch>,
    /// Whether there may be more: a limit was reached.
    pub truncated: bool,
    /// Files that were searched.
    pub files_searched: u64,
    /// Files that were not searched: binary, unreadable, or with lines that are too long.
    pub files_skipped: u64,
}

/// The matches of a search for names, by path.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FindResult {
    /// The entries.
    pub paths: Vec<FileEntry>,
    /// Whether there may be more: a limit was reached.
    pub truncated: bool,
}

/// Something that was removed and can be restored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrashedEntry {
    /// By which it is restored.
    pub id: String,
    /// Where it was.
    pub path: String,
    /// Its kind.
    #[serde(rename = "type")]
    pub entry_type: EntryType,
    /// Bytes of a file; 0 otherwise.
    pub size: u64,
    /// RFC 3339, UTC.
    pub removed_at: String,
}

/// A file after a write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WrittenFile {
    /// The file.
    #[serde(flatten)]
    pub entry: FileEntry,
    /// The number of bytes written.
    pub bytes_written: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CreateOutcome {
    Created,
    /// The file existed and has new content, or the directory existed.
    Replaced,
}

/// The size of a tree.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TreeUsage {
    /// Bytes in regular files.
    pub bytes: u64,
    /// Files, directories and links.
    pub files: u64,
}
