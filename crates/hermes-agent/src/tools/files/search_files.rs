//! `search_files`: lines that match a regular expression, or files by name.

mod content;
mod walk;

use std::path::Path;

use futures::future::BoxFuture;
use regex::Regex;
use serde_json::{Map, Value, json};

use crate::{
    model::ToolDefinition,
    tools::{
        ToolError,
        arguments::ToolArguments,
        files::{
            path_access,
            path_access::AccessPurpose,
            read_file,
            search_files::walk::{FileWalk, NamePattern},
        },
        into_output, run_blocking,
        tool::{Concurrency, Tool, ToolContext, ToolOutput},
        tool_definition,
    },
};

const DEFAULT_LIMIT: usize = 50;
const MAX_RESULTS: usize = 2000;
const MAX_CONTEXT_LINES: usize = 20;

#[derive(Debug, Clone, Copy, Default)]
pub struct SearchFilesTool;

impl Tool for SearchFilesTool {
    fn definition(&self) -> ToolDefinition {
        tool_definition(
            "search_files",
            "Searches the content of files for a regular expression (target=content), or finds files by name \
             (target=files). Use it instead of grep, find or ls. Files that .gitignore names and binary files are left \
             out.",
            json!({
                "pattern": {"type": "string", "description": "content: a regular expression (Rust syntax). files: a glob such as *.rs or src/**/*.ts, a part of a name, or a regular expression"},
                "target": {"type": "string", "enum": ["content", "files"], "default": "content"},
                "path": {"type": "string", "description": "The directory or file to search", "default": "."},
                "file_glob": {"type": "string", "description": "content: only files like this, for example *.py"},
                "limit": {"type": "integer", "description": "Most results", "default": DEFAULT_LIMIT, "minimum": 1, "maximum": MAX_RESULTS},
                "offset": {"type": "integer", "description": "Results to pass over", "default": 0, "minimum": 0},
                "output_mode": {"type": "string", "enum": ["content", "files_only", "count"], "default": "content", "description": "content: matching lines. files_only: names of files with a match. count: matches in each file"},
                "context": {"type": "integer", "description": "Lines to show before and after each match", "default": 0, "minimum": 0, "maximum": MAX_CONTEXT_LINES},
            }),
            &["pattern"],
        )
    }

    fn toolset(&self) -> &'static str {
        "file"
    }

    fn concurrency(&self, _arguments: &Map<String, Value>, _context: &ToolContext) -> Concurrency {
        Concurrency::Parallel
    }

    fn call<'a>(
        &'a self,
        arguments: Map<String, Value>,
        context: &'a ToolContext,
    ) -> BoxFuture<'a, ToolOutput> {
        Box::pin(
            async move { into_output(run_search(&ToolArguments::new(arguments), context).await) },
        )
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SearchMode {
    Lines,
    Files,
    Counts,
}

#[derive(Debug, Clone, Copy)]
struct ResultPage {
    offset: usize,
    limit: usize,
}

async fn run_search(
    arguments: &ToolArguments,
    context: &ToolContext,
) -> Result<ToolOutput, ToolError> {
    let pattern = arguments.required_text("pattern")?;
    let target = arguments.choice("target", &["content", "files"])?;
    let path = arguments
        .text("path")?
        .filter(|path| !path.is_empty())
        .unwrap_or_else(|| ".".into());
    let file_glob = arguments.text("file_glob")?.filter(|glob| !glob.is_empty());
    let lines_around = arguments.size("context", 0, 0..=MAX_CONTEXT_LINES)?;
    let mode = match arguments.choice("output_mode", &["content", "files_only", "count"])? {
        "files_only" => SearchMode::Files,
        "count" => SearchMode::Counts,
        _ => SearchMode::Lines,
    };
    let page = ResultPage {
        offset: arguments.size("offset", 0, 0..=usize::MAX)?,
        limit: arguments.size("limit", DEFAULT_LIMIT, 1..=MAX_RESULTS)?,
    };
    let map = path_access::PathRules::from_context(context);
    let root =
        path_access::authorize_path("search_files", &path, AccessPurpose::Read, &map, context)
            .await?;
    let cancel = context.cancel.clone();
    let home = context.home.clone();
    run_blocking(move || {
        if !root.exists() {
            return Err(ToolError::new(format!("{path} does not exist")));
        }
        let outside = read_file::read_source(&home, &root).map(Into::into);
        let walk = walk::FileWalk::new(map, root, &path, file_glob.as_deref(), cancel)?;
        let text = match target {
            "files" => search_names(&walk, &pattern, page)?,
            _ => content::search_content(&walk, &pattern, mode, lines_around, page)?,
        };
        Ok(ToolOutput {
            untrusted_source: outside,
            ..ToolOutput::text(text)
        })
    })
    .await
}

/// Results of the requested page.
struct PagedResults {
    page: ResultPage,
    seen: usize,
    lines: Vec<String>,
}

impl PagedResults {
    fn new(page: ResultPage) -> Self {
        Self {
            page,
            seen: 0,
            lines: Vec::new(),
        }
    }

    /// Counts a result and returns its position relative to the page.
    fn count(&mut self) -> PagePosition {
        let number = self.seen;
        self.seen += 1;
        if number < self.page.offset {
            PagePosition::Before
        } else if number < self.page.offset.saturating_add(self.page.limit) {
            PagePosition::On
        } else {
            PagePosition::Beyond
        }
    }

    /// Whether the next result will be on the page.
    fn is_next_on_page(&self) -> bool {
        (self.page.offset..self.page.offset.saturating_add(self.page.limit)).contains(&self.seen)
    }

    /// The text of the page with a note about further results.
    fn render(self, what: &str, walk: &walk::FileWalk) -> String {
        let mut lines = self.lines;
        let mut notes = Vec::new();
        if self.seen == 0 {
            notes.push(format!("no {what} found"));
        }
        let end = self.page.offset.saturating_add(self.page.limit);
        if self.seen > end {
            notes.push(format!(
                "{} {what} shown, there are more; go on with offset={end}",
                self.page.limit
            ));
        } else if self.seen > 0 && self.page.offset >= self.seen {
            notes.push(format!("there are only {} {what}", self.seen));
        }
        notes.extend(walk.notes());
        lines.extend(notes.into_iter().map(|note| format!("[{note}]")));
        lines.join("\n")
    }
}

#[derive(PartialEq, Eq)]
enum PagePosition {
    Before,
    On,
    Beyond,
}

enum NameQuery {
    Glob(NamePattern),
    Part(String),
    Expression(Regex),
}

impl NameQuery {
    /// Detects the kind of pattern from its text.
    fn new(text: &str) -> Result<Self, ToolError> {
        let is_expression = text.contains(['^', '$', '\\', '|', '(', '+']) || text.contains(".*");
        if is_expression {
            let expression = Regex::new(text).map_err(|error| {
                ToolError::new(format!(
                    "`{text}` is not a valid regular expression: {error}"
                ))
            })?;
            return Ok(Self::Expression(expression));
        }
        if text.contains(['*', '?', '[', '{']) {
            return NamePattern::new(text).map(Self::Glob);
        }
        Ok(Self::Part(text.to_lowercase()))
    }

    fn matches(&self, path: &Path) -> bool {
        match self {
            Self::Glob(glob) => glob.matches(path),
            Self::Part(part) => path.to_string_lossy().to_lowercase().contains(part),
            Self::Expression(expression) => expression.is_match(&path.to_string_lossy()),
        }
    }
}

/// The files whose path below the root matches.
fn search_names(walk: &FileWalk, pattern: &str, page: ResultPage) -> Result<String, ToolError> {
    // `.` usually means the whole directory.
    let pattern = if pattern == "." { "*" } else { pattern };
    let pattern = NameQuery::new(pattern)?;
    let mut results = PagedResults::new(page);
    for (_, shown) in walk.files() {
        let name = walk.below_root(&shown);
        if !pattern.matches(name) {
            continue;
        }
        match results.count() {
            PagePosition::Before => {}
            PagePosition::On => results.lines.push(shown.display().to_string()),
            PagePosition::Beyond => break,
        }
    }
    Ok(results.render("files", walk))
}
