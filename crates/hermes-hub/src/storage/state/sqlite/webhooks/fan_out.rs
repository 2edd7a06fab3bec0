//! From events to deliveries.

use sqlx::SqliteConnection;

use super::super::{Affected, SqliteState, commit, to_column};
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

/// The last event so far. Where no webhook is enabled, earlier ones need not be looked at any more.
pub(super) async fn skip_old_events(write: &mut SqliteConnection) -> Result<i64, StateError> {
    let last: i64 = sqlx::query_scalar("SELECT last FROM hub_event_head")
        .fetch_one(&mut *write)
        .await?;
    sqlx::query(
        "UPDATE hub_event_head SET fanned_out = last
         WHERE NOT EXISTS (SELECT 1 FROM webhooks WHERE enabled <> 0)",
    )
    .execute(write)
    .await?;
    Ok(last)
}

/// Makes deliveries of the next events; returns how many were looked at.
pub(super) async fn fan_out(state: &SqliteState, now: Time, most: u32) -> Result<u32, StateError> {
    let is_needed: bool = sqlx::query_scalar(
        "SELECT EXISTS (SELECT 1 FROM webhooks WHERE enabled <> 0)
             AND EXISTS (SELECT 1 FROM hub_events WHERE id > (SELECT fanned_out FROM hub_event_head))",
    )
    .fetch_one(state.readers())
    .await?;
    if !is_needed {
        return Ok(0);
    }
    let mut write = state.begin_change(Affected::NoTenant).await?;
    let rows = sqlx::query("SELECT * FROM webhooks WHERE enabled <> 0")
        .fetch_all(&mut *write)
        .await?;
    let webhooks: Vec<(u64, WebhookRecord)> = rows
        .iter()
        .map(|row| Ok::<_, StateError>((row.count("since")?, webhook_from_row(row)?)))
        .collect::<Result<_, _>>()?;
    let rows = sqlx::query(
        "SELECT * FROM hub_events WHERE id > (SELECT fanned_out FROM hub_event_head) ORDER BY id LIMIT ?1",
    )
    .bind(most)
    .fetch_all(&mut *write)
    .await?;
    let events: Vec<HubEvent> = rows.iter().map(event_from_row).collect::<Result<_, _>>()?;
    for event in &events {
        for (since, record) in &webhooks {
            if event.id > *since && record.wants(event) {
                let id = DeliveryId::random().map_err(StateError::broken)?;
                let body = serde_json::to_string(event)?;
                let webhook = &record.webhook.id;
                add_delivery(&mut write, webhook, &id, event.kind, &body, now).await?;
            }
        }
    }
    if let Some(last) = events.last() {
        sqlx::query("UPDATE hub_event_head SET fanned_out = ?1")
            .bind(to_column(last.id))
            .execute(&mut *write)
            .await?;
    }
    commit(write).await?;
    Ok(u32::try_from(events.len()).unwrap_or(u32::MAX))
}

pub(super) async fn add_delivery(
    write: &mut SqliteConnection,
    webhook: &WebhookId,
    id: &DeliveryId,
    kind: HubEventType,
    body: &str,
    now: Time,
) -> Result<(), StateError> {
    sqlx::query(
        "INSERT INTO webhook_deliveries (id, webhook, type, body, state, next_at, created_at)
         VALUES (?1, ?2, ?3, ?4, 'pending', ?5, ?5)",
    )
    .bind(id.as_str())
    .bind(webhook.as_str())
    .bind(kind.as_str())
    .bind(body)
    .bind(now.millis())
    .execute(write)
    .await?;
    Ok(())
}
