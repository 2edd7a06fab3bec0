//! Homes that are large, or seem to be.

use std::{
    fs::{self, File},
    os::unix::fs::{FileExt as _, MetadataExt as _},
    path::Path,
};

use hermes_hub::{
    Problem,
    storage::checkpoints::{CheckpointError, HomeLimit, RestoreOutcome, SavedCheckpoint},
};

use super::CheckpointFixture;

const CHUNK: u64 = 1 << 20;
const HUGE: u64 = 64 << 30;

/// A file that seems to be huge, with some text far inside.
fn make_sparse(path: &Path, start: &[u8]) {
    let file = File::create(path).unwrap();
    file.set_len(HUGE).unwrap();
    file.write_all_at(start, 0).unwrap();
    file.write_all_at(b"far inside", HUGE / 2 + 12_345).unwrap();
}

fn check_sparse(path: &Path, start: &[u8]) {
    let metadata = fs::metadata(path).unwrap();
    assert_eq!(metadata.len(), HUGE);
    let on_disk = metadata.blocks() * 512;
    assert!(on_disk < 16 * CHUNK, "{on_disk} bytes on the disk");
    let file = File::open(path).unwrap();
    let mut found = vec![0; start.len()];
    file.read_exact_at(&mut found, 0).unwrap();
    assert_eq!(found, start);
    let mut found = [0; 10];
    file.read_exact_at(&mut found, HUGE / 2 + 12_345).unwrap();
    assert_eq!(&found, b"far inside");
}

#[tokio::test]
async fn a_huge_file_with_holes_costs_what_is_in_it_and_is_restored_with_its_holes() {
    let scene = CheckpointFixture::new().await;
    make_sparse(&scene.path("image"), b"text");
    // What looks like a database is copied before it is read.
    make_sparse(&scene.path("fake.db"), b"SQLite format 3\0");
    let empty = File::create(scene.path("empty")).unwrap();
    empty.set_len(HUGE).unwrap();
    let saved = scene.save().await.unwrap();
    assert_eq!(saved.bytes, 4 * CHUNK);
    assert_eq!(saved.new_chunks, 3, "one of them is in both files");
    let (_, outcome) = scene.take_over("n2").await;
    assert_eq!(outcome, RestoreOutcome::Restored(saved.id));
    let home = scene.home("n2");
    check_sparse(&home.join("image"), b"text");
    check_sparse(&home.join("fake.db"), b"SQLite format 3\0");
    let empty = fs::metadata(home.join("empty")).unwrap();
    assert_eq!((empty.len(), empty.blocks()), (HUGE, 0));
}

async fn save_within(
    scene: &CheckpointFixture,
    limit: HomeLimit,
) -> Result<SavedCheckpoint, CheckpointError> {
    let home = scene.home("n1");
    let epoch = scene.epoch().await;
    scene
        .checkpoints
        .save(scene.home_ref(&home), epoch, limit)
        .await
}

#[tokio::test]
async fn a_home_beyond_its_limit_is_refused_until_it_is_smaller_and_its_checkpoint_stays() {
    let scene = CheckpointFixture::new().await;
    let limit = HomeLimit {
        bytes: 4 * CHUNK,
        files: 20,
    };
    fs::write(scene.path("a"), "a").unwrap();
    let first = save_within(&scene, limit).await.unwrap();
    let large: Vec<u8> = (0..6 * CHUNK)
        .map(|at| u8::try_from(at / 7919 % 251).unwrap())
        .collect();
    fs::write(scene.path("large"), large).unwrap();
    let refused = save_within(&scene, limit).await.unwrap_err();
    assert!(
        matches!(refused, CheckpointError::TooLarge { .. }),
        "{refused}"
    );
    let problem = Problem::from(refused);
    assert_eq!(
        (problem.code.status(), problem.reason),
        (507, Some("home_too_large"))
    );
    assert!(problem.message.contains("storage.quotaBytes"), "{problem}");
    // It is not read and written up to the limit again and again.
    let objects = scene.objects_below("").len();
    for chunk in scene.objects_below("chunks") {
        fs::remove_file(chunk).unwrap();
    }
    let without = scene.objects_below("").len();
    assert!(without < objects);
    save_within(&scene, limit).await.unwrap_err();
    assert_eq!(scene.objects_below("").len(), without);
    let rows = scene.fixture.state.checkpoint_rows().unwrap();
    let latest = rows.latest_checkpoint(&scene.uid).await.unwrap().unwrap();
    assert_eq!(latest.id, first.id);

    fs::remove_file(scene.path("large")).unwrap();
    fs::write(scene.path("b"), "b").unwrap();
    let saved = save_within(&scene, limit).await.unwrap();
    assert!(saved.id > first.id);
    for number in 0..30 {
        fs::write(scene.path(&format!("small{number}")), "").unwrap();
    }
    let refused = save_within(&scene, limit).await.unwrap_err();
    assert!(
        matches!(refused, CheckpointError::TooLarge { .. }),
        "{refused}"
    );
}

#[tokio::test]
async fn a_database_beyond_the_limit_is_not_copied_to_the_disk() {
    let scene = CheckpointFixture::new().await;
    let file = File::create(scene.path("large.db")).unwrap();
    file.write_all_at(b"SQLite format 3\0", 0).unwrap();
    // Little on the disk, but much to read.
    for chunk in 0..40 {
        file.write_all_at(b"x", chunk * CHUNK + 100).unwrap();
    }
    let limit = HomeLimit {
        bytes: 8 * CHUNK,
        files: 100,
    };
    let refused = save_within(&scene, limit).await.unwrap_err();
    assert!(
        matches!(refused, CheckpointError::TooLarge { .. }),
        "{refused}"
    );
}
