//! Webhooks and their queue in PostgreSQL.

use async_trait::async_trait;
use sqlx::{Postgres, QueryBuilder};

use super::{
    PostgresState, retention::MAX_DELETED, session::Sql, storable, write_group::GroupedWrite,
};
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

fn select_webhook(id: &WebhookId) -> Sql<'_> {
    sqlx::query("SELECT * FROM webhooks WHERE id = $1").bind(id.as_str())
}

fn select_delivery<'q>(webhook: &'q WebhookId, id: &'q DeliveryId) -> Sql<'q> {
    sqlx::query("SELECT * FROM webhook_deliveries WHERE id = $1 AND webhook = $2")
        .bind(id.as_str())
        .bind(webhook.as_str())
}

async fn reload_webhook(
    write: &mut GroupedWrite,
    id: &WebhookId,
) -> Result<WebhookRecord, StateError> {
    let row = write.optional(select_webhook(id)).await?;
    webhook_from_row(&row.ok_or(NO_WEBHOOK)?)
}

impl PostgresState {
    /// The last event so far, for a webhook that gets later ones only.
    async fn last_event(&self) -> Result<i64, StateError> {
        self.move_events().await?;
        let mut session = self.begin_alone().await?;
        let last = fan_out::skip_old_events(&mut session).await?;
        session.commit().await?;
        Ok(last)
    }
}

#[async_trait]
impl WebhookStore for PostgresState {
    async fn create_webhook(
        &self,
        webhook: NewWebhook,
        most: u32,
        entry: NewAuditEntry,
    ) -> Result<WebhookRecord, StateError> {
        let since = self.last_event().await?;
        let mut write = self.begin_change().await?;
        let count = sqlx::query("SELECT COUNT(*) AS webhooks FROM webhooks");
        let count = write.one(count).await?.count("webhooks")?;
        if count >= u64::from(most) {
            return Err(StateError::Conflict {
                reason: "too_many",
                message: format!("there are {count} webhooks already; delete one first"),
            });
        }
        let tenants = webhook.tenants.as_ref().map(serde_json::to_string);
        let insert = sqlx::query(
            "INSERT INTO webhooks (id, url, events, tenants, enabled, since, sealed, created_at, updated_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8)",
        )
        .bind(webhook.id.as_str())
        .bind(storable(&webhook.url))
        .bind(serde_json::to_string(&webhook.events)?)
        .bind(tenants.transpose()?)
        .bind(webhook.enabled)
        .bind(since)
        .bind(webhook.secret.as_bytes())
        .bind(Time::now().millis());
        write.execute(insert).await?;
        self.append_effect(&mut write, entry).await?;
        let made = reload_webhook(&mut write, &webhook.id).await?;
        write.commit().await?;
        Ok(made)
    }

    async fn webhook(&self, id: &WebhookId) -> Result<Option<WebhookRecord>, StateError> {
        let row = self.read().await?.optional(select_webhook(id)).await?;
        row.map(|row| webhook_from_row(&row)).transpose()
    }

    async fn webhooks(&self) -> Result<Vec<WebhookRecord>, StateError> {
        let query = sqlx::query("SELECT * FROM webhooks ORDER BY created_at, id");
        let rows = self.read().await?.rows(query).await?;
        rows.iter().map(webhook_from_row).collect()
    }

    async fn update_webhook(
        &self,
        id: &WebhookId,
        change: WebhookChange,
        expected: Option<u64>,
        entry: NewAuditEntry,
    ) -> Result<WebhookRecord, StateError> {
        let before = self.webhook(id).await?.ok_or(NO_WEBHOOK)?;
        // What happened while it was off is not for it.
        let since = if change.enabled == Some(true) && !before.webhook.enabled {
            Some(self.last_event().await?)
        } else {
            None
        };
        let mut write = self.begin_change().await?;
        let lock = sqlx::query("SELECT * FROM webhooks WHERE id = $1 FOR UPDATE").bind(id.as_str());
        let old = write.optional(lock).await?.ok_or(NO_WEBHOOK)?;
        let old = webhook_from_row(&old)?;
        if expected.is_some_and(|expected| expected != old.revision) {
            return Err(StateError::Changed { what: "webhook" });
        }
        let tenants = change.tenants.unwrap_or(old.webhook.tenants);
        let events = change.events.as_ref().map(serde_json::to_string);
        let update = sqlx::query(
            "UPDATE webhooks SET url = COALESCE($2, url), events = COALESCE($3, events), tenants = $4, enabled = $5,
                 since = COALESCE($6, since), sealed = COALESCE($7, sealed), revision = revision + 1, updated_at = $8
             WHERE id = $1",
        )
        .bind(id.as_str())
        .bind(change.url.as_deref().map(storable))
        .bind(events.transpose()?)
        .bind(tenants.as_ref().map(serde_json::to_string).transpose()?)
        .bind(change.enabled.unwrap_or(old.webhook.enabled))
        .bind(since)
        .bind(change.secret.as_ref().map(EncryptedSecret::as_bytes))
        .bind(Time::now().millis());
        write.execute(update).await?;
        self.append_effect(&mut write, entry).await?;
        let changed = reload_webhook(&mut write, id).await?;
        write.commit().await?;
        self.tell_watchers();
        Ok(changed)
    }

    async fn delete_webhook(&self, id: &WebhookId, entry: NewAuditEntry) -> Result<(), StateError> {
        let mut write = self.begin_change().await?;
        let delete = sqlx::query("DELETE FROM webhooks WHERE id = $1").bind(id.as_str());
        if write.execute(delete).await? == 0 {
            return Err(NO_WEBHOOK);
        }
        self.append_effect(&mut write, entry).await?;
        write.commit().await
    }

    async fn disable_webhook(
        &self,
        id: &WebhookId,
        entry: NewAuditEntry,
    ) -> Result<(), StateError> {
        let mut write = self.begin_change().await?;
        let disable = sqlx::query(
            "UPDATE webhooks SET enabled = FALSE, revision = revision + 1, updated_at = $2
             WHERE id = $1 AND enabled",
        )
        .bind(id.as_str())
        .bind(Time::now().millis());
        if write.execute(disable).await? > 0 {
            self.append_effect(&mut write, entry).await?;
        }
        write.commit().await
    }

    async fn fan_out_events(&self, now: Time, most: u32) -> Result<u32, StateError> {
        fan_out::fan_out(self, now, most).await
    }

    async fn due_webhooks(&self, now: Time) -> Result<Vec<WebhookId>, StateError> {
        let due = sqlx::query(
            "SELECT id FROM webhooks WHERE enabled AND EXISTS (
                 SELECT 1 FROM webhook_deliveries d
                 WHERE d.webhook = webhooks.id AND d.state = 'pending' AND d.next_at <= $1) ORDER BY id",
        )
        .bind(now.millis());
        let rows = self.read().await?.rows(due).await?;
        rows.iter()
            .map(|row| row.id("id", WebhookId::parse))
            .collect()
    }

    async fn next_delivery(&self) -> Result<Option<Time>, StateError> {
        let next = sqlx::query(
            "SELECT MIN(soonest.next_at) AS next FROM webhooks, LATERAL (
                 SELECT d.next_at FROM webhook_deliveries d
                 WHERE d.webhook = webhooks.id AND d.state = 'pending' ORDER BY d.next_at LIMIT 1) AS soonest
             WHERE enabled",
        );
        self.read().await?.one(next).await?.optional_time("next")
    }

    async fn claim_deliveries(
        &self,
        webhook: &WebhookId,
        now: Time,
        until: Time,
        most: u32,
    ) -> Result<Vec<ClaimedDelivery>, StateError> {
        let mut session = self.begin_alone().await?;
        let claim = sqlx::query(
            "UPDATE webhook_deliveries SET next_at = $3 WHERE number IN (
                 SELECT number FROM webhook_deliveries
                 WHERE webhook = $1 AND state = 'pending' AND next_at <= $2 ORDER BY next_at, number LIMIT $4
                 FOR UPDATE SKIP LOCKED)
             RETURNING number, id, body, attempts",
        )
        .bind(webhook.as_str())
        .bind(now.millis())
        .bind(until.millis())
        .bind(i64::from(most));
        let rows = session.rows(claim).await?;
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
        session.commit().await?;
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
        let mut write = self.begin_change().await?;
        let finish = sqlx::query(
            "UPDATE webhook_deliveries SET state = $2, next_at = $3, ended_at = $4, attempts = attempts + 1,
                 last_status = $5, last_error = $6 WHERE id = $1 AND state = 'pending'",
        )
        .bind(id.as_str())
        .bind(state.as_str())
        .bind(next.map(Time::millis))
        .bind(next.is_none().then_some(now.millis()))
        .bind(result.status.map(i64::from))
        .bind(result.error.as_deref().map(storable));
        write.execute(finish).await?;
        write.commit().await
    }

    async fn add_test_delivery(
        &self,
        webhook: &WebhookId,
        id: &DeliveryId,
        body: String,
        now: Time,
        entry: NewAuditEntry,
    ) -> Result<Delivery, StateError> {
        let mut write = self.begin_change().await?;
        reload_webhook(&mut write, webhook).await?;
        let kind = HubEventType::WebhookTest;
        fan_out::add_delivery(write.session()?, webhook, id, kind, &body, now).await?;
        self.append_effect(&mut write, entry).await?;
        let added = write.one(select_delivery(webhook, id)).await?;
        write.commit().await?;
        self.tell_watchers();
        delivery_from_row(&added)
    }

    async fn deliveries(
        &self,
        webhook: &WebhookId,
        state: Option<DeliveryState>,
        page: &Page,
    ) -> Result<Paged<Delivery>, StateError> {
        let mut sql =
            QueryBuilder::<Postgres>::new("SELECT * FROM webhook_deliveries WHERE webhook = ");
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
        let rows = self.read().await?.rows(sql.build()).await?;
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
        let mut write = self.begin_change().await?;
        let again = sqlx::query(
            "UPDATE webhook_deliveries SET state = 'pending', attempts = 0, next_at = $3, ended_at = NULL
             WHERE id = $1 AND webhook = $2 AND state <> 'pending' RETURNING *",
        )
        .bind(id.as_str())
        .bind(webhook.as_str())
        .bind(now.millis());
        let Some(row) = write.optional(again).await? else {
            write
                .optional(select_delivery(webhook, id))
                .await?
                .ok_or(NO_DELIVERY)?;
            return Err(StateError::Conflict {
                reason: "pending",
                message: "the delivery has not ended yet; it is sent by itself".into(),
            });
        };
        let again = delivery_from_row(&row)?;
        self.append_effect(&mut write, entry).await?;
        write.commit().await?;
        self.tell_watchers();
        Ok(again)
    }

    async fn forget_deliveries(&self, before: Time) -> Result<u64, StateError> {
        let delete = "DELETE FROM webhook_deliveries WHERE number = ANY(ARRAY(
                SELECT number FROM webhook_deliveries WHERE ended_at < $1 ORDER BY ended_at LIMIT $2))
             AND ended_at < $1";
        self.delete_in_parts(delete, before.millis(), MAX_DELETED)
            .await
    }
}
