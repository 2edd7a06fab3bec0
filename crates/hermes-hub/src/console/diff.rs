//! What differs between two texts, line by line. Templates show it with the macro `diff` of `parts.html`.

use std::time::Duration;

use serde_json::Value;
use similar::{ChangeTag, TextDiff};

/// Lines around a change that are shown.
const CONTEXT: usize = 3;
/// After this, what is not compared yet is taken as changed.
const MAX_TIME: Duration = Duration::from_millis(200);

/// A line of a difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DiffLine {
    pub(super) change: LineChange,
    pub(super) text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineChange {
    Same,
    Removed,
    Added,
    /// Lines that are the same in both are left out here.
    Gap,
}

impl DiffLine {
    pub(super) fn is_removed(&self) -> bool {
        self.change == LineChange::Removed
    }

    pub(super) fn is_added(&self) -> bool {
        self.change == LineChange::Added
    }

    pub(super) fn is_gap(&self) -> bool {
        self.change == LineChange::Gap
    }
}

/// What turns one text into the other; nothing if they are the same.
pub(super) fn diff_lines(before: &str, after: &str) -> Vec<DiffLine> {
    let difference = TextDiff::configure()
        .timeout(MAX_TIME)
        .diff_lines(before, after);
    let mut lines = Vec::new();
    for group in difference.grouped_ops(CONTEXT) {
        if !lines.is_empty() {
            lines.push(DiffLine {
                change: LineChange::Gap,
                text: String::new(),
            });
        }
        for operation in &group {
            for change in difference.iter_changes(operation) {
                let tag = match change.tag() {
                    ChangeTag::Equal => LineChange::Same,
                    ChangeTag::Delete => LineChange::Removed,
                    ChangeTag::Insert => LineChange::Added,
                };
                lines.push(DiffLine {
                    change: tag,
                    text: change.value().trim_end_matches(['\r', '\n']).to_owned(),
                });
            }
        }
    }
    lines
}

/// A text as it is, anything else as indented JSON.
pub(super) fn plain_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => serde_json::to_string_pretty(other).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(before: &str, after: &str) -> Vec<(LineChange, String)> {
        let lines = diff_lines(before, after).into_iter();
        lines.map(|line| (line.change, line.text)).collect()
    }

    #[test]
    fn lines_that_differ_are_shown_with_those_around_them() {
        use LineChange::{Added, Removed, Same};
        let found = shown("one\ntwo\nthree\n", "one\n2\nthree\n");
        let wanted = [
            (Same, "one"),
            (Removed, "two"),
            (Added, "2"),
            (Same, "three"),
        ];
        assert_eq!(
            found,
            wanted.map(|(change, text)| (change, text.to_owned()))
        );
        assert!(diff_lines("same\n", "same\n").is_empty());
    }

    #[test]
    fn what_is_far_from_a_change_is_left_out() {
        let before = (0..100)
            .map(|n| n.to_string())
            .collect::<Vec<_>>()
            .join("\n")
            + "\n";
        let after = before
            .replace("\n5\n", "\nfive\n")
            .replace("\n90\n", "\nninety\n");
        let lines = diff_lines(&before, &after);
        assert!(lines.len() < 20, "{lines:?}");
        assert_eq!(lines.iter().filter(|line| line.is_gap()).count(), 1);
    }
}
