//! Cleaning up half-written files after the Hub was killed. Each change of files is recorded before it begins with what
//! it changes, so only those directories are scanned, in the background. It is forgotten when that is done: a Hub that
//! is killed meanwhile leaves it to the next.

use jiff::Zoned;

use super::Hub;
use crate::{
    GroupId, Problem, TenantId,
    storage::{
        files::{HomeDirectory, SharePath, run_blocking},
        state::{FileChange, UnfinishedOperation},
    },
    tenants::scheduler::job_files::edit_home_jobs,
};

/// Removes the temporary files of interrupted changes, which are settled.
pub(super) async fn clear_interrupted_changes(hub: Hub, interrupted: Vec<UnfinishedOperation>) {
    for UnfinishedOperation {
        operation, change, ..
    } in interrupted
    {
        let cleared = match &change {
            Some(FileChange::Share { group, path }) => hub.clear_share(group, path).await,
            Some(FileChange::Home { tenant }) => hub.clear_home(tenant).await,
            Some(FileChange::HomeFiles { tenant, directory }) => {
                hub.clear_home_files(tenant, directory).await
            }
            Some(FileChange::Copy) | None => Ok(()),
        };
        let cleared = match cleared {
            Ok(()) => {
                let forgotten = hub.state().forget_file_operation(operation).await;
                forgotten.map_err(Problem::from)
            }
            failed => failed,
        };
        if let Err(problem) = cleared {
            tracing::warn!(?change, %problem, "failed to clean up after an interrupted change; the next start tries again");
        }
    }
}

impl Hub {
    async fn clear_share(&self, group: &GroupId, path: &str) -> Result<(), Problem> {
        let path = SharePath::parse(path).ok();
        let Some((parent, _)) = path.as_ref().and_then(SharePath::split) else {
            return Ok(());
        };
        // A deleted group has no files to open.
        if self.state().group(group).await?.is_none() {
            return Ok(());
        }
        let share = self.open_share(group).await?;
        share.clear_interrupted(&parent).await
    }

    async fn clear_home_files(&self, tenant: &TenantId, directory: &str) -> Result<(), Problem> {
        let Some(record) = self.tenant(tenant).await? else {
            return Ok(());
        };
        let directory = directory.to_owned();
        // What another change is writing now is not a leftover.
        let change = self.begin_home_change(&record).await?;
        run_blocking(
            move || match HomeDirectory::open(change.home(), &directory) {
                Ok(found) => found
                    .remove_stale()
                    .map_err(|error| Problem::internal(&error)),
                Err(_) => Ok(()),
            },
        )
        .await
    }

    async fn clear_home(&self, tenant: &TenantId) -> Result<(), Problem> {
        let Some(record) = self.tenant(tenant).await? else {
            return Ok(());
        };
        let home = self.home(&record);
        let started = self.started_at();
        run_blocking(move || {
            if let Ok(directory) = HomeDirectory::open_home(home.path()) {
                let cleared = directory.remove_temp_files_before(started.timestamp().into());
                cleared.map_err(|error| Problem::internal(&error))?;
            }
            // The next change of jobs removes them.
            let failed = |error| Problem::internal(&error);
            edit_home_jobs(&home, &Zoned::now(), |_| Ok(()), failed)
        })
        .await
    }
}
