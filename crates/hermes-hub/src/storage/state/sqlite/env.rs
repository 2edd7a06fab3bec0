//! Variables in SQLite.

use async_trait::async_trait;
use sqlx::SqliteConnection;

use super::{Affected, SqliteState, commit};
use crate::{
    TenantId,
    api_types::{EnvVariable, Time},
    storage::{
        audit::NewAuditEntry,
        encryption::EncryptedSecret,
        state::{EnvStore, NewVariable, StateError, columns::ColumnReader},
    },
};

/// Sets a variable of an existing tenant.
pub(super) async fn set_variable(
    write: &mut SqliteConnection,
    tenant: &TenantId,
    variable: &NewVariable,
) -> Result<(), StateError> {
    sqlx::query(
        "INSERT INTO env (tenant, name, sealed, last4, updated_at) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (tenant, name) DO UPDATE SET sealed = excluded.sealed, last4 = excluded.last4,
             updated_at = excluded.updated_at",
    )
    .bind(tenant.as_str())
    .bind(&variable.name)
    .bind(variable.encrypted.as_bytes())
    .bind(&variable.last4)
    .bind(Time::now().millis())
    .execute(write)
    .await?;
    Ok(())
}

/// Deletes a variable; returns whether it existed.
pub(super) async fn unset_variable(
    write: &mut SqliteConnection,
    tenant: &TenantId,
    name: &str,
) -> Result<bool, StateError> {
    let removed = sqlx::query("DELETE FROM env WHERE tenant = ?1 AND name = ?2")
        .bind(tenant.as_str())
        .bind(name)
        .execute(&mut *write)
        .await?;
    Ok(removed.rows_affected() > 0)
}

/// The tenant's agent has to be restarted to see changed variables.
async fn bump_generation(
    write: &mut SqliteConnection,
    tenant: &TenantId,
) -> Result<(), StateError> {
    let updated = sqlx::query(
        "UPDATE tenants SET generation = generation + 1, revision = revision + 1, updated_at = ?2
         WHERE id = ?1 AND deleted_at IS NULL",
    )
    .bind(tenant.as_str())
    .bind(Time::now().millis())
    .execute(write)
    .await?;
    if updated.rows_affected() == 0 {
        return Err(StateError::NotFound { what: "tenant" });
    }
    Ok(())
}

#[async_trait]
impl EnvStore for SqliteState {
    async fn env(&self, tenant: &TenantId) -> Result<Vec<EnvVariable>, StateError> {
        let rows =
            sqlx::query("SELECT name, last4, updated_at FROM env WHERE tenant = ?1 ORDER BY name")
                .bind(tenant.as_str())
                .fetch_all(self.readers())
                .await?;
        rows.iter()
            .map(|row| {
                Ok(EnvVariable {
                    name: row.text("name")?,
                    set: true,
                    last4: row.optional_text("last4")?,
                    updated_at: row.time("updated_at")?,
                })
            })
            .collect()
    }

    async fn encrypted_env(
        &self,
        tenant: &TenantId,
    ) -> Result<Vec<(String, EncryptedSecret)>, StateError> {
        let rows = sqlx::query("SELECT name, sealed FROM env WHERE tenant = ?1 ORDER BY name")
            .bind(tenant.as_str())
            .fetch_all(self.readers())
            .await?;
        rows.iter()
            .map(|row| {
                Ok((
                    row.text("name")?,
                    EncryptedSecret::from_bytes(row.bytes("sealed")?),
                ))
            })
            .collect()
    }

    async fn env_owners(&self) -> Result<Vec<TenantId>, StateError> {
        let rows = sqlx::query("SELECT DISTINCT tenant FROM env")
            .fetch_all(self.readers())
            .await?;
        rows.iter()
            .map(|row| row.id("tenant", TenantId::parse))
            .collect()
    }

    async fn set_env(
        &self,
        tenant: &TenantId,
        variable: NewVariable,
        entry: NewAuditEntry,
    ) -> Result<(), StateError> {
        let mut write = self.begin_change(Affected::Tenant(tenant)).await?;
        bump_generation(&mut write, tenant).await?;
        set_variable(&mut write, tenant, &variable).await?;
        self.append_effect(&mut write, entry).await?;
        commit(write).await
    }

    async fn unset_env(
        &self,
        tenant: &TenantId,
        name: &str,
        entry: NewAuditEntry,
    ) -> Result<bool, StateError> {
        let mut write = self.begin_change(Affected::Tenant(tenant)).await?;
        let was_set = unset_variable(&mut write, tenant, name).await?;
        if was_set {
            bump_generation(&mut write, tenant).await?;
        }
        self.append_effect(&mut write, entry).await?;
        commit(write).await?;
        Ok(was_set)
    }
}
