//! The gateway's routing rows: which session a chat is in, one set per sessions directory.

use serde_json::Value;

use crate::{SessionKey, Store, StoreError, clock::epoch_seconds, db::row, json};

impl Store {
    /// The routing entries of a scope. Those that are not JSON are left out.
    pub async fn routing(&self, scope: &str) -> Result<Vec<(SessionKey, Value)>, StoreError> {
        if !self.layout().has("gateway_routing") {
            return Ok(Vec::new());
        }
        let rows = sqlx::query(
            "SELECT session_key, entry_json FROM gateway_routing WHERE scope = ?1 ORDER BY session_key",
        )
        .bind(scope)
        .fetch_all(self.readers())
        .await
        .map_err(|error| self.error(error))?;
        let mut entries = Vec::with_capacity(rows.len());
        for found in &rows {
            let key =
                row::required_text(found, "session_key").map_err(|error| self.error(error))?;
            let entry =
                row::required_text(found, "entry_json").map_err(|error| self.error(error))?;
            if let Some(entry) = json::parse_json(&entry) {
                entries.push((SessionKey::new(key), entry));
            } else {
                tracing::warn!(key, "skipping routing entry that is not JSON");
            }
        }
        Ok(entries)
    }

    /// Puts these entries in the place of all that the scope had.
    pub async fn replace_routing(
        &self,
        scope: &str,
        entries: &[(SessionKey, Value)],
    ) -> Result<(), StoreError> {
        let mut write = self.begin().await?;
        sqlx::query("DELETE FROM gateway_routing WHERE scope = ?1")
            .bind(scope)
            .execute(&mut *write)
            .await
            .map_err(|error| self.error(error))?;
        let now = epoch_seconds();
        for (key, entry) in entries {
            sqlx::query(
                "INSERT INTO gateway_routing (scope, session_key, entry_json, updated_at) VALUES (?1, ?2, ?3, ?4) \
                 ON CONFLICT(scope, session_key) DO UPDATE SET entry_json = excluded.entry_json",
            )
            .bind(scope)
            .bind(key.as_str())
            .bind(entry.to_string())
            .bind(now)
            .execute(&mut *write)
            .await
            .map_err(|error| self.error(error))?;
        }
        write.commit().await
    }
}
