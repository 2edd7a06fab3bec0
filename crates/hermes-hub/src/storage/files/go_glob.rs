//! File name patterns in the syntax of Go's `path.Match`, and `**` for any number of directories. A pattern is
//! translated to a regular expression that matches in linear time.

use std::fmt::Write;

use regex::Regex;

use crate::Problem;

const MAX_PATTERN_BYTES: usize = 1024;

/// A compiled pattern.
#[derive(Debug, Clone)]
pub struct GoGlob {
    expression: Regex,
    /// Whether it is matched against paths rather than names.
    has_slash: bool,
}

impl GoGlob {
    /// Compiles a pattern; the error of a malformed one has the position.
    pub fn compile(pattern: &str) -> Result<Self, Problem> {
        if pattern.len() > MAX_PATTERN_BYTES {
            return Err(invalid_pattern("it has more than 1024 bytes", 0));
        }
        let mut translation = GlobTranslator {
            pattern,
            rest: pattern,
            expression: String::from(r"(?s)\A"),
        };
        translation.run()?;
        translation.expression.push_str(r"\z");
        let expression = Regex::new(&translation.expression)
            .map_err(|_| invalid_pattern("it is too large once compiled", 0))?;
        Ok(Self {
            expression,
            has_slash: pattern.contains('/'),
        })
    }

    /// Whether a path, relative to the start of the search, matches. A pattern without `/` is matched against the last
    /// segment.
    pub fn matches(&self, path: &str) -> bool {
        let subject = if self.has_slash {
            path
        } else {
            path.rsplit('/').next().unwrap_or(path)
        };
        self.expression.is_match(subject)
    }
}

struct GlobTranslator<'a> {
    pattern: &'a str,
    rest: &'a str,
    expression: String,
}

impl GlobTranslator<'_> {
    fn run(&mut self) -> Result<(), Problem> {
        let crosses = self.pattern.contains('/');
        loop {
            let at_segment = self.position() == 0 || self.pattern[..self.position()].ends_with('/');
            if crosses && at_segment && self.rest.starts_with("**") {
                let after = &self.rest[2..];
                if after.is_empty() {
                    // Everything below, but not the directory itself.
                    self.expression.push_str(".+");
                    self.rest = after;
                    continue;
                }
                if let Some(after) = after.strip_prefix('/') {
                    self.expression.push_str("(?:.+/)?");
                    self.rest = after;
                    continue;
                }
            }
            match self.next() {
                None => return Ok(()),
                Some('*') => self.expression.push_str("[^/]*"),
                Some('?') => self.expression.push_str("[^/]"),
                Some('[') => self.class()?,
                Some('\\') => {
                    let literal = self
                        .next()
                        .ok_or_else(|| self.error_here("`\\` has nothing after it"))?;
                    self.literal(literal);
                }
                Some(literal) => self.literal(literal),
            }
        }
    }

    fn class(&mut self) -> Result<(), Problem> {
        let mut ranges = String::new();
        let is_negated = self.rest.starts_with('^');
        if is_negated {
            self.next();
        }
        let mut is_first = true;
        while is_first || !self.rest.starts_with(']') {
            is_first = false;
            let low = self.member()?;
            let high = if self.rest.starts_with('-') {
                self.next();
                self.member()?
            } else {
                low
            };
            // A reversed range has no members; Go accepts it anyway.
            if low <= high {
                let _ = write!(
                    ranges,
                    "\\x{{{:x}}}-\\x{{{:x}}}",
                    u32::from(low),
                    u32::from(high)
                );
            }
        }
        self.next();
        let class = match (is_negated, ranges.is_empty()) {
            (false, true) => r"[^\x00-\x{10FFFF}]".to_owned(),
            (true, true) => r"[\x00-\x{10FFFF}]".to_owned(),
            (false, false) => format!("[{ranges}]"),
            (true, false) => format!("[^{ranges}]"),
        };
        self.expression.push_str(&class);
        Ok(())
    }

    /// A character of a class. Go requires something after it: at least the closing bracket.
    fn member(&mut self) -> Result<char, Problem> {
        let character = match self.next() {
            None => return Err(self.error_here("a `[` is not closed")),
            Some('-' | ']') => {
                return Err(
                    self.error_here("a class needs a character here; write `\\` before `-` or `]`")
                );
            }
            Some('\\') => self.next(),
            other => other,
        };
        match character {
            Some(character) if !self.rest.is_empty() => Ok(character),
            _ => Err(self.error_here("a `[` is not closed")),
        }
    }

    fn literal(&mut self, character: char) {
        self.expression
            .push_str(&regex::escape(character.encode_utf8(&mut [0; 4])));
    }

    fn next(&mut self) -> Option<char> {
        let mut characters = self.rest.chars();
        let next = characters.next();
        self.rest = characters.as_str();
        next
    }

    fn position(&self) -> usize {
        self.pattern.len() - self.rest.len()
    }

    fn error_here(&self, reason: &str) -> Problem {
        invalid_pattern(reason, self.pattern[..self.position()].chars().count())
    }
}

fn invalid_pattern(reason: &str, position: usize) -> Problem {
    Problem::invalid(format!(
        "the name pattern is malformed at character {position}: {reason}"
    ))
    .with_detail("name", reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, path: &str) -> bool {
        GoGlob::compile(pattern).unwrap().matches(path)
    }

    /// Cases of `path.Match`: pattern, name, whether it matches.
    const CASES: [(&str, &str, bool); 40] = [
        ("abc", "abc", true),
        ("*", "abc", true),
        ("*c", "abc", true),
        ("a*", "a", true),
        ("a*", "abc", true),
        ("a*/b", "abc/b", true),
        ("a*/b", "a/c/b", false),
        ("a*b*c*d*e*/f", "axbxcxdxe/f", true),
        ("a*b*c*d*e*/f", "axbxcxdxexxx/f", true),
        ("a*b*c*d*e*/f", "axbxcxdxe/xxx/f", false),
        ("a*b*c*d*e*/f", "axbxcxdxexxx/fff", false),
        ("a*b?c*x", "abxbbxdbxebxczzx", true),
        ("a*b?c*x", "abxbbxdbxebxczzy", false),
        ("ab[c]", "abc", true),
        ("ab[b-d]", "abc", true),
        ("ab[e-g]", "abc", false),
        ("ab[^c]", "abc", false),
        ("ab[^b-d]", "abc", false),
        ("ab[^e-g]", "abc", true),
        ("a\\*b", "a*b", true),
        ("a\\*b", "ab", false),
        ("a?b", "a☺b", true),
        ("a[^a]b", "a☺b", true),
        ("a???b", "a☺b", false),
        ("[a-ζ]*", "α", true),
        ("*[a-ζ]", "A", false),
        ("[\\]a]", "]", true),
        ("[\\-]", "-", true),
        ("[x\\-]", "x", true),
        ("[x\\-]", "z", false),
        ("[\\-x]", "a", false),
        ("[c-a]", "b", false),
        ("*x", "xxx", true),
        ("a.c", "abc", false),
        ("a+", "aa", false),
        ("[!a]", "!", true),
        ("{a,b}", "a", false),
        ("a?b", "a/b", false),
        ("a\nb", "a\nb", true),
        ("**", "abc", true),
    ];

    #[test]
    fn patterns_mean_what_they_mean_in_go() {
        for (pattern, name, expected) in CASES {
            assert_eq!(matches(pattern, name), expected, "{pattern:?} on {name:?}");
        }
    }

    #[test]
    fn malformed_patterns_are_refused_with_their_place() {
        for pattern in [
            "[]a]", "[-]", "[x-]", "[-x]", "[a-b-c]", "[", "[^", "[^bc", "a[", "\\", "[a", "[a-",
            "[\\", "[]",
        ] {
            let problem = GoGlob::compile(pattern).expect_err(pattern);
            assert_eq!(problem.code.status(), 400, "{pattern}");
            assert!(problem.message.contains("character"), "{problem}");
        }
        assert!(GoGlob::compile(&"a".repeat(1025)).is_err());
    }

    #[test]
    fn without_a_slash_the_name_is_meant_and_with_one_the_path() {
        assert!(matches("*.md", "notes/deep/a.md"));
        assert!(!matches("notes/*.md", "notes/deep/a.md"));
        assert!(matches("notes/*.md", "notes/a.md"));
    }

    #[test]
    fn two_stars_cross_directories() {
        assert!(matches("**/a.md", "a.md"));
        assert!(matches("**/a.md", "x/y/a.md"));
        assert!(!matches("**/a.md", "x/ba.md"));
        assert!(matches("x/**/a", "x/a"));
        assert!(matches("x/**/a", "x/y/z/a"));
        assert!(!matches("x/**/a", "xy/a"));
        assert!(matches("x/**", "x/y/z"));
        assert!(!matches("x/**", "x"));
        assert!(!matches("x/a**b", "x/a/b"));
    }

    #[test]
    fn many_stars_take_no_longer_than_few() {
        let glob = GoGlob::compile(&format!("{}b", "a*".repeat(400))).unwrap();
        assert!(!glob.matches(&"a".repeat(4000)));
    }
}
