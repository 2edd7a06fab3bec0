//! Changes of files in tenants' homes: one at a time for each tenant, within its quota.

use std::{io, path::Path};

use hermes_config::Home;

use super::{Hub, provisioning::wait_for_home};
use crate::{
    Problem, TenantId,
    storage::{
        files::{
            DirectoryFiles, FileLimits, HomeDirectory, Quota, QuotaLimits, TreeUsage,
            measure_directory, run_blocking,
        },
        state::{StorageUsage, TenantRecord, UsageOwner},
    },
    tenants::{locks::TenantLockGuard, settings::effective_storage},
};

/// The files of a home while nobody else changes them through the Hub.
pub(crate) struct HomeChange {
    home: Home,
    used: TreeUsage,
    limits: FileLimits,
    /// Absent for a linked home, which has no quota and is not measured.
    owner: Option<TenantId>,
    _lock: TenantLockGuard,
}

impl HomeChange {
    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    /// A directory of the home, with what the quota leaves.
    pub(crate) fn open(&self, directory: &str) -> io::Result<DirectoryFiles> {
        DirectoryFiles::open_in_home(self.home.path(), directory, self.limits, self.used)
    }

    /// The same, made if it is missing: a linked home has some directories only once something is in them.
    pub(crate) fn open_or_create(&self, directory: &str) -> io::Result<DirectoryFiles> {
        HomeDirectory::open_or_create(self.home.path(), directory)?;
        self.open(directory)
    }

    /// Refuses what the quota has no room for.
    pub(crate) fn check_room(&self, need: TreeUsage) -> Result<(), Problem> {
        let quota = Quota::default();
        quota.set_used(self.used);
        quota.reserve(need, self.limits.quota).map(drop)
    }

    /// What the home takes now.
    pub(crate) async fn measure(&self) -> Option<(UsageOwner, StorageUsage)> {
        self.owner.as_ref()?;
        match measure(&self.home).await {
            Ok(used) => self.usage_record(used),
            // The next change measures again.
            Err(problem) => {
                tracing::warn!(%problem, "failed to measure a tenant's home");
                None
            }
        }
    }

    /// A usage as it is stored.
    pub(crate) fn usage_record(&self, used: TreeUsage) -> Option<(UsageOwner, StorageUsage)> {
        let usage = StorageUsage {
            bytes: used.bytes,
            files: used.files,
        };
        Some((UsageOwner::Tenant(self.owner.clone()?), usage))
    }
}

async fn measure(home: &Home) -> Result<TreeUsage, Problem> {
    let path = home.path().to_owned();
    run_blocking(move || match measure_directory(&path) {
        Ok(used) => Ok(used),
        Err(rustix::io::Errno::NOENT) => Ok(TreeUsage::default()),
        Err(error) => Err(Problem::internal(&error)),
    })
    .await
}

impl Hub {
    /// Waits until the home is there and nobody else changes it.
    pub(crate) async fn begin_home_change(
        &self,
        record: &TenantRecord,
    ) -> Result<HomeChange, Problem> {
        wait_for_home(self, record).await;
        let lock = self.files().homes.lock(&record.id).await?;
        let home = self.home(record);
        let storage = effective_storage(record, &self.effective_documents());
        let mut limits = self.file_limits();
        let mut used = TreeUsage::default();
        if !storage.linked {
            used = measure(&home).await?;
            limits.quota = QuotaLimits {
                bytes: Some(storage.quota_bytes),
                files: Some(storage.files_quota),
            };
        }
        Ok(HomeChange {
            home,
            used,
            limits,
            owner: (!storage.linked).then(|| record.id.clone()),
            _lock: lock,
        })
    }
}
