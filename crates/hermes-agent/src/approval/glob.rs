//! Patterns with `*` and `?`, as they are written in lists of commands.

/// Whether a pattern matches a whole text, without regard to case.
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    let lower = |text: &str| -> Vec<char> { text.chars().flat_map(char::to_lowercase).collect() };
    let (pattern, text) = (lower(pattern), lower(text));
    let (mut p, mut t) = (0, 0);
    // Where to go on if a `*` has to take one character more.
    let mut retry: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                retry = Some((p + 1, t));
                p += 1;
            }
            Some(&expected) if expected == '?' || expected == text[t] => {
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
    pattern[p..].iter().all(|&character| character == '*')
}

#[cfg(test)]
mod tests {
    use super::matches;

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
