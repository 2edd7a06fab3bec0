//! What a line is, by its first characters.

/// What the beginning of a line says about it. Lengths are in bytes and include the space after the mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineOpening {
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
pub(super) fn classify_opening(held: &str) -> LineOpening {
    let rest = held.trim_start();
    let indent = held.len() - rest.len();
    let Some(first) = rest.chars().next() else {
        return LineOpening::Undecided;
    };
    let run = rest.chars().take_while(|c| *c == first).count();
    let after = rest.chars().nth(run);
    match (first, after) {
        ('#', Some(' ')) if run <= 6 => LineOpening::Heading {
            level: run,
            length: indent + run + 1,
        },
        ('#', None) if run <= 6 => LineOpening::Undecided,
        ('>', None) if run == 1 => LineOpening::Undecided,
        ('|', _) => LineOpening::Row,
        ('>', _) => LineOpening::Quote {
            length: indent + if rest.starts_with("> ") { 2 } else { 1 },
        },
        ('`' | '~' | '-' | '*' | '+' | '_', None) => LineOpening::Undecided,
        ('`' | '~', Some(_)) if run >= 3 => LineOpening::Fence,
        ('-' | '*' | '+', Some(' ')) if run == 1 => LineOpening::Bullet { length: indent + 2 },
        ('0'..='9', _) => classify_number(rest, indent),
        _ => LineOpening::Paragraph,
    }
}

fn classify_number(rest: &str, indent: usize) -> LineOpening {
    let digits = rest.chars().take_while(char::is_ascii_digit).count();
    let mut after = rest.chars().skip(digits);
    match (after.next(), after.next()) {
        _ if digits > 9 => LineOpening::Paragraph,
        (None, _) | (Some('.' | ')'), None) => LineOpening::Undecided,
        (Some('.' | ')'), Some(' ')) => LineOpening::Number {
            length: indent + digits + 2,
        },
        _ => LineOpening::Paragraph,
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
pub(super) fn parse_fence(line: &str) -> Option<(&str, &str)> {
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
pub(super) fn may_close_fence(held: &str, fence: &str) -> bool {
    let mark = fence.chars().next();
    let rest = held.trim();
    held.len() < fence.len() + 16 && rest.chars().all(|c| Some(c) == mark)
        // Code is often indented; only what could be the fence waits.
        && (rest.is_empty() || held.trim_start().len() == rest.len() || rest.len() >= fence.len())
}

/// Whether a line ends a block of code.
pub(super) fn closes_fence(line: &str, fence: &str) -> bool {
    let line = line.trim();
    line.len() >= fence.len() && line.starts_with(fence) && may_close_fence(line, fence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_decided_as_soon_as_it_can_be() {
        for (held, expected) in [
            ("", LineOpening::Undecided),
            ("  ", LineOpening::Undecided),
            ("a", LineOpening::Paragraph),
            ("#", LineOpening::Undecided),
            ("##", LineOpening::Undecided),
            (
                "## ",
                LineOpening::Heading {
                    level: 2,
                    length: 3,
                },
            ),
            ("#a", LineOpening::Paragraph),
            ("-", LineOpening::Undecided),
            ("- ", LineOpening::Bullet { length: 2 }),
            ("  * ", LineOpening::Bullet { length: 4 }),
            ("--", LineOpening::Undecided),
            ("-a", LineOpening::Paragraph),
            ("**", LineOpening::Undecided),
            ("**a", LineOpening::Paragraph),
            ("1", LineOpening::Undecided),
            ("12.", LineOpening::Undecided),
            ("12. ", LineOpening::Number { length: 4 }),
            ("1.5", LineOpening::Paragraph),
            ("2026", LineOpening::Undecided),
            ("2026 ", LineOpening::Paragraph),
            (">", LineOpening::Undecided),
            ("> ", LineOpening::Quote { length: 2 }),
            (">a", LineOpening::Quote { length: 1 }),
            ("``", LineOpening::Undecided),
            ("``a", LineOpening::Paragraph),
            ("```r", LineOpening::Fence),
            ("|", LineOpening::Row),
        ] {
            assert_eq!(classify_opening(held), expected, "{held:?}");
        }
    }

    #[test]
    fn fences_and_rules_are_known_by_their_line() {
        assert_eq!(parse_fence("```rust"), Some(("```", "rust")));
        assert_eq!(parse_fence("  ~~~~ sh title"), Some(("~~~~", "sh")));
        assert_eq!(parse_fence("```a```"), None);
        assert!(is_rule("---") && is_rule("*****") && is_rule(" ___ "));
        assert!(!is_rule("--") && !is_rule("-*-") && !is_rule("```"));
    }

    #[test]
    fn a_fence_is_closed_by_one_at_least_as_long() {
        assert!(closes_fence("```", "```") && closes_fence("  ````", "```"));
        assert!(
            !closes_fence("``", "```")
                && !closes_fence("```rust", "```")
                && !closes_fence("~~~", "```")
        );
        assert!(may_close_fence("  `", "```") && !may_close_fence("  a", "```"));
    }
}
