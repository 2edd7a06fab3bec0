//! What credentials look like. Every pattern ignores case.

use std::{
    ops::Range,
    sync::{LazyLock, OnceLock},
};

use regex::bytes::{Regex, RegexBuilder, RegexSet, RegexSetBuilder};

/// Names whose value is a credential: `token`, `GITHUB_TOKEN`, `accessToken`, `x-api-key`, but not `monkey`.
macro_rules! secret_name {
    () => {
        r"(?:[\w.-]*(?:token|password|secret|api[_-]?key)|(?:[a-z0-9]+[_.-])*key)"
    };
}

/// The group `value` is what has to go, or the whole match where there is none.
/// The group `word` is asked about first by [`is_credential`].
const PATTERN_SOURCES: [&str; 12] = [
    // GitHub
    r"(?:^|[^a-z0-9])(?<value>(?:gh[oprsu]_|github_pat_)\w+)",
    // OpenAI, Anthropic and their like
    r"\bsk-[a-z0-9_-]+",
    // Slack
    r"\bxox[a-z]-[a-z0-9-]+",
    // AWS
    r"\bAKIA[0-9A-Z]{16}\b",
    // JWT; an unsigned one ends in a dot
    r"\beyJ[a-z0-9_-]+\.[a-z0-9_-]+\.[a-z0-9_-]*",
    // HTTP authorization
    r"\bBearer\s+(?<word>[a-z0-9._~+/=-]+)",
    r"\bBasic\s+(?<word>[a-z0-9+/]+=*)",
    // Assignments and query strings
    concat!(
        r"\b",
        secret_name!(),
        r#"[ \t]*=[ \t]*(?:"[^"]*"?|'[^']*'?|[^\s&,;"'=][^\s&,;"']*)"#
    ),
    // JSON, JSON inside a JSON string, and what Python prints for a dictionary
    concat!(
        r#"""#,
        secret_name!(),
        r#""\s*:\s*"(?<value>(?:[^"\\]|\\.)+)"#
    ),
    concat!(
        r#"\\""#,
        secret_name!(),
        r#"\\"\s*:\s*\\"(?<value>[^"\\]+)"#
    ),
    concat!("'", secret_name!(), r"'\s*:\s*'(?<value>(?:[^'\\]|\\.)+)"),
    // User and password of an address; the last `@` before the path ends them
    r#"\b[a-z][a-z0-9+.-]*://(?<value>[^\s/?#"'<>]+)@"#,
];

/// All in one automaton, so that a text without credentials is passed over once.
///
/// Classes are those of ASCII, as credentials are. With the tables of Unicode, building all patterns would take longer
/// than many commands run. What is taken out still begins and ends beside an ASCII character, so no other is cut in two.
static ANY_PATTERN: LazyLock<RegexSet> = LazyLock::new(|| {
    let mut patterns = RegexSetBuilder::new(PATTERN_SOURCES);
    patterns.unicode(false).case_insensitive(true);
    expect_valid(patterns.build())
});

/// Each by itself, built when a text has something for it.
static PATTERNS: [OnceLock<Regex>; PATTERN_SOURCES.len()] =
    [const { OnceLock::new() }; PATTERN_SOURCES.len()];

fn pattern(index: usize) -> &'static Regex {
    PATTERNS[index].get_or_init(|| {
        let mut pattern = RegexBuilder::new(PATTERN_SOURCES[index]);
        pattern.unicode(false).case_insensitive(true);
        expect_valid(pattern.build())
    })
}

fn expect_valid<T>(pattern: Result<T, regex::Error>) -> T {
    pattern.unwrap_or_else(|error| unreachable!("the patterns are constants: {error}"))
}

/// Every pattern needs one of these somewhere, in any case.
const HINTS: [&str; 13] = [
    "gh",
    "github_pat_",
    "sk-",
    "xox",
    "akia",
    "eyj",
    "bearer",
    "basic",
    "token",
    "password",
    "secret",
    "key",
    "@",
];
/// Up to this length, looking for marks is far quicker than building the automaton, which most commands never need.
const SHORT_TEXT_BYTES: usize = 1024;

fn may_hold_credentials(text: &[u8]) -> bool {
    let begins_with = |rest: &[u8], mark: &str| {
        let part = rest.get(..mark.len());
        part.is_some_and(|part| part.eq_ignore_ascii_case(mark.as_bytes()))
    };
    text.len() > SHORT_TEXT_BYTES
        || (0..text.len()).any(|at| HINTS.iter().any(|mark| begins_with(&text[at..], mark)))
}

/// Where the credentials of a text are.
pub(super) fn find_credentials(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    if !may_hold_credentials(text.as_bytes()) {
        return found;
    }
    for index in ANY_PATTERN.matches(text.as_bytes()) {
        for captures in pattern(index).captures_iter(text.as_bytes()) {
            let range = |name| captures.name(name).map(|part| part.range());
            let Some(whole) = captures.get(0).map(|whole| whole.range()) else {
                continue;
            };
            let word = range("word").map(|word| &text[word]);
            if word.is_none_or(|word| is_credential(&text[whole.clone()], word)) {
                found.push(range("value").unwrap_or(whole));
            }
        }
    }
    found
}

/// Words that follow `Bearer` in messages and challenges, where no token is meant.
const NON_TOKEN_WORDS: [&str; 12] = [
    "token",
    "tokens",
    "auth",
    "authentication",
    "authorization",
    "credential",
    "credentials",
    "scheme",
    "realm=",
    "scope=",
    "error=",
    "resource_metadata=",
];

/// Whether the word after `Bearer` or `Basic` is more than a word.
fn is_credential(whole: &str, word: &str) -> bool {
    if whole.as_bytes()[1].eq_ignore_ascii_case(&b'a') {
        // User and password in base64 hold a colon, which tells them from "basic usage". No common word is so long.
        decode_base64(word).contains(&b':') || word.len() >= 16
    } else {
        let word = word.trim_end_matches('.').to_ascii_lowercase();
        !NON_TOKEN_WORDS.contains(&word.as_str())
    }
}

/// The bytes of a base64 text, as far as it is one.
fn decode_base64(base64: &str) -> Vec<u8> {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = base64
        .bytes()
        .map_while(|digit| ALPHABET.iter().position(|&known| known == digit));
    let mut bytes = Vec::new();
    let (mut bits, mut count) = (0_usize, 0);
    for digit in digits {
        bits = (bits << 6 | digit) & 0x3FFF;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.extend(u8::try_from(bits >> count & 0xFF));
        }
    }
    bytes
}
