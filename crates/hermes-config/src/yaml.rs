//! Reading YAML text as JSON values, with the line and column of what is wrong.

use std::{cell::Cell, fmt, io, panic::resume_unwind};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Value};
use serde_saphyr::{Spanned, budget::BudgetBreach};

/// What a configuration may have, whoever wrote it: a few times what any real one has.
pub const MAX_BYTES: usize = 4 * 1024 * 1024;
const MAX_VALUES: usize = 50_000;
/// Each level takes some of the stack, and tens of kilobytes in a debug build.
const MAX_DEPTH: usize = 32;
/// Up to here a document is read on the stack of whoever asks. No usual one is deeper.
const USUAL_DEPTH: usize = 8;
/// The stack for all others.
const LARGE_STACK: usize = 16 * 1024 * 1024;
const MAX_ALIASES: usize = 1_000;
/// Values that aliases stand for.
const MAX_ALIAS_VALUES: usize = 20_000;

/// Where and why a text is not a usable YAML document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {reason}")]
pub struct YamlError {
    /// From 1.
    pub line: u64,
    /// From 1.
    pub column: u64,
    pub reason: String,
}

/// The document as a JSON value; an empty one is an empty mapping.
///
/// What is meant as text under `env` or `args` keeps its spelling: `yes`, `True`, `1.10` and `022` stay strings.
/// Whoever wants a flag or a number reads those too.
pub fn parse(text: &str) -> Result<Value, YamlError> {
    if text.len() > MAX_BYTES {
        return Err(YamlError {
            line: 1,
            column: 1,
            reason: too_long(),
        });
    }
    match parse_up_to(USUAL_DEPTH, text) {
        Err(error) if error.reason.contains(&too_deep_reason()) => parse_on_large_stack(text),
        parsed => parsed,
    }
}

fn parse_on_large_stack(text: &str) -> Result<Value, YamlError> {
    let parsed = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(LARGE_STACK);
        let thread = thread.spawn_scoped(scope, || parse_up_to(MAX_DEPTH, text))?;
        Ok(thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
    });
    parsed.unwrap_or_else(|error: io::Error| {
        Err(YamlError {
            line: 1,
            column: 1,
            reason: format!("there is no thread to read it: {error}"),
        })
    })
}

/// Line and column, both from 1, of the key at the end of a path through mappings and sequences.
pub fn find_key(text: &str, path: &[String]) -> Option<(usize, usize)> {
    let find = || {
        let mut node = parse_nodes(MAX_DEPTH, text).ok()??;
        for step in path {
            node = match node.value {
                SpannedNode::Mapping(entries) => {
                    let mut entries = entries.into_iter();
                    entries.find(|(key, _)| key == step)?.1
                }
                SpannedNode::Sequence(items) => {
                    let index: usize = step.parse().ok()?;
                    items.into_iter().nth(index)?
                }
                SpannedNode::Scalar(_) => return None,
            };
        }
        let offset = usize::try_from(node.defined.span().byte_offset()?).ok()?;
        // The key stands before its value.
        let before = text.get(..offset)?;
        let at = before.rfind(path.last()?).unwrap_or(offset);
        let line_start = text[..at].rfind('\n').map_or(0, |end| end + 1);
        let line = text[..at].matches('\n').count() + 1;
        Some((line, text[line_start..at].chars().count() + 1))
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(LARGE_STACK);
        thread.spawn_scoped(scope, find).ok()?.join().ok()?
    })
}

fn parse_up_to(depth: usize, text: &str) -> Result<Value, YamlError> {
    Ok(match parse_nodes(depth, text)? {
        None => Value::Object(Map::new()),
        Some(node) => match value(node, text) {
            Value::Null => Value::Object(Map::new()),
            value => value,
        },
    })
}

fn parse_nodes(depth: usize, text: &str) -> Result<Option<Spanned<SpannedNode>>, YamlError> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: 3 * MAX_VALUES,
            max_nodes: MAX_VALUES,
            max_depth: depth,
            max_aliases: MAX_ALIASES,
            max_anchors: MAX_ALIASES,
            max_merge_keys: MAX_ALIASES,
            max_recorded_anchor_events: MAX_VALUES,
            max_recorded_anchor_bytes: MAX_BYTES,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: MAX_ALIAS_VALUES,
            max_replay_stack_depth: MAX_DEPTH,
        },
        strict_booleans: true,
        non_finite_float_policy: serde_saphyr::options::NonFiniteFloatPolicy::AsString,
        with_snippet: false,
    };
    LEVELS_LEFT.set(depth);
    serde_saphyr::from_str_with_options::<Option<Spanned<SpannedNode>>>(text, options)
        .map_err(|error| to_yaml_error(&error))
}

/// That a document has more bytes than a configuration may have.
pub fn too_long() -> String {
    format!("it has more than {} MiB", MAX_BYTES / (1024 * 1024))
}

fn to_yaml_error(error: &serde_saphyr::Error) -> YamlError {
    let (line, column) = error
        .location()
        .map_or((1, 1), |location| (location.line(), location.column()));
    let error = error.without_snippet();
    let reason = exceeded_limit(error).unwrap_or_else(|| {
        let message = error.to_string();
        // The place is told by our own message.
        match message.rfind(" at line ") {
            Some(end) => message[..end].to_owned(),
            None => message,
        }
    });
    YamlError {
        line,
        column,
        reason,
    }
}

/// What a document has too much of, if that is why it is refused.
fn exceeded_limit(error: &serde_saphyr::Error) -> Option<String> {
    use serde_saphyr::Error;
    Some(match error {
        Error::AliasError { error, .. } => return exceeded_limit(error),
        Error::Budget { breach, .. } => match breach {
            BudgetBreach::Depth { .. } => too_deep_reason(),
            BudgetBreach::Nodes { .. } | BudgetBreach::Events { .. } => {
                format!("it has more than {MAX_VALUES} values")
            }
            BudgetBreach::Aliases { .. }
            | BudgetBreach::Anchors { .. }
            | BudgetBreach::MergeKeys { .. }
            | BudgetBreach::AliasAnchorRatio { .. } => "it has too many aliases".to_owned(),
            _ => return None,
        },
        Error::AliasReplayCounterOverflow { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. } => {
            format!("its aliases stand for more than {MAX_ALIAS_VALUES} values")
        }
        _ => return None,
    })
}

thread_local! {
    /// How much deeper the value may be that is being read. What aliases stand for is nested in what they stand in,
    /// which the reader does not count.
    static LEVELS_LEFT: Cell<usize> = const { Cell::new(0) };
}

/// One level of nesting, for as long as it lives.
struct DepthGuard;

impl DepthGuard {
    fn enter<E: serde::de::Error>() -> Result<Self, E> {
        let Some(left) = LEVELS_LEFT.get().checked_sub(1) else {
            return Err(E::custom(too_deep_reason()));
        };
        LEVELS_LEFT.set(left);
        Ok(Self)
    }
}

impl Drop for DepthGuard {
    fn drop(&mut self) {
        LEVELS_LEFT.set(LEVELS_LEFT.get() + 1);
    }
}

fn too_deep_reason() -> String {
    format!("it is nested more than {MAX_DEPTH} deep")
}

/// A value whose parts know where they are written.
enum SpannedNode {
    Scalar(Value),
    Sequence(Vec<Spanned<SpannedNode>>),
    Mapping(Vec<(String, Spanned<SpannedNode>)>),
}

fn value(node: Spanned<SpannedNode>, text: &str) -> Value {
    match node.value {
        SpannedNode::Scalar(scalar @ (Value::Number(_) | Value::Bool(_))) => {
            let span = node.defined.span();
            let start = span
                .byte_offset()
                .and_then(|start| usize::try_from(start).ok());
            let length = span
                .byte_len()
                .and_then(|length| usize::try_from(length).ok());
            let spelling = start
                .zip(length)
                .and_then(|(start, length)| text.get(start..start + length))
                .map(str::trim);
            let usual = scalar.to_string();
            match spelling {
                Some(spelling) if spelling != usual => Value::String(spelling.into()),
                _ => scalar,
            }
        }
        SpannedNode::Scalar(scalar) => scalar,
        SpannedNode::Sequence(items) => items.into_iter().map(|item| value(item, text)).collect(),
        SpannedNode::Mapping(entries) => entries
            .into_iter()
            .map(|(key, node)| (key, value(node, text)))
            .collect::<Map<_, _>>()
            .into(),
    }
}

impl<'de> Deserialize<'de> for SpannedNode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = SpannedNode;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<SpannedNode, E> {
        Ok(SpannedNode::Scalar(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<SpannedNode, E> {
        Ok(SpannedNode::Scalar(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<SpannedNode, E> {
        Ok(SpannedNode::Scalar(value.into()))
    }

    fn visit_i128<E>(self, value: i128) -> Result<SpannedNode, E> {
        Ok(SpannedNode::Scalar(value.to_string().into()))
    }

    fn visit_u128<E>(self, value: u128) -> Result<SpannedNode, E> {
        Ok(SpannedNode::Scalar(value.to_string().into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<SpannedNode, E> {
        Ok(SpannedNode::Scalar(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<SpannedNode, E> {
        Ok(SpannedNode::Scalar(value.into()))
    }

    fn visit_unit<E>(self) -> Result<SpannedNode, E> {
        Ok(SpannedNode::Scalar(Value::Null))
    }

    fn visit_none<E>(self) -> Result<SpannedNode, E> {
        Ok(SpannedNode::Scalar(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<SpannedNode, D::Error> {
        SpannedNode::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<SpannedNode, A::Error> {
        let _level = DepthGuard::enter::<A::Error>()?;
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(SpannedNode::Sequence(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<SpannedNode, A::Error> {
        let _level = DepthGuard::enter::<A::Error>()?;
        let mut entries = Vec::new();
        while let Some(entry) = access.next_entry()? {
            entries.push(entry);
        }
        Ok(SpannedNode::Mapping(entries))
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use serde_json::json;

    use super::*;

    #[test]
    fn scalars_keep_a_spelling_that_a_number_would_lose() {
        let text = "a: 1.10\nb: 022\nc: True\nd: yes\ne: 1e3\nf: 0x1F\ng: 8080\nh: -1.5\ni: true\nj: ~\nk: 'x'\nl: 2024-01-01\n";
        assert_eq!(
            parse(text).unwrap(),
            json!({
                "a": "1.10", "b": "022", "c": "True", "d": "yes", "e": "1e3", "f": "0x1F",
                "g": 8080, "h": -1.5, "i": true, "j": null, "k": "x", "l": "2024-01-01",
            })
        );
        assert_eq!(
            parse("[1.0, .inf, 123456789012345678901234567890]").unwrap(),
            json!([1.0, ".inf", "123456789012345678901234567890"])
        );
    }

    #[test]
    fn a_key_is_found_where_it_is_written() {
        let text = "id: a\nfiles:\n  - { path: x, form: y }\nskils: [ a ]\ndeep:\n  ä: { b:\n    1 }\nempty:\n";
        let find = |path: &[&str]| {
            let path: Vec<String> = path.iter().map(|&step| step.to_owned()).collect();
            find_key(text, &path)
        };
        assert_eq!(find(&["skils"]), Some((4, 1)));
        assert_eq!(find(&["files", "0", "form"]), Some((3, 16)));
        assert_eq!(find(&["deep", "ä", "b"]), Some((6, 8)));
        assert_eq!(find(&["empty"]), Some((8, 1)));
        assert_eq!(find(&["missing"]), None);
        let json = "{\"id\": 1,\n \"nme\": {}}";
        assert_eq!(find_key(json, &["nme".to_owned()]), Some((2, 3)));
    }

    #[test]
    fn aliases_and_merges_keep_it_too() {
        let text = "ä: &x\n  v: 1.10\n  w: 1\nb:\n  <<: *x\n  w: 2.0\nc: [*x]\nd: &n 07\ne: *n\n";
        assert_eq!(
            parse(text).unwrap(),
            json!({
                "ä": {"v": "1.10", "w": 1},
                "b": {"v": "1.10", "w": 2.0},
                "c": [{"v": "1.10", "w": 1}],
                "d": "07",
                "e": "07",
            })
        );
    }

    #[test]
    fn a_document_without_content_is_an_empty_mapping() {
        for text in [
            "",
            "\n\n",
            "# only a comment\n",
            "---\n",
            "~\n",
            "{}",
            "\u{feff}",
            "---\n...\n",
        ] {
            assert_eq!(parse(text), Ok(json!({})), "{text:?}");
        }
    }

    #[test]
    fn a_byte_order_mark_shifts_nothing() {
        assert_eq!(
            parse("\u{feff}a: 1.10\nb: 2\n").unwrap(),
            json!({"a": "1.10", "b": 2})
        );
    }

    #[test]
    fn a_key_said_twice_is_found_at_the_second() {
        let error = parse("a: 1\nb:\n  c: 1\n  c: 2\n").unwrap_err();
        assert_eq!((error.line, error.column), (4, 3), "{error:?}");
        assert!(error.reason.contains('c'), "{error:?}");
        assert!(!error.reason.contains("line"), "{error:?}");
    }

    #[test]
    fn other_mistakes_have_a_place() {
        for (text, line) in [
            ("a: [1, 2\nb: 3\n", 2),
            ("a: 1\n  b: 2\n", 2),
            ("a: \"x\n", 1),
            ("a: *none\n", 1),
            ("a:\n\t- x\n", 2),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.line >= line, "{text:?}: {error:?}");
            assert!(!error.reason.is_empty());
        }
    }

    #[test]
    fn what_would_take_all_memory_is_refused_in_plain_words() {
        let laughs = (1..12).map(|level| {
            let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
            format!("a{level}: &a{level} [{aliases}]\n")
        });
        let laughs: String = laughs.collect();
        let laughs = format!("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n{laughs}");
        let many = format!("a: [{}]\n", "1, ".repeat(MAX_VALUES + 1));
        let deep = format!("a: {}{}\n", "[".repeat(70), "]".repeat(70));
        let steps = (0..70).map(|depth| format!("{}a:\n", "  ".repeat(depth)));
        let steps: String = steps.collect();
        // Each alias stands in a list of lists, so the whole is deeper than any line.
        let (open, close) = ("[".repeat(20), "]".repeat(20));
        let chain = (1..20).map(|level| {
            let before = level - 1;
            format!("a{level}: &a{level} {open}*a{before}{close}\n")
        });
        let chain: String = chain.collect();
        let chain = format!("a0: &a0 [x]\n{chain}");
        let long = format!("a: {}\n", "x".repeat(MAX_BYTES));
        for (text, told) in [
            (laughs, "aliases stand for more than"),
            (many, "more than 50000 values"),
            (deep, "nested more than 32 deep"),
            (steps, "nested more than 32 deep"),
            (chain, "nested more than 32 deep"),
            (long, "more than 4 MiB"),
        ] {
            let error = parse(&text).unwrap_err();
            assert!(error.reason.contains(told), "{error:?}");
            assert!(error.line >= 1 && error.column >= 1, "{error:?}");
        }
    }

    /// Documents that are as large as they may be, each in another respect.
    fn largest_documents() -> Vec<(&'static str, String)> {
        let fill = |start: &str, part: &str, end: &str| {
            let count = (MAX_BYTES - start.len() - end.len()) / part.len();
            format!("{start}{}{end}", part.repeat(count))
        };
        let (open, close) = ("[".repeat(MAX_DEPTH - 2), "]".repeat(MAX_DEPTH - 2));
        let deep_items = MAX_VALUES / MAX_DEPTH - 1;
        let steps = (0..MAX_DEPTH - 1).map(|depth| format!("{}a:\n", "  ".repeat(depth)));
        let steps: String = steps.collect();
        let keys = (0..MAX_VALUES / 2 - 1).map(|number| format!("k{number}: {number}\n"));
        let lists = (0..MAX_VALUES / 8 - 1)
            .map(|number| format!("- name: n{number}\n  list: [a, 'b', \"c\"]\n"));
        let repeated = vec!["x"; MAX_ALIAS_VALUES / MAX_ALIASES - 2].join(", ");
        let aliases = (0..MAX_ALIASES / 9).map(|number| {
            let aliases = vec![format!("*a{number}"); 9].join(", ");
            format!("a{number}: &a{number} [{repeated}]\nb{number}: [{aliases}]\n")
        });
        let chain = (1..MAX_DEPTH - 2).map(|level| {
            let before = level - 1;
            format!("a{level}: &a{level} [*a{before}]\n")
        });
        let chain: String = chain.collect();
        vec![
            ("a plain text", fill("a: ", "x", "\n")),
            ("words", fill("a: x", " word", "\n")),
            ("a quoted text", fill("a: \"", "\\u00e4", "\"\n")),
            ("lines", fill("a: |\n", "  a line of text\n", "")),
            ("folded lines", fill("a: >\n", "  a line of text\n\n", "")),
            (
                "comments",
                fill("a: 1\n", "# a line that says nothing at all\n", ""),
            ),
            ("empty lines", fill("a: 1\n", "\n", "b: 2\n")),
            ("spaces", fill("a:", " ", "1\n")),
            ("a list", format!("a: [{}]\n", "1, ".repeat(MAX_VALUES - 4))),
            ("items", format!("a:\n{}", "- 1\n".repeat(MAX_VALUES - 4))),
            ("keys", keys.collect()),
            ("mappings", lists.collect()),
            ("levels", steps),
            (
                "deep lists",
                format!("a: [{}]\n", format!("{open}{close}, ").repeat(deep_items)),
            ),
            ("aliases", aliases.collect()),
            ("aliases of aliases", format!("a0: &a0 [x]\n{chain}")),
        ]
    }

    #[test]
    fn documents_just_below_every_limit_are_read_on_a_small_stack_and_soon() {
        const LIMIT: Duration = Duration::from_secs(30);
        // Half of what a thread has by itself.
        let small = std::thread::Builder::new().stack_size(1024 * 1024);
        let read = small.spawn(|| {
            for (what, text) in largest_documents() {
                assert!(text.len() <= MAX_BYTES, "{what}");
                let began = Instant::now();
                let document = parse(&text).unwrap_or_else(|error| panic!("{what}: {error}"));
                drop(document.clone());
                assert!(began.elapsed() < LIMIT, "{what}: {:?}", began.elapsed());
            }
        });
        read.unwrap().join().unwrap();
    }

    #[test]
    fn keys_that_are_not_strings_are_read_by_their_spelling() {
        assert_eq!(
            parse("1: a\ntrue: b\n").unwrap(),
            json!({"1": "a", "true": "b"})
        );
    }
}
