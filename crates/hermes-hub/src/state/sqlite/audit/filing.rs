//! Which entries are of which tenant.
//!
//! An index that takes up every entry as it is written has a page for each of thousands of tenants, and writes that
//! page for the sake of one line. So entries are filed later, many at once and in the order of the tenants. Those that
//! are not yet are few enough to be looked through.

use std::sync::atomic::{AtomicI64, Ordering};

use sqlx::SqliteConnection;

use super::super::{SqliteState, column, unwritable};
use crate::state::StateError;

/// Entries that are filed in one transaction: the more, the fewer pages for each, but all other writes wait meanwhile.
const PORTION: i64 = 32_768;

/// About how many entries were added since the last were filed. It need not be exact: what it misses is filed with the
/// next portion, or within a minute.
#[derive(Debug, Default)]
pub(in super::super) struct Unfiled(AtomicI64);

impl Unfiled {
    /// Counts entries in; tells whether there are enough now to be filed.
    pub(super) fn are_many(&self, added: i64) -> bool {
        self.0.fetch_add(added, Ordering::Relaxed) + added >= PORTION
    }
}

impl SqliteState {
    /// Files what was added to this node's chain.
    pub(super) async fn file_entries(&self) -> Result<(), StateError> {
        self.unfiled.0.store(0, Ordering::Relaxed);
        while self.file_portion().await? {}
        Ok(())
    }

    /// Files some entries; tells whether there are more.
    async fn file_portion(&self) -> Result<bool, StateError> {
        // What others have read stays as it was, so this is no change to them.
        let mut write = self.database.begin().await.map_err(unwritable)?;
        let (filed, last): (i64, i64) = sqlx::query_as(
            "SELECT IFNULL((SELECT seq FROM audit_filed WHERE chain = ?1), 0),
                    IFNULL((SELECT MAX(seq) FROM audit WHERE chain = ?1), 0)",
        )
        .bind(&self.node)
        .fetch_one(&mut *write)
        .await?;
        if last <= filed {
            return Ok(false);
        }
        let until = last.min(filed.saturating_add(PORTION));
        sqlx::query(
            "INSERT INTO audit_of_tenants (tenant, time, chain, seq)
                 SELECT tenant, time, chain, seq FROM audit
                 WHERE chain = ?1 AND seq > ?2 AND seq <= ?3 AND tenant IS NOT NULL ORDER BY tenant, time, seq",
        )
        .bind(&self.node)
        .bind(filed)
        .bind(until)
        .execute(&mut *write)
        .await?;
        sqlx::query(
            "INSERT INTO audit_filed (chain, seq) VALUES (?1, ?2)
             ON CONFLICT (chain) DO UPDATE SET seq = excluded.seq",
        )
        .bind(&self.node)
        .bind(until)
        .execute(&mut *write)
        .await?;
        write.commit_at_once().await.map_err(unwritable)?;
        Ok(until < last)
    }
}

/// Takes the beginning of a chain out again, before it is removed from the log.
pub(super) async fn forget(
    write: &mut SqliteConnection,
    chain: &str,
    until: u64,
) -> Result<(), StateError> {
    sqlx::query(
        "DELETE FROM audit_of_tenants WHERE (tenant, time, chain, seq) IN (
             SELECT tenant, time, chain, seq FROM audit WHERE chain = ?1 AND seq <= ?2 AND tenant IS NOT NULL)",
    )
    .bind(chain)
    .bind(column(until))
    .execute(write)
    .await?;
    Ok(())
}
