//! Reading chains to verify them.

use futures::TryStreamExt;
use sqlx::SqliteConnection;

use super::{super::to_column, position_from_row};
use crate::storage::{
    audit::ChainPosition,
    state::{
        StateError,
        audit::verify::{ChainReader, ChainVerification, EntryIndexing, EntryRange},
        columns::ColumnReader,
    },
};

/// Reads chains on one connection.
pub(super) struct SqliteChainReader<'c>(pub(super) &'c mut SqliteConnection);

impl ChainReader for SqliteChainReader<'_> {
    async fn read_anchor(&mut self, chain: &str) -> Result<Option<ChainPosition>, StateError> {
        let anchor = sqlx::query("SELECT seq, hash FROM audit_anchors WHERE chain = ?1")
            .bind(chain)
            .fetch_optional(&mut *self.0)
            .await?;
        anchor.map(|row| position_from_row(&row)).transpose()
    }

    async fn read_hash(&mut self, chain: &str, seq: u64) -> Result<Option<Vec<u8>>, StateError> {
        let query = sqlx::query_scalar("SELECT hash FROM audit WHERE chain = ?1 AND seq = ?2")
            .bind(chain)
            .bind(to_column(seq));
        Ok(query.fetch_optional(&mut *self.0).await?)
    }

    async fn read_entries(
        &mut self,
        range: EntryRange,
        verification: &mut ChainVerification,
    ) -> Result<(), StateError> {
        let chain = verification.chain().to_owned();
        let mut rows = sqlx::query(
            "SELECT seq, time, tenant, actor, action, decision, request_id, text, hash,
                 tenant IS NULL
                     OR NOT EXISTS (SELECT 1 FROM audit_portions WHERE chain = ?1 AND last >= audit.seq)
                     OR EXISTS (SELECT 1 FROM audit_of_tenants AS filed
                         WHERE filed.chain = ?1 AND filed.tenant = audit.tenant AND filed.time = audit.time
                           AND filed.seq = audit.seq AND filed.portion =
                             (SELECT MIN(last) FROM audit_portions WHERE chain = ?1 AND last >= audit.seq)) AS is_listed
             FROM audit WHERE chain = ?1 AND seq > ?2 AND seq <= ?3 ORDER BY seq LIMIT ?4",
        )
        .bind(chain)
        .bind(range.after)
        .bind(range.until)
        .bind(range.most)
        .fetch(&mut *self.0);
        while let Some(row) = rows.try_next().await? {
            // An entry that is not indexed yet counts as listed.
            let indexing = match row.flag("is_listed") {
                Ok(true) => EntryIndexing::Complete,
                Ok(false) | Err(_) => EntryIndexing::Missing,
            };
            if !verification.verify(&row, indexing)? {
                break;
            }
        }
        Ok(())
    }
}
