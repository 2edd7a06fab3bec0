//! Which entries are of which tenant.
//!
//! An index of all entries has a page for each of thousands of tenants, and writes that page for the sake of one line.
//! So entries are filed by tenant in portions, each written once, in full pages, and never touched again. Whoever looks
//! for a tenant's entries goes from portion to portion, and through the few entries that are in none yet.

use std::sync::atomic::{AtomicU64, Ordering};

use sqlx::SqliteConnection;

use super::super::{SqliteState, column, unwritable};
use crate::state::{AUDIT_PORTION, StateError};

/// About how many entries were added since a portion was filed. It need not be exact: what it misses, the look of every
/// minute finds.
#[derive(Debug, Default)]
pub(in super::super) struct Unfiled(AtomicU64);

impl Unfiled {
    /// Counts entries in; tells whether there are enough now for a portion.
    pub(super) fn are_many(&self, added: u64) -> bool {
        self.0.fetch_add(added, Ordering::Relaxed) + added >= AUDIT_PORTION
    }
}

impl SqliteState {
    /// Files what was added to this node's chain, if it is so much.
    pub(super) async fn file_entries(&self, least: u64) -> Result<(), StateError> {
        self.unfiled.0.store(0, Ordering::Relaxed);
        while self.file_portion(least).await? {}
        Ok(())
    }

    /// Files a portion; tells whether there was one.
    async fn file_portion(&self, least: u64) -> Result<bool, StateError> {
        // What others have read stays as it was, so this is no change to them.
        let mut write = self.database.begin_in_group().await.map_err(unwritable)?;
        let (filed, newest): (i64, i64) = sqlx::query_as(
            "SELECT MAX(IFNULL((SELECT MAX(last) FROM audit_portions WHERE chain = ?1), 0),
                        IFNULL((SELECT seq FROM audit_anchors WHERE chain = ?1), 0)),
                    IFNULL((SELECT MAX(seq) FROM audit WHERE chain = ?1), 0)",
        )
        .bind(&self.node)
        .fetch_one(&mut *write)
        .await?;
        if newest - filed < column(least.max(1)) {
            return Ok(false);
        }
        let until = newest.min(filed + column(AUDIT_PORTION));
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
        write.commit().await.map_err(unwritable)?;
        Ok(true)
    }
}

/// Forgets the portions of which no entry is left up to this one, before it is removed.
pub(super) async fn forget(
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
            .bind(column(until))
            .execute(&mut *write)
            .await?;
    }
    Ok(())
}
