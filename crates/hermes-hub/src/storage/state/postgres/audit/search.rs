//! Searching audit entries.

use sqlx::{Postgres, QueryBuilder};

use super::{super::session::Session, entry_from_row};
use crate::{
    api_types::{AuditEntry, Decision},
    storage::state::{
        AuditOrder, AuditQuery, Page, Paged, StateError,
        audit::{EntryKey, page_entries, page_start},
        columns::ColumnReader,
    },
};

pub(super) async fn search_entries(
    session: &mut Session,
    query: &AuditQuery,
    page: &Page,
) -> Result<Paged<AuditEntry>, StateError> {
    let after = page_start(page)?;
    let last_looked = match query.bounded_reach() {
        Some(reach) => find_last_looked(session, query, after.as_ref(), reach).await?,
        None => None,
    };
    let mut sql = QueryBuilder::<Postgres>::new("SELECT text, hash FROM audit WHERE TRUE");
    if let Some(tenant) = &query.tenant {
        sql.push(" AND tenant = ").push_bind(tenant.to_string());
    }
    match query.only.as_deref() {
        // A single tenant is read in order, without sorting.
        Some([only]) => {
            sql.push(" AND tenant = ").push_bind(only.to_string());
        }
        Some(only) => {
            let only: Vec<String> = only.iter().map(ToString::to_string).collect();
            sql.push(" AND tenant = ANY(").push_bind(only).push(")");
        }
        None => {}
    }
    for (condition, value) in [
        (" AND actor = ", query.actor.as_deref()),
        (" AND action = ", query.action.as_deref()),
        (" AND decision = ", query.decision.map(Decision::as_str)),
        (" AND request_id = ", query.request_id.as_deref()),
    ] {
        if let Some(value) = value {
            sql.push(condition).push_bind(super::super::storable(value));
        }
    }
    push_range(&mut sql, query, after.as_ref(), last_looked.as_ref());
    sql.push(" LIMIT ").push_bind(page.fetch_limit());
    let rows = session.rows(sql.build()).await?;
    let entries: Vec<_> = rows.iter().map(entry_from_row).collect::<Result<_, _>>()?;
    Ok(page_entries(entries, page, last_looked))
}

/// The last of so many entries, whatever they are; `None` if there are fewer.
async fn find_last_looked(
    session: &mut Session,
    query: &AuditQuery,
    after: Option<&EntryKey>,
    reach: u32,
) -> Result<Option<EntryKey>, StateError> {
    let mut sql = QueryBuilder::<Postgres>::new("SELECT time, chain, seq FROM audit WHERE TRUE");
    push_range(&mut sql, query, after, None);
    sql.push(" LIMIT 1 OFFSET ").push_bind(i64::from(reach) - 1);
    let Some(row) = session.optional(sql.build()).await? else {
        return Ok(None);
    };
    let number = |column: &str| {
        let number = row.optional_integer(column)?;
        number.ok_or_else(|| StateError::Broken(format!("`{column}` of an entry is empty")))
    };
    Ok(Some((number("time")?, row.text("chain")?, number("seq")?)))
}

/// Adds the bounds of the time and the page, and the order.
fn push_range(
    sql: &mut QueryBuilder<Postgres>,
    query: &AuditQuery,
    after: Option<&EntryKey>,
    last_looked: Option<&EntryKey>,
) {
    if let Some(since) = query.since {
        sql.push(" AND time >= ").push_bind(since.millis());
    }
    if let Some(until) = query.until {
        sql.push(" AND time < ").push_bind(until.millis());
    }
    let (later, not_earlier, direction) = match query.order {
        AuditOrder::NewestFirst => ("<", ">=", "DESC"),
        AuditOrder::OldestFirst => (">", "<=", "ASC"),
    };
    for (bound, relation) in [(after, later), (last_looked, not_earlier)] {
        let Some((time, chain, seq)) = bound else {
            continue;
        };
        sql.push(format_args!(" AND (time, chain, seq) {relation} ("))
            .push_bind(*time)
            .push(", ")
            .push_bind(chain.clone())
            .push(", ")
            .push_bind(*seq)
            .push(")");
    }
    sql.push(format_args!(
        " ORDER BY time {direction}, chain {direction}, seq {direction}"
    ));
}
