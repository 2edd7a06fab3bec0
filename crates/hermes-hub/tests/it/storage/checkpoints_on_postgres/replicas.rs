//! A replica that lags and takes the place of its server: the database has less than was acknowledged. What it has is
//! what is true from then on, and no node mixes it up with what it remembers.

use std::{fs, sync::Arc, time::Duration};

use hermes_hub::{
    settings::ObjectSettings,
    storage::{checkpoints::RestoreOutcome, encryption::SecretKey, objects::Objects},
};
use hermes_testkit::{
    eventually_some,
    postgres::{PostgresCluster, PostgresReplica, TestDatabase},
};

use super::CheckpointFixture;
use crate::{
    storage::state::{StateFixture, entry, open_postgres},
    test_hub::TIMEOUT,
};

/// A tenant whose database has a replica.
async fn with_replica() -> (CheckpointFixture, PostgresReplica, String) {
    let cluster = Arc::new(PostgresCluster::start(&[]));
    let database = TestDatabase::create_in(&cluster);
    let replica = PostgresReplica::start(&cluster);
    let url = replica.primary_url(database.name());
    let directory = tempfile::tempdir().unwrap();
    let state = open_postgres(url.clone(), "n1").await;
    let key = SecretKey::load(&directory.path().join("secret.key"), &*state)
        .await
        .unwrap();
    let objects = format!("file://{}", directory.path().join("objects").display());
    let objects = Objects::open(&ObjectSettings::at(objects)).unwrap();
    let fixture = StateFixture {
        directory,
        state,
        key,
        database: Some(database),
    };
    let scene = CheckpointFixture::over(fixture, objects).await;
    (scene, replica, url)
}

/// Writes what the replica does not get, and fails over.
async fn lose_entries(scene: &CheckpointFixture) {
    let state = &scene.fixture.state;
    for _ in 0..3 {
        state.append_audit(vec![entry("lost")]).await.unwrap();
    }
}

/// Waits until the node works with the new server. Its audit log continues what that has.
async fn expect_whole_log(scene: &CheckpointFixture) {
    let state = &scene.fixture.state;
    let back = eventually_some(TIMEOUT, async || {
        state.append_audit(vec![entry("after")]).await.ok()
    });
    back.await.expect("the state does not come back");
    state.append_audit(vec![entry("after")]).await.unwrap();
    let checks = state.verify_audit().await.unwrap();
    assert!(
        checks.iter().all(|check| check.broken.is_none()),
        "{checks:?}"
    );
}

#[tokio::test]
async fn a_node_that_keeps_its_lease_saves_again_what_the_replica_does_not_have() {
    let (scene, replica, url) = with_replica().await;
    fs::write(scene.path("a"), "old").unwrap();
    let first = scene.save().await.unwrap();
    replica.wait_until_current();
    replica.cut_off();
    lose_entries(&scene).await;
    fs::write(scene.path("a"), "new").unwrap();
    let lost = scene.save().await.unwrap();
    assert!(lost.id > first.id);
    replica.take_over();
    expect_whole_log(&scene).await;
    // Nothing has changed in the home since; but the database does not know that checkpoint.
    let rows = scene.fixture.state.checkpoint_rows().unwrap();
    let latest = rows.latest_checkpoint(&scene.uid).await.unwrap().unwrap();
    assert_eq!(latest.id, first.id);
    let saved = scene.save().await.unwrap();
    let latest = rows.latest_checkpoint(&scene.uid).await.unwrap().unwrap();
    assert_eq!(latest.id, saved.id);
    let other = open_postgres(url, "n2").await;
    let restored = scene.restore_as(&*other, "n2").await.unwrap();
    assert_eq!(restored, RestoreOutcome::Restored(saved.id));
    assert_eq!(
        fs::read_to_string(scene.home("n2").join("a")).unwrap(),
        "new"
    );
}

#[tokio::test]
async fn a_lease_that_the_replica_does_not_know_is_lost_and_its_epoch_used_again_without_harm() {
    let (scene, replica, url) = with_replica().await;
    fs::write(scene.path("a"), "kept").unwrap();
    let kept = scene.save().await.unwrap();
    replica.wait_until_current();
    replica.cut_off();
    lose_entries(&scene).await;
    // The next process of the node: it has the next epoch, and saves.
    let state = Arc::clone(&scene.fixture.state);
    let tenants = std::slice::from_ref(&scene.tenant);
    let hour = Duration::from_hours(1);
    let lost_lease = state.claim_leases(tenants, hour).await.unwrap();
    fs::write(scene.path("a"), "lost").unwrap();
    let lost = scene.save().await.unwrap();
    assert!(lost.id.epoch > kept.id.epoch);
    replica.take_over();
    expect_whole_log(&scene).await;

    let renewed = state.renew_leases(&lost_lease, hour).await.unwrap();
    assert!(renewed.is_empty(), "{renewed:?}");
    fs::write(scene.path("a"), "lost, too").unwrap();
    let refused = scene.save_by(&scene.checkpoints, lost.id.epoch).await;
    let refused = refused.unwrap_err();
    assert!(refused.is_lease_lost(), "{refused}");
    // It is another lease, though its epoch has the same number.
    let lease = state.claim_leases(tenants, hour).await.unwrap();
    assert_eq!(lease[0].epoch, lost.id.epoch);
    let home = scene.home("n1");
    scene.checkpoints.release(scene.home_ref(&home), true).await;
    let restored = scene.restore_as(&*state, "n1").await.unwrap();
    assert_eq!(restored, RestoreOutcome::Restored(kept.id));
    assert_eq!(fs::read_to_string(scene.path("a")).unwrap(), "kept");
    fs::write(scene.path("a"), "new").unwrap();
    let saved = scene.save().await.unwrap();
    assert_eq!(saved.id.epoch, lost.id.epoch);
    assert!(saved.id.seq > lost.id.seq, "an object was overwritten");
    let other = open_postgres(url, "n2").await;
    let restored = scene.restore_as(&*other, "n2").await.unwrap();
    assert_eq!(restored, RestoreOutcome::Restored(saved.id));
    assert_eq!(
        fs::read_to_string(scene.home("n2").join("a")).unwrap(),
        "new"
    );
}
