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

use super::{Problem, arguments::Arguments, finish};
use crate::{
    model::ToolDefinition,
    tool::{Company, Tool, ToolContext, ToolOutput},
};

/// The virtual directory of all groups.
const TOP: &str = "teams";
const NOTE: &str = " `teams/<group>/…` are files that you share with others; search_files with path=teams lists the \
                    groups. Commands of the terminal do not see them.";

const DEFAULT_LINES: usize = 500;
const MOST_LINES: usize = 2000;
const LONGEST_LINE: usize = 2000;
const MOST_CHARACTERS: usize = 100_000;

/// Why an operation failed, for the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SharesError(pub String);

/// The result of a request to the Hub.
pub type Asked<'a, T> = BoxFuture<'a, Result<T, SharesError>>;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Spot {
    pub group: String,
    /// Relative to its root, which is the empty path.
    pub path: String,
}

impl fmt::Display for Spot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{TOP}/{}", self.group)?;
        if self.path.is_empty() {
            return Ok(());
        }
        write!(f, "/{}", self.path)
    }
}

/// A group of the home.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    pub id: String,
    /// `read` or `write`.
    pub access: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    /// The lines, with their ends.
    pub content: String,
    pub total_lines: usize,
    /// The next line, counted from 0, if there are more.
    pub next: Option<usize>,
    pub version: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    /// Relative to the group's root.
    pub path: String,
    /// From 1.
    pub line: u64,
    pub text: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found<T> {
    /// In the order of paths.
    pub items: Vec<T>,
    pub is_cut: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placed {
    /// There was none.
    Created,
    Replaced,
}

pub trait Shares: Send + Sync {
    fn groups(&self) -> Asked<'_, Vec<Group>>;

    /// Reads `limit` lines from `offset`, counted from 0; a limit of 0 is the maximum.
    fn read<'a>(&'a self, spot: &'a Spot, offset: usize, limit: usize) -> Asked<'a, Text>;

    /// Replaces a file, if it still has this version where one is given.
    fn write<'a>(
        &'a self,
        spot: &'a Spot,
        content: String,
        version: Option<&'a str>,
    ) -> Asked<'a, Placed>;

    /// Removes a file if it still has this version.
    fn remove<'a>(&'a self, spot: &'a Spot, version: &'a str) -> Asked<'a, ()>;

    /// Lines that match a regular expression, in a file or below a directory.
    fn grep<'a>(&'a self, spot: &'a Spot, pattern: &'a str) -> Asked<'a, Found<Hit>>;

    /// Paths below a directory whose name matches a pattern such as `*.md`, relative to the group's root.
    fn find<'a>(&'a self, spot: &'a Spot, name: &'a str) -> Asked<'a, Found<String>>;

    fn exists<'a>(&'a self, spot: &'a Spot) -> Asked<'a, bool>;
}

impl From<SharesError> for Problem {
    fn from(error: SharesError) -> Self {
        Self(error.0)
    }
}

/// The files of groups, and their virtual directory.
pub struct Teams {
    shares: Arc<dyn Shares>,
    top: PathBuf,
}

#[derive(Debug, PartialEq, Eq)]
enum Way {
    Disk,
    Top,
    To(Spot),
}

impl Teams {
    /// They appear in `teams` of this directory.
    pub fn new(shares: Arc<dyn Shares>, workspace: &Path) -> Self {
        Self {
            shares,
            top: workspace.join(TOP),
        }
    }

    /// Relative paths do not depend on the working directory, so that a job in another directory finds them, too.
    fn way(&self, path: &str) -> Way {
        let path = Path::new(path);
        let workspace = self.top.parent().unwrap_or(Path::new("/"));
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
        let Ok(below) = plain.strip_prefix(&self.top) else {
            return Way::Disk;
        };
        let mut parts = below
            .components()
            .map(|part| part.as_os_str().to_string_lossy());
        match parts.next() {
            None => Way::Top,
            Some(group) => Way::To(Spot {
                group: group.into_owned(),
                path: parts.collect::<Vec<_>>().join("/"),
            }),
        }
    }

    fn leads_here(&self, path: &str) -> bool {
        self.way(path) != Way::Disk
    }

    /// The group file of a path.
    fn file(&self, path: &str) -> Result<Spot, Problem> {
        match self.way(path) {
            Way::To(spot) if !spot.path.is_empty() => Ok(spot),
            Way::Disk => Err(Problem::new(format!(
                "{path} is not a file of a group; change it in a separate call"
            ))),
            _ => Err(Problem::new(format!(
                "{path} is a directory; list it with search_files and target=files"
            ))),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    Write,
    Patch,
    Search,
}

/// A file tool that also handles the files of groups.
pub(super) struct WithTeams {
    pub(super) tool: Arc<dyn Tool>,
    pub(super) kind: Kind,
    pub(super) teams: Arc<Teams>,
}

impl WithTeams {
    /// Whether a call is about the files of groups.
    fn is_for_teams(&self, arguments: &Map<String, Value>) -> bool {
        let text = |name: &str| arguments.get(name).and_then(Value::as_str);
        let is_named = text("path").is_some_and(|path| self.teams.leads_here(path));
        let is_in_patch = self.kind == Kind::Patch
            && text("patch").is_some_and(|patch| patching::touches(&self.teams, patch));
        is_named || is_in_patch
    }

    async fn reach(&self, arguments: &Arguments) -> Result<ToolOutput, Problem> {
        match self.kind {
            Kind::Read => self.teams.read(arguments).await,
            Kind::Write => self.teams.write(arguments).await,
            Kind::Patch => patching::patch(&self.teams, arguments).await,
            Kind::Search => searching::search(&self.teams, arguments).await,
        }
    }
}

impl Tool for WithTeams {
    fn definition(&self) -> ToolDefinition {
        let mut definition = self.tool.definition();
        definition.description.push_str(NOTE);
        definition
    }

    fn toolset(&self) -> &'static str {
        self.tool.toolset()
    }

    fn company(&self, arguments: &Map<String, Value>, context: &ToolContext) -> Company {
        if !self.is_for_teams(arguments) {
            return self.tool.company(arguments, context);
        }
        let path = arguments.get("path").and_then(Value::as_str);
        match path.map(|path| self.teams.way(path)) {
            Some(Way::To(spot)) => {
                Company::AnyButPath(self.teams.top.join(spot.group).join(spot.path))
            }
            Some(Way::Top) if self.kind == Kind::Search => Company::Any,
            _ => Company::Alone,
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
            let arguments = Arguments::new(arguments);
            let reached = context
                .cancel
                .run_until_cancelled(self.reach(&arguments))
                .await;
            finish(reached.unwrap_or_else(|| Err(Problem::new("interrupted"))))
        })
    }
}

impl Teams {
    async fn read(&self, arguments: &Arguments) -> Result<ToolOutput, Problem> {
        let path = arguments.required_text("path")?;
        let spot = self.file(&path)?;
        let offset = arguments.size("offset", 1, 1..=usize::MAX)?;
        let limit = arguments.size("limit", DEFAULT_LINES, 1..=MOST_LINES)?;
        let text = self.shares.read(&spot, offset - 1, limit).await?;
        Ok(ToolOutput {
            may_be_persisted: false,
            ..ToolOutput::from_outside("read_file", numbered(&path, offset, &text))
        })
    }

    async fn write(&self, arguments: &Arguments) -> Result<ToolOutput, Problem> {
        let path = arguments.required_text("path")?;
        let text = arguments
            .text("content")?
            .ok_or_else(|| Problem::new("`content` is required"))?;
        let spot = self.file(&path)?;
        let (bytes, lines) = (text.len(), text.lines().count());
        let placed = self.shares.write(&spot, text, None).await?;
        Ok(ToolOutput::json(&json!({
            "path": spot.to_string(),
            "bytes_written": bytes,
            "lines": lines,
            "created": placed == Placed::Created,
        })))
    }
}

/// Lines with their numbers, as `read_file` shows them.
fn numbered(path: &str, offset: usize, text: &Text) -> String {
    let mut shown = String::new();
    let mut characters = 0;
    let mut next = text.next.map(|next| next + 1);
    let mut last = offset;
    for (line, number) in text.content.lines().zip(offset..) {
        let cut = match line.char_indices().nth(LONGEST_LINE) {
            Some((end, _)) => format!("{}… [line cut]", &line[..end]),
            None => line.to_owned(),
        };
        let rendered = format!("{number:>6}|{cut}\n");
        characters += rendered.chars().count();
        if characters > MOST_CHARACTERS {
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
