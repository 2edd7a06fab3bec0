//! A node whose disk is full, in a child process: this test binary again, with a small file system.

use std::{env, fs, path::Path, process::Command};

use hermes_hub::{
    Problem,
    storage::checkpoints::{CheckpointError, HomeLimit, RestoreOutcome},
};

use super::CheckpointFixture;

const STAGE_VARIABLE: &str = "HERMES_HUB_TEST_STAGE";
const NAME: &str = "storage::checkpoints_on_postgres::full_disk::a_full_disk_refuses_what_it_has_no_room_for_and_the_home_stays";
const MOUNT: &str =
    "mount -t tmpfs -o size=2m,mode=0700 tmpfs \"$HERMES_HUB_TEST_STAGE\" || exit 77; exec \"$@\"";

#[tokio::test]
async fn a_full_disk_refuses_what_it_has_no_room_for_and_the_home_stays() {
    if let Some(stage) = env::var_os(STAGE_VARIABLE) {
        return work_on_full_disk(Path::new(&stage)).await;
    }
    let program = env::current_exe().unwrap();
    for more in [&[][..], &["--user", "--map-root-user"]] {
        let stage = tempfile::tempdir().unwrap();
        let output = Command::new("unshare")
            .args(more)
            .args(["--mount", "sh", "-c", MOUNT, "sh"])
            .arg(&program)
            .args(["--exact", NAME, "--nocapture"])
            .env(STAGE_VARIABLE, stage.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        // A missing permission to mount is not a failure.
        if output.status.code() == Some(77) || said.contains("unshare:") {
            continue;
        }
        let told = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{said}{told}");
        assert!(told.contains("1 passed"), "{told}");
        return;
    }
    println!("!!! NO MOUNTS HERE: a full disk is NOT tested !!!");
}

#[track_caller]
fn expect_full(error: CheckpointError) {
    let problem = Problem::from(error);
    assert_eq!(
        (problem.code.status(), problem.reason),
        (507, Some("disk_full")),
        "{problem}"
    );
}

async fn work_on_full_disk(stage: &Path) {
    let scene = CheckpointFixture::new().await;
    let large: Vec<u8> = (0..3_000_000_u32)
        .map(|at| (at / 999 % 251) as u8)
        .collect();
    fs::write(scene.path("large"), &large).unwrap();
    let saved = scene.save().await.unwrap();
    // There is an older home, and no room for the next one.
    let home = stage.join("home");
    fs::create_dir(&home).unwrap();
    fs::write(home.join("mine"), "stays").unwrap();
    let home_ref = scene.home_ref(&home);
    expect_full(scene.checkpoints.restore(home_ref).await.unwrap_err());
    assert_eq!(fs::read_to_string(home.join("mine")).unwrap(), "stays");
    let beside: Vec<_> = fs::read_dir(stage).unwrap().collect();
    assert_eq!(beside.len(), 1, "{beside:?}");
    // A database is copied first, for which there is no room either.
    let mut database = b"SQLite format 3\0".to_vec();
    database.extend_from_slice(&large[..1_200_000]);
    fs::write(home.join("state.db"), database).unwrap();
    let epoch = scene.epoch().await;
    let save = scene.checkpoints.save(home_ref, epoch, HomeLimit::NONE);
    expect_full(save.await.unwrap_err());
    let rows = scene.fixture.state.checkpoint_rows().unwrap();
    let latest = rows.latest_checkpoint(&scene.uid).await.unwrap().unwrap();
    assert_eq!(latest.id, saved.id);
    // With room, everything goes on.
    fs::remove_file(home.join("state.db")).unwrap();
    fs::remove_file(scene.path("large")).unwrap();
    fs::write(scene.path("small"), "small").unwrap();
    let saved = scene.save().await.unwrap();
    let restored = scene.checkpoints.restore(home_ref).await.unwrap();
    assert_eq!(restored, RestoreOutcome::Restored(saved.id));
    assert_eq!(fs::read_to_string(home.join("small")).unwrap(), "small");
}
