//! Cleaning up half-written files after the Hub was killed. The audit log names the interrupted changes, so only their
//! directories are scanned, in the background.

use jiff::Zoned;

use super::Hub;
use crate::{
    GroupId, Problem, TenantId,
    api_types::AuditEntry,
    storage::files::{HomeDirectory, SharePath, run_blocking},
    tenants::scheduler::job_files::edit_home_jobs,
};

/// Removes the temporary files of interrupted changes.
pub(super) async fn clear_interrupted_changes(hub: Hub, cut_off: Vec<AuditEntry>) {
    for entry in cut_off {
        if let Err(problem) = hub.clear_interrupted_change(&entry).await {
            tracing::warn!(
                target = entry.target,
                "failed to clean up after a change interrupted at {}: {problem}",
                entry.time
            );
        }
    }
}

impl Hub {
    async fn clear_interrupted_change(&self, entry: &AuditEntry) -> Result<(), Problem> {
        let place = entry
            .target
            .as_deref()
            .and_then(|target| target.split_once(':'));
        match place {
            Some((group, path)) if entry.action.contains("share") => {
                let (Ok(group), Ok(path)) = (GroupId::parse(group), SharePath::parse(path)) else {
                    return Ok(());
                };
                let Some((parent, _)) = path.split() else {
                    return Ok(());
                };
                // A deleted group has no files to open.
                if self.state().group(&group).await?.is_none() {
                    return Ok(());
                }
                self.open_share(&group)
                    .await?
                    .remove_temp_files(&parent)
                    .await
            }
            _ => self.clear_interrupted_home_change(entry).await,
        }
    }

    async fn clear_interrupted_home_change(&self, entry: &AuditEntry) -> Result<(), Problem> {
        let tenant = entry.tenant.as_deref();
        let Some(Ok(tenant)) = tenant.map(TenantId::parse) else {
            return Ok(());
        };
        let Some(record) = self.tenant(&tenant).await? else {
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
