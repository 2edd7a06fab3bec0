use std::{fs, os::unix::fs::symlink};

use futures::future::join_all;
use hermes_hub::{
    ProblemCode,
    storage::files::{Files, RemoveMode, empty_trash},
};
use jiff::{SignedDuration, Timestamp};

use crate::storage::files::fixture::{ShareFixture, path, problem_status};

#[tokio::test]
async fn a_move_never_replaces_anything() {
    let scene = ShareFixture::new();
    scene.put("a", "a");
    scene.put("b", "b");
    scene.put("dir/x", "x");
    for to in ["b", "dir", "a"] {
        let problem = scene
            .files
            .relocate(&path("a"), &path(to), None)
            .await
            .unwrap_err();
        assert_eq!(problem.code, ProblemCode::AlreadyExists, "{to}");
    }
    assert_eq!(fs::read_to_string(scene.on_disk("a")).unwrap(), "a");
    assert_eq!(fs::read_to_string(scene.on_disk("b")).unwrap(), "b");
}

#[tokio::test]
async fn a_move_takes_files_and_whole_directories() {
    let scene = ShareFixture::new();
    scene.put("dir/deep/x", "x");
    let entry = scene
        .files
        .relocate(&path("dir"), &path("other"), None)
        .await
        .unwrap();
    assert_eq!(entry.path, "other");
    let entry = scene
        .files
        .relocate(&path("other/deep/x"), &path("y"), None)
        .await
        .unwrap();
    assert_eq!((entry.name.as_str(), entry.size), ("y", 1));
    assert_eq!(fs::read_to_string(scene.on_disk("y")).unwrap(), "x");
    assert!(!scene.on_disk("dir").exists());
}

#[tokio::test]
async fn the_root_stays_and_nothing_moves_into_itself() {
    let scene = ShareFixture::new();
    scene.put("dir/x", "x");
    let relocate = async |from: &str, to: &str| {
        problem_status(scene.files.relocate(&path(from), &path(to), None).await)
    };
    assert_eq!(relocate("", "a").await, 400);
    assert_eq!(relocate("dir", "").await, 400);
    assert_eq!(relocate("dir", "dir/sub").await, 400);
    assert_eq!(relocate("dir", "dir/a/b").await, 400);
    assert_eq!(relocate("none", "a").await, 404);
    assert_eq!(relocate("dir/x/y", "a").await, 404);
    assert_eq!(relocate("dir/x", "dir/x/y").await, 400);
    assert_eq!(
        problem_status(
            scene
                .files
                .remove(&path(""), RemoveMode::Recursive, None)
                .await
        ),
        400
    );
    assert_eq!(fs::read_to_string(scene.on_disk("dir/x")).unwrap(), "x");
}

#[tokio::test]
async fn of_many_moves_to_one_place_one_succeeds() {
    let scene = ShareFixture::new();
    let names: Vec<String> = (0..16).map(|number| format!("f{number}")).collect();
    for name in &names {
        scene.put(name, name);
    }
    let target = path("target");
    let sources: Vec<_> = names.iter().map(|name| path(name)).collect();
    let moves = sources
        .iter()
        .map(|from| scene.files.relocate(from, &target, None));
    let results = join_all(moves).await;
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
    assert_eq!(fs::read_dir(scene.on_disk("")).unwrap().count(), 16);
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
async fn a_directory_with_content_is_removed_only_on_request() {
    let scene = ShareFixture::new();
    for file in ["archive/1", "archive/2", "archive/3"] {
        scene.put(file, "x");
    }
    fs::create_dir(scene.on_disk("empty")).unwrap();
    let problem = scene
        .files
        .remove(&path("archive"), RemoveMode::Single, None)
        .await
        .unwrap_err();
    assert_eq!(
        (problem.code.status(), problem.reason),
        (409, Some("not_empty"))
    );
    assert_eq!(
        problem.message,
        "`archive` is not empty (3 entries); pass recursive=true"
    );
    assert_eq!(problem.details[0].field, "recursive");
    scene
        .files
        .remove(&path("empty"), RemoveMode::Single, None)
        .await
        .unwrap();
    scene
        .files
        .remove(&path("archive"), RemoveMode::Recursive, None)
        .await
        .unwrap();
    assert_eq!(fs::read_dir(scene.on_disk("")).unwrap().count(), 0);
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
