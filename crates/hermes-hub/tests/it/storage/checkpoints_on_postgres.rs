//! Checkpoints of homes, with their rows in PostgreSQL and their contents in object storage.

mod buckets;
mod databases;
mod full_disk;
mod homes;
mod large;
mod leases;
mod orphans;
mod replicas;

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use hermes_hub::{
    TenantId,
    settings::ObjectSettings,
    storage::{
        checkpoints::{
            CheckpointError, Checkpoints, HomeLimit, HomeRef, RestoreOutcome, SavedCheckpoint,
        },
        objects::Objects,
        state::{LeaseEpoch, State},
    },
};

use crate::storage::state::StateFixture;

/// A tenant whose lease this node holds, and its home.
struct CheckpointFixture {
    fixture: StateFixture,
    objects: Objects,
    checkpoints: Checkpoints,
    tenant: TenantId,
    uid: String,
}

impl CheckpointFixture {
    async fn new() -> Self {
        let fixture = StateFixture::new().await;
        let url = format!(
            "file://{}",
            fixture.directory.path().join("objects").display()
        );
        let objects = Objects::open(&ObjectSettings::at(url)).unwrap();
        Self::over(fixture, objects).await
    }

    async fn over(fixture: StateFixture, objects: Objects) -> Self {
        let record = fixture.tenant("acme").await;
        let rows = fixture.state.checkpoint_rows().unwrap();
        let checkpoints = Checkpoints::new(objects.clone(), rows, fixture.key.clone());
        let this = Self {
            fixture,
            objects,
            checkpoints,
            tenant: record.id,
            uid: record.uid,
        };
        fs::create_dir_all(this.home("n1")).unwrap();
        this
    }

    /// The home on the disk of a node.
    fn home(&self, node: &str) -> PathBuf {
        self.fixture.directory.path().join(node).join("home")
    }

    fn path(&self, path: &str) -> PathBuf {
        self.home("n1").join(path)
    }

    fn home_ref<'a>(&'a self, home: &'a Path) -> HomeRef<'a> {
        HomeRef {
            tenant: &self.tenant,
            uid: &self.uid,
            path: home,
        }
    }

    async fn epoch(&self) -> LeaseEpoch {
        let holder = self.fixture.state.lease_holder(&self.tenant).await.unwrap();
        holder.unwrap().epoch
    }

    async fn save(&self) -> Result<SavedCheckpoint, CheckpointError> {
        self.save_by(&self.checkpoints, self.epoch().await).await
    }

    async fn save_by(
        &self,
        checkpoints: &Checkpoints,
        epoch: LeaseEpoch,
    ) -> Result<SavedCheckpoint, CheckpointError> {
        let home = self.home("n1");
        let home = self.home_ref(&home);
        checkpoints.save(home, epoch, HomeLimit::NONE).await
    }

    /// Another node that takes the lease and restores the home.
    async fn take_over(&self, node: &str) -> (Arc<dyn State>, RestoreOutcome) {
        let state = self.fixture.another_node(node).await;
        self.fixture.hand_over(&self.tenant, &*state).await;
        let outcome = self.restore_as(&*state, node).await.unwrap();
        (state, outcome)
    }

    async fn restore_as(
        &self,
        state: &dyn State,
        node: &str,
    ) -> Result<RestoreOutcome, CheckpointError> {
        let rows = state.checkpoint_rows().unwrap();
        let checkpoints = Checkpoints::new(self.objects.clone(), rows, self.fixture.key.clone());
        let home = self.home(node);
        checkpoints.restore(self.home_ref(&home)).await
    }

    fn objects_below(&self, directory: &str) -> Vec<PathBuf> {
        fn collect(directory: &Path, found: &mut Vec<PathBuf>) {
            for entry in fs::read_dir(directory).into_iter().flatten() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    collect(&path, found);
                } else {
                    found.push(path);
                }
            }
        }
        let root = self.fixture.directory.path().join("objects");
        let mut found = Vec::new();
        collect(
            &root.join("homes").join(&self.uid).join(directory),
            &mut found,
        );
        found
    }
}
