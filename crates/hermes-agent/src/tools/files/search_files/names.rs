//! Files by name.

use std::path::Path;

use regex::Regex;

use super::{
    PagePosition, PagedResults, ResultPage,
    walk::{FileWalk, NamePattern},
};
use crate::tools::ToolError;

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
pub(super) fn search_names(
    walk: &FileWalk,
    pattern: &str,
    page: ResultPage,
) -> Result<String, ToolError> {
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
