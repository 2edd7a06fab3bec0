//! Regular expressions in Go's syntax (RE2), matched line by line. They are translated to the syntax of the `regex`
//! crate, so that syntax that both interpret differently has Go's meaning; what Go refuses is refused, with the
//! position.

mod class;
mod cursor;
mod escape;
mod translate;
mod unicode;

#[cfg(test)]
mod tests;

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
