//! Management tokens in SQLite.

use async_trait::async_trait;
use sqlx::SqliteConnection;

use super::{Affected, SqliteState, commit};
use crate::{
    TokenId,
    api_types::{KeyHash, Role, Time},
    storage::{
        audit::NewAuditEntry,
        state::{
            NewSecret, NewToken, Page, Paged, StateError, TokenRecord, TokenStore,
            columns::json_list,
            records::{is_unlimited, last_admin_token, token_from_row},
        },
    },
};

const NO_TOKEN: StateError = StateError::NotFound { what: "token" };

async fn find_token(
    connection: &mut SqliteConnection,
    id: &TokenId,
) -> Result<TokenRecord, StateError> {
    let row = sqlx::query("SELECT * FROM tokens WHERE id = ?1")
        .bind(id.as_str())
        .fetch_optional(connection)
        .await?;
    token_from_row(&row.ok_or(NO_TOKEN)?)
}

async fn insert_token(write: &mut SqliteConnection, token: &NewToken) -> Result<(), StateError> {
    sqlx::query(
        "INSERT INTO tokens (id, name, role, scopes, tenants, cidrs, last4, hash, unlimited, expires_at, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
    )
    .bind(token.id.as_str())
    .bind(&token.name)
    .bind(token.role.map(Role::as_str))
    .bind(serde_json::to_string(&token.scopes)?)
    .bind(json_list(token.tenants.as_deref())?)
    .bind(serde_json::to_string(&token.cidrs)?)
    .bind(&token.secret.last4)
    .bind(token.secret.hash.as_bytes().as_slice())
    .bind(is_unlimited(token))
    .bind(token.expires_at.map(Time::millis))
    .bind(Time::now().millis())
    .execute(write)
    .await?;
    Ok(())
}

#[async_trait]
impl TokenStore for SqliteState {
    async fn create_token(
        &self,
        token: NewToken,
        entry: NewAuditEntry,
    ) -> Result<TokenRecord, StateError> {
        let mut write = self.begin_change(Affected::NoTenant).await?;
        insert_token(&mut write, &token).await?;
        self.append_effect(&mut write, entry).await?;
        let made = find_token(&mut write, &token.id).await?;
        commit(write).await?;
        Ok(made)
    }

    async fn create_first_token(
        &self,
        token: NewToken,
        entry: NewAuditEntry,
    ) -> Result<bool, StateError> {
        let mut write = self.begin_change(Affected::NoTenant).await?;
        let is_known: bool = sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM tokens)")
            .fetch_one(&mut *write)
            .await?;
        if is_known {
            return Ok(false);
        }
        insert_token(&mut write, &token).await?;
        self.append_effect(&mut write, entry).await?;
        commit(write).await?;
        Ok(true)
    }

    async fn token_of_key(&self, hash: &KeyHash) -> Result<Option<TokenRecord>, StateError> {
        let row = sqlx::query(
            "SELECT * FROM tokens WHERE hash = ?1
             UNION ALL SELECT * FROM tokens WHERE old_hash = ?1 AND old_until > ?2 LIMIT 1",
        )
        .bind(hash.as_bytes().as_slice())
        .bind(Time::now().millis())
        .fetch_optional(self.readers())
        .await?;
        let record = row.map(|row| token_from_row(&row)).transpose()?;
        // Found by index; compared again in constant time.
        Ok(record.filter(|record| {
            record.hash == *hash || record.old.is_some_and(|(old, _)| old == *hash)
        }))
    }

    async fn token(&self, id: &TokenId) -> Result<Option<TokenRecord>, StateError> {
        let mut connection = self.readers().acquire().await?;
        match find_token(&mut connection, id).await {
            Err(StateError::NotFound { .. }) => Ok(None),
            found => found.map(Some),
        }
    }

    async fn tokens(&self, page: &Page) -> Result<Paged<TokenRecord>, StateError> {
        let [created_at, id] = page
            .cursor_key::<2>()?
            .unwrap_or_else(|| ["-1".into(), String::new()]);
        let created_at: i64 = created_at.parse().map_err(|_| StateError::BadCursor)?;
        let rows = sqlx::query(
            "SELECT * FROM tokens WHERE (created_at, id) > (?1, ?2) ORDER BY created_at, id LIMIT ?3",
        )
        .bind(created_at)
        .bind(id)
        .bind(page.fetch_limit())
        .fetch_all(self.readers())
        .await?;
        let tokens: Vec<_> = rows.iter().map(token_from_row).collect::<Result<_, _>>()?;
        Ok(Paged::from_fetched(tokens, page, |record| {
            [
                record.created_at.millis().to_string(),
                record.token.id.to_string(),
            ]
        }))
    }

    async fn has_tokens(&self) -> Result<bool, StateError> {
        Ok(sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM tokens)")
            .fetch_one(self.readers())
            .await?)
    }

    async fn rotate_token(
        &self,
        id: &TokenId,
        secret: NewSecret,
        entry: NewAuditEntry,
    ) -> Result<TokenRecord, StateError> {
        let mut write = self.begin_change(Affected::NoTenant).await?;
        find_token(&mut write, id).await?;
        sqlx::query(
            "UPDATE tokens SET old_hash = iif(?4 IS NULL, NULL, hash), old_until = ?4, hash = ?2, last4 = ?3
             WHERE id = ?1",
        )
        .bind(id.as_str())
        .bind(secret.hash.as_bytes().as_slice())
        .bind(&secret.last4)
        .bind(secret.grace_until.map(Time::millis))
        .execute(&mut *write)
        .await?;
        self.append_effect(&mut write, entry).await?;
        let rotated = find_token(&mut write, id).await?;
        commit(write).await?;
        Ok(rotated)
    }

    async fn revoke_token(&self, id: &TokenId, entry: NewAuditEntry) -> Result<(), StateError> {
        let mut write = self.begin_change(Affected::NoTenant).await?;
        find_token(&mut write, id).await?;
        let (unlimited, others): (bool, i64) = sqlx::query_as(
            "SELECT (SELECT unlimited FROM tokens WHERE id = ?1), COUNT(*) FROM tokens
             WHERE unlimited AND id <> ?1 AND (expires_at IS NULL OR
                 (expires_at > ?2 AND expires_at >= (SELECT expires_at FROM tokens WHERE id = ?1)))",
        )
        .bind(id.as_str())
        .bind(Time::now().millis())
        .fetch_one(&mut *write)
        .await?;
        if unlimited && others == 0 {
            return Err(last_admin_token());
        }
        sqlx::query("DELETE FROM tokens WHERE id = ?1")
            .bind(id.as_str())
            .execute(&mut *write)
            .await?;
        self.append_effect(&mut write, entry).await?;
        commit(write).await
    }

    async fn touch_tokens(&self, used: &[(TokenId, Time)]) -> Result<(), StateError> {
        let mut write = self.begin_change(Affected::NoTenant).await?;
        for (id, time) in used {
            sqlx::query(
                "UPDATE tokens SET last_used_at = MAX(IFNULL(last_used_at, 0), ?2) WHERE id = ?1",
            )
            .bind(id.as_str())
            .bind(time.millis())
            .execute(&mut *write)
            .await?;
        }
        commit(write).await
    }
}
