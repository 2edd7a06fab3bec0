//! Webhooks and their queue in SQLite.

use async_trait::async_trait;
use sqlx::{QueryBuilder, Sqlite, SqliteConnection};

use super::{Affected, SqliteState, commit};
use crate::{
    api_types::{
        Delivery, DeliveryState, HubEventType, Time,
        ids::{DeliveryId, WebhookId},
    },
    storage::{
        audit::NewAuditEntry,
        encryption::EncryptedSecret,
        state::{
            AttemptResult, ClaimedDelivery, NewWebhook, NextAttempt, Page, Paged, StateError,
            WebhookChange, WebhookRecord, WebhookStore,
            columns::ColumnReader,
            webhooks::{NO_DELIVERY, NO_WEBHOOK, delivery_from_row, webhook_from_row},
        },
    },
};

mod fan_out;

/// Deliveries deleted in one transaction.
const MAX_FORGOTTEN_DELIVERIES: u32 = 500;

async fn find_webhook(
    connection: &mut SqliteConnection,
    id: &WebhookId,
) -> Result<Option<WebhookRecord>, StateError> {
    let row = sqlx::query("SELECT * FROM webhooks WHERE id = ?1")
        .bind(id.as_str())
        .fetch_optional(connection)
        .await?;
    row.map(|row| webhook_from_row(&row)).transpose()
}

async fn find_delivery(
    connection: &mut SqliteConnection,
    webhook: &WebhookId,
    id: &DeliveryId,
) -> Result<Delivery, StateError> {
    let row = sqlx::query("SELECT * FROM webhook_deliveries WHERE id = ?1 AND webhook = ?2")
        .bind(id.as_str())
        .bind(webhook.as_str())
        .fetch_optional(connection)
        .await?;
    delivery_from_row(&row.ok_or(NO_DELIVERY)?)
}

#[async_trait]
impl WebhookStore for SqliteState {
    async fn create_webhook(
        &self,
        webhook: NewWebhook,
        most: u32,
        entry: NewAuditEntry,
    ) -> Result<WebhookRecord, StateError> {
        let mut write = self.begin_change(Affected::NoTenant).await?;
        let count: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM webhooks")
            .fetch_one(&mut *write)
            .await?;
        if count >= i64::from(most) {
            return Err(StateError::Conflict {
                reason: "too_many",
                message: format!("there are {count} webhooks already; delete one first"),
            });
        }
        let since = fan_out::skip_old_events(&mut write).await?;
        sqlx::query(
            "INSERT INTO webhooks (id, url, events, tenants, enabled, since, sealed, created_at, updated_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8)",
        )
        .bind(webhook.id.as_str())
        .bind(&webhook.url)
        .bind(serde_json::to_string(&webhook.events)?)
        .bind(webhook.tenants.as_ref().map(serde_json::to_string).transpose()?)
        .bind(webhook.enabled)
        .bind(since)
        .bind(webhook.secret.as_bytes())
        .bind(Time::now().millis())
        .execute(&mut *write)
        .await?;
        self.append_effect(&mut write, entry).await?;
        let made = find_webhook(&mut write, &webhook.id).await?;
        commit(write).await?;
        made.ok_or(NO_WEBHOOK)
    }

    async fn webhook(&self, id: &WebhookId) -> Result<Option<WebhookRecord>, StateError> {
        let mut connection = self.readers().acquire().await?;
        find_webhook(&mut connection, id).await
    }

    async fn webhooks(&self) -> Result<Vec<WebhookRecord>, StateError> {
        let rows = sqlx::query("SELECT * FROM webhooks ORDER BY created_at, id")
            .fetch_all(self.readers())
            .await?;
        rows.iter().map(webhook_from_row).collect()
    }

    async fn update_webhook(
        &self,
        id: &WebhookId,
        change: WebhookChange,
        expected: Option<u64>,
        entry: NewAuditEntry,
    ) -> Result<WebhookRecord, StateError> {
        let mut write = self.begin_change(Affected::NoTenant).await?;
        let old = find_webhook(&mut write, id).await?.ok_or(NO_WEBHOOK)?;
        if expected.is_some_and(|expected| expected != old.revision) {
            return Err(StateError::Changed { what: "webhook" });
        }
        let is_enabled = change.enabled.unwrap_or(old.webhook.enabled);
        // What happened while it was off is not for it.
        let since = if is_enabled && !old.webhook.enabled {
            Some(fan_out::skip_old_events(&mut write).await?)
        } else {
            None
        };
        let tenants = change.tenants.unwrap_or(old.webhook.tenants);
        sqlx::query(
            "UPDATE webhooks SET url = IFNULL(?2, url), events = IFNULL(?3, events), tenants = ?4, enabled = ?5,
                 since = IFNULL(?6, since), sealed = IFNULL(?7, sealed), revision = revision + 1, updated_at = ?8
             WHERE id = ?1",
        )
        .bind(id.as_str())
        .bind(&change.url)
        .bind(change.events.as_ref().map(serde_json::to_string).transpose()?)
        .bind(tenants.as_ref().map(serde_json::to_string).transpose()?)
        .bind(is_enabled)
        .bind(since)
        .bind(change.secret.as_ref().map(EncryptedSecret::as_bytes))
        .bind(Time::now().millis())
        .execute(&mut *write)
        .await?;
        self.append_effect(&mut write, entry).await?;
        let changed = find_webhook(&mut write, id).await?;
        commit(write).await?;
        self.tell_watchers();
        changed.ok_or(NO_WEBHOOK)
    }

    async fn delete_webhook(&self, id: &WebhookId, entry: NewAuditEntry) -> Result<(), StateError> {
        let mut write = self.begin_change(Affected::NoTenant).await?;
        let removed = sqlx::query("DELETE FROM webhooks WHERE id = ?1")
            .bind(id.as_str())
            .execute(&mut *write)
            .await?;
        if removed.rows_affected() == 0 {
            return Err(NO_WEBHOOK);
        }
        self.append_effect(&mut write, entry).await?;
        commit(write).await
    }

    async fn disable_webhook(
        &self,
        id: &WebhookId,
        entry: NewAuditEntry,
    ) -> Result<(), StateError> {
        let mut write = self.begin_change(Affected::NoTenant).await?;
        let disabled = sqlx::query(
            "UPDATE webhooks SET enabled = 0, revision = revision + 1, updated_at = ?2
             WHERE id = ?1 AND enabled <> 0",
        )
        .bind(id.as_str())
        .bind(Time::now().millis())
        .execute(&mut *write)
        .await?;
        if disabled.rows_affected() > 0 {
            self.append_effect(&mut write, entry).await?;
        }
        commit(write).await
    }

    async fn fan_out_events(&self, now: Time, most: u32) -> Result<u32, StateError> {
        fan_out::fan_out(self, now, most).await
    }

    async fn due_webhooks(&self, now: Time) -> Result<Vec<WebhookId>, StateError> {
        let rows = sqlx::query(
            "SELECT id FROM webhooks WHERE enabled <> 0 AND EXISTS (
                 SELECT 1 FROM webhook_deliveries d
                 WHERE d.webhook = webhooks.id AND d.state = 'pending' AND d.next_at <= ?1) ORDER BY id",
        )
        .bind(now.millis())
        .fetch_all(self.readers())
        .await?;
        rows.iter()
            .map(|row| row.id("id", WebhookId::parse))
            .collect()
    }

    async fn next_delivery(&self) -> Result<Option<Time>, StateError> {
        let row = sqlx::query(
            "SELECT MIN((SELECT MIN(d.next_at) FROM webhook_deliveries d
                 WHERE d.webhook = webhooks.id AND d.state = 'pending')) AS next
             FROM webhooks WHERE enabled <> 0",
        )
        .fetch_one(self.readers())
        .await?;
        row.optional_time("next")
    }

    async fn claim_deliveries(
        &self,
        webhook: &WebhookId,
        now: Time,
        until: Time,
        most: u32,
    ) -> Result<Vec<ClaimedDelivery>, StateError> {
        let mut write = self.begin_change(Affected::NoTenant).await?;
        let rows = sqlx::query(
            "UPDATE webhook_deliveries SET next_at = ?3 WHERE number IN (
                 SELECT number FROM webhook_deliveries
                 WHERE webhook = ?1 AND state = 'pending' AND next_at <= ?2 ORDER BY next_at, number LIMIT ?4)
             RETURNING number, id, body, attempts",
        )
        .bind(webhook.as_str())
        .bind(now.millis())
        .bind(until.millis())
        .bind(most)
        .fetch_all(&mut *write)
        .await?;
        let mut claimed: Vec<(u64, ClaimedDelivery)> = rows
            .iter()
            .map(|row| {
                let claimed = ClaimedDelivery {
                    id: row.id("id", DeliveryId::parse)?,
                    body: row.text("body")?,
                    attempts: u32::try_from(row.count("attempts")?).map_err(StateError::broken)?,
                };
                Ok::<_, StateError>((row.count("number")?, claimed))
            })
            .collect::<Result<_, _>>()?;
        commit(write).await?;
        claimed.sort_by_key(|(number, _)| *number);
        Ok(claimed.into_iter().map(|(_, claimed)| claimed).collect())
    }

    async fn finish_attempt(
        &self,
        id: &DeliveryId,
        result: AttemptResult,
        now: Time,
    ) -> Result<(), StateError> {
        let (state, next) = match result.next {
            NextAttempt::Delivered => (DeliveryState::Delivered, None),
            NextAttempt::GivenUp => (DeliveryState::Dead, None),
            NextAttempt::At(time) => (DeliveryState::Pending, Some(time)),
        };
        let ended = next.is_none().then_some(now.millis());
        let mut write = self.begin_change(Affected::NoTenant).await?;
        sqlx::query(
            "UPDATE webhook_deliveries SET state = ?2, next_at = ?3, ended_at = ?4, attempts = attempts + 1,
                 last_status = ?5, last_error = ?6 WHERE id = ?1 AND state = 'pending'",
        )
        .bind(id.as_str())
        .bind(state.as_str())
        .bind(next.map(Time::millis))
        .bind(ended)
        .bind(result.status)
        .bind(&result.error)
        .execute(&mut *write)
        .await?;
        commit(write).await
    }

    async fn add_test_delivery(
        &self,
        webhook: &WebhookId,
        id: &DeliveryId,
        body: String,
        now: Time,
        entry: NewAuditEntry,
    ) -> Result<Delivery, StateError> {
        let mut write = self.begin_change(Affected::NoTenant).await?;
        find_webhook(&mut write, webhook).await?.ok_or(NO_WEBHOOK)?;
        let kind = HubEventType::WebhookTest;
        fan_out::add_delivery(&mut write, webhook, id, kind, &body, now).await?;
        self.append_effect(&mut write, entry).await?;
        let added = find_delivery(&mut write, webhook, id).await?;
        commit(write).await?;
        self.tell_watchers();
        Ok(added)
    }

    async fn deliveries(
        &self,
        webhook: &WebhookId,
        state: Option<DeliveryState>,
        page: &Page,
    ) -> Result<Paged<Delivery>, StateError> {
        let mut sql =
            QueryBuilder::<Sqlite>::new("SELECT * FROM webhook_deliveries WHERE webhook = ");
        sql.push_bind(webhook.as_str());
        if let Some(state) = state {
            sql.push(" AND state = ").push_bind(state.as_str());
        }
        if let Some([last]) = page.cursor_key::<1>()? {
            let last: i64 = last.parse().map_err(|_| StateError::BadCursor)?;
            sql.push(" AND number < ").push_bind(last);
        }
        sql.push(" ORDER BY number DESC LIMIT ")
            .push_bind(page.fetch_limit());
        let rows = sql.build().fetch_all(self.readers()).await?;
        let found: Vec<_> = rows
            .iter()
            .map(|row| Ok::<_, StateError>((row.count("number")?, delivery_from_row(row)?)))
            .collect::<Result<_, _>>()?;
        Ok(
            Paged::from_fetched(found, page, |(number, _)| [number.to_string()])
                .map(|(_, delivery)| delivery),
        )
    }

    async fn redeliver(
        &self,
        webhook: &WebhookId,
        id: &DeliveryId,
        now: Time,
        entry: NewAuditEntry,
    ) -> Result<Delivery, StateError> {
        let mut write = self.begin_change(Affected::NoTenant).await?;
        let old = find_delivery(&mut write, webhook, id).await?;
        if old.state == DeliveryState::Pending {
            return Err(StateError::Conflict {
                reason: "pending",
                message: "the delivery has not ended yet; it is sent by itself".into(),
            });
        }
        sqlx::query(
            "UPDATE webhook_deliveries SET state = 'pending', attempts = 0, next_at = ?2, ended_at = NULL
             WHERE id = ?1",
        )
        .bind(id.as_str())
        .bind(now.millis())
        .execute(&mut *write)
        .await?;
        self.append_effect(&mut write, entry).await?;
        let again = find_delivery(&mut write, webhook, id).await?;
        commit(write).await?;
        self.tell_watchers();
        Ok(again)
    }

    async fn forget_deliveries(&self, before: Time) -> Result<u64, StateError> {
        let mut forgotten = 0;
        loop {
            let mut write = self.begin_change(Affected::NoTenant).await?;
            let some = sqlx::query(
                "DELETE FROM webhook_deliveries WHERE number IN
                     (SELECT number FROM webhook_deliveries WHERE ended_at < ?1 LIMIT ?2)",
            )
            .bind(before.millis())
            .bind(MAX_FORGOTTEN_DELIVERIES)
            .execute(&mut *write)
            .await?
            .rows_affected();
            commit(write).await?;
            forgotten += some;
            if some < u64::from(MAX_FORGOTTEN_DELIVERIES) {
                return Ok(forgotten);
            }
        }
    }
}
