//! Updates that wait in the inbox because their conversation has no room: `new`, with the key of the conversation.

use sqlx::SqliteConnection;

use super::{InboxKey, InboxRow, RuntimeStore, SELECT_UPDATE};
use crate::{SessionKey, StoreError};

impl RuntimeStore {
    /// Leaves an update to be taken up later. Returns whether it was not done yet.
    pub async fn defer_update(
        &self,
        key: &InboxKey,
        session_key: &SessionKey,
    ) -> Result<bool, StoreError> {
        self.change_update(
            "UPDATE inbox SET state = 'new', session_key = ?4 \
             WHERE platform = ?1 AND account = ?2 AND event_id = ?3 AND state <> 'done'",
            key,
            Some(session_key),
        )
        .await
    }

    /// Takes up updates of a conversation, oldest first.
    pub async fn take_deferred(
        &self,
        session_key: &SessionKey,
        most: usize,
    ) -> Result<Vec<InboxRow>, StoreError> {
        self.change_deferred(
            session_key,
            most,
            "UPDATE inbox SET session_key = NULL WHERE platform = ?1 AND account = ?2 AND event_id = ?3",
        )
        .await
    }

    /// Drops what waits of a conversation. Returns which updates these were.
    pub async fn finish_deferred(
        &self,
        session_key: &SessionKey,
    ) -> Result<Vec<InboxKey>, StoreError> {
        let rows = self.change_deferred(
            session_key,
            usize::MAX,
            "UPDATE inbox SET state = 'done' WHERE platform = ?1 AND account = ?2 AND event_id = ?3",
        );
        Ok(rows.await?.iter().map(InboxRow::key).collect())
    }

    async fn change_deferred(
        &self,
        session_key: &SessionKey,
        most: usize,
        change: &'static str,
    ) -> Result<Vec<InboxRow>, StoreError> {
        let mut write = self.database.begin_in_group().await?;
        let changed = change_rows(&mut write, session_key, most, change).await;
        let rows = changed.map_err(|error| self.database.error(error))?;
        write.commit().await?;
        Ok(rows)
    }
}

async fn change_rows(
    connection: &mut SqliteConnection,
    session_key: &SessionKey,
    most: usize,
    change: &'static str,
) -> Result<Vec<InboxRow>, sqlx::Error> {
    let sql = format!(
        "{SELECT_UPDATE} WHERE state = 'new' AND session_key = ?1 ORDER BY received_at, rowid LIMIT ?2"
    );
    let found = sqlx::query(sqlx::AssertSqlSafe(sql))
        .bind(session_key.as_str())
        .bind(i64::try_from(most).unwrap_or(i64::MAX))
        .fetch_all(&mut *connection)
        .await?;
    let rows: Vec<InboxRow> = found.iter().map(InboxRow::read).collect::<Result<_, _>>()?;
    for row in &rows {
        sqlx::query(change)
            .bind(&row.platform)
            .bind(&row.account)
            .bind(&row.event_id)
            .execute(&mut *connection)
            .await?;
    }
    Ok(rows)
}
