//! Blobs: shared by nodes and files, deleted when nobody refers to them, and never believed without a look.

use std::{fs, path::PathBuf, sync::Arc, time::Duration};

use futures::future::join_all;
use hermes_hub::{
    api_types::Time,
    storage::files::{FileLimits, Files, GrepQuery, LineRange, RemoveMode, WriteMode},
};
use tokio_util::sync::CancellationToken;

use crate::storage::files::fixture::{ObjectShareFixture, path, problem_status};

fn blobs_on_disk(fixture: &ObjectShareFixture) -> Vec<PathBuf> {
    let root = fixture.directory.path().join("objects/blobs");
    let Ok(directories) = fs::read_dir(root) else {
        return Vec::new();
    };
    directories
        .flat_map(|entry| fs::read_dir(entry.unwrap().path()).unwrap())
        .map(|entry| entry.unwrap().path())
        .collect()
}

async fn write(files: &impl Files, to: &str, content: &str) {
    let (to, content) = (path(to), content.as_bytes().to_vec().into());
    let written = files.write(&to, content, WriteMode::Overwrite, None);
    written.await.unwrap();
}

#[tokio::test]
async fn a_blob_goes_when_nothing_refers_to_it_and_its_content_can_come_back() {
    let fixture = ObjectShareFixture::new().await;
    let files = fixture.open(FileLimits::default());
    let blobs = fixture.blobs("cache");
    write(&files, "a", "same").await;
    write(&files, "b", "same").await;
    write(&files, "c", "other").await;
    assert_eq!(blobs_on_disk(&fixture).len(), 2);
    // Young blobs stay, whatever refers to them.
    files
        .remove(&path("c"), RemoveMode::Single, None)
        .await
        .unwrap();
    assert_eq!(blobs.remove_unused().await.unwrap(), 0);
    // What is in the trash is still referred to.
    assert_eq!(blobs.remove_unused_for(Duration::ZERO).await.unwrap(), 0);
    let index = fixture.state.share_index().unwrap();
    let later = Time::now().after(Duration::from_hours(1));
    assert_eq!(index.empty_share_trash(later).await.unwrap(), 1);
    assert_eq!(blobs.remove_unused_for(Duration::ZERO).await.unwrap(), 1);
    assert_eq!(blobs_on_disk(&fixture).len(), 1);
    let text = files.read(&path("b"), LineRange::default()).await.unwrap();
    assert_eq!(text.content, "same");

    write(&files, "c", "other").await;
    let text = files.read(&path("c"), LineRange::default()).await.unwrap();
    assert_eq!(text.content, "other");
}

#[tokio::test]
async fn a_blob_that_was_changed_in_the_storage_is_not_given_out() {
    let fixture = ObjectShareFixture::new().await;
    let files = fixture.open(FileLimits::default());
    write(&files, "a", "needle\n").await;
    write(&files, "b", "needle\n again").await;
    for blob in blobs_on_disk(&fixture) {
        let content = fs::read_to_string(&blob).unwrap();
        if content == "needle\n" {
            fs::write(&blob, "NEEDLE\n").unwrap();
        }
    }
    let read = files.read(&path("a"), LineRange::default()).await;
    assert_eq!(problem_status(read), 500);
    let search = GrepQuery {
        pattern: "(?i)needle".into(),
        ..GrepQuery::default()
    };
    let found = files.grep(search, CancellationToken::new()).await.unwrap();
    assert_eq!((found.matches.len(), found.files_skipped), (1, 1));
    assert_eq!(found.matches[0].path, "b");
}

#[tokio::test]
async fn nodes_that_append_to_one_file_lose_nothing_and_keep_the_quota() {
    let fixture = ObjectShareFixture::new().await;
    let nodes: Vec<_> = (0..3)
        .map(|_| Arc::new(fixture.open(FileLimits::default())))
        .collect();
    let target = path("log");
    let lines: Vec<String> = (0..30).map(|number| format!("{number}\n")).collect();
    let appends = lines.iter().zip(nodes.iter().cycle()).map(|(line, node)| {
        let content = line.clone().into_bytes().into();
        node.write(&target, content, WriteMode::Append, None)
    });
    for appended in join_all(appends).await {
        appended.unwrap();
    }
    let text = nodes[0].read(&target, LineRange::default()).await.unwrap();
    let mut found: Vec<&str> = text.content.split_inclusive('\n').collect();
    let mut expected: Vec<&str> = lines.iter().map(String::as_str).collect();
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
    let usage = nodes[1].usage().await.unwrap();
    assert_eq!((usage.bytes, usage.files), (text.size, 1));
}

#[tokio::test]
async fn a_file_that_grows_is_many_blobs_and_reads_as_one() {
    let fixture = ObjectShareFixture::new().await;
    let files = fixture.open(FileLimits {
        read_bytes: 64 << 20,
        ..FileLimits::default()
    });
    let target = path("big");
    let mut expected = String::new();
    for number in 0..5 {
        let part = format!("{number}{}\n", "x".repeat(700_000));
        expected.push_str(&part);
        files
            .write(&target, part.into_bytes().into(), WriteMode::Append, None)
            .await
            .unwrap();
    }
    let text = files.read(&target, LineRange::default()).await.unwrap();
    assert_eq!((text.total_lines, text.size), (5, expected.len() as u64));
    assert!(text.content == expected);
    let search = GrepQuery {
        pattern: "^4x".into(),
        ..GrepQuery::default()
    };
    let found = files.grep(search, CancellationToken::new()).await.unwrap();
    assert_eq!(found.matches[0].line, 5);
}

#[tokio::test]
async fn without_object_storage_a_write_is_refused_and_what_was_there_stays() {
    let fixture = ObjectShareFixture::new().await;
    let files = fixture.open(FileLimits::default());
    write(&files, "a", "before").await;
    let objects = fixture.directory.path().join("objects");
    let away = fixture.directory.path().join("away");
    fs::rename(&objects, &away).unwrap();
    fs::write(&objects, "no directory").unwrap();
    let content = bytes::Bytes::from_static(b"after");
    let target = path("a");
    let refused = files.write(&target, content, WriteMode::Overwrite, None);
    assert_eq!(problem_status(refused.await), 503);
    fs::remove_file(&objects).unwrap();
    fs::rename(&away, &objects).unwrap();
    let text = files.read(&path("a"), LineRange::default()).await.unwrap();
    assert_eq!(text.content, "before");
}
