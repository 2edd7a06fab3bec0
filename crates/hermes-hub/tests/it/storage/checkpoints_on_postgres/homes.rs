use std::{
    ffi::OsStr,
    fs::{self, File},
    io::Write as _,
    os::unix::{
        ffi::OsStrExt as _,
        fs::{PermissionsExt as _, symlink},
        net::UnixListener,
    },
    time::Duration,
};

use hermes_hub::storage::checkpoints::{CheckpointError, Checkpoints, RestoreOutcome};

use super::CheckpointFixture;
use crate::storage::state::StateFixture;

const CHUNK: usize = 1 << 20;

#[tokio::test]
async fn a_home_is_restored_as_it_was() {
    let scene = CheckpointFixture::new().await;
    let unusual = scene.path("").join(OsStr::from_bytes(b"caf\xe9 \"%41\"\n"));
    fs::create_dir_all(scene.path("workspace/empty")).unwrap();
    fs::write(scene.path(".env"), "KEY=1").unwrap();
    fs::set_permissions(scene.path(".env"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(scene.path("workspace/run.sh"), "#!/bin/sh").unwrap();
    fs::set_permissions(
        scene.path("workspace/run.sh"),
        fs::Permissions::from_mode(0o755),
    )
    .unwrap();
    fs::write(scene.path("workspace/Cargo.lock"), "no lock").unwrap();
    fs::write(&unusual, "unusual").unwrap();
    fs::write(scene.path("none"), "").unwrap();
    let large: Vec<u8> = (0..3 * CHUNK + 17)
        .map(|at| u8::try_from(at / 7 % 251).unwrap())
        .collect();
    fs::write(scene.path("large"), &large).unwrap();
    symlink("/etc/passwd", scene.path("link")).unwrap();
    symlink("workspace", scene.path("dirlink")).unwrap();
    // These mean nothing elsewhere.
    let _socket = UnixListener::bind(scene.path("socket")).unwrap();
    fs::write(scene.path("gateway.lock"), "1").unwrap();
    fs::create_dir(scene.path("run")).unwrap();
    fs::write(scene.path("run/pid"), "1").unwrap();
    let modified = fs::metadata(scene.path("large"))
        .unwrap()
        .modified()
        .unwrap();

    let saved = scene.save().await.unwrap();
    assert_eq!(saved.id.seq, 1);
    let (_, outcome) = scene.take_over("n2").await;
    assert_eq!(outcome, RestoreOutcome::Restored(saved.id));

    let home = scene.home("n2");
    let mode = |path: &str| {
        let metadata = fs::symlink_metadata(home.join(path)).unwrap();
        metadata.permissions().mode() & 0o777
    };
    assert_eq!(fs::read(home.join("large")).unwrap(), large);
    assert_eq!(fs::read_to_string(home.join(".env")).unwrap(), "KEY=1");
    assert_eq!((mode(".env"), mode("workspace/run.sh")), (0o600, 0o755));
    assert!(home.join("workspace/empty").is_dir());
    assert_eq!(fs::read(home.join("none")).unwrap(), b"");
    assert!(home.join("workspace/Cargo.lock").is_file());
    let name = unusual.file_name().unwrap();
    assert_eq!(fs::read_to_string(home.join(name)).unwrap(), "unusual");
    assert_eq!(
        fs::read_link(home.join("link")).unwrap().as_os_str(),
        "/etc/passwd"
    );
    assert_eq!(
        fs::read_link(home.join("dirlink")).unwrap().as_os_str(),
        "workspace"
    );
    let restored = fs::metadata(home.join("large"))
        .unwrap()
        .modified()
        .unwrap();
    assert_eq!(restored, modified);
    for gone in ["socket", "gateway.lock", "run"] {
        assert!(!home.join(gone).exists(), "{gone}");
    }
}

#[tokio::test]
async fn what_has_not_changed_is_not_written_again() {
    let scene = CheckpointFixture::new().await;
    let content: Vec<u8> = (0..4 * CHUNK)
        .map(|at| u8::try_from(at / 4096 % 251).unwrap())
        .collect();
    fs::write(scene.path("large"), &content).unwrap();
    fs::write(scene.path("small"), "a").unwrap();
    let first = scene.save().await.unwrap();
    assert_eq!(first.new_chunks, 5);
    let again = scene.save().await.unwrap();
    assert_eq!(again.id, first.id, "nothing has changed");
    let mut large = File::options()
        .append(true)
        .open(scene.path("large"))
        .unwrap();
    large.write_all(b"more").unwrap();
    let grown = scene.save().await.unwrap();
    assert_eq!((grown.id.seq, grown.new_chunks), (2, 1));
    fs::remove_file(scene.path("small")).unwrap();
    let shrunk = scene.save().await.unwrap();
    assert_eq!((shrunk.id.seq, shrunk.new_chunks), (3, 0));
    // A process that knows nothing yet uploads no more.
    let rows = scene.fixture.state.checkpoint_rows().unwrap();
    let other = Checkpoints::new(scene.objects.clone(), rows, scene.fixture.key.clone());
    let same = scene.save_by(&other, scene.epoch().await).await.unwrap();
    assert_eq!(same.id, shrunk.id);
}

#[tokio::test]
async fn neither_contents_nor_names_can_be_read_in_the_storage() {
    let scene = CheckpointFixture::new().await;
    fs::write(scene.path("payroll.txt"), "hunter2 ".repeat(100)).unwrap();
    scene.save().await.unwrap();
    let objects = scene.objects_below("");
    assert_eq!(objects.len(), 2);
    for object in objects {
        let content = fs::read(&object).unwrap();
        for secret in [&b"hunter2"[..], b"payroll"] {
            let found = content.windows(secret.len()).any(|part| part == secret);
            assert!(!found, "{}", object.display());
        }
    }
    let other_key = StateFixture::new().await.key;
    let rows = scene.fixture.state.checkpoint_rows().unwrap();
    let stranger = Checkpoints::new(scene.objects.clone(), rows, other_key);
    let home = scene.home("n2");
    let refused = stranger.restore(scene.home_ref(&home)).await.unwrap_err();
    assert!(
        matches!(refused, CheckpointError::Damaged { .. }),
        "{refused}"
    );
}

#[tokio::test]
async fn a_damaged_checkpoint_leaves_the_home_as_it_is() {
    let scene = CheckpointFixture::new().await;
    fs::write(scene.path("a"), "a").unwrap();
    fs::write(scene.path("b"), "b").unwrap();
    scene.save().await.unwrap();
    let chunk = scene.objects_below("chunks").remove(0);
    let mut content = fs::read(&chunk).unwrap();
    let last = content.len() - 1;
    content[last] ^= 1;
    fs::write(&chunk, content).unwrap();
    let home = scene.home("n2");
    fs::create_dir_all(&home).unwrap();
    fs::write(home.join("mine"), "stays").unwrap();
    let state = scene.fixture.another_node("n2").await;
    let refused = scene.restore_as(&*state, "n2").await.unwrap_err();
    assert!(
        matches!(refused, CheckpointError::Damaged { .. }),
        "{refused}"
    );
    assert_eq!(fs::read_to_string(home.join("mine")).unwrap(), "stays");
    let beside = fs::read_dir(home.parent().unwrap()).unwrap().count();
    assert_eq!(beside, 1, "something was left beside the home");
}

#[tokio::test]
async fn old_checkpoints_go_and_the_latest_can_be_restored() {
    let scene = CheckpointFixture::new().await;
    fs::write(scene.path("kept"), "kept").unwrap();
    for round in 0..6 {
        fs::write(scene.path("changing"), format!("round {round}")).unwrap();
        scene.save().await.unwrap();
    }
    assert_eq!(
        scene
            .checkpoints
            .prune(&scene.uid, Duration::from_hours(1))
            .await
            .unwrap(),
        0
    );
    assert_eq!(
        scene
            .checkpoints
            .prune(&scene.uid, Duration::ZERO)
            .await
            .unwrap(),
        3
    );
    assert_eq!(scene.objects_below("ckpt").len(), 3);
    assert_eq!(scene.objects_below("chunks").len(), 4);
    // What this process remembers is still true.
    fs::write(scene.path("changing"), "round 0").unwrap();
    assert_eq!(scene.save().await.unwrap().new_chunks, 1);
    scene.take_over("n2").await;
    let home = scene.home("n2");
    assert_eq!(
        fs::read_to_string(home.join("changing")).unwrap(),
        "round 0"
    );
    assert_eq!(fs::read_to_string(home.join("kept")).unwrap(), "kept");
}

#[tokio::test]
async fn nothing_stays_of_a_tenant_that_is_gone() {
    let scene = CheckpointFixture::new().await;
    fs::write(scene.path("a"), "a").unwrap();
    scene.save().await.unwrap();
    scene.checkpoints.remove_abandoned().await.unwrap();
    assert_eq!(scene.objects_below("").len(), 2);
    let database = scene.fixture.database.as_ref().unwrap();
    database.run_sql("DELETE FROM tenants");
    scene.checkpoints.remove_abandoned().await.unwrap();
    assert_eq!(scene.objects_below("").len(), 0);
    let rows = scene.fixture.state.checkpoint_rows().unwrap();
    assert_eq!(rows.checkpoints(&scene.uid).await.unwrap(), []);
}
