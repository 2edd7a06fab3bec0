//! Reading chains to verify them.

use super::{
    super::{session::Session, to_column},
    position_from_row,
};
use crate::storage::{
    audit::ChainPosition,
    state::{
        StateError,
        audit::verify::{ChainReader, ChainVerification, EntryIndexing, EntryRange},
        columns::ColumnReader,
    },
};

/// Entries read at a time.
const MAX_READ_ENTRIES: i64 = 1000;

impl ChainReader for Session {
    async fn read_anchor(&mut self, chain: &str) -> Result<Option<ChainPosition>, StateError> {
        let query = sqlx::query("SELECT seq, hash FROM audit_anchors WHERE chain = $1").bind(chain);
        let anchor = self.optional(query).await?;
        anchor.map(|row| position_from_row(&row)).transpose()
    }

    async fn read_hash(&mut self, chain: &str, seq: u64) -> Result<Option<Vec<u8>>, StateError> {
        let query = sqlx::query("SELECT hash FROM audit WHERE chain = $1 AND seq = $2")
            .bind(chain)
            .bind(to_column(seq));
        let stored = self.optional(query).await?;
        stored.map(|row| row.bytes("hash")).transpose()
    }

    async fn read_entries(
        &mut self,
        mut range: EntryRange,
        verification: &mut ChainVerification,
    ) -> Result<(), StateError> {
        loop {
            let query = sqlx::query(
                "SELECT seq, time, tenant, actor, action, decision, request_id, text, hash
                 FROM audit WHERE chain = $1 AND seq > $2 AND seq <= $3 ORDER BY seq LIMIT $4",
            )
            .bind(verification.chain())
            .bind(range.after)
            .bind(range.until)
            .bind(range.most.min(MAX_READ_ENTRIES));
            let rows = self.rows(query).await?;
            for row in &rows {
                range.after = to_column(row.count("seq")?);
                range.most -= 1;
                // An ordinary index has every entry.
                if !verification.verify(row, EntryIndexing::Complete)? {
                    return Ok(());
                }
            }
            if rows.is_empty() || range.most == 0 {
                return Ok(());
            }
        }
    }
}
