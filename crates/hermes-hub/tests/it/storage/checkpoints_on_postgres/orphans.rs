//! What saves have left that were never recorded.

use std::{fs, time::Duration};

use hermes_hub::storage::checkpoints::{Checkpoints, HomeLimit, RestoreOutcome};

use super::{CheckpointFixture, leases::killed_before_recording};

#[tokio::test]
async fn what_was_never_recorded_goes_after_a_while_and_nothing_else_does() {
    let scene = CheckpointFixture::new().await;
    fs::write(scene.path("a"), "old").unwrap();
    scene.save().await.unwrap();
    // A node that is killed before it records what it has written.
    fs::write(scene.path("a"), "lost").unwrap();
    let killed = killed_before_recording(&scene);
    let epoch = scene.epoch().await;
    scene.save_by(&killed, epoch).await.unwrap_err();
    let (chunks, manifests) = (
        scene.objects_below("chunks").len(),
        scene.objects_below("ckpt").len(),
    );
    assert_eq!((chunks, manifests), (2, 2));
    // As long as the epoch lasts, a save may still refer to it.
    let remove =
        async |checkpoints: &Checkpoints, age| checkpoints.remove_orphans(age).await.unwrap();
    assert_eq!(remove(&scene.checkpoints, Duration::ZERO).await, 0);

    let (state, _) = scene.take_over("n2").await;
    let rows = state.checkpoint_rows().unwrap();
    let next = Checkpoints::new(scene.objects.clone(), rows, scene.fixture.key.clone());
    let home = scene.home("n2");
    fs::write(home.join("b"), "new").unwrap();
    let epoch = state.held_epoch(&scene.tenant).unwrap();
    let saved = next
        .save(scene.home_ref(&home), epoch, HomeLimit::NONE)
        .await
        .unwrap();
    assert_eq!(remove(&next, Duration::from_hours(1)).await, 0);
    assert_eq!(remove(&next, Duration::ZERO).await, 2);
    assert_eq!(scene.objects_below("chunks").len(), 2);
    assert_eq!(remove(&next, Duration::ZERO).await, 0);
    let restored = scene.restore_as(&*state, "n3").await.unwrap();
    assert_eq!(restored, RestoreOutcome::Restored(saved.id));
    let text = |name: &str| fs::read_to_string(scene.home("n3").join(name)).unwrap();
    assert_eq!((text("a"), text("b")), ("old".into(), "new".into()));
}
