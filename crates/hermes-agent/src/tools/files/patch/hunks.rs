//! Applies the hunks of an update to the text of a file; lines are found strictly at first, then with more tolerance for
//! white space.

use super::envelope::{Hunk, HunkLine};

/// Applies all hunks in order.
pub(in crate::tools) fn apply_hunks(content: &str, hunks: &[Hunk]) -> Result<String, String> {
    let line_end = if content.contains("\r\n") {
        "\r\n"
    } else {
        "\n"
    };
    let mut lines: Vec<String> = content.lines().map(str::to_owned).collect();
    let mut at = 0;
    for (index, hunk) in hunks.iter().enumerate() {
        at = apply_hunk(&mut lines, hunk, at)
            .map_err(|problem| format!("hunk {}: {problem}", index + 1))?;
    }
    let mut result = lines.join(line_end);
    let ended = content.is_empty() || content.ends_with('\n');
    if ended && !lines.is_empty() {
        result.push_str(line_end);
    }
    Ok(result)
}

/// Changes the lines and returns where the next hunk may begin.
fn apply_hunk(lines: &mut Vec<String>, hunk: &Hunk, from: usize) -> Result<usize, String> {
    let texts: Vec<&str> = lines.iter().map(String::as_str).collect();
    let anchor = match &hunk.anchor {
        Some(anchor) => Some(find_anchor(&texts, anchor, from)?),
        None => None,
    };
    let mut wanted: Vec<&str> = hunk.lines.iter().filter_map(old_text).collect();
    let start = if wanted.is_empty() {
        anchor.map_or(lines.len(), |anchor| anchor + 1)
    } else {
        let matches = locate_hunk(&texts, &wanted, hunk.is_at_end, anchor, from).or_else(|| {
            // An empty line at the end may be formatting of the patch.
            while wanted.last() == Some(&"") {
                wanted.pop();
            }
            locate_hunk(&texts, &wanted, hunk.is_at_end, anchor, from)
        });
        matches.ok_or_else(|| {
            let first = wanted.first().copied().unwrap_or_default();
            format!("the lines from `{first}` on were not found. Read the file again")
        })?
    };
    let end = start + wanted.len();
    let mut new = Vec::new();
    let mut old = lines[start..end].iter();
    for line in &hunk.lines {
        match line {
            // Keep the file's own line: its white space may differ.
            HunkLine::Context(_) => new.extend(old.next().cloned()),
            HunkLine::Remove(_) => {
                old.next();
            }
            HunkLine::Add(text) => new.push(text.clone()),
        }
    }
    let next = start + new.len();
    lines.splice(start..end, new);
    Ok(next)
}

fn old_text(line: &HunkLine) -> Option<&str> {
    match line {
        HunkLine::Context(text) | HunkLine::Remove(text) => Some(text),
        HunkLine::Add(_) => None,
    }
}

fn find_anchor(lines: &[&str], anchor: &str, from: usize) -> Result<usize, String> {
    let is_it = |line: &&str| line.trim() == anchor || line.contains(anchor);
    lines[from.min(lines.len())..]
        .iter()
        .position(is_it)
        .map(|at| at + from)
        .ok_or_else(|| format!("the line `{anchor}` was not found"))
}

fn locate_hunk(
    lines: &[&str],
    wanted: &[&str],
    is_at_end: bool,
    anchor: Option<usize>,
    from: usize,
) -> Option<usize> {
    if wanted.is_empty() {
        return None;
    }
    if is_at_end {
        let start = lines.len().checked_sub(wanted.len())?;
        return find_lines(lines, wanted, start).first().copied();
    }
    // The anchor's own line may be repeated as context.
    let begins = anchor.map_or(from, |anchor| anchor + 1);
    find_lines(lines, wanted, begins)
        .first()
        .or(find_lines(lines, wanted, anchor.unwrap_or(from)).first())
        .copied()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tolerance {
    None,
    Trailing,
    Indentation,
    Everywhere,
}

const TOLERANCES: [Tolerance; 4] = [
    Tolerance::None,
    Tolerance::Trailing,
    Tolerance::Indentation,
    Tolerance::Everywhere,
];

fn is_equal(one: &str, two: &str, tolerance: Tolerance) -> bool {
    match tolerance {
        Tolerance::None => one == two,
        Tolerance::Trailing => one.trim_end() == two.trim_end(),
        Tolerance::Indentation => one.trim() == two.trim(),
        Tolerance::Everywhere => one.split_whitespace().eq(two.split_whitespace()),
    }
}

/// All positions of `wanted` in `lines` at or after `from`, without overlaps, with the strictest tolerance that
/// finds any.
pub(super) fn find_lines(lines: &[&str], wanted: &[&str], from: usize) -> Vec<usize> {
    if wanted.is_empty() || wanted.iter().all(|line| line.trim().is_empty()) && lines.is_empty() {
        return Vec::new();
    }
    TOLERANCES
        .iter()
        .map(|&tolerance| find_with(lines, wanted, from, tolerance))
        .find(|matches| !matches.is_empty())
        .unwrap_or_default()
}

fn find_with(lines: &[&str], wanted: &[&str], from: usize, tolerance: Tolerance) -> Vec<usize> {
    let mut matches = Vec::new();
    let mut at = from;
    while at + wanted.len() <= lines.len() {
        let is_here = lines[at..]
            .iter()
            .zip(wanted)
            .all(|(line, wanted)| is_equal(line, wanted, tolerance));
        if is_here {
            matches.push(at);
            at += wanted.len();
        } else {
            at += 1;
        }
    }
    matches
}

/// The indentation of the first line that is not blank.
pub(super) fn indentation<'a>(lines: impl IntoIterator<Item = &'a str>) -> &'a str {
    let line = lines
        .into_iter()
        .find(|line| !line.trim().is_empty())
        .unwrap_or("");
    &line[..line.len() - line.trim_start().len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::files::patch::envelope::{PatchOperation, parse_patch};

    fn patched(content: &str, hunks: &str) -> Result<String, String> {
        let text = format!("*** Begin Patch\n*** Update File: f\n{hunks}\n*** End Patch");
        let PatchOperation::Update { hunks, .. } = parse_patch(&text).unwrap().remove(0) else {
            panic!("an update");
        };
        apply_hunks(content, &hunks)
    }

    #[test]
    fn hunks_follow_each_other() {
        let result = patched("a\nb\nc\na\nb\n", "@@\n a\n-b\n+x\n@@\n a\n-b\n+y");
        assert_eq!(result.unwrap(), "a\nx\nc\na\ny\n");
    }

    #[test]
    fn an_anchor_finds_the_right_place() {
        let content = "fn one() {\n  x\n}\nfn two() {\n  x\n}\n";
        assert_eq!(
            patched(content, "@@ fn two()\n-  x\n+  y").unwrap(),
            "fn one() {\n  x\n}\nfn two() {\n  y\n}\n"
        );
        assert!(
            patched(content, "@@ fn three()\n-  x\n+  y")
                .unwrap_err()
                .contains("fn three()")
        );
    }

    #[test]
    fn lines_are_added_at_the_end_or_after_an_anchor() {
        assert_eq!(patched("a\nb\n", "@@\n+c").unwrap(), "a\nb\nc\n");
        assert_eq!(patched("a\nb\n", "@@ a\n+c").unwrap(), "a\nc\nb\n");
        assert_eq!(
            patched("a\nb\na\n", "@@\n-a\n+c\n*** End of File").unwrap(),
            "a\nb\nc\n"
        );
        assert_eq!(patched("", "@@\n+c").unwrap(), "c\n");
    }

    #[test]
    fn the_file_keeps_its_white_space_and_line_ends() {
        assert_eq!(
            patched("\ta  \r\nb\r\n", "@@\n a\n-b\n+c").unwrap(),
            "\ta  \r\nc\r\n"
        );
        assert_eq!(patched("a\nb", "@@\n a\n-b\n+c").unwrap(), "a\nc");
    }

    #[test]
    fn what_is_not_there_is_an_error() {
        assert!(
            patched("a\nb\n", "@@\n-c\n+d")
                .unwrap_err()
                .contains("hunk 1")
        );
    }
}
