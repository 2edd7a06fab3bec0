//! Changes of tenants that wait at the same time: one statement makes them all, each with its audit entry and its event.
//!
//! What concerns more than the tenant's own row is made alone, and so is what cannot be made together with others: a failed
//! change does not harm the others.

use std::{collections::HashSet, iter};

use async_trait::async_trait;
use futures::future::join_all;

use super::{StateError, TenantChange, TenantRecord, batch_queue::BatchQueue};
use crate::{TenantId, storage::audit::NewAuditEntry};

/// The most that are made together.
pub(super) const MAX_TENANT_UPDATES: usize = 64;

/// Changes of tenants that wait.
pub(super) type TenantUpdates = BatchQueue<TenantUpdate, TenantRecord>;

#[derive(Debug)]
pub(super) struct TenantUpdate {
    pub(super) id: TenantId,
    pub(super) change: TenantChange,
    /// The revision it is for.
    pub(super) expected: Option<u64>,
    pub(super) entry: NewAuditEntry,
}

impl TenantUpdate {
    /// Whether it concerns nothing but the tenant's own row. The character that ends texts of SQLite is left to
    /// statements of their own.
    pub(super) fn is_of_one_row(&self) -> bool {
        let change = &self.change;
        change.groups.is_none()
            && change.env.is_empty()
            && change.unset_env.is_empty()
            && self.entry.idempotency.is_none()
            && !change
                .display_name
                .as_ref()
                .is_some_and(|name| name.contains('\0'))
    }
}

/// Why changes were not made together.
pub(super) enum BatchError {
    /// It may be the fault of one of them: each is tried alone.
    TryAlone,
    /// It is the same for all of them.
    All(StateError),
}

/// A database in which tenants are changed.
#[async_trait]
pub(super) trait TenantUpdater: Sync {
    async fn update_alone(&self, update: TenantUpdate) -> Result<TenantRecord, StateError>;

    /// Changes each of these tenants, none of which is there twice. Nothing is returned for one that is not there, is
    /// deleted, or has another revision.
    async fn update_rows(
        &self,
        updates: &[TenantUpdate],
    ) -> Result<Vec<Option<TenantRecord>>, BatchError>;
}

/// Makes all changes; returns their outcomes in order.
pub(super) async fn update_batch(
    database: &impl TenantUpdater,
    updates: Vec<TenantUpdate>,
) -> Vec<Result<TenantRecord, StateError>> {
    let mut numbered: Vec<_> = updates.into_iter().enumerate().collect();
    // Nodes that lock rows in the same order do not wait for each other in a circle.
    numbered.sort_by(|(_, one), (_, other)| one.id.cmp(&other.id));
    let mut seen = HashSet::new();
    let (together, mut alone): (Vec<_>, Vec<_>) = numbered
        .into_iter()
        .partition(|(_, update)| seen.insert(update.id.clone()));
    let (numbers, together): (Vec<usize>, Vec<TenantUpdate>) = together.into_iter().unzip();
    let mut outcomes = Vec::with_capacity(numbers.len() + alone.len());
    let made = match together.len() {
        1 => Err(BatchError::TryAlone),
        _ => database.update_rows(&together).await,
    };
    match made {
        Ok(records) => {
            for ((number, update), record) in iter::zip(iter::zip(numbers, together), records) {
                match record {
                    Some(record) => outcomes.push((number, Ok(record))),
                    // It says why.
                    None => alone.push((number, update)),
                }
            }
        }
        Err(BatchError::TryAlone) => alone.extend(iter::zip(numbers, together)),
        Err(BatchError::All(error)) => {
            outcomes.extend(
                numbers
                    .into_iter()
                    .map(|number| (number, Err(error.repeat()))),
            );
        }
    }
    let others = alone
        .into_iter()
        .map(async |(number, update)| (number, database.update_alone(update).await));
    outcomes.extend(join_all(others).await);
    outcomes.sort_by_key(|(number, _)| *number);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}
