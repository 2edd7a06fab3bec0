//! Tenants that are looked up at the same time: one statement finds them all.

use std::collections::HashMap;

use super::{super::PostgresState, record::select_tenant};
use crate::{
    TenantId,
    storage::state::{
        StateError, TenantRecord, batch_queue::BatchQueue, columns::ColumnReader,
        records::tenant_from_row,
    },
};

/// The most that are looked up together.
pub(super) const MAX_LOOKUPS: usize = 64;

/// Tenants that somebody waits for.
pub(in super::super) type TenantLookups = BatchQueue<TenantId, Option<TenantRecord>>;

/// Each of these tenants, if it is there.
pub(super) async fn find_tenants(
    state: &PostgresState,
    ids: Vec<TenantId>,
) -> Vec<Result<Option<TenantRecord>, StateError>> {
    match read_tenants(state, &ids).await {
        Ok(found) => ids
            .iter()
            .map(|id| match found.get(id) {
                Some(Ok(record)) => Ok(Some(record.clone())),
                Some(Err(error)) => Err(StateError::broken(error)),
                None => Ok(None),
            })
            .collect(),
        Err(error) => ids.iter().map(|_| Err(error.repeat())).collect(),
    }
}

/// A row that cannot be read is the error of its tenant alone.
async fn read_tenants(
    state: &PostgresState,
    ids: &[TenantId],
) -> Result<HashMap<TenantId, Result<TenantRecord, StateError>>, StateError> {
    let mut session = state.read().await?;
    let rows = match ids {
        [id] => {
            let query = sqlx::query(select_tenant!("t.id = $1")).bind(id.as_str());
            session.optional(query).await?.into_iter().collect()
        }
        ids => {
            let ids: Vec<&str> = ids.iter().map(TenantId::as_str).collect();
            let query = sqlx::query(select_tenant!("t.id = ANY($1)")).bind(ids);
            session.rows(query).await?
        }
    };
    rows.iter()
        .map(|row| Ok((row.id("id", TenantId::parse)?, tenant_from_row(row))))
        .collect()
}
