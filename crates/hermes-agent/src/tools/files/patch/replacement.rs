//! Replaces a text, tolerating differences in white space.

use crate::tools::files::patch::hunks::{find_lines, indentation};

#[derive(Debug, PartialEq, Eq)]
pub(in crate::tools) struct ReplacedText {
    pub(in crate::tools) content: String,
    pub(in crate::tools) count: usize,
    pub(in crate::tools) is_exact: bool,
}

/// Replaces `old`, which must occur exactly once unless `every` is set.
pub(in crate::tools) fn replace_text(
    content: &str,
    old: &str,
    new: &str,
    every: bool,
) -> Result<ReplacedText, String> {
    if old == new {
        return Err("old_string and new_string are the same".into());
    }
    let has_crlf = content.contains("\r\n") && !old.contains('\r');
    let (old, new) = if has_crlf {
        (to_crlf(old), to_crlf(new))
    } else {
        (old.to_owned(), new.to_owned())
    };
    let offsets: Vec<usize> = content.match_indices(&old).map(|(at, _)| at).collect();
    if offsets.is_empty() {
        return replace_lines(content, &old, &new, every);
    }
    if offsets.len() > 1 && !every {
        let numbers = offsets
            .iter()
            .map(|&at| content[..at].matches('\n').count() + 1);
        return Err(ambiguous_error(numbers));
    }
    let content = if every {
        content.replace(&old, &new)
    } else {
        content.replacen(&old, &new, 1)
    };
    Ok(ReplacedText {
        content,
        count: offsets.len(),
        is_exact: true,
    })
}

fn to_crlf(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\n', "\r\n")
}

fn ambiguous_error(lines: impl Iterator<Item = usize>) -> String {
    let lines: Vec<String> = lines.take(10).map(|line| line.to_string()).collect();
    format!(
        "old_string occurs {} times or more (lines {}); give more of the text around it, or set replace_all",
        lines.len(),
        lines.join(", ")
    )
}

/// Compares whole lines, with tolerance for white space.
fn replace_lines(content: &str, old: &str, new: &str, every: bool) -> Result<ReplacedText, String> {
    let sources: Vec<&str> = content.split_inclusive('\n').collect();
    let lines: Vec<&str> = sources
        .iter()
        .map(|line| line.trim_end_matches(['\n', '\r']))
        .collect();
    let wanted: Vec<&str> = old.lines().collect();
    let is_blank = old.trim().is_empty();
    let matches = if is_blank {
        Vec::new()
    } else {
        find_lines(&lines, &wanted, 0)
    };
    if matches.is_empty() {
        return Err(not_found_error(&lines, &wanted));
    }
    if matches.len() > 1 && !every {
        return Err(ambiguous_error(matches.iter().map(|at| at + 1)));
    }
    let mut result = String::with_capacity(content.len());
    let mut at = 0;
    for &start in &matches {
        let end = start + wanted.len();
        result.extend(sources[at..start].iter().copied());
        let text = reindent(
            new,
            indentation(wanted.iter().copied()),
            indentation(lines[start..end].iter().copied()),
        );
        result.push_str(text.trim_end_matches(['\n', '\r']));
        let last = sources[end - 1];
        if !text.trim_end_matches(['\n', '\r']).is_empty() {
            result.push_str(&last[last.trim_end_matches(['\n', '\r']).len()..]);
        }
        at = end;
    }
    result.extend(sources[at..].iter().copied());
    Ok(ReplacedText {
        content: result,
        count: matches.len(),
        is_exact: false,
    })
}

/// The text with the file's indentation instead of the model's.
fn reindent(text: &str, written: &str, actual: &str) -> String {
    if written == actual {
        return text.to_owned();
    }
    let lines = text
        .split_inclusive('\n')
        .map(|line| match line.strip_prefix(written) {
            Some(rest) if !line.trim().is_empty() => format!("{actual}{rest}"),
            _ => line.to_owned(),
        });
    lines.collect()
}

/// Names the position of the first line, if that occurs.
fn not_found_error(lines: &[&str], wanted: &[&str]) -> String {
    let first = wanted
        .iter()
        .map(|line| line.trim())
        .find(|line| !line.is_empty())
        .unwrap_or("");
    let near = lines
        .iter()
        .position(|line| !first.is_empty() && line.trim() == first);
    match near {
        Some(line) => format!(
            "old_string was not found; its first line is line {}, but what follows differs. Read the file again",
            line + 1
        ),
        None => "old_string was not found. Read the file again".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(result: Result<ReplacedText, String>) -> String {
        result.unwrap().content
    }

    #[test]
    fn one_place_is_replaced_exactly() {
        let replaced = replace_text("a b c", "b", "x", false).unwrap();
        assert_eq!(
            replaced,
            ReplacedText {
                content: "a x c".into(),
                count: 1,
                is_exact: true
            }
        );
    }

    #[test]
    fn several_places_need_replace_all() {
        let problem = replace_text("a\nb\na\n", "a", "x", false).unwrap_err();
        assert!(problem.contains("lines 1, 3"), "{problem}");
        assert_eq!(
            content(replace_text("a\nb\na\n", "a", "x", true)),
            "x\nb\nx\n"
        );
    }

    #[test]
    fn trailing_white_space_and_indentation_may_differ() {
        assert_eq!(
            content(replace_text("a  \nb\n", "a\nb", "x\ny", false)),
            "x\ny\n"
        );
        let source = "fn f() {\n        one();\n        two();\n}\n";
        let replaced = replace_text(
            source,
            "    one();\n    two();",
            "    one();\n    if x {\n        two();\n    }",
            false,
        );
        assert_eq!(
            content(replaced),
            "fn f() {\n        one();\n        if x {\n            two();\n        }\n}\n"
        );
        assert_eq!(
            content(replace_text(
                "if (a  ==  b)\n",
                "if (a == b)",
                "if (c)",
                false
            )),
            "if (c)\n"
        );
    }

    #[test]
    fn tolerance_does_not_make_a_text_ambiguous_that_is_there_once() {
        assert_eq!(
            content(replace_text("  a\na\n", "\na\n", "\nb\n", false)),
            "  a\nb\n"
        );
    }

    #[test]
    fn lines_can_be_deleted() {
        assert_eq!(
            content(replace_text("a\n  b\nc\n", "b", "", false)),
            "a\n  \nc\n"
        );
        assert_eq!(
            content(replace_text("a\n\tb\t\nc\n", "  b\n", "", false)),
            "a\nc\n"
        );
    }

    #[test]
    fn line_ends_of_the_file_are_kept() {
        assert_eq!(
            content(replace_text("a\r\nb\r\nc\r\n", "a\nb\n", "x\n", false)),
            "x\r\nc\r\n"
        );
    }

    #[test]
    fn what_is_not_there_is_not_invented() {
        assert!(
            replace_text("a\nb\n", "c", "d", false)
                .unwrap_err()
                .contains("not found")
        );
        assert!(
            replace_text("a\nb\nc\n", "a\nx", "d", false)
                .unwrap_err()
                .contains("line 1")
        );
        assert!(replace_text("a\n\nb\n", "\n\n\n", "", false).is_err());
        assert!(replace_text("a", "a", "a", false).is_err());
    }
}
