//! The files of a home's groups: `teams/<group>/…`.
//!
//! They are stored by a Hub, which checks every request. The file tools use [`Shares`] for paths
//! below `teams/`, and the disk otherwise. Terminal commands do not see them.

mod patching;
mod searching;

use std::{
    fmt,
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use futures::future::BoxFuture;
use serde_json::{Map, Value, json};

use crate::{
    model::ToolDefinition,
    tools::{
        ToolError,
        arguments::ToolArguments,
        into_output,
        tool::{Concurrency, Tool, ToolContext, ToolOutput},
    },
};

/// The virtual directory of all groups.
const TEAMS_DIRECTORY: &str = "teams";
const TEAMS_NOTE: &str = " `teams/<group>/…` are files that you share with others; search_files with path=teams lists the \
                    groups. Commands of the terminal do not see them.";

const DEFAULT_LINES: usize = 500;
const MAX_LINES: usize = 2000;
const MAX_LINE_CHARS: usize = 2000;
const MAX_CHARS: usize = 100_000;

/// Why an operation failed, for the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SharesError(pub String);

/// The result of a request to the Hub.
pub type SharesFuture<'a, T> = BoxFuture<'a, Result<T, SharesError>>;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupPath {
    pub group: String,
    /// Relative to its root, which is the empty path.
    pub path: String,
}

impl fmt::Display for GroupPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{TEAMS_DIRECTORY}/{}", self.group)?;
        if self.path.is_empty() {
            return Ok(());
        }
        write!(f, "/{}", self.path)
    }
}

/// A group of the home.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberGroup {
    pub id: String,
    /// `read` or `write`.
    pub access: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileLines {
    /// The lines, with their ends.
    pub content: String,
    pub total_lines: usize,
    /// The next line, counted from 0, if there are more.
    pub next: Option<usize>,
    pub version: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrepMatch {
    /// Relative to the group's root.
    pub path: String,
    /// From 1.
    pub line: u64,
    pub text: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchResults<T> {
    /// In the order of paths.
    pub items: Vec<T>,
    pub is_cut: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteOutcome {
    /// There was none.
    Created,
    Replaced,
}

pub trait Shares: Send + Sync {
    fn groups(&self) -> SharesFuture<'_, Vec<MemberGroup>>;

    /// Reads `limit` lines from `offset`, counted from 0; a limit of 0 is the maximum.
    fn read<'a>(
        &'a self,
        path: &'a GroupPath,
        offset: usize,
        limit: usize,
    ) -> SharesFuture<'a, FileLines>;

    /// Replaces a file, if it still has this version where one is given.
    fn write<'a>(
        &'a self,
        path: &'a GroupPath,
        content: String,
        version: Option<&'a str>,
    ) -> SharesFuture<'a, WriteOutcome>;

    /// Removes a file if it still has this version.
    fn remove<'a>(&'a self, path: &'a GroupPath, version: &'a str) -> SharesFuture<'a, ()>;

    /// Lines that match a regular expression, in a file or below a directory.
    fn grep<'a>(
        &'a self,
        path: &'a GroupPath,
        pattern: &'a str,
    ) -> SharesFuture<'a, SearchResults<GrepMatch>>;

    /// Paths below a directory whose name matches a pattern such as `*.md`, relative to the group's root.
    fn find<'a>(
        &'a self,
        path: &'a GroupPath,
        name: &'a str,
    ) -> SharesFuture<'a, SearchResults<String>>;

    fn exists<'a>(&'a self, path: &'a GroupPath) -> SharesFuture<'a, bool>;
}

impl From<SharesError> for ToolError {
    fn from(error: SharesError) -> Self {
        Self(error.0)
    }
}

/// The files of groups, and their virtual directory.
pub struct Teams {
    shares: Arc<dyn Shares>,
    root: PathBuf,
}

#[derive(Debug, PartialEq, Eq)]
enum PathRoute {
    Disk,
    Top,
    Share(GroupPath),
}

impl Teams {
    /// They appear in `teams` of this directory.
    pub fn new(shares: Arc<dyn Shares>, workspace: &Path) -> Self {
        Self {
            shares,
            root: workspace.join(TEAMS_DIRECTORY),
        }
    }

    /// Relative paths do not depend on the working directory, so that a job in another directory finds them, too.
    fn route_path(&self, path: &str) -> PathRoute {
        let path = Path::new(path);
        let workspace = self.root.parent().unwrap_or(Path::new("/"));
        let mut plain = PathBuf::new();
        for component in workspace.join(path).components() {
            match component {
                Component::ParentDir => {
                    plain.pop();
                }
                Component::CurDir => {}
                other => plain.push(other),
            }
        }
        let Ok(below) = plain.strip_prefix(&self.root) else {
            return PathRoute::Disk;
        };
        let mut parts = below
            .components()
            .map(|part| part.as_os_str().to_string_lossy());
        match parts.next() {
            None => PathRoute::Top,
            Some(group) => PathRoute::Share(GroupPath {
                group: group.into_owned(),
                path: parts.collect::<Vec<_>>().join("/"),
            }),
        }
    }

    fn is_share_path(&self, path: &str) -> bool {
        self.route_path(path) != PathRoute::Disk
    }

    /// The group file of a path.
    fn share_file(&self, path: &str) -> Result<GroupPath, ToolError> {
        match self.route_path(path) {
            PathRoute::Share(group_path) if !group_path.path.is_empty() => Ok(group_path),
            PathRoute::Disk => Err(ToolError::new(format!(
                "{path} is not a file of a group; change it in a separate call"
            ))),
            _ => Err(ToolError::new(format!(
                "{path} is a directory; list it with search_files and target=files"
            ))),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileToolKind {
    Read,
    Write,
    Patch,
    Search,
}

/// A file tool that also handles the files of groups.
pub(crate) struct TeamsFileTool {
    pub(crate) tool: Arc<dyn Tool>,
    pub(crate) kind: FileToolKind,
    pub(crate) teams: Arc<Teams>,
}

impl TeamsFileTool {
    /// Whether a call is about the files of groups.
    fn is_for_teams(&self, arguments: &Map<String, Value>) -> bool {
        let text = |name: &str| arguments.get(name).and_then(Value::as_str);
        let is_named = text("path").is_some_and(|path| self.teams.is_share_path(path));
        let is_in_patch = self.kind == FileToolKind::Patch
            && text("patch").is_some_and(|patch| patching::patch_names_share(&self.teams, patch));
        is_named || is_in_patch
    }

    async fn call_shares(&self, arguments: &ToolArguments) -> Result<ToolOutput, ToolError> {
        match self.kind {
            FileToolKind::Read => self.teams.read_file(arguments).await,
            FileToolKind::Write => self.teams.write_file(arguments).await,
            FileToolKind::Patch => patching::patch_shares(&self.teams, arguments).await,
            FileToolKind::Search => searching::search_shares(&self.teams, arguments).await,
        }
    }
}

impl Tool for TeamsFileTool {
    fn definition(&self) -> ToolDefinition {
        let mut definition = self.tool.definition();
        definition.description = format!("{}{TEAMS_NOTE}", definition.description).into();
        definition
    }

    fn toolset(&self) -> &'static str {
        self.tool.toolset()
    }

    fn concurrency(&self, arguments: &Map<String, Value>, context: &ToolContext) -> Concurrency {
        if !self.is_for_teams(arguments) {
            return self.tool.concurrency(arguments, context);
        }
        let path = arguments.get("path").and_then(Value::as_str);
        match path.map(|path| self.teams.route_path(path)) {
            Some(PathRoute::Share(group_path)) => Concurrency::ParallelExceptPath(
                self.teams.root.join(group_path.group).join(group_path.path),
            ),
            Some(PathRoute::Top) if self.kind == FileToolKind::Search => Concurrency::Parallel,
            _ => Concurrency::Exclusive,
        }
    }

    fn call<'a>(
        &'a self,
        arguments: Map<String, Value>,
        context: &'a ToolContext,
    ) -> BoxFuture<'a, ToolOutput> {
        if !self.is_for_teams(&arguments) {
            return self.tool.call(arguments, context);
        }
        Box::pin(async move {
            let arguments = ToolArguments::new(arguments);
            let reached = context
                .cancel
                .run_until_cancelled(self.call_shares(&arguments))
                .await;
            into_output(reached.unwrap_or_else(|| Err(ToolError::new("interrupted"))))
        })
    }
}

impl Teams {
    async fn read_file(&self, arguments: &ToolArguments) -> Result<ToolOutput, ToolError> {
        let path = arguments.required_text("path")?;
        let group_path = self.share_file(&path)?;
        let offset = arguments.size("offset", 1, 1..=usize::MAX)?;
        let limit = arguments.size("limit", DEFAULT_LINES, 1..=MAX_LINES)?;
        let text = self.shares.read(&group_path, offset - 1, limit).await?;
        Ok(ToolOutput {
            may_be_persisted: false,
            ..ToolOutput::from_untrusted("read_file", format_lines(&path, offset, &text))
        })
    }

    async fn write_file(&self, arguments: &ToolArguments) -> Result<ToolOutput, ToolError> {
        let path = arguments.required_text("path")?;
        let text = arguments
            .text("content")?
            .ok_or_else(|| ToolError::new("`content` is required"))?;
        let group_path = self.share_file(&path)?;
        let (bytes, lines) = (text.len(), text.lines().count());
        let placed = self.shares.write(&group_path, text, None).await?;
        Ok(ToolOutput::json(&json!({
            "path": group_path.to_string(),
            "bytes_written": bytes,
            "lines": lines,
            "created": placed == WriteOutcome::Created,
        })))
    }
}

/// Lines with their numbers, as `read_file` shows them.
fn format_lines(path: &str, offset: usize, text: &FileLines) -> String {
    let mut shown = String::new();
    let mut characters = 0;
    let mut next = text.next.map(|next| next + 1);
    let mut last = offset;
    for (line, number) in text.content.lines().zip(offset..) {
        let cut = match line.char_indices().nth(MAX_LINE_CHARS) {
            Some((end, _)) => format!("{}… [line cut]", &line[..end]),
            None => line.to_owned(),
        };
        let rendered = format!("{number:>6}|{cut}\n");
        characters += rendered.chars().count();
        if characters > MAX_CHARS {
            next = Some(number);
            break;
        }
        shown.push_str(&rendered);
        last = number;
    }
    let total = text.total_lines;
    match next {
        _ if total == 0 => format!("[{path} is empty]"),
        _ if shown.is_empty() => {
            format!("[{path} has no line {offset}; it ends at line {total}]")
        }
        Some(next) => {
            format!("{shown}\n[lines {offset}-{last} of {total}; go on with offset={next}]")
        }
        None => shown,
    }
}

#[cfg(test)]
mod tests;
