//! Where texts are cut.

use proptest::prelude::*;

use super::*;

fn characters(text: &str) -> usize {
    text.chars().count()
}

fn utf16(text: &str) -> usize {
    text.encode_utf16().count()
}

fn limit(most: usize) -> LengthLimit {
    LengthLimit {
        max: most,
        measure: characters,
    }
}

/// The parts as they are sent.
fn numbered(text: &str, limit: &LengthLimit) -> Vec<String> {
    let parts = split_text(text, limit);
    let count = parts.len();
    let numbered = parts.into_iter().enumerate();
    numbered
        .map(|(index, part)| part + &part_number(index + 1, count))
        .collect()
}

#[test]
fn a_text_within_the_limit_is_left_alone() {
    assert_eq!(numbered(" exactly ", &limit(9)), [" exactly "]);
    assert_eq!(numbered("", &limit(9)), [""]);
}

#[test]
fn a_line_in_the_second_half_ends_a_part() {
    let text = format!("{}\n{} {}", "a".repeat(30), "b".repeat(10), "c".repeat(30));
    assert_eq!(
        numbered(&text, &limit(60)),
        [
            format!("{} (1/2)", "a".repeat(30)),
            format!("{} {} (2/2)", "b".repeat(10), "c".repeat(30)),
        ]
    );
}

#[test]
fn an_early_line_does_not_and_a_word_does() {
    let text = format!("x\n{} {}", "a".repeat(30), "b".repeat(30));
    assert_eq!(
        numbered(&text, &limit(50)),
        [
            format!("x\n{} (1/2)", "a".repeat(30)),
            format!("{} (2/2)", "b".repeat(30)),
        ]
    );
}

#[test]
fn a_word_that_is_too_long_is_cut_between_graphemes() {
    let family = "👨\u{200d}👩\u{200d}👧";
    let text = family.repeat(20);
    let limit = LengthLimit {
        max: 40,
        measure: utf16,
    };
    let parts = split_text(&text, &limit);
    assert!(parts.len() > 1);
    for part in &parts {
        assert_eq!(part.len() % family.len(), 0, "{part}");
    }
    assert_eq!(parts.concat(), text);
}

#[test]
fn a_grapheme_without_end_is_cut_all_the_same() {
    let text = format!("a{}", "\u{301}".repeat(200));
    let parts = split_text(&text, &limit(50));
    assert!(parts.iter().all(|part| characters(part) <= 40));
    assert_eq!(parts.concat(), text);
}

#[test]
fn code_within_a_line_is_not_torn() {
    let text = format!("{} `let x = 1;` {}", "a".repeat(24), "b".repeat(30));
    let parts = numbered(&text, &limit(45));
    assert_eq!(parts[0], format!("{} (1/3)", "a".repeat(24)));
    assert!(parts[1].starts_with("`let x = 1;`"), "{parts:?}");
}

#[test]
fn a_block_of_code_is_closed_and_opened_again_with_its_language() {
    let lines = (0..12).map(|line| format!("    line {line:02}"));
    let code = lines.collect::<Vec<_>>().join("\n");
    let text = format!("Look:\n```python\n{code}\n```\nDone.");
    let parts = numbered(&text, &limit(90));
    assert_eq!(parts.len(), 3, "{parts:#?}");
    assert_eq!(
        parts[1],
        "```python\n    line 05\n    line 06\n    line 07\n    line 08\n    line 09\n``` (2/3)"
    );
    assert!(parts[0].ends_with("line 04\n``` (1/3)"), "{}", parts[0]);
    assert!(
        parts[2].ends_with("line 11\n```\nDone. (3/3)"),
        "{}",
        parts[2]
    );
}

#[test]
fn no_empty_block_is_left_where_a_block_begins_or_ends() {
    let before = "a".repeat(38);
    let text = format!("{before}\n```rust\n{}\n```\nend", "b".repeat(40));
    for most in 50..110 {
        for part in split_text(&text, &limit(most)) {
            assert!(!part.contains("```rust\n```"), "{most}: {part}");
            assert!(!part.ends_with("```rust"), "{most}: {part}");
        }
    }
}

#[test]
fn space_alone_is_not_a_part() {
    let text = format!("a{}b", " ".repeat(200));
    assert_eq!(numbered(&text, &limit(50)), ["a (1/2)", "b (2/2)"]);
}

#[test]
fn numbers_of_many_parts_fit_too() {
    let text = "word ".repeat(3000);
    let parts = numbered(&text, &limit(20));
    assert!(parts.len() > 1000);
    assert!(parts.iter().all(|part| characters(part) <= 20));
}

fn without_space(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

proptest! {
    #[test]
    fn every_part_is_within_the_limit_and_nothing_is_lost(
        text in "(?s)[a-z \n.,*_é漢👩\u{200d}\u{301}]{0,600}",
        most in 30_usize..200,
    ) {
        let limit = LengthLimit { max: most, measure: utf16 };
        let cut_parts = split_text(&text, &limit);
        let count = cut_parts.len();
        let mut together = String::new();
        for (index, part) in cut_parts.iter().enumerate() {
            let sent = format!("{part}{}", part_number(index + 1, count));
            prop_assert!(utf16(&sent) <= most, "{sent:?}");
            together.push_str(part);
        }
        prop_assert_eq!(without_space(&together), without_space(&text));
    }

    #[test]
    fn fences_are_balanced_in_every_part(
        lines in prop::collection::vec("```[a-z]{0,6}|[a-z` ]{0,40}", 0..40),
        most in 60_usize..200,
    ) {
        let text = lines.join("\n");
        for limit in [limit(most), LengthLimit { max: most, measure: super::super::telegram::count_utf16 }] {
            let cut_parts = split_text(&text, &limit);
            let count = cut_parts.len();
            for part in &cut_parts {
                prop_assert!((limit.measure)(part) + (limit.measure)(&part_number(count, count)) <= most + usize::from(count == 1) * 10);
                prop_assert!(count == 1 || open_fence(None, part).is_none(), "{part}");
            }
        }
    }
}
