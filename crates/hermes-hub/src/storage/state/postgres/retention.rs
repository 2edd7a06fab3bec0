//! Deleting what is old. However much that is, no statement takes long: rows are deleted in parts, found by an index, each
//! part in a transaction of its own, so that writers of this node do not wait for it.

use super::PostgresState;
use crate::storage::state::StateError;

/// Rows that are deleted in one transaction.
pub(super) const MAX_DELETED: u32 = 5_000;
/// The same of rows whose deletion deletes others.
pub(super) const MAX_DELETED_WITH_OTHERS: u32 = 50;

impl PostgresState {
    /// Repeats a statement that deletes at most `$2` rows from before `$1`, until it finds fewer; returns how many there
    /// were.
    pub(super) async fn delete_in_parts(
        &self,
        delete: &'static str,
        before: i64,
        most: u32,
    ) -> Result<u64, StateError> {
        let mut deleted = 0;
        loop {
            let mut session = self.begin_alone().await?;
            let part = sqlx::query(delete).bind(before).bind(i64::from(most));
            let some = session.execute(part).await?;
            session.commit().await?;
            deleted += some;
            if some < u64::from(most) {
                return Ok(deleted);
            }
        }
    }
}
