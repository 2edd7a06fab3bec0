//! A chat that has another id from now on: its sessions and its routing follow.

use serde_json::Value;
use sqlx::SqliteConnection;

use crate::{SessionKey, Store, StoreError, db::row, json};

impl Store {
    /// Rewrites the id of a chat in sessions and in the routing. `platform` is spelled as in session keys. Returns the
    /// session keys that changed, with what they are now.
    ///
    /// Where the chat is known by its new id already, that routing stays.
    pub async fn rewrite_chat_id(
        &self,
        platform: &str,
        old: &str,
        new: &str,
    ) -> Result<Vec<(SessionKey, SessionKey)>, StoreError> {
        let change = ChatIdChange { platform, old, new };
        let mut write = self.begin().await?;
        let rewritten = async {
            let mut keys = change.rewrite_sessions(&mut write).await?;
            for key in change.rewrite_routing(&mut write).await? {
                if !keys.contains(&key) {
                    keys.push(key);
                }
            }
            Ok(keys)
        };
        let keys = rewritten.await.map_err(|error| self.error(error))?;
        write.commit().await?;
        Ok(keys)
    }
}

struct ChatIdChange<'a> {
    platform: &'a str,
    old: &'a str,
    new: &'a str,
}

impl ChatIdChange<'_> {
    fn key(&self, key: &str) -> Option<(SessionKey, SessionKey)> {
        let key = SessionKey::new(key);
        let moved = key.with_chat_id(self.platform, self.old, self.new)?;
        Some((key, moved))
    }

    fn origin(&self, origin: &mut Value) {
        if let Some(id) = origin.get_mut("chat_id")
            && match &*id {
                Value::String(text) => text == self.old,
                Value::Number(number) => number.to_string() == self.old,
                _ => false,
            }
        {
            *id = self.new.into();
        }
    }

    async fn rewrite_sessions(
        &self,
        connection: &mut SqliteConnection,
    ) -> Result<Vec<(SessionKey, SessionKey)>, sqlx::Error> {
        let rows = sqlx::query(
            "SELECT id, session_key, chat_id, origin_json FROM sessions \
             WHERE session_key IS NOT NULL AND instr(session_key, ?1) > 0",
        )
        .bind(self.old)
        .fetch_all(&mut *connection)
        .await?;
        let mut keys = Vec::new();
        for found in &rows {
            let Some(moved) = self.key(&row::required_text(found, "session_key")?) else {
                continue;
            };
            let mut origin = row::json(found, "origin_json")?;
            if let Some(origin) = &mut origin {
                self.origin(origin);
            }
            sqlx::query(
                "UPDATE sessions SET session_key = ?2, chat_id = CASE chat_id WHEN ?3 THEN ?4 ELSE chat_id END, \
                 origin_json = COALESCE(?5, origin_json) WHERE id = ?1",
            )
            .bind(row::required_text(found, "id")?)
            .bind(moved.1.as_str())
            .bind(self.old)
            .bind(self.new)
            .bind(origin.map(|origin| origin.to_string()))
            .execute(&mut *connection)
            .await?;
            if !keys.contains(&moved) {
                keys.push(moved);
            }
        }
        Ok(keys)
    }

    async fn rewrite_routing(
        &self,
        connection: &mut SqliteConnection,
    ) -> Result<Vec<(SessionKey, SessionKey)>, sqlx::Error> {
        let rows = sqlx::query(
            "SELECT scope, session_key, entry_json FROM gateway_routing WHERE instr(session_key, ?1) > 0",
        )
        .bind(self.old)
        .fetch_all(&mut *connection)
        .await?;
        let mut keys = Vec::new();
        for found in &rows {
            let Some(moved) = self.key(&row::required_text(found, "session_key")?) else {
                continue;
            };
            let text = row::required_text(found, "entry_json")?;
            let mut entry = json::parse_json(&text).unwrap_or_default();
            if let Some(key) = entry.get_mut("session_key") {
                *key = moved.1.as_str().into();
            }
            if let Some(origin) = entry.get_mut("origin") {
                self.origin(origin);
            }
            let scope = row::required_text(found, "scope")?;
            sqlx::query(
                "INSERT INTO gateway_routing (scope, session_key, entry_json, updated_at) \
                 SELECT scope, ?3, ?4, updated_at FROM gateway_routing WHERE scope = ?1 AND session_key = ?2 \
                 ON CONFLICT(scope, session_key) DO NOTHING",
            )
            .bind(&scope)
            .bind(moved.0.as_str())
            .bind(moved.1.as_str())
            .bind(entry.to_string())
            .execute(&mut *connection)
            .await?;
            sqlx::query("DELETE FROM gateway_routing WHERE scope = ?1 AND session_key = ?2")
                .bind(&scope)
                .bind(moved.0.as_str())
                .execute(&mut *connection)
                .await?;
            keys.push(moved);
        }
        Ok(keys)
    }
}
