//! Which comment lines belong to which entry.

/// The text without the comment lines directly above the key at `offset`.
///
/// A comment indented deeper than the key belongs to what comes before, and an empty line ends the search.
pub(super) fn without_above(text: &str, offset: usize) -> String {
    let line_start = text[..offset].rfind('\n').map_or(0, |newline| newline + 1);
    let column = offset - line_start;
    if !text[line_start..offset].trim().is_empty() {
        // Inside `{…}` on one line: nothing above belongs to this key alone.
        return text.to_owned();
    }
    let mut start = line_start;
    for line in text[..line_start].split_inclusive('\n').rev() {
        match comment_column(line) {
            Some(comment) if comment <= column => start -= line.len(),
            _ => break,
        }
    }
    format!("{}{}", &text[..start], &text[line_start..])
}

/// Moves lines that were just added below the comment lines that follow them and belong to the entry above.
///
/// Those are indented deeper than the new key; an empty line ends them.
pub(super) fn below_trailing(before: &str, after: String) -> String {
    let old: Vec<&str> = before.split_inclusive('\n').collect();
    let new: Vec<&str> = after.split_inclusive('\n').collect();
    let Some(count) = new.len().checked_sub(old.len()).filter(|count| *count > 0) else {
        return after;
    };
    let start = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let (added, rest) = new[start..].split_at(count);
    if rest != &old[start..] {
        // More than an insertion of lines, as in `{…}` or after a missing line break.
        return after;
    }
    let column = added[0].len() - added[0].trim_start().len();
    let passed = rest
        .iter()
        .take_while(|line| comment_column(line).is_some_and(|comment| comment > column))
        .count();
    let ends_open = rest[..passed]
        .last()
        .is_some_and(|line| !line.ends_with('\n'));
    if passed == 0 || ends_open {
        return after;
    }
    [&new[..start], &rest[..passed], added, &rest[passed..]]
        .concat()
        .concat()
}

/// How far a comment line is indented; `None` for any other line.
fn comment_column(line: &str) -> Option<usize> {
    let comment = line.trim_start();
    comment
        .starts_with('#')
        .then_some(line.len() - comment.len())
}
