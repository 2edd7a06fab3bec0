//! Finding entries.

use sqlx::{QueryBuilder, Sqlite, SqlitePool};

use super::{super::row::list, entry};
use crate::{
    shapes::{AuditEntry, Decision},
    state::{AuditOrder, AuditQuery, Page, Paged, StateError},
};

/// Where to look.
#[derive(Clone, Copy)]
enum Place {
    /// The whole log, in the order of time.
    Log,
    /// The lists of tenants. They say where to look; whose an entry is, the entry says.
    Filed,
    /// What is not in these lists yet.
    Unfiled,
}

impl Place {
    fn sql(self) -> &'static str {
        match self {
            Self::Log => "SELECT text, hash, time, chain, seq FROM audit AS key WHERE TRUE",
            Self::Filed => {
                "SELECT entry.text, entry.hash, key.time, key.chain, key.seq
                 FROM audit_of_tenants AS key
                 CROSS JOIN audit AS entry ON entry.chain = key.chain AND entry.seq = key.seq
                 WHERE entry.tenant = key.tenant"
            }
            Self::Unfiled => {
                "SELECT key.text, key.hash, key.time, key.chain, key.seq
                 FROM audit_chains CROSS JOIN audit AS key ON key.chain = audit_chains.chain
                   AND key.seq > IFNULL((SELECT seq FROM audit_filed WHERE chain = audit_chains.chain), 0)
                 WHERE TRUE"
            }
        }
    }
}

/// One page of what is looked for.
pub(super) async fn search(
    readers: &SqlitePool,
    query: &AuditQuery,
    page: &Page,
) -> Result<Paged<AuditEntry>, StateError> {
    let after = after(page)?;
    let places: &[Place] = if query.tenant.is_some() || query.only.is_some() {
        &[Place::Filed, Place::Unfiled]
    } else {
        &[Place::Log]
    };
    let (relation, direction) = match query.order {
        AuditOrder::NewestFirst => ("<", "DESC"),
        AuditOrder::OldestFirst => (">", "ASC"),
    };
    let mut sql = QueryBuilder::<Sqlite>::new("");
    for (number, place) in places.iter().enumerate() {
        if number > 0 {
            sql.push(" UNION ALL ");
        }
        sql.push(place.sql());
        conditions(&mut sql, query)?;
        if let Some((time, chain, seq)) = &after {
            sql.push(format_args!(
                " AND (key.time, key.chain, key.seq) {relation} ("
            ))
            .push_bind(*time)
            .push(", ")
            .push_bind(chain.clone())
            .push(", ")
            .push_bind(*seq)
            .push(")");
        }
    }
    sql.push(format_args!(
        " ORDER BY 3 {direction}, 4 {direction}, 5 {direction} LIMIT "
    ))
    .push_bind(page.fetch());
    let rows = sql.build().fetch_all(readers).await?;
    let entries: Vec<_> = rows.iter().map(entry).collect::<Result<_, _>>()?;
    Ok(Paged::of(entries, page, |entry| {
        [
            entry.time.millis().to_string(),
            entry.chain.clone(),
            entry.seq.to_string(),
        ]
    }))
}

/// Where the page goes on from: time, chain and number of an entry.
fn after(page: &Page) -> Result<Option<(i64, String, i64)>, StateError> {
    let Some([time, chain, seq]) = page.key::<3>()? else {
        return Ok(None);
    };
    let number = |text: &str| text.parse().map_err(|_| StateError::BadCursor);
    Ok(Some((number(&time)?, chain, number(&seq)?)))
}

fn conditions(sql: &mut QueryBuilder<Sqlite>, query: &AuditQuery) -> Result<(), StateError> {
    if let Some(tenant) = &query.tenant {
        sql.push(" AND key.tenant = ").push_bind(tenant.to_string());
    }
    match query.only.as_deref() {
        // One alone is read in the order of its list, without sorting.
        Some([only]) => {
            sql.push(" AND key.tenant = ").push_bind(only.to_string());
        }
        only => {
            if let Some(only) = list(only)? {
                sql.push(" AND key.tenant IN (SELECT value FROM json_each(")
                    .push_bind(only)
                    .push("))");
            }
        }
    }
    for (name, value) in [
        ("actor", query.actor.as_deref()),
        ("action", query.action.as_deref()),
        ("decision", query.decision.map(Decision::word)),
        ("request_id", query.request_id.as_deref()),
    ] {
        if let Some(value) = value {
            sql.push(format_args!(" AND {name} = "))
                .push_bind(value.to_owned());
        }
    }
    if let Some(since) = query.since {
        sql.push(" AND key.time >= ").push_bind(since.millis());
    }
    if let Some(until) = query.until {
        sql.push(" AND key.time < ").push_bind(until.millis());
    }
    Ok(())
}
