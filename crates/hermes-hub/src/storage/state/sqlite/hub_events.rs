//! Events of the Hub in SQLite.

use async_trait::async_trait;
use sqlx::{QueryBuilder, Sqlite, SqliteConnection};
use tokio::sync::watch;

use super::{Affected, SqliteState, WriteTransaction, commit, to_column};
use crate::{
    api_types::{HubEvent, Time},
    storage::state::{
        HubEventQuery, HubEventRange, HubEventStore, NewHubEvent, StateError,
        columns::{ColumnReader, json_list},
        hub_events::event_from_row,
    },
};

/// Events deleted in one transaction.
const MAX_FORGOTTEN_EVENTS: u32 = 1000;

/// Adds an event to the transaction of what it tells of.
async fn add_event(write: &mut SqliteConnection, event: &NewHubEvent) -> Result<(), StateError> {
    sqlx::query(
        "INSERT INTO hub_events (id, type, tenant, data, time)
         VALUES ((SELECT last + 1 FROM hub_event_head), ?1, ?2, ?3, ?4)",
    )
    .bind(event.kind.as_str())
    .bind(event.tenant.as_str())
    .bind(serde_json::to_string(&event.data)?)
    .bind(Time::now().millis())
    .execute(write)
    .await?;
    Ok(())
}

/// The same for several, by one statement.
async fn add_several(
    write: &mut SqliteConnection,
    events: &[NewHubEvent],
) -> Result<(), StateError> {
    let mut rows = Vec::with_capacity(events.len());
    for event in events {
        let data = serde_json::to_string(&event.data)?;
        rows.push((event.kind.as_str(), event.tenant.as_str(), data));
    }
    sqlx::query(
        "INSERT INTO hub_events (id, type, tenant, data, time)
         SELECT (SELECT last FROM hub_event_head) + 1 + key, value ->> 0, value ->> 1, value ->> 2, ?2 FROM json_each(?1)",
    )
    .bind(serde_json::to_string(&rows)?)
    .bind(Time::now().millis())
    .execute(write)
    .await?;
    Ok(())
}

impl SqliteState {
    /// Commits a change with the events that tell of it, and wakes those who wait for events.
    pub(super) async fn commit_with(
        &self,
        mut write: WriteTransaction<'_>,
        events: &[NewHubEvent],
    ) -> Result<(), StateError> {
        self.add_events(&mut write, events).await?;
        commit(write).await?;
        if !events.is_empty() {
            self.tell_watchers();
        }
        Ok(())
    }

    /// Adds events to the transaction of what they tell of.
    pub(super) async fn add_events(
        &self,
        write: &mut WriteTransaction<'_>,
        events: &[NewHubEvent],
    ) -> Result<(), StateError> {
        match events {
            [] => Ok(()),
            [event] => add_event(write, event).await,
            events => add_several(write, events).await,
        }
    }

    /// Wakes those who wait for events. Called after the commit.
    pub(super) fn tell_watchers(&self) {
        self.event_stored.send_modify(|count| *count += 1);
    }
}

#[async_trait]
impl HubEventStore for SqliteState {
    async fn hub_events(
        &self,
        query: &HubEventQuery,
        most: u32,
    ) -> Result<Vec<HubEvent>, StateError> {
        let mut sql = QueryBuilder::<Sqlite>::new("SELECT * FROM hub_events WHERE id > ");
        sql.push_bind(to_column(query.after));
        if !query.kinds.is_empty() {
            sql.push(" AND type IN (SELECT value FROM json_each(")
                .push_bind(serde_json::to_string(&query.kinds)?)
                .push("))");
        }
        if let Some(tenant) = &query.tenant {
            sql.push(" AND tenant = ").push_bind(tenant.as_str());
        }
        if let Some(only) = json_list(query.only.as_deref())? {
            sql.push(" AND tenant IN (SELECT value FROM json_each(")
                .push_bind(only)
                .push("))");
        }
        sql.push(" ORDER BY id LIMIT ").push_bind(most);
        let rows = sql.build().fetch_all(self.readers()).await?;
        rows.iter().map(event_from_row).collect()
    }

    async fn hub_event_range(&self) -> Result<HubEventRange, StateError> {
        let row = sqlx::query(
            "SELECT (SELECT MIN(id) FROM hub_events) AS oldest, last FROM hub_event_head",
        )
        .fetch_one(self.readers())
        .await?;
        Ok(HubEventRange {
            oldest: row.optional_count("oldest")?,
            last: row.count("last")?,
        })
    }

    fn hub_event_notice(&self) -> watch::Receiver<u64> {
        self.event_stored.subscribe()
    }

    async fn forget_hub_events(&self, before: Time) -> Result<u64, StateError> {
        let mut forgotten = 0;
        loop {
            let mut write = self.begin_change(Affected::NoTenant).await?;
            let some = sqlx::query(
                "DELETE FROM hub_events WHERE id IN (SELECT id FROM hub_events WHERE time < ?1 LIMIT ?2)",
            )
            .bind(before.millis())
            .bind(MAX_FORGOTTEN_EVENTS)
            .execute(&mut *write)
            .await?
            .rows_affected();
            commit(write).await?;
            forgotten += some;
            if some < u64::from(MAX_FORGOTTEN_EVENTS) {
                return Ok(forgotten);
            }
        }
    }
}
