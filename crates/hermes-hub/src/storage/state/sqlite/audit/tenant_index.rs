//! An index of audit entries by tenant.
//!
//! A B-tree index over all entries has a page for each of thousands of tenants, and rewrites that page for every entry.
//! So entries are indexed by tenant in portions, each written once, in full pages, and never changed again. A search
//! for a tenant's entries goes from portion to portion, and through the few entries that are not indexed yet.

use std::sync::atomic::{AtomicU64, Ordering};

use sqlx::SqliteConnection;

use super::super::{SqliteState, to_column, write_error};
use crate::storage::state::{AUDIT_PORTION, StateError};

/// Approximate number of entries since the last portion. It need not be exact: the check every minute finds the rest.
#[derive(Debug, Default)]
pub(in super::super) struct UnindexedEntries(AtomicU64);

impl UnindexedEntries {
    /// Adds entries; returns whether there are enough for a portion.
    pub(super) fn add(&self, added: u64) -> bool {
        self.0.fetch_add(added, Ordering::Relaxed) + added >= AUDIT_PORTION
    }
}

impl SqliteState {
    /// Indexes what was added to this node's chain, if there are enough entries.
    pub(super) async fn index_entries(&self, least: u64) -> Result<(), StateError> {
        self.unindexed.0.store(0, Ordering::Relaxed);
        while self.index_portion(least).await? {}
        Ok(())
    }

    /// Indexes a portion; returns whether there was one.
    async fn index_portion(&self, least: u64) -> Result<bool, StateError> {
        // Entries stay the same, so cached reads stay valid.
        let mut write = self.database.begin_in_group().await.map_err(write_error)?;
        let (filed, newest): (i64, i64) = sqlx::query_as(
            "SELECT MAX(IFNULL((SELECT MAX(last) FROM audit_portions WHERE chain = ?1), 0),
                        IFNULL((SELECT seq FROM audit_anchors WHERE chain = ?1), 0)),
                    IFNULL((SELECT MAX(seq) FROM audit WHERE chain = ?1), 0)",
        )
        .bind(&self.node)
        .fetch_one(&mut *write)
        .await?;
        if newest - filed < to_column(least.max(1)) {
            return Ok(false);
        }
        let until = newest.min(filed + to_column(AUDIT_PORTION));
        sqlx::query(
            "INSERT INTO audit_portions (chain, last, oldest, newest)
                 SELECT ?1, ?3, IFNULL(MIN(time), 0), IFNULL(MAX(time), 0) FROM audit
                 WHERE chain = ?1 AND seq > ?2 AND seq <= ?3",
        )
        .bind(&self.node)
        .bind(filed)
        .bind(until)
        .execute(&mut *write)
        .await?;
        sqlx::query(
            "INSERT INTO audit_of_tenants (chain, portion, tenant, time, seq)
                 SELECT chain, ?3, tenant, time, seq FROM audit
                 WHERE chain = ?1 AND seq > ?2 AND seq <= ?3 AND tenant IS NOT NULL ORDER BY tenant, time, seq",
        )
        .bind(&self.node)
        .bind(filed)
        .bind(until)
        .execute(&mut *write)
        .await?;
        write.commit().await.map_err(write_error)?;
        Ok(true)
    }
}

/// Deletes the portions that have no entries left once those up to `until` are removed.
pub(super) async fn forget_portions(
    write: &mut SqliteConnection,
    chain: &str,
    until: u64,
) -> Result<(), StateError> {
    for sql in [
        "DELETE FROM audit_of_tenants WHERE chain = ?1 AND portion <= ?2",
        "DELETE FROM audit_portions WHERE chain = ?1 AND last <= ?2",
    ] {
        sqlx::query(sql)
            .bind(chain)
            .bind(to_column(until))
            .execute(&mut *write)
            .await?;
    }
    Ok(())
}
