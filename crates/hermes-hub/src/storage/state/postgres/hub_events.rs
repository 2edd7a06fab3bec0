//! Events of the Hub in PostgreSQL. They are stored in an inbox with what they tell of, without a lock that other nodes
//! would wait for; then one node at a time moves them to the log, where they get their ids. So ids have the order in which
//! they can be seen, and a watcher that resumes misses none.

use async_trait::async_trait;
use sqlx::{Postgres, QueryBuilder};
use tokio::sync::watch;

use super::{
    PostgresState, Session, retention::MAX_DELETED, session, storable, to_column,
    write_group::GroupedWrite,
};
use crate::{
    api_types::{HubEvent, Time},
    storage::state::{
        HubEventQuery, HubEventRange, HubEventStore, NewHubEvent, Notice, NoticeStore, StateError,
        columns::ColumnReader, hub_events::event_from_row,
    },
};

/// Events that are moved in one transaction.
const MAX_MOVED: i64 = 1000;

/// Adds events to the transaction of what they tell of, in order.
pub(super) async fn add_events(
    write: &mut GroupedWrite,
    events: &[NewHubEvent],
) -> Result<(), StateError> {
    if events.is_empty() {
        return Ok(());
    }
    let (mut kinds, mut tenants, mut data) = (Vec::new(), Vec::new(), Vec::new());
    for event in events {
        kinds.push(event.kind.as_str());
        tenants.push(event.tenant.as_str());
        data.push(storable(&serde_json::to_string(&event.data)?));
    }
    let insert = sqlx::query(
        "INSERT INTO hub_event_inbox (type, tenant, data, time)
         SELECT *, $4 FROM unnest($1::text[], $2::text[], $3::text[])",
    )
    .bind(kinds)
    .bind(tenants)
    .bind(data)
    .bind(Time::now().millis());
    write.execute(insert).await.map(drop)
}

impl PostgresState {
    /// Commits a change with the events that tell of it, and wakes those who wait for events.
    pub(super) async fn commit_with(
        &self,
        mut write: GroupedWrite,
        events: &[NewHubEvent],
    ) -> Result<(), StateError> {
        add_events(&mut write, events).await?;
        write.commit().await?;
        if !events.is_empty() {
            self.tell_all_watchers();
        }
        Ok(())
    }

    /// Wakes those who wait for events: in this process at once, at other nodes by a notice. If it is lost, they look every
    /// two seconds.
    pub(super) fn tell_all_watchers(&self) {
        self.tell_watchers();
        self.notify(Notice::Events);
    }

    /// Wakes those who wait for events in this process.
    pub(super) fn tell_watchers(&self) {
        self.event_stored.send_modify(|count| *count += 1);
    }

    /// A transaction of its own, so that what it locks is not locked until others are done.
    pub(super) async fn begin_alone(&self) -> Result<Session, StateError> {
        let begun = self.readers.begin_with(self.server.begin_write()).await;
        let begun = begun.map_err(session::database_error)?;
        Ok(Session::in_transaction(begun, &self.server))
    }

    /// Moves the events that are in the inbox now to the log. Those that come meanwhile are left to the next call: while
    /// much is written, there would be no end to it, and each commit waits for the disk.
    pub(super) async fn move_events(&self) -> Result<(), StateError> {
        loop {
            // Along the index: the table itself is full of rows that were moved.
            let waiting = sqlx::query("SELECT number FROM hub_event_inbox ORDER BY number LIMIT 1");
            if self.read().await?.optional(waiting).await?.is_none() {
                return Ok(());
            }
            if self.move_some_events(MAX_MOVED).await? < MAX_MOVED.unsigned_abs() {
                return Ok(());
            }
        }
    }

    /// Moves the first events of the inbox to the log, at most so many; returns how many.
    pub(super) async fn move_some_events(&self, most: i64) -> Result<u64, StateError> {
        let mut session = self.begin_alone().await?;
        let head = sqlx::query("SELECT last FROM hub_event_head FOR UPDATE");
        let last = session.one(head).await?.count("last")?;
        let moved = sqlx::query(
            "WITH moved AS (
                 DELETE FROM hub_event_inbox WHERE number = ANY(ARRAY(
                     SELECT number FROM hub_event_inbox ORDER BY number LIMIT $2))
                 RETURNING number, type, tenant, data, time)
             INSERT INTO hub_events (id, type, tenant, data, time)
             SELECT $1 + row_number() OVER (ORDER BY number), type, tenant, data, time FROM moved",
        )
        .bind(to_column(last))
        .bind(most);
        let count = session.execute(moved).await?;
        if count > 0 {
            let next = sqlx::query("UPDATE hub_event_head SET last = $1");
            session.execute(next.bind(to_column(last + count))).await?;
        }
        session.commit().await?;
        Ok(count)
    }
}

#[async_trait]
impl HubEventStore for PostgresState {
    async fn hub_events(
        &self,
        query: &HubEventQuery,
        most: u32,
    ) -> Result<Vec<HubEvent>, StateError> {
        self.move_events().await?;
        let mut sql = QueryBuilder::<Postgres>::new("SELECT * FROM hub_events WHERE id > ");
        sql.push_bind(to_column(query.after));
        if !query.kinds.is_empty() {
            let kinds: Vec<&str> = query.kinds.iter().map(|kind| kind.as_str()).collect();
            sql.push(" AND type = ANY(").push_bind(kinds).push(")");
        }
        if let Some(tenant) = &query.tenant {
            sql.push(" AND tenant = ").push_bind(tenant.as_str());
        }
        if let Some(only) = &query.only {
            let only: Vec<String> = only.iter().map(ToString::to_string).collect();
            sql.push(" AND tenant = ANY(").push_bind(only).push(")");
        }
        sql.push(" ORDER BY id LIMIT ").push_bind(i64::from(most));
        let rows = self.read().await?.rows(sql.build()).await?;
        rows.iter().map(event_from_row).collect()
    }

    async fn hub_event_range(&self) -> Result<HubEventRange, StateError> {
        self.move_events().await?;
        let range = sqlx::query(
            "SELECT (SELECT MIN(id) FROM hub_events) AS oldest, last FROM hub_event_head",
        );
        let row = self.read().await?.one(range).await?;
        Ok(HubEventRange {
            oldest: row.optional_count("oldest")?,
            last: row.count("last")?,
        })
    }

    fn hub_event_notice(&self) -> watch::Receiver<u64> {
        self.event_stored.subscribe()
    }

    async fn forget_hub_events(&self, before: Time) -> Result<u64, StateError> {
        let delete = "DELETE FROM hub_events WHERE id = ANY(ARRAY(
                SELECT id FROM hub_events WHERE time < $1 ORDER BY time LIMIT $2))";
        self.delete_in_parts(delete, before.millis(), MAX_DELETED)
            .await
    }
}
