//! What credentials look like. Every pattern ignores case.

use std::{ops::Range, sync::LazyLock};

use regex::{Regex, RegexSet};

/// Names whose value is a credential: `token`, `GITHUB_TOKEN`, `accessToken`, `x-api-key`, but not `monkey`.
macro_rules! secret_name {
    () => {
        r"(?:[\w.-]*(?:token|password|secret|api[_-]?key)|(?:[a-z0-9]+[_.-])*key)"
    };
}

/// The group `value` is what has to go, or the whole match where there is none.
/// The group `word` is asked about first by [`is_credential`].
const SOURCES: [&str; 12] = [
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

struct Patterns {
    /// All in one automaton, so that a text without credentials is passed over once.
    any: RegexSet,
    each: Vec<Regex>,
}

static PATTERNS: LazyLock<Patterns> = LazyLock::new(|| {
    let sources = SOURCES.map(|source| format!("(?i){source}"));
    let each = sources.iter().map(|source| Regex::new(source)).collect();
    match (RegexSet::new(&sources), each) {
        (Ok(any), Ok(each)) => Patterns { any, each },
        (Err(error), _) | (_, Err(error)) => unreachable!("the patterns are constants: {error}"),
    }
});

/// Where the credentials of a text are.
pub(super) fn find(text: &str) -> Vec<Range<usize>> {
    let patterns = &*PATTERNS;
    let mut found = Vec::new();
    for index in patterns.any.matches(text) {
        for captures in patterns.each[index].captures_iter(text) {
            let word = captures.name("word");
            if word.is_none_or(|word| is_credential(&captures[0], word.as_str())) {
                found.extend(
                    captures
                        .name("value")
                        .or(captures.get(0))
                        .map(|value| value.range()),
                );
            }
        }
    }
    found
}

/// Words that follow `Bearer` in messages and challenges, where no token is meant.
const NO_TOKEN: [&str; 12] = [
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
        decoded(word).contains(&b':') || word.len() >= 16
    } else {
        let word = word.trim_end_matches('.').to_ascii_lowercase();
        !NO_TOKEN.contains(&word.as_str())
    }
}

/// The bytes of a base64 text, as far as it is one.
fn decoded(base64: &str) -> Vec<u8> {
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
