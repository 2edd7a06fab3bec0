//! Paths, patterns and globs.

use hermes_hub::files::{Files, Find, Lines, Search, SharePath, WriteMode};
use tokio_util::sync::CancellationToken;

use super::Fuzzing;
use crate::files::scene::{SECRET, Scene, path};

#[tokio::test]
async fn no_path_leads_out_or_makes_it_panic() {
    let mut fuzzing = Fuzzing::begin("paths");
    let scene = Scene::new();
    scene.put("notes/report.md", "inside");
    while fuzzing.goes_on() {
        let text = fuzzing.chance.text();
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
        let other = SharePath::parse(&fuzzing.chance.text()).unwrap_or_else(|_| path("notes"));
        let files = &scene.files;
        let content = bytes::Bytes::from(fuzzing.chance.text());
        let results = [
            files.stat(&parsed).await.map(|_| ()),
            files.list(&parsed).await.map(|_| ()),
            files
                .write(&parsed, content, WriteMode::Append, None)
                .await
                .map(|_| ()),
            files
                .read(&parsed, Lines::default())
                .await
                .map(|text| assert_ne!(text.content, SECRET)),
            files.relocate(&parsed, &other, None).await.map(|_| ()),
            files.make_dir(&other).await.map(|_| ()),
            files
                .remove(&parsed, hermes_hub::files::Removal::Recursive, None)
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
    let mut fuzzing = Fuzzing::begin("patterns");
    let scene = Scene::new();
    scene.put(
        "notes/report.md",
        "an invoice\na Receipt 12\n{start} <a> ſ K\n",
    );
    scene.put("notes/long.md", "x".repeat(20_000));
    while fuzzing.goes_on() {
        let pattern = fuzzing.chance.text();
        let search = Search {
            pattern: pattern.clone(),
            max: Some(u64::try_from(fuzzing.chance.below(2000)).unwrap()),
            ..Search::default()
        };
        if let Err(problem) = scene.files.grep(search, CancellationToken::new()).await {
            assert_eq!(problem.code.status(), 400, "{pattern:?}: {problem:?}");
        }
    }
}

#[tokio::test]
async fn no_glob_is_a_fault() {
    let mut fuzzing = Fuzzing::begin("globs");
    let scene = Scene::new();
    for name in [
        "a.md",
        "[x].md",
        "notes/report.md",
        "notes/ä/deep.txt",
        "a*b",
    ] {
        scene.put(name, "text");
    }
    while fuzzing.goes_on() {
        let name = fuzzing.chance.text();
        let find = Find {
            name: Some(name.clone()),
            ..Find::default()
        };
        if let Err(problem) = scene.files.find(find, CancellationToken::new()).await {
            assert_eq!(problem.code.status(), 400, "{name:?}: {problem:?}");
        }
    }
}
