use std::{
    fmt::Write,
    time::{Duration, Instant},
};

use hermes_hub::storage::files::{
    CaseMatching, EntryType, FindQuery, FindResult, GrepQuery, GrepResult,
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::storage::files::fixture::{AnyShare, path, problem_status};

async fn grep(scene: &AnyShare, pattern: &str) -> GrepResult {
    let search = GrepQuery {
        pattern: pattern.into(),
        ..GrepQuery::default()
    };
    scene
        .files
        .grep(search, CancellationToken::new())
        .await
        .unwrap()
}

async fn find(scene: &AnyShare, at: &str, name: &str) -> Vec<String> {
    let find = FindQuery {
        path: Some(path(at)),
        name: Some(name.into()),
        max: None,
    };
    let found: FindResult = scene
        .files
        .find(find, CancellationToken::new())
        .await
        .unwrap();
    found.paths.into_iter().map(|entry| entry.path).collect()
}

fn places(found: &GrepResult) -> Vec<(&str, u64)> {
    found
        .matches
        .iter()
        .map(|found| (found.path.as_str(), found.line))
        .collect()
}

#[tokio::test]
async fn matches_come_by_path_and_line_in_the_known_shape() {
    let scene = AnyShare::new().await;
    scene
        .put("notes/b.md", "x\nan invoice\nanother Invoice\n")
        .await;
    scene.put("notes.md", "invoice").await;
    scene.put("notes/a/c.md", "ein Übel invoice\r\n").await;
    let found = grep(&scene, "invoice").await;
    assert_eq!(
        places(&found),
        [("notes.md", 1), ("notes/a/c.md", 1), ("notes/b.md", 2)]
    );
    assert_eq!((found.files_searched, found.files_skipped), (3, 0));
    let value = serde_json::to_value(&found).unwrap();
    assert_eq!(value["filesSearched"], json!(3));
    assert_eq!(
        value["matches"][1],
        json!({"path": "notes/a/c.md", "line": 1, "column": 10, "text": "ein Übel invoice", "textTruncated": false})
    );
    let ignoring = GrepQuery {
        pattern: "INVOICE$".into(),
        path: Some(path("notes")),
        case: CaseMatching::Ignore,
        max: Some(2),
    };
    let found = scene
        .files
        .grep(ignoring, CancellationToken::new())
        .await
        .unwrap();
    assert_eq!(places(&found), [("notes/a/c.md", 1), ("notes/b.md", 2)]);
    assert!(found.truncated);
}

#[tokio::test]
async fn exactly_as_many_as_wanted_is_not_cut() {
    let scene = AnyShare::new().await;
    scene.put("a", "x\n".repeat(100)).await;
    let found = grep(&scene, "x").await;
    assert_eq!((found.matches.len(), found.truncated), (100, false));
    scene.put("b", "x\n").await;
    let found = grep(&scene, "x").await;
    assert_eq!((found.matches.len(), found.truncated), (100, true));
    let most = GrepQuery {
        pattern: "x".into(),
        max: Some(0),
        ..GrepQuery::default()
    };
    let found = scene
        .files
        .grep(most, CancellationToken::new())
        .await
        .unwrap();
    assert_eq!(found.matches.len(), 1);
}

#[tokio::test]
async fn a_single_file_can_be_searched() {
    let scene = AnyShare::new().await;
    scene.put("dir/a", "one\ntwo\n").await;
    scene.put("dir/b", "two\n").await;
    let search = |at: &str| GrepQuery {
        pattern: "two".into(),
        path: Some(path(at)),
        ..GrepQuery::default()
    };
    let cancel = CancellationToken::new;
    let found = scene.files.grep(search("dir/a"), cancel()).await.unwrap();
    assert_eq!(places(&found), [("dir/a", 2)]);
    assert_eq!(
        problem_status(scene.files.grep(search("none"), cancel()).await),
        404
    );
}

#[tokio::test]
async fn binary_files_are_skipped_wherever_the_binary_part_is() {
    let scene = AnyShare::new().await;
    scene.put("text", "needle\n").await;
    scene.put("nul", "needle\n\0").await;
    scene.put("latin1", b"needle\n\xe4\n").await;
    let mut late = "needle\n".repeat(100_000).into_bytes();
    late.extend_from_slice(b"\xff\n");
    scene.put("late", late).await;
    let search = GrepQuery {
        pattern: "needle$".into(),
        max: Some(1000),
        ..GrepQuery::default()
    };
    let found = scene
        .files
        .grep(search, CancellationToken::new())
        .await
        .unwrap();
    // The late one has more matches than requested before its binary part; the others have none.
    assert!(found.matches.iter().all(|found| found.path == "late"));
    let found = grep(&scene, "^xyz").await;
    assert_eq!((found.files_searched, found.files_skipped), (1, 3));
}

#[tokio::test]
async fn lines_are_numbered_through_files_larger_than_any_buffer() {
    let scene = AnyShare::new().await;
    let mut content = String::new();
    for line in 1..=9000 {
        writeln!(content, "line {line} {}", "filler ".repeat(8)).unwrap();
    }
    scene.put("large", &content).await;
    // The second is an expensive expression, which is searched in smaller chunks, with the same result.
    for pattern in [
        r"line (1|777|3141|8999|9000) ",
        r"line (1|777|3141|8999|9000) (?:x{400}y{400})?",
    ] {
        let found = grep(&scene, pattern).await;
        let lines: Vec<u64> = found.matches.iter().map(|found| found.line).collect();
        assert_eq!(lines, [1, 777, 3141, 8999, 9000], "{pattern}");
    }
}

#[tokio::test]
async fn long_lines_are_found_and_shown_in_part() {
    let scene = AnyShare::new().await;
    scene
        .put(
            "a",
            format!(
                "{}needle{}\nneedle\n",
                "ä".repeat(400_000),
                "b".repeat(400_000)
            ),
        )
        .await;
    let found = grep(&scene, "needle").await;
    assert_eq!(found.matches[0].column, 400_001);
    assert_eq!(found.matches[0].text.chars().count(), 500);
    assert!(found.matches[0].text_truncated);
    assert_eq!(found.matches[1].line, 2);
}

#[tokio::test]
async fn a_bad_pattern_is_refused_even_where_nothing_is() {
    let scene = AnyShare::new().await;
    for pattern in ["a**", "(", r"\1", "(?=a)", r"(\pL{1,200}){1,200}"] {
        let search = GrepQuery {
            pattern: pattern.into(),
            ..GrepQuery::default()
        };
        let refused = scene.files.grep(search, CancellationToken::new()).await;
        assert_eq!(problem_status(refused), 400, "{pattern}");
    }
    for name in ["[", "a[", "\\", "[]a]"] {
        let find = FindQuery {
            name: Some(name.into()),
            ..FindQuery::default()
        };
        let refused = scene.files.find(find, CancellationToken::new()).await;
        assert_eq!(problem_status(refused), 400, "{name}");
    }
}

#[tokio::test]
async fn a_cancelled_search_ends_with_what_it_has() {
    let scene = AnyShare::new().await;
    for number in 0..20 {
        scene.put(&format!("f{number}"), "x\n").await;
    }
    let cancel = CancellationToken::new();
    cancel.cancel();
    let search = GrepQuery {
        pattern: "x".into(),
        ..GrepQuery::default()
    };
    let found = scene.files.grep(search, cancel.clone()).await.unwrap();
    assert_eq!((found.matches.len(), found.truncated), (0, true));
    let found = scene
        .files
        .find(FindQuery::default(), cancel)
        .await
        .unwrap();
    assert_eq!((found.paths.len(), found.truncated), (0, true));
}

#[tokio::test]
async fn no_pattern_keeps_a_search_busy_for_much_longer_than_it_may() {
    let scene = AnyShare::new().await;
    for number in 0..8 {
        let line = format!("{}\n", "ab".repeat(10_000));
        scene.put(&format!("long{number}"), line.repeat(100)).await;
        let line = "abababababababab c\n";
        scene
            .put(&format!("short{number}"), line.repeat(20_000))
            .await;
    }
    // None has a required literal, so every byte is examined.
    for pattern in [
        "(?:a?b?){500}[^ab c]",
        "(?:[a-y]{0,30}){30}[^ab c]",
        r"(?:\pL?\d?){20}[^ab c]",
        "(?i)(a|b|ab|ba|aba|bab){0,140}[^ab c]",
    ] {
        let start = Instant::now();
        grep(&scene, pattern).await;
        let taken = start.elapsed();
        // The limit is 5 seconds; machines that test are slow and busy, and the engine is not optimised for them.
        assert!(taken < Duration::from_mins(1), "{pattern}: {taken:?}");
    }
}

#[tokio::test]
async fn names_are_found_by_pattern() {
    let scene = AnyShare::new().await;
    for file in ["a.md", "notes/b.md", "notes/deep/c.md", "notes/deep/d.txt"] {
        scene.put(file, "").await;
    }
    assert_eq!(
        find(&scene, "", "*.md").await,
        ["a.md", "notes/b.md", "notes/deep/c.md"]
    );
    assert_eq!(find(&scene, "", "notes/*.md").await, ["notes/b.md"]);
    assert_eq!(
        find(&scene, "notes", "deep/*").await,
        ["notes/deep/c.md", "notes/deep/d.txt"]
    );
    assert_eq!(
        find(&scene, "", "**/deep/*.txt").await,
        ["notes/deep/d.txt"]
    );
    assert_eq!(find(&scene, "", "deep").await, ["notes/deep"]);
    let all = FindQuery {
        max: Some(3),
        ..FindQuery::default()
    };
    let found = scene
        .files
        .find(all, CancellationToken::new())
        .await
        .unwrap();
    let paths: Vec<&str> = found
        .paths
        .iter()
        .map(|entry| entry.path.as_str())
        .collect();
    assert_eq!(
        (paths, found.truncated),
        (vec!["a.md", "notes", "notes/b.md"], true)
    );
    assert_eq!(found.paths[1].entry_type, EntryType::Dir);
    let in_file = FindQuery {
        path: Some(path("a.md")),
        ..FindQuery::default()
    };
    assert_eq!(
        problem_status(scene.files.find(in_file, CancellationToken::new()).await),
        409
    );
}
