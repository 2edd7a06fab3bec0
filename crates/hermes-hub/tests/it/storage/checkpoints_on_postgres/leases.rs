//! Who may make a checkpoint the latest one, and what a node that dies on the way leaves.

use std::{fs, sync::Arc};

use async_trait::async_trait;
use futures::future::join_all;
use hermes_hub::storage::{
    checkpoints::{CheckpointError, Checkpoints, RestoreOutcome},
    state::{CheckpointId, CheckpointRow, CheckpointStore, NewCheckpoint, State, StateError},
};

use super::CheckpointFixture;
use crate::storage::state::hold_lease;

/// What happens when a checkpoint is about to be recorded.
enum Recording {
    /// The process ends before.
    Killed,
    /// Another node takes the lease.
    LeaseTaken(Arc<dyn State>),
}

struct FaultyRows {
    rows: Arc<dyn CheckpointStore>,
    recording: Recording,
    database: String,
    run_sql: Box<dyn Fn(&str) + Send + Sync>,
}

#[async_trait]
impl CheckpointStore for FaultyRows {
    async fn checkpoints(&self, uid: &str) -> Result<Vec<CheckpointRow>, StateError> {
        self.rows.checkpoints(uid).await
    }

    async fn latest_checkpoint(&self, uid: &str) -> Result<Option<CheckpointRow>, StateError> {
        self.rows.latest_checkpoint(uid).await
    }

    async fn record_checkpoint(&self, checkpoint: &NewCheckpoint) -> Result<(), StateError> {
        match &self.recording {
            Recording::Killed => Err(StateError::Unavailable(self.database.clone())),
            Recording::LeaseTaken(state) => {
                (self.run_sql)("UPDATE leases SET node = NULL");
                hold_lease(&**state, &checkpoint.tenant).await;
                self.rows.record_checkpoint(checkpoint).await
            }
        }
    }

    async fn forget_checkpoints(&self, uid: &str, ids: &[CheckpointId]) -> Result<(), StateError> {
        self.rows.forget_checkpoints(uid, ids).await
    }

    async fn abandoned_checkpoints(&self) -> Result<Vec<String>, StateError> {
        self.rows.abandoned_checkpoints().await
    }
}

fn faulty(scene: &CheckpointFixture, recording: Recording) -> Checkpoints {
    let cluster = Arc::clone(scene.fixture.database.as_ref().unwrap().cluster());
    let name = scene.fixture.database.as_ref().unwrap().name().to_owned();
    let rows = FaultyRows {
        rows: scene.fixture.state.checkpoint_rows().unwrap(),
        recording,
        database: name.clone(),
        run_sql: Box::new(move |sql| {
            cluster.run_sql(&name, sql);
        }),
    };
    Checkpoints::new(
        scene.objects.clone(),
        Arc::new(rows),
        scene.fixture.key.clone(),
    )
}

/// A process that ends before it records a checkpoint.
pub(super) fn killed_before_recording(scene: &CheckpointFixture) -> Checkpoints {
    faulty(scene, Recording::Killed)
}

#[tokio::test]
async fn a_node_without_the_lease_changes_nothing() {
    let scene = CheckpointFixture::new().await;
    fs::write(scene.path("a"), "old").unwrap();
    let first = scene.save().await.unwrap();
    let epoch = scene.epoch().await;
    let (state, _) = scene.take_over("n2").await;
    fs::write(scene.path("a"), "of the node that was cut off").unwrap();
    let refused = scene.save_by(&scene.checkpoints, epoch).await.unwrap_err();
    assert!(refused.is_lease_lost(), "{refused}");
    let rows = state.checkpoint_rows().unwrap();
    let latest = rows.latest_checkpoint(&scene.uid).await.unwrap().unwrap();
    assert_eq!(latest.id, first.id);
    assert_eq!(
        fs::read_to_string(scene.home("n2").join("a")).unwrap(),
        "old"
    );
}

#[tokio::test]
async fn a_lease_lost_in_the_middle_of_a_checkpoint_leaves_the_old_one() {
    let scene = CheckpointFixture::new().await;
    fs::write(scene.path("a"), "old").unwrap();
    let first = scene.save().await.unwrap();
    let other = scene.fixture.another_node("n2").await;
    let checkpoints = faulty(&scene, Recording::LeaseTaken(Arc::clone(&other)));
    fs::write(scene.path("a"), "new").unwrap();
    let epoch = scene.epoch().await;
    let refused = scene.save_by(&checkpoints, epoch).await.unwrap_err();
    assert!(refused.is_lease_lost(), "{refused}");
    let restored = scene.restore_as(&*other, "n2").await.unwrap();
    assert_eq!(restored, RestoreOutcome::Restored(first.id));
    assert_eq!(
        fs::read_to_string(scene.home("n2").join("a")).unwrap(),
        "old"
    );
}

#[tokio::test]
async fn a_node_killed_between_contents_and_row_leaves_the_old_checkpoint() {
    let scene = CheckpointFixture::new().await;
    fs::write(scene.path("a"), "old").unwrap();
    let first = scene.save().await.unwrap();
    fs::write(scene.path("a"), "new").unwrap();
    let killed = faulty(&scene, Recording::Killed);
    let epoch = scene.epoch().await;
    let error = scene.save_by(&killed, epoch).await.unwrap_err();
    assert!(matches!(error, CheckpointError::State(_)), "{error}");
    assert_eq!(scene.objects_below("ckpt").len(), 2);
    // The next process of the same node gets past the manifest that nobody has recorded.
    let saved = scene.save().await.unwrap();
    assert_eq!((saved.id.epoch, saved.id.seq), (first.id.epoch, 3));
    let error = scene.save_by(&killed, epoch).await;
    assert_eq!(error.unwrap().id, saved.id, "nothing has changed since");
    scene.take_over("n2").await;
    assert_eq!(
        fs::read_to_string(scene.home("n2").join("a")).unwrap(),
        "new"
    );
}

#[tokio::test]
async fn a_node_that_made_the_latest_checkpoint_keeps_its_home() {
    let scene = CheckpointFixture::new().await;
    fs::write(scene.path("a"), "saved").unwrap();
    let saved = scene.save().await.unwrap();
    fs::write(scene.path("b"), "not yet saved").unwrap();
    let state = &*scene.fixture.state;
    let outcome = scene.restore_as(state, "n1").await.unwrap();
    assert_eq!(outcome, RestoreOutcome::UpToDate(saved.id));
    assert!(scene.path("b").exists());
    // A node that was cut off trusts nothing that it has written since.
    let home = scene.home("n1");
    scene.checkpoints.release(scene.home_ref(&home), true).await;
    let outcome = scene.restore_as(state, "n1").await.unwrap();
    assert_eq!(outcome, RestoreOutcome::Restored(saved.id));
    assert!(!scene.path("b").exists());
    assert_eq!(fs::read_to_string(scene.path("a")).unwrap(), "saved");
}

#[tokio::test]
async fn a_tenant_without_a_checkpoint_keeps_its_home() {
    let scene = CheckpointFixture::new().await;
    fs::write(scene.path("a"), "new").unwrap();
    let outcome = scene.restore_as(&*scene.fixture.state, "n1").await.unwrap();
    assert_eq!(outcome, RestoreOutcome::None);
    assert!(scene.path("a").exists());
}

#[tokio::test]
async fn many_that_ask_at_once_are_served_by_few() {
    let scene = CheckpointFixture::new().await;
    fs::write(scene.path("a"), "a").unwrap();
    let saves = join_all((0..20).map(|_| scene.save())).await;
    let ids: Vec<CheckpointId> = saves.into_iter().map(|saved| saved.unwrap().id).collect();
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
}
