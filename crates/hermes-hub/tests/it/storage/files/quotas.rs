use futures::future::join_all;
use hermes_hub::{
    ProblemCode,
    storage::files::{FileLimits, QuotaLimits, RemoveMode, TreeUsage},
};

use crate::storage::files::fixture::{AnyShare, path};

fn limited(bytes: Option<u64>, files: Option<u64>) -> FileLimits {
    FileLimits {
        quota: QuotaLimits { bytes, files },
        ..FileLimits::default()
    }
}

/// Checks that the kept usage is what a count finds.
async fn assert_counts_are_true(scene: &AnyShare) -> TreeUsage {
    let kept = scene.files.usage().await.unwrap();
    let counted = scene.count_usage().await;
    assert_eq!(kept, counted);
    counted
}

#[tokio::test]
async fn the_count_follows_every_change() {
    let scene = AnyShare::new().await;
    scene.put("before/a", "12345").await;
    assert_eq!(
        scene.files.usage().await.unwrap(),
        TreeUsage { bytes: 5, files: 2 }
    );
    scene.write("x/y/z", "123").await.unwrap();
    assert_counts_are_true(&scene).await;
    scene.write("x/y/z", "1").await.unwrap();
    scene.append("x/y/z", "23456").await.unwrap();
    scene.append("x/new", "1").await.unwrap();
    scene.files.make_dir(&path("m/n")).await.unwrap();
    assert_counts_are_true(&scene).await;
    scene
        .files
        .relocate(&path("x/y"), &path("m/y"), None)
        .await
        .unwrap();
    assert_counts_are_true(&scene).await;
    scene
        .files
        .remove(&path("m/n"), RemoveMode::Single, None)
        .await
        .unwrap();
    scene
        .files
        .remove(&path("before/a"), RemoveMode::Single, None)
        .await
        .unwrap();
    scene
        .files
        .remove(&path("m"), RemoveMode::Recursive, None)
        .await
        .unwrap();
    let used = assert_counts_are_true(&scene).await;
    assert_eq!(used, TreeUsage { bytes: 1, files: 3 });
}

#[tokio::test]
async fn a_write_over_the_quota_is_refused_and_changes_nothing() {
    let scene = AnyShare::with_limits(limited(Some(10), Some(3))).await;
    scene.write("a", "12345678").await.unwrap();
    for refused in [
        scene.write("b", "123").await,
        scene.append("a", "123").await,
    ] {
        let problem = refused.unwrap_err();
        assert_eq!(
            (problem.code, problem.reason),
            (ProblemCode::OutOfSpace, Some("quota"))
        );
        assert_eq!(problem.code.as_str(), "resource_exhausted");
    }
    let problem = scene.write("x/y/z", "1").await.unwrap_err();
    assert_eq!(problem.reason, Some("quota"));
    assert!(!scene.exists("x").await);
    // The same size or less needs no quota.
    scene.write("a", "87654321").await.unwrap();
    scene.write("a", "1").await.unwrap();
    scene.write("b", "123456789").await.unwrap();
    assert_counts_are_true(&scene).await;
}

#[tokio::test]
async fn other_limits_are_in_force_at_once() {
    let scene = AnyShare::with_limits(limited(Some(1), None)).await;
    assert!(scene.write("a", "12").await.is_err());
    scene.files.set_limits(limited(None, None));
    scene.write("a", "12").await.unwrap();
}

#[tokio::test]
async fn writers_side_by_side_do_not_pass_the_quota_together() {
    let scene = AnyShare::with_limits(limited(Some(1000), None)).await;
    let names: Vec<String> = (0..40).map(|number| format!("f{number}")).collect();
    let content = "x".repeat(100);
    let results = join_all(names.iter().map(|name| scene.write(name, &content))).await;
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 10);
    let used = assert_counts_are_true(&scene).await;
    assert_eq!(
        used,
        TreeUsage {
            bytes: 1000,
            files: 10
        }
    );

    let appended = join_all((0..20).map(|_| scene.append("f0", "x"))).await;
    assert!(appended.iter().all(Result::is_err));
}

#[tokio::test]
async fn the_quota_of_files_holds_in_a_race_too() {
    let scene = AnyShare::with_limits(limited(None, Some(12))).await;
    let names: Vec<String> = (0..30)
        .map(|number| format!("d{}/f{number}", number % 3))
        .collect();
    let results = join_all(names.iter().map(|name| scene.write(name, "x"))).await;
    assert!(results.iter().any(Result::is_ok));
    let used = assert_counts_are_true(&scene).await;
    assert!(used.files <= 12, "{used:?}");
}
