//! Where reading from a platform goes on: one position for each account, in the platform's own form.

use serde_json::Value;
use sqlx::SqliteConnection;

use super::RuntimeStore;
use crate::{StoreError, clock::epoch_seconds, json};

impl RuntimeStore {
    /// The position that was stored last.
    pub async fn platform_cursor(
        &self,
        platform: &str,
        account: &str,
    ) -> Result<Option<Value>, StoreError> {
        let value: Option<String> =
            sqlx::query_scalar("SELECT value FROM cursors WHERE platform = ?1 AND account = ?2")
                .bind(platform)
                .bind(account)
                .fetch_optional(self.database.readers())
                .await
                .map_err(|error| self.database.error(error))?;
        Ok(value.and_then(|value| json::parse_json(&value)))
    }
}

pub(super) async fn write_cursor(
    connection: &mut SqliteConnection,
    platform: &str,
    account: &str,
    cursor: &Value,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "INSERT INTO cursors (platform, account, value, updated_at) VALUES (?1, ?2, ?3, ?4) \
         ON CONFLICT(platform, account) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at",
    )
    .bind(platform)
    .bind(account)
    .bind(cursor.to_string())
    .bind(epoch_seconds())
    .execute(connection)
    .await?;
    Ok(())
}
