//! Commands between nodes in PostgreSQL.

use std::time::Duration;

use async_trait::async_trait;
use sqlx::Row;

use super::{PostgresState, leases::tenant_of};
use crate::storage::state::{CommandStore, NodeCommand, StateError};

#[async_trait]
impl CommandStore for PostgresState {
    async fn send_command(
        &self,
        node: &str,
        command: NodeCommand,
        lasting: Duration,
    ) -> Result<(), StateError> {
        let mut write = self.begin_lease_change().await?;
        write
            .execute(
                sqlx::query(
                    "INSERT INTO commands (id, tenant, node, state, request, expires_at)
                     VALUES ($1, $2, $3, 'waiting', $4, clock_timestamp() + $5 * INTERVAL '1 millisecond')",
                )
                .bind(&command.id)
                .bind(command.tenant.as_str())
                .bind(node)
                .bind(&command.request)
                .bind(i64::try_from(lasting.as_millis()).unwrap_or(i64::MAX)),
            )
            .await?;
        write.commit().await
    }

    async fn take_commands(&self, most: u32) -> Result<Vec<NodeCommand>, StateError> {
        let mut write = self.begin_lease_change().await?;
        let rows = write
            .rows(
                sqlx::query(
                    "UPDATE commands SET state = 'running'
                     WHERE id IN (
                         SELECT id FROM commands
                         WHERE node = $1 AND state = 'waiting' AND expires_at > clock_timestamp()
                         LIMIT $2 FOR UPDATE SKIP LOCKED
                     )
                     RETURNING id, tenant, request",
                )
                .bind(&self.node)
                .bind(i64::from(most)),
            )
            .await?;
        write.commit().await?;
        rows.iter()
            .map(|row| {
                Ok(NodeCommand {
                    id: row.try_get("id")?,
                    tenant: tenant_of(row)?,
                    request: row.try_get("request")?,
                })
            })
            .collect()
    }

    async fn answer_command(&self, id: &str, reply: &[u8]) -> Result<(), StateError> {
        let mut write = self.begin_lease_change().await?;
        write
            .execute(
                sqlx::query("UPDATE commands SET state = 'answered', reply = $2 WHERE id = $1")
                    .bind(id)
                    .bind(reply),
            )
            .await?;
        write.commit().await
    }

    async fn take_reply(&self, id: &str) -> Result<Option<Vec<u8>>, StateError> {
        let mut write = self.begin_lease_change().await?;
        let row = write
            .optional(
                sqlx::query(
                    "DELETE FROM commands WHERE id = $1 AND state = 'answered' RETURNING reply",
                )
                .bind(id),
            )
            .await?;
        write.commit().await?;
        Ok(row.map(|row| row.try_get("reply")).transpose()?)
    }

    async fn withdraw_command(&self, id: &str) -> Result<bool, StateError> {
        let mut write = self.begin_lease_change().await?;
        let withdrawn = sqlx::query("DELETE FROM commands WHERE id = $1 AND state = 'waiting'");
        let count = write.execute(withdrawn.bind(id)).await?;
        write.commit().await?;
        Ok(count > 0)
    }

    async fn forget_commands(&self) -> Result<u64, StateError> {
        let mut write = self.begin_lease_change().await?;
        // A reply may come a while after the time is over.
        let over = sqlx::query(
            "DELETE FROM commands WHERE expires_at < clock_timestamp() - INTERVAL '1 hour'",
        );
        let count = write.execute(over).await?;
        write.commit().await?;
        Ok(count)
    }
}
