//! Removing old checkpoints and the chunks that only they refer to.
//!
//! Only the node that has just recorded a checkpoint does that. What it deletes are chunks of manifests that are about
//! to be forgotten. A node that takes the lease refers to chunks of the latest checkpoint, which is kept, and to new
//! ones under its own epoch: so a late deletion never hits what somebody needs.

use std::{collections::HashSet, time::Duration};

use super::{
    CheckpointError, Checkpoints, HomeState, chunk_name, home_directory, manifest::HomeManifest,
    manifest_name,
};
use crate::{
    api_types::Time,
    storage::{
        objects::ObjectError,
        state::{CheckpointId, CheckpointRow},
    },
};

/// Checkpoints between two removals.
const INTERVAL: u32 = 8;
const KEPT: usize = 3;
/// Somebody may be restoring it.
const GRACE: Duration = Duration::from_mins(10);
pub(super) const LIST_PORTION: usize = 1000;

impl Checkpoints {
    pub(super) async fn prune_sometimes(&self, uid: &str, state: &mut HomeState) {
        state.saves += 1;
        if state.saves < INTERVAL {
            return;
        }
        state.saves = 0;
        if let Err(error) = self.prune(uid, GRACE).await {
            tracing::warn!(tenant_uid = uid, %error, "failed to remove old checkpoints; the next ones try again");
        }
    }

    /// Removes checkpoints that are older than that, except for the latest ones. Returns how many.
    pub async fn prune(&self, uid: &str, grace: Duration) -> Result<usize, CheckpointError> {
        let rows = self.rows.checkpoints(uid).await?;
        let before = Time::now().before(grace);
        let (kept, old): (Vec<_>, Vec<_>) = rows
            .into_iter()
            .enumerate()
            .partition(|(index, row)| *index < KEPT || row.created_at > before);
        if old.is_empty() {
            return Ok(0);
        }
        let mut needed = HashSet::new();
        for (_, row) in &kept {
            let manifest = self
                .read_manifest(uid, row.id, &row.manifest_sha256)
                .await?;
            needed.extend(chunk_names(uid, &manifest));
        }
        let mut unneeded = HashSet::new();
        for (_, row) in &old {
            let manifest = self.read_old_manifest(uid, row).await?;
            unneeded.extend(chunk_names(uid, &manifest));
        }
        for name in unneeded.difference(&needed) {
            self.objects.delete(name).await?;
        }
        let ids: Vec<CheckpointId> = old.iter().map(|(_, row)| row.id).collect();
        for id in &ids {
            self.objects.delete(&manifest_name(uid, *id)).await?;
        }
        self.rows.forget_checkpoints(uid, &ids).await?;
        Ok(ids.len())
    }

    /// An earlier removal may have ended half-way.
    async fn read_old_manifest(
        &self,
        uid: &str,
        row: &CheckpointRow,
    ) -> Result<HomeManifest, CheckpointError> {
        match self.read_manifest(uid, row.id, &row.manifest_sha256).await {
            Err(CheckpointError::Objects(ObjectError::Missing { .. })) => {
                Ok(HomeManifest::default())
            }
            other => other,
        }
    }

    /// Deletes everything of homes whose tenants are gone.
    pub async fn remove_abandoned(&self) -> Result<(), CheckpointError> {
        for uid in self.rows.abandoned_checkpoints().await? {
            let rows = self.rows.checkpoints(&uid).await?;
            loop {
                let found = self
                    .objects
                    .list(&home_directory(&uid), LIST_PORTION)
                    .await?;
                for object in &found {
                    self.objects.delete(&object.name).await?;
                }
                if found.len() < LIST_PORTION {
                    break;
                }
            }
            let ids: Vec<CheckpointId> = rows.iter().map(|row| row.id).collect();
            self.rows.forget_checkpoints(&uid, &ids).await?;
        }
        Ok(())
    }
}

pub(super) fn chunk_names(uid: &str, manifest: &HomeManifest) -> Vec<String> {
    manifest
        .chunks()
        .map(|chunk| chunk_name(uid, chunk.epoch, &chunk.name))
        .collect()
}
