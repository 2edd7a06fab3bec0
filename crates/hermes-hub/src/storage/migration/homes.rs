//! The homes of tenants: checkpoints on the one side, directories on the other.

use std::{path::PathBuf, time::Duration};

use super::{HubStorage, MigrationError, MigrationReport};
use crate::{
    api_types::Time,
    storage::{
        checkpoints::{Checkpoints, HomeLimit, HomeRef, RestoreOutcome},
        state::{Page, TenantFilter, TenantQuery, TenantRecord},
    },
};

const PAGE: u32 = 500;
/// Longer than one home takes.
const LEASE: Duration = Duration::from_hours(1);

pub(super) async fn copy_homes(
    from: &HubStorage,
    to: &HubStorage,
    report: &mut MigrationReport,
) -> Result<(), MigrationError> {
    let state = from.state.shared();
    // Deleted tenants can be restored for a while.
    let deleted = TenantFilter::DeletedBefore(Time::now().after(LEASE));
    for filter in [TenantFilter::Present, deleted] {
        let query = TenantQuery {
            filter,
            ..TenantQuery::default()
        };
        let mut page = Page::first(PAGE);
        loop {
            let tenants = state.tenants(&query, &page).await?;
            for record in &tenants.items {
                // A home elsewhere stays there.
                if record.linked_home.is_none() && copy_home(from, to, record).await? {
                    report.homes += 1;
                }
            }
            match tenants.next {
                Some(next) => page = Page::after(PAGE, next),
                None => break,
            }
        }
    }
    Ok(())
}

async fn copy_home(
    from: &HubStorage,
    to: &HubStorage,
    record: &TenantRecord,
) -> Result<bool, MigrationError> {
    match (checkpoints(from), checkpoints(to)) {
        (None, Some(checkpoints)) => save_home(from, to, &checkpoints, record).await,
        (Some(checkpoints), None) => {
            let path = home_path(to, record);
            let home = home_ref(record, &path);
            let outcome = checkpoints.restore(home).await?;
            checkpoints.release(home, true).await;
            Ok(outcome != RestoreOutcome::None)
        }
        _ => Ok(false),
    }
}

async fn save_home(
    from: &HubStorage,
    to: &HubStorage,
    checkpoints: &Checkpoints,
    record: &TenantRecord,
) -> Result<bool, MigrationError> {
    let path = home_path(from, record);
    if !path.is_dir() {
        return Ok(false);
    }
    let state = to.state.shared();
    let leases = state
        .claim_leases(std::slice::from_ref(&record.id), LEASE)
        .await?;
    let lease = leases.first().ok_or_else(|| MigrationError::Leased {
        tenant: record.id.clone(),
    })?;
    let home = home_ref(record, &path);
    checkpoints.save(home, lease.epoch, HomeLimit::NONE).await?;
    checkpoints.verify(home).await?;
    checkpoints.release(home, true).await;
    state.release_leases(&leases).await?;
    Ok(true)
}

fn checkpoints(storage: &HubStorage) -> Option<Checkpoints> {
    let rows = storage.state.shared().checkpoint_rows()?;
    let objects = storage.objects.clone()?;
    Some(Checkpoints::new(objects, rows, storage.key.clone()))
}

fn home_path(storage: &HubStorage, record: &TenantRecord) -> PathBuf {
    storage
        .data_dir
        .join("tenants")
        .join(record.id.as_str())
        .join("home")
}

fn home_ref<'a>(record: &'a TenantRecord, path: &'a std::path::Path) -> HomeRef<'a> {
    HomeRef {
        tenant: &record.id,
        uid: &record.uid,
        path,
    }
}
