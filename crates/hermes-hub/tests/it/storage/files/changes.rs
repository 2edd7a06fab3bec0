use futures::future::join_all;
use hermes_hub::{ProblemCode, storage::files::RemoveMode};

use crate::storage::files::fixture::{AnyShare, path, problem_status};

#[tokio::test]
async fn a_move_never_replaces_anything() {
    let scene = AnyShare::new().await;
    scene.put("a", "a").await;
    scene.put("b", "b").await;
    scene.put("dir/x", "x").await;
    for to in ["b", "dir", "a"] {
        let problem = scene
            .files
            .relocate(&path("a"), &path(to), None)
            .await
            .unwrap_err();
        assert_eq!(problem.code, ProblemCode::AlreadyExists, "{to}");
    }
    assert_eq!(scene.content("a").await, "a");
    assert_eq!(scene.content("b").await, "b");
}

#[tokio::test]
async fn a_move_takes_files_and_whole_directories() {
    let scene = AnyShare::new().await;
    scene.put("dir/deep/x", "x").await;
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
    assert_eq!(scene.content("y").await, "x");
    assert!(!scene.exists("dir").await);
}

#[tokio::test]
async fn the_root_stays_and_nothing_moves_into_itself() {
    let scene = AnyShare::new().await;
    scene.put("dir/x", "x").await;
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
    assert_eq!(scene.content("dir/x").await, "x");
}

#[tokio::test]
async fn of_many_moves_to_one_place_one_succeeds() {
    let scene = AnyShare::new().await;
    let names: Vec<String> = (0..16).map(|number| format!("f{number}")).collect();
    for name in &names {
        scene.put(name, name).await;
    }
    let target = path("target");
    let sources: Vec<_> = names.iter().map(|name| path(name)).collect();
    let moves = sources
        .iter()
        .map(|from| scene.files.relocate(from, &target, None));
    let results = join_all(moves).await;
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
    assert_eq!(scene.count("").await, 16);
}

#[tokio::test]
async fn a_directory_with_content_is_removed_only_on_request() {
    let scene = AnyShare::new().await;
    for file in ["archive/1", "archive/2", "archive/3"] {
        scene.put(file, "x").await;
    }
    scene.files.make_dir(&path("empty")).await.unwrap();
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
    assert_eq!(scene.count("").await, 0);
}

#[tokio::test]
async fn what_was_removed_comes_back_where_it_was() {
    let scene = AnyShare::new().await;
    scene.put("dir/deep/x", "x").await;
    scene.put("dir/y", "yy").await;
    let before = scene.files.usage().await.unwrap();
    let remove = async |at: &str| {
        let at = path(at);
        let removed = scene.files.remove(&at, RemoveMode::Recursive, None);
        removed.await.unwrap();
    };
    remove("dir/deep").await;
    remove("dir").await;
    let trash = scene.files.list_trash().await.unwrap();
    let paths: Vec<&str> = trash.iter().map(|entry| entry.path.as_str()).collect();
    assert_eq!(paths, ["dir", "dir/deep"]);
    // A directory that is gone by now is made again.
    let restored = scene.files.restore(&trash[1].id).await.unwrap();
    assert_eq!(restored.path, "dir/deep");
    assert_eq!(scene.content("dir/deep/x").await, "x");
    let taken = scene.files.restore(&trash[0].id).await;
    assert_eq!(taken.unwrap_err().code, ProblemCode::AlreadyExists);
    remove("dir").await;
    scene.files.restore(&trash[0].id).await.unwrap();
    assert_eq!(scene.content("dir/y").await, "yy");
    assert_eq!(problem_status(scene.files.restore(&trash[0].id).await), 404);
    for id in ["", "..", "../share", "1", "1-", "x"] {
        assert_eq!(problem_status(scene.files.restore(id).await), 404, "{id}");
    }
    let left = scene.files.list_trash().await.unwrap();
    scene
        .files
        .relocate(&path("dir"), &path("other"), None)
        .await
        .unwrap();
    scene.files.restore(&left[0].id).await.unwrap();
    scene
        .files
        .relocate(&path("dir/deep"), &path("other/deep"), None)
        .await
        .unwrap();
    remove("dir").await;
    assert_eq!(scene.files.usage().await.unwrap(), before);
}

#[tokio::test]
async fn any_part_of_a_file_is_read_as_it_is() {
    let scene = AnyShare::new().await;
    scene.put("a", "0123456789").await;
    for (start, most, part) in [(0, 4, "0123"), (8, 4, "89"), (10, 4, ""), (99, 4, "")] {
        let (entry, bytes) = scene
            .files
            .read_part(&path("a"), start, most)
            .await
            .unwrap();
        assert_eq!((entry.size, &bytes[..]), (10, part.as_bytes()));
    }
    assert_eq!(
        problem_status(scene.files.read_part(&path("b"), 0, 1).await),
        404
    );
}
