//! What a line is, by its first characters.

/// What the beginning of a line says about it. Lengths are in bytes and include the space after the mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opening {
    /// More characters are needed.
    Undecided,
    Paragraph,
    Heading {
        level: usize,
        length: usize,
    },
    Bullet {
        length: usize,
    },
    Number {
        length: usize,
    },
    Quote {
        length: usize,
    },
    /// A row of a table.
    Row,
    /// Perhaps a fence; its whole line says.
    Fence,
}

/// Judges the first characters of a line.
pub(super) fn opening(held: &str) -> Opening {
    let rest = held.trim_start();
    let indent = held.len() - rest.len();
    let Some(first) = rest.chars().next() else {
        return Opening::Undecided;
    };
    let run = rest.chars().take_while(|c| *c == first).count();
    let after = rest.chars().nth(run);
    match (first, after) {
        ('#', Some(' ')) if run <= 6 => Opening::Heading {
            level: run,
            length: indent + run + 1,
        },
        ('#', None) if run <= 6 => Opening::Undecided,
        ('>', None) if run == 1 => Opening::Undecided,
        ('|', _) => Opening::Row,
        ('>', _) => Opening::Quote {
            length: indent + if rest.starts_with("> ") { 2 } else { 1 },
        },
        ('`' | '~' | '-' | '*' | '+' | '_', None) => Opening::Undecided,
        ('`' | '~', Some(_)) if run >= 3 => Opening::Fence,
        ('-' | '*' | '+', Some(' ')) if run == 1 => Opening::Bullet { length: indent + 2 },
        ('0'..='9', _) => number(rest, indent),
        _ => Opening::Paragraph,
    }
}

fn number(rest: &str, indent: usize) -> Opening {
    let digits = rest.chars().take_while(char::is_ascii_digit).count();
    let mut after = rest.chars().skip(digits);
    match (after.next(), after.next()) {
        _ if digits > 9 => Opening::Paragraph,
        (None, _) | (Some('.' | ')'), None) => Opening::Undecided,
        (Some('.' | ')'), Some(' ')) => Opening::Number {
            length: indent + digits + 2,
        },
        _ => Opening::Paragraph,
    }
}

/// A line of three or more dashes, stars or underscores.
pub(super) fn is_rule(line: &str) -> bool {
    let line = line.trim();
    let mut characters = line.chars();
    match characters.next() {
        Some(first @ ('-' | '*' | '_')) => line.len() >= 3 && characters.all(|c| c == first),
        _ => false,
    }
}

/// The fence that a line opens, and the language it names.
pub(super) fn fence(line: &str) -> Option<(&str, &str)> {
    let line = line.trim();
    let first = line.chars().next().filter(|c| "`~".contains(*c))?;
    let length = line.chars().take_while(|c| *c == first).count();
    let (fence, info) = line.split_at(length);
    // Backticks after a fence of backticks: code inside of a line.
    if length < 3 || first == '`' && info.contains('`') {
        return None;
    }
    let language = info.trim().split([' ', ',', '{']).next();
    Some((fence, language.unwrap_or_default()))
}

/// Whether a line may still become the end of a block of code.
pub(super) fn may_close(held: &str, fence: &str) -> bool {
    let mark = fence.chars().next();
    let rest = held.trim();
    held.len() < fence.len() + 16 && rest.chars().all(|c| Some(c) == mark)
        // Code is often indented; only what could be the fence waits.
        && (rest.is_empty() || held.trim_start().len() == rest.len() || rest.len() >= fence.len())
}

/// Whether a line ends a block of code.
pub(super) fn closes(line: &str, fence: &str) -> bool {
    let line = line.trim();
    line.len() >= fence.len() && line.starts_with(fence) && may_close(line, fence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_decided_as_soon_as_it_can_be() {
        for (held, expected) in [
            ("", Opening::Undecided),
            ("  ", Opening::Undecided),
            ("a", Opening::Paragraph),
            ("#", Opening::Undecided),
            ("##", Opening::Undecided),
            (
                "## ",
                Opening::Heading {
                    level: 2,
                    length: 3,
                },
            ),
            ("#a", Opening::Paragraph),
            ("-", Opening::Undecided),
            ("- ", Opening::Bullet { length: 2 }),
            ("  * ", Opening::Bullet { length: 4 }),
            ("--", Opening::Undecided),
            ("-a", Opening::Paragraph),
            ("**", Opening::Undecided),
            ("**a", Opening::Paragraph),
            ("1", Opening::Undecided),
            ("12.", Opening::Undecided),
            ("12. ", Opening::Number { length: 4 }),
            ("1.5", Opening::Paragraph),
            ("2026", Opening::Undecided),
            ("2026 ", Opening::Paragraph),
            (">", Opening::Undecided),
            ("> ", Opening::Quote { length: 2 }),
            (">a", Opening::Quote { length: 1 }),
            ("``", Opening::Undecided),
            ("``a", Opening::Paragraph),
            ("```r", Opening::Fence),
            ("|", Opening::Row),
        ] {
            assert_eq!(opening(held), expected, "{held:?}");
        }
    }

    #[test]
    fn fences_and_rules_are_known_by_their_line() {
        assert_eq!(fence("```rust"), Some(("```", "rust")));
        assert_eq!(fence("  ~~~~ sh title"), Some(("~~~~", "sh")));
        assert_eq!(fence("```a```"), None);
        assert!(is_rule("---") && is_rule("*****") && is_rule(" ___ "));
        assert!(!is_rule("--") && !is_rule("-*-") && !is_rule("```"));
    }

    #[test]
    fn a_fence_is_closed_by_one_at_least_as_long() {
        assert!(closes("```", "```") && closes("  ````", "```"));
        assert!(!closes("``", "```") && !closes("```rust", "```") && !closes("~~~", "```"));
        assert!(may_close("  `", "```") && !may_close("  a", "```"));
    }
}
