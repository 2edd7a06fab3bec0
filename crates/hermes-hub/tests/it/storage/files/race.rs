//! Replaces directories and files by links while operations run.

use std::{fs, os::unix::fs::symlink};

use bytes::Bytes;
use hermes_hub::storage::files::{Files, FindQuery, GrepQuery, LineRange, RemoveMode, WriteMode};
use tokio_util::sync::CancellationToken;

use crate::{
    link_swapper::LinkSwapper,
    storage::files::fixture::{ShareFixture, path},
};

const ROUNDS: usize = 150;

#[tokio::test]
async fn nothing_outside_is_read_or_written_while_links_are_swapped_in() {
    let scene = ShareFixture::new();
    scene.put("dir/secret", "inside");
    scene.put("dir/sub/secret", "inside");
    scene.put("file", "inside");
    symlink(scene.outside(), scene.on_disk("dirlink")).unwrap();
    symlink("../outside", scene.on_disk("sublink")).unwrap();
    symlink(scene.outside().join("secret"), scene.on_disk("filelink")).unwrap();
    let adversary = LinkSwapper::start(vec![
        (scene.on_disk("dir"), scene.on_disk("dirlink")),
        (scene.on_disk("file"), scene.on_disk("filelink")),
        (scene.on_disk("dir/sub"), scene.on_disk("sublink")),
    ]);
    let mut succeeded = 0;
    for round in 0..ROUNDS {
        succeeded += try_all_operations(&scene, round).await;
        scene.assert_outside_is_untouched();
    }
    let swaps = adversary.stop();
    assert!(swaps > 100, "only {swaps} swaps");
    assert!(succeeded > 0, "no operation ever met the real directory");
    scene.assert_outside_is_untouched();
}

/// Tries every operation; returns how many succeeded.
async fn try_all_operations(scene: &ShareFixture, round: usize) -> usize {
    let files = &scene.files;
    let mut succeeded = 0;
    for target in ["dir/secret", "file", "dir/sub/secret"] {
        if let Ok(text) = files.read(&path(target), LineRange::default()).await {
            assert!(!text.content.contains("SECRET"), "{target} led outside");
            succeeded += 1;
        }
        let _ = files.stat(&path(target)).await;
    }
    for target in ["dir/new", "dir/sub/new", "file", "dir/secret"] {
        for mode in [WriteMode::Overwrite, WriteMode::Append] {
            let content = Bytes::from_static(b"inside");
            let written = files.write(&path(target), content, mode, None).await;
            succeeded += usize::from(written.is_ok());
        }
    }
    if let Ok(listing) = files.list(&path("dir")).await {
        assert!(
            listing
                .entries
                .iter()
                .all(|entry| !entry.path.contains("outside"))
        );
    }
    for (pattern, at) in [("SECRET", "dir"), ("SECRET", ""), ("SECRET", "file")] {
        let search = GrepQuery {
            pattern: pattern.into(),
            path: Some(path(at)),
            ..GrepQuery::default()
        };
        if let Ok(found) = files.grep(search, CancellationToken::new()).await {
            assert_eq!(found.matches, [], "{at} led outside");
        }
    }
    let _ = files
        .find(FindQuery::default(), CancellationToken::new())
        .await;
    let made = path(&format!("dir/made{round}"));
    let _ = files.make_dir(&made).await;
    let moved = path(&format!("dir/moved{round}"));
    let _ = files.relocate(&path("dir/secret"), &moved, None).await;
    let _ = files.relocate(&moved, &path("dir/secret"), None).await;
    let _ = files
        .remove(&path("dir/new"), RemoveMode::Single, None)
        .await;
    let _ = files.remove(&made, RemoveMode::Recursive, None).await;
    // Restores what was moved or removed at a bad moment.
    if !fs::exists(scene.on_disk("file")).unwrap_or(true) {
        let _ = fs::write(scene.on_disk("file"), "inside");
    }
    succeeded
}
