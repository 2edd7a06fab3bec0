//! A chat that has another id from now on: what waits for it, and what has arrived from it, follows.

use serde_json::Value;
use sqlx::SqliteConnection;

use super::{
    RuntimeStore,
    inbox::{InboxRow, SELECT_UPDATE},
    outbox::OutboundChat,
};
use crate::{SessionKey, StoreError, db::row};

impl RuntimeStore {
    /// Rewrites the id of a chat in waiting messages, in updates that are not done, and in open approvals. `label` is the
    /// platform as session keys spell it.
    pub async fn rewrite_chat_id(
        &self,
        old: &OutboundChat,
        label: &str,
        new_id: &str,
    ) -> Result<(), StoreError> {
        let mut write = self.database.begin().await?;
        let rewritten = async {
            rewrite_outbox(&mut write, old, new_id).await?;
            rewrite_inbox(&mut write, old, label, new_id).await?;
            rewrite_approvals(&mut write, label, &old.chat, new_id).await
        };
        rewritten
            .await
            .map_err(|error| self.database.error(error))?;
        write.commit().await
    }
}

async fn rewrite_outbox(
    connection: &mut SqliteConnection,
    old: &OutboundChat,
    new_id: &str,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "UPDATE outbox SET chat = ?4, target = json_set(target, '$.id', ?4), next_at = NULL \
         WHERE state IN ('queued', 'claimed', 'preview') AND platform = ?1 AND account = ?2 AND chat = ?3",
    )
    .bind(&old.platform)
    .bind(&old.account)
    .bind(&old.chat)
    .bind(new_id)
    .execute(connection)
    .await?;
    Ok(())
}

async fn rewrite_inbox(
    connection: &mut SqliteConnection,
    old: &OutboundChat,
    label: &str,
    new_id: &str,
) -> Result<(), sqlx::Error> {
    let sql = format!(
        "{SELECT_UPDATE} WHERE state <> 'done' AND platform = ?1 AND account = ?2 \
         AND (instr(payload, ?3) > 0 OR instr(session_key, ?3) > 0)"
    );
    let rows = sqlx::query(sqlx::AssertSqlSafe(sql))
        .bind(&old.platform)
        .bind(&old.account)
        .bind(&old.chat)
        .fetch_all(&mut *connection)
        .await?;
    for found in &rows {
        let mut update = InboxRow::read(found)?;
        rewrite_chats(&mut update.payload, &old.chat, new_id);
        let key = update
            .session_key
            .map(|key| key.with_chat_id(label, &old.chat, new_id).unwrap_or(key));
        sqlx::query(
            "UPDATE inbox SET payload = ?4, session_key = ?5 WHERE platform = ?1 AND account = ?2 AND event_id = ?3",
        )
        .bind(&update.platform)
        .bind(&update.account)
        .bind(&update.event_id)
        .bind(update.payload.to_string())
        .bind(key.as_ref().map(SessionKey::as_str))
        .execute(&mut *connection)
        .await?;
    }
    Ok(())
}

fn is_id(value: &Value, id: &str) -> bool {
    match value {
        Value::String(text) => text == id,
        Value::Number(number) => id
            .parse::<i64>()
            .is_ok_and(|id| number.as_i64() == Some(id)),
        _ => false,
    }
}

/// Rewrites the `id` of every member `chat`. Only Telegram's chats change their ids, and this is how its updates name
/// them.
fn rewrite_chats(value: &mut Value, old: &str, new: &str) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                if name == "chat"
                    && let Some(id) = member.get_mut("id")
                    && is_id(id, old)
                {
                    *id = match new.parse::<i64>() {
                        Ok(number) if id.is_number() => number.into(),
                        _ => new.into(),
                    };
                }
                rewrite_chats(member, old, new);
            }
        }
        Value::Array(values) => {
            for value in values {
                rewrite_chats(value, old, new);
            }
        }
        _ => {}
    }
}

async fn rewrite_approvals(
    connection: &mut SqliteConnection,
    label: &str,
    old: &str,
    new_id: &str,
) -> Result<(), sqlx::Error> {
    let rows = sqlx::query(
        "SELECT id, session_key FROM approvals WHERE state <> 'resolved' AND instr(session_key, ?1) > 0",
    )
    .bind(old)
    .fetch_all(&mut *connection)
    .await?;
    for found in &rows {
        let key = SessionKey::new(row::required_text(found, "session_key")?);
        if let Some(key) = key.with_chat_id(label, old, new_id) {
            sqlx::query("UPDATE approvals SET session_key = ?2 WHERE id = ?1")
                .bind(row::required_text(found, "id")?)
                .bind(key.as_str())
                .execute(&mut *connection)
                .await?;
        }
    }
    Ok(())
}
