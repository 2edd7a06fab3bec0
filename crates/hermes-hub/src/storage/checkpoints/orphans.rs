//! Removing what saves have left that were never recorded: a node was killed, lost its lease, or could not write on.
//!
//! An object belongs to an epoch. Below the epoch of the latest checkpoint nobody can record one any more, and later ones
//! refer only to objects of recorded ones and to new ones of their own epoch: so what no recorded checkpoint refers to
//! stays without use. It is kept for some time all the same, because a database can be set back, and with it the epochs.

use std::{collections::HashSet, time::Duration};

use super::{
    CheckpointError, Checkpoints, home_directory, manifest_name,
    prune::{LIST_PORTION, chunk_names},
};
use crate::api_types::Time;

/// Longer than a database is set back by a replica that lags or by a backup that is restored at once.
pub const ORPHAN_AGE: Duration = Duration::from_hours(24);
/// More than a home that is within its quota has.
const MAX_LISTED: usize = LIST_PORTION * 1000;

#[derive(Debug, Default)]
struct HomeSweep {
    removed: usize,
    /// Whether something without a checkpoint may become one, or is too young.
    has_rest: bool,
}

impl Checkpoints {
    /// Looks through the homes that this node has worked on, for objects of this age. Returns how many were removed.
    pub async fn remove_orphans(&self, age: Duration) -> Result<usize, CheckpointError> {
        let worked_on = std::mem::take(&mut *self.unswept.lock());
        let mut removed = 0;
        let mut failed = None;
        for uid in worked_on {
            match self.sweep_home(&uid, age).await {
                Ok(sweep) => {
                    removed += sweep.removed;
                    if sweep.has_rest {
                        self.unswept.lock().insert(uid);
                    }
                }
                Err(error) => {
                    self.unswept.lock().insert(uid);
                    failed = Some(error);
                }
            }
        }
        match failed {
            Some(error) => Err(error),
            None => Ok(removed),
        }
    }

    async fn sweep_home(&self, uid: &str, age: Duration) -> Result<HomeSweep, CheckpointError> {
        let rows = self.rows.checkpoints(uid).await?;
        // Without a checkpoint, the next save looks again; or the tenant is gone.
        let Some(latest) = rows.first() else {
            return Ok(HomeSweep::default());
        };
        let mut needed = HashSet::new();
        for row in &rows {
            // If one was removed meanwhile, there are newer ones, which have to be looked at.
            let manifest = self
                .read_manifest(uid, row.id, &row.manifest_sha256)
                .await?;
            needed.extend(chunk_names(uid, &manifest));
            needed.insert(manifest_name(uid, row.id));
        }
        let before = Time::now().before(age);
        let mut sweep = HomeSweep::default();
        let listed = self.objects.list(&home_directory(uid), MAX_LISTED).await?;
        for object in listed {
            if needed.contains(&object.name) {
                continue;
            }
            let is_over = epoch_of(uid, &object.name) < latest.id.epoch.0;
            if is_over && object.created_at <= before {
                self.objects.delete(&object.name).await?;
                sweep.removed += 1;
            } else {
                sweep.has_rest = true;
            }
        }
        Ok(sweep)
    }
}

/// The epoch in the name of a chunk or a manifest. What has none is nothing of ours, and counts as new.
fn epoch_of(uid: &str, name: &str) -> u64 {
    let directory = home_directory(uid);
    let inside = name
        .strip_prefix(&directory)
        .and_then(|rest| rest.strip_prefix('/'));
    let epoch = match inside.and_then(|inside| inside.split_once('/')) {
        Some(("chunks", rest)) => rest.split_once('/'),
        Some(("ckpt", rest)) => rest.split_once('-'),
        _ => None,
    };
    epoch.map_or(u64::MAX, |(epoch, _)| epoch.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_their_epoch_and_others_are_left_alone() {
        assert_eq!(epoch_of("u1", "homes/u1/chunks/7/abc"), 7);
        assert_eq!(epoch_of("u1", "homes/u1/ckpt/12-3"), 12);
        for other in [
            "homes/u1/chunks/x/abc",
            "homes/u1/notes/1",
            "homes/u2/ckpt/1-1",
        ] {
            assert_eq!(epoch_of("u1", other), u64::MAX, "{other}");
        }
    }
}
