//! Finds lines in a text, strictly at first and then with increasing tolerance for white space.

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
        .find(|found| !found.is_empty())
        .unwrap_or_default()
}

fn find_with(lines: &[&str], wanted: &[&str], from: usize, tolerance: Tolerance) -> Vec<usize> {
    let mut found = Vec::new();
    let mut at = from;
    while at + wanted.len() <= lines.len() {
        let is_here = lines[at..]
            .iter()
            .zip(wanted)
            .all(|(line, wanted)| is_equal(line, wanted, tolerance));
        if is_here {
            found.push(at);
            at += wanted.len();
        } else {
            at += 1;
        }
    }
    found
}

/// The indentation of the first line that is not blank.
pub(super) fn indentation<'a>(lines: impl IntoIterator<Item = &'a str>) -> &'a str {
    let line = lines
        .into_iter()
        .find(|line| !line.trim().is_empty())
        .unwrap_or("");
    &line[..line.len() - line.trim_start().len()]
}
