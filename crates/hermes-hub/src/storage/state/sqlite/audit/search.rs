//! Searching audit entries.

use std::{cmp::Ordering, collections::VecDeque};

use sqlx::{QueryBuilder, Row, Sqlite, SqliteConnection, SqlitePool};

use super::entry_from_row;
use crate::{
    api_types::{AuditEntry, Decision, Time},
    storage::state::{
        AuditOrder, AuditQuery, Page, Paged, StateError,
        audit::{EntryKey, page_entries, page_start},
        columns::json_list,
    },
};

enum SearchSource {
    /// The whole log, by time.
    Log,
    /// Portions of the tenant index. They only locate entries; the entry itself says whose it is.
    Portions { chain: String, lasts: Vec<i64> },
    /// Entries that are not indexed yet.
    Unindexed,
}

/// Chain and last number of a portion, and the time of its first entry in the order.
type PortionRef = (String, i64, i64);

/// Portions that are searched by one statement. Of a tenant with few entries, most of the time is that of the statements.
const MAX_PORTIONS: usize = 128;

struct AuditSearch<'a> {
    query: &'a AuditQuery,
    after: Option<EntryKey>,
    /// The last entry that is looked at, if not all are.
    last_looked: Option<EntryKey>,
    max_entries: i64,
}

pub(super) async fn search_entries(
    readers: &SqlitePool,
    query: &AuditQuery,
    page: &Page,
) -> Result<Paged<AuditEntry>, StateError> {
    let mut search = AuditSearch {
        query,
        after: page_start(page)?,
        last_looked: None,
        max_entries: page.fetch_limit(),
    };
    let entries = if query.tenant.is_some() || query.only.is_some() {
        // In one read transaction, so that an entry that is indexed meanwhile is not missed.
        let mut moment = readers.begin().await?;
        search.by_tenant(&mut moment).await?
    } else {
        let mut connection = readers.acquire().await?;
        if let Some(reach) = query.bounded_reach() {
            search.last_looked = search.find_last_looked(&mut connection, reach).await?;
        }
        search
            .search_source(&mut connection, &SearchSource::Log)
            .await?
    };
    let entries = entries.into_iter().map(|(_, entry)| entry).collect();
    Ok(page_entries(entries, page, search.last_looked))
}

impl AuditSearch<'_> {
    /// The last of so many entries, whatever they are; `None` if there are fewer.
    async fn find_last_looked(
        &self,
        connection: &mut SqliteConnection,
        reach: u32,
    ) -> Result<Option<EntryKey>, StateError> {
        let mut sql = QueryBuilder::<Sqlite>::new(
            "SELECT entry.time, entry.chain, entry.seq FROM audit AS entry WHERE TRUE",
        );
        self.push_range(&mut sql, "entry");
        self.push_order(&mut sql, "entry");
        sql.push(" LIMIT 1 OFFSET ").push_bind(reach - 1);
        Ok(sql.build_query_as().fetch_optional(connection).await?)
    }

    /// Searches portions until the rest cannot contain an entry that comes earlier.
    async fn by_tenant(
        &self,
        connection: &mut SqliteConnection,
    ) -> Result<Vec<(EntryKey, AuditEntry)>, StateError> {
        let mut entries = self
            .search_source(connection, &SearchSource::Unindexed)
            .await?;
        let most = usize::try_from(self.max_entries).unwrap_or(usize::MAX);
        let mut portions = VecDeque::from(self.portions(connection).await?);
        // What is read of several portions is sorted: of tenants with many entries, few are searched at once.
        let mut at_once = 1;
        while let Some((chain, last, first)) = portions.pop_front() {
            if let Some(((time, ..), _)) = entries.get(most - 1)
                && self.compare(time, &first) == Ordering::Less
            {
                break;
            }
            let mut lasts = vec![last];
            while lasts.len() < at_once
                && let Some((_, next, _)) = portions.pop_front_if(|(other, ..)| *other == chain)
            {
                lasts.push(next);
            }
            let searched = lasts.len();
            let source = SearchSource::Portions { chain, lasts };
            let more = self.search_source(connection, &source).await?;
            // As many as the rest of the page seems to be in.
            let missing = most.saturating_sub(entries.len() + more.len());
            let expected = missing * searched / more.len().max(1);
            at_once = expected.clamp(1, MAX_PORTIONS).min(searched * 4);
            if !more.is_empty() {
                entries.extend(more);
                entries.sort_by(|(one, _), (other, _)| self.compare(one, other));
                entries.truncate(most);
            }
        }
        Ok(entries)
    }

    /// Portions that can contain matches, in the order of their entries.
    async fn portions(
        &self,
        connection: &mut SqliteConnection,
    ) -> Result<Vec<PortionRef>, StateError> {
        let mut since = self.query.since.map(Time::millis);
        let mut until = self.query.until.map(Time::millis);
        let after = self.after.as_ref().map(|(time, ..)| *time);
        let (first, direction) = match self.query.order {
            AuditOrder::NewestFirst => {
                until = until
                    .into_iter()
                    .chain(after.map(|time| time.saturating_add(1)))
                    .min();
                ("newest", "DESC")
            }
            AuditOrder::OldestFirst => {
                since = since.into_iter().chain(after).max();
                ("oldest", "ASC")
            }
        };
        let mut sql = QueryBuilder::<Sqlite>::new(format!(
            "SELECT chain, last, {first} FROM audit_portions WHERE TRUE"
        ));
        if let Some(since) = since {
            sql.push(" AND newest >= ").push_bind(since);
        }
        if let Some(until) = until {
            sql.push(" AND oldest < ").push_bind(until);
        }
        sql.push(format_args!(" ORDER BY {first} {direction}"));
        Ok(sql.build_query_as().fetch_all(connection).await?)
    }

    /// The first matches of one source.
    async fn search_source(
        &self,
        connection: &mut SqliteConnection,
        source: &SearchSource,
    ) -> Result<Vec<(EntryKey, AuditEntry)>, StateError> {
        // Columns of the portion need not be read from the entry.
        let key = match source {
            SearchSource::Portions { .. } => "key",
            SearchSource::Log | SearchSource::Unindexed => "entry",
        };
        let mut sql = QueryBuilder::<Sqlite>::new(format!(
            "SELECT entry.text, entry.hash, {key}.time, {key}.chain, {key}.seq FROM "
        ));
        match source {
            SearchSource::Log => {
                sql.push("audit AS entry WHERE TRUE");
            }
            SearchSource::Portions { chain, lasts } => {
                sql.push(
                    "audit_of_tenants AS key
                     CROSS JOIN audit AS entry ON entry.chain = key.chain AND entry.seq = key.seq
                     WHERE entry.tenant = key.tenant AND key.chain = ",
                )
                .push_bind(chain.clone());
                match lasts.as_slice() {
                    // Read in order, without sorting.
                    [last] => sql.push(" AND key.portion = ").push_bind(*last),
                    lasts => sql
                        .push(" AND key.portion IN (SELECT value FROM json_each(")
                        .push_bind(serde_json::to_string(lasts)?)
                        .push("))"),
                };
            }
            SearchSource::Unindexed => {
                sql.push(
                    "audit_chains CROSS JOIN audit AS entry ON entry.chain = audit_chains.chain AND entry.seq >
                         IFNULL((SELECT MAX(last) FROM audit_portions WHERE chain = audit_chains.chain), 0)
                     WHERE TRUE",
                );
            }
        }
        self.push_conditions(&mut sql, key)?;
        self.push_range(&mut sql, key);
        self.push_order(&mut sql, key);
        sql.push(" LIMIT ").push_bind(self.max_entries);
        let rows = sql.build().fetch_all(connection).await?;
        rows.iter()
            .map(|row| {
                let key = (
                    row.try_get("time")?,
                    row.try_get("chain")?,
                    row.try_get("seq")?,
                );
                Ok((key, entry_from_row(row)?))
            })
            .collect()
    }

    fn push_conditions(&self, sql: &mut QueryBuilder<Sqlite>, key: &str) -> Result<(), StateError> {
        let query = self.query;
        if let Some(tenant) = &query.tenant {
            sql.push(format_args!(" AND {key}.tenant = "))
                .push_bind(tenant.to_string());
        }
        match query.only.as_deref() {
            // A single tenant is read in order, without sorting.
            Some([only]) => {
                sql.push(format_args!(" AND {key}.tenant = "))
                    .push_bind(only.to_string());
            }
            only => {
                if let Some(only) = json_list(only)? {
                    sql.push(format_args!(
                        " AND {key}.tenant IN (SELECT value FROM json_each("
                    ))
                    .push_bind(only)
                    .push("))");
                }
            }
        }
        for (name, value) in [
            ("actor", query.actor.as_deref()),
            ("action", query.action.as_deref()),
            ("decision", query.decision.map(Decision::as_str)),
            ("request_id", query.request_id.as_deref()),
        ] {
            if let Some(value) = value {
                sql.push(format_args!(" AND entry.{name} = "))
                    .push_bind(value.to_owned());
            }
        }
        Ok(())
    }

    fn push_range(&self, sql: &mut QueryBuilder<Sqlite>, key: &str) {
        let query = self.query;
        if let Some(since) = query.since {
            sql.push(format_args!(" AND {key}.time >= "))
                .push_bind(since.millis());
        }
        if let Some(until) = query.until {
            sql.push(format_args!(" AND {key}.time < "))
                .push_bind(until.millis());
        }
        let (later, not_earlier) = match query.order {
            AuditOrder::NewestFirst => ("<", ">="),
            AuditOrder::OldestFirst => (">", "<="),
        };
        let bounds = [(&self.after, later), (&self.last_looked, not_earlier)];
        for (bound, relation) in bounds {
            let Some((time, chain, seq)) = bound else {
                continue;
            };
            sql.push(format_args!(
                " AND ({key}.time, {key}.chain, {key}.seq) {relation} ("
            ))
            .push_bind(*time)
            .push(", ")
            .push_bind(chain.clone())
            .push(", ")
            .push_bind(*seq)
            .push(")");
        }
    }

    fn push_order(&self, sql: &mut QueryBuilder<Sqlite>, key: &str) {
        let direction = match self.query.order {
            AuditOrder::NewestFirst => "DESC",
            AuditOrder::OldestFirst => "ASC",
        };
        sql.push(format_args!(
            " ORDER BY {key}.time {direction}, {key}.chain {direction}, {key}.seq {direction}"
        ));
    }

    fn compare<T: Ord>(&self, one: &T, other: &T) -> Ordering {
        match self.query.order {
            AuditOrder::NewestFirst => other.cmp(one),
            AuditOrder::OldestFirst => one.cmp(other),
        }
    }
}
