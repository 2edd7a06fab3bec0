//! Files by name.

use std::path::Path;

use regex::Regex;

use super::{
    Page, Position, Results,
    walk::{NamePattern, Walk},
};
use crate::tools::Problem;

enum Pattern {
    Glob(NamePattern),
    Part(String),
    Expression(Regex),
}

impl Pattern {
    /// Detects the kind of pattern from its text.
    fn new(text: &str) -> Result<Self, Problem> {
        let is_expression = text.contains(['^', '$', '\\', '|', '(', '+']) || text.contains(".*");
        if is_expression {
            let expression = Regex::new(text).map_err(|error| {
                Problem::new(format!("`{text}` is not a valid regular expression: {error}"))
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
pub(super) fn find(walk: &Walk, pattern: &str, page: Page) -> Result<String, Problem> {
    // `.` usually means the whole directory.
    let pattern = if pattern == "." { "*" } else { pattern };
    let pattern = Pattern::new(pattern)?;
    let mut results = Results::new(page);
    for (_, shown) in walk.files() {
        let name = walk.below_root(&shown);
        if !pattern.matches(name) {
            continue;
        }
        match results.count() {
            Position::Before => {}
            Position::On => results.lines.push(shown.display().to_string()),
            Position::Beyond => break,
        }
    }
    Ok(results.render("files", walk))
}
