//! Patterns with `*` and `?`, as in allow and deny lists of commands. `\` escapes them.

#[derive(Clone, Copy, PartialEq, Eq)]
enum GlobToken {
    Any,
    One,
    Exactly(char),
}

fn parse_pattern(pattern: &str) -> Vec<GlobToken> {
    let mut signs = Vec::new();
    let mut characters = pattern.chars().flat_map(char::to_lowercase).peekable();
    while let Some(character) = characters.next() {
        signs.push(match (character, characters.peek()) {
            ('\\', Some('*' | '?' | '\\')) => {
                GlobToken::Exactly(characters.next().unwrap_or(character))
            }
            ('*', _) => GlobToken::Any,
            ('?', _) => GlobToken::One,
            _ => GlobToken::Exactly(character),
        });
    }
    signs
}

/// The pattern that matches exactly this text.
pub(crate) fn escape_pattern(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len());
    for character in text.chars() {
        if matches!(character, '*' | '?' | '\\') {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern
}

/// Whether a pattern matches a whole text, without regard to case.
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    let pattern = parse_pattern(pattern);
    let text: Vec<char> = text.chars().flat_map(char::to_lowercase).collect();
    let (mut p, mut t) = (0, 0);
    // Where to continue if a `*` has to match one more character.
    let mut retry: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(GlobToken::Any) => {
                retry = Some((p + 1, t));
                p += 1;
            }
            Some(&sign) if sign == GlobToken::One || sign == GlobToken::Exactly(text[t]) => {
                p += 1;
                t += 1;
            }
            _ => match retry {
                Some((after_star, taken)) => {
                    p = after_star;
                    t = taken + 1;
                    retry = Some((after_star, t));
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&sign| sign == GlobToken::Any)
}

#[cfg(test)]
mod tests {
    use super::{escape_pattern, matches};

    #[test]
    fn the_pattern_of_a_text_matches_that_text_and_no_other() {
        for text in ["rm -r build", "rm -r build/*", "ls a?b", "echo 'a\\nb' \\*"] {
            assert!(matches(&escape_pattern(text), text), "{text}");
        }
        assert!(!matches(
            &escape_pattern("rm -r build/*"),
            "rm -r build/../x"
        ));
        assert!(!matches(&escape_pattern("ls a?b"), "ls aab"));
    }

    #[test]
    fn stars_and_question_marks_stand_for_text() {
        for (pattern, text) in [
            ("git push*", "git push --force"),
            ("*--force*", "git push --force"),
            ("?s -l*", "LS -la"),
            ("a*b*c", "a--b-b--c"),
            ("*", ""),
        ] {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [
            ("git push", "git push --force"),
            ("a*b", "abc"),
            ("?", ""),
            ("", "a"),
        ] {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }
}
