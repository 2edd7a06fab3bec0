//! Where the messages of runs went. Delivered means that the platform gave the message an id.

use std::collections::HashMap;

use serde::Serialize;
use sqlx::{Row as _, SqliteConnection, sqlite::SqliteRow};

use super::{
    Execution, Executions,
    queued::{self, RunMessage},
};
use crate::{StoreError, clock, db::row};

pub(super) const CREATE_TABLE: &str = "CREATE TABLE IF NOT EXISTS execution_deliveries (\
     execution_id TEXT NOT NULL, position INTEGER NOT NULL, target TEXT NOT NULL, \
     status TEXT NOT NULL CHECK (status IN ('pending', 'delivered', 'failed')), \
     message_id TEXT, error TEXT, updated_at TEXT NOT NULL, PRIMARY KEY (execution_id, position))";

/// What became of a message for one target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeliveryRecord {
    /// `telegram`, `telegram:-100123:7`.
    pub target: String,
    /// The platform's id of the message: it was delivered.
    pub message_id: Option<String>,
    /// Why it was not.
    pub error: Option<String>,
}

impl DeliveryRecord {
    pub fn pending(target: impl Into<String>) -> Self {
        Self {
            target: target.into(),
            message_id: None,
            error: None,
        }
    }

    pub fn delivered(target: impl Into<String>, message_id: impl Into<String>) -> Self {
        Self {
            message_id: Some(message_id.into()),
            ..Self::pending(target)
        }
    }

    pub fn failed(target: impl Into<String>, error: impl Into<String>) -> Self {
        Self {
            error: Some(error.into()),
            ..Self::pending(target)
        }
    }

    /// Whether it is on its way.
    pub fn is_pending(&self) -> bool {
        self.status() == DeliveryStatus::Pending
    }

    pub fn status(&self) -> DeliveryStatus {
        match (&self.message_id, &self.error) {
            (Some(_), _) => DeliveryStatus::Delivered,
            (None, Some(_)) => DeliveryStatus::Failed,
            (None, None) => DeliveryStatus::Pending,
        }
    }

    fn read(found: &SqliteRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            target: row::required_text(found, "target")?,
            message_id: row::text(found, "message_id")?,
            error: row::text(found, "error")?,
        })
    }
}

/// What became of a run's message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryStatus {
    /// It stays in the home, or there was nothing to say.
    NotNeeded,
    Pending,
    Delivered,
    /// Delivered to some of its targets.
    Partial,
    Failed,
}

impl DeliveryStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotNeeded => "none",
            Self::Pending => "pending",
            Self::Delivered => "delivered",
            Self::Partial => "partial",
            Self::Failed => "failed",
        }
    }

    /// The status of all targets together.
    pub fn of(deliveries: &[DeliveryRecord]) -> Self {
        let has = |status| deliveries.iter().any(|it| it.status() == status);
        match (has(Self::Pending), has(Self::Delivered), has(Self::Failed)) {
            (true, _, _) => Self::Pending,
            (false, true, true) => Self::Partial,
            (false, true, false) => Self::Delivered,
            (false, false, true) => Self::Failed,
            (false, false, false) => Self::NotNeeded,
        }
    }
}

/// What was not delivered and why, in one text for the user.
pub fn describe_failures(deliveries: &[DeliveryRecord]) -> Option<String> {
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    for delivery in deliveries {
        let Some(error) = delivery.error.as_deref() else {
            continue;
        };
        let target = format!("`{}`", delivery.target);
        match reasons.iter_mut().find(|(known, _)| *known == error) {
            Some((_, targets)) => targets.push(target),
            None => reasons.push((error, vec![target])),
        }
    }
    let texts: Vec<String> = reasons
        .into_iter()
        .map(|(error, targets)| format!("{}: {error}", targets.join(", ")))
        .collect();
    (!texts.is_empty()).then(|| format!("not delivered to {}", texts.join("; ")))
}

impl Executions {
    /// Records what became of the message of a run: the same targets in the same order.
    pub async fn record_deliveries(
        &self,
        id: &str,
        deliveries: &[DeliveryRecord],
    ) -> Result<(), StoreError> {
        let mut write = self.database.begin().await?;
        let recorded = async {
            for (position, delivery) in (0_i64..).zip(deliveries) {
                record(&mut write, id, position, delivery).await?;
            }
            queued::forget_settled(&mut write).await
        };
        recorded.await.map_err(|error| self.database.error(error))?;
        write.commit().await
    }

    /// Records what became of the message for one target.
    pub async fn record_delivery(
        &self,
        id: &str,
        position: i64,
        delivery: &DeliveryRecord,
    ) -> Result<(), StoreError> {
        let mut write = self.database.begin().await?;
        let recorded = async {
            record(&mut write, id, position, delivery).await?;
            queued::forget_settled(&mut write).await
        };
        recorded.await.map_err(|error| self.database.error(error))?;
        write.commit().await
    }

    /// Where the message of a run went, or is to go.
    pub async fn deliveries(&self, id: &str) -> Result<Vec<DeliveryRecord>, StoreError> {
        let rows = sqlx::query(
            "SELECT target, message_id, error FROM execution_deliveries WHERE execution_id = ?1 ORDER BY position",
        )
        .bind(id)
        .fetch_all(self.database.readers())
        .await;
        rows.and_then(|rows| rows.iter().map(DeliveryRecord::read).collect())
            .map_err(|error| self.database.error(error))
    }

    /// Records as failed what processes that are gone were delivering, but for what is kept.
    pub(super) async fn recover_deliveries(
        &self,
        is_gone: impl Fn(&Execution) -> bool,
    ) -> Result<(), StoreError> {
        let rows = sqlx::query(
            "SELECT id, job_id, source, pid, process_started_at, status, claimed_at, started_at, finished_at, error \
             FROM executions WHERE process_id != ?1 AND id IN \
             (SELECT execution_id FROM execution_deliveries WHERE status = 'pending')",
        )
        .bind(&self.process)
        .fetch_all(self.database.readers())
        .await;
        for execution in self.read_rows(rows)? {
            if !is_gone(&execution) {
                continue;
            }
            let reason = "its process ended before this was delivered";
            let mut write = self.database.begin().await?;
            sqlx::query(
                "UPDATE execution_deliveries SET status = 'failed', error = ?2 \
                 WHERE execution_id = ?1 AND status = 'pending' AND position NOT IN \
                 (SELECT position FROM queued_deliveries WHERE execution_id = ?1)",
            )
            .bind(&execution.id)
            .bind(reason)
            .execute(&mut *write)
            .await
            .map_err(|error| self.database.error(error))?;
            write.commit().await?;
        }
        Ok(())
    }

    /// Adds what is known about deliveries. A record that 0.19 made has no table for them.
    pub(super) async fn read_deliveries(
        &self,
        executions: &mut [Execution],
    ) -> Result<(), StoreError> {
        let failed = |error| self.database.error(error);
        let has_table = sqlx::query(
            "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'execution_deliveries'",
        )
        .fetch_optional(self.database.readers())
        .await
        .map_err(failed)?
        .is_some();
        if !has_table || executions.is_empty() {
            return Ok(());
        }
        let ids: Vec<&str> = executions.iter().map(|it| it.id.as_str()).collect();
        let ids = serde_json::json!(ids).to_string();
        let rows = sqlx::query(
            "SELECT execution_id, target, message_id, error FROM execution_deliveries \
             WHERE execution_id IN (SELECT value FROM json_each(?1)) ORDER BY execution_id, position",
        )
        .bind(ids)
        .fetch_all(self.database.readers())
        .await
        .map_err(failed)?;
        let mut known: HashMap<String, Vec<DeliveryRecord>> = HashMap::new();
        for found in &rows {
            let id: String = found.try_get("execution_id").map_err(failed)?;
            let delivery = DeliveryRecord::read(found).map_err(failed)?;
            known.entry(id).or_default().push(delivery);
        }
        for execution in executions {
            execution.deliveries = known.remove(&execution.id).unwrap_or_default();
        }
        Ok(())
    }
}

/// Records where the message of a run is to go.
pub(super) async fn record_message(
    connection: &mut SqliteConnection,
    id: &str,
    message: &RunMessage,
) -> Result<(), sqlx::Error> {
    for (position, target) in (0_i64..).zip(&message.targets) {
        let pending = DeliveryRecord::pending(target.target.clone());
        record(connection, id, position, &pending).await?;
    }
    queued::keep(connection, id, message).await
}

async fn record(
    connection: &mut SqliteConnection,
    id: &str,
    position: i64,
    delivery: &DeliveryRecord,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "INSERT INTO execution_deliveries \
         (execution_id, position, target, status, message_id, error, updated_at) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) \
         ON CONFLICT (execution_id, position) DO UPDATE SET \
         target = ?3, status = ?4, message_id = ?5, error = ?6, updated_at = ?7",
    )
    .bind(id)
    .bind(position)
    .bind(&delivery.target)
    .bind(delivery.status().as_str())
    .bind(&delivery.message_id)
    .bind(&delivery.error)
    .bind(clock::utc_iso(clock::epoch_seconds()))
    .execute(connection)
    .await?;
    Ok(())
}

/// Removes deliveries of runs that are not kept any more.
pub(super) async fn prune(connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    sqlx::query(
        "DELETE FROM execution_deliveries WHERE execution_id NOT IN (SELECT id FROM executions)",
    )
    .execute(&mut *connection)
    .await?;
    queued::forget_settled(connection).await
}

#[cfg(test)]
mod tests {
    use hermes_config::Home;
    use jiff::Zoned;

    use super::*;

    #[test]
    fn delivered_means_a_message_id_for_every_target() {
        let pending = DeliveryRecord::pending("telegram");
        let delivered = DeliveryRecord::delivered("slack", "17.01");
        let failed = DeliveryRecord::failed("discord", "no such channel");
        for (deliveries, status) in [
            (vec![], "none"),
            (vec![pending.clone(), delivered.clone()], "pending"),
            (vec![delivered.clone()], "delivered"),
            (vec![delivered, failed.clone()], "partial"),
            (vec![failed], "failed"),
        ] {
            assert_eq!(DeliveryStatus::of(&deliveries).as_str(), status);
        }
    }

    #[tokio::test]
    async fn a_run_that_went_well_may_not_be_delivered() {
        let directory = tempfile::tempdir().unwrap();
        let home = Home::at(directory.path());
        let now = Zoned::now();
        let executions = Executions::open(&home).await.unwrap();
        let id = executions.claim("a", "ticker", None, &now).await.unwrap();
        executions.finish(&id, None, &now).await.unwrap();
        let pending = [DeliveryRecord::pending("telegram")];
        executions.record_deliveries(&id, &pending).await.unwrap();
        let listed = executions.list(None, 10).await.unwrap();
        assert_eq!(listed[0].delivery_status(), DeliveryStatus::Pending);

        // A process that is gone delivers nothing more.
        let next = Executions::open(&home).await.unwrap();
        next.recover(|_| true, &now).await.unwrap();
        let listed = next.list(None, 10).await.unwrap();
        assert_eq!(listed[0].status, super::super::ExecutionStatus::Completed);
        assert_eq!(listed[0].delivery_status(), DeliveryStatus::Failed);
        let delivered = [DeliveryRecord::delivered("telegram", "5")];
        next.record_deliveries(&id, &delivered).await.unwrap();
        let listed = next.list(None, 10).await.unwrap();
        assert_eq!(listed[0].deliveries, delivered);
    }

    #[tokio::test]
    async fn a_record_without_deliveries_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let home = Home::at(directory.path());
        let executions = Executions::open(&home).await.unwrap();
        executions
            .claim("a", "ticker", None, &Zoned::now())
            .await
            .unwrap();
        let mut write = executions.database.begin().await.unwrap();
        sqlx::query("DROP TABLE execution_deliveries")
            .execute(&mut *write)
            .await
            .unwrap();
        write.commit().await.unwrap();
        let reader = Executions::for_reading(&home).unwrap();
        let listed = reader.list(None, 10).await.unwrap();
        assert_eq!(listed[0].delivery_status(), DeliveryStatus::NotNeeded);
    }
}
