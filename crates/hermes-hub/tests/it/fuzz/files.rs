//! Paths, patterns and globs.

use hermes_hub::storage::files::{Files, FindQuery, GrepQuery, LineRange, SharePath, WriteMode};
use tokio_util::sync::CancellationToken;

use super::FuzzRun;
use crate::storage::files::fixture::{OUTSIDE_SECRET, ShareFixture, path};

#[tokio::test]
async fn no_path_leads_out_or_makes_it_panic() {
    let mut fuzzing = FuzzRun::start("paths");
    let scene = ShareFixture::new();
    scene.put("notes/report.md", "inside");
    while fuzzing.next_round() {
        let text = fuzzing.random.text();
        let Ok(parsed) = SharePath::parse(&text) else {
            continue;
        };
        assert!(!parsed.as_str().starts_with('/'), "{text:?}");
        assert!(
            parsed
                .segments()
                .all(|segment| !matches!(segment, "." | ".." | "")),
            "{text:?}"
        );
        assert_eq!(
            SharePath::parse(parsed.as_str()).unwrap(),
            parsed,
            "{text:?}"
        );
        let other = SharePath::parse(&fuzzing.random.text()).unwrap_or_else(|_| path("notes"));
        let files = &scene.files;
        let content = bytes::Bytes::from(fuzzing.random.text());
        let results = [
            files.stat(&parsed).await.map(|_| ()),
            files.list(&parsed).await.map(|_| ()),
            files
                .write(&parsed, content, WriteMode::Append, None)
                .await
                .map(|_| ()),
            files
                .read(&parsed, LineRange::default())
                .await
                .map(|text| assert_ne!(text.content, OUTSIDE_SECRET)),
            files.relocate(&parsed, &other, None).await.map(|_| ()),
            files.make_dir(&other).await.map(|_| ()),
            files
                .remove(
                    &parsed,
                    hermes_hub::storage::files::RemoveMode::Recursive,
                    None,
                )
                .await,
        ];
        for problem in results.into_iter().filter_map(Result::err) {
            assert!(problem.code.status() < 500, "{text:?}: {problem:?}");
        }
        scene.assert_outside_is_untouched();
    }
}

#[tokio::test]
async fn no_pattern_is_a_fault() {
    let mut fuzzing = FuzzRun::start("patterns");
    let scene = ShareFixture::new();
    scene.put(
        "notes/report.md",
        "an invoice\na Receipt 12\n{start} <a> ſ K\n",
    );
    scene.put("notes/long.md", "x".repeat(20_000));
    while fuzzing.next_round() {
        let pattern = fuzzing.random.text();
        let search = GrepQuery {
            pattern: pattern.clone(),
            max: Some(u64::try_from(fuzzing.random.below(2000)).unwrap()),
            ..GrepQuery::default()
        };
        if let Err(problem) = scene.files.grep(search, CancellationToken::new()).await {
            assert_eq!(problem.code.status(), 400, "{pattern:?}: {problem:?}");
        }
    }
}

#[tokio::test]
async fn no_glob_is_a_fault() {
    let mut fuzzing = FuzzRun::start("globs");
    let scene = ShareFixture::new();
    for name in [
        "a.md",
        "[x].md",
        "notes/report.md",
        "notes/ä/deep.txt",
        "a*b",
    ] {
        scene.put(name, "text");
    }
    while fuzzing.next_round() {
        let name = fuzzing.random.text();
        let find = FindQuery {
            name: Some(name.clone()),
            ..FindQuery::default()
        };
        if let Err(problem) = scene.files.find(find, CancellationToken::new()).await {
            assert_eq!(problem.code.status(), 400, "{name:?}: {problem:?}");
        }
    }
}
