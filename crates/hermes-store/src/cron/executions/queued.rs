//! Messages of runs that a gateway's outbox delivers. Their text is kept until they are there, so that the next process
//! goes on where one that was killed stopped.

use sqlx::{SqliteConnection, sqlite::SqliteRow};

use super::Executions;
use crate::{StoreError, db::row};

pub(super) const CREATE_TABLE: &str = "CREATE TABLE IF NOT EXISTS queued_deliveries (\
     execution_id TEXT NOT NULL, position INTEGER NOT NULL, text TEXT NOT NULL, mirrors INTEGER NOT NULL, \
     PRIMARY KEY (execution_id, position))";

/// A target of a run's message, before it is delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryTarget {
    /// `telegram`, `telegram:-100123:7`.
    pub target: String,
    /// Whether the message is kept until it is there, and delivered by the next process if this one ends.
    pub is_kept: bool,
}

/// The message of a run, and where it is to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunMessage {
    pub text: String,
    pub targets: Vec<DeliveryTarget>,
    /// Whether it is added to the conversation of the chat that it goes to.
    pub is_mirrored: bool,
}

/// A kept message that is not there yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedDelivery {
    pub execution_id: String,
    pub job_id: String,
    /// Its place among the targets of the run.
    pub position: i64,
    pub target: String,
    pub text: String,
    pub is_mirrored: bool,
    /// When the run ended. ISO time.
    pub finished_at: Option<String>,
}

impl QueuedDelivery {
    fn read(found: &SqliteRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            execution_id: row::required_text(found, "execution_id")?,
            job_id: row::required_text(found, "job_id")?,
            position: row::integer(found, "position")?,
            target: row::required_text(found, "target")?,
            text: row::required_text(found, "text")?,
            is_mirrored: row::integer(found, "mirrors")? != 0,
            finished_at: row::text(found, "finished_at")?,
        })
    }
}

impl Executions {
    /// The kept messages that are not there yet, oldest first.
    pub async fn queued_deliveries(&self) -> Result<Vec<QueuedDelivery>, StoreError> {
        let rows = sqlx::query(
            "SELECT q.execution_id, q.position, q.text, q.mirrors, d.target, e.job_id, e.finished_at \
             FROM queued_deliveries AS q \
             JOIN execution_deliveries AS d ON d.execution_id = q.execution_id AND d.position = q.position \
             JOIN executions AS e ON e.id = q.execution_id \
             WHERE d.status = 'pending' ORDER BY e.claimed_at, e.id, q.position",
        )
        .fetch_all(self.database.readers())
        .await;
        rows.and_then(|rows| rows.iter().map(QueuedDelivery::read).collect())
            .map_err(|error| self.database.error(error))
    }
}

/// Keeps a message for the targets that want that.
pub(super) async fn keep(
    connection: &mut SqliteConnection,
    id: &str,
    message: &RunMessage,
) -> Result<(), sqlx::Error> {
    for (position, target) in (0_i64..).zip(&message.targets) {
        if target.is_kept {
            sqlx::query("INSERT OR REPLACE INTO queued_deliveries VALUES (?1, ?2, ?3, ?4)")
                .bind(id)
                .bind(position)
                .bind(&message.text)
                .bind(message.is_mirrored)
                .execute(&mut *connection)
                .await?;
        }
    }
    Ok(())
}

/// Forgets messages that are there, or never will be.
pub(super) async fn forget_settled(connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    sqlx::query(
        "DELETE FROM queued_deliveries WHERE NOT EXISTS (SELECT 1 FROM execution_deliveries AS d \
         WHERE d.execution_id = queued_deliveries.execution_id AND d.position = queued_deliveries.position \
         AND d.status = 'pending')",
    )
    .execute(connection)
    .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use hermes_config::Home;
    use jiff::Zoned;

    use super::*;
    use crate::cron::{DeliveryRecord, DeliveryStatus};

    #[tokio::test]
    async fn a_kept_message_waits_for_the_next_process_and_others_fail() {
        let directory = tempfile::tempdir().unwrap();
        let home = Home::at(directory.path());
        let now = Zoned::now();
        let executions = Executions::open(&home).await.unwrap();
        let id = executions.claim("a", "ticker", None, &now).await.unwrap();
        let target = |target: &str, is_kept| DeliveryTarget {
            target: target.into(),
            is_kept,
        };
        let message = RunMessage {
            text: "the news".into(),
            targets: vec![target("slack", false), target("telegram:7", true)],
            is_mirrored: true,
        };
        executions
            .finish_with_message(&id, None, Some(&message), &now)
            .await
            .unwrap();

        let next = Executions::open(&home).await.unwrap();
        next.recover(|_| true, &now).await.unwrap();
        let listed = next.list(None, 10).await.unwrap();
        let statuses: Vec<_> = listed[0]
            .deliveries
            .iter()
            .map(DeliveryRecord::status)
            .collect();
        assert_eq!(statuses, [DeliveryStatus::Failed, DeliveryStatus::Pending]);
        let queued = next.queued_deliveries().await.unwrap();
        assert_eq!(queued.len(), 1);
        assert_eq!(
            (queued[0].position, queued[0].text.as_str()),
            (1, "the news")
        );
        assert_eq!(queued[0].finished_at, listed[0].finished_at);

        let there = DeliveryRecord::delivered("telegram:7", "55");
        next.record_delivery(&id, 1, &there).await.unwrap();
        assert_eq!(next.queued_deliveries().await.unwrap(), []);
        let listed = next.list(None, 10).await.unwrap();
        assert_eq!(listed[0].delivery_status(), DeliveryStatus::Partial);
        assert_eq!(listed[0].deliveries[1], there);
    }
}
