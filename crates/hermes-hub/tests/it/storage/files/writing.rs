use std::collections::BTreeSet;

use futures::future::join_all;
use hermes_hub::storage::files::{
    CreateOutcome, FileLimits, IfMatch, LineRange, RemoveMode, WriteMode,
};
use serde_json::json;

use crate::storage::files::fixture::{AnyShare, path, problem_status};

#[tokio::test]
async fn a_write_makes_parents_and_tells_whether_the_file_is_new() {
    let scene = AnyShare::new().await;
    let (placed, written) = scene.write("a/b/c.md", "one").await.unwrap();
    assert_eq!(placed, CreateOutcome::Created);
    let value = serde_json::to_value(&written).unwrap();
    assert_eq!(value["bytesWritten"], json!(3));
    assert_eq!(value["path"], json!("a/b/c.md"));
    let (placed, written) = scene.write("a/b/c.md", "another").await.unwrap();
    assert_eq!((placed, written.entry.size), (CreateOutcome::Replaced, 7));
    assert_eq!(scene.content("a/b/c.md").await, "another");
}

#[tokio::test]
async fn every_write_gives_another_etag_even_with_the_same_content() {
    let scene = AnyShare::new().await;
    let mut seen = BTreeSet::new();
    for round in 0..200 {
        let (_, written) = scene.write("a", "same").await.unwrap();
        assert!(seen.insert(written.entry.etag.clone()), "round {round}");
        let now = scene.files.stat(&path("a")).await.unwrap();
        assert_eq!(now.etag, written.entry.etag);
    }
    let before = scene.files.stat(&path("a")).await.unwrap().etag;
    let (_, written) = scene.append("a", "").await.unwrap();
    assert_ne!(written.entry.etag, before);
}

#[tokio::test]
async fn a_write_under_a_condition_needs_that_version() {
    let scene = AnyShare::new().await;
    let (_, first) = scene.write("a", "one").await.unwrap();
    let first = IfMatch::parse(first.entry.etag.as_deref().unwrap()).unwrap();
    for mode in [WriteMode::Overwrite, WriteMode::Append] {
        let absent = scene.write_as("none", "x", mode, Some(IfMatch::Any)).await;
        assert_eq!(problem_status(absent), 412);
        assert!(!scene.exists("none").await);
    }
    scene
        .write_as("a", "two", WriteMode::Overwrite, Some(first.clone()))
        .await
        .unwrap();
    for mode in [WriteMode::Overwrite, WriteMode::Append] {
        let stale = scene
            .write_as("a", "three", mode, Some(first.clone()))
            .await;
        assert_eq!(problem_status(stale), 412);
    }
    let stale = scene
        .files
        .remove(&path("a"), RemoveMode::Single, Some(first.clone()))
        .await;
    assert_eq!(problem_status(stale), 412);
    let stale = scene
        .files
        .relocate(&path("a"), &path("b"), Some(first))
        .await;
    assert_eq!(problem_status(stale), 412);
    assert_eq!(scene.content("a").await, "two");
}

#[tokio::test]
async fn of_many_writers_with_one_version_one_wins() {
    let scene = AnyShare::new().await;
    let (_, first) = scene.write("a", "start").await.unwrap();
    let condition = IfMatch::parse(first.entry.etag.as_deref().unwrap()).unwrap();
    let texts: Vec<String> = (0..20).map(|writer| format!("writer {writer}")).collect();
    let writes = texts
        .iter()
        .map(|text| scene.write_as("a", text, WriteMode::Overwrite, Some(condition.clone())));
    let results = join_all(writes).await;
    let winners: Vec<usize> = (0..20).filter(|index| results[*index].is_ok()).collect();
    assert_eq!(winners.len(), 1);
    let content = scene.content("a").await;
    assert_eq!(content, texts[winners[0]]);
}

#[tokio::test]
async fn concurrent_appends_are_all_whole() {
    let scene = AnyShare::new().await;
    let lines: Vec<String> = (0..100)
        .map(|writer| format!("{writer}:{}\n", writer.to_string().repeat(2000)))
        .collect();
    let results = join_all(lines.iter().map(|line| scene.append("log", line))).await;
    let created = results
        .iter()
        .filter(|result| result.as_ref().unwrap().0 == CreateOutcome::Created)
        .count();
    assert_eq!(created, 1);
    let content = scene.content("log").await;
    let mut found: Vec<&str> = content.split_inclusive('\n').collect();
    let mut expected: Vec<&str> = lines.iter().map(String::as_str).collect();
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
}

#[tokio::test]
async fn readers_see_the_old_or_the_new_content_while_writers_write() {
    let scene = AnyShare::new().await;
    let (old, new) = ("a".repeat(300_000), "b".repeat(300_000));
    scene.write("f", &old).await.unwrap();
    let writing = async {
        for round in 0..30 {
            let text = if round % 2 == 0 { &new } else { &old };
            scene.write("f", text).await.unwrap();
        }
    };
    let target = path("f");
    let reading = async {
        for _ in 0..60 {
            let text = scene
                .files
                .read(&target, LineRange::default())
                .await
                .unwrap();
            assert!(text.content == old || text.content == new);
            let listing = scene.files.list(&path("")).await.unwrap();
            assert_eq!(listing.entries.len(), 1, "{listing:?}");
        }
    };
    tokio::join!(writing, reading);
}

#[tokio::test]
async fn what_cannot_be_written_says_so_and_stays() {
    let scene = AnyShare::with_limits(FileLimits {
        write_bytes: 10,
        ..FileLimits::default()
    })
    .await;
    scene.put("dir/file", "x").await;
    assert_eq!(problem_status(scene.write("big", "01234567890").await), 413);
    assert_eq!(problem_status(scene.write("dir", "x").await), 409);
    assert_eq!(problem_status(scene.write("", "x").await), 409);
    assert_eq!(
        problem_status(scene.write("dir/file/below", "x").await),
        409
    );
    assert_eq!(problem_status(scene.append("dir", "x").await), 409);
    assert!(!scene.exists("big").await);
    assert_eq!(scene.content("dir/file").await, "x");
}

#[tokio::test]
async fn a_directory_is_made_once_and_then_it_is_there() {
    let scene = AnyShare::new().await;
    assert_eq!(
        scene.files.make_dir(&path("a/b")).await.unwrap().0,
        CreateOutcome::Created
    );
    let (placed, entry) = scene.files.make_dir(&path("a/b")).await.unwrap();
    assert_eq!(
        (placed, entry.path.as_str()),
        (CreateOutcome::Replaced, "a/b")
    );
    assert_eq!(
        scene.files.make_dir(&path("")).await.unwrap().0,
        CreateOutcome::Replaced
    );
    scene.put("file", "x").await;
    assert_eq!(
        problem_status(scene.files.make_dir(&path("file")).await),
        409
    );
    assert_eq!(
        problem_status(scene.files.make_dir(&path("file/x")).await),
        409
    );
}
