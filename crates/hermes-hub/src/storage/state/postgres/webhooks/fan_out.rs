//! From events to deliveries.

use std::time::Duration;

use super::super::{PostgresState, Session, to_column};
use crate::{
    api_types::{
        HubEvent, HubEventType, Time,
        ids::{DeliveryId, WebhookId},
    },
    storage::state::{
        StateError, WebhookRecord, columns::ColumnReader, hub_events::event_from_row,
        webhooks::webhook_from_row,
    },
};

/// How long events stay in the inbox where nobody wants them.
const INBOX_TIME: Duration = Duration::from_secs(1);
/// Of these, so many are moved at a time.
const MOVED_UNWANTED: i64 = 500;
/// After this time all are moved: they come faster than that.
const MAX_INBOX_TIME: Duration = Duration::from_secs(10);

/// The last event so far. Where no webhook is enabled, earlier ones need not be looked at any more.
pub(super) async fn skip_old_events(session: &mut Session) -> Result<i64, StateError> {
    let head = sqlx::query("SELECT last FROM hub_event_head FOR UPDATE");
    let last = to_column(session.one(head).await?.count("last")?);
    let skip = sqlx::query(
        "UPDATE hub_event_head SET fanned_out = last WHERE NOT EXISTS (SELECT 1 FROM webhooks WHERE enabled)",
    );
    session.execute(skip).await?;
    Ok(last)
}

/// Makes deliveries of the next events; returns how many were looked at.
pub(super) async fn fan_out(
    state: &PostgresState,
    now: Time,
    most: u32,
) -> Result<u32, StateError> {
    // Where no webhook waits for them, whoever reads the log moves them: each time is a commit. They do not stay for long,
    // by whichever clock, and few are moved at a time, because that takes the server's processors from the writers.
    let look = sqlx::query(
        "SELECT EXISTS (SELECT 1 FROM webhooks WHERE enabled) AS are_wanted,
             COALESCE(abs(hub_now() - (SELECT time FROM hub_event_inbox ORDER BY number LIMIT 1)), 0) AS age",
    );
    let look = state.read().await?.one(look).await?;
    if !look.flag("are_wanted")? {
        match Duration::from_millis(look.count("age")?) {
            age if age > MAX_INBOX_TIME => state.move_events().await?,
            age if age > INBOX_TIME => {
                state.move_some_events(MOVED_UNWANTED).await.map(drop)?;
            }
            _ => {}
        }
        return Ok(0);
    }
    state.move_events().await?;
    let needed = sqlx::query(
        "SELECT EXISTS (SELECT 1 FROM webhooks WHERE enabled)
             AND EXISTS (SELECT 1 FROM hub_events WHERE id > (SELECT fanned_out FROM hub_event_head)) AS needed",
    );
    if !state.read().await?.one(needed).await?.flag("needed")? {
        return Ok(0);
    }
    let mut session = state.begin_alone().await?;
    let head = sqlx::query("SELECT fanned_out FROM hub_event_head FOR UPDATE");
    let position = session.one(head).await?.count("fanned_out")?;
    let rows = session
        .rows(sqlx::query("SELECT * FROM webhooks WHERE enabled"))
        .await?;
    let webhooks: Vec<(u64, WebhookRecord)> = rows
        .iter()
        .map(|row| Ok::<_, StateError>((row.count("since")?, webhook_from_row(row)?)))
        .collect::<Result<_, _>>()?;
    let next = sqlx::query("SELECT * FROM hub_events WHERE id > $1 ORDER BY id LIMIT $2")
        .bind(to_column(position))
        .bind(i64::from(most));
    let rows = session.rows(next).await?;
    let events: Vec<HubEvent> = rows.iter().map(event_from_row).collect::<Result<_, _>>()?;
    for event in &events {
        for (since, record) in &webhooks {
            if event.id > *since && record.wants(event) {
                let id = DeliveryId::random().map_err(StateError::broken)?;
                let body = serde_json::to_string(event)?;
                let webhook = &record.webhook.id;
                add_delivery(&mut session, webhook, &id, event.kind, &body, now).await?;
            }
        }
    }
    if let Some(last) = events.last() {
        let moved =
            sqlx::query("UPDATE hub_event_head SET fanned_out = $1").bind(to_column(last.id));
        session.execute(moved).await?;
    }
    session.commit().await?;
    Ok(u32::try_from(events.len()).unwrap_or(u32::MAX))
}

pub(super) async fn add_delivery(
    session: &mut Session,
    webhook: &WebhookId,
    id: &DeliveryId,
    kind: HubEventType,
    body: &str,
    now: Time,
) -> Result<(), StateError> {
    let insert = sqlx::query(
        "INSERT INTO webhook_deliveries (id, webhook, type, body, state, next_at, created_at)
         VALUES ($1, $2, $3, $4, 'pending', $5, $5)",
    )
    .bind(id.as_str())
    .bind(webhook.as_str())
    .bind(kind.as_str())
    .bind(body)
    .bind(now.millis());
    session.execute(insert).await.map(drop)
}
