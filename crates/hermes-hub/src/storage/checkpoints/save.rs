//! Making a checkpoint: chunks first, then the manifest, then the row.

use std::{
    collections::HashMap,
    io,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use tokio::{sync::mpsc, time::Instant};

use super::{
    CheckpointError, Checkpoints, HomeRef, HomeState, LatestCheckpoint, SavedCheckpoint,
    chunk_name,
    limit::{HomeLimit, HomeTooLarge, ScanProgress, check_size},
    manifest::HomeManifest,
    restore::write_marker,
    scan::{ScanInput, SealedChunk, scan_home},
};
use crate::storage::{
    objects::ObjectError,
    state::{CheckpointId, LeaseEpoch, NewCheckpoint},
};

const CONCURRENT_UPLOADS: usize = 4;
/// How often the log tells how far a checkpoint is that takes long.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// Ends a scan that nobody waits for any more.
struct ScanGuard(Arc<ScanProgress>);

impl Drop for ScanGuard {
    fn drop(&mut self) {
        self.0.stop();
    }
}

impl Checkpoints {
    pub(super) async fn save_home(
        &self,
        home: HomeRef<'_>,
        epoch: LeaseEpoch,
        limit: HomeLimit,
        state: &mut HomeState,
    ) -> Result<SavedCheckpoint, CheckpointError> {
        self.unswept.lock().insert(home.uid.to_owned());
        self.recall_latest(home, state).await?;
        if state.was_too_large {
            // Its files would be read and written up to the limit once more.
            let path = home.path.to_owned();
            let checked = tokio::task::spawn_blocking(move || check_size(&path, limit)).await;
            checked
                .map_err(|_| CheckpointError::Interrupted)?
                .map_err(|source| scan_error(home, limit, source))?;
        }
        let uploaded = self.upload(home, epoch, limit, state).await;
        state.was_too_large = matches!(uploaded, Err(CheckpointError::TooLarge { .. }));
        let (manifest, new_chunks) = uploaded?;
        if let Some(latest) = &state.latest
            && latest.manifest == manifest
        {
            return Ok(latest.saved);
        }
        let seq = match &state.latest {
            Some(latest) if latest.saved.id.epoch == epoch => latest.saved.id.seq + 1,
            _ => 1,
        };
        let mut id = CheckpointId { epoch, seq };
        let manifest_sha256 = loop {
            match self.write_manifest(home.uid, id, &manifest).await {
                // Left by one that was not recorded.
                Err(CheckpointError::Objects(ObjectError::Exists { .. })) => id.seq += 1,
                written => break written?,
            }
        };
        let saved = SavedCheckpoint {
            id,
            files: manifest.entries.len() as u64,
            bytes: manifest.bytes(),
            new_chunks,
        };
        let checkpoint = NewCheckpoint {
            tenant: home.tenant.clone(),
            tenant_uid: home.uid.to_owned(),
            id,
            manifest_sha256: manifest_sha256.clone(),
            files: saved.files,
            bytes: saved.bytes,
        };
        if let Err(error) = self.rows.record_checkpoint(&checkpoint).await {
            // Whether it was recorded is not known: the next one looks it up.
            state.latest = None;
            return Err(error.into());
        }
        write_marker(home.path, id, &manifest_sha256).await;
        state.latest = Some(LatestCheckpoint {
            saved,
            manifest_sha256,
            chunks: manifest.known_chunks(),
            manifest,
        });
        self.prune_sometimes(home.uid, state).await;
        Ok(saved)
    }

    /// Finds the latest checkpoint, or checks that the one in memory still is. It is not if the database was set back:
    /// a replica that lagged has taken the place of its server.
    async fn recall_latest(
        &self,
        home: HomeRef<'_>,
        state: &mut HomeState,
    ) -> Result<(), CheckpointError> {
        if let Some(known) = &state.latest {
            let row = self.rows.latest_checkpoint(home.uid).await?;
            let is_same = row.is_some_and(|row| {
                row.id == known.saved.id && row.manifest_sha256 == known.manifest_sha256
            });
            if is_same {
                return Ok(());
            }
            tracing::warn!(tenant = %home.tenant, checkpoint = %known.saved.id, "last checkpoint is missing from the database");
            state.latest = None;
            state.files.clear();
        }
        state.latest = self.find_latest(home).await?;
        Ok(())
    }

    pub(super) async fn find_latest(
        &self,
        home: HomeRef<'_>,
    ) -> Result<Option<LatestCheckpoint>, CheckpointError> {
        let Some(row) = self.rows.latest_checkpoint(home.uid).await? else {
            return Ok(None);
        };
        let manifest = self
            .read_manifest(home.uid, row.id, &row.manifest_sha256)
            .await?;
        Ok(Some(LatestCheckpoint {
            saved: SavedCheckpoint {
                id: row.id,
                files: row.files,
                bytes: row.bytes,
                new_chunks: 0,
            },
            manifest_sha256: row.manifest_sha256,
            chunks: manifest.known_chunks(),
            manifest,
        }))
    }

    /// Reads the home and writes the chunks that are not there yet.
    async fn upload(
        &self,
        home: HomeRef<'_>,
        epoch: LeaseEpoch,
        limit: HomeLimit,
        state: &mut HomeState,
    ) -> Result<(HomeManifest, u64), CheckpointError> {
        let (sender, mut receiver) = mpsc::channel::<SealedChunk>(CONCURRENT_UPLOADS);
        let known = state.latest.as_ref().map(|latest| latest.chunks.clone());
        let files = match &state.latest {
            Some(_) => std::mem::take(&mut state.files),
            // What it refers to may be gone.
            None => HashMap::default(),
        };
        let progress = Arc::new(ScanProgress::default());
        let _guard = ScanGuard(Arc::clone(&progress));
        let input = ScanInput {
            key: self.key.clone(),
            uid: home.uid.to_owned(),
            epoch: epoch.0,
            known: known.unwrap_or_default(),
            files,
            chunks: sender,
            limit,
            progress: Arc::clone(&progress),
        };
        let path = home.path.to_owned();
        let scan = tokio::task::spawn_blocking(move || scan_home(&path, input));
        let chunks = stream::poll_fn(move |context| receiver.poll_recv(context));
        let uploaded = chunks
            .map(|chunk| async move {
                let name = chunk_name(home.uid, epoch.0, &chunk.name);
                self.objects.create_blob(&name, chunk.content.into()).await
            })
            .buffer_unordered(CONCURRENT_UPLOADS)
            .try_fold(0, async |count: u64, ()| Ok(count + 1));
        // Fails at the first chunk; the scan ends then, because nobody receives.
        let uploaded = report_while(home, &progress, uploaded).await;
        let scanned = scan.await.map_err(|_| CheckpointError::Interrupted)?;
        let new_chunks = uploaded?;
        let scanned = scanned.map_err(|source| scan_error(home, limit, source))?;
        state.files = scanned.cache;
        Ok((HomeManifest::new(scanned.entries), new_chunks))
    }
}

/// Tells in the log how far a long checkpoint is.
async fn report_while<T>(
    home: HomeRef<'_>,
    progress: &ScanProgress,
    work: impl Future<Output = T>,
) -> T {
    let mut reports = tokio::time::interval_at(Instant::now() + REPORT_INTERVAL, REPORT_INTERVAL);
    tokio::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return done,
            _ = reports.tick() => {
                let bytes = progress.bytes.load(Ordering::Relaxed);
                let files = progress.files.load(Ordering::Relaxed);
                tracing::info!(tenant = %home.tenant, bytes, files, "checkpoint in progress");
            }
        }
    }
}

fn scan_error(home: HomeRef<'_>, limit: HomeLimit, source: io::Error) -> CheckpointError {
    if HomeTooLarge::is_cause_of(&source) {
        return CheckpointError::TooLarge { limit };
    }
    CheckpointError::Home {
        path: home.path.display().to_string(),
        source,
    }
}
