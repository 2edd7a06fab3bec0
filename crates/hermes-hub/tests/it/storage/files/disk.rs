//! What is true only of shares in directories.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
};

use hermes_hub::storage::files::{Files, LineRange, RemoveMode, TreeUsage, empty_trash};
use jiff::{SignedDuration, Timestamp};

use crate::storage::files::fixture::{ShareFixture, path, problem_status};

fn mode(scene: &ShareFixture, path: &str) -> u32 {
    fs::metadata(scene.on_disk(path))
        .unwrap()
        .permissions()
        .mode()
        & 0o7777
}

#[tokio::test]
async fn messages_name_the_path_in_the_share_and_never_the_one_on_the_disk() {
    let scene = ShareFixture::new();
    scene.put("dir/file", "text");
    fs::remove_dir(scene.directory.path().join("trash")).unwrap();
    let disk = scene.directory.path().to_str().unwrap();
    let problems = [
        scene.files.list(&path("dir/file")).await.unwrap_err(),
        scene
            .files
            .read(&path("none"), LineRange::default())
            .await
            .unwrap_err(),
        scene
            .files
            .remove(&path("dir/file"), RemoveMode::Single, None)
            .await
            .unwrap_err(),
        scene.write("dir", "x").await.unwrap_err(),
    ];
    for problem in problems {
        assert!(!problem.message.contains(disk), "{problem}");
    }
}

#[tokio::test]
async fn nothing_the_share_makes_is_open_to_others_or_can_be_executed() {
    let scene = ShareFixture::new();
    scene.write("a/over", "x").await.unwrap();
    scene.append("b/added", "x").await.unwrap();
    scene.files.make_dir(&path("c/d")).await.unwrap();
    scene.put("old", "x");
    fs::set_permissions(scene.on_disk("old"), fs::Permissions::from_mode(0o4777)).unwrap();
    scene.write("old", "y").await.unwrap();
    for file in ["a/over", "b/added", "old"] {
        assert_eq!(mode(&scene, file), 0o600, "{file}");
    }
    for directory in ["a", "b", "c", "c/d"] {
        assert_eq!(mode(&scene, directory), 0o700, "{directory}");
    }
}

#[tokio::test]
async fn what_is_removed_lies_in_the_trash() {
    let scene = ShareFixture::new();
    scene.put("a", "content");
    scene.put("dir/sub/x", "x");
    scene
        .files
        .remove(&path("a"), RemoveMode::Single, None)
        .await
        .unwrap();
    scene
        .files
        .remove(&path("dir"), RemoveMode::Recursive, None)
        .await
        .unwrap();
    assert_eq!(fs::read_dir(scene.on_disk("")).unwrap().count(), 0);
    let trash = scene.directory.path().join("trash");
    let mut discarded: Vec<_> = fs::read_dir(trash)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_none())
        .collect();
    discarded.sort();
    assert_eq!(discarded.len(), 2);
    assert!(
        discarded
            .iter()
            .any(|path| fs::read_to_string(path).is_ok_and(|text| text == "content"))
    );
    assert!(discarded.iter().any(|path| path.join("sub/x").is_file()));
    assert_eq!(
        problem_status(
            scene
                .files
                .remove(&path("a"), RemoveMode::Single, None)
                .await
        ),
        404
    );
}

#[tokio::test]
async fn the_trash_is_emptied_of_what_is_old_and_ours() {
    let scene = ShareFixture::new();
    scene.put("a", "x");
    scene.put("dir/x", "x");
    symlink(scene.outside(), scene.on_disk("dir/link")).unwrap();
    for name in ["a", "dir"] {
        let target = path(name);
        scene
            .files
            .remove(&target, RemoveMode::Recursive, None)
            .await
            .unwrap();
    }
    let trash = scene.directory.path().join("trash");
    fs::write(trash.join("note"), "not ours").unwrap();
    let now = Timestamp::now();
    let hour = SignedDuration::from_hours(1);
    assert_eq!(empty_trash(&trash, now - hour).unwrap(), 0);
    assert_eq!(empty_trash(&trash, now + hour).unwrap(), 2);
    assert_eq!(fs::read_dir(&trash).unwrap().count(), 1);
    scene.assert_outside_is_untouched();
}

#[tokio::test]
async fn remnants_of_interrupted_writes_are_invisible_and_cleared() {
    let scene = ShareFixture::new();
    scene.put("a", "12");
    scene.put("dir/.hub-tmp-0123456789abcdef", "unfinished");
    let listing = scene.files.list(&path("dir")).await.unwrap();
    assert_eq!(listing.entries, []);
    assert_eq!(
        scene.files.recount().await.unwrap(),
        TreeUsage { bytes: 2, files: 2 }
    );
    assert_eq!(fs::read_dir(scene.on_disk("dir")).unwrap().count(), 0);
}
