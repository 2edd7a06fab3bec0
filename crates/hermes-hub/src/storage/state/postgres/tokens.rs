//! Management tokens in PostgreSQL.

use async_trait::async_trait;

use super::{PostgresState, storable, write_group::GroupedWrite};
use crate::{
    TokenId,
    api_types::{KeyHash, Role, Time},
    storage::{
        audit::NewAuditEntry,
        state::{
            NewSecret, NewToken, Page, Paged, StateError, TokenRecord, TokenStore,
            columns::ColumnReader,
            records::{is_unlimited, last_admin_token, token_from_row},
        },
    },
};

const NO_TOKEN: StateError = StateError::NotFound { what: "token" };

async fn insert_token(
    write: &mut GroupedWrite,
    token: &NewToken,
) -> Result<TokenRecord, StateError> {
    let tenants = token.tenants.as_ref().map(serde_json::to_string);
    let insert = sqlx::query(
        "INSERT INTO tokens (id, name, role, scopes, tenants, cidrs, last4, hash, unlimited, expires_at, created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) RETURNING *",
    )
    .bind(token.id.as_str())
    .bind(storable(&token.name))
    .bind(token.role.map(Role::as_str))
    .bind(serde_json::to_string(&token.scopes)?)
    .bind(tenants.transpose()?)
    .bind(serde_json::to_string(&token.cidrs)?)
    .bind(&token.secret.last4)
    .bind(token.secret.hash.as_bytes().as_slice())
    .bind(is_unlimited(token))
    .bind(token.expires_at.map(Time::millis))
    .bind(Time::now().millis());
    token_from_row(&write.one(insert).await?)
}

#[async_trait]
impl TokenStore for PostgresState {
    async fn create_token(
        &self,
        token: NewToken,
        entry: NewAuditEntry,
    ) -> Result<TokenRecord, StateError> {
        let mut write = self.begin_change().await?;
        let made = insert_token(&mut write, &token).await?;
        self.append_effect(&mut write, entry).await?;
        write.commit().await?;
        Ok(made)
    }

    async fn create_first_token(
        &self,
        token: NewToken,
        entry: NewAuditEntry,
    ) -> Result<bool, StateError> {
        let mut write = self.begin_change().await?;
        // Of nodes that start together, one creates it.
        write
            .execute(sqlx::query("LOCK TABLE tokens IN SHARE ROW EXCLUSIVE MODE"))
            .await?;
        let known = sqlx::query("SELECT EXISTS (SELECT 1 FROM tokens) AS is_known");
        if write.one(known).await?.flag("is_known")? {
            return Ok(false);
        }
        insert_token(&mut write, &token).await?;
        self.append_effect(&mut write, entry).await?;
        write.commit().await?;
        Ok(true)
    }

    async fn token_of_key(&self, hash: &KeyHash) -> Result<Option<TokenRecord>, StateError> {
        let query = sqlx::query(
            "SELECT * FROM tokens WHERE hash = $1
             UNION ALL SELECT * FROM tokens WHERE old_hash = $1 AND old_until > hub_now() LIMIT 1",
        )
        .bind(hash.as_bytes().as_slice());
        let row = self.read().await?.optional(query).await?;
        let record = row.map(|row| token_from_row(&row)).transpose()?;
        // Found by index; compared again in constant time.
        Ok(record.filter(|record| {
            record.hash == *hash || record.old.is_some_and(|(old, _)| old == *hash)
        }))
    }

    async fn token(&self, id: &TokenId) -> Result<Option<TokenRecord>, StateError> {
        let query = sqlx::query("SELECT * FROM tokens WHERE id = $1").bind(id.as_str());
        let row = self.read().await?.optional(query).await?;
        row.map(|row| token_from_row(&row)).transpose()
    }

    async fn tokens(&self, page: &Page) -> Result<Paged<TokenRecord>, StateError> {
        let [created_at, id] = page
            .cursor_key::<2>()?
            .unwrap_or_else(|| ["-1".into(), String::new()]);
        let created_at: i64 = created_at.parse().map_err(|_| StateError::BadCursor)?;
        let query = sqlx::query(
            "SELECT * FROM tokens WHERE (created_at, id) > ($1, $2) ORDER BY created_at, id LIMIT $3",
        )
        .bind(created_at)
        .bind(id)
        .bind(page.fetch_limit());
        let rows = self.read().await?.rows(query).await?;
        let tokens: Vec<_> = rows.iter().map(token_from_row).collect::<Result<_, _>>()?;
        Ok(Paged::from_fetched(tokens, page, |record| {
            [
                record.created_at.millis().to_string(),
                record.token.id.to_string(),
            ]
        }))
    }

    async fn has_tokens(&self) -> Result<bool, StateError> {
        let query = sqlx::query("SELECT EXISTS (SELECT 1 FROM tokens) AS is_known");
        self.read().await?.one(query).await?.flag("is_known")
    }

    async fn rotate_token(
        &self,
        id: &TokenId,
        secret: NewSecret,
        entry: NewAuditEntry,
    ) -> Result<TokenRecord, StateError> {
        let mut write = self.begin_change().await?;
        let update = sqlx::query(
            "UPDATE tokens SET old_hash = CASE WHEN $4::bigint IS NULL THEN NULL ELSE hash END, old_until = $4,
                 hash = $2, last4 = $3
             WHERE id = $1 RETURNING *",
        )
        .bind(id.as_str())
        .bind(secret.hash.as_bytes().as_slice())
        .bind(&secret.last4)
        .bind(secret.grace_until.map(Time::millis));
        let row = write.optional(update).await?;
        let rotated = token_from_row(&row.ok_or(NO_TOKEN)?)?;
        self.append_effect(&mut write, entry).await?;
        write.commit().await?;
        Ok(rotated)
    }

    async fn revoke_token(&self, id: &TokenId, entry: NewAuditEntry) -> Result<(), StateError> {
        let mut write = self.begin_change().await?;
        // All that count are locked: two nodes must not revoke the last two, each because of the other.
        let counted = sqlx::query(
            "SELECT id, expires_at, unlimited, expires_at IS NULL OR expires_at > hub_now() AS is_valid
             FROM tokens WHERE unlimited OR id = $1 ORDER BY id FOR UPDATE",
        )
        .bind(id.as_str());
        let rows = write.rows(counted).await?;
        let mut revoked = None;
        let mut others = Vec::new();
        for row in &rows {
            let token = (
                row.optional_time("expires_at")?,
                row.flag("unlimited")?,
                row.flag("is_valid")?,
            );
            if row.text("id")? == id.as_str() {
                revoked = Some(token);
            } else {
                others.push(token);
            }
        }
        let (expires_at, is_counted, _) = revoked.ok_or(NO_TOKEN)?;
        // One that never ends lasts longer than any other.
        let lasts = |end: Option<Time>| match (end, expires_at) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(end), Some(own)) => end >= own,
        };
        let is_replaced = others
            .iter()
            .any(|(end, _, is_valid)| *is_valid && lasts(*end));
        if is_counted && !is_replaced {
            return Err(last_admin_token());
        }
        write
            .execute(sqlx::query("DELETE FROM tokens WHERE id = $1").bind(id.as_str()))
            .await?;
        self.append_effect(&mut write, entry).await?;
        write.commit().await
    }

    async fn touch_tokens(&self, used: &[(TokenId, Time)]) -> Result<(), StateError> {
        if used.is_empty() {
            return Ok(());
        }
        let mut used: Vec<_> = used.to_vec();
        // In one order, so that nodes do not wait for each other.
        used.sort_by(|(one, _), (other, _)| one.as_str().cmp(other.as_str()));
        let ids: Vec<String> = used.iter().map(|(id, _)| id.to_string()).collect();
        let times: Vec<i64> = used.iter().map(|(_, time)| time.millis()).collect();
        let mut write = self.begin_change().await?;
        let update = sqlx::query(
            "UPDATE tokens SET last_used_at = GREATEST(COALESCE(last_used_at, 0), used.time)
             FROM unnest($1::text[], $2::bigint[]) AS used (id, time) WHERE tokens.id = used.id",
        )
        .bind(ids)
        .bind(times);
        write.execute(update).await?;
        write.commit().await
    }
}
